// Reads switches of the database, and what waits since them.
import type { Fragment, Sql } from '#core/db.ts'
import { isHeld } from './holds.ts'
import type { CheckedServer } from './server.ts'

/** A recorded switch of the database. */
export type DatabaseSwitch = {
  number: number
  kind: 'failover' | 'restore' | 'planned'
  sign: 'lineage' | 'witness' | 'operator'
  /** The newest change in the database before the switch. */
  newest_at: string
  /** When the witness last read the database's clock; null without a witness. */
  witnessed_at: string | null
  switched_at: string
  jobs_in_doubt: number
  /** When everything that the providers list had been taken up. */
  lists_read_at: string | null
  released_at: string | null
  released_by: string | null
  messages: 'send' | 'discard' | null
  acknowledged_at: string | null
  acknowledged_by: string | null
  /** The last entry of the audit log that the witness had seen. */
  audit: { seq: number; hash: string } | null
}

/** The switch with this number; undefined if there is none. */
export async function findSwitch(sql: Sql, number: number): Promise<DatabaseSwitch | undefined> {
  const [row] = await sql<DatabaseSwitch[]>`
    select ${switchColumns(sql)} from database_switches where recorded_at is not null and number = ${number}`
  return row
}

/** The last switches, newest first. */
export async function findSwitches(sql: Sql, limit: number): Promise<DatabaseSwitch[]> {
  return await sql<DatabaseSwitch[]>`
    select ${switchColumns(sql)} from database_switches where recorded_at is not null
    order by number desc limit ${limit}`
}

function switchColumns(sql: Sql): Fragment {
  return sql`
    number, kind, sign, newest_at, witnessed_at, switched_at, jobs_in_doubt, lists_read_at, released_at, released_by,
    messages, acknowledged_at, acknowledged_by, witness -> 'audit' as audit`
}

/** The server on record, and the open jobs that wait. */
export type SwitchState = {
  server: { system_identifier: string; timeline: number; server_started_at: string; last_switch: number }
  /** Whether the database runs on the server on record. */
  is_on_lineage: boolean
  is_sealed: boolean
  hold: CheckedServer['hold']
  held: { queue: string; jobs: number }[]
  newest_at: string
}

export async function findSwitchState(sql: Sql): Promise<SwitchState> {
  const [row] = await sql<SwitchState[]>`
    select jsonb_build_object('system_identifier', l.system_identifier, 'timeline', l.timeline,
        'server_started_at', l.server_started_at, 'last_switch', l.last_switch) as server,
      l.server_started_at = pg_postmaster_start_time() and l.timeline = current_timeline() as is_on_lineage,
      l.seal is not null as is_sealed, l.hold, newest_change('infinity') as newest_at,
      coalesce((
        select jsonb_agg(h order by h.queue) from (
          select j.queue, count(*)::integer as jobs from jobs j where j.finished_at is null and ${isHeld(sql)}
          group by j.queue
        ) h), '[]') as held
    from lineage l`
  return row!
}

/** The number of jobs that run now. */
export async function countRunningJobs(sql: Sql): Promise<number> {
  const [row] = await sql<{ running: number }[]>`
    select count(*)::integer as running from jobs where state = 'running' and finished_at is null`
  return row!.running
}
