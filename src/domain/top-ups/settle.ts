// Settles top-ups by what their processor says: one statement moves the top-up on, posts to the ledger and ends the
// job.
import { newIdsInOrder } from '#core/ids.ts'
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { announce, type EventType } from '../events.ts'
import { finishing, holding, type FailedRow, type Settlement } from '../jobs/settle.ts'
import { postings } from '../ledger.ts'
import { filing, waking } from '../notifications/settle.ts'
import { looking } from '../reconciliation/looks.ts'
import { withoutSeconds } from '../reconciliation/second.ts'
import { topUpSchema, type TopUpStatus } from './top-up.ts'

/** What the processor said of a top-up. `reversed`: the money came and was taken back. */
export type TopUpTold = {
  tenant_id: string
  top_up_id: string
  said: TopUpStatus | 'reversed'
  processor_reference: string | null
  /** Where it failed or was reversed. */
  failure: { code: string; message: string } | null
}

/** A report that says nothing of the top-up but how it stands. */
export const nothingReportedOfTopUp = { processor_reference: null, failure: null } as const

/**
 * The settlement of a job with what it was told of a top-up, and with the notification that brought this, if one did.
 */
export type TopUpSettlement = Settlement & { told: TopUpTold; notification_id: string | null }

/**
 * How far the processor has come: what it says of a top-up moves only forward. Of the ends that are no reversal the
 * first stays: the processor knows no way from one to another.
 */
const FURTHER: Readonly<Record<TopUpTold['said'], number>> = {
  pending: 1,
  succeeded: 2,
  failed: 2,
  canceled: 2,
  reversed: 3,
}

/**
 * Settles jobs that were told something of a top-up, in one statement: it moves from pending to its end, or from
 * succeeded to failed when the money was taken back. One that is reversed before we heard of its success has both
 * behind it, and both are posted and announced. What the processor did and what the top-up is here are two facts: money
 * is posted as the processor moved it, but one that has failed here, or was canceled, stays so; a drift names both. No
 * two settlements of one call may be of the same top-up. Returns the ids of the jobs whose lease was still ours; for
 * the others nothing was written.
 */
export async function settleTopUps(sql: Sql | Tx, settlements: TopUpSettlement[]): Promise<Set<string>> {
  const known = sql`select processor as provider, processor_reference as reference from t`
  const rows = await sql<{ id: string }[]>`
    with ${holding(sql, settlements.map(changeOf))},
    told as (
      select held.job_id, c.* from held cross join lateral jsonb_to_record(held.change) as c(
        tenant_id uuid, top_up_id uuid, said text, becomes text, rank integer, processor_reference text,
        failure jsonb, came_event_id uuid, event_id uuid, came_id uuid, went_id uuid, notification_id uuid)
    ), seen as (
      select told.*, t.was, t.before, (t.was).processor, (t.was).processor_reference as known_reference, t.further,
        t.further and said in ('succeeded', 'reversed') and (t.was).came_minor = 0 as comes,
        t.further and said = 'reversed' and (t.was).reversed_minor = 0 as goes,
        becomes <> before and (before = 'pending' or (before = 'succeeded' and said = 'reversed')) as moves
      from (select * from told order by tenant_id, top_up_id) told
      cross join lateral (
        select t as was, t.status as before,
          rank > coalesce((${sql.json(FURTHER)}::jsonb ->> t.processor_status)::integer, 0) as further
        from top_ups t where t.tenant_id = told.tenant_id and t.id = told.top_up_id
        for update
      ) t
    ), ${withoutSeconds(sql)}, t as (
      update top_ups t set updated_at = clock_timestamp(),
        processor_reference = coalesce(l.known_reference, l.processor_reference),
        processor_status = case when l.further then l.said else (l.was).processor_status end,
        came_minor = case when l.comes then (l.was).amount_minor else (l.was).came_minor end,
        reversed_minor = case when l.goes then (l.was).amount_minor else (l.was).reversed_minor end,
        status = case when l.moves then l.becomes else l.before end,
        failure = case when l.moves then l.failure else (l.was).failure end,
        succeeded_at = case when l.moves and l.said in ('succeeded', 'reversed')
          then coalesce((l.was).succeeded_at, clock_timestamp()) else (l.was).succeeded_at end,
        failed_at = case when l.moves and l.becomes = 'failed' then clock_timestamp() else (l.was).failed_at end
      from locked l
      where t.tenant_id = l.tenant_id and t.id = l.top_up_id
        and (l.moves or l.further or (l.known_reference is null and l.processor_reference is not null))
      returning t.*, l.before, l.said, l.comes, l.goes, l.came_event_id, l.event_id, l.came_id, l.went_id
    ), changed as (
      select * from t where status <> before
    ),
    event as (${announce(sql, 'top_up', announcing(sql))}),
    ${postings(sql, posting(sql))},
    ${filing(sql, 'top_up')},
    ${waking(sql, known)},
    ${looking(sql, 'top_up', sql`select * from second`)},
    ${finishing(sql)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** The settlement as its statement takes it, with the ids of what it may write. */
function changeOf({ told, notification_id, ...settlement }: TopUpSettlement) {
  // Events and transfers of one statement follow each other in the order of their ids.
  const [came_event_id, event_id] = newIdsInOrder(2)
  const [came_id, went_id] = newIdsInOrder(2)
  const becomes = told.said === 'reversed' ? 'failed' : told.said
  // What has no record there was never made.
  const rank = told.processor_reference === null ? 0 : FURTHER[told.said]
  const ids = { came_event_id, event_id, came_id, went_id }
  return { ...settlement, change: { ...told, becomes, rank, notification_id, ...ids } }
}

// The ledger entries for money that came, and for money that went back.
function posting(sql: Sql | Tx): Fragment {
  return sql`
    select tenant_id, came_id as transfer_id, 'top_up' as kind, id as subject_id,
      'processor_clearing' as debit_account, 'available' as credit_account, upper(currency) as currency, amount_minor
    from t where comes
    union all
    select tenant_id, went_id, 'top_up_reversed', id, 'available', 'processor_clearing', upper(currency), amount_minor
    from t where goes`
}

// The events of what changed: a top-up that came and went back at once has both.
function announcing(sql: Sql | Tx): Fragment {
  return sql`
    ${asItStood(sql, 'succeeded')}, came_event_id as event_id,
      ${'top_up.succeeded' satisfies EventType} as event from changed
    where before = 'pending' and said in ('succeeded', 'reversed')
    union all
    ${asItStood(sql, null)}, event_id, 'top_up.' || said from changed where said <> 'succeeded'`
}

// The columns of an event, of the top-up as it is or as it was when it `succeeded`.
function asItStood(sql: Sql | Tx, status: 'succeeded' | null): Fragment {
  const columns = Object.keys(topUpSchema.shape)
  if (status === null) return sql`select ${columnList(sql, columns)}`
  const then: Record<string, Fragment> = {
    status: sql`${status}::text as status`,
    failure: sql`null::jsonb as failure`,
    failed_at: sql`null::timestamptz as failed_at`,
  }
  const selected = columns.map(
    (column, index) => sql`${index === 0 ? sql`` : sql`,`} ${then[column] ?? sql`${sql(column)}`}`,
  )
  return sql`select ${selected}`
}

/** Settles a top-up whose call never took effect. */
export async function settleTopUpAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: top_up_id, failure }: FailedRow,
): Promise<void> {
  const told: TopUpTold = { ...nothingReportedOfTopUp, tenant_id, top_up_id, said: 'failed', failure }
  await settleTopUps(tx, [{ ...settlement, told, notification_id: null }])
}
