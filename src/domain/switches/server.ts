// The server of the database, compared with the one on record and with what a witness remembers.
import type { Sql } from '#core/db.ts'

/** What a witness remembers about the server of the database. The functions of 0019_switches.sql compare it. */
export type ServerFacts = {
  system_identifier: string
  timeline: number
  /** The position up to which changes are durable: 16 digits in the order of positions. */
  lsn: string
  /** All transactions below have ended. */
  xid: string
  /** The database's clock, ISO 8601. */
  clock: string
  /** The number of the last switch; 0 before the first. */
  switch: number
}

export type CheckedServer = ServerFacts & {
  /**
   * `current`: the server is in use. `superseded`: another server is. `recording`: a switch is not recorded yet: the
   * check must be repeated.
   */
  state: 'current' | 'superseded' | 'recording'
  /** Which jobs wait since a switch; null: none. */
  hold: 'payouts' | 'creations' | 'all' | null
  /** Whether this check has recorded a switch. */
  recorded: boolean
}

/**
 * Compares the server with the one on record and with the newest facts of a witness (null without one). Records a
 * switch. `is_synchronous`: a standby that is promoted has everything that was committed.
 */
export async function checkServer(
  sql: Sql,
  witness: ServerFacts | null,
  is_synchronous: boolean,
): Promise<CheckedServer> {
  const [row] = await sql<{ server: CheckedServer }[]>`
    select check_server(${witness === null ? null : sql.json(witness)}::jsonb, ${is_synchronous}) as server`
  return row!.server
}

/** The id of the installation. It never changes. */
export async function findInstallationId(sql: Sql): Promise<string> {
  const [row] = await sql<{ id: string }[]>`select id from installation`
  return row!.id
}

/** A recorded switch of the database. */
export type DatabaseSwitch = {
  number: number
  kind: 'failover' | 'restore' | 'planned'
  sign: 'lineage' | 'witness' | 'operator'
  newest_at: string
  witnessed_at: string | null
  switched_at: string
  jobs_in_doubt: number
}

/** The switch with this number; undefined if there is none. */
export async function findSwitch(sql: Sql, number: number): Promise<DatabaseSwitch | undefined> {
  const [row] = await sql<DatabaseSwitch[]>`
    select number, kind, sign, newest_at, witnessed_at, switched_at, jobs_in_doubt from database_switches
    where number = ${number}`
  return row
}
