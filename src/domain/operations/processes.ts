// The processes of this installation, by their heartbeats.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** A process that missed its third heartbeat may have ended. */
const LATE_AFTER_S = 30
/** It is gone when it has not been seen for this long: six heartbeats. */
const GONE_AFTER_S = 60

/**
 * `queues`: those that a worker serves, null for other processes. `state`: `up` only of one that
 * was seen lately; `late`: it missed heartbeats; `gone`: it ended without saying so, or hangs.
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
export type SeenProcess = z.output<typeof processSchema>

/** More than that are not kept of all names together. */
const MAX_PROCESSES = 1_000

/** Those that were seen within a day and have not said that they ended, by name and start. */
export async function findProcesses(sql: Sql): Promise<SeenProcess[]> {
  return await sql<SeenProcess[]>`
    select id, name, version, host, pid, queues, started_at, seen_at,
      case when seen_at < now() - ${GONE_AFTER_S} * interval '1 second' then 'gone'
        when seen_at < now() - ${LATE_AFTER_S} * interval '1 second' then 'late' else 'up' end as state
    from processes where seen_at > now() - interval '1 day' and ended_at is null
    order by name, started_at, id limit ${MAX_PROCESSES}`
}

/** Removes those that have ended or have not been seen for a day. */
export async function deleteEndedProcesses(sql: Sql): Promise<void> {
  await sql`delete from processes where ended_at is not null or seen_at < now() - interval '1 day'`
}
