// The clock of a worker: work that is done again and again until the worker stops.
import type { Log } from '#core/log.ts'

export type Loop = { close(): Promise<void> }

/** Runs `work` again and again, `interval_ms()` after the end of the one before; a failure is logged and not the end. */
export function every(log: Log, name: string, interval_ms: () => number, work: () => Promise<void>): Loop {
  let closed = false
  let failing = false
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()

  async function run(): Promise<void> {
    try {
      await work()
      failing = false
    } catch (error) {
      if (!failing) log.warn({ err: error }, `${name} failed; tried again until it works`)
      failing = true
    }
    if (!closed) timer = setTimeout(start, interval_ms())
  }
  function start(): void {
    running = run()
  }
  timer = setTimeout(start, interval_ms())
  return {
    async close() {
      closed = true
      clearTimeout(timer)
      await running
    },
  }
}
