// Shared by creations and changes at a provider: sends a call, and judges what its answer proves.
import type { Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import type { ProviderCall } from '#domain/jobs/calls.ts'

/** The time for which every attempt may be refused before the call takes effect. After that the call fails. */
const MAX_REFUSED_MS = 24 * 3_600_000

/** The outcome of a call that was not sent, because it may only be looked up. */
const NOT_SENT = {
  kind: 'ambiguous',
  reason: 'the call was not sent: only a lookup of it is allowed',
  replayed: true,
} as const
export const UNREACHABLE = {
  code: 'processor_error',
  message: 'The payment processor could not be reached.',
} as const

/**
 * The stored call of a job, without its request. It has its key only if it may be sent, so that no handler can send a
 * call that may only be looked up.
 */
export type StoredCall = Omit<ProviderCall, 'request' | 'lookup_only' | 'key'> &
  ({ lookup_only: false; key: string } | { lookup_only: true; key?: never })

/** Sends a call under its key. A call that may only be looked up is not sent. */
export async function sendUnlessLookupOnly<Found>(
  call: StoredCall,
  send: (key: string) => Promise<Outcome<Found>>,
): Promise<Outcome<Found>> {
  return call.lookup_only ? NOT_SENT : await send(call.key)
}

/**
 * The outcome of an attempt that could not decrypt a stored value, so that nothing was sent: the job waits for the
 * missing key. Rethrows every other error.
 */
export function outcomeOfSealError(error: unknown): { kind: 'misconfigured'; reason: string } {
  if (error instanceof SealError) return { kind: 'misconfigured', reason: error.message }
  throw error
}

/**
 * Whether every attempt of the last day was refused before the call took effect, and no earlier attempt may have
 * reached the provider.
 */
export function neverSent(
  call: Pick<ProviderCall, 'in_doubt' | 'refused_ms'>,
  sent: Outcome<unknown>,
): boolean {
  return sent.kind === 'retry' && !call.in_doubt && (call.refused_ms ?? 0) > MAX_REFUSED_MS
}

/**
 * Whether the call may have taken effect despite this answer, so that only the provider's records decide. True for a
 * stored error, for a key that was used with other parameters (`processor_error`), and for a refusal if an earlier
 * attempt may have reached the provider.
 */
export function mayHaveTakenEffect(
  call: Pick<ProviderCall, 'in_doubt'>,
  sent: Exclude<Outcome<unknown>, { kind: 'done' }>,
): boolean {
  return sent.kind === 'declined' ? call.in_doubt || !isProviderRefusal(sent) : isReplayedError(sent)
}

/**
 * Whether the provider refused the request itself. A decline for another reason means that the key was used with other
 * parameters.
 */
export function isProviderRefusal(
  sent: Outcome<unknown>,
): sent is Extract<Outcome<never>, { kind: 'declined' }> {
  return sent.kind === 'declined' && sent.failure.code !== 'processor_error'
}

/** Whether the provider repeats a stored error, so that a retry needs a new key. */
export function isReplayedError(
  sent: Outcome<unknown>,
): sent is Extract<Outcome<never>, { kind: 'ambiguous' }> {
  return sent.kind === 'ambiguous' && sent.replayed
}
