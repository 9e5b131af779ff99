// A handler's decision about an attempt, and the job's next state for each decision. A decision is a value: `perform`
// writes it together with its effects in one fenced statement (`settle.ts`).
import assert from 'node:assert/strict'
import type { Outcome, UnsuccessfulOutcome } from '#core/outcome.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { DATABASE_FAILED, type Settlement } from '#domain/jobs/settle.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { NotStarted } from '#providers/permit.ts'
import { lookupDelay, retryDelay, rotationDelay } from './retry-delays.ts'
import type { Effects } from './settle.ts'

type AttemptResult = {
  /** The settlement of the job's resource. If absent, only the job is written. */
  effects?: Effects
  /** The provider's id of the object that the call created or changed. */
  reference?: string | null
  /**
   * Whether this attempt sent nothing. If no earlier attempt may have sent the call either, the call counts as never
   * sent.
   */
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
    | { kind: 'give_back'; reason: string; database_failed: boolean; delay_ms?: number }
    | { kind: 'discard'; reason: string }
    | { kind: 'continue'; next: () => Promise<Decision> }
  )

type RetryOptions = {
  outcome?: 'retry' | 'ambiguous' | 'misconfigured'
  /** The minimum delay before the next attempt. */
  after_ms?: number
  /** Whether `after_ms` is capped at the next delay of the lookup schedule, or at a minute if that delay is shorter. */
  limits_after?: boolean
  /** Replaces the delay of the job's retry schedule. */
  delay_ms?: number
  /** Whether a lookup got no answer: an unknown call stays unknown, at the same step of its schedule. */
  unanswered?: boolean
  /**
   * Whether the resource row shows that no attempt has taken effect: then the call is sent again and not looked up,
   * even if an attempt may have reached the provider.
   */
  restart_call?: boolean
  /** The provider's failure, shown to the tenant. */
  reported?: NonNullable<Settlement['error']>
  /** Whether the state is published although the job continues, because a request may wait for these effects. */
  publish_state?: boolean
  /**
   * Whether the attempt counts towards `max_attempts`. If the attempt of a handler that threw did not count, a job that
   * always throws would be retried for ever.
   */
  counts_attempt?: boolean
  /** Whether the provider answered but has not decided yet: then the attempt did not fail. */
  answered?: boolean
}

/** The job succeeded. */
export const done = (result: AttemptResult = {}): Decision => ({ kind: 'done', ...result })

/** The job failed: its effect did not happen and will not happen. */
export const failed = (failure: NonNullable<Settlement['error']>, result: AttemptResult = {}): Decision => ({
  kind: 'failed',
  failure,
  ...result,
})

/** Retries with the same key. A call that may only be looked up is looked up again. */
export const retry = (reason: string, options: RetryOptions & AttemptResult = {}): Decision => ({
  kind: 'retry',
  reason,
  ...options,
})

/**
 * Retries with a new key (the next generation of the call), after a definitive failure under the old key. `parked`: the
 * job waits until an operator retries it.
 */
export const rotate = (reason: string, { parked = false } = {}): Decision => ({
  kind: 'rotate',
  reason,
  parked,
})

/**
 * The effect of the call is unknown: from now on the call is looked up and not sent. `within_ms`: the maximum delay
 * until the next lookup. `absent`: the provider's complete list shows no effect, long enough after the call was last
 * sent.
 */
export const unknown = (
  reason: string,
  options: { within_ms?: number; absent?: boolean } = {},
): Decision => ({ kind: 'unknown', reason, ...options })

/** Parks the job for `delay_ms`. Default: until an operator retries it. */
export const park = (
  reason: string,
  options: { code?: string; delay_ms?: number } & AttemptResult = {},
): Decision => ({ kind: 'park', reason, ...options })

/**
 * Ends the attempt, so that the job is claimed again, after `delay_ms` (default: at once). The attempt does not count.
 * `unsent: false`: this attempt may have sent a call that took effect. `database_failed`: the reason is an error of the
 * database, so the next attempt is delayed.
 */
export const giveBack = (
  reason: string,
  { unsent = true, database_failed = false, delay_ms = 0 } = {},
): Decision => ({
  kind: 'give_back',
  reason,
  unsent,
  database_failed,
  delay_ms,
})

/** Gives a job back whose call did not start. */
export function giveBackUnstarted({ message, cause, delay_ms }: NotStarted): Decision {
  const reason = cause instanceof Error ? `${message}: ${cause.message}` : message
  return giveBack(reason, { database_failed: cause !== undefined, delay_ms })
}

/** Ends a job that no attempt could finish. Only for jobs without a provider call, whose effect is never unknown. */
export const discard = (reason: string): Decision => ({ kind: 'discard', reason })

/**
 * Writes `effects` while the job keeps running, then makes the decision of `next`. If the worker is killed in
 * between, the job is claimed again.
 */
export const continueWith = (effects: Effects, next: () => Promise<Decision>): Decision => ({
  kind: 'continue',
  effects,
  next,
})

/** Retries after an outcome that changes only the job. The number of attempts is not limited while the key is valid. */
export function retryUndone(outcome: Exclude<Outcome<unknown>, { kind: 'done' | 'declined' }>): Decision {
  if (outcome.kind === 'misconfigured')
    return retry(outcome.reason, { outcome: 'misconfigured', unsent: true })
  if (outcome.kind === 'retry') return retry(outcome.reason, { after_ms: outcome.after_ms, unsent: true })
  return retry(outcome.reason, { outcome: 'ambiguous', after_ms: outcome.after_ms })
}

/**
 * Retries a lookup that got no answer. Nothing has changed, so the job is soon retried, with a lookup or a call. Only a
 * provider that limits our rate may delay the retry by more than the lookup schedule.
 */
export function unanswered(
  lookup: UnsuccessfulOutcome,
  options: Pick<RetryOptions, 'counts_attempt' | 'publish_state'> & AttemptResult = {},
): Decision {
  const reason = lookup.kind === 'declined' ? lookup.failure.message : lookup.reason
  const outcome = lookup.kind === 'misconfigured' ? 'misconfigured' : 'retry'
  const after_ms = 'after_ms' in lookup ? lookup.after_ms : undefined
  const limits_after = lookup.kind === 'ambiguous'
  return retry(reason, { outcome, after_ms, limits_after, unanswered: true, ...options })
}

/** The minimum and maximum delays after an error of the database. */
const DATABASE_DELAY_MS = 500
const MAX_DATABASE_DELAY_MS = 30_000
/** The retry delay while the provider refuses our credentials or configuration. */
const MISCONFIGURED_DELAY_MS = 30_000
/** A delay that the provider demands is accepted up to this limit, even if the lookup schedule has a shorter delay. */
const ACCEPTED_LOOKUP_DELAY_MS = 60_000

/**
 * The settlement of the job for a decision: its state, and the delay of its next attempt or lookup by the retry
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
        limits_after = false,
        counts_attempt = false,
        restart_call = false,
        answered = false,
      } = decision
      // A call that may only be looked up was not sent by this attempt.
      const is_lookup = job.call?.lookup_only === true && !restart_call
      if (is_lookup && decision.unanswered !== true) return settleAsUnknown(settlement, job, retry)
      const max_after_ms = limits_after
        ? Math.max(ACCEPTED_LOOKUP_DELAY_MS, lookupDelay(job, retry))
        : Infinity
      const scheduled_ms =
        outcome === 'misconfigured'
          ? MISCONFIGURED_DELAY_MS
          : retryDelay(job, retry, Math.min(after_ms, max_after_ms))
      const delay_ms = decision.delay_ms ?? scheduled_ms
      // The statement that settles the job sets `in_doubt` by the same rule, see domain/jobs/settle.ts.
      const may_be_sent = job.call !== null && !settlement.unsent && !is_lookup && !restart_call
      return {
        ...settlement,
        state: is_lookup ? 'unknown' : 'ready',
        outcome: outcome === 'retry' && may_be_sent ? 'ambiguous' : outcome,
        error: decision.reported ?? settlement.error,
        delay_ms,
        rotate: restart_call && job.call?.in_doubt === true,
        forgive: !counts_attempt,
        failing: !answered,
      }
    }
    case 'rotate':
      // The call may have taken effect, and its provider has no idempotency keys: another key would not prevent a
      // second effect.
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
    case 'give_back': {
      const outcome = settlement.unsent ? 'returned' : 'ambiguous'
      const { delay_ms = 0 } = decision
      const returned: Settlement = { ...settlement, outcome, delay_ms, failing: null }
      return decision.database_failed ? afterDatabaseFailure(returned, job, retry) : returned
    }
    case 'discard':
      return { ...settlement, state: 'discarded', outcome: 'discarded' }
    case 'continue':
      return { ...settlement, state: 'running', outcome: 'done', forgive: false, failing: null }
    default:
      return assert.fail(`not a decision: ${JSON.stringify(decision satisfies never)}`)
  }
}

/**
 * From now on the call is looked up. Only the attempt that made the effect unknown counts as failed; a later lookup
 * that finds nothing does not.
 */
function settleAsUnknown(settlement: Settlement, job: ClaimedJob, retry: JobDefinition['retry']): Settlement {
  const failing = job.unknown_ms === null
  return { ...settlement, state: 'unknown', outcome: 'unknown', delay_ms: lookupDelay(job, retry), failing }
}

/** A single lost connection is no failure of the job. A second one in a row counts as failed, and delays grow. */
function afterDatabaseFailure(
  settlement: Settlement,
  job: ClaimedJob,
  retry: JobDefinition['retry'],
): Settlement {
  const { database_failures } = job
  const message = settlement.error?.message ?? ''
  const error = {
    code: DATABASE_FAILED,
    message,
    context: { database_failures: database_failures + 1 },
  }
  if (database_failures === 0) return { ...settlement, error, delay_ms: DATABASE_DELAY_MS }
  const cap_ms = Math.min(retry.cap_ms, MAX_DATABASE_DELAY_MS)
  const delay_ms = retryDelay({ failures: database_failures - 1 }, { ...retry, cap_ms }, DATABASE_DELAY_MS)
  return { ...settlement, error, delay_ms, failing: true }
}
