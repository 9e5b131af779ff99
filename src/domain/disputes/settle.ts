// Writes what the processor says of a dispute: one statement imports or changes it, posts what moved, and announces it.
import { newId, newIdsInOrder } from '#core/ids.ts'
import { columnList, isoText, violatedConstraint, type Fragment, type Sql } from '#core/db.ts'
import { insertEvents } from '../events.ts'
import { postings } from '../ledger.ts'
import { PAYMENT_EVENTS, paymentEventSchema } from '../payments/payment.ts'
import { paymentDisputeSchema, type Dispute } from './dispute.ts'
import type { ExistingDispute } from './find.ts'

/** What the processor said of a dispute, and of which payment of ours it is. */
export type DisputeUpdate = Pick<
  Dispute,
  'tenant_id' | 'payment_id' | 'processor' | 'processor_reference' | 'status' | 'reason' | 'amount_minor'
> &
  Pick<Dispute, 'currency' | 'evidence_due_by' | 'opened_at'> & {
    /** Whether it is over, as far as the processor knows. */
    closed: boolean
    /** Every movement of money by it so far, oldest first; the processor's id of each is its `reference`. */
    movements: {
      kind: 'dispute_withdrawn' | 'dispute_reinstated'
      reference: string
      amount_minor: number
    }[]
  }

/** Its events, by the word after `payment.`. */
const EVENT_NAMES = [
  'disputed',
  'dispute_won',
  'dispute_lost',
  'dispute_closed',
] as const satisfies PaymentEventName[]
type PaymentEventName = keyof typeof PAYMENT_EVENTS

/**
 * Writes what was said of a dispute whose row was `known` before the processor was asked; undefined: it had none. Each
 * movement is posted once, and each event told once. Returns the dispute's id; undefined when another answer was
 * written meanwhile: nothing was written then, and the processor must be asked again, because nobody can say which of
 * the two is the newer. So what is written was always asked for after what it replaces.
 */
export async function settleDispute(
  sql: Sql,
  existing: ExistingDispute | undefined,
  { movements, ...announced }: DisputeUpdate,
): Promise<{ id: string } | undefined> {
  // Postings of one statement follow each other in the order of their ids, which those of one millisecond are not in.
  const ids = newIdsInOrder(movements.length)
  const report = {
    ...announced,
    dispute_id: existing?.id ?? newId(),
    announced: eventNamesOf(announced),
    event_ids: Object.fromEntries(EVENT_NAMES.map((event_name) => [event_name, newId()])),
    movements: movements.map((each, nth) => ({ ...each, transfer_id: ids[nth]! })),
  }
  const payment_columns = Object.keys(paymentEventSchema.shape).filter((column) => column !== 'dispute')
  // The dispute that it tells of, also where the payment has a later one.
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
      event as (${insertEvents(sql, 'payment', new_events)}),
      ${postings(sql, newTransfers(sql), undefined, { by_reference: true })}
      select id from written`
    return row
  } catch (error) {
    // Another notification of the same dispute was faster; nothing was written here.
    if (!CONFLICT_CONSTRAINTS.includes(violatedConstraint(error) ?? '')) throw error
    return undefined
  }
}

// The ledger entries for what the dispute moved.
function newTransfers(sql: Sql): Fragment {
  return sql`
    select f.tenant_id, f.transfer_id, f.kind, d.id as subject_id,
      case f.kind when 'dispute_withdrawn' then 'available' else 'processor_clearing' end as debit_account,
      case f.kind when 'dispute_withdrawn' then 'processor_clearing' else 'available' end as credit_account,
      d.currency, f.amount_minor, f.reference
    from new_movement f cross join d`
}

const CONFLICT_CONSTRAINTS = ['disputes_processor_reference', 'ledger_transfers_once']

/** What is to be announced of a dispute by now. */
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
      -- Also where it confirms what is there: an answer that was asked for before this one is older.
      revision = d.revision + 1,
      updated_at = case when ${isChange(sql`d`)} then clock_timestamp() else d.updated_at end
    from payment cross join report g cross join total
    where d.tenant_id = payment.tenant_id and d.payment_id = payment.id and d.id = g.dispute_id
      and d.revision = ${revision}
    returning d.*, array(select unnest(d.announced) except select unnest(old.announced)) as new_updates,
      ${isChange(sql`old`)} as is_change`
}

/** The row `w` as its payment shows it. */
function paymentView(sql: Sql): Fragment {
  const times = ['evidence_due_by', 'opened_at', 'closed_at']
  const fields = Object.keys(paymentDisputeSchema.shape).map((name) => {
    const column = sql(`w.${name}`)
    return sql`${name}::text, ${times.includes(name) ? isoText(sql, sql`${column}`) : sql`${column}`}`
  })
  return sql`jsonb_build_object(${fields.reduce((all, each) => sql`${all}, ${each}`)})`
}
