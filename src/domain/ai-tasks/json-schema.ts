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
/** Keywords whose value is data, whatever it looks like. */
const DATA = ['const', 'enum', 'default', 'examples']
/** Keywords whose value holds schemas under names of the caller's. */
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']
/** All patterns of a schema together, and the Unicode classes in them: each of these is hundreds of ranges to read. */
const PATTERNS_LIMIT = 1024
const CLASSES_LIMIT = 8
const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false })

/** What is wrong with a schema, or null. It costs time by the size of the schema only. */
export function problemOfSchema(given: Record<string, unknown>): string | null {
  if (Buffer.byteLength(JSON.stringify(given)) > SCHEMA_LIMIT_BYTES)
    return `must be at most ${SCHEMA_LIMIT_BYTES / 1024} KiB of JSON`
  // Every schema is taken for one of draft 2020-12.
  const { $schema: _dialect, ...schema } = given
  if (ajv.validateSchema(schema) !== true) return 'must be a JSON Schema (draft 2020-12)'
  const patterns: string[] = []
  return problemIn(schema, schema, new Set(), patterns) ?? problemOfPatterns(patterns)
}

/** `seen`: the parts that were looked at; references may lead in circles. `patterns`: those that were met. */
function problemIn(part: unknown, schema: object, seen: Set<object>, patterns: string[]): string | null {
  if (typeof part !== 'object' || part === null || seen.has(part)) return null
  seen.add(part)
  for (const [name, value] of Object.entries(part)) {
    if (DATA.includes(name)) continue
    if (REFUSED.includes(name)) return `must not use ${name}`
    if (name === 'pattern' && typeof value === 'string') patterns.push(value)
    if (name === 'patternProperties') patterns.push(...Object.keys(Object(value)))
    let inner: unknown[] = NAMED.includes(name) ? Object.values(Object(value)) : [value]
    if (name === '$ref' && typeof value === 'string') {
      // What it leads to is used as a schema, also where it stands as data.
      inner = [partAt(schema, value)]
      if (inner[0] === undefined) return 'must refer with $ref to parts of itself only, such as #/$defs/item'
    }
    for (const each of inner) {
      const problem = problemIn(each, schema, seen, patterns)
      if (problem !== null) return problem
    }
  }
  return null
}

/** What a JSON pointer leads to, if it is an object or a boolean. */
function partAt(schema: object, reference: string): unknown {
  if (reference === '#') return schema
  if (!reference.startsWith('#/')) return undefined
  let part: unknown = schema
  for (const step of reference.slice(2).split('/')) {
    const name = decoded(step)
    if (typeof part !== 'object' || part === null || name === null || !Object.hasOwn(part, name))
      return undefined
    part = (part as Record<string, unknown>)[name]
  }
  return (typeof part === 'object' && part !== null) || typeof part === 'boolean' ? part : undefined
}

function decoded(step: string): string | null {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

// Judged by their length before any is read, which blocks this process.
function problemOfPatterns(patterns: string[]): string | null {
  const all = patterns.join('')
  if (all.length > PATTERNS_LIMIT)
    return `must have patterns of at most ${PATTERNS_LIMIT} characters together`
  if ((all.match(/\\p\{/gi)?.length ?? 0) > CLASSES_LIMIT)
    return `must use at most ${CLASSES_LIMIT} Unicode classes such as \\p{L} in its patterns`
  return patterns.every(isPattern) ? null : 'must have patterns that are regular expressions'
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}
