// How often what is shown is read again.
import type { QueryState } from '@tanstack/react-query'

const MAX_INTERVAL_MS = 30_000

/**
 * How long until something is read again that is read every `interval_ms`. While that fails the pauses grow: each is as long
 * as it has failed until then.
 */
export function pollInterval(
  interval_ms: number,
  { status, dataUpdatedAt, errorUpdatedAt }: Pick<QueryState, 'status' | 'dataUpdatedAt' | 'errorUpdatedAt'>,
): number {
  if (status !== 'error') return interval_ms
  return Math.max(interval_ms, Math.min(errorUpdatedAt - dataUpdatedAt, MAX_INTERVAL_MS))
}
