// The lines that the log holds of a job: each attempt and each call to the provider, with the request that asked for it and
// the payment that it is about.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createSampler, withoutRedaction, type Log } from '#core/log.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'

type Facts = Record<string, unknown>

const lines_of = new AsyncLocalStorage<Facts>()

export type JobLog = {
  /** Does the work; what it logs through `call` and `about` belongs to the job. */
  of<T>(job: ClaimedJob, work: () => Promise<T>): Promise<T>
  /** How an attempt ended. */
  ended(job: ClaimedJob, settlement: Settlement, ms: number): void
  /** A call to the provider. */
  call(call: { operation: string; outcome: string; duration_ms: number }): void
}

/** `logged_part`: of how many requests; what ends in no good way is logged in any case. */
export function createJobLog(log: Log, logged_part: number): JobLog {
  const sampled = createSampler(logged_part)
  const lines = withoutRedaction(log)
  const isLogged = ({ request_id, job_id }: Facts) => sampled(String(request_id ?? job_id))

  return {
    of: (job, work) => lines_of.run(factsOf(job), work),
    ended(job, { outcome, state, error }, ms) {
      const facts = lines_of.getStore() ?? factsOf(job)
      const bad = state === 'unknown' || state === 'discarded'
      if (!bad && !isLogged(facts)) return
      const line = {
        ...facts,
        attempt: job.attempt,
        outcome,
        state,
        ms: Math.round(ms),
        reason: error?.message,
      }
      lines[bad ? 'warn' : 'info'](line, 'an attempt ended')
    },
    call({ operation, outcome, duration_ms }) {
      const facts = lines_of.getStore()
      if (facts !== undefined && isLogged(facts))
        lines.info({ ...facts, operation, outcome, ms: Math.round(duration_ms) }, 'the provider answered')
    },
  }
}

/** Adds to what the lines of the job at hand say, once it is known. */
export function addLogFacts(facts: { tenant_id: string; payment_id: string }): void {
  Object.assign(lines_of.getStore() ?? {}, facts)
}

function factsOf({ id, name, request_id, tenant_id, payload }: ClaimedJob): Facts {
  return { job_id: id, job: name, request_id, tenant_id, ...(payload as Facts) }
}
