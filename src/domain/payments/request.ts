// Requests to create, capture and cancel payments. Each request is one statement that checks the payment's status,
// stores the key and inserts the job.
import type { Fragment, Json, Sql } from '#core/db.ts'
import { withInexactCurrencies } from '#core/money.ts'
import { authorizePayment, cancelPayment, capturePayment } from '#jobs/payments.ts'
import { requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import {
  isKeyUsed,
  jobRequestColumns,
  keyColumns,
  storingKeys,
  type IdempotentRequest,
  type JobRequest,
} from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import { openingAccounts } from '../ledger.ts'
import { providerMetadata } from '../provider-metadata.ts'

type PaymentJobRequest = JobRequest & { payment_id: string }

export type CreateRequest = PaymentJobRequest & {
  amount_minor: number
  currency: string
  method: 'card'
  customer_id: string | null
  merchant_id: string | null
  description: string | null
  /** Sealed. */
  payment_method: string | null
  return_url: string | null
  metadata: Json
  processor: string
}

/**
 * Creates payments and inserts the jobs that authorize them. Returns the result by payment id; `key_used`: the key
 * was used before; no result: the customer or merchant does not exist, or is deleted or archived. Throws a unique
 * violation, and writes nothing, when another request uses one of the keys at the same time.
 */
export async function createPayments(
  sql: Sql,
  requests: CreateRequest[],
): Promise<Map<string, 'accepted' | 'key_used'>> {
  const currencies = sql`select tenant_id, currency from p`
  const keys = sql`select *, payment_id as resource_id from accepted`
  const new_events = sql`
    select p.*, a.event_id, ${'payment.created' satisfies EventType} as event
    from p join accepted a on a.tenant_id = p.tenant_id and a.payment_id = p.id`
  const request = requestJson(sql, authorizePayment, {
    amount_minor: sql`amount_minor`,
    currency: sql`currency`,
    description: sql`description`,
    return_url: sql`return_url`,
    sealed: sql`jsonb_strip_nulls(jsonb_build_object('payment_method', payment_method))`,
    metadata: providerMetadata(sql, 'payment', ['customer_id', 'merchant_id']),
  })
  const rows = await sql<{ id: string; result: 'accepted' | 'key_used' }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'payment')} as key_used from jsonb_to_recordset(${sql.json(requests)}) as a(
        ${jobRequestColumns(sql)}, payment_id uuid, amount_minor bigint, currency text, method text, customer_id uuid,
        merchant_id uuid, description text, payment_method text, return_url text, metadata jsonb, processor text)
    ), accepted as (
      select * from requests a
      -- The offsets force a lookup of each named customer and merchant by id: a plan that was made for a small table
      -- would always scan the table.
      where not key_used
        and (a.customer_id is null or exists (
          select from customers c
          where c.tenant_id = a.tenant_id and c.id = a.customer_id and c.deleted_at is null offset 0))
        and (a.merchant_id is null or exists (
          select from merchants m
          where m.tenant_id = a.tenant_id and m.id = a.merchant_id and m.archived_at is null offset 0))
    ), p as (
      insert into payments (tenant_id, id, idempotency_key, amount_minor, currency, method, customer_id, merchant_id,
        description, return_url, metadata, processor)
      select tenant_id, payment_id, idempotency_key, amount_minor, currency, method, customer_id, merchant_id,
        description, return_url, coalesce(metadata, 'null'), processor
      from accepted
      returning *
    ),
    opened as (${openingAccounts(sql, currencies)}),
    stored_keys as (${storingKeys(sql, 'payment', keys)}),
    event as (${insertingEvents(sql, 'payment', new_events)}),
    job as (${enqueuingJobs(sql, authorizePayment, 'payment', sql`accepted`, request)})
    select id, 'accepted' as result from p union all select payment_id, 'key_used' from requests where key_used`
  return new Map(rows.map(({ id, result }) => [id, result]))
}

export type CaptureRequest = PaymentJobRequest & {
  /** Null: the whole capturable amount. */
  amount_minor: number | null
}

/** Inserts jobs that capture authorized payments. Returns the ids of the accepted payments. */
export async function requestCaptures(sql: Sql, requests: CaptureRequest[]): Promise<Set<string>> {
  const guard = sql`
    p.status = 'authorized' and coalesce(a.amount_minor, 0) <= p.amount_capturable_minor
    and p.currency <> all(a.inexact_currencies)`
  const items = requests.map(withInexactCurrencies)
  const keys = sql`select *, payment_id as resource_id from p`
  const request = requestJson(sql, capturePayment, {
    reference: sql`processor_reference`,
    amount_minor: sql`coalesce(amount_minor, amount_capturable_minor)`,
  })
  const rows = await sql<{ id: string }[]>`
    with ${lockingRequested(sql, items, guard)},
    p as (
      update payments p set status = 'capturing', failure = null, updated_at = clock_timestamp()
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payment_id
      returning p.id, l.*, p.processor_reference, p.amount_capturable_minor
    ),
    stored_keys as (${storingKeys(sql, 'payment', keys)}),
    job as (${enqueuingJobs(sql, capturePayment, 'payment', sql`p`, request)})
    select id from p`
  return new Set(rows.map((row) => row.id))
}

export type CancelRequest = PaymentJobRequest & {
  /** The reason code for the processor, or null. */
  reason: string | null
  /** The reason that the payment shows: `expired` for an expired hold, `abandoned` when the buyer never acted. */
  cancellation_reason: string | null
}

/**
 * Requests cancellations of payments. `canceling`: a job releases the hold. `recorded`: the authorization is in
 * progress, and its settlement inserts that job. Returns the accepted payments by id.
 */
export async function requestCancels(
  sql: Sql,
  requests: CancelRequest[],
): Promise<Map<string, 'canceling' | 'recorded'>> {
  const guard = sql`
    p.status in ('pending', 'requires_action', 'authorized')
    and (p.status <> 'pending' or p.cancel_requested_at is null)`
  const keys = sql`
    select tenant_id, idempotency_key, route, fingerprint, payment_id as resource_id,
      case when status = 'canceling' then job_id end as job_id
    from p`
  const canceling = sql`(select * from p where status = 'canceling') p`
  const request = requestJson(sql, cancelPayment, {
    reference: sql`processor_reference`,
    reason: sql`reason`,
  })
  const rows = await sql<{ id: string; accepted: 'canceling' | 'recorded' }[]>`
    with ${lockingRequested(sql, requests, guard)},
    p as (
      update payments p set status = case when p.status = 'pending' then 'pending' else 'canceling' end, failure = null,
        cancel_requested_at = now(), cancellation_reason = l.cancellation_reason, updated_at = clock_timestamp()
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payment_id
      returning p.id, p.status, l.*, p.processor_reference
    ),
    stored_keys as (${storingKeys(sql, 'payment', keys)}),
    job as (${enqueuingJobs(sql, cancelPayment, 'payment', canceling, request)})
    select id, case when status = 'canceling' then 'canceling' else 'recorded' end as accepted from p`
  return new Map(rows.map((row) => [row.id, row.accepted]))
}

/**
 * Joins a cancellation that is in progress or recorded, with the same reason if the request has a reason: stores the
 * key with the job of that cancellation and returns the job's id (null while it is recorded). Undefined when there is
 * no such cancellation. Call it after `requestCancels` has refused.
 */
export async function joinCancel(
  sql: Sql,
  request: IdempotentRequest & { payment_id: string; reason: string | null },
): Promise<{ job_id: string | null } | undefined> {
  const [joined] = await sql<{ job_id: string | null }[]>`
    with joined as (
      select a.*, p.id as resource_id, (
        select j.id from jobs j
        where j.tenant_id = a.tenant_id and j.resource_id = a.payment_id and j.name = ${cancelPayment.name}
          and j.finished_at is null
        order by j.created_at desc limit 1) as job_id
      from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, payment_id uuid, reason text)
      join payments p on p.tenant_id = a.tenant_id and p.id = a.payment_id
        and (a.reason is null or a.reason = p.cancellation_reason)
        and (p.status = 'canceling' or (p.status = 'pending' and p.cancel_requested_at is not null))
      where not ${isKeyUsed(sql)}
    ), stored_keys as (${storingKeys(sql, 'payment', sql`select * from joined`)})
    select job_id from joined`
  return joined
}

// The part `locked`: the requests whose payments fulfill the condition `guard`. Payments are locked in a fixed order,
// so that batches cannot deadlock.
function lockingRequested(sql: Sql, requests: PaymentJobRequest[], guard: Fragment): Fragment {
  return sql`
    locked as (
      select a.* from (
        select * from jsonb_to_recordset(${sql.json(requests)}) as a(
          ${jobRequestColumns(sql)}, payment_id uuid, amount_minor bigint, inexact_currencies text[], reason text,
          cancellation_reason text)
        where not ${isKeyUsed(sql)}
        order by tenant_id, payment_id
      ) a
      cross join lateral (
        select from payments p where p.tenant_id = a.tenant_id and p.id = a.payment_id and ${guard} for update
      ) p
    )`
}
