// The provider account to which credentials belong.
import type { Sql } from '#core/db.ts'

/** Credentials, identified by their fingerprint. `provider`: the key of the provider, which says its mode. */
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

/** Whether any credentials of the provider are stored with their account. */
export async function hasAccount(sql: Sql, provider: string): Promise<boolean> {
  const found = await sql`select from provider_accounts where provider = ${provider} limit 1`
  return found.length > 0
}

/** The keys of the providers whose credentials belong to this account. */
export async function findProvidersOfAccount(sql: Sql, account: string): Promise<string[]> {
  const rows = await sql<{ provider: string }[]>`
    select distinct provider from provider_accounts where account = ${account}`
  return rows.map(({ provider }) => provider)
}

/** The accounts of a provider that workers have found. */
export async function listAccounts(sql: Sql, provider: string): Promise<string[]> {
  const rows = await sql<{ account: string }[]>`
    select distinct account from provider_accounts where provider = ${provider}`
  return rows.map(({ account }) => account)
}

/** Whether all these credentials of a provider are stored with the same account and mode. */
export async function isOneAccount(sql: Sql, provider: string, credentials: string[]): Promise<boolean> {
  const fingerprints = [...new Set(credentials)]
  const [row] = await sql<{ stored: number; accounts: number }[]>`
    select count(*)::integer as stored, count(distinct account)::integer as accounts from provider_accounts
    where provider = ${provider} and credentials = any(${fingerprints}::text[])`
  return row?.stored === fingerprints.length && row.accounts === 1
}

/** Replaces the fingerprints with which the call of a claimed job was sent, if its lease is still held. */
export async function replaceSentWith(
  sql: Sql,
  { tenant_id, id, lease_token }: { tenant_id: string; id: string; lease_token: string },
  sent_with: string | null,
): Promise<void> {
  await sql`
    update jobs set sent_with = ${sent_with}
    where tenant_id = ${tenant_id} and id = ${id} and lease_token = ${lease_token}`
}
