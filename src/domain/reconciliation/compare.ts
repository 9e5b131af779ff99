// Compares our side with the processor's: what is settled must be settled alike, and what is under way must have a job.
import { SUBJECTS, type AtProvider, type ProviderNoun } from '../subjects.ts'
import type { Ours, Side } from './drift.ts'

export type Disagreement = {
  state: 'stale' | 'differs'
  /** What differs, if it is not the status, the amount or the currency. */
  detail: string | null
  /** Only the total of refunds differs. It may soon agree, because each refund has its own notification. */
  passing: boolean
}

/**
 * How the two sides disagree; null when they agree. A row under way with a job is no disagreement, but a notification
 * that does not fit into our books is one, whatever else is under way.
 */
export function disagreement(
  subject: ProviderNoun,
  { ours, worked_on, waiting }: Omit<Ours, 'since'>,
  theirs: Side | null,
): Disagreement | null {
  const { agrees, under_way: moving }: AtProvider = SUBJECTS[subject].at_provider
  if (waiting.length > 0) return { state: 'differs', detail: inWords(ours, theirs, waiting), passing: false }
  const under_way = moving.includes(ours.status)
  if (under_way && worked_on) return null
  const state = under_way ? 'stale' : 'differs'
  if (theirs === null) return { state, detail: `the processor does not know the ${subject}`, passing: false }
  if (
    agrees[theirs.status]?.includes(ours.status) !== true ||
    theirs.currency !== ours.currency ||
    theirs.amount_minor !== ours.amount_minor
  )
    return { state, detail: null, passing: false }
  if (ours.status === 'captured' && theirs.amount_captured_minor !== ours.amount_captured_minor)
    return { state, detail: 'the captured amounts differ', passing: false }
  if (ours.status === 'authorized' && theirs.amount_capturable_minor !== ours.amount_capturable_minor)
    return { state, detail: 'the amounts that can be captured differ', passing: false }
  if (!refundsAgree(ours, theirs)) return { state, detail: inWords(ours, theirs, []), passing: true }
  return null
}

// Their total includes pending refunds; some of the refunds that are reserved here may not have reached them yet.
function refundsAgree(ours: Side, theirs: Side): boolean {
  const { amount_refunded_minor: refunded, amount_refund_reserved_minor: reserved } = ours
  const { amount_refunded_minor: there } = theirs
  if (refunded == null || reserved === undefined || there == null) return true
  return refunded <= there && there <= reserved
}

function inWords(ours: Side, theirs: Side | null, waiting: Ours['waiting']): string {
  const facts = waiting.map(({ object_id, reason }) =>
    reason === 'does_not_fit'
      ? `${object_id} of the processor does not fit beside what is captured and reserved here`
      : `news of ${object_id} is parked (${reason})`,
  )
  if (theirs?.amount_refunded_minor != null)
    facts.push(
      `the processor has refunded ${theirs.amount_refunded_minor}; here ${ours.amount_refunded_minor} is refunded and ${ours.amount_refund_reserved_minor} reserved`,
    )
  return facts.join('; ')
}
