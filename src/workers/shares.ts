// The quotas of tenants in the slots of a queue. No tenant may use every slot, because a tenant can influence how long
// its calls take.
import type { TenantShare } from '#domain/jobs/claim.ts'

/**
 * The share of a queue's slots that one tenant may use, even while no other tenant has jobs: otherwise no slot would be
 * free when another tenant's job arrives. The share is smaller than the share of the slots that scans may use, so that
 * scans find slots for other tenants. With fewer than four slots, a tenant may use all of them.
 */
const MAX_TENANT_SHARE = 0.75

export type Shares = {
  /** Each tenant's remaining quota for a claim of `count` jobs. Undefined while no tenant can exceed its quota. */
  remainingQuota(queue: string, count: number): TenantShare | undefined
  /**
   * Runs `claim` with the remaining quotas by queue. Until `claim` ends, the jobs count for every tenant, because their
   * tenants are not known yet.
   */
  claimWithin<T>(
    jobs: { queue: string }[],
    claim: (quotas: Record<string, TenantShare>) => Promise<T>,
  ): Promise<T>
  /** Counts a job for its tenant until the returned function is called. */
  acquire(job: { queue: string; tenant_id: string }): () => void
  /** Whether any tenant uses all of its quota: further jobs of that tenant wait, although slots may be free. */
  hasUsedUpQuota(queue: string): boolean
}

/** The quotas of one worker. `sizeOf`: the number of slots of a queue. */
export function createShares(sizeOf: (queue: string) => number): Shares {
  const quotaOf = (queue: string) => Math.ceil(sizeOf(queue) * MAX_TENANT_SHARE)
  type SlotUsage = { by_tenant: Map<string, number>; total: number; unknown: number }
  const queues = new Map<string, SlotUsage>()

  function usageOf(queue: string): SlotUsage {
    const usage = queues.get(queue) ?? { by_tenant: new Map(), total: 0, unknown: 0 }
    queues.set(queue, usage)
    return usage
  }

  function remainingQuota(queue: string, count: number): TenantShare | undefined {
    const { by_tenant, total, unknown } = usageOf(queue)
    const quota = quotaOf(queue)
    if (total + unknown + count <= quota) return undefined
    return { left: quota - unknown, claimed: Object.fromEntries(by_tenant) }
  }

  return {
    remainingQuota,
    async claimWithin(jobs, claim) {
      const counts = Map.groupBy(jobs, ({ queue }) => queue)
      const shares: Record<string, TenantShare> = {}
      for (const [queue, { length }] of counts) {
        const share = remainingQuota(queue, length)
        if (share !== undefined) shares[queue] = share
        usageOf(queue).unknown += length
      }
      try {
        return await claim(shares)
      } finally {
        for (const [queue, { length }] of counts) usageOf(queue).unknown -= length
      }
    },
    acquire({ queue, tenant_id }) {
      const usage = usageOf(queue)
      const add = (change: 1 | -1) => {
        const slots = (usage.by_tenant.get(tenant_id) ?? 0) + change
        usage.total += change
        if (slots === 0) usage.by_tenant.delete(tenant_id)
        else usage.by_tenant.set(tenant_id, slots)
      }
      add(1)
      return () => add(-1)
    },
    hasUsedUpQuota: (queue) => Math.max(0, ...usageOf(queue).by_tenant.values()) >= quotaOf(queue),
  }
}
