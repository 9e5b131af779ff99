// The heartbeat of a process: a row that says every few seconds that it is there.
import { hostname } from 'node:os'
import type { Sql } from './db.ts'
import { newId } from './ids.ts'
import { VERSION } from './version.ts'

/** What a process says of itself. `queues`: those that a worker serves. */
export type ProcessFacts = { name: string; queues?: readonly string[] }

const HEARTBEAT_INTERVAL_MS = 10_000
/** A process that ends does not wait longer than this for a database that is away. */
const STOP_TIMEOUT_MS = 500
/** As leases, attempts and recurring work name this process. */
export const PROCESS_NAME = `${hostname()}/${process.pid}`

/**
 * Begins at once; `stop` says that it has ended. A beat that fails is made up for by the next one: a process does not
 * depend on it.
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
    // The first beat, which makes the row, may be under way.
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
