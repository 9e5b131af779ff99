// The doorbell: rings for accepted jobs, within a window for each tenant and while the queue is not full. Other jobs
// wait for their turn.
import type { Bell, Queue } from './queue.ts'

export type Doorbell = {
  /** Whether a job of this tenant may be rung for at once; if not, the sweep will find it. */
  admits(queue: string, tenant_id: string): boolean
  /** Rings; call it after the commit. Never throws, never waits. */
  ring(bell: Bell & { tenant_id: string }): void
  /** Makes room in the window for these jobs: they have ended. */
  heard(jobs: { id: string }[]): void
}

/** A bell counts for at most this long if the end of its job is never heard. */
const FORGET_MS = 10_000
/** Bells that count at once, of all tenants; jobs beyond wait for the sweep. */
const MOST_RUNG = 50_000

/** The window is counted in this process only: with several processes a tenant has a window in each. */
export function createDoorbell(queue: Queue, window: number): Doorbell {
  const rung = new Map<string, { share: string; at: number }>()
  /** How many rung jobs a tenant has in a queue; a share is `<queue> <tenant id>`. */
  const shares = new Map<string, number>()

  function release(id: string): void {
    const bell = rung.get(id)
    if (bell === undefined) return
    rung.delete(id)
    const left = shares.get(bell.share)! - 1
    if (left === 0) shares.delete(bell.share)
    else shares.set(bell.share, left)
  }

  return {
    admits(name, tenant_id) {
      const oldest = rung.entries().next().value
      if (oldest !== undefined && oldest[1].at < performance.now() - FORGET_MS) release(oldest[0])
      if (rung.size >= MOST_RUNG) return false
      return (shares.get(`${name} ${tenant_id}`) ?? 0) < window && !queue.full(name)
    },
    ring({ tenant_id, ...bell }) {
      const share = `${bell.queue} ${tenant_id}`
      rung.set(bell.id, { share, at: performance.now() })
      shares.set(share, (shares.get(share) ?? 0) + 1)
      queue.ring([bell])
    },
    heard(jobs) {
      for (const { id } of jobs) release(id)
    },
  }
}
