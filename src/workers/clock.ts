// Loops: work that is repeated until the worker stops.
import { TEST_SUFFIX } from '#core/config/providers.ts'
import { databaseCode, isDatabaseFailure, unavailability } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { throttle } from '#core/seldom.ts'
import { TICK_MS, atTick } from '#core/ticks.ts'
import type { DatabaseWatch } from '#domain/switches/watch.ts'

export type Loop = { close(): Promise<void> }
/** `runNow` shortens the current wait: call it when the interval has become shorter. */
export type RestartableLoop = Loop & { runNow(): void }

/** Thrown by work that has already logged and recorded its failure. */
export class RunError extends Error {
  override name = 'RunError'
}

// In an outage all recurring work of the process fails for the same reason: one line for all of it.
const warnOfDatabase = throttle((suppressed, log: Log, work: string, error: unknown) => {
  const facts = { work, reason: unavailability(error), code: databaseCode(error), suppressed }
  log.warn(
    facts,
    'recurring work failed, because the database is unavailable: it is retried until it succeeds',
  )
}, 10_000)

/**
 * Runs `work` repeatedly; the next run begins `interval_ms()` after the end of the last run. Intervals of half a second
 * and more end at a common tick: see `atTick`. A failure is counted and logged, and the loop continues.
 */
export function repeat(
  log: Log,
  name: string,
  interval_ms: () => number,
  work: () => Promise<void>,
): RestartableLoop {
  let closed = false
  let failing = false
  let cancel: (() => void) | undefined
  let due_at = 0
  let running = Promise.resolve()

  async function run(): Promise<void> {
    try {
      await work()
      failing = false
    } catch (error) {
      if (!name.endsWith(TEST_SUFFIX)) metrics.recurringFailures.inc({ work: name })
      if (isDatabaseFailure(error)) warnOfDatabase(log, name, error)
      else if (!failing && !(error instanceof RunError))
        log.warn({ err: error }, `the recurring task "${name}" failed: it is retried until it succeeds`)
      failing = true
    }
    schedule()
  }
  function start(): void {
    cancel = undefined
    running = run()
  }
  function schedule(): void {
    if (closed) return
    const wait_ms = interval_ms()
    due_at = performance.now() + wait_ms
    cancel = startTimer(start, wait_ms)
  }
  schedule()
  return {
    runNow() {
      // While the work runs, no timer is set: the next run is scheduled when the work ends.
      if (cancel === undefined || due_at - performance.now() <= interval_ms()) return
      cancel()
      schedule()
    },
    async close() {
      closed = true
      cancel?.()
      await running
    },
  }
}

function startTimer(work: () => void, ms: number): () => void {
  if (ms >= TICK_MS) return atTick(work, ms)
  const timer = setTimeout(work, ms)
  return () => clearTimeout(timer)
}

/** The interval of work that may write, while the server is not in use or the database is sealed. */
const STOPPED_INTERVAL_MS = 1_000

/** Whether work must end: the worker stops, the server is no longer in use, or the database is sealed. */
export type MustEnd = () => boolean

/**
 * Like `repeat`, for work that may write: it does not begin unless the server is in use, and a seal of the database
 * waits for its end. Work of several steps calls `mustEnd` between them.
 */
export function repeatWhileCurrent(
  { log, database }: { log: Log; database: DatabaseWatch },
  name: string,
  interval_ms: () => number,
  work: (mustEnd: MustEnd) => Promise<void>,
): RestartableLoop {
  let closed = false
  const mustEnd = () => closed || !database.isCurrent()
  const loop = repeat(
    log,
    name,
    () => (database.isCurrent() ? interval_ms() : STOPPED_INTERVAL_MS),
    // Work that does not begin is not counted: the heartbeat reads the count at the same tick.
    async () => {
      if (!mustEnd()) await database.track(async () => await work(mustEnd))
    },
  )
  return {
    ...loop,
    async close() {
      closed = true
      await loop.close()
    },
  }
}

/** Closes several loops as one. */
export function together(loops: Loop[]): Loop {
  return {
    async close() {
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}
