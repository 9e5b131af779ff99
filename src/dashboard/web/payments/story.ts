// Everything that is known of how a payment came to be as it is: read together, and again while something is under way.
import type { Dispute, Payment, Refund, TimelineEntry } from '#sdk/index.ts'
import {
  useInfiniteQuery,
  useQuery,
  type InfiniteData,
  type UseInfiniteQueryResult,
} from '@tanstack/react-query'
import { read, readPage, type PathTo } from '../api.ts'
import type { Answers } from '../generated/answers.ts'
import { pace } from '../pace.ts'
import { answerKey, retryFirst, useAnswer } from '../queries.ts'

export type StoryAnswer = Answers['GET /stories/{id}']
export type StoryJob = StoryAnswer['jobs'][number]

export type PaymentStory = {
  /** The latest, oldest first. There are others before them while the query has a next page. */
  entries: TimelineEntry[]
  /** Those that were open at some time since the first entry. */
  jobs: StoryJob[]
  /** Of the events since the first entry. */
  deliveries: StoryAnswer['deliveries']
  /** Of what each event is: the payment, a refund or a dispute; by the event's id. */
  about: Map<string, string>
  refunds: Refund[]
  disputes: Dispute[]
}
export type StoryQuery = UseInfiniteQueryResult<PaymentStory>

/** A page of the timeline with what belongs to the same stretch of time. */
type StoryPage = Pick<StoryAnswer, 'jobs' | 'deliveries' | 'events'> & {
  entries: TimelineEntry[]
  /** Where the page before it ends; undefined: there is none. */
  since: string | undefined
}
type StoryData = { page: StoryPage; parts: Pick<PaymentStory, 'refunds' | 'disputes'> | null }

const LIMIT = 100
const UNDER_WAY = ['pending', 'capturing', 'canceling']

/** Whether something happens by itself soon: then it is looked at every second. */
function isUnderWay(payment: Payment | undefined, story: PaymentStory | undefined): boolean {
  if (payment !== undefined && UNDER_WAY.includes(payment.status)) return true
  return (
    story !== undefined &&
    (story.jobs.some(({ run_at }) => run_at !== null) ||
      story.refunds.some(({ status }) => status === 'pending'))
  )
}

/** How often what is shown is read again. */
const everyMs = (under_way: boolean) => (under_way ? 1000 : 10_000)

/** The payment and its story. */
export function usePaymentStory(id: string | undefined) {
  const enabled = id !== undefined
  const path = `/v1/payments/${id ?? ''}` as const
  const [payment_key, story_key] = [answerKey(path), answerKey(`${path}/story`)]
  const story: StoryQuery = useInfiniteQuery({
    queryKey: story_key,
    queryFn: ({ pageParam, signal }) => readStory(id!, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ page }) => page.since,
    select: together,
    enabled,
    refetchInterval: ({ state }) =>
      pace(everyMs(isUnderWay(undefined, state.data && together(state.data))), state),
    retry: retryFirst(story_key),
  })
  const payment = useQuery({
    queryKey: payment_key,
    queryFn: ({ signal }) => read<Payment>(path, undefined, signal),
    enabled,
    refetchInterval: ({ state }) => pace(everyMs(isUnderWay(state.data, story.data)), state),
    retry: retryFirst(payment_key),
  })
  return { payment, story }
}

/** The last entries before `before` with all that is of the same time; with the latest also what there is of it now. */
async function readStory(id: string, before: string | undefined, signal: AbortSignal): Promise<StoryData> {
  const path = `/v1/payments/${id}` as const
  async function readPageOfStory(): Promise<StoryPage> {
    const { rows, next } = await readPage<TimelineEntry>(`${path}/timeline`, { before, limit: LIMIT }, signal)
    const since = next?.['before']
    const of = await read<StoryAnswer>(`/stories/${id}`, { since, before }, signal)
    return { ...of, entries: rows, since }
  }
  async function readParts() {
    const [refunds, disputes] = await Promise.all([
      readPage<Refund>(`${path}/refunds`, { limit: LIMIT }, signal),
      readPage<Dispute>('/v1/disputes', { payment_id: id, limit: LIMIT }, signal),
    ])
    return { refunds: refunds.rows, disputes: disputes.rows }
  }
  const [page, parts] = await Promise.all([readPageOfStory(), before === undefined ? readParts() : null])
  return { page, parts }
}

/** The pages as one; the latest comes first. A job can be in several. */
function together({ pages }: InfiniteData<StoryData>): PaymentStory {
  const all = pages.map(({ page }) => page).toReversed()
  const jobs = new Map(all.flatMap((page) => page.jobs).map((job) => [job.id, job]))
  return {
    entries: all.flatMap((page) => page.entries),
    jobs: [...jobs.values()],
    deliveries: all.flatMap((page) => page.deliveries),
    about: new Map(all.flatMap((page) => page.events).map(({ id, about_id }) => [id, about_id])),
    ...(pages[0]?.parts ?? { refunds: [], disputes: [] }),
  }
}

/** One refund or dispute, read again while its payment's story goes on. */
export function usePart<T extends Refund | Dispute>(path: PathTo<T>) {
  return useAnswer<T>(path, undefined, { every_ms: 3000 })
}
