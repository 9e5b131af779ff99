// Settles disputes: one statement imports or updates a dispute, posts its movements, and inserts its events.
import { newId, newIdsInOrder } from '#core/ids.ts'
import { columnList, isoText, violatedConstraint, type Fragment, type Sql } from '#core/db.ts'
import { insertingEvents } from '../events.ts'
import { postings } from '../ledger.ts'
import { PAYMENT_EVENTS, paymentEventSchema } from '../payments/payment.ts'
import { paymentDisputeSchema, type Dispute } from './dispute.ts'
import type { ExistingDispute } from './find.ts'

/** A processor's report about a dispute of one of our payments. */
export type DisputeUpdate = Pick<
  Dispute,
  'tenant_id' | 'payment_id' | 'processor' | 'processor_reference' | 'status' | 'reason' | 'amount_minor'
> &
  Pick<Dispute, 'currency' | 'evidence_due_by' | 'opened_at'> & {
    /** Whether the processor has closed the dispute. */
    closed: boolean
    /** All movements of money of the dispute so far, oldest first. `reference`: the processor's id of the movement. */
    movements: {
      kind: 'dispute_withdrawn' | 'dispute_reinstated'
      reference: string
      amount_minor: number
    }[]
  }

/** The names of the events of disputes, after `payment.`. */
const EVENT_NAMES = [
  'disputed',
  'dispute_won',
  'dispute_lost',
  'dispute_closed',
] as const satisfies PaymentEventName[]
type PaymentEventName = keyof typeof PAYMENT_EVENTS

/**
 * Settles a report about a dispute. `existing`: the row as it was before the processor was queried; undefined: there
 * was no row. Each movement is posted once, and each event is inserted once. Returns the dispute's id. Undefined,
 * with nothing written, when another report was settled meanwhile: the order of the two reports is unknown, so the
 * caller must query the processor again.
 */
export async function settleDispute(
  sql: Sql,
  existing: ExistingDispute | undefined,
  { movements, ...update }: DisputeUpdate,
): Promise<{ id: string } | undefined> {
  // The transfers of one statement are numbered in the order of their ids. Ordinary ids of one millisecond have no
  // order.
  const ids = newIdsInOrder(movements.length)
  const report = {
    ...update,
    dispute_id: existing?.id ?? newId(),
    announced: eventNamesOf(update),
    event_ids: Object.fromEntries(EVENT_NAMES.map((event_name) => [event_name, newId()])),
    movements: movements.map((each, nth) => ({ ...each, transfer_id: ids[nth]! })),
  }
  const payment_columns = Object.keys(paymentEventSchema.shape).filter((column) => column !== 'dispute')
  // The event shows this dispute, even if the payment has a later dispute.
  const new_events = sql`
    select ${columnList(
      sql,
      payment_columns.map((column) => `p.${column}`),
    )}, d.payment_view as dispute, 'payment.' || event_name as event,
      (g.event_ids ->> event_name)::uuid as event_id
    from d cross join p cross join report g cross join lateral unnest(d.new_updates) event_name`
  try {
    const [row] = await sql<{ id: string }[]>`
      with report as (
        select * from jsonb_to_record(${sql.json(report)}) as g(
          tenant_id uuid, payment_id uuid, dispute_id uuid, processor text, processor_reference text, status text,
          closed boolean, reason text, amount_minor bigint, currency text, evidence_due_by timestamptz,
          opened_at timestamptz, announced text[], event_ids jsonb, movements jsonb)
      ), payment as (
        select p.tenant_id, p.id from report g
        join payments p on p.tenant_id = g.tenant_id and p.id = g.payment_id for update of p
      ), new_movement as (
        select g.tenant_id, m.* from report g
        cross join lateral jsonb_to_recordset(g.movements) as m(
          kind text, reference text, amount_minor bigint, transfer_id uuid)
        where not exists (
          select from ledger_transfers t
          where t.tenant_id = g.tenant_id and t.subject_id = g.dispute_id and t.reference = m.reference)
      ), total as (
        select coalesce(sum(amount_minor) filter (where kind = 'dispute_withdrawn'), 0)::bigint as withdrawn,
          coalesce(sum(amount_minor) filter (where kind = 'dispute_reinstated'), 0)::bigint as reinstated
        from new_movement
      ), written as (${existing === undefined ? importing(sql) : updating(sql, existing.revision)}),
      d as (
        select w.*, ${paymentView(sql)} as payment_view from written w where w.is_change
      ), p as (
        update payments p set updated_at = clock_timestamp(),
          dispute = case when p.dispute is null or p.dispute ->> 'id' = d.id::text
              or (p.dispute ->> 'opened_at')::timestamptz <= d.opened_at
            then d.payment_view else p.dispute end
        from d where p.tenant_id = d.tenant_id and p.id = d.payment_id
        returning p.*
      ),
      event as (${insertingEvents(sql, 'payment', new_events)}),
      ${postings(sql, newTransfers(sql), undefined, { by_reference: true })}
      select id from written`
    return row
  } catch (error) {
    // Another notification of the same dispute was settled at the same time; nothing is written here.
    if (!CONFLICT_CONSTRAINTS.includes(violatedConstraint(error) ?? '')) throw error
    return undefined
  }
}

/** The ledger transfers of the new movements. */
function newTransfers(sql: Sql): Fragment {
  return sql`
    select f.tenant_id, f.transfer_id, f.kind, d.id as subject_id,
      case f.kind when 'dispute_withdrawn' then 'available' else 'processor_clearing' end as debit_account,
      case f.kind when 'dispute_withdrawn' then 'processor_clearing' else 'available' end as credit_account,
      d.currency, f.amount_minor, f.reference
    from new_movement f cross join d`
}

const CONFLICT_CONSTRAINTS = ['disputes_processor_reference', 'ledger_transfers_once']

/** The events that a dispute in this status must have. */
function eventNamesOf({
  status,
  closed,
}: Pick<DisputeUpdate, 'status' | 'closed'>): (typeof EVENT_NAMES)[number][] {
  if (status === 'won' || status === 'lost') return ['disputed', `dispute_${status}`]
  return closed ? ['disputed', 'dispute_closed'] : ['disputed']
}

function importing(sql: Sql): Fragment {
  return sql`
    insert into disputes (tenant_id, id, payment_id, processor, processor_reference, status, reason, amount_minor,
      currency, amount_withdrawn_minor, amount_reinstated_minor, evidence_due_by, opened_at, closed_at, announced)
    select payment.tenant_id, g.dispute_id, payment.id, g.processor, g.processor_reference, g.status, g.reason,
      g.amount_minor, g.currency, total.withdrawn, total.reinstated, g.evidence_due_by, g.opened_at,
      case when g.closed then clock_timestamp() end, g.announced
    from payment cross join report g cross join total
    returning *, announced as new_updates, true as is_change`
}

function updating(sql: Sql, revision: number): Fragment {
  const isChange = (before: Fragment) => sql`(
    total.withdrawn + total.reinstated > 0
    or (${before}.status, ${before}.reason, ${before}.amount_minor, ${before}.currency, ${before}.evidence_due_by,
      ${before}.opened_at, ${before}.closed_at is not null)
      is distinct from
      (g.status, g.reason, g.amount_minor, g.currency, g.evidence_due_by, g.opened_at, g.closed))`
  return sql`
    update disputes d set status = g.status, reason = g.reason, amount_minor = g.amount_minor, currency = g.currency,
      evidence_due_by = g.evidence_due_by, opened_at = g.opened_at,
      amount_withdrawn_minor = d.amount_withdrawn_minor + total.withdrawn,
      amount_reinstated_minor = d.amount_reinstated_minor + total.reinstated,
      closed_at = case when not g.closed then null
        when d.status = g.status and d.closed_at is not null then d.closed_at else clock_timestamp() end,
      announced = d.announced || array(select unnest(g.announced) except select unnest(d.announced)),
      -- The revision increases even without a change, so that an answer to an earlier query is rejected.
      revision = d.revision + 1,
      updated_at = case when ${isChange(sql`d`)} then clock_timestamp() else d.updated_at end
    from payment cross join report g cross join total
    where d.tenant_id = payment.tenant_id and d.payment_id = payment.id and d.id = g.dispute_id
      and d.revision = ${revision}
    returning d.*, array(select unnest(d.announced) except select unnest(old.announced)) as new_updates,
      ${isChange(sql`old`)} as is_change`
}

/** The row `w` as JSON, as its payment shows it. */
function paymentView(sql: Sql): Fragment {
  const times = ['evidence_due_by', 'opened_at', 'closed_at']
  const fields = Object.keys(paymentDisputeSchema.shape).map((name) => {
    const column = sql(`w.${name}`)
    return sql`${name}::text, ${times.includes(name) ? isoText(sql, sql`${column}`) : sql`${column}`}`
  })
  return sql`jsonb_build_object(${fields.reduce((all, each) => sql`${all}, ${each}`)})`
}
