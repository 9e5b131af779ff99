// What a handler decides about an attempt, and what each decision makes of the job. A decision is a value: `perform`
// writes it, with what it tells of a noun, in one fenced step (`settle.ts`).
import assert from 'node:assert/strict'
import type { Outcome, UnsuccessfulOutcome } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { Effects } from './settle.ts'

type AttemptResult = {
  /** Of a noun; nothing: only what becomes of the job is written. */
  effects?: Effects
  /** The provider's id of the object that the call made or changed. */
  reference?: string | null
  /** This attempt sent nothing. If no other attempt may have sent the call either, it counts as never sent. */
  unsent?: boolean
}

export type Decision = AttemptResult &
  (
    | { kind: 'done' }
    | { kind: 'failed'; failure: NonNullable<Settlement['error']> }
    | ({ kind: 'retry'; reason: string } & RetryOptions)
    | { kind: 'rotate'; reason: string; parked?: boolean }
    | { kind: 'unknown'; reason: string; within_ms?: number; absent?: boolean }
    | { kind: 'park'; reason: string; code?: string; delay_ms?: number }
    | { kind: 'give_back'; reason: string }
    | { kind: 'discard'; reason: string }
    | { kind: 'continue'; next: () => Promise<Decision> }
  )

type RetryOptions = {
  outcome?: 'retry' | 'ambiguous' | 'misconfigured'
  /** No sooner than this. */
  after_ms?: number
  /** Replaces the delay of the job's retry schedule. */
  delay_ms?: number
  /**
   * The provider was asked about the call and gave no answer: an unknown call stays unknown, at the same step of its
   * schedule.
   */
  unanswered?: boolean
  /**
   * No attempt has had an effect, as the noun's row says, whatever may be in doubt about the job: the call is not
   * looked up, it begins anew.
   */
  restart_call?: boolean
  /** What the provider said, which the tenant is shown instead of nothing. */
  reported?: NonNullable<Settlement['error']>
  /** What it tells is what somebody may wait for, although the job goes on. */
  publish_state?: boolean
  /** The attempt counts towards `max_attempts`: a job that throws each time must not do so for ever. */
  counts_attempt?: boolean
  /** The provider answered, and is not done yet: the attempt did not fail. */
  answered?: boolean
}

/** The job succeeded. */
export const done = (result: AttemptResult = {}): Decision => ({ kind: 'done', ...result })

/** The job failed: its effect definitively did not happen and will not. */
export const failed = (failure: NonNullable<Settlement['error']>, result: AttemptResult = {}): Decision => ({
  kind: 'failed',
  failure,
  ...result,
})

/** Tries again with the same key; a call that may only be looked up is looked up again. */
export const retry = (reason: string, options: RetryOptions & AttemptResult = {}): Decision => ({
  kind: 'retry',
  reason,
  ...options,
})

/**
 * Tries again with a new key (the next generation of the call), after a definitive failure under the old one. `parked`: not
 * before an operator retries it.
 */
export const rotate = (reason: string, { parked = false } = {}): Decision => ({
  kind: 'rotate',
  reason,
  parked,
})

/**
 * The effect is unknown: from now on the call is looked up and not sent. `within_ms`: the next lookup is no later than
 * this. `absent`: the provider's complete list shows no effect, long enough after the last sending.
 */
export const unknown = (
  reason: string,
  options: { within_ms?: number; absent?: boolean } = {},
): Decision => ({ kind: 'unknown', reason, ...options })

/** Sets the job aside for `delay_ms`, or, without it, until an operator retries it. */
export const park = (
  reason: string,
  options: { code?: string; delay_ms?: number } & AttemptResult = {},
): Decision => ({ kind: 'park', reason, ...options })

/**
 * Gives the job back to be claimed again. `unsent` false: this attempt may already have sent a call that had an
 * effect.
 */
export const giveBack = (reason: string, { unsent = true } = {}): Decision => ({
  kind: 'give_back',
  reason,
  unsent,
})

/** Ends a job that no attempt could finish and that has no provider call whose effect could be in doubt. */
export const discard = (reason: string): Decision => ({ kind: 'discard', reason })

/**
 * Writes what it tells while the job keeps running, and then makes the decision of `next`. If the worker is killed in
 * between, the job is claimed again.
 */
export const continueWith = (effects: Effects, next: () => Promise<Decision>): Decision => ({
  kind: 'continue',
  effects,
  next,
})

/**
 * The decision after an outcome that changes nothing but the job: try again, however often that happened, while the
 * key is valid.
 */
export function retryUndone(outcome: Exclude<Outcome<unknown>, { kind: 'done' | 'declined' }>): Decision {
  if (outcome.kind === 'misconfigured')
    return retry(outcome.reason, { outcome: 'misconfigured', unsent: true })
  if (outcome.kind === 'retry') return retry(outcome.reason, { after_ms: outcome.after_ms, unsent: true })
  return retry(outcome.reason, { outcome: 'ambiguous', after_ms: outcome.after_ms })
}

/**
 * The decision after a look that brought no answer: nothing changed anywhere, so it is soon tried again, as a look or
 * as a call.
 */
export function unanswered(
  looked: UnsuccessfulOutcome,
  options: Pick<RetryOptions, 'counts_attempt' | 'publish_state'> & AttemptResult = {},
): Decision {
  const reason = looked.kind === 'declined' ? looked.failure.message : looked.reason
  const outcome = looked.kind === 'misconfigured' ? 'misconfigured' : 'retry'
  const after_ms = looked.kind === 'retry' ? looked.after_ms : undefined
  return retry(reason, { outcome, after_ms, unanswered: true, ...options })
}

/** While our credentials or set-up are refused, a job is tried again this often. */
const MISCONFIGURED_DELAY_MS = 30_000

/**
 * What is written about the job for a decision: its state, and when it is tried or looked at again, by the retry
 * schedule of its definition.
 */
export function settlementOf(
  job: ClaimedJob,
  { retry, call }: JobDefinition,
  decision: Decision,
): Settlement {
  const settlement: Settlement = {
    job_id: job.id,
    lease_token: job.lease_token,
    state: 'ready',
    outcome: 'retry',
    error: 'reason' in decision ? { code: 'processor_error', message: decision.reason } : null,
    delay_ms: 0,
    provider_reference: decision.reference ?? null,
    rotate: false,
    unsent: decision.unsent ?? false,
    forgive: true,
    failing: false,
  }
  switch (decision.kind) {
    case 'done':
      return { ...settlement, state: 'succeeded', outcome: 'done' }
    case 'failed':
      return { ...settlement, state: 'failed', outcome: 'declined', error: decision.failure }
    case 'retry': {
      const {
        outcome = 'retry',
        after_ms = 0,
        counts_attempt = false,
        restart_call = false,
        answered = false,
      } = decision
      // A call that may only be looked up is looked up again, not sent.
      const is_lookup = job.call?.lookup_only === true && !restart_call
      if (is_lookup && decision.unanswered !== true) return settleAsUnknown(settlement, job, retry)
      const scheduled_ms =
        outcome === 'misconfigured' ? MISCONFIGURED_DELAY_MS : retryDelay(job, retry, after_ms)
      const delay_ms = decision.delay_ms ?? scheduled_ms
      return {
        ...settlement,
        state: is_lookup ? 'unknown' : 'ready',
        outcome: outcome,
        error: decision.reported ?? settlement.error,
        delay_ms,
        rotate: restart_call && job.call?.in_doubt === true,
        forgive: !counts_attempt,
        failing: !answered,
      }
    }
    case 'rotate':
      // Another key would not protect from a second effect either.
      if (call?.on_ambiguous === 'lookup' && job.call?.in_doubt === true)
        return settleAsUnknown(settlement, job, retry)
      return decision.parked === true
        ? { ...settlement, rotate: true, outcome: 'parked', delay_ms: null }
        : { ...settlement, rotate: true, delay_ms: rotationDelay(job, retry), failing: true }
    case 'unknown': {
      const { within_ms = Infinity, absent = false } = decision
      const delay_ms = Math.min(lookupDelay(job, retry), within_ms)
      return { ...settleAsUnknown(settlement, job, retry), delay_ms, absent }
    }
    case 'park': {
      const { code = 'processor_error', reason, delay_ms = null } = decision
      const state = job.call === null ? 'ready' : 'unknown'
      return { ...settlement, state, outcome: 'parked', error: { code, message: reason }, delay_ms }
    }
    case 'give_back':
      return { ...settlement, outcome: settlement.unsent ? 'returned' : 'ambiguous', failing: null }
    case 'discard':
      return { ...settlement, state: 'discarded', outcome: 'discarded' }
    case 'continue':
      return { ...settlement, state: 'running', outcome: 'done', forgive: false, failing: null }
    default:
      return assert.fail(`no decision: ${JSON.stringify(decision satisfies never)}`)
  }
}

/** The call is looked up from now on. The attempt that leaves its effect unknown failed; a look that finds nothing did not. */
function settleAsUnknown(settlement: Settlement, job: ClaimedJob, retry: JobDefinition['retry']): Settlement {
  const failing = job.unknown_ms === null
  return { ...settlement, state: 'unknown', outcome: 'unknown', delay_ms: lookupDelay(job, retry), failing }
}

/** Exponential with jitter: between a tenth and the whole of the delay, and no sooner than the provider asks for. */
function retryDelay(
  { failures }: ClaimedJob,
  { base_ms, cap_ms }: JobDefinition['retry'],
  after_ms: number,
): number {
  const ceiling_ms = Math.min(cap_ms, base_ms * 2 ** failures)
  return Math.max(after_ms, ceiling_ms * (0.1 + 0.9 * Math.random()))
}

/** A provider that stores an error for each new key is asked less and less often, also where lookups come in between. */
function rotationDelay(job: ClaimedJob, retry: JobDefinition['retry']): number {
  const failures = Math.max(job.failures, (job.call?.generation ?? 1) - 1)
  return retryDelay({ ...job, failures }, retry, 0)
}

function lookupDelay({ unknown_ms }: ClaimedJob, { lookup_delays_ms }: JobDefinition['retry']): number {
  return lookup_delays_ms.find((look_ms) => look_ms > (unknown_ms ?? 0)) ?? lookup_delays_ms.at(-1)!
}
