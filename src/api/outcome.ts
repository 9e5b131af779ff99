// Answering a request that asked for a job: the outcome if it comes in time, else 202 and where to look.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { batcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { findOutcomes, type JobOutcome } from '#domain/jobs.ts'
import type { ApiContext } from './context.ts'
import { preferredWait, refusal } from './wait.ts'

/** The error of a job that ended badly, and how one stands that is replayed. */
export type ReadOutcome = (job_id: string) => Promise<JobOutcome | undefined>

export function createReadOutcome(sql: Sql): ReadOutcome {
  return batcher('find_outcome', async (ids) => {
    const found = new Map((await findOutcomes(sql, ids)).map((outcome) => [outcome.id, outcome]))
    return ids.map((id) => found.get(id))
  })
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
  done: {
    job_id: string | null
    tenant_id: string
    queue: string
    status: 200 | 201
    replayed: boolean
    location: string
    error_context: Record<string, unknown>
    find: () => Promise<T>
    reached: (resource: T) => boolean
  },
): Promise<T> {
  const { job_id, status, replayed, reached } = done
  if (replayed) reply.header('idempotent-replayed', 'true')
  const wait_ms = preferredWait(request, reply)
  const state = job_id === null ? undefined : await outcomeOf(context, { job_id, replayed }, wait_ms)
  if (job_id !== null && (state === 'failed' || state === 'discarded')) {
    const outcome = await context.readOutcome(job_id)
    throw refusal(outcome?.last_error ?? null, done.error_context)
  }
  const resource = await done.find()
  const looked = job_id === null || wait_ms > 0
  if (state === 'succeeded' || (looked && reached(resource))) reply.code(status)
  else reply.code(202).header('location', done.location)
  return resource
}

async function outcomeOf(
  { waiters, readOutcome }: ApiContext,
  { job_id, replayed }: { job_id: string; replayed: boolean },
  wait_ms: number,
): Promise<string | undefined> {
  if (!replayed) return await waiters.wait(job_id, wait_ms)
  // The first request may be over or still under way: listen first, then look, so that no outcome falls between.
  const waited = waiters.wait(job_id, wait_ms)
  const before = (await readOutcome(job_id))?.state
  return before === 'ready' || before === 'running' ? await waited : before
}
