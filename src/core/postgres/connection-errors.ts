// The errors of connections, as opposed to those of statements, and the remedy for each.
import postgres from 'postgres'

/**
 * SQLSTATEs of connections: lost or refused (08), without resources (53), ended or not yet possible (57P0), ended with
 * a transaction (25P03, 25P04), errors of the system (58), a server that accepts no writes (25006), and a prepared
 * statement of another session (26000, 42P05).
 */
const CONNECTION_STATES = /^(08|53|57P0|58|25006$|25P0[34]$|26000$|42P05$)/
/** Codes of Node, postgres.js and `socket.ts`. */
const SOCKET_CODES =
  /^(ECONN|EPIPE|EPROTO|ERR_SSL_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|CONNECT|CONNECTION_)/

/** Whether this SQLSTATE or socket code says that the connection failed or cannot be used. */
export function isConnectionCode(code: string): boolean {
  return SOCKET_CODES.test(code) || CONNECTION_STATES.test(code)
}

/** Whether the server ended the connection with this error, whatever its code. */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof postgres.PostgresError)) return false
  // PgBouncer sends only the local one, in English.
  return ['FATAL', 'PANIC'].includes(error.severity ?? error.severity_local)
}

/** Whether the connection failed with this error, or ended. */
export function losesConnection(error: unknown): boolean {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  return endsConnection(error) || (typeof code === 'string' && SOCKET_CODES.test(code))
}

/** Whether the server accepts no writes: it is a standby, or has become one. */
export function isReadOnlyServer(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '25006'
}

/** The remedies for refusals. The first one that matches the code and the message applies. */
const REMEDIES: readonly (readonly [refusal: RegExp, remedy: string])[] = [
  [/unsupported startup parameter/, 'This is PgBouncer: add pgbouncer=true to the address.'],
  [/^(26000|42P05)/, 'A pooler such as PgBouncer shares its sessions: add pgbouncer=true to the address.'],
  [/no such database/, 'This is PgBouncer: add the database to [databases] in pgbouncer.ini.'],
  [
    /query_wait_timeout/,
    'PgBouncer had no free connection: raise default_pool_size there, or lower DATABASE_POOL here.',
  ],
  [/no more connections allowed/, 'Raise max_client_conn in pgbouncer.ini.'],
  [
    /cannot connect to server|server login|server conn crashed|connect failed|invalid server parameter/,
    'PgBouncer does not reach PostgreSQL: its log says why.',
  ],
  [
    /^53300 too many connections for role/,
    'Raise the limit of this user there (alter role ... connection limit), or lower DATABASE_POOL here.',
  ],
  [/^53300/, 'Raise max_connections there, or lower DATABASE_POOL here.'],
  [/^28.*(no encryption|SSL off)/, 'Add sslmode=require to the address.'],
  [/^25006/, 'Name all hosts in the address: of several, Sluice uses the one that accepts writes.'],
]

type RefusedConnection = { message: string; code: string }

/** The server's message and code, and the remedy if there is one. */
export function refusalText(refusal: RefusedConnection): string {
  return `${refusal.message} (${refusal.code}).${remedyOf(refusal)}`
}

/** The remedy for a refusal, after a space; empty if there is none. */
export function remedyOf({ message, code }: RefusedConnection): string {
  const remedy = REMEDIES.find(([refusal]) => refusal.test(`${code} ${message}`))?.[1]
  return remedy === undefined ? '' : ` ${remedy}`
}
