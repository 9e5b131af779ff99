// What a handler decides about an attempt. It is a value: `perform` writes it behind the fence, in one step with what it tells.
import type { Outcome, Undone } from '#core/outcome.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { Tells } from './settle.ts'

type Learnt = {
  /** Of a noun; nothing: only what becomes of the job is written. */
  tells?: Tells
  /** What the provider calls the effect of the call. */
  reference?: string | null
  /** Nothing left in this attempt: if no other may have sent the call, it counts as never sent. */
  unsent?: boolean
}

export type Decision = Learnt &
  (
    | { kind: 'done' }
    | { kind: 'failed'; failure: NonNullable<Settlement['error']> }
    | ({ kind: 'retry'; reason: string } & RetryOptions)
    | { kind: 'rotate'; reason: string }
    | { kind: 'unknown'; reason: string }
    | { kind: 'park'; reason: string; code?: string; delay_ms?: number }
    | { kind: 'give_back'; reason: string }
    | { kind: 'discard'; reason: string }
    | { kind: 'go_on'; next: () => Promise<Decision> }
  )

type RetryOptions = {
  why?: 'retry' | 'ambiguous' | 'misconfigured'
  /** No sooner than this. */
  after_ms?: number
  /** In place of the job's own schedule. */
  delay_ms?: number
  /** Asked, and not answered: what was unknown stays so, and takes no step of its schedule. */
  unanswered?: boolean
  /** The attempt counts: whoever throws each time must not do so for ever. */
  counts?: boolean
}

/** The job is done. */
export const done = (learnt: Learnt = {}): Decision => ({ kind: 'done', ...learnt })

/** It definitively did not and will not happen. */
export const failed = (failure: NonNullable<Settlement['error']>, learnt: Learnt = {}): Decision => ({
  kind: 'failed',
  failure,
  ...learnt,
})

/** Tried again under the same key; where the call may only be looked up, looked at again. */
export const retry = (reason: string, options: RetryOptions & Learnt = {}): Decision => ({
  kind: 'retry',
  reason,
  ...options,
})

/** A definitive failure that another key may mend: the generation of the call rotates. */
export const rotate = (reason: string): Decision => ({ kind: 'rotate', reason })

/** Nobody knows; it is looked at again and never sent again. */
export const unknown = (reason: string): Decision => ({ kind: 'unknown', reason })

/** Performed no more until its time comes, or, without `delay_ms`, until an operator says so. */
export const park = (
  reason: string,
  options: { code?: string; delay_ms?: number } & Learnt = {},
): Decision => ({ kind: 'park', reason, ...options })

/** Given back untouched; not `unsent`: a call before this one may have had an effect. */
export const giveBack = (reason: string, { unsent = true } = {}): Decision => ({
  kind: 'give_back',
  reason,
  unsent,
})

/** A job that no attempt could finish, without a provider call whose effect could be in doubt. */
export const discard = (reason: string): Decision => ({ kind: 'discard', reason })

/**
 * What it tells is written before it ends, and then decided `next`: until then the job is not over, and comes again if its worker
 * is killed.
 */
export const goOn = (tells: Tells, next: () => Promise<Decision>): Decision => ({
  kind: 'go_on',
  tells,
  next,
})

/**
 * What follows from an outcome that changes nothing but the job. However often it was tried: a call whose key is good is sent
 * again.
 */
export function undone(outcome: Exclude<Outcome<unknown>, { kind: 'done' | 'declined' }>): Decision {
  if (outcome.kind === 'misconfigured') return retry(outcome.reason, { why: 'misconfigured', unsent: true })
  if (outcome.kind === 'retry') return retry(outcome.reason, { after_ms: outcome.after_ms, unsent: true })
  return retry(outcome.reason, { why: 'ambiguous' })
}

/** What follows from a look that brought no answer: nothing was written anywhere, so it is soon tried again, as a look or as a call. */
export function unanswered(looked: Undone, options: { counts?: boolean } & Learnt = {}): Decision {
  const reason = looked.kind === 'declined' ? looked.failure.message : looked.reason
  const why = looked.kind === 'misconfigured' ? 'misconfigured' : 'retry'
  const after_ms = looked.kind === 'retry' ? looked.after_ms : undefined
  return retry(reason, { why, after_ms, unanswered: true, ...options })
}
