// Remembers what used up its time or memory, so that it is not tried again at once: it costs others the time of a
// thread.

/** For how long. */
const EXPIRY_MS = 2 * 60_000
/** After so many of them nothing of that tenant is tried. */
const MAX_PER_TENANT = 5

export type ExhaustedList = {
  /** Whether this, or too much else of the tenant, used up its time or memory lately. */
  has(tenant_id: string, name: string): boolean
  add(tenant_id: string, name: string): void
}

/** `name` is a short name of it, for example a hash. */
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
