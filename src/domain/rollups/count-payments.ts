// Counts payments by tenant, day and currency, from their events.
import type { Sql } from '#core/db.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { EventType } from '../events.ts'
import { renewRun, type Run } from '../jobs/recurring.ts'

/** The counted events, and the amount in their data. A refund that succeeded can fail later. */
export const PAYMENT_KINDS = [
  { kind: 'created', type: 'payment.created', amount: 'amount_minor' },
  { kind: 'authorized', type: 'payment.authorized', amount: 'amount_minor' },
  { kind: 'captured', type: 'payment.captured', amount: 'amount_captured_minor' },
  { kind: 'canceled', type: 'payment.canceled', amount: 'amount_minor' },
  { kind: 'failed', type: 'payment.failed', amount: 'amount_minor' },
  { kind: 'refunded', type: 'refund.succeeded', amount: 'amount_minor' },
  { kind: 'refund_failed', type: 'refund.failed', amount: 'amount_minor' },
] as const satisfies { kind: string; type: EventType; amount: string }[]

/** The numbers of tenants and events in one step: about 150 ms of the database's time. */
const TENANTS_PER_STEP = 50
const EVENTS_PER_STEP = 10_000

/**
 * One step: counts the next events of the tenants that were counted longest ago, with the positions in one transaction.
 * The sequences of a tenant's events only increase, so each event is counted once. Returns
 * whether there are more; undefined if the lease of the run was lost: nothing was written.
 */
export async function countPayments(
  sql: Sql,
  run: Run,
  { tenants = TENANTS_PER_STEP, events = EVENTS_PER_STEP } = {},
): Promise<{ more: boolean } | undefined> {
  return await sql.begin(async (tx) => {
    if (!(await renewRun(tx, run, run.position))) return undefined
    const kinds = tx`jsonb_to_recordset(${tx.json([...PAYMENT_KINDS])}) as k(kind text, type text, amount text)`
    const [row] = await tx<{ more: boolean }[]>`
      with tenant as materialized (
        select s.tenant_id, s.last_sequence, coalesce(c.sequence, 0) as sequence
        from event_sequences s left join payment_cursors c on c.tenant_id = s.tenant_id
        where s.last_sequence > coalesce(c.sequence, 0) and s.tenant_id <> ${SYSTEM_TENANT_ID}
        order by c.counted_at nulls first limit ${tenants}
      ), quota as materialized (
        select greatest(1, ${events}::integer / greatest(1, count(*))) as most from tenant
      ), kind as materialized (
        select * from ${kinds}
      ), picked as materialized (
        select t.tenant_id, e.sequence, e.kind, e.created_at, e.currency, e.amount_minor
        from tenant t cross join lateral (
          select f.sequence, f.created_at, k.kind, e.data ->> 'currency' as currency,
            (e.data ->> k.amount)::numeric as amount_minor
          from (
            select * from feed_entries f
            where f.tenant_id = t.tenant_id and f.sequence > t.sequence and f.sequence <= t.last_sequence
            order by f.sequence limit (select most from quota)
          ) f
          left join kind k on k.type = f.type
          -- Only the data of counted events is read.
          left join lateral (
            select e.data from events e
            where k.kind is not null and e.sequenced and e.tenant_id = f.tenant_id and e.id = f.event_id
              and e.created_at = f.created_at offset 0
          ) e on true
        ) e
      ), reached as (
        select tenant_id, count(*) as scanned, max(sequence) as sequence from picked group by tenant_id
      ), moved as (
        insert into payment_cursors as c (tenant_id, sequence)
        select t.tenant_id,
          case when r.scanned >= (select most from quota) then r.sequence else t.last_sequence end
        from tenant t left join reached r on r.tenant_id = t.tenant_id order by 1
        on conflict (tenant_id) do update set sequence = excluded.sequence, counted_at = clock_timestamp()
      ), counted as (
        insert into payment_days as d (tenant_id, day, currency, kind, count, amount_minor)
        select tenant_id, (created_at at time zone 'UTC')::date, upper(currency), kind, count(*),
          coalesce(sum(amount_minor), 0)
        from picked where kind is not null and currency is not null group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (tenant_id, day, currency, kind)
          do update set count = d.count + excluded.count, amount_minor = d.amount_minor + excluded.amount_minor
      )
      select (select count(*) from tenant) >= ${tenants}
        or exists (select from reached where scanned >= (select most from quota)) as more`
    return row!
  })
}
