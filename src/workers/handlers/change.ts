// Changes an object at a provider. Every change follows this rule: the call is sent under its stored key, or only
// looked up; after a refusal, or if it may have taken effect, the provider's record of the object decides.
import type { Failure, Outcome } from '#core/outcome.ts'
import { retry, rotate, unanswered, retryUndone, unknown, type Decision } from '../decision.ts'
import { REFUSAL_LOOKUPS_MS } from './absence.ts'
import {
  isProviderRefusal,
  isReplayedError,
  neverSent,
  sendUnlessLookupOnly,
  type StoredCall,
} from './calls.ts'

/** The maximum number of keys for a change: each key with a stored error costs two calls. */
export const MAX_GENERATIONS = 12

/** The resource-specific part of a change. Every field is required, so that no resource omits a case. */
export type Change<Found> = {
  /** The provider's id of the object. */
  reference: string
  /** The number of keys after which a change without an effect fails. */
  max_generations: number
  /** Sends the stored request once. */
  send: (key: string) => Promise<Outcome<Found>>
  find: () => Promise<Outcome<Found | null>>
  /** Decides if the object is in the requested state; otherwise returns null. */
  changed: (found: Found) => Decision | null
  /** Decides if the object cannot be changed now or no longer; otherwise returns null. */
  otherwise: (found: Found) => Decision | null
  /** Decides for an unchanged object. `refusal`: the provider's refusal; null if the provider was not reached. */
  unchanged: (found: Found, refusal: Failure | null) => Decision
  /** Decides in test mode for an object that the provider does not know. */
  missing: () => Decision
}

/**
 * Makes one attempt at a change. In live mode, an object that the provider does not know is a case for an operator. In
 * test mode it is ordinary: a sandbox and the test data of an account are deleted, or one has replaced the other.
 */
export async function changeAtProvider<Found>(
  { livemode }: { livemode: boolean },
  { call }: { call: StoredCall },
  { reference, max_generations, send, find, changed, otherwise, unchanged, missing }: Change<Found>,
): Promise<Decision> {
  const sent = await sendUnlessLookupOnly(call, send)
  const answered = sent.kind === 'done' ? changed(sent.value) : null
  if (answered !== null) return answered
  const never_sent = neverSent(call, sent)
  if (sent.kind !== 'done' && sent.kind !== 'declined' && !isReplayedError(sent) && !never_sent)
    return retryUndone(sent)

  // An earlier attempt that is in doubt may still be in transit. So this refusal is not final at once: the call is sent
  // again and looked up after the delays of REFUSAL_LOOKUPS_MS.
  const refusal = call.in_doubt && isProviderRefusal(sent) ? sent : undefined
  const lookup = await find()
  if (lookup.kind !== 'done') return unanswered(lookup, { unsent: never_sent || refusal !== undefined })
  const found = lookup.value
  if (found === null) return livemode ? unknown(`the provider does not know ${reference}`) : missing()
  const decided = changed(found) ?? otherwise(found)
  if (decided !== null) return decided
  // The provider would repeat the stored error of this key, so the call gets a new key.
  if (isReplayedError(sent) && call.generation < max_generations) return rotate(sent.reason)
  const refused_ms = call.refused_ms ?? 0
  const next_ms = refusal && REFUSAL_LOOKUPS_MS.find((each_ms) => each_ms > refused_ms)
  if (refusal !== undefined && next_ms !== undefined)
    return retry(refusal.failure.message, { delay_ms: next_ms - refused_ms, unsent: true, answered: true })
  return unchanged(found, sent.kind === 'declined' ? sent.failure : null)
}
