// JSON Schemas of tenants, as far as they can be judged without following them. What follows them has limits of its own.
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'

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

/** What is wrong with a schema: where, as the keys that lead there, and what. */
type SchemaProblem = { path: string[]; message: string }
type SchemaPattern = { path: string[]; text: string }

/** What is wrong with a schema, or null. It costs time by the size of the schema only. */
export function problemOfSchema(given: Record<string, unknown>): SchemaProblem | null {
  if (Buffer.byteLength(JSON.stringify(given)) > SCHEMA_LIMIT_BYTES)
    return { path: [], message: `must be at most ${SCHEMA_LIMIT_BYTES / 1024} KiB of JSON` }
  // Every schema is taken for one of draft 2020-12.
  const { $schema: _dialect, ...schema } = given
  if (ajv.validateSchema(schema) !== true) return problemOfForm(ajv.errors ?? [])
  const patterns: SchemaPattern[] = []
  return problemIn(schema, { path: [], schema, seen: new Set(), patterns }) ?? problemOfPatterns(patterns)
}

/** The deepest of these: the others say that what is around it is wrong too. */
function problemOfForm(errors: ErrorObject[]): SchemaProblem {
  const found = errors.map((error) => ({
    error,
    path: error.instancePath.split('/').slice(1).map(unescaped),
  }))
  const [{ error, path } = { error: undefined, path: [] }] = found.toSorted(
    (a, b) => b.path.length - a.path.length,
  )
  return { path, message: `${formOf(error)} in a JSON Schema (draft 2020-12)` }
}

function formOf(error: ErrorObject | undefined): string {
  const { allowedValues, type } = error?.params ?? {}
  if (Array.isArray(allowedValues)) return `must be one of ${allowedValues.join(', ')}`
  if (type !== undefined) return `must be of type ${[type].flat().join(' or ')}`
  return error?.message ?? 'is not possible'
}

type Walk = {
  path: string[]
  schema: object
  /** The parts that were looked at; references may lead in circles. */
  seen: Set<object>
  /** Those that were met. */
  patterns: SchemaPattern[]
}

function problemIn(part: unknown, walk: Walk): SchemaProblem | null {
  const { path, schema, seen, patterns } = walk
  if (typeof part !== 'object' || part === null || seen.has(part)) return null
  seen.add(part)
  for (const [name, value] of Object.entries(part)) {
    const here = [...path, name]
    if (DATA.includes(name)) continue
    if (REFUSED.includes(name)) return { path, message: `must not use ${name}` }
    if (name === 'pattern' && typeof value === 'string') patterns.push({ path: here, text: value })
    if (name === 'patternProperties')
      patterns.push(...Object.keys(Object(value)).map((text) => ({ path: [...here, text], text })))
    let inner = [{ path: here, part: value as unknown }]
    if (NAMED.includes(name))
      inner = Object.entries<unknown>(Object(value)).map(([key, each]) => ({
        path: [...here, key],
        part: each,
      }))
    if (name === '$ref' && typeof value === 'string') {
      // What it leads to is used as a schema, also where it stands as data.
      const steps = stepsOf(value)
      if (steps === null)
        return { path: here, message: 'must lead into the schema itself, such as #/$defs/item' }
      const target = partAt(schema, steps)
      if (target === undefined) return { path: here, message: 'leads to no part of the schema' }
      inner = [{ path: steps, part: target }]
    }
    for (const each of inner) {
      const problem = problemIn(each.part, { ...walk, path: each.path })
      if (problem !== null) return problem
    }
  }
  return null
}

/** The steps of a JSON pointer into the same document; null when a reference is none. */
function stepsOf(reference: string): string[] | null {
  if (reference !== '#' && !reference.startsWith('#/')) return null
  try {
    return reference
      .split('/')
      .slice(1)
      .map((step) => unescaped(decodeURIComponent(step)))
  } catch {
    return null
  }
}

function unescaped(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** What these steps lead to, if it is an object or a boolean. */
function partAt(schema: object, steps: string[]): unknown {
  let part: unknown = schema
  for (const name of steps) {
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, name)) return undefined
    part = (part as Record<string, unknown>)[name]
  }
  return (typeof part === 'object' && part !== null) || typeof part === 'boolean' ? part : undefined
}

// Judged by their length before any is read, which blocks this process.
function problemOfPatterns(patterns: SchemaPattern[]): SchemaProblem | null {
  const all = patterns.map(({ text }) => text).join('')
  if (all.length > PATTERNS_LIMIT)
    return { path: [], message: `must have patterns of at most ${PATTERNS_LIMIT} characters together` }
  if ((all.match(/\\p\{/gi)?.length ?? 0) > CLASSES_LIMIT)
    return {
      path: [],
      message: `must use at most ${CLASSES_LIMIT} Unicode classes such as \\p{L} in its patterns`,
    }
  const wrong = patterns.find(({ text }) => !isPattern(text))
  return wrong === undefined ? null : { path: wrong.path, message: 'must be a regular expression' }
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}
