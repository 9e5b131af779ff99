// The shares of the tenants in the slots of a queue: a caller may decide how long the call of a job lasts, and none may
// take every slot.
import type { TenantShare } from '#domain/jobs/claim.ts'

/**
 * The part of the slots of a queue that one tenant may hold. It holds also while no other tenant has work, because a slot
 * that was given away is not free when another comes. It is less than walks may bring, so that they find room for others
 * too. With fewer than four slots it is all of them.
 */
const MAX_TENANT_SHARE = 0.75

export type Shares = {
  /** What is left to each tenant when `count` more jobs are wanted; undefined while nobody can come above a share. */
  left(queue: string, count: number): TenantShare | undefined
  /**
   * Runs `claim` with what is left, by queue. Until it ends the jobs count for every tenant: only then it is known whose
   * they are.
   */
  claiming<T>(jobs: { queue: string }[], claim: (left: Record<string, TenantShare>) => Promise<T>): Promise<T>
  /** Counts a job for its tenant until the returned function is called. */
  hold(job: { queue: string; tenant_id: string }): () => void
  /** Whether a tenant holds all of its share: its other jobs wait although there may be free slots. */
  hasUsedUpQuota(queue: string): boolean
}

/** For one worker; `sizeOf`: how many slots a queue has. */
export function createShares(sizeOf: (queue: string) => number): Shares {
  const quotaOf = (queue: string) => Math.ceil(sizeOf(queue) * MAX_TENANT_SHARE)
  type SlotUsage = { by: Map<string, number>; total: number; unknown: number }
  const queues = new Map<string, SlotUsage>()

  function usageOf(queue: string): SlotUsage {
    const usage = queues.get(queue) ?? { by: new Map(), total: 0, unknown: 0 }
    queues.set(queue, usage)
    return usage
  }

  function left(queue: string, count: number): TenantShare | undefined {
    const { by, total, unknown } = usageOf(queue)
    const quota = quotaOf(queue)
    if (total + unknown + count <= quota) return undefined
    return { left: quota - unknown, claimed: Object.fromEntries(by) }
  }

  return {
    left,
    async claiming(jobs, claim) {
      const counts = Map.groupBy(jobs, ({ queue }) => queue)
      const shares: Record<string, TenantShare> = {}
      for (const [queue, { length }] of counts) {
        const share = left(queue, length)
        if (share !== undefined) shares[queue] = share
        usageOf(queue).unknown += length
      }
      try {
        return await claim(shares)
      } finally {
        for (const [queue, { length }] of counts) usageOf(queue).unknown -= length
      }
    },
    hold({ queue, tenant_id }) {
      const usage = usageOf(queue)
      const add = (by: 1 | -1) => {
        const now = (usage.by.get(tenant_id) ?? 0) + by
        usage.total += by
        if (now === 0) usage.by.delete(tenant_id)
        else usage.by.set(tenant_id, now)
      }
      add(1)
      return () => add(-1)
    },
    hasUsedUpQuota: (queue) => Math.max(0, ...usageOf(queue).by.values()) >= quotaOf(queue),
  }
}
