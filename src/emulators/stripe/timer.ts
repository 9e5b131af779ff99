// The timer for the scheduled changes of the engine.
import { keepDelays, runDue } from '#providers/sandbox/stripe/due.ts'
import { nowMs, type Engine } from '#providers/sandbox/stripe/engine.ts'
import { nextDueMs } from '#providers/sandbox/stripe/schedule.ts'

export type ChangeTimer = {
  /** Sets the timer for the earliest change. Must be called after the schedule or the clock has changed. */
  arm(): void
  /** Stops the timer for good. */
  stop(): void
}

/** The timer ends after this time at the latest, so that it follows an adjustment of the system's clock. */
const MAX_DELAY_MS = 60_000

export function createChangeTimer(engine: Engine): ChangeTimer {
  let timeout: NodeJS.Timeout | null = null
  /** The time of the host for which the timer is set. */
  let armed_ms = Infinity
  /** The latest time of the host while the timer was set. */
  let latest_ms = 0
  let stopped = false

  function arm(): void {
    const due_ms = nextDueMs(engine)
    if (stopped || due_ms === null) return
    const now_ms = engine.clock.hostMs()
    latest_ms = armed_ms === Infinity ? now_ms : Math.max(latest_ms, now_ms)
    const at_ms = due_ms - engine.clock.offset_ms
    // A timer that ends too early sets the next one.
    if (at_ms >= armed_ms) return
    if (timeout) clearTimeout(timeout)
    armed_ms = at_ms
    timeout = setTimeout(runDueChanges, Math.min(Math.max(at_ms - now_ms, 0), MAX_DELAY_MS))
  }

  function runDueChanges(): void {
    armed_ms = Infinity
    const back_ms = latest_ms - engine.clock.hostMs()
    // If the clock of the host was set back, banks do not wait until it shows their time again.
    if (back_ms > 0) keepDelays(engine, back_ms)
    runDue(engine, nowMs(engine))
    arm()
  }

  return {
    arm,
    stop() {
      stopped = true
      if (timeout) clearTimeout(timeout)
    },
  }
}
