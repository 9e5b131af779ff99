// Readers of single parameters. Parameters of the API are already checked by the rules; invalid parameters of controls
// are refused here.
import { parameterRefused } from './errors.ts'
import { isParams, type Params, type Value } from './parse.ts'

/** Limits of metadata (docs: "Metadata"). Keys must not contain square brackets. */
const MAX_METADATA_KEYS = 50
const MAX_METADATA_KEY_LENGTH = 40
const MAX_METADATA_VALUE_LENGTH = 500

/** The text of a parameter; null if it is missing or empty. */
export function stringOf(params: Params, name: string): string | null {
  const value = params[name]
  if (value === undefined || value === '') return null
  if (typeof value !== 'string') throw parameterRefused('Invalid string', name)
  return value
}

export function required<T>(value: T | null, name: string): T {
  if (value === null) throw parameterRefused(`Missing required param: ${name}.`, name, 'parameter_missing')
  return value
}

export function integerOf(params: Params, name: string): number | null {
  const text = stringOf(params, name)
  if (text === null) return null
  if (!/^-?\d{1,15}$/.test(text))
    throw parameterRefused(`Invalid integer: ${text}`, name, 'parameter_invalid_integer')
  return Number(text)
}

export function amountOf(params: Params, name: string): number | null {
  const amount = integerOf(params, name)
  if (amount !== null && amount < 1) {
    throw parameterRefused(
      'This value must be greater than or equal to 1.',
      name,
      'parameter_invalid_integer',
    )
  }
  return amount
}

export function booleanOf(params: Params, name: string): boolean {
  const text = stringOf(params, name)
  if (text !== null && text !== 'true' && text !== 'false')
    throw parameterRefused(`Invalid boolean: ${text}`, name)
  return text === 'true'
}

export function oneOf<T extends string>(params: Params, name: string, allowed: readonly T[]): T | null {
  const text = stringOf(params, name)
  if (text === null) return null
  const found = allowed.find((each) => each === text)
  if (found === undefined)
    throw parameterRefused(`Invalid ${name}: must be one of ${allowed.join(', ')}`, name)
  return found
}

/** A list of strings; a single string counts as a list. */
export function stringsOf(params: Params, name: string): string[] {
  const value = params[name]
  if (value === undefined || value === '') return []
  const list: Value[] = Array.isArray(value) ? value : [value]
  return list.map((each) => {
    if (typeof each !== 'string') throw parameterRefused('Invalid array', name)
    return each
  })
}

/**
 * The metadata `before`, updated by the parameter: an empty value removes a key, an empty `metadata` removes all
 * keys.
 */
export function metadataOf(params: Params, before: Record<string, string>): Record<string, string> {
  const changes = params['metadata']
  if (changes === undefined) return before
  if (changes === '') return {}
  if (!isParams(changes)) throw parameterRefused('Invalid hash', 'metadata')
  const metadata = { ...before }
  for (const [key, value] of Object.entries(changes)) {
    if (typeof value !== 'string')
      throw parameterRefused('Metadata values must be strings', `metadata[${key}]`)
    if (/[[\]]/.test(key)) throw parameterRefused('Metadata keys cannot contain square brackets', 'metadata')
    if (key.length > MAX_METADATA_KEY_LENGTH)
      throw parameterRefused(`Metadata keys can be up to ${MAX_METADATA_KEY_LENGTH} characters`, 'metadata')
    if (value.length > MAX_METADATA_VALUE_LENGTH) {
      throw parameterRefused(
        `Metadata values can be up to ${MAX_METADATA_VALUE_LENGTH} characters`,
        `metadata[${key}]`,
      )
    }
    if (value === '') delete metadata[key]
    else metadata[key] = value
  }
  if (Object.keys(metadata).length > MAX_METADATA_KEYS)
    throw parameterRefused(`You can only have ${MAX_METADATA_KEYS} metadata keys`, 'metadata')
  return metadata
}
