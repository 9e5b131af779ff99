// Everything that is known of how a payment came to be as it is: read together, and again while something is under way.
import type { Dispute, FeedEvent, Payment, Refund, TimelineEntry } from '#sdk/index.ts'
import { useQuery } from '@tanstack/react-query'
import { read, readPage, type PathTo } from '../api.ts'
import type { Answers } from '../generated/answers.ts'
import { answerKey, useAnswer } from '../queries.ts'

type StoryAnswer = Answers['GET /stories/{id}']
export type StoryJob = StoryAnswer['jobs'][number]
export type StoryDelivery = StoryAnswer['deliveries'][number]

export type PaymentStory = {
  entries: TimelineEntry[]
  jobs: StoryJob[]
  deliveries: StoryDelivery[]
  /** Of what each event is: the payment, a refund or a dispute; by the event's id. */
  about: Map<string, string>
  refunds: Refund[]
  disputes: Dispute[]
  /** Not all of its entries are here: there were more than a page. */
  is_part: boolean
}

/** Entries and events of one page; a payment has hardly ever more. */
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
  const story = useQuery({
    queryKey: answerKey(`${path}/story`),
    queryFn: ({ signal }) => readStory(id!, signal),
    enabled,
    refetchInterval: ({ state }) => everyMs(isUnderWay(undefined, state.data)),
  })
  const payment = useQuery({
    queryKey: answerKey(path),
    queryFn: ({ signal }) => read<Payment>(path, undefined, signal),
    enabled,
    refetchInterval: ({ state }) => everyMs(isUnderWay(state.data, story.data)),
  })
  return { payment, story }
}

async function readStory(id: string, signal: AbortSignal): Promise<PaymentStory> {
  const path = `/v1/payments/${id}` as const
  const [timeline, { jobs, deliveries }, events, refunds, disputes] = await Promise.all([
    readPage<TimelineEntry>(`${path}/timeline`, { limit: LIMIT }, signal),
    read<StoryAnswer>(`/stories/${id}`, undefined, signal),
    readPage<FeedEvent>(`${path}/events`, { limit: LIMIT }, signal),
    readPage<Refund>(`${path}/refunds`, { limit: LIMIT }, signal),
    readPage<Dispute>('/v1/disputes', { payment_id: id, limit: LIMIT }, signal),
  ])
  return {
    entries: timeline.rows,
    is_part: timeline.rows.length >= LIMIT,
    jobs,
    deliveries,
    about: new Map(events.rows.map((event) => [event.id, idOf(event)])),
    refunds: refunds.rows,
    disputes: disputes.rows,
  }
}

/** What an event is of: refunds are announced with their own id, disputes with that of the payment. */
function idOf({ data, subject_id, type }: FeedEvent): string {
  const { id, dispute } = Object(data) as { id?: unknown; dispute?: { id?: unknown } | null }
  if (type.startsWith('payment.dispute') && typeof dispute?.id === 'string') return dispute.id
  return typeof id === 'string' ? id : subject_id
}

/** One refund or dispute, read again while its payment's story goes on. */
export function usePart<T extends Refund | Dispute>(path: PathTo<T>) {
  return useAnswer<T>(path, undefined, { every_ms: 3000 })
}
