// JSON Schemas of tenants, as far as they can be judged without following them. What follows them has limits of its own.
import { Ajv2020 } from 'ajv/dist/2020.js'

export const SCHEMA_LIMIT_BYTES = 16 * 1024

/** Keywords that give a schema another name, or make the validator do something else than validate. */
const REFUSED = [
  '$id',
  '$anchor',
  '$dynamicRef',
  '$dynamicAnchor',
  '$recursiveRef',
  '$recursiveAnchor',
  '$vocabulary',
  '$async',
]
const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false })

/** What is wrong with a schema, or null. It costs time by the size of the schema only. */
export function problemOfSchema(given: Record<string, unknown>): string | null {
  if (Buffer.byteLength(JSON.stringify(given)) > SCHEMA_LIMIT_BYTES)
    return `must be at most ${SCHEMA_LIMIT_BYTES / 1024} KiB of JSON`
  // Every schema is taken for one of draft 2020-12.
  const { $schema: _dialect, ...schema } = given
  if (ajv.validateSchema(schema) !== true) return 'must be a JSON Schema (draft 2020-12)'
  return problemIn(schema, schema)
}

function problemIn(part: unknown, schema: object): string | null {
  if (typeof part !== 'object' || part === null) return null
  for (const [name, value] of Object.entries(part)) {
    if (REFUSED.includes(name)) return `must not use ${name}`
    if (name === '$ref' && typeof value === 'string' && !leadsInto(schema, value))
      return 'must refer with $ref to parts of itself only, such as #/$defs/item'
    if (name === 'pattern' && typeof value === 'string' && !isPattern(value))
      return 'must have patterns that are regular expressions'
    if (name === 'patternProperties' && !Object.keys(Object(value)).every(isPattern))
      return 'must have patterns that are regular expressions'
    const problem = problemIn(value, schema)
    if (problem !== null) return problem
  }
  return null
}

/** Whether a reference is a JSON pointer to a part that is there. */
function leadsInto(schema: object, reference: string): boolean {
  if (reference === '#') return true
  if (!reference.startsWith('#/')) return false
  let part: unknown = schema
  for (const step of reference.slice(2).split('/')) {
    const name = decoded(step)
    if (typeof part !== 'object' || part === null || name === null || !Object.hasOwn(part, name)) return false
    part = (part as Record<string, unknown>)[name]
  }
  return (typeof part === 'object' && part !== null) || typeof part === 'boolean'
}

function decoded(step: string): string | null {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}
