// Timers that fire together. Most of the processor time of an idle process is spent on waking up, so the recurring work
// of a process begins at common ticks.

export const TICK_MS = 500

type Timer = { work: () => void; due: number }

const timers = new Set<Timer>()
let ticks = 0
let clock: NodeJS.Timeout | undefined

/**
 * Calls `work` once, at the tick closest to `ms` from the last tick: up to 750 ms early, or 250 ms late. Call the
 * returned function to cancel it. Does not keep the process alive.
 */
export function atTick(work: () => void, ms: number): () => void {
  const timer = { work, due: ticks + Math.max(1, Math.round(ms / TICK_MS)) }
  timers.add(timer)
  clock ??= setInterval(runDue, TICK_MS).unref()
  return () => void timers.delete(timer)
}

/** Calls `work` at ticks, every `ms`, until the returned function is called. Does not keep the process alive. */
export function everyTick(work: () => void, ms: number): () => void {
  let cancel = atTick(run, ms)
  function run(): void {
    cancel = atTick(run, ms)
    work()
  }
  return () => cancel()
}

/** Like `atTick`, as a promise, which resolves earlier if the signal aborts. */
export async function untilTick(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => {
    const cancel = atTick(done, ms)
    function done(): void {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done)
  })
}

function runDue(): void {
  ticks += 1
  for (const timer of timers) {
    if (timer.due > ticks) continue
    timers.delete(timer)
    timer.work()
  }
  if (timers.size > 0) return
  clearInterval(clock)
  clock = undefined
}
