// The provider account to which credentials belong.
import type { Sql } from '#core/db.ts'

/** Credentials, identified by their fingerprint. */
type CredentialsKey = { provider: string; credentials: string }

/** Stores the account of credentials permanently: a provider's keys never move to another account. */
export async function storeAccount(
  sql: Sql,
  { provider, credentials }: CredentialsKey,
  account: string,
): Promise<void> {
  await sql`
    insert into provider_accounts (provider, credentials, account) values (${provider}, ${credentials}, ${account})
    on conflict do nothing`
}

/** Stands for all credentials of the installation: see `record_switch` in 0022_server_checks.sql. */
export const ANY_CREDENTIALS = '*'

/** Whether these credentials and all others of the provider that were ever used are of one account. */
export async function isOnlyAccount(sql: Sql, provider: string, credentials: string): Promise<boolean> {
  const [row] = await sql<{ is_only: boolean }[]>`
    select count(distinct account) = 1 and bool_or(credentials = ${credentials}) as is_only from provider_accounts
    where provider = ${provider}`
  return row!.is_only
}

/** Whether all these credentials of a provider are stored with the same account and mode. */
export async function isOneAccount(sql: Sql, provider: string, credentials: string[]): Promise<boolean> {
  const fingerprints = [...new Set(credentials)]
  const [row] = await sql<{ stored: number; accounts: number }[]>`
    select count(*)::integer as stored, count(distinct account)::integer as accounts from provider_accounts
    where provider = ${provider} and credentials = any(${fingerprints}::text[])`
  return row?.stored === fingerprints.length && row.accounts === 1
}
