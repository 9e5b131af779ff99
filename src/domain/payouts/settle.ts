// Settles payouts by what their processor says: one statement moves the payout on, posts to the ledger, frees what was
// reserved and ends the job.
import { newId, newIdsInOrder } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { cancelPayout } from '#jobs/payouts.ts'
import { enqueue, requestJson } from '#jobs/job.ts'
import { announce, type EventType } from '../events.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { postings } from '../ledger.ts'
import { filing, waking } from '../notifications/settle.ts'
import { closeDrift } from '../reconciliation/drift.ts'
import { looking } from '../reconciliation/looks.ts'
import { withoutSeconds } from '../reconciliation/second.ts'

/**
 * What became known of a payout.
 * - `processing`, `paid`, `failed`, `canceled`: how it stands at the processor;
 * - `refused`: the processor did not take it, and has no record of it;
 * - `unsent`: certainly nothing has reached the processor so far;
 * - `absent`: the processor has no record of it, and none can come any more;
 * - `kept`: the processor does not let go of it, so the wish to cancel it is over.
 */
export type PayoutTold = {
  tenant_id: string
  payout_id: string
  said: 'processing' | 'paid' | 'failed' | 'canceled' | 'refused' | 'unsent' | 'absent' | 'kept'
  processor_reference: string | null
  arrival_date: string | null
  /** How much has come back of what was paid; when it `failed`, all of it has. */
  returned_minor: number
  /** Where it failed or was refused. */
  failure: { code: string; message: string } | null
}

/** A report that says nothing of the payout but how it stands. */
export const nothingReportedOfPayout = {
  processor_reference: null,
  arrival_date: null,
  returned_minor: 0,
  failure: null,
} as const

/**
 * The settlement of a job with what it was told of a payout, and with the notification that brought this, if one did.
 */
export type PayoutSettlement = Settlement & { told: PayoutTold; notification_id: string | null }

/** How far the processor has come: what it said moves only forward. Only these are said of an object that it has. */
const FURTHER = ['processing', 'paid', 'failed', 'canceled']
/** What is said where perhaps nothing has left. */
const NOTHING_LEFT: PayoutTold['said'][] = ['refused', 'unsent', 'absent']

/**
 * Settles jobs that were told something of a payout, in one statement. No two settlements of one call may be of the
 * same payout. What the processor did and what the payout is here are two facts: money is posted as the processor moved
 * it, but a payout that operators failed, or that was canceled before it was sent, stays so. Where the two contradict
 * each other, a look is asked for, which opens a drift. Returns the ids of the jobs whose lease was still ours; for the
 * others nothing was written.
 */
export async function settlePayouts(sql: Sql | Tx, settlements: PayoutSettlement[]): Promise<Set<string>> {
  // A drift is closed by a statement of its own: this one may wait for the row, and miss what is opened meanwhile.
  if ('begin' in sql && settlements.some(({ told }) => NOTHING_LEFT.includes(told.said)))
    return await sql.begin(async (tx) => await settlePayouts(tx, settlements))
  const known = sql`select processor as provider, processor_reference as reference from p`
  const rows = await sql<Settled[]>`
    with ${holding(sql, settlements.map(changeOf))},
    told as (
      select held.job_id, held.request_id, held.started_at as as_of, held.never_sent or held.rotate as never_sent, c.*
      from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, payout_id uuid, said text, rank integer, processor_reference text, arrival_date text,
        returned_minor bigint, failure jsonb, status_event_id uuid, overtaken_id uuid, paid_id uuid, returned_id uuid,
        follow_up_job_id uuid, notification_id uuid)
    ), ${stepping(sql)},
    p as (${moving(sql)}),
    event as (${announce(sql, 'payout', announcing(sql))}),
    ${postings(sql, posting(sql), releasing(sql), { by_reference: true })},
    follow_up as (${followUp(sql)}),
    ${filing(sql, 'payout')},
    ${waking(sql, known)},
    ${looking(sql, 'payout', contradicting(sql))},
    ${finishing(sql, endsSoon(sql))}
    select job.id, p.tenant_id, p.id as subject_id,
      p.before = 'failed' and p.never_left and p.processor_reference is null as never_made
    from job left join p on p.job_id = job.id`
  for (const { never_made, ...of } of rows) {
    // One that operators failed while its call could still take effect.
    if (never_made === true) await closeDrift(sql, { ...of, subject: 'payout' })
  }
  return new Set(rows.map(({ id }) => id))
}

/** The settlement as its statement takes it, with the ids of what it may write. */
function changeOf({ told, notification_id, ...settlement }: PayoutSettlement) {
  // Postings of one statement follow each other in the order of their ids, which within a millisecond is any order.
  const [paid_id, returned_id] = newIdsInOrder(2)
  const [status_event_id, overtaken_id] = newIdsInOrder(2)
  const ids = { status_event_id, overtaken_id, paid_id, returned_id, follow_up_job_id: newId() }
  return { ...settlement, change: { ...told, rank: FURTHER.indexOf(told.said) + 1, notification_id, ...ids } }
}

type Settled = { id: string; tenant_id: string; subject_id: string; never_made: boolean | null }

/**
 * The parts from `seen` to `step`: the rows that were told of, and what becomes of each. `was` is the locked row, the
 * only one to read: the statement's snapshot may be older. `further` is how far the processor has come, `arrives` the
 * day, `becomes` our status, `stops_as` what it ends as once nothing can leave: the request that was accepted first
 * names the end, and a cancellation after a failure by hand is not recorded. `paid` and `returned` are what is posted
 * from then on.
 */
function stepping(sql: Sql | Tx): Fragment {
  const rankOf = sql`coalesce(array_position(${FURTHER}::text[], (p.was).processor_status), 0)`
  return sql`
    seen as (
      select told.*, p.was, (p.was).status as before, (p.was).processor, (p.was).processor_reference as known_reference,
        (p.was).open and (p.was).fail_requested_at is not null as is_failing,
        said in ('refused', 'absent') or (said = 'unsent' and never_sent) as never_left,
        told.rank > ${rankOf} as moves
      from (select * from told order by tenant_id, payout_id) told
      cross join lateral (
        select p as was from payouts p where p.tenant_id = told.tenant_id and p.id = told.payout_id for update
      ) p
    ), ${withoutSeconds(sql)}, wanted as (
      select l.*, case when (was).open and (was).cancel_requested_at is not null then 'canceled'
          when is_failing then 'failed' end as stops_as
      from locked l
    ), stood as (
      select w.*, case when moves then said else (was).processor_status end as further,
        -- It may change: the answer of the attempt that began later holds.
        case when as_of > coalesce((was).told_as_of, '-infinity') then coalesce(arrival_date, (was).arrival_date)
          else coalesce((was).arrival_date, arrival_date) end as arrives,
        case when moves and said = 'paid' then (was).amount_minor else (was).paid_minor end as paid,
        case
          when moves and before in ('pending', 'processing', 'paid')
            then case said when 'canceled' then coalesce(stops_as, said) else said end
          when said = 'refused' and before = 'pending' then 'failed'
          when never_left and before = 'pending' then coalesce(stops_as, before)
          else before end as becomes
      from wanted w
    ), step as (
      select s.*, case
          when paid = 0 then 0
          when moves and said in ('failed', 'canceled') then paid
          when said = 'paid' and further = 'paid' then greatest((was).returned_minor, least(returned_minor, paid))
          else (was).returned_minor end as returned
      from stood s
    )`
}

/** Updates each payout as its `step` says. */
function moving(sql: Sql | Tx): Fragment {
  return sql`
    update payouts p set status = s.becomes,
      processor_status = s.further,
      processor_reference = coalesce(s.known_reference, s.processor_reference),
      paid_minor = s.paid, returned_minor = s.returned,
      call_started_at = case when not s.never_left then (s.was).call_started_at end,
      cancel_requested_at = case when s.becomes in ('pending', 'processing') and s.said <> 'kept'
        then (s.was).cancel_requested_at end,
      fail_requested_at = (s.was).fail_requested_at,
      arrival_date = s.arrives, told_as_of = greatest((s.was).told_as_of, s.as_of),
      failure = case when s.becomes = 'failed' and s.before <> 'failed' and not s.is_failing
          then s.failure || '{"manual": false}'
        when s.becomes in ('pending', 'processing', 'failed') then (s.was).failure end,
      processing_at = case when s.rank > 0 then coalesce((s.was).processing_at, clock_timestamp())
        else (s.was).processing_at end,
      paid_at = case when s.becomes = 'paid' then coalesce((s.was).paid_at, clock_timestamp())
        else (s.was).paid_at end,
      failed_at = case when s.becomes = 'failed' then coalesce((s.was).failed_at, clock_timestamp()) end,
      canceled_at = case when s.becomes = 'canceled' then coalesce((s.was).canceled_at, clock_timestamp()) end,
      updated_at = case when s.becomes <> s.before or s.further is distinct from (s.was).processor_status
          or s.returned <> (s.was).returned_minor or s.said = 'kept'
          or s.arrives is distinct from (s.was).arrival_date
        then clock_timestamp() else (s.was).updated_at end
    from step s where p.tenant_id = s.tenant_id and p.id = s.payout_id
    returning p.*, s.before, (s.was).open as was_open, s.is_failing, s.never_left,
      (s.was).paid_minor as paid_before, (s.was).returned_minor as returned_before, s.status_event_id,
      s.overtaken_id, s.paid_id, s.returned_id, s.follow_up_job_id, s.request_id, s.job_id`
}

// The events of a new status, and of a payout that was paid although its failure was requested.
function announcing(sql: Sql | Tx): Fragment {
  return sql`
    select p.*, event.id as event_id, event.type as event
    from p cross join lateral (values
      (p.status_event_id, 'payout.' || p.status, p.status <> p.before),
      (p.overtaken_id, ${'payout.fail_overtaken' satisfies EventType}, p.is_failing and p.status = 'paid')
    ) event(id, type, happened)
    where event.happened`
}

// The ledger entries for what was paid, and for what came back of it.
function posting(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, paid_id as transfer_id, 'payout_paid' as kind, id as subject_id, 'available' as debit_account,
      'processor_clearing' as credit_account, upper(currency) as currency, amount_minor, '' as reference
    from p where paid_minor > paid_before
    union all
    select tenant_id, returned_id, 'payout_returned', id, 'processor_clearing', 'available', upper(currency),
      returned_minor - returned_before, returned_before::text
    from p where returned_minor > returned_before`
}

// The reservations of payouts that have ended.
function releasing(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, upper(currency) as currency, 'available' as account, -amount_minor as reserved_delta
    from p where was_open and not open`
}

// The payouts that contradict their processor, once for each contradiction. A notification of the processor would
// bring the same lookup a little later.
function contradicting(sql: Sql | Tx): Fragment {
  return sql`
    select * from second
    union all
    select processor, processor_reference, status || ' here, ' || processor_status || ' there' from p
    where status in ('failed', 'canceled') and processor_status in ('processing', 'paid')
      and processor_reference is not null`
}

/**
 * A cancellation or a failure by hand that was recorded while the call was under way follows it, if there is still
 * something to let go of. A transfer is paid by then.
 */
function followUp(sql: Sql | Tx): Fragment {
  const request = requestJson(sql, cancelPayout, { reference: sql`p.processor_reference` })
  return enqueue(
    sql,
    cancelPayout,
    sql`
      select p.follow_up_job_id as job_id, p.tenant_id, p.id as subject_id,
        jsonb_build_object('payout_id', p.id) as payload, false as rung, null::text as dedupe_key, p.request_id,
        ${request} as request
      from p where p.before = 'pending' and p.status = 'processing'
        and (p.cancel_requested_at is not null or p.is_failing)`,
  )
}

/** A job that would wait, although its payout has ended meanwhile, ends at its next attempt: that is now. */
function endsSoon(sql: Sql | Tx): Fragment {
  return sql`
    case when held.job_id in (select job_id from p where not open)
      then 0 else held.delay_ms end`
}

/**
 * Settles a payout whose call never took effect: one that was not created has failed, one that was not canceled goes
 * on.
 */
export async function settlePayoutAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: payout_id, operation, failure }: FailedRow,
): Promise<void> {
  const said = operation === 'payout' ? 'refused' : 'kept'
  const told: PayoutTold = { ...nothingReportedOfPayout, tenant_id, payout_id, said, failure }
  await settlePayouts(tx, [{ ...settlement, told, notification_id: null }])
}
