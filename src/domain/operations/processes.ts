// The processes of this installation, from their heartbeats.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** A process is late after two missed heartbeats. */
const LATE_AFTER_S = 30
/** A process is gone after five missed heartbeats. */
export const LOST_AFTER_S = 60

/**
 * `queues`: the queues that a worker serves; null for other processes. `state`: `up`: seen recently; `late`: it
 * missed heartbeats; `gone`: it ended without a report, or hangs.
 */
export const processSchema = z.object({
  id: z.uuid(),
  name: z.string(),
  version: z.string(),
  host: z.string(),
  pid: z.int(),
  queues: z.array(z.string()).nullable(),
  started_at: timestamp,
  seen_at: timestamp,
  state: z.enum(['up', 'late', 'gone']),
})
export type ReportedProcess = z.output<typeof processSchema>

/** The maximum number of processes that are listed. */
const MAX_PROCESSES = 1_000

/** The processes seen within a day that have not reported their end, by name and start. */
export async function findProcesses(sql: Sql): Promise<ReportedProcess[]> {
  return await sql<ReportedProcess[]>`
    select id, name, version, host, pid, queues, started_at, seen_at,
      case when seen_at < now() - ${LOST_AFTER_S} * interval '1 second' then 'gone'
        when seen_at < now() - ${LATE_AFTER_S} * interval '1 second' then 'late' else 'up' end as state
    from processes where seen_at > now() - interval '1 day' and ended_at is null
    order by name, started_at, id limit ${MAX_PROCESSES}`
}

/**
 * The names of the processes, seen within this time, that have not reported that they have noticed the present seal of
 * the database and ended all work that they had admitted before.
 */
export async function findUndrainedProcesses(sql: Sql, seen_within_s: number): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select format('%s (%s/%s, seen %s s ago)', p.name, p.host, p.pid,
      floor(extract(epoch from now() - p.seen_at))) as name
    from processes p cross join lineage l
    where p.ended_at is null and p.seen_at > now() - ${seen_within_s} * interval '1 second'
      and not coalesce(p.sealed_at = l.sealed_at, false)
    order by 1`
  return rows.map(({ name }) => name)
}

/** Deletes processes that have ended or were not seen for a day. */
export async function deleteEndedProcesses(sql: Sql): Promise<void> {
  await sql`delete from processes where ended_at is not null or seen_at < now() - interval '1 day'`
}
