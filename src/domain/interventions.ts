// What operators see of jobs and do about them: each act is guarded by the job's state and on record, with who and why.
import { newId } from '#core/ids.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { MAX_ATTEMPTS } from '#jobs/job.ts'
import { keyIsTooOld, type Settlement } from './jobs.ts'
import { settlePayments, type PaymentTold } from './payments/settle.ts'
import { settleRefunds } from './refunds.ts'

/** The states of jobs, and what they have in common. Parked is what is not performed by itself any more. */
export const JOB_FILTERS = [
  'all',
  'open',
  'parked',
  'ready',
  'running',
  'unknown',
  'succeeded',
  'failed',
  'discarded',
] as const
export type JobFilters = {
  state: (typeof JOB_FILTERS)[number]
  queue?: string
  payment_id?: string
  tenant_id?: string
  limit: number
}

export type ListedJob = {
  id: string
  tenant: string | null
  tenant_id: string
  queue: string
  name: string
  state: string
  /** Nobody performs it until an operator says so. */
  parked: boolean
  /** The payment, where it works on one. */
  subject_id: string | null
  attempt: number
  /** Null when it is parked. */
  run_at: string | null
  unknown_since: string | null
  first_sent_at: string | null
  error: string | null
  created_at: string
  finished_at: string | null
}

/** Jobs, newest first; of those that are over for long, the ones that ended last. */
export async function findJobs(sql: Sql, filters: JobFilters): Promise<ListedJob[]> {
  const { state, queue, payment_id, tenant_id, limit } = filters
  const conditions: Fragment[] = [
    ...(state === 'parked' ? [sql`and j.run_at = 'infinity'`] : []),
    // One that is being looked up is unknown too.
    ...(state === 'unknown' ? [sql`and j.unknown_since is not null`] : []),
    ...(['all', 'open', 'parked', 'unknown'].includes(state) ? [] : [sql`and j.state = ${state}`]),
    ...(queue === undefined ? [] : [sql`and j.queue = ${queue}`]),
    ...(tenant_id === undefined ? [] : [sql`and j.tenant_id = ${tenant_id}`]),
  ]
  const filtered = conditions.reduce((all, each) => sql`${all} ${each}`, sql``)
  const is_open = ['open', 'parked', 'ready', 'running', 'unknown'].includes(state)
  const open = sql`(select ${jobColumns(sql)} from jobs j where j.finished_at is null ${filtered}
    order by j.created_at desc, j.id desc limit ${limit})`
  // What is over is found from its end on, by an index: nothing sorts all of it.
  const over = sql`(select ${jobColumns(sql)} from jobs j where j.finished_at is not null ${filtered} order by j.finished_at desc limit ${limit})
    union all (select ${jobColumns(sql)} from job_history j where true ${filtered} order by j.finished_at desc limit ${limit})`
  const found = is_open ? open : state === 'all' ? sql`${open} union all ${over}` : over
  // Payments are found by their tenant; whose it is, the operator need not know.
  const source =
    payment_id === undefined
      ? sql`(${found}) j left join tenants t on t.id = j.tenant_id`
      : sql`tenants t join ${everyJob(sql)} j on j.tenant_id = t.id and j.subject_id = ${payment_id}
          where ${is_open ? sql`j.finished_at is null` : sql`true`} ${filtered}`
  return await sql<ListedJob[]>`
    select ${listed(sql)} from ${source} order by j.created_at desc, j.id desc limit ${limit}`
}

type Intervention = {
  at: string
  who: string
  act: string
  reason: string
  before: string
  after: string
}
export type ShownJob = ListedJob & {
  payload: unknown
  max_attempts: number
  attempts: {
    attempt: number
    worker: string
    started_at: string
    ended_at: string | null
    outcome: string | null
    error: string | null
  }[]
  calls: {
    generation: number
    key: string
    operation: string
    first_sent_at: string | null
    last_sent_at: string | null
    refused_since: string | null
    outcome: string | null
    provider_reference: string | null
  }[]
  interventions: Intervention[]
}

/** A job with all that was tried and done about it, or undefined. */
export async function findJob(sql: Sql, id: string): Promise<ShownJob | undefined> {
  const [job] = await sql<Omit<ShownJob, 'attempts' | 'calls' | 'interventions'>[]>`
    select ${listed(sql)}, j.payload, j.max_attempts from ${everyJob(sql)} j left join tenants t on t.id = j.tenant_id where j.id = ${id}`
  if (job === undefined) return undefined
  const { tenant_id } = job
  return {
    ...job,
    attempts: await sql<ShownJob['attempts']>`
      select attempt, worker, started_at, ended_at, outcome, error ->> 'message' as error from all_job_attempts
      where tenant_id = ${tenant_id} and job_id = ${id} order by attempt`,
    calls: await sql<ShownJob['calls']>`
      select generation, key, operation, first_sent_at, last_sent_at, refused_since, outcome, provider_reference from (
        select ${callColumns(sql)} from provider_calls union all select ${callColumns(sql)} from provider_call_history) c
      where tenant_id = ${tenant_id} and job_id = ${id} order by generation`,
    interventions: await sql<Intervention[]>`
      select at, who, act, reason, before, after from job_interventions
      where tenant_id = ${tenant_id} and job_id = ${id} order by at`,
  }
}

/** What an operator does about a job, and why. */
export type Act = { job_id: string; who: string; reason: string }
/** How the job stands after it; undefined: its state forbids it, and nothing was written. */
export type Done = { after: string; look_only: boolean } | undefined

/**
 * Makes an open job due, or opens a discarded one that makes no provider call, with all its attempts. A call that is open is
 * made again under the same key; one whose key is too old is only looked up.
 */
export async function retryJob(sql: Sql, act: Act): Promise<Done> {
  const [done] = await sql<NonNullable<Done>[]>`
    with before as (
      select j.id, j.tenant_id, j.state, coalesce(${keyIsTooOld(sql)}, false) as look_only
      from jobs j ${withOpenCall(sql)}
      where j.id = ${act.job_id} and (j.state in ('ready', 'unknown') or (j.state = 'discarded' and not exists (
        select from provider_calls made where made.tenant_id = j.tenant_id and made.job_id = j.id)))
      for update of j
    ), after as (
      update jobs j set state = case when before.look_only then 'unknown' else 'ready' end,
        unknown_since = case when before.look_only then coalesce(j.unknown_since, now()) end,
        run_at = now(), rung_at = null, finished_at = null, max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state, before.look_only
    ), ${noted(sql, 'retry', act)}
    select state as after, look_only from after`
  return done
}

/** Ends an open job without doing it. Not one whose payment or refund is under way: what became of that must be said. */
export async function discardJob(sql: Sql, act: Act): Promise<Done> {
  const [done] = await sql<NonNullable<Done>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j ${withOpenCall(sql)}
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown') and (c.job_id is null or not case when j.payload ? 'refund_id'
        then exists (select from refunds r
          where r.tenant_id = j.tenant_id and r.id = (j.payload ->> 'refund_id')::uuid and r.status = 'pending')
        else exists (select from payments p
          where p.tenant_id = j.tenant_id and p.id = j.subject_id and p.status in ('pending', 'capturing', 'canceling')) end)
      for update of j
    ), call as (
      update provider_calls c set outcome = 'discarded', request = c.request - 'sealed'
      from before where c.tenant_id = before.tenant_id and c.job_id = before.id and c.outcome is null
    ), told as (
      -- A notification and its job have one id.
      update notifications n set state = 'ignored', applied_at = clock_timestamp(), waits_for = null, parked_at = null
      from before where n.id = before.id and n.state in ('received', 'parked')
    ), after as (
      update jobs j set state = 'discarded', finished_at = now()
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${noted(sql, 'discard', act)}
    select state as after, false as look_only from after`
  return done
}

/**
 * Says that the call of a job took effect: a worker looks it up and settles what it finds. `reference` is what the processor
 * calls the new payment or refund; null for what changes a payment that it knows.
 */
export async function resolveAsDone(sql: Sql, act: Act, reference: string | null): Promise<Done> {
  const [done] = await sql<NonNullable<Done>[]>`
    with before as (
      select j.id, j.tenant_id, j.state from jobs j ${withOpenCall(sql)}
      where j.id = ${act.job_id} and j.state in ('ready', 'unknown') and j.unknown_since is not null
        and c.job_id is not null
        and (c.operation in ('authorize', 'refund')) = (${reference}::text is not null)
      for update of j
    ), call as (
      update provider_calls c set provider_reference = coalesce(${reference}, c.provider_reference)
      from before where c.tenant_id = before.tenant_id and c.job_id = before.id and c.outcome is null
    ), after as (
      update jobs j set run_at = now(), rung_at = null, max_attempts = j.attempt + ${MAX_ATTEMPTS}::integer
      from before where j.tenant_id = before.tenant_id and j.id = before.id
      returning j.state
    ), ${noted(sql, 'resolve', act)}
    select state as after, true as look_only from after`
  return done
}

const NEVER_HAPPENED = { code: 'processor_error', message: 'it did not take effect at the processor' }

/**
 * Says that the call of a job never took effect and will not: its payment or refund is settled by the worker's own step, as
 * after a definitive failure.
 */
export async function resolveAsFailed(sql: Sql, act: Act): Promise<Done> {
  const settled = await sql.begin(async (tx) => {
    const [job] = await tx<HeldJob[]>`
      with before as (
        select j.id, j.tenant_id, j.state, c.operation from jobs j ${withOpenCall(tx)}
        where j.id = ${act.job_id} and j.state in ('ready', 'unknown') and c.job_id is not null
        for update of j
      ), after as (
        update jobs j set state = 'running', attempt = j.attempt + 1, lease_token = gen_random_uuid(),
          lease_until = now() + interval '10 seconds'
        from before where j.tenant_id = before.tenant_id and j.id = before.id
        returning j.*, 'failed' as outcome
      ), attempted as (
        insert into job_attempts (tenant_id, job_id, attempt, worker, started_at)
        select tenant_id, id, attempt, ${act.who}, now() from after
      ), ${noted(tx, 'resolve', act, sql`after.outcome`)}
      select after.id as job_id, after.tenant_id, after.attempt, after.lease_token, before.operation, after.subject_id as payment_id,
        after.payload ->> 'refund_id' as refund_id
      from after cross join before`
    if (job === undefined) return undefined
    return await settleAsFailed(tx, job)
  })
  return settled && { after: 'failed', look_only: false }
}

type HeldJob = {
  job_id: string
  tenant_id: string
  attempt: number
  lease_token: string
  operation: string
  payment_id: string
  refund_id: string | null
}

async function settleAsFailed(tx: Tx, job: HeldJob): Promise<Set<string>> {
  const { job_id, lease_token, attempt, tenant_id, payment_id, refund_id, operation } = job
  const settlement: Settlement = {
    job_id,
    lease_token,
    attempt,
    state: 'failed',
    outcome: 'resolved',
    error: NEVER_HAPPENED,
    delay_ms: 0,
    call_outcome: 'declined',
    provider_reference: null,
    rotate: false,
    unsent: false,
    forgive: true,
  }
  const failure = NEVER_HAPPENED
  if (refund_id !== null) {
    const told = { tenant_id, payment_id, refund_id, processor_reference: null, failure }
    return await settleRefunds(tx, [
      { ...settlement, told: { ...told, status: 'failed' }, notification_id: null },
    ])
  }
  const [payment] = await tx<{ held: boolean }[]>`
    select authorized_at is not null as held from payments where tenant_id = ${tenant_id} and id = ${payment_id}`
  const told: PaymentTold = {
    tenant_id,
    payment_id,
    // What fails to change a payment leaves it as it was.
    status: operation === 'authorize' ? 'failed' : payment?.held === true ? 'authorized' : 'requires_action',
    failed_operation: operation === 'capture' || operation === 'cancel' ? operation : null,
    processor_reference: null,
    amount_capturable_minor: null,
    amount_captured_minor: null,
    client_secret: null,
    capture_before: null,
    cancellation_reason: null,
    failure,
  }
  return await settlePayments(tx, [{ ...settlement, told, notification_id: null }])
}

function withOpenCall(sql: Sql | Tx): Fragment {
  return sql`left join provider_calls c on c.tenant_id = j.tenant_id and c.job_id = j.id and c.outcome is null`
}

// The act in the same step as what it did. `before` and `after` are parts of the step.
function noted(sql: Sql | Tx, act: string, { who, reason }: Act, becomes = sql`after.state`): Fragment {
  return sql`
    noted as (
      insert into job_interventions (tenant_id, id, job_id, who, act, reason, before, after)
      select before.tenant_id, ${newId()}::uuid, before.id, ${who}, ${act}, ${reason}, before.state, ${becomes}
      from before cross join after
    )`
}

// What is over for long is in the history.
function everyJob(sql: Sql): Fragment {
  return sql`(select ${jobColumns(sql)} from jobs j union all select ${jobColumns(sql)} from job_history j)`
}

function jobColumns(sql: Sql): Fragment {
  return sql`j.id, j.tenant_id, j.queue, j.name, j.state, j.run_at, j.subject_id, j.payload, j.attempt, j.max_attempts, j.unknown_since,
    j.last_error, j.created_at, j.finished_at`
}

function callColumns(sql: Sql): Fragment {
  return sql`tenant_id, job_id, generation, key, operation, first_sent_at, last_sent_at, refused_since, outcome, provider_reference`
}

function listed(sql: Sql): Fragment {
  return sql`
    j.id, t.slug as tenant, j.tenant_id, j.queue, j.name, j.state, j.run_at = 'infinity' as parked, j.subject_id, j.attempt,
    nullif(j.run_at, 'infinity') as run_at, j.unknown_since, j.last_error ->> 'message' as error, j.created_at, j.finished_at, (
      select c.first_sent_at from all_provider_calls c where c.tenant_id = j.tenant_id and c.job_id = j.id
      order by c.generation desc limit 1) as first_sent_at`
}
