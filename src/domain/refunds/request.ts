// Requests refunds: one statement reserves the amount on the payment's row, stores the key and inserts the job.
import type { Json, Sql } from '#core/db.ts'
import { withInexactCurrencies } from '#core/money.ts'
import { createRefund } from '#jobs/refunds.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, jobRequestColumns, storingKeys, type JobRequest } from '../idempotency.ts'
import { providerMetadata } from '../provider-metadata.ts'

export type RefundRequest = JobRequest & {
  payment_id: string
  refund_id: string
  /** Null: the whole remaining amount. */
  amount_minor: number | null
  reason: string | null
  metadata: Json
}

/**
 * Creates refunds of captured payments, reserves their amounts and inserts their jobs. The amount that is left to
 * refund is read from the locked row of the payment. Returns the result by refund id; `key_used`: the key was used
 * before; no result: the payment does not allow this refund. The requests of one call must be of different payments and
 * have different keys.
 */
export async function requestRefunds(
  sql: Sql,
  requests: RefundRequest[],
): Promise<Map<string, 'accepted' | 'key_used'>> {
  const keys = sql`select *, refund_id as resource_id from p`
  const new_events = sql`
    select r.*, p.event_id, ${'refund.created' satisfies EventType} as event from r join p on p.refund_id = r.id`
  const request = requestJson(sql, createRefund, {
    payment_reference: sql`processor_reference`,
    amount_minor: sql`coalesce(amount_minor, left_minor)`,
    reason: sql`reason`,
    metadata: providerMetadata(sql, 'refund', ['payment_id']),
  })
  const to_refund = sql`
    select job_id, tenant_id, payment_id as resource_id, will_wake, null::text as dedupe_key, request_id,
      jsonb_build_object('payment_id', payment_id, 'refund_id', refund_id) as payload, ${request} as request
    from p`
  const items = requests.map(withInexactCurrencies)
  const rows = await sql<{ id: string; result: 'accepted' | 'key_used' }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'refund')} as key_used from jsonb_to_recordset(${sql.json(items)}) as a(
        ${jobRequestColumns(sql)}, payment_id uuid, refund_id uuid, amount_minor bigint, inexact_currencies text[],
        reason text, metadata jsonb)
    ), locked as (
      select a.*, p.reserved_minor, p.left_minor
      from (select * from requests where not key_used order by tenant_id, payment_id) a
      cross join lateral (
        select p.amount_refund_reserved_minor as reserved_minor,
          p.amount_captured_minor - p.amount_refund_reserved_minor as left_minor
        from payments p
        where p.tenant_id = a.tenant_id and p.id = a.payment_id and p.currency <> all(a.inexact_currencies)
          and p.status = 'captured'
          and p.amount_refund_reserved_minor + coalesce(a.amount_minor, 1) <= p.amount_captured_minor
        for update
      ) p
    ), p as (
      update payments p set updated_at = clock_timestamp(),
        amount_refund_reserved_minor = l.reserved_minor + coalesce(l.amount_minor, l.left_minor)
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payment_id
      returning l.*, p.currency, p.processor, p.processor_reference
    ), r as (
      insert into refunds (tenant_id, id, payment_id, idempotency_key, amount_minor, currency, reason, processor,
        metadata)
      select tenant_id, refund_id, payment_id, idempotency_key, coalesce(amount_minor, left_minor), currency, reason,
        processor, coalesce(metadata, 'null')
      from p
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'refund', keys)}),
    event as (${insertingEvents(sql, 'refund', new_events)}),
    job as (${enqueuing(sql, createRefund, to_refund)})
    select id, 'accepted' as result from r union all select refund_id, 'key_used' from requests where key_used`
  return new Map(rows.map(({ id, result }) => [id, result]))
}
