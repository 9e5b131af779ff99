// Cancels provider sessions of verifications that were decided manually, abandoned, or whose subject was removed.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { cancelVerification } from '#jobs/verifications.ts'
import type { Verification } from './verification.ts'

/**
 * The failure of an open verification whose session is canceled, by its `cancellation_reason`. `canceled`: no reason,
 * because the cancellation was not requested here. `outdated`: of an outdated verification, whatever its session says.
 */
export const CANCELLATION_FAILURES = {
  canceled: { code: 'canceled', message: 'The session was canceled at the provider.' },
  abandoned: {
    code: 'abandoned',
    message: 'The verification expired: the person did not continue it in time.',
  },
  subject_gone: {
    code: 'subject_gone',
    message: 'The customer was deleted, or the merchant or recipient was archived.',
  },
  outdated: {
    code: 'outdated',
    message: 'The verification was requested for other data, or a later verification exists.',
  },
}

/**
 * A part of a statement that inserts jobs to cancel sessions. `rows` selects `tenant_id, kyc_id, provider_reference,
 * job_id, request_id`.
 */
export function cancelingSessions(sql: Sql | Tx, rows: Fragment): Fragment {
  const request = requestJson(sql, cancelVerification, { reference: sql`provider_reference` })
  const job_rows = sql`
    select job_id, tenant_id, kyc_id as resource_id, jsonb_build_object('kyc_id', kyc_id) as payload,
      false as will_wake, null::text as dedupe_key, request_id, ${request} as request
    from (${rows}) v`
  return enqueuing(sql, cancelVerification, job_rows)
}

/**
 * Inserts jobs that cancel the sessions of verifications that have waited for the person for `ttl_days` days without
 * a change. A verification is rejected when its session is canceled. Inserts at most `limit` jobs and returns their
 * number.
 */
export async function cancelAbandonedVerifications(
  sql: Sql,
  ttl_days: number,
  limit: number,
): Promise<number> {
  const is_overdue = sql`v.updated_at <= now() - ${ttl_days} * interval '1 day'`
  return await cancelOverdue(sql, { from: sql`verifications v`, is_overdue }, limit)
}

/** As `cancelAbandonedVerifications`, by the clock of a tenant in test mode. */
export async function cancelAbandonedInTestMode(
  sql: Sql,
  tenant_id: string,
  ttl_days: number,
  limit: number,
): Promise<number> {
  const from = waitingVerificationsOf(sql, sql`${tenant_id}::uuid`)
  const is_overdue = sql`${abandonedVerificationAt(sql, ttl_days)} <= now() + (select clock_offset(${tenant_id}))`
  return await cancelOverdue(sql, { from, is_overdue }, limit)
}

/** The open verifications `v` of a tenant: see `waitingPaymentsOf`. `tenant_id`: an expression. */
export function waitingVerificationsOf(sql: Sql | Tx, tenant_id: Fragment): Fragment {
  return sql`(
    select o.tenant_id, o.id, o.status, o.cancel_requested_at, o.updated_at
    from verifications o where o.tenant_id = ${tenant_id} and o.open offset 0
  ) v`
}

/** Whether the verification `v` waits for its person. */
export function waitsForPerson(sql: Sql | Tx): Fragment {
  return sql`v.status = 'requires_input' and v.cancel_requested_at is null`
}

/** When the verification `v` is given up if its person does nothing, by the clock of its tenant in test mode. */
export function abandonedVerificationAt(sql: Sql | Tx, ttl_days: number): Fragment {
  return sql`(v.updated_at + clock_offset_at(v.tenant_id, v.updated_at) + ${ttl_days} * interval '1 day')`
}

async function cancelOverdue(
  sql: Sql,
  { from, is_overdue }: { from: Fragment; is_overdue: Fragment },
  limit: number,
): Promise<number> {
  const abandoned = sql`${waitsForPerson(sql)} and ${is_overdue}`
  const due = await sql<{ tenant_id: string; kyc_id: string }[]>`
    select v.tenant_id, v.id as kyc_id from ${from} where ${abandoned} order by v.updated_at limit ${limit}`
  if (due.length === 0) return 0
  const rows = await sql`
    with due as (
      select * from jsonb_to_recordset(${sql.json(due.map((row) => ({ ...row, job_id: newId() })))}) as a(
        tenant_id uuid, kyc_id uuid, job_id uuid)
    ), locked as (
      select a.* from (select * from due order by tenant_id, kyc_id) a
      cross join lateral (
        select from verifications v where v.tenant_id = a.tenant_id and v.id = a.kyc_id and ${abandoned} for update
      ) v
    ), v as (
      update verifications v set cancel_requested_at = clock_timestamp(),
        cancellation_reason = coalesce(v.cancellation_reason, 'abandoned')
      from locked l where v.tenant_id = l.tenant_id and v.id = l.kyc_id
      returning l.*, v.provider_reference, null::text as request_id
    )
    ${cancelingSessions(sql, sql`select * from v`)}`
  return rows.count
}

/**
 * The first parts of the statement that deletes or archives the subject of verifications (a customer, merchant or
 * recipient). `open_verification`: the subject's open verification, whose session is canceled now, or as soon as it
 * waits for the person. The statement must read `open_verification` before it updates the subject, because
 * settlements lock the verification first too.
 */
export function cancelingVerification(
  sql: Sql,
  { tenant_id, subject_type, subject_id }: Pick<Verification, 'tenant_id' | 'subject_type' | 'subject_id'>,
): Fragment {
  return sql`
    open_verification as (
      update verifications v set cancellation_reason = 'subject_gone',
        cancel_requested_at = case when v.status = 'requires_input' and v.cancel_requested_at is null
          then clock_timestamp() else v.cancel_requested_at end
      where v.tenant_id = ${tenant_id} and v.subject_type = ${subject_type} and v.subject_id = ${subject_id} and v.open
        and v.cancellation_reason is distinct from 'subject_gone'
      returning v.tenant_id, v.id as kyc_id, v.provider_reference, ${newId()}::uuid as job_id, null::text as request_id,
        v.cancel_requested_at is distinct from old.cancel_requested_at as to_cancel
    ),
    canceling as (${cancelingSessions(sql, sql`select * from open_verification where to_cancel`)})`
}

/** Cancels the sessions of outdated verifications that wait for the person. Others are canceled once they do. */
export async function cancelOutdatedVerifications(
  tx: Tx,
  { tenant_id, subject_type, subject_id }: Pick<Verification, 'tenant_id' | 'subject_type' | 'subject_id'>,
): Promise<void> {
  await tx`
    with outdated as (
      update verifications v set cancel_requested_at = clock_timestamp()
      where v.tenant_id = ${tenant_id} and v.subject_type = ${subject_type} and v.subject_id = ${subject_id}
        and v.outdated and v.status = 'requires_input' and v.cancel_requested_at is null
      returning v.tenant_id, v.id as kyc_id, v.provider_reference, ${newId()}::uuid as job_id, null::text as request_id
    )
    ${cancelingSessions(tx, tx`select * from outdated`)}`
}

/**
 * Cancels a verification that was committed after the deleting or archiving statement read `open_verification`. Call
 * it after the commit of that statement: from then on no verification of the subject begins.
 */
export async function cancelLateVerification(
  sql: Sql,
  subject: Pick<Verification, 'tenant_id' | 'subject_type' | 'subject_id'>,
): Promise<void> {
  await sql`with ${cancelingVerification(sql, subject)} select from open_verification`
}
