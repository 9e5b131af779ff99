// The story of a payment as entries of the waterfall: in sentences, with what each changed.
import type { Payment, TimelineEntry } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { formatDuration } from '../kit/Instant.tsx'
import { inWords } from '../kit/statuses.ts'
import { entryItem, KIND_ICONS } from '../timeline/items.tsx'
import type { TimelineItem } from '../timeline/Timeline.tsx'
import {
  attemptSentences,
  byTime,
  deliveryItem,
  inTime,
  isInDoubt,
  providerItem,
} from '../timeline/story-parts.tsx'
import type { PaymentStory, StoryJob } from './story.ts'
import {
  amountOfJob,
  askedBuyer,
  EVENT_WORDS,
  jobWords,
  moneyOf,
  processorName,
  TELLING_EVENTS,
} from './words.ts'

type Told = {
  payment: Payment
  story: PaymentStory
  now: number
  is_operator: boolean
  paused: boolean
  /** Nothing happened before its first entry. */
  is_whole: boolean
}

/** A refund or a dispute, with its id at the processor and when it began. */
export type StoryPart = { id: string; reference: string | null; since: string }

/** How a payment began, where the entry that says so is not read yet. */
export const requestItem = (payment: Payment): TimelineItem => ({
  id: 'request',
  at: payment.created_at,
  icon: KIND_ICONS.event,
  name: `Payment of ${moneyOf(payment)} requested`,
})

/** Oldest first. `part` keeps what is of one refund or dispute; left out, all of the payment is told. */
export function storyItems(told: Told, part?: StoryPart): TimelineItem[] {
  const { story } = told
  const since = told.is_whole ? '' : (story.entries[0]?.at ?? '')
  const jobs = part === undefined ? story.jobs : story.jobs.filter(({ refund_id }) => refund_id === part.id)
  const known = new Set(jobs.map(({ id }) => id))
  const isOfPart = (entry: TimelineEntry): boolean => {
    if (part === undefined) return true
    const { job_id, subject_id, object_id, event_id } = entry.details
    if (entry.kind === 'posting') return subject_id === part.id
    if (entry.kind === 'notification') return object_id === part.reference
    if (entry.kind === 'event') return story.about.get(String(event_id)) === part.id
    return known.has(String(job_id))
  }
  const deliveries = story.deliveries.filter(
    ({ event_id }) => part === undefined || story.about.get(event_id) === part.id,
  )
  return [
    ...story.entries.filter(isOfPart).map((entry) => toldItem(told, entry)),
    ...jobs
      .filter(({ created_at, run_at }) => created_at >= since || run_at !== null)
      .map((job) => jobItem(told, job)),
    ...deliveries.map(deliveryItem),
  ].toSorted(byTime)
}

/** An entry as any timeline shows it, in the words of a payment. */
function toldItem(told: Told, entry: TimelineEntry): TimelineItem {
  const item = entryItem(entry)
  switch (entry.kind) {
    case 'attempt':
      return { ...item, ...attemptParts(told, entry) }
    case 'provider_call':
    case 'notification':
    case 'posting':
      return providerItem(entry, processorName(told.payment.processor))
    default:
      return { ...item, ...eventParts(told, entry) }
  }
}

function eventParts({ payment, story }: Told, { name, details }: TimelineEntry) {
  const event_id = String(details['event_id'])
  const refund = story.refunds.find(({ id }) => id === story.about.get(event_id))
  const amount = name === 'payment.created' ? moneyOf(payment) : refund && moneyOf(refund)
  const words = EVENT_WORDS[name] ?? inWords(name)
  return {
    name:
      amount !== undefined && name.endsWith('.created')
        ? words.replace(' requested', ` of ${amount} requested`)
        : words,
    note: name,
    matters: TELLING_EVENTS.has(name),
    more: (
      <>
        <Link to="/events/$id" params={{ id: event_id }}>
          Event
        </Link>
        {refund !== undefined && (
          <Link to="/refunds/$id" params={{ id: refund.id }}>
            Refund
          </Link>
        )}
      </>
    ),
  }
}

function attemptParts(told: Told, entry: TimelineEntry) {
  const { payment, story, is_operator } = told
  const { name, details, outcome } = entry
  const job = story.jobs.find(({ id }) => id === details['job_id'])
  const amount = amountOfJob(payment, story, { name, refund_id: job?.refund_id ?? null })
  const at = processorName(payment.processor)
  const ended_at = typeof details['ended_at'] === 'string' ? details['ended_at'] : null
  const attempt = Number(details['attempt'])
  const next = nextWords(told, job, attempt)
  const waits_for_buyer = name === 'payment.authorize' && payment.status === 'requires_action'
  const done =
    name === 'payment.authorize' && askedBuyer(story)
      ? `${at} accepted the request; nothing ${waits_for_buyer ? 'is' : 'was'} held yet`
      : `${jobWords(name, 'done', amount)} at ${at}`
  const forms = { at, done, to_do: jobWords(name, 'to_do', amount), noun: jobWords(name, 'noun', amount) }
  const in_doubt = isInDoubt(story, entry)
  const sentences = attemptSentences(forms, { next, in_doubt }, details['error'])
  const found = outcome === null ? undefined : sentences[outcome]
  const [words, changed] = found ?? [
    ended_at === null && job?.state === 'running'
      ? `${jobWords(name, 'doing', amount)} at ${at}`
      : `The worker was lost before ${at} answered`,
  ]
  return {
    name: words,
    note: attempt > 1 ? `${name}, attempt ${attempt}` : name,
    ended_at:
      ended_at ?? (outcome === null && job?.state === 'running' ? new Date(told.now).toISOString() : null),
    outcome:
      outcome === 'done' && waits_for_buyer
        ? 'requires_action'
        : (outcome ?? (job?.state === 'running' ? 'running' : 'lost')),
    changed,
    // Of many tries that came to nothing the first and the last are enough.
    matters:
      attempt === 1 ||
      attempt === job?.attempt ||
      !['retry', 'ambiguous', 'returned'].includes(outcome ?? ''),
    more: is_operator && typeof details['job_id'] === 'string' && (
      <Link to="/ops/jobs/$id" params={{ id: details['job_id'] }}>
        Job
      </Link>
    ),
  }
}

/** When the next attempt follows: ` in 2 s`, or ` 2 s later` where that was. */
function nextWords({ story, now }: Told, job: StoryJob | undefined, attempt: number): string {
  if (job === undefined) return ''
  const mine = (at: number) =>
    story.entries.find(
      ({ kind, details }) => kind === 'attempt' && details['job_id'] === job.id && details['attempt'] === at,
    )
  const [before, after] = [mine(attempt), mine(attempt + 1)]
  if (after !== undefined && before !== undefined) {
    const ended = before.details['ended_at']
    return ` ${formatDuration(Date.parse(after.at) - Date.parse(typeof ended === 'string' ? ended : before.at))} later`
  }
  return job.run_at === null ? '' : inTime(job.run_at, now)
}

/** A job as what was asked for, and how long it then waited for its first attempt. */
function jobItem({ payment, story, now, is_operator, paused }: Told, job: StoryJob): TimelineItem {
  const amount = amountOfJob(payment, story, job)
  const first = story.entries.find(({ kind, details }) => kind === 'attempt' && details['job_id'] === job.id)
  const waits = first === undefined && job.run_at !== null
  const told = job.name === 'payment.capture' || job.name === 'payment.cancel'
  return {
    id: `job-${job.id}`,
    at: job.created_at,
    ended_at: first?.at ?? (waits ? new Date(now).toISOString() : null),
    icon: KIND_ICONS.job,
    name: told
      ? jobWords(job.name, 'asked', amount)
      : `The ${jobWords(job.name, 'noun', amount)} waited for a worker`,
    note: waits
      ? `waits ${paused ? 'until its queue is resumed' : `for a worker, due${inTime(job.run_at!, now)}`}`
      : told
        ? 'then waited for a worker'
        : job.name,
    outcome: waits ? 'queued' : null,
    // Of the others an event tells that they were asked for.
    matters: waits || told,
    more: is_operator && (
      <Link to="/ops/jobs/$id" params={{ id: job.id }}>
        Job
      </Link>
    ),
    details: job,
  }
}
