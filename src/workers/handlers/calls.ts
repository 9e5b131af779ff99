// What the handlers of calls have in common: what stands for a call that may only be looked up, and when one certainly was never sent.
import type { Outcome } from '#core/outcome.ts'
import type { ProviderCall } from '#domain/jobs/calls.ts'

/** What is turned away before it has an effect for as long as this has failed. */
const REFUSED_MS = 24 * 3_600_000

/** In place of a call that may only be looked up. */
export const TOO_LATE = { kind: 'ambiguous', reason: 'too late to send again', replayed: true } as const
export const UNREACHABLE = { code: 'processor_error', message: 'the processor could not be reached' } as const

/** It was turned away for a day, and no attempt can have reached the provider. */
export function neverSent(call: Omit<ProviderCall, 'request'>, sent: Outcome<unknown>): boolean {
  return sent.kind === 'retry' && !call.in_doubt && (call.refused_ms ?? 0) > REFUSED_MS
}
