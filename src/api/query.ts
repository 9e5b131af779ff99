// What a query string may bring: parameters, each once, and `metadata[key]=value`.
import { AppError } from '#core/errors.ts'
import { checkStorable } from './body.ts'

/**
 * The parameters of a query string; one that is repeated becomes an array, which no schema takes. Never throws: the router
 * calls it where nobody would catch it.
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

/** Throws `invalid_request` when a query string is not UTF-8 or holds what Postgres cannot store. */
export function checkQuery(url: string, query: unknown): void {
  const start = url.indexOf('?')
  if (start !== -1) {
    try {
      decodeURIComponent(url.slice(start))
    } catch (error) {
      throw new AppError('invalid_request', {
        param: 'query',
        message: 'The query string is not valid percent-encoded UTF-8.',
        cause: error,
      })
    }
  }
  checkStorable(query, '', 0)
}

function add(to: Record<string, unknown>, name: string, value: string): void {
  to[name] = name in to ? [to[name], value] : value
}
