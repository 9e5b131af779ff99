// Searches payment intents by metadata, status, currency, customer and amount.
import { recordMs, type Engine } from './engine.ts'
import { parameterRefused } from './errors.ts'
import { limitOf } from './lists.ts'
import { required, stringOf } from './params.ts'
import type { Params } from './parse.ts'
import { render } from './render.ts'
import type { Rendered } from './rendered.ts'
import type { Intent } from './versions.ts'

export type SearchResult = {
  object: 'search_result'
  data: Rendered[]
  has_more: boolean
  next_page: string | null
  url: string
}

/**
 * Finds payment intents, newest first. `page`: index of the first result. Objects that are newer than the search lag
 * are not found.
 */
export function searchIntents(engine: Engine, params: Params): SearchResult {
  const matches = parseQuery(required(stringOf(params, 'query'), 'query'))
  const limit = limitOf(params)
  const from = Number(stringOf(params, 'page') ?? 0)
  const until_s = (recordMs(engine) - engine.search_lag_ms) / 1000
  const { ids, byId } = engine.store.intents
  const found: Intent[] = []
  for (let index = ids.length - 1; index >= 0 && found.length <= from + limit; index--) {
    const intent = byId.get(ids[index]!)!
    if (intent.created <= until_s && matches(intent)) found.push(intent)
  }
  const has_more = found.length > from + limit
  return {
    object: 'search_result',
    data: found.slice(from, from + limit).map((intent) => render(intent, engine.pages_url)),
    has_more,
    next_page: has_more ? String(from + limit) : null,
    url: '/v1/payment_intents/search',
  }
}

/** Maximum number of clauses of a query (docs: "Search query language"). */
const MAX_CLAUSES = 10

const CLAUSE =
  /^\s*(-?)(?:metadata\[(["'])(.+?)\2\]|(status|currency|customer|amount))\s*:\s*(?:(["'])((?:\\.|(?!\5)[^\\])*)\5|(null|\d+))/

/**
 * Parses a query: clauses such as `metadata['k']:'v'`, `status:'x'`, `currency:"usd"` and `amount:100`, joined by AND
 * or by OR, negated by `-`.
 */
function parseQuery(query: string): (intent: Intent) => boolean {
  const clauses: ((intent: Intent) => boolean)[] = []
  const operators = new Set<string>()
  let rest = query
  for (;;) {
    const clause = CLAUSE.exec(rest)
    if (!clause) throw parameterRefused(`We were unable to parse your search query: ${query}`, 'query')
    const [full, minus, , key, field, , quoted, bare] = clause
    const expected = bare === 'null' ? undefined : (bare ?? quoted!.replaceAll(/\\(.)/g, '$1'))
    clauses.push((intent) => (valueOf(intent, key, field) === expected) !== (minus === '-'))
    rest = rest.slice(full.length).trimStart()
    if (rest === '') break
    const operator = /^(AND\s|OR\s)?/i.exec(rest)![0]
    operators.add(operator.trim().toUpperCase() || 'AND')
    if (clauses.length === MAX_CLAUSES)
      throw parameterRefused(`A search query can have up to ${MAX_CLAUSES} clauses.`, 'query')
    rest = rest.slice(operator.length)
  }
  if (operators.size > 1)
    throw parameterRefused('You cannot combine AND and OR in one search query.', 'query')
  return (intent) =>
    operators.has('OR') ? clauses.some((each) => each(intent)) : clauses.every((each) => each(intent))
}

function valueOf(
  intent: Intent,
  metadataKey: string | undefined,
  field: string | undefined,
): string | undefined {
  if (metadataKey !== undefined) return intent.metadata[metadataKey]
  if (field === 'status') return intent.status
  if (field === 'currency') return intent.currency
  return field === 'customer' ? (intent.customer ?? undefined) : String(intent.amount)
}
