// The heartbeat of a process: a row that it refreshes every few seconds.
import { hostname } from 'node:os'
import type { Sql } from './db.ts'
import { newId } from './ids.ts'
import { everyTick } from './ticks.ts'
import { VERSION } from './version.ts'

/** The facts about a process. `queues`: the queues of a worker. */
export type ProcessFacts = { name: string; queues?: readonly string[] }
/**
 * `sql`: a connection that never waits for requests or jobs. `drainedSeal`: when the database was sealed, if the
 * process has noticed it and has no work left; otherwise null.
 */
type HeartbeatSource = { sql: Sql; drainedSeal: () => string | null }

const HEARTBEAT_INTERVAL_MS = 10_000
/** The interval at which a heartbeat is sent early, because the process has noticed a seal or its end. */
const SEAL_INTERVAL_MS = 500
/** The time that a stopping process waits for an unavailable database. */
const STOP_TIMEOUT_MS = 500
/** The name of this process in leases, attempts and recurring work. */
export const PROCESS_NAME = `${hostname()}/${process.pid}`

/**
 * Starts the heartbeat at once; `stop` records the end of the process. A failed heartbeat is repaired by the next one:
 * the process does not depend on its heartbeats.
 */
export function startHeartbeat(
  { sql, drainedSeal }: HeartbeatSource,
  { name, queues }: ProcessFacts,
): { stop(): Promise<void> } {
  const id = newId()
  const started_at = new Date().toISOString()
  let due_at = -Infinity
  let reported: string | null = null
  let is_beating = false
  let beating = beatIfDue()
  const stopBeating = everyTick(() => {
    if (!is_beating) beating = beatIfDue()
  }, SEAL_INTERVAL_MS)

  async function beatIfDue(): Promise<void> {
    const sealed_at = drainedSeal()
    if (performance.now() < due_at && sealed_at === reported) return
    due_at = performance.now() + HEARTBEAT_INTERVAL_MS
    is_beating = true
    if (await beat(sealed_at)) reported = sealed_at
    is_beating = false
  }

  async function beat(sealed_at: string | null): Promise<boolean> {
    const beaten = await sql`
      insert into processes (id, name, version, host, pid, queues, started_at, sealed_at)
      values (${id}, ${name}, ${VERSION}, ${hostname()}, ${process.pid},
        ${queues === undefined ? null : [...queues]}::text[], ${started_at}, ${sealed_at})
      on conflict (id) do update set seen_at = now(), sealed_at = excluded.sealed_at`.catch(() => undefined)
    return beaten !== undefined
  }

  async function end(): Promise<void> {
    // The first heartbeat, which inserts the row, may be in progress.
    await beating
    await sql`update processes set ended_at = now() where id = ${id}`.catch(() => undefined)
  }

  return {
    async stop() {
      stopBeating()
      const ended = end()
      let timeout: NodeJS.Timeout | undefined
      await Promise.race([
        ended,
        new Promise((resolve) => {
          timeout = setTimeout(resolve, STOP_TIMEOUT_MS)
        }),
      ])
      clearTimeout(timeout)
    },
  }
}
