// Links to a provider's page: stored sealed until they are shown once or expire.
import type { Sql } from '#core/db.ts'

/**
 * Removes and returns the sealed link of a job. Of concurrent calls, exactly one returns the link. Undefined if the
 * link has expired or was returned before.
 */
export async function consumeVerificationLink(
  sql: Sql,
  { tenant_id, kyc_id, job_id }: { tenant_id: string; kyc_id: string; job_id: string },
): Promise<string | undefined> {
  const [consumed] = await sql<{ sealed: string; is_valid: boolean }[]>`
    update verifications v set links = v.links - ${job_id}::text
    where v.tenant_id = ${tenant_id} and v.id = ${kyc_id} and v.links ? ${job_id}::text
    returning old.links -> ${job_id}::text ->> 'sealed' as sealed,
      (old.links -> ${job_id}::text ->> 'until')::timestamptz > now() as is_valid`
  return consumed?.is_valid === true ? consumed.sealed : undefined
}

/** Deletes the expired links of at most `limit` verifications. Returns the number of verifications. */
export async function deleteExpiredLinks(sql: Sql, limit: number): Promise<number> {
  const rows = await sql`
    update verifications v set links = '{}', links_until = null
    from (
      select tenant_id, id from verifications where links_until <= now() order by links_until limit ${limit}
      for update skip locked
    ) expired
    where v.tenant_id = expired.tenant_id and v.id = expired.id and v.links_until <= now()`
  return rows.count
}
