// Changes something that a provider has. Every change follows this one rule: the call is sent under its stored key, or
// only looked up; after a refusal or in doubt, the provider's record of the object decides.
import type { Failure, Outcome } from '#core/outcome.ts'
import { rotate, unanswered, retryUndone, unknown, type Decision } from '../decision.ts'
import { isReplayedError, neverSent, sendUnlessLookupOnly, type StoredCall } from './calls.ts'

/** The most new keys for a change: each for which the provider has stored an error costs two calls. */
export const MAX_GENERATIONS = 12

/** A resource's part of a change. Every field is required, so that no resource forgets a case. */
export type Change<Found> = {
  /** The provider's id of the object. */
  reference: string
  /** After this many keys a change that has no effect fails. */
  max_generations: number
  /** Sends the stored request, once. */
  send: (key: string) => Promise<Outcome<Found>>
  find: () => Promise<Outcome<Found | null>>
  /** Decides for an object that is as it was to become; null for any other. */
  changed: (found: Found) => Decision | null
  /** Decides for an object that cannot be changed any more, or not yet; null for one that is unchanged. */
  otherwise: (found: Found) => Decision | null
  /** Decides for an object that is unchanged, after the provider refused or (null) was not reached. */
  unchanged: (found: Found, refusal: Failure | null) => Decision
}

/** Makes one attempt at a change. */
export async function changeAtProvider<Found>(
  { call }: { call: StoredCall },
  { reference, max_generations, send, find, changed, otherwise, unchanged }: Change<Found>,
): Promise<Decision> {
  const sent = await sendUnlessLookupOnly(call, send)
  const answered = sent.kind === 'done' ? changed(sent.value) : null
  if (answered !== null) return answered
  const never_sent = neverSent(call, sent)
  if (sent.kind !== 'done' && sent.kind !== 'declined' && !isReplayedError(sent) && !never_sent)
    return retryUndone(sent)

  const lookup = await find()
  if (lookup.kind !== 'done') return unanswered(lookup, { unsent: never_sent })
  const found = lookup.value
  if (found === null) return unknown(`the provider does not know ${reference}`)
  const decided = changed(found) ?? otherwise(found)
  if (decided !== null) return decided
  // The provider would repeat the stored error of this key for ever, so only a new key helps.
  if (isReplayedError(sent) && call.generation < max_generations) return rotate(sent.reason)
  return unchanged(found, sent.kind === 'declined' ? sent.failure : null)
}
