// Reads verifications: lists, single verifications with their jobs, and verifications by provider reference.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { isOpenVerification, verificationRowSchema, type Verification } from './verification.ts'

export type VerificationFilters = ListPage &
  Partial<Pick<Verification, 'status' | 'subject_type' | 'subject_id'>> & { open?: boolean }

/** The verifications of a tenant, newest first. */
export async function listVerifications(
  sql: Sql,
  tenant_id: string,
  { status, subject_type, subject_id, open = false, ...page }: VerificationFilters,
): Promise<Verification[]> {
  // Only filters with an index (open, rejected, the subject) change the statement's text, because each connection
  // must plan every distinct text.
  const only_open = open || (status !== undefined && isOpenVerification(status))
  return await sql<Verification[]>`
    select ${verificationColumns(sql)} from verifications
    where tenant_id = ${tenant_id} and ${createdWithin(sql, page)}
      ${subject_id === undefined ? sql`` : sql`and subject_id = ${subject_id}`}
      ${only_open ? sql`and open` : sql``}
      ${status === 'rejected' ? sql`and status = 'rejected'` : sql``}
      and status = coalesce(${status ?? null}, status)
      and subject_type = coalesce(${subject_type ?? null}, subject_type)
    order by created_at desc limit ${page.limit}`
}

/** Verifications with the requested jobs, in the order of `requested`. */
export async function findVerifications(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<Verification> | undefined)[]> {
  return await findWithJobs<Verification>(sql, 'kyc', verificationColumns(sql), requested)
}

/** One verification, or undefined. */
export async function findVerification(
  sql: Sql,
  tenant_id: string,
  id: string,
): Promise<Verification | undefined> {
  const [verification] = await sql<Verification[]>`
    select ${verificationColumns(sql)} from verifications where tenant_id = ${tenant_id} and id = ${id}`
  return verification
}

/** The verification that was created with this idempotency key, or undefined. */
export async function findVerificationByKey(
  sql: Sql,
  key: KeyOnRoute,
): Promise<KeyedResource<Verification> | undefined> {
  const [found] = await findByKeys<Verification>(sql, 'kyc', verificationColumns(sql), [key])
  return found
}

/** The fields of a verification that a provider's update needs. */
export type ExistingVerification = Pick<
  Verification,
  'tenant_id' | 'id' | 'status' | 'decided_by' | 'provider_reference' | 'outdated'
>

/** The verification, of any tenant, with this `reference` at the provider. */
export async function findVerificationByReference(
  sql: Sql,
  provider: string,
  reference: string,
): Promise<ExistingVerification | undefined> {
  const [verification] = await sql<ExistingVerification[]>`
    select ${existingColumns(sql)} from verifications
    where provider = ${provider} and provider_reference = ${reference}`
  return verification
}

/**
 * The verification with these ids. With a `reference`, undefined if the verification has another provider reference.
 */
export async function findVerificationByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string | null = null,
): Promise<ExistingVerification | undefined> {
  const [verification] = await sql<ExistingVerification[]>`
    select ${existingColumns(sql)} from verifications
    where tenant_id = ${tenant_id} and id = ${id}
      and (${reference}::text is null or coalesce(provider_reference, ${reference}) = ${reference})`
  return verification
}

/** The database's time. Read it before a query to a provider: of two answers, the answer to the later query wins. */
export async function findDatabaseTime(sql: Sql): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp() as now`
  return row!.now
}

function existingColumns(sql: Sql): Fragment {
  return sql`tenant_id, id, status, decided_by, provider_reference, outdated`
}

/** The columns of a verification in answers, except for the link. */
export function verificationColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(verificationRowSchema.shape))
}
