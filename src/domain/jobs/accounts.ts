// Which account the credentials of a provider are of.
import type { Sql } from '#core/db.ts'

/** Credentials by their fingerprint. */
type CredentialsOf = { provider: string; credentials: string }

/**
 * Records of which account they are, for good: providers give each account keys of its own. Earlier versions recorded no
 * mode of an account, so what was recorded of the credentials in use is replaced.
 */
export async function keepAccount(
  sql: Sql,
  { provider, credentials }: CredentialsOf,
  account: string,
): Promise<void> {
  await sql`
    insert into provider_accounts (provider, credentials, account) values (${provider}, ${credentials}, ${account})
    on conflict (provider, credentials) do update set account = excluded.account, learnt_at = excluded.learnt_at
    where provider_accounts.account <> excluded.account`
}

/**
 * Whether all of these credentials of a provider, by their fingerprints, are known to be of one account and one mode of it.
 * What earlier versions recorded has no mode, so it says nothing.
 */
export async function areOfOneAccount(sql: Sql, provider: string, credentials: string[]): Promise<boolean> {
  const asked = [...new Set(credentials)]
  const [row] = await sql<{ known: number; accounts: number }[]>`
    select count(*)::integer as known, count(distinct account)::integer as accounts from provider_accounts
    where provider = ${provider} and credentials = any(${asked}::text[]) and account like '% %'`
  return row?.known === asked.length && row.accounts === 1
}
