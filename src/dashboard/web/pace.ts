// How often what is shown is read again.
import type { QueryState } from '@tanstack/react-query'

const LONGEST_PAUSE_MS = 30_000

/**
 * How long until something is read again that is read every `every_ms`. While that fails the pauses grow: each is as long
 * as it has failed until then.
 */
export function pace(
  every_ms: number,
  { status, dataUpdatedAt, errorUpdatedAt }: Pick<QueryState, 'status' | 'dataUpdatedAt' | 'errorUpdatedAt'>,
): number {
  if (status !== 'error') return every_ms
  return Math.max(every_ms, Math.min(errorUpdatedAt - dataUpdatedAt, LONGEST_PAUSE_MS))
}
