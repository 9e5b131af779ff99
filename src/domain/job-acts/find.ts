// Reads jobs for operators.
import { z } from 'zod'
import type { Sql, Tx } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { CALLS } from '#jobs/index.ts'
import { isFromNewerVersion, type CallDefinition } from '#jobs/job.ts'
import { actKind } from '../operator-acts/act.ts'
import {
  RESOURCE_NAMES,
  resourceNameOf,
  rootOf,
  rowIdOf,
  resourceOf,
  type ResourceName,
} from '../resources.ts'
import { jobColumns, jobErrorMessage, listedColumns } from './columns.ts'

const resource_name = z.enum(RESOURCE_NAMES)

/**
 * A job in lists. `parked`: it waits for an operator and has no `run_at`. `paused`: a pause keeps it from
 * starting. `acting`: an act that an operator requested and that is not done yet. `resource` and `resource_id`: the
 * root row that the job belongs to, if any; `resource` is also null for an unknown resource. `started_at`: the start
 * of its last attempt. `failing_since`: the start of its latest series of failed attempts; null if the last
 * attempt did not fail.
 */
export const listedJobSchema = z.object({
  id: z.uuid(),
  tenant: z.string().nullable(),
  tenant_id: z.uuid(),
  queue: z.string(),
  name: z.string(),
  state: z.string(),
  parked: z.boolean(),
  paused: z.boolean(),
  acting: actKind.nullable(),
  resource: resource_name.nullable(),
  resource_id: z.uuid().nullable(),
  attempt: z.int(),
  run_at: timestamp.nullable(),
  unknown_since: timestamp.nullable(),
  failing_since: timestamp.nullable(),
  first_sent_at: timestamp.nullable(),
  error: z.string().nullable(),
  created_at: timestamp,
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})
export type ListedJob = z.output<typeof listedJobSchema>

const attemptView = z.object({
  attempt: z.int(),
  worker: z.string(),
  started_at: timestamp,
  ended_at: timestamp.nullable(),
  outcome: z.string().nullable(),
  error: z.string().nullable(),
})
const callView = z.object({
  generation: z.int(),
  key: z.string(),
  operation: z.string(),
  first_sent_at: timestamp.nullable(),
  last_sent_at: timestamp.nullable(),
  refused_since: timestamp.nullable(),
  outcome: z.string().nullable(),
  provider_reference: z.string().nullable(),
})
const actView = z.object({
  at: timestamp,
  actor: z.string(),
  act: z.string(),
  reason: z.string(),
  before: z.string(),
  after: z.string(),
})
/** The row that a job works on. The amount is null for a resource without money. */
const workedRowSchema = z.object({
  resource: resource_name,
  id: z.uuid(),
  status: z.string().nullable(),
  amount_minor: z.int().nullable(),
  currency: z.string().nullable(),
  provider_reference: z.string().nullable(),
  /** The idempotency key of the request that created the row and this job. */
  idempotency_key: z.string().nullable(),
})

/** A posting for the row that a job works on. `added`: whether it increased the available balance. */
const posting = z.object({
  at: timestamp,
  kind: z.string(),
  added: z.boolean(),
  amount_minor: z.int(),
  currency: z.string(),
})

/** The delivery that a job attempts. Its status is independent of the job's state. */
const deliveryOfJob = z.object({
  id: z.uuid(),
  status: z.string(),
  attempts: z.int(),
  next_attempt_at: timestamp.nullable(),
})

/** The call of a job. `makes`: an example of the created object's id, or null. `under_way`: its row waits for it. */
const callOfJob = z.object({ makes: z.string().nullable(), under_way: z.boolean() })

/**
 * The details of a job that an operator sees. An attempt in progress has no end. The request of a call is not
 * included.
 */
export const jobDetailSchema = listedJobSchema.extend({
  payload: z.unknown(),
  max_attempts: z.int(),
  request_id: z.string().nullable(),
  worker: z.string().nullable(),
  lease_until: timestamp.nullable(),
  works_on: workedRowSchema.nullable(),
  delivery: deliveryOfJob.nullable(),
  /** Null without a call, or if this version does not know the call. */
  call: callOfJob.nullable(),
  attempts: z.array(attemptView),
  calls: z.array(callView),
  acts: z.array(actView),
  postings: z.array(posting),
})
export type JobDetail = z.output<typeof jobDetailSchema>

/** A job with its attempts, calls and acts, or undefined. */
export async function findJob(sql: Sql, id: string): Promise<JobDetail | undefined> {
  const columns = sql`${jobColumns(sql)}, j.worker, j.lease_until`
  const [job] = await sql<
    Omit<
      JobDetail,
      'resource' | 'works_on' | 'delivery' | 'call' | 'attempts' | 'calls' | 'acts' | 'postings'
    >[]
  >`
    select ${listedColumns(sql)}, j.payload, j.max_attempts, j.request_id, j.worker, j.lease_until
    from (
      select ${columns} from jobs j where j.id = ${id} union all
      select ${columns} from job_history j where j.id = ${id}
    ) j
    left join tenants t on t.id = j.tenant_id`
  if (job === undefined) return undefined
  const { tenant_id } = job
  const works_on = await findWorkedRow(sql, job)
  return {
    ...job,
    resource: resourceOfJob(job.name),
    works_on,
    delivery: await findJobDelivery(sql, job),
    call: callOf(job, works_on),
    attempts: await sql<JobDetail['attempts']>`
      select attempt, worker, started_at, ended_at, outcome, ${jobErrorMessage(sql, 'error')} as error
      from all_job_attempts
      where tenant_id = ${tenant_id} and job_id = ${id} order by attempt`,
    calls: await sql<JobDetail['calls']>`
      select generation, key, operation, first_sent_at, last_sent_at, refused_since, outcome, provider_reference
      from all_provider_calls
      where tenant_id = ${tenant_id} and job_id = ${id} order by generation`,
    acts: await sql<JobDetail['acts']>`
      select at, actor, act, reason, before, after from job_acts
      where tenant_id = ${tenant_id} and job_id = ${id} order by at`,
    postings: await sql<JobDetail['postings']>`
      select created_at as at, kind, credit_account = 'available' as added, amount_minor, currency
      from ledger_transfers where tenant_id = ${tenant_id} and subject_id = ${works_on?.id ?? null}
      order by created_at`,
  }
}

/** `created_at` selects the partition. */
const deliveryInPayload = z.object({ delivery_id: z.uuid(), created_at: z.string() })

type JobReference = Pick<JobDetail, 'id' | 'tenant_id' | 'name' | 'resource_id' | 'payload'>

async function findWorkedRow(sql: Sql, job: JobReference): Promise<JobDetail['works_on']> {
  const of = resourceNameOf(job.name)
  if (of === undefined) return null
  const { table, view, at_provider } = resourceOf(of)
  const columnOf = (column: string) => (column in view.shape ? sql`${sql(`p.${column}`)}` : sql`null`)
  const reference = at_provider === undefined ? sql`null` : sql`${sql(`p.${at_provider.reference}`)}`
  const key = 'idempotency_key' in view.shape ? sql`p.idempotency_key` : sql`null`
  const [row] = await sql<Omit<NonNullable<JobDetail['works_on']>, 'resource'>[]>`
    select p.id, ${columnOf('status')} as status, ${columnOf('amount_minor')}::bigint as amount_minor,
      ${columnOf('currency')} as currency, ${reference} as provider_reference, (
        select k.key from idempotency_keys k
        where k.tenant_id = p.tenant_id and k.key = ${key} and k.job_id = ${job.id} limit 1) as idempotency_key
    from (select ${job.name}::text as name, ${job.resource_id}::uuid as resource_id,
      ${JSON.stringify(job.payload)}::text::jsonb as payload) j
    join ${sql(table)} p on p.tenant_id = ${job.tenant_id} and p.id = ${rowIdOf(sql, of)}`
  return row === undefined ? null : { resource: of, ...row }
}

async function findJobDelivery(
  sql: Sql,
  { tenant_id, payload }: JobReference,
): Promise<JobDetail['delivery']> {
  const of = deliveryInPayload.safeParse(payload).data
  if (of === undefined) return null
  const [delivery] = await sql<NonNullable<JobDetail['delivery']>[]>`
    select id, status, attempts, next_attempt_at from webhook_deliveries
    where tenant_id = ${tenant_id} and id = ${of.delivery_id} and created_at = ${of.created_at}::text::timestamptz`
  return delivery ?? null
}

function callOf({ name }: JobReference, works_on: JobDetail['works_on']): JobDetail['call'] {
  const call = CALLS.find((each) => each.job === name)
  if (call === undefined) return null
  const { makes, status } = call
  const under_way = status === null || [status].flat().some((each) => each === works_on?.status)
  return { makes: makes?.example ?? null, under_way }
}

/** The tenant of a job, even if the job is in the history; null if the job or the tenant does not exist. */
export async function findTenantOfJob(sql: Sql | Tx, id: string): Promise<string | null> {
  const [job] = await sql<{ tenant_id: string }[]>`
    select j.tenant_id from (
      select j.tenant_id from jobs j where j.id = ${id} union all
      select j.tenant_id from job_history j where j.id = ${id}
    ) j
    join tenants t on t.id = j.tenant_id`
  return job?.tenant_id ?? null
}

/**
 * The only tenant whose jobs a filter can match: the tenant of the filter, or the owner of the row in the filter.
 * Null: any tenant.
 */
export async function findTenantOfFilter(
  sql: Sql | Tx,
  { tenant_id, resource_id }: { tenant_id?: string | undefined; resource_id?: string | undefined },
): Promise<string | null> {
  if (tenant_id === undefined && resource_id === undefined) return null
  const [tenant] = await sql<{ id: string }[]>`
    select t.id from tenants t where ${
      tenant_id === undefined
        ? sql`
      exists (select from jobs j where j.tenant_id = t.id and j.resource_id = ${resource_id ?? null})
      or exists (select from job_history j where j.tenant_id = t.id and j.resource_id = ${resource_id ?? null})`
        : sql`t.id = ${tenant_id}`
    }`
  return tenant?.id ?? null
}

/** The properties of a job's provider call that are needed to resolve the call. */
export type ResolvableCall = Pick<CallDefinition, 'makes'> & {
  /** Whether this version or a newer one can read the call's stored request. If not, no worker can look the call up. */
  readable: boolean
}

/** The provider call of a job that is not in the history; undefined if this version does not know it. */
export async function findCall(sql: Sql | Tx, id: string): Promise<ResolvableCall | undefined> {
  const [job] = await sql<
    { name: string; request: unknown }[]
  >`select name, request from jobs where id = ${id}`
  const call = CALLS.find((each) => each.job === job?.name)
  if (job === undefined || call === undefined) return undefined
  const { success, error } = call.request.safeParse(job.request)
  return { makes: call.makes, readable: success || isFromNewerVersion(error) }
}

/** The root resource of a job; null for a job name that this version does not know. */
export function resourceOfJob(name: string): ResourceName | null {
  const found = resourceNameOf(name)
  return found === undefined ? null : rootOf(found)
}
