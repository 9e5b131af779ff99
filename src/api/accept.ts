// Accepts requests once for each idempotency key. A request that needs a job is processed in this order: write the
// change and the job, wake a worker, wait for the job, answer.
import assert from 'node:assert/strict'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createBatcher } from '#core/batch.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import type { JobRequest } from '#domain/idempotency.ts'
import { KEY_CONFLICT } from '#domain/jobs/calls.ts'
import type { RequestedRow, ResourceWithJob } from '#domain/jobs/find-with-jobs.ts'
import { fillRecoveredRow } from '#domain/recovered/fill.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { ApiContext } from './context.ts'
import { requestKey, acceptOnce, type RequestKey } from './idempotent.ts'
import { contentOf } from './body.ts'
import { createReadAccepted } from './lost-commits.ts'
import { preferredWait } from './prefer.ts'
import { requireResource, refusalOfJob } from './refusals.ts'
import { endsWait, listenWhileConnected, type Hints } from './wait.ts'

/** How long a request waits by default. */
const DEFAULT_WAIT_MS = 10_000
/** How long a request keeps waiting for provider events after its job has become `unknown`. */
const PROVIDER_EVENT_WAIT_MS = 3_000

/** Reads a resource and its job for answers. */
export type ResourceReader<T> = {
  /** The current rows of the resource and its job. Throws the `..._not_found` error of the resource. */
  find: (requested: RequestedRow) => Promise<ResourceWithJob<T>>
  /** The path that retrieves the resource. */
  pathOf: (resource: T) => string
  /** The ids of the resource, by name, for the `context` of the error of a failed job. */
  idsOf: (resource: T) => Record<string, string>
}

/**
 * A `find` that reads concurrent requests in one statement; `step` is its name in the metrics. Throws `missing` if the
 * tenant has no such row.
 */
export function batchedFind<T>(
  step: string,
  find: (requested: RequestedRow[]) => Promise<(ResourceWithJob<T> | undefined)[]>,
  missing: ErrorCode,
): ResourceReader<T>['find'] {
  const read = createBatcher(step, find)
  return async (requested) => requireResource(await read(requested), missing)
}

type AcceptedStep<T> = 'accepted' | { created: T }

export type ExplainRefusal = () => AppError | Promise<AppError>

type JoinedStep = { joined: string | null; is_repetition?: true }

export type WorkRequest<T> = {
  job: Pick<JobDefinition, 'queue'>
  reader: ResourceReader<T>
  /** The id of the resource that the request changes. Default: `step` creates one. */
  id?: string
  /** The content that a repeated request with the same key must have. */
  content: object
  /**
   * Writes the change, the idempotency key and the job in one statement. Throws refusals. Returns:
   * - `accepted`, or `{ created }` with the written resource;
   * - `{ joined }` if the request joins an existing job (null: there is no job to wait for), with `is_repetition` if an
   *   earlier request has asked for the same;
   * - `key_used` if the key was used before;
   * - undefined if its guard refused and nothing was written.
   * `id`: the id of the resource that the request creates. `waits`: whether the request waits for the job.
   */
  step: (
    requested: JobRequest,
    call: { id: string; waits: boolean },
  ) => Promise<AcceptedStep<T> | JoinedStep | 'key_used' | undefined>
  /** Whether the resource has the requested state. A notification can settle the resource before its job does. */
  isFulfilled: (resource: T) => boolean
  /**
   * Whether a request that was recorded without a job can no longer be fulfilled. If so, it is answered with the error
   * of `explainRefusal`.
   */
  isDropped?: (resource: T) => Promise<boolean>
  /**
   * Lets the resource decide the answer instead of the job. Until this function returns true, the wait continues, and
   * the answer is 202. After that, the answer is the resource if it `isFulfilled`, else the error of `explainRefusal`.
   */
  waitUntil?: (resource: T) => boolean
  /**
   * Whether the job also succeeds if the resource has reached another state. Then the answer is the error of
   * `explainRefusal`.
   */
  can_succeed_unfulfilled?: boolean
  /** The error for a request that was refused, dropped or not fulfilled. It is derived from the current rows. */
  explainRefusal?: ExplainRefusal
  /**
   * Whether the resource shows the failure of its job. If so, the request is answered with the resource and not with an
   * error.
   */
  showsFailure?: (resource: T) => boolean
  /** The error code of a discarded job. Default: `processor_error`. */
  failure_code?: ErrorCode
  /** Whether provider events may still arrive while the job is `unknown`. */
  expects_provider_event?: boolean
}

/**
 * Accepts work once for each idempotency key, and answers with the resource. Waits for the job as the caller prefers.
 * The status is 200 or 201, as the route declares, if the job has succeeded or the resource `isFulfilled`, and 202 with
 * a `Location` while the job is unfinished or unknown. If the route does not wait by default and the caller requests no
 * wait, the answer is 200 or 201 at once. Throws the error of `explainRefusal`, `idempotency_key_reused`, the errors of
 * `step`, the error of a failed job, and `database_unavailable` if the database loses the request.
 */
export async function accept<T extends { status: string }>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    body,
    ...input
  }: Omit<WorkRequest<T>, 'content'> & {
    body: { idempotency_key?: string | undefined }
    /** The content that a repeated request with the same key must have. Default: the body without its key. */
    content?: object
  },
): Promise<T> {
  const work = { ...input, content: input.content ?? contentOf(body) }
  const { reader, isFulfilled, isDropped, waitUntil, can_succeed_unfulfilled = false, explainRefusal } = work
  const preferred = preferredWait(request)
  const waits = request.routeOptions.config.definition?.waits
  assert(waits !== undefined, 'the route accepts work but does not declare `waits`')
  const by_default = waits === 'by_default'
  const wait_ms = preferred?.wait_ms ?? (by_default ? DEFAULT_WAIT_MS : 0)
  const key = requestKey(request, body)
  const accepted = await acceptStep(context, key, work, wait_ms > 0)
  const { replayed, is_new_job, created, resource_id, job_id, wake } = accepted
  request.resource_id = resource_id
  if (replayed) reply.header('idempotent-replayed', 'true')
  if (preferred !== undefined) reply.header('preference-applied', preferred.applied)

  // Listen before waking a worker and before reading the job, so that no hint about the job is missed (see `wait.ts`).
  using hints = listenWhileConnected(context.waiters, request, job_id, wait_ms)
  wake()
  const { tenant_id } = key
  const read = createReadAccepted(context, key, replayed)
  const find = () => read.resource(job_id, () => reader.find({ tenant_id, id: resource_id, job_id }))
  const explain = () => read.refusal(() => refusalError(explainRefusal))
  const { resource, job } =
    created !== undefined && wait_ms === 0
      ? { resource: created, job: undefined }
      : await readUntilFinal(find, hints, work, is_new_job ? await hints.next() : wait_ms > 0)

  refuseKeyConflict(job, resource_id)
  if (waitUntil?.(resource) === true) {
    if (!isFulfilled(resource)) throw await explain()
    reply.code(successStatus(request))
    return resource
  }
  if (preferred === undefined && !by_default && waitUntil === undefined) {
    reply.code(successStatus(request))
    return resource
  }
  if (job_id === null && (await isDropped?.(resource))) throw await explain()
  const final_job = waitUntil === undefined && (wait_ms > 0 || replayed) ? job : undefined
  if (final_job?.state === 'succeeded' && can_succeed_unfulfilled && !isFulfilled(resource))
    throw await explain()
  // The resource had the requested status before a job that confirms it.
  const is_fulfilled = (job_id === null || wait_ms > 0) && job?.confirms !== true && isFulfilled(resource)
  if (hasFinished(work, resource, final_job) || is_fulfilled) reply.code(successStatus(request))
  else reply.code(202).header('location', reader.pathOf(resource))
  return resource
}

/**
 * Accepts one item of a batch, without a wait. Returns the resource, and the status that a request for this item alone
 * would get.
 */
export async function acceptBatchItem<T extends { status: string }>(
  context: ApiContext,
  key: RequestKey,
  work: WorkRequest<T>,
): Promise<{ status: 201 | 202; resource: T }> {
  const { replayed, created, resource_id, job_id, wake } = await acceptStep(context, key, work, false)
  wake()
  const find = () => work.reader.find({ tenant_id: key.tenant_id, id: resource_id, job_id })
  const { resource, job } =
    created === undefined
      ? await createReadAccepted(context, key, replayed).resource(job_id, find)
      : { resource: created, job: undefined }
  refuseKeyConflict(job, resource_id)
  const finished = hasFinished(work, resource, replayed ? job : undefined)
  return { status: finished || work.isFulfilled(resource) ? 201 : 202, resource }
}

/** Runs the accepting step, or finds the earlier outcome of its key. Call the returned `wake` after `listen`. */
async function acceptStep<T>(context: ApiContext, key: RequestKey, work: WorkRequest<T>, waits: boolean) {
  const { content, step, explainRefusal } = work
  const { queue } = work.job
  const { wakeups, findStoredKey } = context
  const { tenant_id } = key
  const { id, ...ids } = key.ids
  const will_wake = wakeups.admits(queue, tenant_id)
  const outcome = await acceptOnce(
    context,
    key,
    content,
    (requested) => step({ ...requested, ...ids, will_wake }, { id, waits }),
    findStoredKey,
  )
  if (outcome.kind === 'refused') throw await refusalError(explainRefusal)
  const replayed = outcome.kind === 'replayed'
  // The row was lost and made again: what its provider does not hold is in this request.
  if (replayed && outcome.stored.job_id === null && outcome.stored.resource_id === id)
    await fillRecoveredRow(context.sql, outcome.stored.resource, { tenant_id, id }, content)
  const value = outcome.kind === 'accepted' ? outcome.value : undefined
  const joined = typeof value === 'object' && 'joined' in value ? value : undefined
  // This process wakes a new job only after `listen`, so the first read can wait for a hint.
  const is_new_job = value !== undefined && joined === undefined
  const { resource_id, job_id } = replayed
    ? outcome.stored
    : { resource_id: work.id ?? id, job_id: joined === undefined ? ids.job_id : joined.joined }
  // A repetition without a key has written nothing: the earlier request has its own record.
  if (!replayed && (key.key !== null || joined?.is_repetition !== true))
    context.record(key, {
      resource_id,
      is_created: work.id === undefined,
      // A job that the request joined may have been created long before.
      job_id: is_new_job ? job_id : null,
    })
  return {
    replayed,
    is_new_job,
    created: typeof value === 'object' && 'created' in value ? value.created : undefined,
    resource_id,
    job_id,
    wake: () => {
      if (is_new_job && will_wake) wakeups.wake({ id: ids.job_id, queue, tenant_id })
    },
  }
}

/**
 * Throws `idempotency_key_reused` if the provider knows the key of the job's call with other content: the database lost
 * the request that first had this key.
 */
function refuseKeyConflict(job: ResourceWithJob<unknown>['job'], resource_id: string): void {
  const code = job?.last_error?.code
  if (code !== KEY_CONFLICT && code !== ('idempotency_key_reused' satisfies ErrorCode)) return
  throw new AppError('idempotency_key_reused', { param: 'idempotency_key', context: { resource_id } })
}

/**
 * Whether the job succeeded, or failed with a failure that the resource shows. Throws the error of any other failure.
 */
function hasFinished<T extends { status: string }>(
  { reader, showsFailure, failure_code = 'processor_error' }: WorkRequest<T>,
  resource: T,
  job: ResourceWithJob<T>['job'],
): boolean {
  if (job?.state !== 'failed' && job?.state !== 'discarded') return job?.state === 'succeeded'
  if (showsFailure?.(resource) === true) return true
  throw refusalOfJob(job, resource.status, reader.idsOf(resource), failure_code)
}

/** The error of a refusal. `internal_error` if the route has no `explainRefusal`: its step must never refuse. */
export async function refusalError(explainRefusal: ExplainRefusal | undefined): Promise<AppError> {
  return (await explainRefusal?.()) ?? new AppError('internal_error')
}

/** Reads the resource and its job, again at each hint, until the job has ended or the wait ends. */
async function readUntilFinal<T>(
  find: () => Promise<ResourceWithJob<T>>,
  hints: Hints,
  { isFulfilled, waitUntil, expects_provider_event = false }: WorkRequest<T>,
  hinted_at_start: boolean,
): Promise<ResourceWithJob<T>> {
  let unknown_at: number | undefined
  for (let hinted = hinted_at_start; ; hinted = await hints.next()) {
    const found = await find()
    if (!hinted || found.job === undefined) return found
    const { state } = found.job
    if (waitUntil !== undefined) {
      if (waitUntil(found.resource)) return found
    } else if (expects_provider_event && state === 'unknown') {
      // The wait continues although the job is `unknown`. Each poll of `wait.ts` sends a hint about an unknown job, so
      // this loop reads again within about a second.
      unknown_at ??= performance.now()
      if (isFulfilled(found.resource) || performance.now() - unknown_at >= PROVIDER_EVENT_WAIT_MS)
        return found
    } else if (endsWait(state) || (expects_provider_event && isFulfilled(found.resource))) return found
  }
}

/** The success status that the route declares. */
export function successStatus({ routeOptions }: FastifyRequest): 200 | 201 {
  return routeOptions.config.definition?.response[201] === undefined ? 200 : 201
}
