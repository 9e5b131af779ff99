// Reads verifications: lists, single ones with their jobs, and those that a provider knows by a reference.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findProtected, type Protected, type SentKey } from '../idempotency.ts'
import { findWithJobs, type AskedFor, type Found } from '../jobs/found.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { isOpen, verificationEventSchema, type Verification } from './verification.ts'

export type VerificationFilters = ListPage &
  Partial<Pick<Verification, 'status' | 'subject_type' | 'subject_id'>> & { open?: boolean }

/** The verifications of a tenant, newest first. */
export async function listVerifications(
  sql: Sql,
  tenant_id: string,
  { status, subject_type, subject_id, open = false, ...page }: VerificationFilters,
): Promise<Verification[]> {
  // Open and rejected ones and those of a subject have indexes of their own; other filters do not change the statement's
  // text.
  const only_open = open || (status !== undefined && isOpen(status))
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

/** Verifications with the jobs that were asked for, in the order of `asked`. */
export async function findVerifications(
  sql: Sql,
  asked: AskedFor[],
): Promise<(Found<Verification> | undefined)[]> {
  return await findWithJobs<Verification>(sql, 'kyc', verificationColumns(sql), asked)
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

/** The verification that a key protects on its route, or undefined. */
export async function findProtectedVerification(
  sql: Sql,
  sent: SentKey,
): Promise<Protected<Verification> | undefined> {
  const [found] = await findProtected<Verification>(sql, 'kyc', verificationColumns(sql), [sent])
  return found
}

/** What is needed of a verification to apply what a provider says of it. */
export type KnownVerification = Pick<
  Verification,
  'tenant_id' | 'id' | 'status' | 'decided_by' | 'provider_reference'
>

/** The verification, of any tenant, that a provider knows by `reference`. */
export async function findVerificationByReference(
  sql: Sql,
  provider: string,
  reference: string,
): Promise<KnownVerification | undefined> {
  const [verification] = await sql<KnownVerification[]>`
    select ${knownColumns(sql)} from verifications
    where provider = ${provider} and provider_reference = ${reference}`
  return verification
}

/** The verification of these ids; with a `reference` only unless it is known to the provider by another one. */
export async function findVerificationByIds(
  sql: Sql,
  { tenant_id, id }: { tenant_id: string; id: string },
  reference: string | null = null,
): Promise<KnownVerification | undefined> {
  const [verification] = await sql<KnownVerification[]>`
    select ${knownColumns(sql)} from verifications
    where tenant_id = ${tenant_id} and id = ${id}
      and (${reference}::text is null or coalesce(provider_reference, ${reference}) = ${reference})`
  return verification
}

/** The database's time, to be read before a provider is asked: of two answers the one that was asked for later holds. */
export async function findTime(sql: Sql): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp() as now`
  return row!.now
}

function knownColumns(sql: Sql): Fragment {
  return sql`tenant_id, id, status, decided_by, provider_reference`
}

/** The columns of an answer, but for the link. */
export function verificationColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(verificationEventSchema.shape))
}
