// Carries out requested acts, in steps. Each step and its progress are one transaction: a crash neither repeats
// nor skips a job.
import { z } from 'zod'
import { databaseCode, isRowError, type Sql, type Tx } from '#core/db.ts'
import { JOB_ACTIONS, type Act, type ActResult } from '../job-acts/act.ts'
import { matchingJobs } from '../job-acts/matching.ts'
import { resolveJob } from '../job-acts/resolve.ts'
import { refusalReason } from '../job-acts/why-not.ts'
import { actFilterSchema, MAX_ACT_ITEMS, type OperatorAct } from './act.ts'

/** The number of jobs in a step. The rows of these jobs are locked until the step ends. */
const BATCH_SIZE = 100
/**
 * The number of jobs in a step that resolves calls. Resolving also locks rows and accounts, so the next job is locked
 * only after these locks are released.
 */
const RESOLVE_BATCH_SIZE = 1
/** A step begins no further job after this time: nothing is written of a transaction that takes 30 s. */
const STEP_LIMIT_MS = 5_000
const LOCK_TIMEOUT_MS = 1_000
const JOBS_NOT_FOUND = 'The jobs of the act could not be found in time: narrow the filter.'
const STATEMENT_CANCELED = '57014'

/** The function that performs each kind of act on a job. */
const ACTIONS: Record<
  OpenAct['act'],
  (tx: Tx, requested: Act, act: OpenAct) => Promise<ActResult | { refused: string }>
> = {
  ...JOB_ACTIONS,
  resolve: (tx, requested, { took_effect, reference }) =>
    resolveJob(tx, requested, { took_effect: took_effect === true, reference }),
}

type OpenAct = Pick<
  OperatorAct,
  'id' | 'act' | 'job_id' | 'state' | 'actor' | 'reason' | 'took_effect' | 'reference'
> & {
  filter: unknown
  is_canceled: boolean
}

/**
 * Performs the next step of the act that has waited longest. The first step of an act finds the jobs, each further step
 * acts on some of them, and the last step finishes the act. Several workers handle different acts. Returns whether
 * there was an act. Throws if the step fails: it is retried after the steps of other acts.
 */
export async function carryOutNextStep(sql: Sql, { limit_ms = STEP_LIMIT_MS } = {}): Promise<boolean> {
  let act: OpenAct | undefined
  try {
    return await sql.begin(async (tx) => {
      // A job locked for long delays its own act and no other.
      await tx`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`
      // The act is locked first: the process that performs the next step sees the results of this step.
      const [found] = await tx<OpenAct[]>`
        select id, act, job_id, filter, state, actor, reason, took_effect, reference,
          exists (select from operator_act_cancellations c where c.act_id = a.id) as is_canceled
        from operator_acts a where finished_at is null order by updated_at limit 1 for update skip locked`
      act = found
      if (act === undefined) return false
      if (act.is_canceled) await finish(tx, act.id, 'canceled')
      else if (act.state === 'requested') await findJobs(tx, act)
      else await performBatch(tx, act, performance.now() + limit_ms)
      return true
    })
  } catch (error) {
    if (act !== undefined) await postpone(sql, act, error).catch(() => undefined)
    throw error
  }
}

/** Finds the jobs of the act. Jobs that match the filter later do not belong to the act. */
async function findJobs(tx: Tx, { id, job_id, filter }: OpenAct): Promise<void> {
  const jobs =
    job_id === null
      ? tx`select j.id from ${matchingJobs(tx, actFilterSchema.parse(filter))} j limit ${MAX_ACT_ITEMS + 1}`
      : tx`select ${job_id}::uuid as id`
  await tx`
    with matching as materialized (${jobs}),
    item as (
      insert into operator_act_items (act_id, job_id)
      select ${id}, id from matching order by id limit ${MAX_ACT_ITEMS} returning job_id
    )
    update operator_acts set state = 'running', started_at = now(), updated_at = clock_timestamp(),
      found = (select count(*) from item), more = (select count(*) from matching) > ${MAX_ACT_ITEMS}
    where id = ${id}`
}

async function performBatch(tx: Tx, act: OpenAct, until: number): Promise<void> {
  const { id, filter, actor, reason } = act
  // The filter is checked again: jobs may have changed since the act began.
  const only = filter === null ? undefined : actFilterSchema.parse(filter)
  const batch_size = act.act === 'resolve' ? RESOLVE_BATCH_SIZE : BATCH_SIZE
  // Every batch locks its jobs in the order of their ids, so that batches cannot deadlock.
  const items = await tx<{ job_id: string }[]>`
    select job_id from operator_act_items where act_id = ${id} and at is null order by job_id limit ${batch_size}`
  const results = []
  for (const { job_id } of items) {
    results.push({ job_id, ...(await perform(tx, act, { job_id, actor, reason, only })) })
    if (performance.now() >= until) break
  }
  await tx`
    with result as (
      select * from jsonb_to_recordset(${tx.json(results)}) as r(
        job_id uuid, before text, after text, lookup_only boolean, refused text)
    ), item as (
      update operator_act_items i set at = clock_timestamp(), before = r.before, after = r.after,
        lookup_only = coalesce(r.lookup_only, false), refused = r.refused
      from result r where i.act_id = ${id} and i.job_id = r.job_id
      returning i.refused
    )
    update operator_acts set updated_at = clock_timestamp(), error = null,
      done = done + (select count(*) from item where refused is null),
      refused = refused + (select count(*) from item where refused is not null)
    where id = ${id}`
  if (items.length < batch_size && results.length === items.length) await finish(tx, id, 'done')
}

type ItemResult = NonNullable<ActResult> | { before: string | null; refused: string }

async function perform(tx: Tx, act: OpenAct, requested: Act): Promise<ItemResult> {
  try {
    const done = await tx.savepoint(async (part) => await ACTIONS[act.act](part, requested, act))
    if (done !== undefined && 'refused' in done) return { before: null, ...done }
    return done ?? (await refusalReason(tx, act.act, requested))
  } catch (error) {
    // A row that cannot be written does not block the others.
    if (!isRowError(error)) throw error
    return {
      before: null,
      refused: `The database refused the act: ${(error as Error).message}`.slice(0, 500),
    }
  }
}

async function finish(tx: Tx, id: string, state: 'done' | 'canceled'): Promise<void> {
  await tx`
    update operator_acts set state = ${state}, finished_at = clock_timestamp(), updated_at = clock_timestamp()
    where id = ${id}`
}

/** The step was rolled back: the act moves behind the others, or fails if the search for its jobs takes too long. */
async function postpone(sql: Sql, { id, state }: OpenAct, error: unknown): Promise<void> {
  const cannot_find_jobs =
    state === 'requested' && (databaseCode(error) === STATEMENT_CANCELED || error instanceof z.ZodError)
  await sql`
    update operator_acts set updated_at = clock_timestamp(),
      error = ${cannot_find_jobs ? JOBS_NOT_FOUND : 'A step failed and will be retried.'},
      state = case when ${cannot_find_jobs} then 'failed' else state end,
      finished_at = case when ${cannot_find_jobs} then clock_timestamp() end
    where id = ${id} and finished_at is null`
}
