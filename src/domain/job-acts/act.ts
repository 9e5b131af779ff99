// The acts of operators on jobs. Each act is allowed only in some states of the job, and is recorded with the operator
// and the reason.
import { newId } from '#core/ids.ts'
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { sendDelivery, testDelivery } from '#jobs/deliveries.ts'
import { CALLS } from '#jobs/index.ts'
import { MAX_ATTEMPTS } from '#jobs/job.ts'
import { hasDeliveryId } from '../deliveries/by-id.ts'
import { isKeyTooOld } from '../jobs/calls.ts'
import type { Settlement } from '../jobs/settle.ts'
import { isLiveTenant } from '../modes.ts'
import { storeNotifications } from '../notifications/store.ts'
import { requestLookup } from '../reconciliation/lookups.ts'
import { dismissingOrphan, findParkedOrphan } from '../reconciliation/orphans.ts'
import { resourceNameOf, rootOf, rowIdOf, resourceOf } from '../resources.ts'
import { settleAsFailedOf } from './settle-as-failed.ts'
import { matchesConditions, type JobConditions } from './matching.ts'

/** An operator's act on a job. `only`: the conditions that the job must still meet, for an act by filter. */
export type Act = { job_id: string; actor: string; reason: string; only?: JobConditions | undefined }
/**
 * The job's state before and after the act. Undefined if the state did not allow the act: nothing was written.
 */
export type ActResult = { before: string; after: string; lookup_only: boolean } | undefined

/**
 * Makes an open job due and restores its full number of attempts. The call of the job is sent again with the same key;
 * if the key is too old, the call is only looked up. A discarded job is reopened if it has no provider call. Refused
 * for a scheduled job before its first attempt, and for a discarded attempt of a delivery, because discarding it made
 * the delivery final.
 */
export async function retryJob(sql: Sql | Tx, act: Act): Promise<ActResult> {
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.*, coalesce(${isKeyTooOld(sql)}, false) as lookup_only from jobs j
      where j.id = ${act.job_id}
        and (j.state in ('ready', 'unknown') or (j.state = 'discarded' and j.operation is null))
        and not ${isScheduled(sql)} and not ${isDiscardedDelivery(sql)} ${filterCondition(sql, act)}
      for update
    ), attempt as (
      -- The job is reopened, so its last attempt becomes one of the attempts that did not finish it.
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error, in_doubt)
      select tenant_id, id, attempt, worker, started_at, finished_at, outcome, last_error, in_doubt
      from before where worker is not null
    ), after as (
      update jobs j set state = case when before.lookup_only then 'unknown' else 'ready' end,
        unknown_since = case when before.lookup_only then coalesce(j.unknown_since, now()) end,
        worker = null, started_at = null, outcome = null, run_at = now(), wakeup_sent_at = null, finished_at = null,
        max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state, before.lookup_only
    ), ${recordingAct(sql, 'retry', act)}
    select before.state as before, after.state as after, after.lookup_only from before cross join after`
  return done
}

/**
 * Ends an open job without running it. Refused while the row of its call is in progress: the operator must resolve
 * the call instead. Also refused for a provider call that this version does not know, because the row may wait for
 * the call.
 */
export async function discardJob(sql: Sql | Tx, act: Act): Promise<ActResult> {
  // A notification and its job have the same id.
  const orphan = await findParkedOrphan(sql, act.job_id)
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.id, j.tenant_id, j.state, j.name, j.payload from jobs j
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown')
        and (j.operation is null or exists (select from (${callRow(sql)}) r
          where not r.under_way)) ${filterCondition(sql, act)}
      for update
    ), notification as (
      update notifications n set state = 'ignored', applied_at = clock_timestamp(), waits_for = null, parked_at = null
      from before where n.id = before.id and n.state in ('received', 'parked')
    ), ${
      orphan === undefined
        ? sql``
        : sql`orphan as (
      -- A dismissed orphan is not reported again.
      ${dismissingOrphan(sql, orphan)} and exists (select from before)
    ),`
    } delivery as (
      -- No other job sends the delivery; only a recovery can.
      update webhook_deliveries d set status = 'failed', next_attempt_at = null,
        failed_at = coalesce(d.failed_at, clock_timestamp()), updated_at = clock_timestamp()
      from before
      where before.name = any(${DELIVERY_JOBS}::text[]) and d.status = 'pending'
        and ${hasDeliveryId(sql, sql`before.tenant_id`, sql`(before.payload ->> 'delivery_id')::uuid`)}
    ), after as (
      update jobs j set state = 'discarded', finished_at = now(), request = j.request - 'sealed'
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${recordingAct(sql, 'discard', act)}
    select before.state as before, after.state as after, false as lookup_only from before cross join after`
  return done
}

/** Makes a scheduled job due. Its previous attempts still count. Parked and unknown jobs do not change. */
async function runJobNow(sql: Sql | Tx, act: Act): Promise<ActResult> {
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j
      where j.id = ${act.job_id} and j.state = 'ready' and j.run_at > now()
        and j.run_at < 'infinity' ${filterCondition(sql, act)}
      for update
    ), after as (
      update jobs j set run_at = now(), wakeup_sent_at = null
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${recordingAct(sql, 'run_now', act)}
    select before.state as before, after.state as after, false as lookup_only from before cross join after`
  return done
}

/** The acts that apply to any job, by name. The other acts resolve a call. */
export const JOB_ACTIONS = { retry: retryJob, discard: discardJob, run_now: runJobNow }

/**
 * Records that the call of a job took effect: a worker looks it up and settles the result. `reference`: the
 * provider's id of the object that the call created; null for a call that changes an existing object.
 */
export async function resolveAsDone(sql: Sql | Tx, act: Act, reference: string | null): Promise<ActResult> {
  const names = CALLS.flatMap(({ job, makes }) => ((makes === null) === (reference === null) ? [job] : []))
  const [done] = await sql<NonNullable<ActResult>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown') and j.unknown_since is not null
        and j.name = any(${names}::text[]) ${filterCondition(sql, act)}
      for update
    ), after as (
      update jobs j set provider_reference = coalesce(${reference}, j.provider_reference), run_at = now(),
        wakeup_sent_at = null, max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${recordingAct(sql, 'resolve', act)}
    select before.state as before, after.state as after, true as lookup_only from before cross join after`
  return done
}

/** The jobs of attempts that a pending delivery waits for. */
const DELIVERY_JOBS = [sendDelivery.name, testDelivery.name]

const NO_EFFECT = { code: 'processor_error', message: 'The call did not take effect at the provider.' }

/**
 * Records that the call of a job did not and will not take effect: its row is settled as after a definitive failure,
 * by the statement that workers use. If a notification has settled the row in the meantime, nothing is written and
 * `settled` describes its state. After a settlement, the root resource is looked up at the provider, so that a wrong
 * decision shows as a drift.
 */
export async function resolveAsFailed(tx: Tx, act: Act): Promise<ActResult | { settled: string }> {
  const [requested] = await tx<{ name: string }[]>`select name from jobs where id = ${act.job_id}`
  const resource = requested && resourceNameOf(requested.name)
  const settleAsFailed = resource && settleAsFailedOf(resource)
  if (resource === undefined || settleAsFailed === undefined) return undefined
  const root = rootOf(resource)
  // This lock keeps notifications from changing the row.
  await tx`
    select from jobs j join ${tx(resourceOf(root).table)} p on p.tenant_id = j.tenant_id and p.id = j.resource_id
    where j.id = ${act.job_id} for update of j, p`
  const [job] = await tx<FencedJob[]>`
    with before as (
      select j.id, j.tenant_id, j.state, j.operation, j.resource_id as root_id, j.provider_reference, r.*
      from jobs j cross join lateral (${callRow(tx)}) r
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown') ${filterCondition(tx, act)}
    ), after as (
      update jobs j set state = 'running', attempt = j.attempt + 1, worker = ${act.actor}, started_at = now(),
        lease_token = gen_random_uuid(), lease_until = now() + interval '10 seconds'
      from before where j.tenant_id = before.tenant_id and j.id = before.id and before.under_way
      returning j.*
    ), ${recordingAct(tx, 'resolve', act, tx`'failed'`)}
    select before.*, after.lease_token from before left join after on after.id = before.id`
  if (job === undefined) return undefined
  const { tenant_id, row_id: id, root_id, operation, provider_reference, lease_token } = job
  const { state: before } = job
  if (!job.under_way) return { settled: `the ${resource} has the status ${job.status}` }
  const settlement: Settlement = {
    job_id: job.id,
    lease_token,
    state: 'failed',
    outcome: 'resolved',
    error: NO_EFFECT,
    delay_ms: 0,
    provider_reference: null,
    rotate: false,
    unsent: false,
    forgive: true,
    failing: false,
  }
  await settleAsFailed(tx, settlement, { tenant_id, id, root_id, operation, failure: NO_EFFECT })
  const { table, at_provider } = resourceOf(root)
  if (at_provider === undefined) return { before, after: 'failed', lookup_only: false }
  const [row] = await tx<{ provider: string; reference: string | null }[]>`
    select ${tx(at_provider.provider)} as provider, ${tx(at_provider.reference)} as reference from ${tx(table)}
    where tenant_id = ${tenant_id} and id = ${root_id}`
  const reference = row?.reference ?? (root === resource ? provider_reference : null)
  // Without a reference there is nothing to look up. If the object exists at the provider, its notifications
  // carry our ids.
  if (row !== undefined && reference !== null) {
    const of = { provider: row.provider, livemode: await isLiveTenant(tx, tenant_id) }
    const lookup = requestLookup(of, { resource: root, reference, tenant_id }, `resolved:${job.id}`)
    await storeNotifications(tx, [lookup])
  }
  return { before, after: 'failed', lookup_only: false }
}

type FencedJob = {
  id: string
  tenant_id: string
  state: string
  lease_token: string
  operation: string
  root_id: string
  provider_reference: string | null
  row_id: string
  status: string
  under_way: boolean
}

// The row that the call of the open job `j` works on, and whether it is in progress; no row if this version
// does not know the call.
function callRow(sql: Sql | Tx): Fragment {
  const rows = CALLS.flatMap(({ job, status, makes }) => {
    const resource = resourceNameOf(job)
    // If the row's status does not depend on the call, the call is in progress for as long as its job is open.
    const shows_status = status === null ? sql`true` : sql`p.status = any(${[status].flat()}::text[])`
    if (resource === undefined) return []
    const { table, reserves } = resourceOf(resource)
    // A row with a reserved amount waits for the call that moves the amount, even if the row is final.
    const waits = makes !== null && reserves !== undefined ? reserves(sql) : sql`false`
    return [
      sql`
        select p.id as row_id, p.status, (${shows_status} or ${waits}) as under_way
        from ${sql(table)} p
        where j.name = ${job} and p.tenant_id = j.tenant_id and p.id = ${rowIdOf(sql, resource)}`,
    ]
  })
  return unionAll(sql, rows)
}

/** Whether the job `j` is scheduled for later and has had no attempt, such as a scheduled message. */
export function isScheduled(sql: Sql | Tx): Fragment {
  return sql`(j.state = 'ready' and j.attempt = 0 and j.run_at > now() and j.run_at < 'infinity')`
}

/** Whether the job `j` is a discarded attempt of a delivery: discarding it made the delivery final. */
export function isDiscardedDelivery(sql: Sql | Tx): Fragment {
  return sql`(j.state = 'discarded' and j.name = any(${DELIVERY_JOBS}::text[]))`
}

function filterCondition(sql: Sql | Tx, { only }: Act): Fragment {
  return only === undefined ? sql`` : matchesConditions(sql, only)
}

// The part of an act's statement that records the act. It reads the parts `before` and `after`.
function recordingAct(
  sql: Sql | Tx,
  act: string,
  { actor, reason }: Act,
  becomes = sql`after.state`,
): Fragment {
  return sql`
    recorded as (
      insert into job_acts (tenant_id, id, job_id, actor, act, reason, before, after)
      select before.tenant_id, ${newId()}::uuid, before.id, ${actor}, ${act}, ${reason}, before.state, ${becomes}
      from before cross join after
    )`
}
