// Parses form-encoded parameters with brackets, as Stripe's SDKs send them: `metadata[k]=v`, `expand[0]=...`,
// `types[]=...`.
import { parameterRefused } from './errors.ts'

export type Value = string | Value[] | Params
export type Params = { [name: string]: Value }

const MAX_DEPTH = 8

/**
 * Parses `a[b][c]=1&d[0]=2` to `{ a: { b: { c: '1' } }, d: ['2'] }`. The objects have no prototype, so that no name
 * is special.
 */
export function parseForm(text: string): Params {
  const root = emptyParams()
  if (text === '') return root
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const name = decode(at < 0 ? pair : pair.slice(0, at))
    const value = at < 0 ? '' : decode(pair.slice(at + 1))
    const bracket = name.indexOf('[')
    if (bracket <= 0) root[name] = value
    else setNestedParam(root, [name.slice(0, bracket), ...keysOf(name, bracket)], value)
  }
  for (const name in root) root[name] = withLists(root[name]!)
  return root
}

function keysOf(name: string, bracket: number): string[] {
  if (!name.endsWith(']')) throw parameterRefused(`Invalid parameter name: ${name}`, name)
  const keys = name.slice(bracket + 1, -1).split('][')
  if (keys.length > MAX_DEPTH) throw parameterRefused(`Parameters are nested too deeply: ${name}`, name)
  return keys
}

function setNestedParam(root: Params, path: string[], value: string): void {
  let node = root
  for (let i = 0; i < path.length - 1; i++) {
    const key = path[i]!
    const next = node[key]
    if (isParams(next)) node = next
    else node = node[key] = emptyParams()
  }
  const last = path.at(-1)!
  // For `types[]=a&types[]=b`, the name is the next free number.
  node[last === '' ? String(Object.keys(node).length) : last] = value
}

/** Converts a hash with the keys 0, 1, 2, ... to a list. */
function withLists(value: Value): Value {
  if (!isParams(value)) return value
  const keys = Object.keys(value)
  for (const key of keys) value[key] = withLists(value[key]!)
  return keys.every((key, i) => key === String(i)) ? keys.map((key) => value[key]!) : value
}

export function isParams(value: Value | undefined): value is Params {
  return typeof value === 'object' && !Array.isArray(value)
}

function emptyParams(): Params {
  return Object.create(null) as Params
}

function decode(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    throw parameterRefused('Invalid string: not UTF-8, percent-encoded', undefined)
  }
}
