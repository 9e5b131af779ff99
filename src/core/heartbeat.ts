// The heartbeat of a process: a row that it refreshes every few seconds.
import { hostname } from 'node:os'
import type { Sql } from './db.ts'
import { newId } from './ids.ts'
import { VERSION } from './version.ts'

/** The facts about a process. `queues`: the queues of a worker. */
export type ProcessFacts = { name: string; queues?: readonly string[] }

const HEARTBEAT_INTERVAL_MS = 10_000
/** The time that a stopping process waits for an unavailable database. */
const STOP_TIMEOUT_MS = 500
/** The name of this process in leases, attempts and recurring work. */
export const PROCESS_NAME = `${hostname()}/${process.pid}`

/**
 * Starts the heartbeat at once; `stop` records the end of the process. A failed heartbeat is repaired by the next one:
 * the process does not depend on its heartbeats.
 */
export function startHeartbeat(sql: Sql, { name, queues }: ProcessFacts): { stop(): Promise<void> } {
  const id = newId()
  const started_at = new Date().toISOString()
  let beating = beat()
  const timer = setInterval(() => {
    beating = beating.then(beat)
  }, HEARTBEAT_INTERVAL_MS).unref()

  async function beat(): Promise<void> {
    await sql`
      insert into processes (id, name, version, host, pid, queues, started_at)
      values (${id}, ${name}, ${VERSION}, ${hostname()}, ${process.pid},
        ${queues === undefined ? null : [...queues]}::text[], ${started_at})
      on conflict (id) do update set seen_at = now()`.catch(() => undefined)
  }

  async function end(): Promise<void> {
    // The first heartbeat, which inserts the row, may be in progress.
    await beating
    await sql`update processes set ended_at = now() where id = ${id}`.catch(() => undefined)
  }

  return {
    async stop() {
      clearInterval(timer)
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
