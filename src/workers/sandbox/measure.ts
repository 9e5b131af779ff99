// Reports the calls to a sandbox that no client reports.
import type { ProviderOperation } from '#core/config/providers.ts'
import type { FinishedCall } from '#providers/http.ts'

export type Measure = <T extends { kind: FinishedCall['outcome'] }>(
  operation: ProviderOperation,
  call: () => Promise<T>,
) => Promise<T>

/** Returns a function that makes a call and passes its outcome to `onCall`. */
export function measuring(onCall: (call: FinishedCall) => void): Measure {
  return async (operation, call) => {
    const started = performance.now()
    const outcome = await call()
    onCall({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }
}
