// Answering a request that asked for a job: the outcome if it comes in time, else 202 and where to look.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError, ERRORS, type ErrorCode } from '#core/errors.ts'
import type { Found } from '#domain/jobs/found.ts'
import type { ApiContext } from './context.ts'
import { preferredWait } from './prefer.ts'
import { hasEnded } from './wait.ts'

type Done<T> = {
  job_id: string | null
  /** It was asked for just now, so it cannot have ended before somebody heard of it. */
  fresh: boolean
  status: 200 | 201
  replayed: boolean
  location: string
  error_context: Record<string, unknown>
  /** The resource and its job, as they stand in the database. */
  find: () => Promise<Found<T>>
  reached: (resource: T) => boolean
}

/**
 * Waits for `job_id` as the caller prefers and answers `status` with what `find` reads then; 202 while it is unfinished or
 * unknown, unless who waited finds that the resource has `reached` what was asked for all the same: news of the processor can
 * overtake the job. `job_id` null: there is nothing to wait for. Throws the refusal that the job ended in. The wait has begun
 * when this returns its promise: ring afterwards.
 */
export async function answerOutcome<T>(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done<T>,
): Promise<T> {
  const { job_id, status, replayed, reached } = done
  if (replayed) reply.header('idempotent-replayed', 'true')
  const wait_ms = preferredWait(request, reply)
  const { resource, job } = job_id === null ? await done.find() : await ended(context, job_id, done, wait_ms)
  const looked = wait_ms > 0 || replayed
  const state = looked ? job?.state : undefined
  if (job !== undefined && (state === 'failed' || state === 'discarded'))
    throw refusal(job, done.error_context)
  if (state === 'succeeded' || ((job_id === null || wait_ms > 0) && reached(resource))) reply.code(status)
  else reply.code(202).header('location', done.location)
  return resource
}

/** What stands in the database when the job has ended there, or the time is over. What is heard meanwhile is only a hint. */
async function ended<T>(
  { waiters }: ApiContext,
  job_id: string,
  { fresh, find }: Done<T>,
  wait_ms: number,
): Promise<Found<T>> {
  // Listens before it looks, so that no outcome falls between.
  using hints = waiters.listen(job_id, wait_ms)
  let more = fresh ? await hints.next() : wait_ms > 0
  for (;;) {
    const found = await find()
    if (!more || found.job === undefined || hasEnded(found.job.state)) return found
    more = await hints.next()
  }
}

/**
 * The refusal that a job ended in, for the caller who waited for it. A job that failed says why in words for its tenant; what
 * ended otherwise has those of an exception, which are for its operators.
 */
function refusal(
  { state, last_error }: NonNullable<Found<unknown>['job']>,
  context: Record<string, unknown>,
): AppError {
  if (state !== 'failed' || last_error === null) return new AppError('processor_error', { context })
  const { message, decline_code, processor_code } = last_error
  const code = last_error.code in ERRORS ? (last_error.code as ErrorCode) : 'processor_error'
  if (code === 'internal_error') return new AppError(code, { context })
  const facts = { decline_code, processor_code, ...context }
  return new AppError(code, {
    message,
    context: Object.fromEntries(Object.entries(facts).filter(([, v]) => v != null)),
  })
}
