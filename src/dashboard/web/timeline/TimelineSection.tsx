// The timeline section of a page: loading, failed and loaded states, and paging to earlier entries.
import { useInfiniteQuery, type UseInfiniteQueryResult } from '@tanstack/react-query'
import type { TimelineEntry } from '#sdk/index.ts'
import { read, readPage, type PathTo } from '../api.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Freshness } from '../kit/Freshness.tsx'
import { useNow } from '../kit/Instant.tsx'
import { ErrorState } from '../kit/states.tsx'
import { humanize } from '../kit/statuses.ts'
import { pollInterval } from '../poll-interval.ts'
import type { TimelineContextAnswer } from '../payments/timeline.ts'
import { answerKey, retryUntilLoaded } from '../queries.ts'
import { useClockNow } from '../sandbox/clock.ts'
import { useSession } from '../session.tsx'
import { entryItem } from './items.tsx'
import { rowItems } from './row-items.tsx'
import type { RowTexts } from './row-texts.ts'
import { Timeline, type EarlierEntries, type TimelineItem } from './Timeline.tsx'

const LIMIT = 100
const INTERVAL_MS = 5_000

/** Reads the timeline at `path` and polls it. */
export function TimelineSection({
  path,
  interval_ms = INTERVAL_MS,
}: {
  path: PathTo<TimelineEntry[]>
  interval_ms?: number
}) {
  const queryKey = answerKey(path, { limit: LIMIT })
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      readPage<TimelineEntry>(path, { limit: LIMIT, before: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next?.['before'],
    refetchInterval: ({ state }) => pollInterval(interval_ms, state),
    retry: retryUntilLoaded(queryKey),
  })
  const entries = query.data?.pages.toReversed().flatMap(({ rows }) => rows)
  return <TimelineFrame query={query} items={entries?.map(entryItem)} earlier={earlierOf(query)} />
}

/** The timeline of a resource as sentences, with its waiting jobs and its deliveries. */
export function RowTimeline({
  path,
  id,
  at,
  texts,
}: {
  path: PathTo<TimelineEntry[]>
  id: string
  /** The provider of the resource. Undefined: loading. */
  at: string | undefined
  texts: RowTexts
}) {
  const now = useNow()
  const clock_now = useClockNow()
  const { is_operator } = useSession()
  const queryKey = answerKey(`${path}/full`, { limit: LIMIT })
  const query = useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam: before, signal }) => {
      const { rows, next } = await readPage<TimelineEntry>(path, { limit: LIMIT, before }, signal)
      const since = next?.['before']
      const { jobs, deliveries } = await read<TimelineContextAnswer>(
        `/timelines/${id}`,
        { since, before },
        signal,
      )
      return { entries: rows, jobs, deliveries, since }
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ since }) => since,
    refetchInterval: ({ state }) => pollInterval(INTERVAL_MS, state),
    retry: retryUntilLoaded(queryKey),
  })
  const pages = query.data?.pages.toReversed()
  // A job is in every page whose period overlaps its own.
  const jobs = new Map(pages?.flatMap((page) => page.jobs).map((job) => [job.id, job]))
  const timeline = pages && {
    entries: pages.flatMap(({ entries }) => entries),
    jobs: [...jobs.values()],
    deliveries: pages.flatMap(({ deliveries }) => deliveries),
  }
  return (
    <TimelineFrame
      query={query}
      items={
        timeline && at !== undefined
          ? rowItems(timeline, texts, { at: humanize(at), now, clock_now, is_operator })
          : undefined
      }
      earlier={earlierOf(query)}
    />
  )
}

/** A timeline of given items. Undefined: loading. */
export function TimelineFrame({
  query: { error, refetch, dataUpdatedAt },
  items,
  earlier,
}: {
  query: Pick<UseInfiniteQueryResult, 'error' | 'refetch' | 'dataUpdatedAt'>
  items: TimelineItem[] | undefined
  earlier?: EarlierEntries | undefined
}) {
  return (
    <section className="section">
      <div className="inline">
        <h2>Timeline</h2>
        <Freshness of={{ error, refetch, dataUpdatedAt }} brief />
      </div>
      {items !== undefined ? (
        <Timeline items={items} earlier={earlier} />
      ) : error !== null ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <div className="stack" role="status" aria-busy="true" aria-label="Loading">
          {['72%', '64%', '80%', '58%'].map((width) => (
            <Skeleton key={width} width={width} height={20} />
          ))}
        </div>
      )}
    </section>
  )
}

/** Loads the page of earlier entries. Undefined: there is none. */
export function earlierOf({
  hasNextPage,
  isFetchingNextPage,
  fetchNextPage,
}: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>):
  | EarlierEntries
  | undefined {
  return hasNextPage ? { show: fetchNextPage, busy: isFetchingNextPage } : undefined
}
