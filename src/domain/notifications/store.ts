// Stores notifications, each once. A redundant notification is final when it is stored; the others get jobs.
import { isRowError, type Fragment, type Json, type Sql, type Tx } from '#core/db.ts'
import { SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import { currentSpan } from '#core/tracing.ts'
import { applyNotification, applyTestNotification } from '#jobs/notifications.ts'
import { enqueuing } from '#jobs/job.ts'
import { tenantOfAccount } from '../sandboxes/account.ts'
import { isInReach, type ScanReach } from '../scan-reach.ts'
import { judgingRedundancy } from './redundancy.ts'
import { LOOKUP_KIND, type Notification } from './notification.ts'

/** A received notification. */
export type Arrival = Notification & {
  /** False: events of this kind never change our data. */
  is_relevant: boolean
  /**
   * For an event that reports a new object: the `tenant_id, root_id` of its row. If a call of that row was repeated
   * with a new key, the object may be a duplicate.
   */
  created_for?: Json | null
  /** The reported status, as `judgingRedundancy` reads it; null if only a lookup can find the status. */
  reported: Json | null
  /** Whether this process sends a wake-up right after the commit, if the notification gets a job. */
  will_wake: boolean
  request_id: string | null
}

/**
 * The state of a notification as stored. `received`: a job applies it. `waiting`: a job or a lookup in progress will
 * probably make the reported change; the notification is soon compared with our row again.
 */
export type StoredOutcome = {
  id: string
  state: 'received' | 'waiting' | 'applied' | 'ignored'
  /** The root row of the notification; null if not known yet. */
  tenant_id: string | null
  resource: string | null
  resource_id: string | null
}

/** The fields of the log line about a stored notification. */
export function storedFields({
  state,
  tenant_id,
  resource,
  resource_id,
}: Omit<StoredOutcome, 'id'>): Record<string, unknown> {
  return { state, ...(resource !== null && { tenant_id, [`${resource}_id`]: resource_id }) }
}

/**
 * The result of comparing a waiting notification with our row again. `request_id`: the request that delivered the
 * notification.
 */
export type ComparedNotification = StoredOutcome & {
  event_id: string
  livemode: boolean
  request_id: string | null
}

/** The delay before a waiting notification is compared with our row again. */
const COMPARE_DELAY_MS = 250
/** The maximum wait for a job, and for a lookup of the same object. */
const MAX_WAIT_FOR_JOBS_MS = 1_000
const MAX_WAIT_FOR_LOOKUPS_MS = 5_000

/**
 * Stores notifications and returns the new ones. A redundant notification is final at once: `ignored` if its kind never
 * matters, `applied` if our row already has the reported status. A notification is `waiting` if a running job or a
 * lookup in progress will probably make the reported change. The others get jobs that apply them. The id of a
 * notification is derived from the provider's and is also the id of its job, so a notification that occurs twice in
 * this call, or is already in the table or the history, is not stored again. One of test mode is never redundant: the
 * comparison finds rows of any mode, and joining their tenants would slow down all others.
 */
export async function storeNotifications(sql: Sql | Tx, arrivals: Arrival[]): Promise<StoredOutcome[]> {
  const compared = arrivals.map((each) => (each.livemode ? each : { ...each, reported: null }))
  const arrived = sql`
    select input.* from input
    -- Reads both tables: this statement's snapshot shows a row that is being moved in exactly one of them.
    left join lateral (
      select true as found from notification_history h
      where h.id = input.id and h.finished_at > now() - interval '31 days' offset 0
    ) before on true
    left join lateral (select true as found from notifications n where n.id = input.id offset 0) here on true
    where before.found is null and here.found is null`
  const trace_context = currentSpan()?.trace_context
  const traced =
    trace_context === undefined ? sql`` : sql`|| jsonb_build_object('trace_context', ${trace_context}::text)`
  const to_apply = sql`
    select stored.id, ${jobOwner(sql, 'input')} as owner_id, input.livemode, input.will_wake, input.request_id,
      ${trace_context ?? null}::text as trace_context
    from stored join input on input.id = stored.id where stored.state = 'received'`
  return await sql<StoredOutcome[]>`
    with input as (
      select distinct on (provider, account, event_id, livemode) * from jsonb_to_recordset(${sql.json(compared)}) as n(
        id uuid, provider text, account text, event_id text, livemode boolean, kind text, object_id text,
        payload jsonb, will_wake boolean, request_id text, is_relevant boolean, created_for jsonb, reported jsonb)
      order by provider, account, event_id, livemode, will_wake
    ), ${judgingRedundancy(sql, arrived)},
    judgement as (
      select judged.*, case
          when not is_relevant and not ${wasCallRepeated(sql)} then 'ignored'
          when is_redundant then 'applied'
          when reported is not null and (in_progress or ${isLookupInProgress(sql)}) then 'waiting'
          else 'received' end as state
      from judged
    ), stored as (
      insert into notifications (id, provider, account, event_id, livemode, kind, object_id, payload, state, reported,
        due_at, applied_at, tenant_id, resource, resource_id)
      select id, provider, account, event_id, livemode, kind, object_id, payload, state,
        -- The request id and the trace are stored for the job that the notification may get later.
        case when state = 'waiting' then reported || jsonb_build_object('request_id', request_id)
          ${traced} end,
        case when state = 'waiting' then now() + ${COMPARE_DELAY_MS} * interval '1 millisecond' end,
        case when state in ('applied', 'ignored') then clock_timestamp() end,
        case when state = 'applied' then tenant_id end,
        case when state = 'applied' then resource end,
        case when state = 'applied' then resource_id end
      -- The rows have the same order in every statement, so that statements with the same notifications cannot
      -- deadlock.
      from judgement order by provider, account, event_id, livemode
      on conflict do nothing
      returning id, state
    ),
    job as (${enqueuingToApply(sql, to_apply)})
    select stored.id, stored.state, judgement.tenant_id, judgement.resource, judgement.resource_id
    from stored join judgement on judgement.id = stored.id`
}

/**
 * Compares up to `limit` due waiting notifications with their resources again, as far back as `reach` says. Redundant
 * notifications are final, notifications of resources with work in progress continue to wait, and the others get jobs.
 * If a notification cannot be compared, all of these notifications get jobs. Returns the result of each.
 */
export async function compareWaiting(
  sql: Sql,
  limit: number,
  reach: ScanReach = 'all',
): Promise<ComparedNotification[]> {
  const due = sql`
    select n.id, n.provider, n.event_id, n.object_id, n.received_at, n.reported from notifications n
    where n.state = 'waiting' and n.due_at <= now() and ${isInReach(sql, reach, sql`n.due_at`)}
    order by n.due_at limit ${limit} for update skip locked`
  const compared = sql`
    due as materialized (${due}),
    ${judgingRedundancy(sql, sql`select *, true as is_relevant from due`)},
    judgement as (
      select judged.id, judged.tenant_id, judged.resource, judged.resource_id, case
          when is_redundant then 'applied'
          when in_progress and received_at > now() - ${MAX_WAIT_FOR_JOBS_MS} * interval '1 millisecond' then 'waiting'
          when received_at > now() - ${MAX_WAIT_FOR_LOOKUPS_MS} * interval '1 millisecond'
            and ${isLookupInProgress(sql)}
            then 'waiting'
          else 'received' end as state
      from judged
    )`
  try {
    return await writeJudgements(sql, compared)
  } catch (error) {
    // A notification that cannot be compared would fail each time and block the others, so all of them get jobs.
    if (!isRowError(error)) throw error
    return await writeJudgements(
      sql,
      sql`
        due as materialized (${due}),
        judgement as (
          select id, null::uuid as tenant_id, null::text as resource, null::uuid as resource_id, 'received' as state
          from due
        )`,
    )
  }
}

/**
 * Writes the new states of waiting notifications. A lookup that a settlement has requested gets the mode of its tenant.
 * `judgements`: parts of the statement, the last of them `judgement (id, state, tenant_id, resource, resource_id)`.
 */
async function writeJudgements(sql: Sql, judgements: Fragment): Promise<ComparedNotification[]> {
  const to_apply = sql`
    select written.id, written.owner_id, written.livemode, false as will_wake, written.request_id,
      written.trace_context
    from written where written.state = 'received'
      and not exists (select from jobs j where j.id = written.id offset 0)`
  return await sql<ComparedNotification[]>`
    with ${judgements},
    written as (
      update notifications n set state = judgement.state,
        reported = case when judgement.state = 'waiting' then n.reported end,
        due_at = case when judgement.state = 'waiting' then now() + ${COMPARE_DELAY_MS} * interval '1 millisecond' end,
        applied_at = case when judgement.state = 'applied' then clock_timestamp() end,
        tenant_id = case when judgement.state = 'applied' then judgement.tenant_id end,
        resource = case when judgement.state = 'applied' then judgement.resource end,
        resource_id = case when judgement.state = 'applied' then judgement.resource_id end,
        livemode = n.livemode and not (n.kind = ${LOOKUP_KIND} and exists (
          select from tenants t
          where t.mode = 'test' and t.id = case when pg_input_is_valid(n.payload ->> 'tenant_id', 'uuid')
            then (n.payload ->> 'tenant_id')::uuid end offset 0))
      from judgement where n.id = judgement.id
      returning n.id, n.state, n.event_id, n.livemode, ${jobOwner(sql, 'n')} as owner_id,
        old.reported ->> 'request_id' as request_id, old.reported ->> 'trace_context' as trace_context,
        judgement.tenant_id, judgement.resource, judgement.resource_id
    ),
    job as (${enqueuingToApply(sql, to_apply)})
    select id, state, event_id, livemode, request_id, tenant_id, resource, resource_id from written`
}

/**
 * Whether a lookup of the same object is in progress or begins with this statement: another notification of the
 * object has or gets a job. That lookup may precede this event, so this notification is compared again and is not
 * final. Reads the columns of `judged`.
 */
function isLookupInProgress(sql: Sql | Tx): Fragment {
  return sql`(
    row_number() over (partition by provider, object_id, is_redundant, is_relevant order by reported is not null,
      event_id) > 1
    or exists (
      select from notifications n
      where n.provider = judged.provider and n.object_id = judged.object_id and n.state = 'received'
        and n.received_at > now() - ${MAX_WAIT_FOR_LOOKUPS_MS} * interval '1 millisecond' offset 0))`
}

/** Whether a new object may be a duplicate: a call of its row was repeated with a new key. */
function wasCallRepeated(sql: Sql | Tx): Fragment {
  return sql`(
    created_for is not null and exists (
      select from jobs j
      where j.tenant_id = (created_for ->> 'tenant_id')::uuid and j.resource_id = (created_for ->> 'root_id')::uuid
        and j.generation > 1 offset 0))`
}

/**
 * The tenant to which the job of the notification `n` belongs. It is the system's own in live mode. In test mode it is
 * the tenant whose sandbox is the account, or whose row is looked up, so that its notifications share only its own
 * slots; those of a test account have a tenant of their own.
 */
function jobOwner(sql: Sql | Tx, n: 'n' | 'input'): Fragment {
  const looked_up = sql`${sql(`${n}.payload`)} ->> 'tenant_id'`
  return sql`
    case when ${sql(`${n}.livemode`)} then ${SYSTEM_TENANT_ID}::uuid
      else coalesce(${tenantOfAccount(sql, sql`${sql(`${n}.account`)}`)},
        case when ${sql(`${n}.kind`)} = ${LOOKUP_KIND} and pg_input_is_valid(${looked_up}, 'uuid')
          then (${looked_up})::uuid end,
        ${SYSTEM_TWIN_ID}::uuid) end`
}

/**
 * Enqueues jobs that apply notifications, which have `id, owner_id, livemode, will_wake, request_id, trace_context`.
 * The job of a notification has the id of the notification, so a notification has one job without a `dedupe_key`.
 */
function enqueuingToApply(sql: Sql | Tx, notifications: Fragment): Fragment {
  const requested = sql`
    select id as job_id, owner_id as tenant_id, null::uuid as resource_id,
      jsonb_build_object('notification_id', id) as payload, will_wake,
      null::text as dedupe_key, request_id, trace_context, livemode
    from (${notifications}) notification`
  const name = sql`case when livemode then ${applyNotification.name} else ${applyTestNotification.name} end`
  return enqueuing(sql, applyNotification, requested, undefined, undefined, sql`trace_context`, name)
}
