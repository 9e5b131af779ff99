// The server of the database, compared with the one on record and with what a witness remembers.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'

/** Which jobs can wait since a switch. */
export const HOLDS = ['payouts', 'creations', 'all'] as const

/** What a witness remembers about the server of the database. `check_server` in 0022_server_checks.sql compares it. */
export const serverFactsSchema = z.object({
  system_identifier: z.string().regex(/^\d+$/),
  timeline: z.int(),
  /** The position up to which changes are durable: 16 digits in the order of positions. */
  lsn: z.string().regex(/^[0-9A-F]{16}$/),
  /** The database's clock. */
  clock: z.iso.datetime({ offset: true }),
  /** The last heartbeat of the database, whose number only rises, and its time. */
  heartbeat: z.object({ number: z.int(), at: z.iso.datetime({ offset: true }) }),
  /** The last entry of the audit log; null if it was deleted. */
  audit: z.object({ seq: z.int(), hash: z.string().regex(/^[0-9a-f]{64}$/) }).nullable(),
  /** The seal of a database that will move to another server; null: it is not sealed. */
  seal: z.uuid().nullable(),
  /** The number of the last switch; 0 before the first. */
  switch: z.int(),
})
export type ServerFacts = z.output<typeof serverFactsSchema>

/** What `check_server` returns. */
const checkedServerSchema = serverFactsSchema.extend({
  /** When the server started. */
  started_at: z.string(),
  /**
   * `current`: the server is in use. `sealed`: it is, but nothing may be accepted or claimed. `superseded`: another
   * server is in use. `recording`: a switch is not recorded yet: the check must be repeated. `unchecked`: the server
   * has started, and witnesses must answer, or another process must record a switch. `unconfirmed`: the server has not
   * started, but is behind a witness: the check must be repeated after a second, with new answers of the witnesses.
   */
  state: z.enum(['current', 'sealed', 'superseded', 'recording', 'unchecked', 'unconfirmed']),
  /** When the database was last sealed; null: it never was, or an operator has ended the last seal. */
  sealed_at: z.string().nullable(),
  /** Which jobs wait since a switch; null: none. */
  hold: z.enum(HOLDS).nullable(),
  /** Since when a switch is being recorded, while all jobs wait; null: none is. */
  recording_since: z.string().nullable(),
  /** What happened later may have been lost by a switch of the last day; null: there was none. */
  lost_since: z.string().nullable(),
  /** Whether this check has recorded a switch. */
  recorded: z.boolean(),
  /** Whether this check has raised the heartbeat, which one check per second does. */
  raised_heartbeat: z.boolean(),
})
export type CheckedServer = z.output<typeof checkedServerSchema>

/** What a process says about its check. */
export type Reading = {
  /** Whether a promoted standby has every commit. */
  is_synchronous: boolean
  /** Whether all witnesses have answered; null: the process asks none, and records nothing. */
  all_answered: boolean | null
  /** The start of the server after which silent witnesses were waited for long enough; null: none. */
  waited_for: string | null
  /** The check repeats one that was `unconfirmed`. */
  is_repeated: boolean
}

/**
 * Compares the server with the one on record and with the newest facts of a witness (null without one). Records a
 * switch.
 */
export async function checkServer(
  sql: Sql,
  witness: ServerFacts | null,
  { is_synchronous, all_answered, waited_for, is_repeated }: Reading,
): Promise<CheckedServer> {
  const facts = witness === null ? null : sql.json(witness)
  const [row] = await sql<{ server: unknown }[]>`
    select check_server(
      ${facts}::jsonb, ${is_synchronous}, ${all_answered}, ${waited_for}::timestamptz, ${is_repeated}) as server`
  return checkedServerSchema.parse(row!.server)
}
