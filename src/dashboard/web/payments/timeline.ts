// Reads the timeline of a payment with its jobs, deliveries, refunds and disputes, and polls while work is in progress.
import type { Dispute, Payment, Refund, TimelineEntry } from '#sdk/index.ts'
import {
  useInfiniteQuery,
  useQuery,
  type InfiniteData,
  type UseInfiniteQueryResult,
} from '@tanstack/react-query'
import { read, readPage, type PathTo } from '../api.ts'
import type { Answers } from '../generated/answers.ts'
import { pollInterval } from '../poll-interval.ts'
import { answerKey, retryUntilLoaded, useAnswer } from '../queries.ts'

export type TimelineContextAnswer = Answers['GET /timelines/{id}']
export type TimelineJob = TimelineContextAnswer['jobs'][number]

export type PaymentTimelineData = {
  /** The loaded entries, oldest first. While the query has a next page, there are earlier entries. */
  entries: TimelineEntry[]
  /** Jobs that were open after the first loaded entry. */
  jobs: TimelineJob[]
  /** Deliveries of events after the first loaded entry. */
  deliveries: TimelineContextAnswer['deliveries']
  /** The resource of each event by the event's id: the payment, a refund or a dispute. */
  resource_of_event: Map<string, string>
  refunds: Refund[]
  disputes: Dispute[]
}
export type PaymentTimelineQuery = UseInfiniteQueryResult<PaymentTimelineData>

/** A page of the timeline, with jobs, deliveries and events of the same period. */
type TimelineDataPage = Pick<TimelineContextAnswer, 'jobs' | 'deliveries' | 'events'> & {
  entries: TimelineEntry[]
  /** The cursor of the page before. Undefined: there is none. */
  since: string | undefined
}
type PaymentTimelinePage = {
  page: TimelineDataPage
  children: Pick<PaymentTimelineData, 'refunds' | 'disputes'> | null
}

const LIMIT = 100
const UNDER_WAY = ['pending', 'capturing', 'canceling']

/** Whether work is in progress. While it is, the timeline is polled every second. */
function isUnderWay(payment: Payment | undefined, timeline: PaymentTimelineData | undefined): boolean {
  if (payment !== undefined && UNDER_WAY.includes(payment.status)) return true
  return (
    timeline !== undefined &&
    (timeline.jobs.some(({ run_at }) => run_at !== null) ||
      timeline.refunds.some(({ status }) => status === 'pending'))
  )
}

/** The polling interval in ms. */
const intervalMs = (under_way: boolean) => (under_way ? 1000 : 10_000)

/** The payment and its timeline. */
export function usePaymentTimeline(id: string | undefined) {
  const enabled = id !== undefined
  const path = `/v1/payments/${id ?? ''}` as const
  const [payment_key, timeline_key] = [answerKey(path), answerKey(`${path}/full_timeline`)]
  const timeline: PaymentTimelineQuery = useInfiniteQuery({
    queryKey: timeline_key,
    queryFn: ({ pageParam, signal }) => readTimelinePage(id!, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ page }) => page.since,
    select: mergePages,
    enabled,
    refetchInterval: ({ state }) =>
      pollInterval(intervalMs(isUnderWay(undefined, state.data && mergePages(state.data))), state),
    retry: retryUntilLoaded(timeline_key),
  })
  const payment = useQuery({
    queryKey: payment_key,
    queryFn: ({ signal }) => read<Payment>(path, undefined, signal),
    enabled,
    refetchInterval: ({ state }) => pollInterval(intervalMs(isUnderWay(state.data, timeline.data)), state),
    retry: retryUntilLoaded(payment_key),
  })
  return { payment, timeline }
}

/**
 * Reads the entries before `before`, with jobs and deliveries of the same period. The latest page also has the refunds
 * and disputes.
 */
async function readTimelinePage(
  id: string,
  before: string | undefined,
  signal: AbortSignal,
): Promise<PaymentTimelinePage> {
  const path = `/v1/payments/${id}` as const
  async function readEntries(): Promise<TimelineDataPage> {
    const { rows, next } = await readPage<TimelineEntry>(`${path}/timeline`, { before, limit: LIMIT }, signal)
    const since = next?.['before']
    const of = await read<TimelineContextAnswer>(`/timelines/${id}`, { since, before }, signal)
    return { ...of, entries: rows, since }
  }
  async function readChildren() {
    const [refunds, disputes] = await Promise.all([
      readPage<Refund>(`${path}/refunds`, { limit: LIMIT }, signal),
      readPage<Dispute>('/v1/disputes', { payment_id: id, limit: LIMIT }, signal),
    ])
    return { refunds: refunds.rows, disputes: disputes.rows }
  }
  const [page, children] = await Promise.all([readEntries(), before === undefined ? readChildren() : null])
  return { page, children }
}

/** Merges the pages. The first page has the latest entries. A job can be in several pages. */
function mergePages({ pages }: InfiniteData<PaymentTimelinePage>): PaymentTimelineData {
  const all = pages.map(({ page }) => page).toReversed()
  const jobs = new Map(all.flatMap((page) => page.jobs).map((job) => [job.id, job]))
  return {
    entries: all.flatMap((page) => page.entries),
    jobs: [...jobs.values()],
    deliveries: all.flatMap((page) => page.deliveries),
    resource_of_event: new Map(all.flatMap((page) => page.events).map(({ id, about_id }) => [id, about_id])),
    ...(pages[0]?.children ?? { refunds: [], disputes: [] }),
  }
}

/** Reads one refund or dispute, and polls it. */
export function useTimelineChild<T extends Refund | Dispute>(path: PathTo<T>) {
  return useAnswer<T>(path, undefined, { interval_ms: 3000 })
}
