// Rings for accepted jobs, within a window per tenant and while the queue is not full: what is above waits for its turn.
import type { Bell, Queue } from './main.ts'

export type Doorbell = {
  /** Whether a job of this tenant may be rung for at once; if not, its row waits to be found. */
  admits(queue: string, tenant_id: string): boolean
  /** Rings; call it after the commit. Never throws, never waits. */
  ring(bell: Bell & { tenant_id: string }): void
  /** Outcomes that were heard make room in the window. */
  heard(outcomes: { id: string }[]): void
}

/** A bell whose outcome was never heard of counts no longer than this. */
const FORGET_MS = 10_000

/** The window is this process's own view: with several processes a tenant has several windows, each as fair. */
export function createDoorbell(queue: Queue, window: number): Doorbell {
  const rung = new Map<string, { share: string; at: number }>()
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
      return (shares.get(`${name} ${tenant_id}`) ?? 0) < window && !queue.full(name)
    },
    ring({ tenant_id, ...bell }) {
      const share = `${bell.queue} ${tenant_id}`
      rung.set(bell.id, { share, at: performance.now() })
      shares.set(share, (shares.get(share) ?? 0) + 1)
      queue.ring([bell])
    },
    heard(outcomes) {
      for (const { id } of outcomes) release(id)
    },
  }
}
