// Opens postgres.js with the types and session settings that the code relies on.
import postgres from 'postgres'
import type { Sql } from '../db.ts'
import { isoFromPostgres } from '../time.ts'
import { ARRAY_TYPES } from './array-types.ts'
import { driverOptions, type DatabaseTarget } from './servers.ts'
import { KEEPALIVE_SETTINGS, SESSION_SETTINGS } from './settings.ts'
import { isUnreplicated, unreplicatedCommit } from './unreplicated.ts'

export type DriverOptions = {
  max: number
  application_name: string
  /** Default: 12,000. */
  statement_timeout_ms?: number
  /** The server ends the session of a transaction that takes longer; 0: no limit. Default: 30,000. */
  transaction_timeout_ms?: number
  /** Reads and writes timestamps as `Date`, which loses microseconds: for libraries that expect `Date`. */
  dates?: boolean
}

/** The connect timeout of postgres.js: from the open socket to the end of the authentication. */
export const AUTHENTICATION_LIMIT_MS = 5_000

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

/** `onclose` is called when a connection closes, or must not be used any more. */
export function openDriver(target: DatabaseTarget, options: DriverOptions, onclose: () => void): Sql {
  const { pgbouncer, settings } = target.address
  const { statement_timeout_ms, transaction_timeout_ms } = options
  return postgres({
    ...driverOptions(target),
    max: options.max,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: AUTHENTICATION_LIMIT_MS / 1000,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 1),
    connection: {
      application_name: options.application_name,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      // PgBouncer refuses other settings. There, they are settings of the user: see `settings.ts`.
      ...(!pgbouncer && {
        ...SESSION_SETTINGS,
        ...KEEPALIVE_SETTINGS,
        statement_timeout: statement_timeout_ms ?? Number(SESSION_SETTINGS.statement_timeout),
        transaction_timeout: transaction_timeout_ms ?? Number(SESSION_SETTINGS.transaction_timeout),
      }),
      ...settings,
      // Not even the address hides the warning of a commit that was not waited for.
      ...(!pgbouncer && { client_min_messages: SESSION_SETTINGS.client_min_messages }),
    },
    fetch_types: false,
    types: {
      ...ARRAY_TYPES,
      bigint: { to: 20, from: [20], serialize: (value: number) => String(value), parse: safeInteger },
      timestamp: options.dates ? DATE_TIMESTAMPS : ISO_TIMESTAMPS,
    },
    onnotice(notice: postgres.Notice) {
      if (!isUnreplicated(notice)) return
      onclose()
      throw unreplicatedCommit(notice)
    },
    onclose,
  })
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new Error(`an integer exceeds the safe range: ${text}`)
  return value
}
