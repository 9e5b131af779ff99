// Which account the credentials of a provider are of.
import type { Sql } from '#core/db.ts'

/** Credentials by their fingerprint. */
type CredentialsOf = { provider: string; credentials: string }

/** Records the account of credentials, for good: providers give each account keys of its own. */
export async function storeAccount(
  sql: Sql,
  { provider, credentials }: CredentialsOf,
  account: string,
): Promise<void> {
  await sql`
    insert into provider_accounts (provider, credentials, account) values (${provider}, ${credentials}, ${account})
    on conflict do nothing`
}

/** Whether these credentials of a provider are known to belong to one account and one mode of it. */
export async function isOneAccount(sql: Sql, provider: string, credentials: string[]): Promise<boolean> {
  const fingerprints = [...new Set(credentials)]
  const [row] = await sql<{ stored: number; accounts: number }[]>`
    select count(*)::integer as stored, count(distinct account)::integer as accounts from provider_accounts
    where provider = ${provider} and credentials = any(${fingerprints}::text[])`
  return row?.stored === fingerprints.length && row.accounts === 1
}
