// Room for large things of requests under way: bounded for each tenant, so that none keeps out all others, and for all.

export type MemoryBudget = {
  /** Takes room for so many bytes of a tenant; false, and nothing is taken, where there is none. */
  reserve(tenant_id: string, bytes: number): boolean
  /** Gives it back. */
  release(tenant_id: string, bytes: number): void
}

export function createMemoryBudget({
  bytes: max_bytes,
  per_tenant: max_per_tenant,
}: {
  bytes: number
  per_tenant: number
}): MemoryBudget {
  const reserved_by = new Map<string, number>()
  let reserved = 0
  function count(tenant_id: string, bytes: number): void {
    reserved += bytes
    const per_tenant = (reserved_by.get(tenant_id) ?? 0) + bytes
    if (per_tenant === 0) reserved_by.delete(tenant_id)
    else reserved_by.set(tenant_id, per_tenant)
  }
  return {
    reserve(tenant_id, bytes) {
      if (reserved + bytes > max_bytes || (reserved_by.get(tenant_id) ?? 0) + bytes > max_per_tenant)
        return false
      count(tenant_id, bytes)
      return true
    },
    release: (tenant_id, bytes) => count(tenant_id, -bytes),
  }
}
