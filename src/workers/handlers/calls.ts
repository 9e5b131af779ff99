// What the handlers of provider calls have in common.
import type { Outcome } from '#core/outcome.ts'
import type { ProviderCall } from '#domain/jobs/calls.ts'

/** A call that has been refused for this long, each time before it had any effect, has failed. */
const REFUSED_MS = 24 * 3_600_000

/** The most new keys for a capture or a cancellation: each for which the processor has stored an error costs two calls. */
export const MAX_GENERATIONS = 12

/** Stands in for the outcome of a call that may only be looked up, and so is not sent. */
export const TOO_LATE = { kind: 'ambiguous', reason: 'too late to send again', replayed: true } as const
export const UNREACHABLE = {
  code: 'processor_error',
  message: 'The payment processor could not be reached.',
} as const

/** Whether every attempt was refused for a whole day and none can have reached the provider. */
export function neverSent(
  call: Pick<ProviderCall, 'in_doubt' | 'refused_ms'>,
  sent: Outcome<unknown>,
): boolean {
  return sent.kind === 'retry' && !call.in_doubt && (call.refused_ms ?? 0) > REFUSED_MS
}

/**
 * Whether the call may have had an effect although it was answered otherwise: a refusal after an earlier attempt, a key
 * that was used with other parameters (`processor_error`), or a stored error. Then only the provider's records decide.
 */
export function mayHideAnEffect(call: Pick<ProviderCall, 'in_doubt'>, sent: Outcome<unknown>): boolean {
  if (sent.kind === 'declined') return call.in_doubt || sent.failure.code === 'processor_error'
  return sent.kind === 'ambiguous' && sent.replayed
}
