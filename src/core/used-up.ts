// Remembers what used up its time or memory, so that it is not tried again at once: it costs others the time of a
// thread.

/** For how long. */
const REMEMBERED_MS = 2 * 60_000
/** After so many of them nothing of that tenant is tried. */
const MOST = 5

export type UsedUp = {
  /** Whether this, or too much else of the tenant, used up its time or memory lately. */
  has(tenant_id: string, what: string): boolean
  add(tenant_id: string, what: string): void
}

/** `what` is a short name of it, for example a hash. */
export function createUsedUp(): UsedUp {
  const by_tenant = new Map<string, Set<string>>()
  return {
    has(tenant_id, what) {
      const known = by_tenant.get(tenant_id)
      return known !== undefined && (known.has(what) || known.size >= MOST)
    },
    add(tenant_id, what) {
      const known = by_tenant.get(tenant_id) ?? new Set()
      by_tenant.set(tenant_id, known.add(what))
      setTimeout(() => {
        known.delete(what)
        if (known.size === 0) by_tenant.delete(tenant_id)
      }, REMEMBERED_MS).unref()
    },
  }
}
