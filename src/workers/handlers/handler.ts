// What a handler is: bound to its job's definition, and given the job as that declares it.
import type { z } from 'zod'
import type { ProviderCall } from '#domain/jobs/calls.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { JobName } from '#jobs/index.ts'
import type { CallDefinition, JobDefinition } from '#jobs/job.ts'
import type { WorkerContext } from '../context.ts'
import { park, type Decision } from '../decision.ts'

/** A job as its handler gets it. */
export type Job<Payload> = Omit<ClaimedJob, 'payload' | 'call'> & {
  payload: Payload
  /** Aborted when the lease is lost or the worker stops. Calls to providers end with it by themselves. */
  signal: AbortSignal
}

/** With the call that it makes, as it was stored. */
type CallingJob<Payload, Request> = Job<Payload> & {
  call: Omit<ProviderCall, 'request'> & { request: Request }
}

/** The job of a definition. */
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
  /** Ends a job that no attempt survives, or that cannot be read, where it ends otherwise than the rest. */
  giveUp?: (context: WorkerContext, job: ClaimedJob, reason: string) => Promise<Decision>
}

/** Binds a handler to a job that makes a call of its own. What is stored of it and cannot be read is parked and never sent. */
export function calling<Name extends JobName, Payload extends z.ZodType, Request extends z.ZodType>(
  definition: JobDefinition<Name, Payload, CallDefinition<Request>>,
  handle: (
    context: WorkerContext,
    job: CallingJob<z.output<Payload>, z.output<Request>>,
  ) => Promise<Decision>,
): Handler<Name> {
  return {
    definition,
    async attempt(context, { call, ...job }, signal) {
      const payload = definition.payload.safeParse(job.payload)
      const request = definition.call.request.safeParse(call?.request)
      if (!payload.success || !request.success || call === null)
        return park(unreadable(payload.error ?? request.error), { unsent: true })
      return await handle(context, {
        ...job,
        payload: payload.data,
        call: { ...call, request: request.data },
        signal,
      })
    },
  }
}

/** Binds a handler to a job that makes no call of its own, with how it ends when no attempt survives it. */
export function handling<Name extends JobName, Payload extends z.ZodType>(
  definition: JobDefinition<Name, Payload, null>,
  handle: (context: WorkerContext, job: Job<z.output<Payload>>) => Promise<Decision>,
  giveUp: NonNullable<Handler['giveUp']>,
): Handler<Name> {
  return {
    definition,
    giveUp,
    async attempt(context, job, signal) {
      const payload = definition.payload.safeParse(job.payload)
      if (!payload.success) return await giveUp(context, job, unreadable(payload.error))
      return await handle(context, { ...job, payload: payload.data, signal })
    },
  }
}

function unreadable(error: z.ZodError | undefined): string {
  const issues = error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  return `what is stored of it cannot be read: ${issues.join('; ')}`
}
