// Sends wake-ups for accepted jobs, within a window for each tenant and while the queue is not full. Other jobs wait
// for the sweep.
import type { WakeUp, Queue } from './queue.ts'

export type WakeUps = {
  /** Whether a job of this tenant may get a wake-up now; if not, the sweep finds it. */
  admits(queue: string, tenant_id: string): boolean
  /** Sends a wake-up without waiting. Call it after the commit. Never throws. */
  wake(wakeup: WakeUp & { tenant_id: string }): void
  /** Removes ended jobs from the windows of their tenants. */
  jobsEnded(jobs: { id: string }[]): void
}

/** The maximum time for which a wake-up counts in the window of its tenant, if the end of its job is not published. */
const EXPIRY_MS = 10_000
/** The maximum number of counted wake-ups of all tenants; further jobs wait for the sweep. */
const MAX_PENDING = 50_000

/**
 * `window`: the maximum number of jobs with a wake-up that a tenant may have in a queue. Each process counts only its
 * own wake-ups, so each process gives a tenant a window of its own.
 */
export function createWakeUps(queue: Queue, window: number): WakeUps {
  const pending = new Map<string, { share: string; at: number }>()
  /** The number of counted jobs by `<queue> <tenant id>`. */
  const shares = new Map<string, number>()

  function release(id: string): void {
    const wakeup = pending.get(id)
    if (wakeup === undefined) return
    pending.delete(id)
    const remaining = shares.get(wakeup.share)! - 1
    if (remaining === 0) shares.delete(wakeup.share)
    else shares.set(wakeup.share, remaining)
  }

  return {
    admits(name, tenant_id) {
      const oldest = pending.entries().next().value
      if (oldest !== undefined && oldest[1].at < performance.now() - EXPIRY_MS) release(oldest[0])
      if (pending.size >= MAX_PENDING) return false
      return (shares.get(`${name} ${tenant_id}`) ?? 0) < window && !queue.full(name)
    },
    wake({ tenant_id, ...wakeup }) {
      const share = `${wakeup.queue} ${tenant_id}`
      pending.set(wakeup.id, { share, at: performance.now() })
      shares.set(share, (shares.get(share) ?? 0) + 1)
      queue.wake([wakeup])
    },
    jobsEnded(jobs) {
      for (const { id } of jobs) release(id)
    },
  }
}
