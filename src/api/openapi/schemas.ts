// Converts zod schemas to schemas of an OpenAPI document. A schema with an id becomes a component.
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'

export type JsonSchema = Record<string, unknown>

export type Schemas = {
  /** The schema, or a reference to its component. `input`: in requests; `output`: in answers. */
  of(schema: z.ZodType, io: 'input' | 'output'): JsonSchema
  /** A valid value, from the examples of the schema's parts. */
  exampleOf(schema: JsonSchema): unknown
  /** The referenced components, by name. */
  readonly components: Record<string, JsonSchema>
}

export function createSchemas(): Schemas {
  const components: Record<string, JsonSchema> = {}

  function of(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    // The schema is wrapped in an array, so that zod replaces the schema itself, too, by a reference to its component.
    const { $defs = {}, items } = withComponentRefs(
      z.toJSONSchema(z.array(schema), {
        io,
        override: ({ jsonSchema }) => tidy(jsonSchema as JsonSchema, io),
      }),
    )
    for (const [name, component] of Object.entries($defs)) {
      const existing = components[name]
      if (existing !== undefined && !isDeepStrictEqual(existing, component))
        throw new Error(`Two different schemas have the id ${name}: use one schema, or another id.`)
      components[name] = component
    }
    return items
  }

  function exampleOf(schema: JsonSchema): unknown {
    const { $ref, examples, default: standard, enum: values, type, properties, items, anyOf } = schema
    if (Array.isArray(examples)) return examples[0] as unknown
    if (typeof $ref === 'string') return exampleOf(components[$ref.split('/').at(-1)!]!)
    if ('const' in schema) return schema['const']
    if (Array.isArray(values)) return values[0] as unknown
    if (Array.isArray(anyOf)) return exampleOf(anyOf[0] as JsonSchema)
    if ([type].flat()[0] === 'array') return [exampleOf(items as JsonSchema)]
    if (typeof properties === 'object')
      return Object.fromEntries(
        Object.entries(properties as Record<string, JsonSchema>).map(([name, each]) => [
          name,
          exampleOf(each),
        ]),
      )
    return standard ?? {}
  }

  return { of, exampleOf, components }
}

// Returns a copy of the schema in which references to definitions are references to components. The copy has no
// undefined values, because serializing drops them.
function withComponentRefs(schema: object): { $defs?: Record<string, JsonSchema>; items: JsonSchema } {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/')
  return JSON.parse(text) as { $defs?: Record<string, JsonSchema>; items: JsonSchema }
}

/** Adapts a JSON schema that zod created, for generators of clients. */
function tidy(schema: JsonSchema, io: 'input' | 'output'): void {
  // An answer may get new fields at any time.
  if (io === 'output' && schema['additionalProperties'] === false) delete schema['additionalProperties']
  if (schema['format'] === 'uuid') delete schema['pattern']
  if (schema['type'] === 'integer') {
    if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum']
    schema['format'] ??= 'int64'
  }
  // Generators treat a field with a default as always present, which is wrong for a reference to a component.
  if ('$ref' in schema) delete schema['default']
  // zod omits the default of a transformed value, so such schemas have it as `standard`.
  if ('standard' in schema) {
    schema['default'] = schema['standard']
    delete schema['standard']
  }
  if ('example' in schema) {
    schema['examples'] = [schema['example']]
    delete schema['example']
  }
  allowNull(schema)
}

// Writes `type: [string, null]` for a nullable type: generators turn `anyOf` into a union.
function allowNull(schema: JsonSchema): void {
  const [value, null_schema, ...more] = (schema['anyOf'] ?? []) as JsonSchema[]
  if (value === undefined || null_schema?.['type'] !== 'null' || more.length > 0) return
  if (typeof value['type'] !== 'string') return
  delete schema['anyOf']
  const { type, enum: values, ...rest } = value
  for (const [name, each] of Object.entries(rest)) schema[name] ??= each
  schema['type'] = [type, 'null']
  if (Array.isArray(values)) schema['enum'] = [...(values as unknown[]), null]
}
