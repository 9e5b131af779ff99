// The account that a sandbox is at its providers: notifications from it name no tenant, and this account.
import type { Fragment, Sql, Tx } from '#core/db.ts'

const ACCOUNT = /^acct_sandbox_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/

export function sandboxAccount(tenant_id: string): string {
  return `acct_sandbox_${tenant_id.replaceAll('-', '')}`
}

/** The tenant of a sandbox's account; null for any other account. */
export function tenantOfSandboxAccount(account: string): string | null {
  const [, ...parts] = ACCOUNT.exec(account) ?? []
  return parts.length === 0 ? null : parts.join('-')
}

/** The same in a statement. */
export function tenantOfAccount(sql: Sql | Tx, account: Fragment): Fragment {
  return sql`case when ${account} ~ '^acct_sandbox_[0-9a-f]{32}$' then right(${account}, 32)::uuid end`
}
