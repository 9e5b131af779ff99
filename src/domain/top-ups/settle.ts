// Settles updates of top-ups: one statement updates the top-up, posts ledger transfers, inserts events and ends the
// job.
import { newIdsInOrder } from '#core/ids.ts'
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { postings } from '../ledger.ts'
import { assigning, resuming } from '../notifications/settle.ts'
import { requestingLookups } from '../reconciliation/lookups.ts'
import { exceptDuplicates } from '../reconciliation/except-duplicates.ts'
import { topUpSchema, type TopUpStatus } from './top-up.ts'

/** An update of a top-up by its processor. `reversed`: the money arrived and was taken back. */
export type TopUpUpdate = {
  tenant_id: string
  top_up_id: string
  reported: TopUpStatus | 'reversed'
  processor_reference: string | null
  /** Present if the top-up failed or was reversed. */
  failure: { code: string; message: string } | null
}

/** The optional fields of an update, all empty. */
export const emptyTopUpUpdate = { processor_reference: null, failure: null } as const

/** The settlement of a job with an update of a top-up, and with the notification that reported the update, if any. */
export type TopUpSettlement = Settlement & { update: TopUpUpdate; notification_id: string | null }

/**
 * The ranks of the processor's statuses: a stored status only moves forward. Statuses of rank 2 never replace each
 * other, because the processor has no transition between them.
 */
const PROCESSOR_STATUS_RANKS: Readonly<Record<TopUpUpdate['reported'], number>> = {
  pending: 1,
  succeeded: 2,
  failed: 2,
  canceled: 2,
  reversed: 3,
}

/**
 * Settles jobs with updates of top-ups, in one statement. A top-up moves from pending to a final status, or from
 * succeeded to failed when the money was taken back. A reversal that is reported before the success implies the
 * success: both are posted, and both get an event. Transfers follow the processor's movements of money, but a top-up
 * that failed or was canceled here keeps its status, and a drift shows the contradiction. The settlements of one call
 * must be of different top-ups. Returns the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settleTopUps(sql: Sql | Tx, settlements: TopUpSettlement[]): Promise<Set<string>> {
  const references = sql`select processor as provider, processor_reference as reference from t`
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, settlements.map(changeOf))},
    updates as (
      select fenced.job_id, c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, top_up_id uuid, reported text, reported_status text, rank integer, processor_reference text,
        failure jsonb, succeeded_event_id uuid, event_id uuid, received_transfer_id uuid, reversed_transfer_id uuid,
        notification_id uuid)
    ), seen as (
      select updates.*, t.row_before, t.status_before, (t.row_before).processor,
        (t.row_before).processor_reference as stored_reference, t.advances,
        t.advances and reported in ('succeeded', 'reversed') and (t.row_before).received_minor = 0 as receives,
        t.advances and reported = 'reversed' and (t.row_before).reversed_minor = 0 as reverses,
        reported_status <> status_before and (status_before = 'pending'
          or (status_before = 'succeeded' and reported = 'reversed')) as changes_status
      from (select * from updates order by tenant_id, top_up_id) updates
      cross join lateral (
        select t as row_before, t.status as status_before,
          rank > coalesce((${sql.json(PROCESSOR_STATUS_RANKS)}::jsonb ->> t.processor_status)::integer, 0) as advances
        from top_ups t where t.tenant_id = updates.tenant_id and t.id = updates.top_up_id
        for update
      ) t
    ), ${exceptDuplicates(sql)}, t as (
      update top_ups t set updated_at = clock_timestamp(),
        processor_reference = coalesce(l.stored_reference, l.processor_reference),
        processor_status = case when l.advances then l.reported else (l.row_before).processor_status end,
        received_minor = case when l.receives then (l.row_before).amount_minor else (l.row_before).received_minor end,
        reversed_minor = case when l.reverses then (l.row_before).amount_minor else (l.row_before).reversed_minor end,
        status = case when l.changes_status then l.reported_status else l.status_before end,
        failure = case when l.changes_status then l.failure else (l.row_before).failure end,
        succeeded_at = case when l.changes_status and l.reported in ('succeeded', 'reversed')
          then coalesce((l.row_before).succeeded_at, clock_timestamp()) else (l.row_before).succeeded_at end,
        failed_at = case when l.changes_status and l.reported_status = 'failed' then clock_timestamp()
          else (l.row_before).failed_at end
      from locked l
      where t.tenant_id = l.tenant_id and t.id = l.top_up_id
        and (l.changes_status or l.advances or (l.stored_reference is null and l.processor_reference is not null))
      returning t.*, l.status_before, l.reported, l.receives, l.reverses, l.succeeded_event_id, l.event_id,
        l.received_transfer_id, l.reversed_transfer_id
    ), changed as (
      select * from t where status <> status_before
    ),
    event as (${insertingEvents(sql, 'top_up', newEvents(sql))}),
    ${postings(sql, newTransfers(sql))},
    ${assigning(sql, 'top_up')},
    ${resuming(sql, references)},
    ${requestingLookups(sql, 'top_up', sql`select * from duplicate`)},
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The settlement as input of its statement, with ids for the rows that it may insert. */
function changeOf({ update, notification_id, ...settlement }: TopUpSettlement) {
  // Events and transfers of one statement are numbered in the order of their ids. Ordinary ids of one millisecond have
  // no order.
  const [succeeded_event_id, event_id] = newIdsInOrder(2)
  const [received_transfer_id, reversed_transfer_id] = newIdsInOrder(2)
  const reported_status = update.reported === 'reversed' ? 'failed' : update.reported
  // Without a reference, the processor has no record of the top-up.
  const rank = update.processor_reference === null ? 0 : PROCESSOR_STATUS_RANKS[update.reported]
  const ids = { succeeded_event_id, event_id, received_transfer_id, reversed_transfer_id }
  return { ...settlement, change: { ...update, reported_status, rank, notification_id, ...ids } }
}

/** The ledger transfers of received and reversed money. */
function newTransfers(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, received_transfer_id as transfer_id, 'top_up' as kind, id as subject_id,
      'processor_clearing' as debit_account, 'available' as credit_account, upper(currency) as currency, amount_minor
    from t where receives
    union all
    select tenant_id, reversed_transfer_id, 'top_up_reversed', id, 'available', 'processor_clearing', upper(currency),
      amount_minor
    from t where reverses`
}

/** The events of changed top-ups. A top-up that was received and reversed in one update has both events. */
function newEvents(sql: Sql | Tx): Fragment {
  return sql`
    ${columnsAsOf(sql, 'succeeded')}, succeeded_event_id as event_id,
      ${'top_up.succeeded' satisfies EventType} as event from changed
    where status_before = 'pending' and reported in ('succeeded', 'reversed')
    union all
    ${columnsAsOf(sql, null)}, event_id, 'top_up.' || reported from changed where reported <> 'succeeded'`
}

/** The columns of an event: of the current top-up, or of the top-up as it was when it `succeeded`. */
function columnsAsOf(sql: Sql | Tx, status: 'succeeded' | null): Fragment {
  const columns = Object.keys(topUpSchema.shape)
  if (status === null) return sql`select ${columnList(sql, columns)}`
  const values_then: Record<string, Fragment> = {
    status: sql`${status}::text as status`,
    failure: sql`null::jsonb as failure`,
    failed_at: sql`null::timestamptz as failed_at`,
  }
  const selected = columns.map(
    (column, index) => sql`${index === 0 ? sql`` : sql`,`} ${values_then[column] ?? sql`${sql(column)}`}`,
  )
  return sql`select ${selected}`
}

/** Settles a top-up whose call had no effect. */
export async function settleTopUpAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: top_up_id, failure }: FailedRow,
): Promise<void> {
  const update: TopUpUpdate = { ...emptyTopUpUpdate, tenant_id, top_up_id, reported: 'failed', failure }
  await settleTopUps(tx, [{ ...settlement, update, notification_id: null }])
}
