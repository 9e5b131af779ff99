// From the outcome of an attempt to what is written about it: when to try again, when to look, when to give up.
import type { Failure, Outcome, Undone } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'

const RETRY_BASE_MS = 250
const RETRY_CAP_MS = 10 * 60_000
const MISCONFIGURED_MS = 30_000
/** What is turned away before it has an effect for as long as this has failed. */
const REFUSED_MS = 24 * 3_600_000
/**
 * How long after its first refusal an authorization in doubt is refused and searched for again: a processor's search is usually
 * less than a minute behind.
 */
const REFUSED_LOOKS_MS = [5_000, 60_000, 5 * 60_000]
/** How long after it became unknown a job is looked at again. */
const LOOKS_MS = [5_000, 60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 24 * 3_600_000]

/** The job is done. */
export function succeeded(job: ClaimedJob): Settlement {
  return {
    ...base(job),
    state: 'succeeded',
    outcome: 'done',
    call_outcome: job.call && 'done',
  }
}

/** What it learnt is written before it ends: until then the job is not over, and comes again if its worker is killed. */
export function goesOn(job: ClaimedJob): Settlement {
  return { ...base(job), state: 'running', outcome: 'done', forgive: false }
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

/**
 * Tried again under the same key, after an exponential delay with jitter: never less than a tenth of it, and no sooner than
 * the provider asks for.
 */
export function retried(job: ClaimedJob, reason: string, after_ms = 0): Settlement {
  const ceiling_ms = Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** (job.failures + 1))
  const delay_ms = Math.max(after_ms, ceiling_ms * (0.1 + 0.9 * Math.random()))
  return { ...base(job), state: 'ready', outcome: 'retry', error: problem(reason), delay_ms }
}

/**
 * Refused, after an attempt that may have got in and that the provider's search does not show: tried again under the same key
 * until the search has had its time. `never got in`: it has had it.
 */
export function refusedInDoubt(job: ClaimedJob, reason: string): Settlement | 'never got in' {
  const refused_ms = job.call?.refused_ms ?? 0
  const look_ms = REFUSED_LOOKS_MS.find((each) => each > refused_ms)
  if (look_ms === undefined) return 'never got in'
  return { ...retried(job, reason), delay_ms: look_ms - refused_ms, unsent: true }
}

/** The handler threw. Such attempts count: whoever throws each time must not do so for ever. */
export function threw(job: ClaimedJob, reason: string): Settlement {
  return { ...retried(job, reason), outcome: 'ambiguous', forgive: false }
}

/** Nobody knows; it is looked at again and never sent again. */
export function unknown(job: ClaimedJob, reason: string): Settlement {
  const delay_ms = LOOKS_MS.find((look_ms) => look_ms > (job.unknown_ms ?? 0)) ?? LOOKS_MS.at(-1)!
  return { ...base(job), state: 'unknown', outcome: 'unknown', error: problem(reason), delay_ms }
}

/**
 * A look that brought no answer: nothing was written anywhere, so it is soon tried again, as a look or as a call. What was
 * unknown stays so and takes no step: nobody has looked.
 */
export function unanswered(job: ClaimedJob, looked: Undone): Settlement {
  const reason = looked.kind === 'declined' ? looked.failure.message : looked.reason
  return {
    ...retried(job, reason, looked.kind === 'retry' ? looked.after_ms : undefined),
    ...(job.call?.look_only === true && { state: 'unknown' }),
    ...(looked.kind === 'misconfigured' && { outcome: looked.kind, delay_ms: MISCONFIGURED_MS }),
  }
}

/** Performed no more until an operator says so: whoever performs it comes to an end. */
export function parked(job: ClaimedJob, reason: string): Settlement {
  return { ...unknown(job, reason), outcome: 'parked', delay_ms: null }
}

/** Given back untouched: nothing was tried. */
export function returned(job: ClaimedJob, reason: string, delay_ms = 0): Settlement {
  return {
    ...base(job),
    state: 'ready',
    outcome: 'returned',
    error: problem(reason),
    delay_ms,
    unsent: true,
  }
}

/** A job that no attempt could finish, without a provider call whose effect could be in doubt. */
export function discarded(job: ClaimedJob, reason: string): Settlement {
  return { ...base(job), state: 'discarded', outcome: 'discarded', error: problem(reason) }
}

/**
 * What is written of an outcome that changes nothing but the job. However often it was tried: a call whose key is good is sent
 * again. `never sent`: it was turned away for a day, and no attempt can have reached the provider.
 */
export function unfinished(
  job: ClaimedJob,
  outcome: Exclude<Outcome<unknown>, { kind: 'done' | 'declined' }>,
): Settlement | 'never sent' {
  if (outcome.kind === 'misconfigured')
    return { ...returned(job, outcome.reason, MISCONFIGURED_MS), outcome: 'misconfigured' }
  if (outcome.kind === 'retry') {
    if (job.call?.in_doubt === false && (job.call.refused_ms ?? 0) > REFUSED_MS) return 'never sent'
    return { ...retried(job, outcome.reason, outcome.after_ms), unsent: true }
  }
  if (job.call?.look_only === true) return unknown(job, outcome.reason)
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
    unsent: false,
    forgive: true,
  }
}

function problem(reason: string): Settlement['error'] {
  return { code: 'processor_error', message: reason }
}
