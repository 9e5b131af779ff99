// Limits the work of a thread by the time of a processor that it used, so that a busy machine changes no outcome.
import type { Worker } from 'node:worker_threads'

/** What a thread says of itself when its work begins. */
export type ThreadStart = { started_at_cpu_us: number }

/** To be said by the thread. */
export function threadStart(): ThreadStart {
  return { started_at_cpu_us: sumOf(process.threadCpuUsage()) }
}

/** On a machine that gives the thread no time, nothing is learnt of its work after so many times its limit. */
const MAX_WAIT_FACTOR = 30

/**
 * Calls `end` with `used_up` once the thread has used `limit_ms` of a processor since it began, and with `starved` when it
 * did not get that time within thirty times as long. Returns what stops that.
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
    // One that has ended tells that by its `exit`.
    if (stopped || usage === undefined) return
    const left_ms = limit_ms - (sumOf(usage) - started_at_cpu_us) / 1000
    if (left_ms <= 0) end('used_up')
    else if (performance.now() > until) end('starved')
    // It cannot use more than passes.
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
