// Repeated requests whose effect was recovered from the processor after the database had lost them.
import type { Fragment, Sql } from '#core/db.ts'
import { cancelPayment, capturePayment } from '#jobs/payments.ts'
import { enqueuing, requestJson, type JobDefinition } from '#jobs/job.ts'
import { isKeyUsed, jobRequestColumns, storingKeys, type JobRequest } from '../idempotency.ts'
import { mayHaveLost } from '../switches/losses.ts'

type ConfirmationRequest = JobRequest & { payment_id: string }

/**
 * Confirms the capture of a payment that was captured since the database lost changes, with the amount of the request.
 * The job repeats the call: under the key of the lost request, the processor repeats its answer. With another key it
 * refuses the call, and the job fails. Returns whether the request was accepted. Call it after `requestCaptures` has
 * refused.
 */
export async function confirmCapture(
  sql: Sql,
  request: ConfirmationRequest & { amount_minor: number | null },
): Promise<boolean> {
  const call = requestJson(sql, capturePayment, {
    reference: sql`processor_reference`,
    amount_minor: sql`amount_captured_minor`,
    confirms: sql`true`,
  })
  const fits = sql`
    p.status = 'captured' and p.amount_captured_minor = coalesce(a.amount_minor, p.amount_minor)
    and ${isRecovered(sql, sql`p.captured_at`, capturePayment.name)}`
  return await confirm(sql, request, fits, capturePayment, call)
}

/** Confirms the cancellation of a payment, like `confirmCapture`. Call it after `joinCancel` has found none. */
export async function confirmCancel(
  sql: Sql,
  request: ConfirmationRequest & { reason: string | null },
): Promise<boolean> {
  const call = requestJson(sql, cancelPayment, {
    reference: sql`processor_reference`,
    reason: sql`reason`,
    confirms: sql`true`,
  })
  const fits = sql`p.status = 'canceled' and ${isRecovered(sql, sql`p.canceled_at`, cancelPayment.name)}`
  return await confirm(sql, request, fits, cancelPayment, call)
}

/**
 * Stores the key and inserts the job if the payment `p` of the request `a` meets the condition `fits`. `call`: the
 * stored request of the job's call.
 */
async function confirm(
  sql: Sql,
  request: ConfirmationRequest,
  fits: Fragment,
  job: JobDefinition,
  call: Fragment,
): Promise<boolean> {
  const requested = sql`
    select job_id, tenant_id, payment_id as resource_id,
      jsonb_build_object('payment_id', payment_id, 'confirms', true) as payload,
      will_wake, null::text as dedupe_key, request_id, ${call} as request
    from recovered`
  const keys = sql`select *, payment_id as resource_id from recovered`
  const rows = await sql`
    with recovered as (
      select a.*, p.processor_reference, p.amount_captured_minor
      from jsonb_to_recordset(${sql.json([request])}) as a(
        ${jobRequestColumns(sql)}, payment_id uuid, amount_minor bigint, reason text)
      join payments p on p.tenant_id = a.tenant_id and p.id = a.payment_id
      where a.idempotency_key is not null and not ${isKeyUsed(sql)} and p.processor_reference is not null and ${fits}
    ),
    stored_keys as (${storingKeys(sql, 'payment', keys)}),
    job as (${enqueuing(sql, job, requested)})
    select from recovered`
  return rows.count > 0
}

/**
 * Whether the payment got its status after a switch of the last day that lost changes, and not by a job that is known
 * here. The processor forgets keys after a day.
 */
function isRecovered(sql: Sql, changed_at: Fragment, job: string): Fragment {
  return sql`
    ${changed_at} > (
      select min(s.switched_at) from database_switches s
      where s.switched_at > now() - interval '24 hours' and ${mayHaveLost(sql)})
    and not exists (
      select from all_jobs j
      where j.tenant_id = p.tenant_id and j.resource_id = p.id and j.name = ${job} and j.state = 'succeeded')`
}
