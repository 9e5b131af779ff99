// Checks JSON Schemas of tenants without validating data. Validation of data has its own limits.
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'

export const MAX_SCHEMA_BYTES = 16 * 1024

/** Keywords that rename a schema, or change what the validator does. */
const FORBIDDEN_KEYWORDS = [
  '$id',
  '$anchor',
  '$dynamicRef',
  '$dynamicAnchor',
  '$recursiveRef',
  '$recursiveAnchor',
  '$vocabulary',
  '$async',
]
/** Keywords whose value is data, not a schema. */
const DATA_KEYWORDS = ['const', 'enum', 'default', 'examples']
/** Keywords whose value maps names to schemas. */
const SCHEMA_MAP_KEYWORDS = [
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
]
/** Limits on all patterns of a schema. A Unicode class is expensive: it expands to hundreds of ranges. */
const MAX_PATTERN_CHARACTERS = 1024
const MAX_UNICODE_CLASSES = 8
const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false })

/** A problem of a schema. `path`: the keys that lead from the root of the schema to the problem. */
type SchemaProblem = { path: string[]; message: string }
type SchemaPattern = { path: string[]; text: string }

/** The first problem of a schema, or null. The duration of the check depends only on the size of the schema. */
export function findSchemaProblem(input: Record<string, unknown>): SchemaProblem | null {
  if (Buffer.byteLength(JSON.stringify(input)) > MAX_SCHEMA_BYTES)
    return { path: [], message: `must be at most ${MAX_SCHEMA_BYTES / 1024} KiB of JSON` }
  // Every schema is read as draft 2020-12.
  const { $schema: _dialect, ...schema } = input
  if (ajv.validateSchema(schema) !== true) return deepestProblem(ajv.errors ?? [])
  const patterns: SchemaPattern[] = []
  return (
    findProblemIn(schema, { path: [], schema, visited: new Set(), patterns }) ?? findPatternProblem(patterns)
  )
}

/** The deepest error. The other errors are about the schemas that contain the faulty one. */
function deepestProblem(errors: ErrorObject[]): SchemaProblem {
  const found = errors.map((error) => ({
    error,
    path: error.instancePath.split('/').slice(1).map(unescaped),
  }))
  const [{ error, path } = { error: undefined, path: [] }] = found.toSorted(
    (a, b) => b.path.length - a.path.length,
  )
  return { path, message: `${errorText(error)} in a JSON Schema (draft 2020-12)` }
}

function errorText(error: ErrorObject | undefined): string {
  const { allowedValues, type } = error?.params ?? {}
  if (Array.isArray(allowedValues)) return `must be one of ${allowedValues.join(', ')}`
  if (type !== undefined) return `must be of type ${[type].flat().join(' or ')}`
  return error?.message ?? 'is invalid'
}

type Traversal = {
  path: string[]
  schema: object
  /** The visited nodes: references can be cyclic. */
  visited: Set<object>
  /** The patterns found so far. */
  patterns: SchemaPattern[]
}

function findProblemIn(node: unknown, traversal: Traversal): SchemaProblem | null {
  const { path, schema, visited, patterns } = traversal
  if (typeof node !== 'object' || node === null || visited.has(node)) return null
  visited.add(node)
  for (const [name, value] of Object.entries(node)) {
    const here = [...path, name]
    if (DATA_KEYWORDS.includes(name)) continue
    if (FORBIDDEN_KEYWORDS.includes(name)) return { path, message: `must not use ${name}` }
    if (name === 'pattern' && typeof value === 'string') patterns.push({ path: here, text: value })
    if (name === 'patternProperties')
      patterns.push(...Object.keys(Object(value)).map((text) => ({ path: [...here, text], text })))
    let inner = [{ path: here, node: value as unknown }]
    if (SCHEMA_MAP_KEYWORDS.includes(name))
      inner = Object.entries<unknown>(Object(value)).map(([key, each]) => ({
        path: [...here, key],
        node: each,
      }))
    if (name === '$ref' && typeof value === 'string') {
      // The target of a reference is used as a schema, even if it is inside a data keyword.
      const steps = parsePointer(value)
      if (steps === null)
        return { path: here, message: 'must refer to a part of the schema itself, such as #/$defs/item' }
      const target = resolvePointer(schema, steps)
      if (target === undefined) return { path: here, message: 'does not refer to a part of the schema' }
      inner = [{ path: steps, node: target }]
    }
    for (const each of inner) {
      const problem = findProblemIn(each.node, { ...traversal, path: each.path })
      if (problem !== null) return problem
    }
  }
  return null
}

/** The steps of a JSON pointer into the same document; null when the reference is not such a pointer. */
function parsePointer(reference: string): string[] | null {
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

/** The node at these steps, if it is an object or a boolean. */
function resolvePointer(schema: object, steps: string[]): unknown {
  let node: unknown = schema
  for (const name of steps) {
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, name)) return undefined
    node = (node as Record<string, unknown>)[name]
  }
  return (typeof node === 'object' && node !== null) || typeof node === 'boolean' ? node : undefined
}

// The length is checked first, because compiling a pattern blocks this process.
function findPatternProblem(patterns: SchemaPattern[]): SchemaProblem | null {
  const all = patterns.map(({ text }) => text).join('')
  if (all.length > MAX_PATTERN_CHARACTERS)
    return {
      path: [],
      message: `must have patterns with at most ${MAX_PATTERN_CHARACTERS} characters in total`,
    }
  if ((all.match(/\\p\{/gi)?.length ?? 0) > MAX_UNICODE_CLASSES)
    return {
      path: [],
      message: `must use at most ${MAX_UNICODE_CLASSES} Unicode classes such as \\p{L} in its patterns`,
    }
  const invalid = patterns.find(({ text }) => !isPattern(text))
  return invalid === undefined ? null : { path: invalid.path, message: 'must be a regular expression' }
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}
