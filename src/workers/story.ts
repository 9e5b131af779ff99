// The lines that the log holds of a job: each attempt and each call to the provider, with the request that asked for it and
// the payment that it is about.
import { AsyncLocalStorage } from 'node:async_hooks'
import { createSampler, withoutRedaction, type Log } from '#core/log.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'

type Facts = Record<string, unknown>

const stories = new AsyncLocalStorage<Facts>()

export type Story = {
  /** Does the work; what it logs through `call` and `about` belongs to the job. */
  of<T>(job: ClaimedJob, work: () => Promise<T>): Promise<T>
  /** How an attempt ended. */
  ended(job: ClaimedJob, settlement: Settlement, ms: number): void
  /** A call to the provider. */
  call(call: { operation: string; outcome: string; duration_ms: number }): void
}

/** `logged_part`: of how many requests; what ends in no good way is logged in any case. */
export function createStory(log: Log, logged_part: number): Story {
  const sampled = createSampler(logged_part)
  const lines = withoutRedaction(log)
  const told = ({ request_id, job_id }: Facts) => sampled(String(request_id ?? job_id))

  return {
    of: (job, work) => stories.run(factsOf(job), work),
    ended(job, { outcome, state, error }, ms) {
      const facts = stories.getStore() ?? factsOf(job)
      const bad = state === 'unknown' || state === 'discarded'
      if (!bad && !told(facts)) return
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
      const facts = stories.getStore()
      if (facts !== undefined && told(facts))
        lines.info({ ...facts, operation, outcome, ms: Math.round(duration_ms) }, 'the provider answered')
    },
  }
}

/** Adds to what the lines of the job at hand say, once it is known. */
export function about(facts: { tenant_id: string; payment_id: string }): void {
  Object.assign(stories.getStore() ?? {}, facts)
}

function factsOf({ id, name, request_id, tenant_id, payload }: ClaimedJob): Facts {
  return { job_id: id, job: name, request_id, tenant_id, ...(payload as Facts) }
}
