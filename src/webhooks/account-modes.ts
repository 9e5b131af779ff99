// The modes of the processor's accounts for live tenants. This host has no key of the processor: workers know the
// accounts of theirs.
import type { Sql } from '#core/db.ts'
import { listAccounts } from '#domain/jobs/accounts.ts'

const INTERVAL_MS = 60_000

/**
 * Returns a function that returns the modes, `live` or `test`, of the accounts that workers use, or have used, for live
 * tenants: a developer's installation has a test account there. Empty while none is known. No request waits for the
 * database: a result may be a minute old.
 */
export function createAccountModes(sql: Sql, provider: string): () => ReadonlySet<string> {
  let modes: ReadonlySet<string> = new Set()
  let due_at = -Infinity

  async function read(): Promise<void> {
    const accounts = await listAccounts(sql, provider)
    modes = new Set(accounts.flatMap((account) => / (live|test)$/.exec(account)?.[1] ?? []))
    // The first worker finds its account a moment later.
    if (modes.size === 0) due_at = -Infinity
  }

  return () => {
    if (performance.now() >= due_at) {
      due_at = performance.now() + INTERVAL_MS
      // Storing the notification reports a failure of the database.
      read().catch(() => {})
    }
    return modes
  }
}
