// The server of the database, compared with the one on record and with what a witness remembers.
import type { Sql } from '#core/db.ts'

/** Which jobs can wait since a switch. */
export const HOLDS = ['payouts', 'creations', 'all'] as const

/** What a witness remembers about the server of the database. `check_server` in 0022_server_checks.sql compares it. */
export type ServerFacts = {
  system_identifier: string
  timeline: number
  /** The position up to which changes are durable: 16 digits in the order of positions. */
  lsn: string
  /** The database's clock, ISO 8601. */
  clock: string
  /** The last heartbeat of the database, whose number only rises, and its time; null: the witness knows none. */
  heartbeat: { number: number; at: string } | null
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
   * server is in use. `recording`: a switch is not recorded yet: the check must be repeated. `unchecked`: the server
   * has started, and witnesses must be heard, or another process must record a switch.
   */
  state: 'current' | 'sealed' | 'superseded' | 'recording' | 'unchecked'
  /** Which jobs wait since a switch; null: none. */
  hold: (typeof HOLDS)[number] | null
  /** What happened later may have been lost by a switch of the last day; null: there was none. */
  lost_since: string | null
  /** Whether this check has recorded a switch. */
  recorded: boolean
  /** Whether this check has raised the heartbeat, which one check per second does. */
  has_beaten: boolean
}

/**
 * Compares the server with the one on record and with the newest facts of a witness (null without one). Records a
 * switch. `is_synchronous`: a standby that is promoted has everything that was committed. `is_heard`: all witnesses
 * have answered, or need not be waited for.
 */
export async function checkServer(
  sql: Sql,
  witness: ServerFacts | null,
  { is_synchronous, is_heard }: { is_synchronous: boolean; is_heard: boolean },
): Promise<CheckedServer> {
  const facts = witness === null ? null : sql.json(witness)
  const [row] = await sql<{ server: CheckedServer }[]>`
    select check_server(${facts}::jsonb, ${is_synchronous}, ${is_heard}) as server`
  return row!.server
}

/** The id of the installation. It changes only while no process runs: see `drawInstallation`. */
export async function findInstallationId(sql: Sql): Promise<string> {
  const [row] = await sql<{ id: string }[]>`select id from installation`
  return row!.id
}

/** The key that signs what is remembered at WITNESS_URL. */
export async function findWitnessKey(sql: Sql): Promise<Buffer> {
  const [row] = await sql<{ witness_key: Buffer }[]>`select witness_key from installation`
  return row!.witness_key
}
