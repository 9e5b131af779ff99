// The processes of this installation, by their heartbeats.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'

/** A process is gone when it has not been seen for this long: six heartbeats. */
const GONE_AFTER_S = 60

/** `queues`: those that a worker serves, null for other processes. `is_gone`: it ended without saying so, or hangs. */
export const processSchema = z.object({
  id: z.uuid(),
  name: z.string(),
  version: z.string(),
  host: z.string(),
  pid: z.int(),
  queues: z.array(z.string()).nullable(),
  started_at: timestamp,
  seen_at: timestamp,
  is_gone: z.boolean(),
})
export type SeenProcess = z.output<typeof processSchema>

/** Those that were seen within a day, by name and start. */
export async function findProcesses(sql: Sql): Promise<SeenProcess[]> {
  return await sql<SeenProcess[]>`
    select id, name, version, host, pid, queues, started_at, seen_at,
      seen_at < now() - ${GONE_AFTER_S} * interval '1 second' as is_gone
    from processes where seen_at > now() - interval '1 day' order by name, started_at, id`
}

/** Removes those that have not been seen for a day. */
export async function forgetGoneProcesses(sql: Sql): Promise<void> {
  await sql`delete from processes where seen_at < now() - interval '1 day'`
}
