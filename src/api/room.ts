// Room for large things of requests under way: bounded for each tenant, so that none keeps out all others, and for all.

export type Room = {
  /** Takes room for so many bytes of a tenant; false, and nothing is taken, where there is none. */
  take(tenant_id: string, bytes: number): boolean
  /** Gives it back. */
  leave(tenant_id: string, bytes: number): void
}

export function createRoom({
  bytes: most,
  of_tenant: most_of_tenant,
}: {
  bytes: number
  of_tenant: number
}): Room {
  const held_by = new Map<string, number>()
  let held = 0
  function count(tenant_id: string, bytes: number): void {
    held += bytes
    const of_tenant = (held_by.get(tenant_id) ?? 0) + bytes
    if (of_tenant === 0) held_by.delete(tenant_id)
    else held_by.set(tenant_id, of_tenant)
  }
  return {
    take(tenant_id, bytes) {
      if (held + bytes > most || (held_by.get(tenant_id) ?? 0) + bytes > most_of_tenant) return false
      count(tenant_id, bytes)
      return true
    },
    leave: (tenant_id, bytes) => count(tenant_id, -bytes),
  }
}
