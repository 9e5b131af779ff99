// The building blocks of SQL statements, and the classification of database errors.
import postgres from 'postgres'
import { ConfigError } from './config.ts'
import { AppError } from './errors.ts'
import { parseDatabaseUrl, serverNames } from './postgres/address.ts'
import { endsConnection, isConnectionCode, refusalText, remedyOf } from './postgres/connection-errors.ts'
import { UnusableServerError } from './postgres/socket.ts'
import { UnreplicatedCommitError } from './postgres/unreplicated.ts'

type Types = { bigint: number; timestamp: string; texts: string[]; uuids: string[] }
export type Sql = postgres.Sql<Types>
export type Tx = postgres.TransactionSql<Types>
/** A fragment of a statement. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>
/** The value of a JSON column. */
export type Json = postgres.JSONValue

/** The rows of all these selects. Requires at least one select. */
export function unionAll(sql: Sql | Tx, selects: Fragment[]): Fragment {
  return selects.reduce((all, each) => sql`${all} union all ${each}`)
}

/** A column list for `select` or `returning`. */
export function columnList(sql: Sql | Tx, names: readonly string[]): Fragment {
  return sql`${sql([...names])}`
}

/**
 * A timestamptz as text in the format of the API. For JSON that Postgres builds: by default Postgres writes another
 * format.
 */
export function isoText(sql: Sql | Tx, at: Fragment): Fragment {
  return sql`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** The SQLSTATE or socket code of a database error, otherwise undefined. */
export function databaseCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The unique constraint that a write violated, otherwise undefined. */
export function violatedConstraint(error: unknown): string | undefined {
  return error instanceof postgres.PostgresError && error.code === '23505' ? error.constraint_name : undefined
}

/** Whether a write failed because another row already has this object's id at the provider. */
export function isDuplicateReference(error: unknown): boolean {
  return violatedConstraint(error)?.endsWith('_reference') === true
}

/**
 * Whether a row of the statement caused the error: cardinality, data, integrity, a policy, or a server limit such as
 * the length of a text. The same row would fail again.
 */
export function isRowError(error: unknown): boolean {
  return /^(21|22|23|42501|54)/.test(databaseCode(error) ?? '')
}

/** Whether the database rolled back the transaction in favour of another one, e.g. in a deadlock. */
export function isRolledBack(error: unknown): boolean {
  return databaseCode(error)?.startsWith('40') === true
}

/** Whether the database could not be reached or the connection was lost, so that the statement may be retried. */
export function isUnavailable(error: unknown): boolean {
  return isTemporary(error) || isRefusedLogin(error) || endsConnection(error)
}

/** Whether the database may soon be available again without an act of an operator. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'database_unavailable' || error.code === 'timeout'
  const code = databaseCode(error)
  if (code === undefined || code === 'CONNECT_CERTIFICATE') return false
  return isConnectionCode(code) || isStatementTimeout(error)
}

/** Whether the server refused the user, the password or the name of the database, which may change while we run. */
function isRefusedLogin(error: unknown): boolean {
  return /^(28|3D000$|CONNECT_CERTIFICATE$)/.test(databaseCode(error) ?? '')
}

/** Errors of a server without the resources for the statement: another connection does not help. */
const STATEMENT_ERRORS = /^(53[124]00|58)/

/**
 * Whether the database failed and not the statement. Unlike `isUnavailable`: false for statements that were too slow or
 * lacked resources of the server, true for those that were not sent because too many wait.
 */
export function isDatabaseFailure(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'database_unavailable' || error.code === 'overloaded'
  if (endsConnection(error)) return true
  return (
    isUnavailable(error) && !isStatementTimeout(error) && !STATEMENT_ERRORS.test(databaseCode(error) ?? '')
  )
}

/** Whether the database server reported the error, to postgres.js or to node-postgres. */
export function isServerError(error: unknown): error is Error & { code: string } {
  if (error instanceof postgres.PostgresError) return true
  // The class of node-postgres is not imported here: only the queue uses it.
  return databaseCode(error) !== undefined && 'severity' in (error as Error)
}

/** Whether the database canceled the statement because of its timeout. */
export function isStatementTimeout(error: unknown): boolean {
  return databaseCode(error) === '57014'
}

/**
 * Turns a connection error into a message for the operator, which begins with the variable of the address. Other errors
 * are returned unchanged.
 */
export function databaseError(error: unknown, url: string, variable = 'DATABASE_URL'): unknown {
  const code = databaseCode(error)
  const { servers, user = '', database = '' } = parseDatabaseUrl(url)
  const at = serverNames({ servers })
  const refuse = (text: string) => new ConfigError(`${variable}: ${text}`)
  if (code === '3D000') {
    const [hosts, ports] = [servers.map(({ host }) => host).join(), servers.map(({ port }) => port).join()]
    return refuse(
      `there is no database "${database}" at ${at}. Create it: createdb -h ${hosts} -p ${ports} -U ${user || 'postgres'} ${database}`,
    )
  }
  if (isServerError(error) && error.code.startsWith('28'))
    return refuse(
      `the PostgreSQL at ${at} refuses the user "${user}" or the password: ${error.message}.${remedyOf(error)}`,
    )
  if (isServerError(error) && isUnavailable(error))
    return refuse(`the PostgreSQL at ${at} refuses the connection: ${refusalText(error)}`)
  if (error instanceof UnusableServerError && servers.length > 1)
    return refuse(`no PostgreSQL can be used: ${error.message}.`)
  if (error instanceof UnusableServerError && error.code === 'CONNECT_TLS')
    return refuse(`the PostgreSQL at ${at} refuses the connection: ${error.message}.`)
  if (error instanceof UnusableServerError)
    return refuse(`the PostgreSQL at ${at} cannot be used: ${error.message}.`)
  if (isUnavailable(error))
    return refuse(`no PostgreSQL answers at ${at} (${code}). Start it, or correct the address.`)
  return error
}

/** The reason why the database is unavailable, for `/readyz`; the server's own message if it answered. */
export function unavailability(error: unknown): string {
  if (error instanceof ConfigError || error instanceof AppError) return error.message
  if (error instanceof UnreplicatedCommitError) return `${error.message}.`
  if (error instanceof postgres.PostgresError) return `the database refuses: ${refusalText(error)}`
  if (error instanceof UnusableServerError) return `the database cannot be used: ${error.message}.`
  return 'the database does not answer'
}
