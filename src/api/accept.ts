// Accepts requests: every route that asks for work writes, rings, waits and answers in this one order.
import assert from 'node:assert/strict'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { batcher } from '#core/batch.ts'
import { AppError, type ErrorCode } from '#core/errors.ts'
import { newId } from '#core/ids.ts'
import type { IdempotentRequest, JobRequest, Protected, SentKey } from '#domain/idempotency.ts'
import type { AskedFor, Found } from '#domain/jobs/found.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { ApiContext } from './context.ts'
import { requestKey, takeOnce, type RequestKey } from './idempotent.ts'
import { preferredWait } from './prefer.ts'
import { found, refusalOfJob } from './refusals.ts'
import { hasEnded, listenWhileThere, type Hints } from './wait.ts'

/** How long a request waits if neither the caller nor the route says otherwise. */
const DEFAULT_WAIT_MS = 10_000
/** How long a request still waits for news of a call whose effect is unknown. */
const NEWS_MS = 3_000

/** How the answer for a noun is made. */
export type Answers<T> = {
  /** The resource and its job, as they stand in the database. Throws the `..._not_found` of the noun. */
  find: (asked: AskedFor) => Promise<Found<T>>
  /** The path at which it is retrieved. */
  pathOf: (resource: T) => string
  /** The ids, by name, that go into the `context` of an error when its job failed. */
  idsOf: (resource: T) => Record<string, string>
}

/**
 * How a noun is found for its answers: what is asked for at once is read in one statement, which is `step` in the metrics.
 * Throws `missing` where the tenant has no such row.
 */
export function finding<T>(
  step: string,
  find: (asked: AskedFor[]) => Promise<(Found<T> | undefined)[]>,
  missing: ErrorCode,
): Answers<T>['find'] {
  const read = batcher(step, find)
  return async (asked) => found(await read(asked), missing)
}

type Accepted<T> = 'accepted' | { created: T }

type WhyNot = () => AppError | Promise<AppError>

export type Work<T> = {
  job: Pick<JobDefinition, 'queue'>
  answers: Answers<T>
  /** The id of the resource: for a create a new id, which `step` writes. */
  id: string
  /** What makes two requests with one key the same. */
  content: object
  /**
   * Writes what is asked for, in one statement with the key and the job. Returns `accepted`, or `{ created }` with the
   * resource as it was written; `{ joined }` when the request joins a job that exists already (null: there is no job to
   * wait for); `known` when the key was used before; undefined when its guard refused and nothing was written. Throws
   * refusals. `waits`: somebody waits for the job.
   */
  step: (
    asked: JobRequest,
    waits: boolean,
  ) => Promise<Accepted<T> | { joined: string | null } | 'known' | undefined>
  /** Whether the resource has become what was asked for: a notification can settle it before the job does. */
  reached: (resource: T) => boolean
  /** Whether what was only recorded, without a job, is no longer asked for and has come to nothing. */
  dropped?: (resource: T) => Promise<boolean>
  /**
   * The answer is what the resource has become, not how a job ended, and a wait goes on until this holds: then the
   * resource has `reached` what was asked for, or `why_not` is the answer. 202 until then, also without a wait.
   */
  until?: (resource: T) => boolean
  /** Its job also succeeds where the resource became something else meanwhile: then `why_not` is the answer. */
  may_end_otherwise?: boolean
  /** Why the guard refused, or why it was dropped or ended otherwise, where it can be; judged by the rows as they are now. */
  why_not?: WhyNot
  /** The resource shows what became of it: it is answered with success whatever became of its job. */
  shows_failure?: (resource: T) => boolean
  /** What the caller is told of a job that did not come to an end of its own; `processor_error` unless told. */
  failure_code?: ErrorCode
  /** While it is unknown whether its call took effect, news may come at any moment. */
  expects_news?: boolean
}

/**
 * Asks for work, once for each idempotency key, and answers the resource. Waits for the job as the caller prefers. The
 * status is 200 or 201, as the route declares, when the job has succeeded or the resource has `reached` what was asked
 * for, and 202 with a `Location` while the job is unfinished or unknown. A route that waits only on request answers 200
 * or 201 at once to a caller who does not ask it to wait. Throws `why_not`, `idempotency_key_reused`, what `step` throws,
 * and the refusal in which the job ended.
 */
export async function accept<T extends { status: string }>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    body,
    ...given
  }: Omit<Work<T>, 'content'> & {
    body: { idempotency_key?: string | undefined }
    /** Where it is not the body without its key. */
    content?: object
  },
): Promise<T> {
  const work = { ...given, content: given.content ?? contentOf(body) }
  const { answers, reached, dropped, until, may_end_otherwise = false, why_not } = work
  const preferred = preferredWait(request)
  const waits = request.routeOptions.config.literal?.waits
  assert(waits !== undefined, 'a route that asks for work says when it waits for it')
  const by_default = waits === 'by_default'
  const wait_ms = preferred?.wait_ms ?? (by_default ? DEFAULT_WAIT_MS : 0)
  const { replayed, fresh, created, resource_id, job_id, ring } = await take(
    context,
    requestKey(request, body),
    work,
    wait_ms > 0,
  )
  request.subject_id = resource_id
  if (replayed) reply.header('idempotent-replayed', 'true')
  if (preferred !== undefined) reply.header('preference-applied', preferred.applied)

  // Listen before ringing and before reading the job, so that no hint is missed in between.
  using hints = listenWhileThere(context.waiters, request, job_id, wait_ms)
  ring()
  const { tenant_id } = request.credentials
  const find = () => answers.find({ tenant_id, id: resource_id, job_id })
  const { resource, job } =
    created !== undefined && wait_ms === 0
      ? { resource: created, job: undefined }
      : await lastFound(find, hints, work, fresh ? await hints.next() : wait_ms > 0)

  if (until?.(resource) === true) {
    if (!reached(resource)) throw await because(why_not)
    reply.code(successOf(request))
    return resource
  }
  if (preferred === undefined && !by_default && until === undefined) {
    reply.code(successOf(request))
    return resource
  }
  if (job_id === null && (await dropped?.(resource))) throw await because(why_not)
  const judged = until === undefined && (wait_ms > 0 || replayed) ? job : undefined
  if (judged?.state === 'succeeded' && may_end_otherwise && !reached(resource)) throw await because(why_not)
  if (isOver(work, resource, judged) || ((job_id === null || wait_ms > 0) && reached(resource)))
    reply.code(successOf(request))
  else reply.code(202).header('location', answers.pathOf(resource))
  return resource
}

/**
 * The same for one of several requests that are answered together, without a wait: the status that it would be answered
 * with by itself, and the resource.
 */
export async function acceptOneOfMany<T extends { status: string }>(
  context: ApiContext,
  key: RequestKey,
  work: Work<T>,
): Promise<{ status: 201 | 202; resource: T }> {
  const { replayed, created, resource_id, job_id, ring } = await take(context, key, work, false)
  ring()
  const { resource, job } =
    created === undefined
      ? await work.answers.find({ tenant_id: key.tenant_id, id: resource_id, job_id })
      : { resource: created, job: undefined }
  const over = isOver(work, resource, replayed ? job : undefined)
  return { status: over || work.reached(resource) ? 201 : 202, resource }
}

/** Makes the accepting step, or finds what it made before. `ring` is to be called once somebody listens. */
async function take<T>(context: ApiContext, key: RequestKey, work: Work<T>, waits: boolean) {
  const {
    job: { queue },
    id,
    content,
    step,
    why_not,
  } = work
  const { doorbell, remembered } = context
  const { tenant_id } = key
  const ids = { job_id: newId(), event_id: newId() }
  const rung = doorbell.admits(queue, tenant_id)
  const taken = await takeOnce(
    context,
    key,
    content,
    (asked) => step({ ...asked, ...ids, rung }, waits),
    remembered,
  )
  if (taken.kind === 'refused') throw await because(why_not)
  const replayed = taken.kind === 'replayed'
  const value = taken.kind === 'taken' ? taken.value : undefined
  const joined = typeof value === 'object' && 'joined' in value ? value : undefined
  // The job was created just now, so it cannot end before we listen.
  const fresh = value !== undefined && joined === undefined
  const { resource_id, job_id } = replayed
    ? taken.remembered
    : { resource_id: id, job_id: joined === undefined ? ids.job_id : joined.joined }
  return {
    replayed,
    fresh,
    created: typeof value === 'object' && 'created' in value ? value.created : undefined,
    resource_id,
    job_id,
    ring: () => {
      if (fresh && rung) doorbell.ring({ id: ids.job_id, queue, tenant_id })
    },
  }
}

/** Whether the job has ended in what the resource shows. Throws the refusal in which it ended otherwise. */
function isOver<T extends { status: string }>(
  { answers, shows_failure, failure_code = 'processor_error' }: Work<T>,
  resource: T,
  job: Found<T>['job'],
): boolean {
  if (job?.state !== 'failed' && job?.state !== 'discarded') return job?.state === 'succeeded'
  if (shows_failure?.(resource) === true) return true
  throw refusalOfJob(job, resource.status, answers.idsOf(resource), failure_code)
}

/**
 * The same for requests that need no job: returns what `step` created or changed, or what was with the same key before,
 * which `find` reads. Throws `why_not`, `idempotency_key_reused`, and what `step` and `find` throw.
 */
export async function acceptAtOnce<T extends object>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  work: {
    body: { idempotency_key?: string | undefined }
    step: (asked: IdempotentRequest & { tenant_id: string }) => Promise<T | 'known' | undefined>
    find: (sent: SentKey) => Promise<Protected<T> | undefined>
    /** Why the guard of `step` refused, where it has one. */
    why_not?: WhyNot
  },
): Promise<T> {
  const content = contentOf(work.body)
  const taken = await takeOnce(context, requestKey(request, work.body), content, work.step, work.find)
  if (taken.kind === 'refused') throw await because(work.why_not)
  reply.code(successOf(request))
  if (taken.kind === 'taken') return taken.value
  reply.header('idempotent-replayed', 'true')
  return taken.remembered.resource
}

/** A body without its key. */
function contentOf({ idempotency_key: _key, ...content }: { idempotency_key?: string | undefined }): object {
  return content
}

/** The refusal; one that a route did not reckon with is our own mistake. */
async function because(why_not: WhyNot | undefined): Promise<AppError> {
  return (await why_not?.()) ?? new AppError('internal_error')
}

/** Reads the resource and its job until the job has ended or the wait is over. Hints only say when to read again. */
async function lastFound<T>(
  find: () => Promise<Found<T>>,
  hints: Hints,
  { reached, until, expects_news = false }: Work<T>,
  first: boolean,
): Promise<Found<T>> {
  let unknown_at: number | undefined
  for (let more = first; ; more = await hints.next()) {
    const found = await find()
    if (!more || found.job === undefined) return found
    const { state } = found.job
    if (until !== undefined) {
      if (until(found.resource)) return found
    } else if (expects_news && state === 'unknown') {
      // A job that is unknown is polled like one that has ended: the next hint comes within about a second.
      unknown_at ??= performance.now()
      if (reached(found.resource) || performance.now() - unknown_at >= NEWS_MS) return found
    } else if (hasEnded(state) || (expects_news && reached(found.resource))) return found
  }
}

/** The status of success that the route declares. */
function successOf({ routeOptions }: FastifyRequest): 200 | 201 {
  return routeOptions.config.literal?.response[201] === undefined ? 200 : 201
}
