// Reads a queue over time, up to now.
import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { read } from '../api.ts'
import type { SeriesAnswer } from './shapes.ts'

const EVERY_MS = 30_000

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
    refetchInterval: EVERY_MS,
    placeholderData: keepPreviousData,
  })
}
