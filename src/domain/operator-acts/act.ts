// The acts that operators request in the dashboard, for one job or for all jobs of a filter: schemas and reads.
import { z } from 'zod'
import { QUEUES } from '#core/config/queues.ts'
import { newId } from '#core/ids.ts'
import { AppError } from '#core/errors.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { dateTime, timestamp } from '#core/time.ts'
import { JOB_FILTERS } from '../job-acts/matching.ts'
import { reasonText } from '../jobs/reason.ts'

/** The maximum number of jobs of an act by filter; `more` reports that there were more. */
export const MAX_ACT_ITEMS = 100_000
/** The maximum number of unfinished acts. */
const MAX_OPEN_ACTS = 20
/** The days for which finished acts are retained. */
const RETENTION_DAYS = 90

export const actKind = z.enum(['retry', 'discard', 'run_now', 'resolve'])
export const actFilterSchema = z.strictObject({
  // Of the finished jobs, only discarded ones can be reopened.
  state: z.enum(JOB_FILTERS).exclude(['all', 'succeeded', 'failed']),
  queue: z.enum(QUEUES).optional(),
  name: z.string().min(1).max(100).optional(),
  tenant_id: z.uuid().optional(),
  resource_id: z.uuid().optional(),
  created_from: dateTime.optional(),
  created_to: dateTime.optional(),
})

/**
 * A requested act, for one job or for the jobs of a filter. `took_effect` is required to resolve calls;
 * `reference` only for one job whose call created an object.
 */
export const requestedActSchema = z
  .strictObject({
    act: actKind,
    job_id: z.uuid().optional(),
    filter: actFilterSchema.optional(),
    reason: reasonText,
    took_effect: z.boolean().optional(),
    reference: z.string().trim().min(1).max(255).optional(),
  })
  .refine(({ job_id, filter }) => (job_id === undefined) !== (filter === undefined), {
    message: 'Give either a job or a filter.',
  })
  .refine(({ act, took_effect }) => (act === 'resolve') === (took_effect !== undefined), {
    message: 'took_effect is required for resolve and not allowed for other acts.',
  })
  .refine(({ act, filter }) => act !== 'resolve' || filter === undefined || filter.state === 'unknown', {
    message: 'A filter can resolve only unknown jobs: set its state to unknown.',
  })
  .refine(
    ({ took_effect, reference, job_id }) =>
      (took_effect === true && job_id !== undefined) || reference === undefined,
    { message: 'A reference is allowed only for one job whose call took effect.' },
  )
export type RequestedAct = z.output<typeof requestedActSchema>

/**
 * An act in responses. `matched`: the number of matching jobs when the act was requested. `found`: the number of jobs
 * found when the act started; `done` and `refused` of these jobs are finished. `lookup_only` of an item: its call is
 * looked up and not sent.
 */
export const operatorActSchema = z.object({
  id: z.uuid(),
  act: actKind,
  job_id: z.uuid().nullable(),
  filter: actFilterSchema.nullable(),
  actor: z.string(),
  reason: z.string(),
  /** Null for an act that does not resolve calls. */
  took_effect: z.boolean().nullable(),
  reference: z.string().nullable(),
  state: z.enum(['requested', 'running', 'done', 'canceled', 'failed']),
  matched: z.int(),
  found: z.int(),
  done: z.int(),
  refused: z.int(),
  more: z.boolean(),
  error: z.string().nullable(),
  canceled_by: z.string().nullable(),
  created_at: timestamp,
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})
export type OperatorAct = z.output<typeof operatorActSchema>

/**
 * The result for a job of an act. `at` is null until the act reaches the job; `after` is null if the act was refused
 * for the job.
 */
export const actItemSchema = z.object({
  job_id: z.uuid(),
  at: timestamp.nullable(),
  before: z.string().nullable(),
  after: z.string().nullable(),
  lookup_only: z.boolean(),
  refused: z.string().nullable(),
})
export type ActItem = z.output<typeof actItemSchema>

/**
 * Records an act, which a worker starts within a second, and returns its id. `matched`: the number of jobs
 * shown to the operator. Throws `rate_limited` while too many acts are unfinished.
 */
export async function requestAct(
  sql: Sql | Tx,
  requested: RequestedAct,
  { actor, matched }: { actor: string; matched: number },
): Promise<string> {
  const id = newId()
  const { count } = await sql`
    insert into operator_acts (id, act, job_id, filter, actor, reason, took_effect, reference, matched)
    select ${id}, ${requested.act}, ${requested.job_id ?? null}::uuid,
      nullif(${sql.json(requested.filter ?? null)}::jsonb, 'null'), ${actor}, ${requested.reason},
      ${requested.took_effect ?? null}::boolean, ${requested.reference ?? null}, ${matched}::integer
    where (select count(*) from operator_acts where finished_at is null) < ${MAX_OPEN_ACTS}`
  if (count === 0)
    throw new AppError('rate_limited', {
      message: `${MAX_OPEN_ACTS} acts are not finished yet: wait for one, or cancel it.`,
    })
  return id
}

/**
 * Requests that an act stops before its next jobs; finished jobs stay as they are. False if the act has
 * finished or does not exist.
 */
export async function cancelAct(sql: Sql | Tx, id: string, actor: string): Promise<boolean> {
  const { count } = await sql`
    insert into operator_act_cancellations (act_id, actor)
    select id, ${actor} from operator_acts where id = ${id} and finished_at is null
    on conflict do nothing`
  return count > 0
}

/** An act with its progress, or undefined. */
export async function findAct(sql: Sql, id: string): Promise<OperatorAct | undefined> {
  const [act] = await sql<OperatorAct[]>`select ${columns(sql)} from ${acts(sql)} where a.id = ${id}`
  return act
}

/** The outcomes of acts by id, for the audit log. */
export async function findActOutcomes(sql: Sql, ids: string[]): Promise<Map<string, ActOutcome>> {
  if (ids.length === 0) return new Map()
  const rows = await sql<({ id: string } & ActOutcome)[]>`
    select id, state, found, done, refused, finished_at from operator_acts where id = any(${ids}::uuid[])`
  return new Map(rows.map(({ id, ...outcome }) => [id, outcome]))
}

export type ActOutcome = Pick<OperatorAct, 'state' | 'found' | 'done' | 'refused' | 'finished_at'>

/** Acts, newest first. `before` (exclusive): the id of an act. */
export async function listActs(
  sql: Sql,
  { before = null, limit }: { before?: string | null; limit: number },
): Promise<OperatorAct[]> {
  return await sql<OperatorAct[]>`
    select ${columns(sql)} from ${acts(sql)}
    where ${before}::uuid is null
      or (a.created_at, a.id) < (select o.created_at, o.id from operator_acts o where o.id = ${before})
    order by a.created_at desc, a.id desc limit ${limit}`
}

/**
 * The jobs of an act that come after the job `after`, in the order of their ids. `after` null: from the first job.
 * `outcome` selects the jobs with one outcome: done, refused or waiting.
 */
export async function findActItems(
  sql: Sql,
  act_id: string,
  { after = null, outcome, limit }: ActItemFilters,
): Promise<ActItem[]> {
  const of = {
    done: sql`i.after is not null`,
    refused: sql`i.refused is not null`,
    waiting: sql`i.at is null`,
  }
  return await sql<ActItem[]>`
    select job_id, at, before, after, lookup_only, refused from operator_act_items i
    where i.act_id = ${act_id} and (${after}::uuid is null or i.job_id > ${after})
      and ${outcome === undefined ? sql`true` : of[outcome]}
    order by i.job_id limit ${limit}`
}

export type ActItemFilters = {
  after?: string | null
  outcome?: 'done' | 'refused' | 'waiting'
  limit: number
}

/** Deletes acts that finished long ago, with their items. Returns their number. */
export async function deleteOldActs(sql: Sql, limit: number): Promise<number> {
  const { count } = await sql`
    delete from operator_acts where id = any(array(
      select id from operator_acts where finished_at < now() - ${RETENTION_DAYS} * interval '1 day' limit ${limit}))`
  return count
}

function acts(sql: Sql): Fragment {
  return sql`operator_acts a left join operator_act_cancellations c on c.act_id = a.id`
}

function columns(sql: Sql): Fragment {
  return sql`
    a.id, a.act, a.job_id, a.filter, a.actor, a.reason, a.took_effect, a.reference, a.state, a.matched,
    a.found, a.done, a.refused, a.more, a.error,
    c.actor as canceled_by, a.created_at, a.started_at, a.finished_at`
}
