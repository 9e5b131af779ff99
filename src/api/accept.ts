// Accepts requests: every route that asks for work writes, rings, waits and answers in this one order.
import assert from 'node:assert/strict'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createBatcher } from '#core/batch.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { IdempotentRequest, JobRequest, KeyedResource, KeyOnRoute } from '#domain/idempotency.ts'
import type { RequestedRow, ResourceWithJob } from '#domain/jobs/find-with-jobs.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { ApiContext } from './context.ts'
import { requestKey, acceptOnce, type RequestKey } from './idempotent.ts'
import { preferredWait } from './prefer.ts'
import { found, refusalOfJob } from './refusals.ts'
import { endsWait, listenWhileConnected, type Hints } from './wait.ts'

/** How long a request waits if neither the caller nor the route says otherwise. */
const DEFAULT_WAIT_MS = 10_000
/** How long a request still waits for news of a call whose effect is unknown. */
const PROVIDER_EVENT_WAIT_MS = 3_000

/** How the answer for a noun is made. */
export type ResourceReader<T> = {
  /** The resource and its job, as they stand in the database. Throws the `..._not_found` of the noun. */
  find: (requested: RequestedRow) => Promise<ResourceWithJob<T>>
  /** The path at which it is retrieved. */
  pathOf: (resource: T) => string
  /** The ids, by name, that go into the `context` of an error when its job failed. */
  idsOf: (resource: T) => Record<string, string>
}

/**
 * How a noun is found for its answers: what is asked for at once is read in one statement, which is `step` in the metrics.
 * Throws `missing` where the tenant has no such row.
 */
export function batchedFind<T>(
  step: string,
  find: (requested: RequestedRow[]) => Promise<(ResourceWithJob<T> | undefined)[]>,
  missing: ErrorCode,
): ResourceReader<T>['find'] {
  const read = createBatcher(step, find)
  return async (requested) => found(await read(requested), missing)
}

type AcceptedStep<T> = 'accepted' | { created: T }

type ExplainRefusal = () => AppError | Promise<AppError>

export type WorkRequest<T> = {
  job: Pick<JobDefinition, 'queue'>
  reader: ResourceReader<T>
  /** The id of the resource: for a create a new id, which `step` writes. */
  id: string
  /** What makes two requests with one key the same. */
  content: object
  /**
   * Writes what is asked for, in one statement with the key and the job. Returns `accepted`, or `{ created }` with the
   * resource as it was written; `{ joined }` when the request joins a job that exists already (null: there is no job to
   * wait for); `key_used` when the key was used before; undefined when its guard refused and nothing was written. Throws
   * refusals. `waits`: somebody waits for the job.
   */
  step: (
    requested: JobRequest,
    waits: boolean,
  ) => Promise<AcceptedStep<T> | { joined: string | null } | 'key_used' | undefined>
  /** Whether the resource has become what was asked for: a notification can settle it before the job does. */
  isFulfilled: (resource: T) => boolean
  /** Whether what was only recorded, without a job, is no longer asked for and has come to nothing. */
  isDropped?: (resource: T) => Promise<boolean>
  /**
   * The answer is what the resource has become, not how a job ended, and a wait goes on until this holds: then the
   * resource has `reached` what was asked for, or `explainRefusal` is the answer. 202 until then, also without a wait.
   */
  waitUntil?: (resource: T) => boolean
  /** Its job also succeeds where the resource became something else meanwhile: then `explainRefusal` is the answer. */
  can_succeed_unfulfilled?: boolean
  /** Why the guard refused, or why it was dropped or ended otherwise, where it can be; judged by the rows as they are now. */
  explainRefusal?: ExplainRefusal
  /** The resource shows what became of it: it is answered with success whatever became of its job. */
  showsFailure?: (resource: T) => boolean
  /** What the caller is told of a job that did not come to an end of its own; `processor_error` unless told. */
  failure_code?: ErrorCode
  /** While it is unknown whether its call took effect, news may come at any moment. */
  expects_provider_event?: boolean
}

/**
 * Asks for work, once for each idempotency key, and answers the resource. Waits for the job as the caller prefers. The
 * status is 200 or 201, as the route declares, when the job has succeeded or the resource has `reached` what was asked
 * for, and 202 with a `Location` while the job is unfinished or unknown. A route that waits only on request answers 200
 * or 201 at once to a caller who does not ask it to wait. Throws `explainRefusal`, `idempotency_key_reused`, what `step` throws,
 * and the refusal in which the job ended.
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
    /** Where it is not the body without its key. */
    content?: object
  },
): Promise<T> {
  const work = { ...input, content: input.content ?? contentOf(body) }
  const { reader, isFulfilled, isDropped, waitUntil, can_succeed_unfulfilled = false, explainRefusal } = work
  const preferred = preferredWait(request)
  const waits = request.routeOptions.config.definition?.waits
  assert(waits !== undefined, 'a route that asks for work says when it waits for it')
  const by_default = waits === 'by_default'
  const wait_ms = preferred?.wait_ms ?? (by_default ? DEFAULT_WAIT_MS : 0)
  const { replayed, fresh, created, resource_id, job_id, wake } = await acceptStep(
    context,
    requestKey(request, body),
    work,
    wait_ms > 0,
  )
  request.subject_id = resource_id
  if (replayed) reply.header('idempotent-replayed', 'true')
  if (preferred !== undefined) reply.header('preference-applied', preferred.applied)

  // Listen before ringing and before reading the job, so that no hint is missed in between.
  using hints = listenWhileConnected(context.waiters, request, job_id, wait_ms)
  wake()
  const { tenant_id } = request.credentials
  const find = () => reader.find({ tenant_id, id: resource_id, job_id })
  const { resource, job } =
    created !== undefined && wait_ms === 0
      ? { resource: created, job: undefined }
      : await readUntilFinal(find, hints, work, fresh ? await hints.next() : wait_ms > 0)

  if (waitUntil?.(resource) === true) {
    if (!isFulfilled(resource)) throw await refusalError(explainRefusal)
    reply.code(successStatus(request))
    return resource
  }
  if (preferred === undefined && !by_default && waitUntil === undefined) {
    reply.code(successStatus(request))
    return resource
  }
  if (job_id === null && (await isDropped?.(resource))) throw await refusalError(explainRefusal)
  const judged = waitUntil === undefined && (wait_ms > 0 || replayed) ? job : undefined
  if (judged?.state === 'succeeded' && can_succeed_unfulfilled && !isFulfilled(resource))
    throw await refusalError(explainRefusal)
  if (hasFinished(work, resource, judged) || ((job_id === null || wait_ms > 0) && isFulfilled(resource)))
    reply.code(successStatus(request))
  else reply.code(202).header('location', reader.pathOf(resource))
  return resource
}

/**
 * The same for one of several requests that are answered together, without a wait: the status that it would be answered
 * with by itself, and the resource.
 */
export async function acceptBatchItem<T extends { status: string }>(
  context: ApiContext,
  key: RequestKey,
  work: WorkRequest<T>,
): Promise<{ status: 201 | 202; resource: T }> {
  const { replayed, created, resource_id, job_id, wake } = await acceptStep(context, key, work, false)
  wake()
  const { resource, job } =
    created === undefined
      ? await work.reader.find({ tenant_id: key.tenant_id, id: resource_id, job_id })
      : { resource: created, job: undefined }
  const finished = hasFinished(work, resource, replayed ? job : undefined)
  return { status: finished || work.isFulfilled(resource) ? 201 : 202, resource }
}

/** Makes the accepting step, or finds what it made before. `ring` is to be called once somebody listens. */
async function acceptStep<T>(context: ApiContext, key: RequestKey, work: WorkRequest<T>, waits: boolean) {
  const {
    job: { queue },
    id,
    content,
    step,
    explainRefusal,
  } = work
  const { wakeups, remembered } = context
  const { tenant_id } = key
  const ids = { job_id: newId(), event_id: newId() }
  const will_wake = wakeups.admits(queue, tenant_id)
  const outcome = await acceptOnce(
    context,
    key,
    content,
    (requested) => step({ ...requested, ...ids, will_wake }, waits),
    remembered,
  )
  if (outcome.kind === 'refused') throw await refusalError(explainRefusal)
  const replayed = outcome.kind === 'replayed'
  const value = outcome.kind === 'accepted' ? outcome.value : undefined
  const joined = typeof value === 'object' && 'joined' in value ? value : undefined
  // The job was created just now, so it cannot end before we listen.
  const fresh = value !== undefined && joined === undefined
  const { resource_id, job_id } = replayed
    ? outcome.remembered
    : { resource_id: id, job_id: joined === undefined ? ids.job_id : joined.joined }
  return {
    replayed,
    fresh,
    created: typeof value === 'object' && 'created' in value ? value.created : undefined,
    resource_id,
    job_id,
    wake: () => {
      if (fresh && will_wake) wakeups.wake({ id: ids.job_id, queue, tenant_id })
    },
  }
}

/** Whether the job has ended in what the resource shows. Throws the refusal in which it ended otherwise. */
function hasFinished<T extends { status: string }>(
  { reader, showsFailure, failure_code = 'processor_error' }: WorkRequest<T>,
  resource: T,
  job: ResourceWithJob<T>['job'],
): boolean {
  if (job?.state !== 'failed' && job?.state !== 'discarded') return job?.state === 'succeeded'
  if (showsFailure?.(resource) === true) return true
  throw refusalOfJob(job, resource.status, reader.idsOf(resource), failure_code)
}

/**
 * The same for requests that need no job: returns what `step` created or changed, or what was with the same key before,
 * which `find` reads. Throws `explainRefusal`, `idempotency_key_reused`, and what `step` and `find` throw.
 */
export async function acceptWithoutJob<T extends object>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  work: {
    body: { idempotency_key?: string | undefined }
    step: (requested: IdempotentRequest & { tenant_id: string }) => Promise<T | 'key_used' | undefined>
    find: (sent: KeyOnRoute) => Promise<KeyedResource<T> | undefined>
    /** Why the guard of `step` refused, where it has one. */
    explainRefusal?: ExplainRefusal
  },
): Promise<T> {
  const content = contentOf(work.body)
  const outcome = await acceptOnce(context, requestKey(request, work.body), content, work.step, work.find)
  if (outcome.kind === 'refused') throw await refusalError(work.explainRefusal)
  reply.code(successStatus(request))
  if (outcome.kind === 'accepted') return outcome.value
  reply.header('idempotent-replayed', 'true')
  return outcome.remembered.resource
}

/** A body without its key. */
function contentOf({ idempotency_key: _key, ...content }: { idempotency_key?: string | undefined }): object {
  return content
}

/** The refusal; one that a route did not reckon with is our own mistake. */
async function refusalError(explainRefusal: ExplainRefusal | undefined): Promise<AppError> {
  return (await explainRefusal?.()) ?? new AppError('internal_error')
}

/** Reads the resource and its job until the job has ended or the wait is over. Hints only say when to read again. */
async function readUntilFinal<T>(
  find: () => Promise<ResourceWithJob<T>>,
  hints: Hints,
  { isFulfilled, waitUntil, expects_provider_event = false }: WorkRequest<T>,
  first: boolean,
): Promise<ResourceWithJob<T>> {
  let unknown_at: number | undefined
  for (let hinted = first; ; hinted = await hints.next()) {
    const found = await find()
    if (!hinted || found.job === undefined) return found
    const { state } = found.job
    if (waitUntil !== undefined) {
      if (waitUntil(found.resource)) return found
    } else if (expects_provider_event && state === 'unknown') {
      // A job that is unknown is polled like one that has ended: the next hint comes within about a second.
      unknown_at ??= performance.now()
      if (isFulfilled(found.resource) || performance.now() - unknown_at >= PROVIDER_EVENT_WAIT_MS)
        return found
    } else if (endsWait(state) || (expects_provider_event && isFulfilled(found.resource))) return found
  }
}

/** The status of success that the route declares. */
function successStatus({ routeOptions }: FastifyRequest): 200 | 201 {
  return routeOptions.config.definition?.response[201] === undefined ? 200 : 201
}
