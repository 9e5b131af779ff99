// From the outcome of an attempt to what is written about it: when to try again, when to look, when to give up.
import type { Failure, Outcome } from '#core/outcome.ts'
import { wasInDoubt, type ClaimedJob, type Settlement } from '#domain/jobs.ts'
import type { Sql } from '#core/db.ts'

const RETRY_BASE_MS = 250
const RETRY_CAP_MS = 10 * 60_000
const MISCONFIGURED_MS = 30_000
/** How long after it became unknown a job is looked at again. */
const LOOKS_MS = [5_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 24 * 3_600_000]

/** The job is done. */
export function succeeded(job: ClaimedJob, provider_reference: string | null = null): Settlement {
  return {
    ...base(job),
    state: 'succeeded',
    outcome: 'done',
    call_outcome: job.call && 'done',
    provider_reference,
  }
}

/** It definitively did not and will not happen. */
export function failed(job: ClaimedJob, failure: Omit<Failure, 'code'> & { code: string }): Settlement {
  return {
    ...base(job),
    state: 'failed',
    outcome: 'declined',
    error: failure,
    call_outcome: job.call && 'declined',
  }
}

/** A definitive failure that another key may mend: the call's generation rotates. */
export function rotated(job: ClaimedJob, reason: string): Settlement {
  return { ...retried(job, reason), rotate: true }
}

/** Tried again under the same key, after an exponential delay with full jitter. */
export function retried(job: ClaimedJob, reason: string, after_ms?: number): Settlement {
  const ceiling_ms = Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** Math.min(job.attempt, 20))
  const delay_ms = after_ms ?? Math.random() * ceiling_ms
  return { ...base(job), state: 'ready', outcome: 'retry', error: problem(reason), delay_ms }
}

/** Nobody knows; it is looked at again and never sent again. */
export function unknown(job: ClaimedJob, reason: string): Settlement {
  const delay_ms = LOOKS_MS.find((look_ms) => look_ms > (job.unknown_ms ?? 0)) ?? LOOKS_MS.at(-1)!
  return {
    ...base(job),
    state: 'unknown',
    outcome: 'unknown',
    error: problem(reason),
    delay_ms,
    forgive: true,
  }
}

/** Given back untouched: nothing was tried. */
export function returned(job: ClaimedJob, reason: string, delay_ms = 0): Settlement {
  return {
    ...base(job),
    state: 'ready',
    outcome: 'returned',
    error: problem(reason),
    delay_ms,
    forgive: true,
  }
}

/** A job that no attempt could finish, without a provider call whose effect could be in doubt. */
export function discarded(job: ClaimedJob, reason: string): Settlement {
  return { ...base(job), state: 'discarded', outcome: 'discarded', error: problem(reason) }
}

/**
 * What is written of an outcome that changes nothing but the job. `never sent`: no attempts are left, and none of them can
 * have reached the provider.
 */
export async function unfinished(
  sql: Sql,
  job: ClaimedJob,
  outcome: Exclude<Outcome<unknown>, { kind: 'done' | 'declined' }>,
): Promise<Settlement | 'never sent'> {
  if (outcome.kind === 'misconfigured')
    return { ...returned(job, outcome.reason, MISCONFIGURED_MS), outcome: 'misconfigured' }
  const last = job.attempt >= job.max_attempts
  if (outcome.kind === 'retry') {
    if (!last) return retried(job, outcome.reason, outcome.after_ms)
    return (await wasInDoubt(sql, job)) ? unknown(job, outcome.reason) : 'never sent'
  }
  if (last || job.call?.look_only === true) return unknown(job, outcome.reason)
  return { ...retried(job, outcome.reason), outcome: 'ambiguous' }
}

function base(job: ClaimedJob): Settlement {
  return {
    job_id: job.id,
    lease_token: job.lease_token,
    attempt: job.attempt,
    state: 'ready',
    outcome: 'retry',
    error: null,
    delay_ms: 0,
    call_outcome: null,
    provider_reference: null,
    rotate: false,
    forgive: false,
  }
}

function problem(reason: string): Settlement['error'] {
  return { code: 'processor_error', message: reason }
}
