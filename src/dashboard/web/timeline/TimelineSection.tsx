// The section of a page with a timeline: while it is on its way, when it could not be read, and when it goes further back.
import { useInfiniteQuery, type UseInfiniteQueryResult } from '@tanstack/react-query'
import type { TimelineEntry } from '#sdk/index.ts'
import { readPage, type PathTo } from '../api.ts'
import { Bone } from '../kit/Bone.tsx'
import { Freshness } from '../kit/Freshness.tsx'
import { Failed } from '../kit/states.tsx'
import { pace } from '../pace.ts'
import { answerKey, retryFirst } from '../queries.ts'
import { entryItem } from './items.tsx'
import { Timeline, type Earlier, type TimelineItem } from './Timeline.tsx'

const LIMIT = 100

/** What happened to something, read from `path`, again and again. */
export function TimelineSection({
  path,
  every_ms = 5_000,
}: {
  path: PathTo<TimelineEntry[]>
  every_ms?: number
}) {
  const queryKey = answerKey(path, { limit: LIMIT })
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      readPage<TimelineEntry>(path, { limit: LIMIT, before: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next?.['before'],
    refetchInterval: ({ state }) => pace(every_ms, state),
    retry: retryFirst(queryKey),
  })
  const entries = query.data?.pages.toReversed().flatMap(({ rows }) => rows)
  return <TimelineFrame query={query} items={entries?.map(entryItem)} earlier={earlierOf(query)} />
}

/** The same of items that were read elsewhere; undefined while they are on their way. */
export function TimelineFrame({
  query: { error, refetch, dataUpdatedAt },
  items,
  earlier,
}: {
  query: Pick<UseInfiniteQueryResult, 'error' | 'refetch' | 'dataUpdatedAt'>
  items: TimelineItem[] | undefined
  earlier?: Earlier | undefined
}) {
  return (
    <section className="section">
      <div className="line">
        <h2>Timeline</h2>
        <Freshness of={{ error, refetch, dataUpdatedAt }} brief />
      </div>
      {items !== undefined ? (
        <Timeline items={items} earlier={earlier} />
      ) : error !== null ? (
        <Failed error={error} retry={refetch} />
      ) : (
        <div className="stack" aria-busy="true" aria-label="Loading">
          {['72%', '64%', '80%', '58%'].map((width) => (
            <Bone key={width} width={width} height={20} />
          ))}
        </div>
      )}
    </section>
  )
}

/** The way to the page before those that were read; undefined where there is none. */
export function earlierOf({
  hasNextPage,
  isFetchingNextPage,
  fetchNextPage,
}: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage'>):
  | Earlier
  | undefined {
  return hasNextPage ? { show: fetchNextPage, busy: isFetchingNextPage } : undefined
}
