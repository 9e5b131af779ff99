// Parses and checks query strings: parameters, each once, and `metadata[key]=value`.
import { AppError } from '#core/errors.ts'
import { checkStorable } from './body.ts'

/**
 * The parameters of a query string. A repeated parameter becomes an array, which no schema accepts. Never throws: the
 * router does not catch errors here.
 */
export function parseQuery(querystring: string): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null)
  for (const [name, value] of new URLSearchParams(querystring)) {
    const key = /^metadata\[(.+)\]$/s.exec(name)?.[1]
    if (key === undefined) add(query, name, value)
    else if (typeof query['metadata'] === 'string') add(query, 'metadata', value)
    else add((query['metadata'] ??= Object.create(null)) as Record<string, unknown>, key, value)
  }
  return query
}

/**
 * Throws `invalid_request` if a path has control characters. The router refuses paths that cannot be decoded.
 */
export function checkPath(url: string): void {
  if (CONTROL_ENCODED.test(url.split('?', 1)[0]!)) throw controlCharacters('path')
}

/**
 * Throws `invalid_request` if a query string is not UTF-8, or has control characters or text that PostgreSQL cannot
 * store.
 */
export function checkQuery(url: string, query: unknown): void {
  const start = url.indexOf('?')
  if (start === -1) return
  try {
    decodeURIComponent(url.slice(start))
  } catch (error) {
    throw new AppError('invalid_request', {
      param: 'query',
      message: 'The query string is not valid percent-encoded UTF-8.',
      cause: error,
    })
  }
  checkStorable(query, '', 0)
  for (const [name, value] of new URLSearchParams(url.slice(start)))
    if (CONTROL.test(name) || CONTROL.test(value))
      throw controlCharacters(CONTROL.test(name) ? 'query' : name)
}

/** Throws `invalid_request` if a query string has a `+`: some clients mean a plus, others a blank. */
export function checkPlus(url: string): void {
  const start = url.indexOf('?')
  if (start === -1) return
  for (const part of url.slice(start + 1).split('&'))
    if (part.includes('+'))
      throw new AppError('invalid_request', {
        param: part.split('=', 1)[0]!.includes('+') ? 'query' : decodeURIComponent(part.split('=', 1)[0]!),
        message: 'A + in a query is ambiguous: write %2B for a plus, %20 for a blank.',
      })
}

// oxlint-disable-next-line no-control-regex -- this pattern is meant to find control characters
const CONTROL = /[\u0000-\u001f\u007f]/
const CONTROL_ENCODED = /%(?:[01][0-9a-f]|7f)/i

function controlCharacters(param: string): AppError {
  return new AppError('invalid_request', { param, message: 'URLs may not hold control characters.' })
}

function add(to: Record<string, unknown>, name: string, value: string): void {
  to[name] = name in to ? [to[name], value] : value
}
