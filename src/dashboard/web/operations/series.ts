// Reads the time series of a queue, up to now.
import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { read } from '../api.ts'
import { pollInterval } from '../poll-interval.ts'
import type { SeriesAnswer } from './shapes.ts'

const INTERVAL_MS = 30_000

export function useSeries(
  queue: string,
  range: { value: string; ms: number; points: number },
): UseQueryResult<SeriesAnswer> {
  return useQuery({
    queryKey: ['/ops/series', queue, range.value],
    queryFn: ({ signal }) => {
      const now = Date.now()
      const [from, to] = [new Date(now - range.ms).toISOString(), new Date(now).toISOString()]
      return read<SeriesAnswer>('/ops/series', { queue, from, to, points: range.points }, signal)
    },
    refetchInterval: ({ state }) => pollInterval(INTERVAL_MS, state),
    placeholderData: keepPreviousData,
  })
}

/** The selectable periods, with the number of points of their lines. */
export const RANGES = [
  { value: '1h', label: '1 h', ms: 3600_000, points: 60 },
  { value: '24h', label: '24 h', ms: 86_400_000, points: 48 },
  { value: '7d', label: '7 d', ms: 604_800_000, points: 84 },
]
export const RANGE_OPTIONS = RANGES.map(({ value, label }) => ({ value, label }))
