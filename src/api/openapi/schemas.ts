// Schemas of zod as those of an OpenAPI document: what has an id becomes a component and is referred to.
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'

export type JsonSchema = Record<string, unknown>

export type Schemas = {
  /** A schema, or a reference to it where it has an id. `input`: as a caller sends it; `output`: as it is answered. */
  of(schema: z.ZodType, io: 'input' | 'output'): JsonSchema
  /** A value that the schema takes, made of the examples of its parts. */
  exampleOf(schema: JsonSchema): unknown
  /** What was referred to, by name. */
  readonly components: Record<string, JsonSchema>
}

export function createSchemas(): Schemas {
  const components: Record<string, JsonSchema> = {}

  function of(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    // As the item of an array also the schema itself is referred to by its id.
    const { $defs = {}, items } = withComponentRefs(
      z.toJSONSchema(z.array(schema), {
        io,
        override: ({ jsonSchema }) => tidy(jsonSchema as JsonSchema, io),
      }),
    )
    for (const [name, component] of Object.entries($defs)) {
      const existing = components[name]
      if (existing !== undefined && !isDeepStrictEqual(existing, component))
        throw new Error(`Two schemas are called ${name}: what is sent and answered alike must be the same.`)
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

// Through text: what is undefined is gone, and a definition of the schema is one of the document.
function withComponentRefs(schema: object): { $defs?: Record<string, JsonSchema>; items: JsonSchema } {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/')
  return JSON.parse(text) as { $defs?: Record<string, JsonSchema>; items: JsonSchema }
}

/** Removes what zod adds and generators cannot use, and adds what they need. */
function tidy(schema: JsonSchema, io: 'input' | 'output'): void {
  // An answer may get new fields at any time.
  if (io === 'output' && schema['additionalProperties'] === false) delete schema['additionalProperties']
  if (schema['format'] === 'uuid') delete schema['pattern']
  if (schema['type'] === 'integer') {
    if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum']
    schema['format'] ??= 'int64'
  }
  // Generators treat a field with a default as always present. zod drops the default of a converted value, so it is
  // given as `standard`.
  if ('$ref' in schema) delete schema['default']
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

// `type: [string, null]` where one type can be null; generators make an alternative of `anyOf`.
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
