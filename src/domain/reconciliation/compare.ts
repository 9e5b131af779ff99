// Whether we and the processor see the same: what is settled must be settled alike, what is under way must be worked on.
import type { Drift, Side } from './drift.ts'

/** What of ours may stand beside each status of theirs, once all that they say has been applied. */
const AGREES: Record<Drift['subject'], Record<string, string[]>> = {
  payment: {
    // A declined card leaves the payment waiting there for another one.
    requires_action: ['requires_action', 'pending', 'failed'],
    processing: ['pending', 'requires_action'],
    authorized: ['authorized'],
    captured: ['captured'],
    // What failed here holds no money there either.
    canceled: ['canceled', 'failed'],
    failed: ['failed', 'canceled'],
  },
  refund: { pending: ['pending'], succeeded: ['succeeded'], failed: ['failed'] },
}
const UNDER_WAY = ['pending', 'capturing', 'canceling']

/**
 * How the two disagree; null when they do not. While a job works on ours, what is under way is nobody's mistake.
 */
export function disagreement(
  subject: Drift['subject'],
  { ours, worked_on }: { ours: Side; worked_on: boolean },
  theirs: Side | null,
): 'stale' | 'differs' | null {
  const under_way = UNDER_WAY.includes(ours.status)
  if (under_way && worked_on) return null
  const alike =
    theirs !== null &&
    AGREES[subject][theirs.status]?.includes(ours.status) === true &&
    theirs.currency === ours.currency &&
    theirs.amount_minor === ours.amount_minor &&
    (ours.status !== 'captured' || theirs.amount_captured_minor === ours.amount_captured_minor)
  return alike ? null : under_way ? 'stale' : 'differs'
}
