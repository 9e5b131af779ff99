// Opens postgres.js with the types and planner settings that the code relies on.
import postgres from 'postgres'
import type { Sql } from '../db.ts'
import { isoFromPostgres } from '../time.ts'
import { ARRAY_TYPES } from './array-types.ts'

export type DriverOptions = {
  max: number
  application_name: string
  statement_timeout_ms?: number
  /** Reads and writes timestamps as `Date`, which loses microseconds: for libraries that expect `Date`. */
  dates?: boolean
}

const STATEMENT_TIMEOUT_MS = 12_000

const ISO_TIMESTAMPS: postgres.PostgresType = {
  to: 1184,
  from: [1184],
  serialize: (value: string) => value,
  parse: isoFromPostgres,
}
const DATE_TIMESTAMPS: postgres.PostgresType = {
  to: 1184,
  from: [1184],
  serialize: (value: string | Date) => (value instanceof Date ? value.toISOString() : value),
  parse: (text: string) => new Date(isoFromPostgres(text)),
}

/** `onclose` is called for each connection that closes. */
export function openDriver(url: string, options: DriverOptions, onclose: () => void): Sql {
  return postgres(url, {
    max: options.max,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: 5,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 1),
    connection: {
      application_name: options.application_name,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      statement_timeout: options.statement_timeout_ms ?? STATEMENT_TIMEOUT_MS,
      // Every statement reads by key or along an index, and these settings force such plans. Otherwise a plan that
      // was made while a table was empty would stay with the prepared statement and scan the full table later.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      enable_hashjoin: 'off',
      enable_mergejoin: 'off',
      random_page_cost: 0.1,
      seq_page_cost: 0.1,
      jit: 'off',
    },
    fetch_types: false,
    types: {
      ...ARRAY_TYPES,
      bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: safeInteger },
      timestamp: options.dates ? DATE_TIMESTAMPS : ISO_TIMESTAMPS,
    },
    onnotice: () => {},
    onclose,
  })
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error(`an integer exceeds the safe range: ${text}`)
  return value
}
