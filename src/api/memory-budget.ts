// Limits the memory that large parts of requests in progress occupy: for all tenants together, and for each tenant, so
// that no tenant uses all of it.

export type MemoryBudget = {
  /** Reserves bytes for a tenant. False, with nothing reserved, if they exceed a limit. */
  reserve(tenant_id: string, bytes: number): boolean
  /** Releases reserved bytes. */
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
