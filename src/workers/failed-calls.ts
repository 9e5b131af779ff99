// Counts failed calls to providers by minute and outcome until they are written.
import type { CallFailure } from '#domain/operations/outage-texts.ts'
import type { FailedCalls } from '#domain/operations/provider-outages.ts'

/**
 * The maximum number of buffered counts while they cannot be written: one count for each provider, minute and outcome.
 */
const MAX_BUFFERED_COUNTS = 500

export type FailedCallCounts = {
  add(provider: string, outcome: CallFailure): void
  isEmpty(): boolean
  /** Writes all counts. If the write fails, the counts stay buffered. */
  flush(write: (failed: FailedCalls[]) => Promise<void>): Promise<void>
}

export function createFailedCallCounts(): FailedCallCounts {
  let failed = new Map<string, FailedCalls>()
  return {
    add(provider, outcome) {
      const at = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString()
      const key = `${provider} ${at} ${outcome}`
      const existing = failed.get(key)
      if (existing !== undefined) existing.count += 1
      else if (failed.size < MAX_BUFFERED_COUNTS) failed.set(key, { provider, at, outcome, count: 1 })
    },
    isEmpty: () => failed.size === 0,
    async flush(write) {
      const counted = failed
      failed = new Map()
      try {
        await write([...counted.values()])
      } catch (error) {
        for (const [key, calls] of counted)
          failed.set(key, { ...calls, count: calls.count + (failed.get(key)?.count ?? 0) })
        throw error
      }
    },
  }
}
