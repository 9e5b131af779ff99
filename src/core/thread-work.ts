// Limits the work of a thread by its processor time, so that a busy machine changes no outcome.
import type { Worker } from 'node:worker_threads'

/** A thread's report when its work begins. */
export type ThreadStart = { started_at_cpu_us: number }

/** Creates the report, in the thread. */
export function threadStart(): ThreadStart {
  return { started_at_cpu_us: sumOf(process.threadCpuUsage()) }
}

/** The maximum duration of the work on a busy machine, as a multiple of its limit of processor time. */
const MAX_WAIT_FACTOR = 30

/**
 * Limits the work of a thread that began with this report. Calls `end` with `used_up` when the thread has used
 * `limit_ms` of processor time, or with `starved` when `MAX_WAIT_FACTOR` times `limit_ms` have passed and the thread
 * did not get that much processor time. Returns a function that stops the check.
 */
export function limitCpuTime(
  thread: Worker,
  { started_at_cpu_us }: ThreadStart,
  limit_ms: number,
  end: (reason: 'used_up' | 'starved') => void,
): () => void {
  const until = performance.now() + MAX_WAIT_FACTOR * limit_ms
  let stopped = false
  let timer = setTimeout(() => void check(), limit_ms)

  async function check(): Promise<void> {
    const usage = await thread.cpuUsage().catch(() => undefined)
    // Without a usage, the thread has ended: its `exit` event reports that.
    if (stopped || usage === undefined) return
    const left_ms = limit_ms - (sumOf(usage) - started_at_cpu_us) / 1000
    if (left_ms <= 0) end('used_up')
    else if (performance.now() > until) end('starved')
    // The thread cannot reach the limit earlier: it uses at most as much processor time as time passes.
    else timer = setTimeout(() => void check(), Math.max(1, left_ms))
  }

  return () => {
    stopped = true
    clearTimeout(timer)
  }
}

function sumOf({ user, system }: NodeJS.CpuUsage): number {
  return user + system
}
