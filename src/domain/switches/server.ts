// The server of the database, compared with the one on record and with what a witness remembers.
import type { Sql } from '#core/db.ts'

/** Which jobs can wait since a switch. */
export const HOLDS = ['payouts', 'creations', 'all'] as const

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
  /** The last entry of the audit log; null if it was deleted. */
  audit: { seq: number; hash: string } | null
  /** The seal of a database that will move to another server; null: it is not sealed. */
  seal: string | null
  /** The number of the last switch; 0 before the first. */
  switch: number
}

export type CheckedServer = ServerFacts & {
  /**
   * `current`: the server is in use. `sealed`: it is, but nothing may be accepted or claimed. `superseded`: another
   * server is in use. `recording`: a switch is not recorded yet: the check must be repeated.
   */
  state: 'current' | 'sealed' | 'superseded' | 'recording'
  /** Which jobs wait since a switch; null: none. */
  hold: (typeof HOLDS)[number] | null
  /** What happened later may have been lost by a switch of the last day; null: there was none. */
  lost_since: string | null
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
