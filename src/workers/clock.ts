// Loops: work that is repeated until the worker stops.
import type { Log } from '#core/log.ts'

export type Loop = { close(): Promise<void> }

/** Runs `work` repeatedly, `interval_ms()` after the last run ended. A failure is logged, and the loop goes on. */
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
      if (!failing) log.warn({ err: error }, `${name} failed; it is tried again until it works`)
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
