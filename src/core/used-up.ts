// Lists work that exhausted its time or memory, so that it is not retried at once: each attempt occupies a thread.

/** The lifetime of an entry. */
const EXPIRY_MS = 2 * 60_000
/** If a tenant has this many entries, `has` is true for all work of the tenant. */
const MAX_PER_TENANT = 5

export type ExhaustedList = {
  /**
   * Whether this work, or too much other work of the tenant, recently exhausted its time or memory. `name`: a short
   * name of the work, for example a hash.
   */
  has(tenant_id: string, name: string): boolean
  add(tenant_id: string, name: string): void
}

/** Creates an empty list. Entries expire after `EXPIRY_MS`. */
export function createExhaustedList(): ExhaustedList {
  const by_tenant = new Map<string, Set<string>>()
  return {
    has(tenant_id, name) {
      const names = by_tenant.get(tenant_id)
      return names !== undefined && (names.has(name) || names.size >= MAX_PER_TENANT)
    },
    add(tenant_id, name) {
      const names = by_tenant.get(tenant_id) ?? new Set()
      by_tenant.set(tenant_id, names.add(name))
      setTimeout(() => {
        names.delete(name)
        if (names.size === 0) by_tenant.delete(tenant_id)
      }, EXPIRY_MS).unref()
    },
  }
}
