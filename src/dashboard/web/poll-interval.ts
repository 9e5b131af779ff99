// Polling intervals.
import type { QueryState } from '@tanstack/react-query'

const MAX_INTERVAL_MS = 30_000

/**
 * The delay until the next poll, in ms. While polls fail, the delay is the time from the last success to the latest
 * failure, up to a maximum.
 */
export function pollInterval(
  interval_ms: number,
  { status, dataUpdatedAt, errorUpdatedAt }: Pick<QueryState, 'status' | 'dataUpdatedAt' | 'errorUpdatedAt'>,
): number {
  if (status !== 'error') return interval_ms
  return Math.max(interval_ms, Math.min(errorUpdatedAt - dataUpdatedAt, MAX_INTERVAL_MS))
}
