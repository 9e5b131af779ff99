// Handlers. Each handler is bound to its job definition and gets the job with its payload and request parsed.
import type { z } from 'zod'
import { describeIssue } from '#core/describe.ts'
import type { SendHistory } from '#domain/jobs/calls.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { JobName } from '#jobs/index.ts'
import { isFromNewerVersion, type CallDefinition, type JobDefinition } from '#jobs/job.ts'
import type { WorkerContext } from '../context.ts'
import { park, retry, type Decision } from '../decision.ts'
import type { StoredCall } from './calls.ts'

/**
 * The retry delay of a job that only a newer version can read. At the next attempt, a worker of the newer version may
 * claim the job.
 */
export const NEWER_VERSION_DELAY_MS = 60_000

/** A claimed job with its payload parsed. */
export type Job<Payload> = Omit<ClaimedJob, 'payload' | 'call' | 'send_history'> & {
  payload: Payload
  /** Aborts when the lease is lost or the worker stops. The provider's clients abort their calls by themselves. */
  signal: AbortSignal
}

/** A job with a provider call, with the stored request parsed. */
type CallingJob<Payload, Request> = Job<Payload> & {
  call: StoredCall & { request: Request }
  send_history: SendHistory
  /** When the attempt began, on the clock of `performance.now()`. */
  began_at: number
}

/** The job type of a definition's handler. */
export type JobOf<Definition> =
  Definition extends JobDefinition<string, infer Payload, CallDefinition<infer Request>>
    ? CallingJob<z.output<Payload>, z.output<Request>>
    : Definition extends JobDefinition<string, infer Payload, null>
      ? Job<z.output<Payload>>
      : never

export type Handler<Name extends string = string> = {
  definition: JobDefinition<Name>
  /** Makes one attempt. */
  attempt(context: WorkerContext, job: ClaimedJob, signal: AbortSignal): Promise<Decision>
  /**
   * Ends a job whose attempts are used up or whose stored data cannot be read. Default: the job becomes unknown or is
   * discarded.
   */
  giveUp?: (context: WorkerContext, job: ClaimedJob, reason: string) => Promise<Decision>
}

/**
 * Binds a handler to a job with a provider call. A job whose stored data cannot be read is parked, and nothing is sent.
 * A job whose request has unknown fields is left to workers of the newer version that wrote it. `giveUp` ends a job
 * whose attempts are used up.
 */
export function calling<Name extends JobName, Payload extends z.ZodType, Request extends z.ZodType>(
  definition: JobDefinition<Name, Payload, CallDefinition<Request>>,
  handle: (
    context: WorkerContext,
    job: CallingJob<z.output<Payload>, z.output<Request>>,
  ) => Promise<Decision>,
  giveUp?: NonNullable<Handler['giveUp']>,
): Handler<Name> {
  return {
    definition,
    ...(giveUp !== undefined && { giveUp }),
    async attempt(context, { call, send_history, ...job }, signal) {
      const began_at = performance.now()
      const payload = definition.payload.safeParse(job.payload, { error: describeIssue })
      const request = definition.call.request.safeParse(call?.request, { error: describeIssue })
      if (request.error !== undefined && isFromNewerVersion(request.error))
        return retry(unreadable(request.error), { delay_ms: NEWER_VERSION_DELAY_MS, unsent: true })
      if (!payload.success || !request.success || call === null || send_history === null)
        return park(unreadable(payload.error ?? request.error), { unsent: true })
      const { lookup_only, key, ...stored } = { ...call, request: request.data }
      return await handle(context, {
        ...job,
        payload: payload.data,
        call: lookup_only ? { ...stored, lookup_only } : { ...stored, lookup_only, key },
        send_history,
        began_at,
        signal,
      })
    },
  }
}

/** Binds a handler to a job without a provider call. `giveUp` ends a job whose attempts are used up. */
export function handling<Name extends JobName, Payload extends z.ZodType>(
  definition: JobDefinition<Name, Payload, null>,
  handle: (context: WorkerContext, job: Job<z.output<Payload>>) => Promise<Decision>,
  giveUp: NonNullable<Handler['giveUp']>,
): Handler<Name> {
  return {
    definition,
    giveUp,
    async attempt(context, job, signal) {
      const payload = definition.payload.safeParse(job.payload, { error: describeIssue })
      if (!payload.success) return await giveUp(context, job, unreadable(payload.error))
      return await handle(context, { ...job, payload: payload.data, signal })
    },
  }
}

function unreadable(error: z.ZodError | undefined): string {
  const issues = error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  return `the stored payload or request cannot be read: ${issues.join('; ')}`
}
