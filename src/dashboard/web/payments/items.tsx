// Builds the timeline of a payment: entries as sentences, with their changes.
import type { Payment, TimelineEntry } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { formatDuration } from '../kit/Instant.tsx'
import { humanize } from '../kit/statuses.ts'
import { entryItem, KIND_ICONS } from '../timeline/items.tsx'
import type { TimelineItem } from '../timeline/Timeline.tsx'
import { attemptSentences, byTime, deliveryItem, dueText, providerItem } from '../timeline/parts.tsx'
import type { PaymentTimelineData, TimelineJob } from './timeline.ts'
import {
  amountOfJob,
  neededBuyerAction,
  EVENT_TEXTS,
  jobText,
  moneyOf,
  processorName,
  MAJOR_EVENTS,
} from './texts.ts'

type TimelineContext = {
  payment: Payment
  timeline: PaymentTimelineData
  now: number
  /** The time of the page's clock, which deadlines are compared with. */
  clock_now: number
  is_operator: boolean
  paused: boolean
  /** Whether all entries are loaded, back to the first. */
  is_complete: boolean
}

/** A refund or a dispute: its id, its id at the processor, and its creation time. */
export type TimelineChild = { id: string; reference: string | null; since: string }

/** The first entry of a payment, while the page with that entry is not loaded. */
export const requestItem = (payment: Payment): TimelineItem => ({
  id: 'request',
  at: payment.created_at,
  icon: KIND_ICONS.event,
  name: `Payment of ${moneyOf(payment)} requested`,
})

/** The entries, oldest first. `child` selects those of one refund or dispute. Default: all. */
export function timelineItems(context: TimelineContext, child?: TimelineChild): TimelineItem[] {
  const { timeline } = context
  const since = context.is_complete ? '' : (timeline.entries[0]?.at ?? '')
  const jobs =
    child === undefined ? timeline.jobs : timeline.jobs.filter(({ refund_id }) => refund_id === child.id)
  const job_ids = new Set(jobs.map(({ id }) => id))
  const isOfChild = (entry: TimelineEntry): boolean => {
    if (child === undefined) return true
    const { job_id, subject_id, object_id, event_id } = entry.details
    if (entry.kind === 'posting') return subject_id === child.id
    if (entry.kind === 'notification') return object_id === child.reference
    if (entry.kind === 'event') return timeline.resource_of_event.get(String(event_id)) === child.id
    return job_ids.has(String(job_id))
  }
  const deliveries = timeline.deliveries.filter(
    ({ event_id }) => child === undefined || timeline.resource_of_event.get(event_id) === child.id,
  )
  return [
    ...timeline.entries.filter(isOfChild).map((entry) => paymentEntryItem(context, entry)),
    ...jobs
      .filter(({ created_at, run_at }) => created_at >= since || run_at !== null)
      .map((job) => jobItem(context, job)),
    ...deliveries.map((each) => deliveryItem(each, context.clock_now)),
  ].toSorted(byTime)
}

/** An entry of any timeline, with texts for payments. */
function paymentEntryItem(context: TimelineContext, entry: TimelineEntry): TimelineItem {
  const item = entryItem(entry)
  switch (entry.kind) {
    case 'attempt':
      return { ...item, ...attemptFields(context, entry) }
    case 'provider_call':
    case 'notification':
    case 'posting':
      return providerItem(entry, processorName(context.payment.processor))
    default:
      return { ...item, ...eventFields(context, entry) }
  }
}

function eventFields({ payment, timeline }: TimelineContext, { name, details }: TimelineEntry) {
  const event_id = String(details['event_id'])
  const refund = timeline.refunds.find(({ id }) => id === timeline.resource_of_event.get(event_id))
  const amount = name === 'payment.created' ? moneyOf(payment) : refund && moneyOf(refund)
  const text = EVENT_TEXTS[name] ?? humanize(name)
  return {
    name:
      amount !== undefined && name.endsWith('.created')
        ? text.replace(' requested', ` of ${amount} requested`)
        : text,
    note: name,
    is_major: MAJOR_EVENTS.has(name),
    links: (
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

function attemptFields(context: TimelineContext, entry: TimelineEntry) {
  const { payment, timeline, is_operator } = context
  const { name, details, outcome } = entry
  const job = timeline.jobs.find(({ id }) => id === details['job_id'])
  const amount = amountOfJob(payment, timeline, { name, refund_id: job?.refund_id ?? null })
  const at = processorName(payment.processor)
  const ended_at = typeof details['ended_at'] === 'string' ? details['ended_at'] : null
  const attempt = Number(details['attempt'])
  const next = nextAttemptText(context, job, attempt)
  const waits_for_buyer = name === 'payment.authorize' && payment.status === 'requires_action'
  const done =
    name === 'payment.authorize' && neededBuyerAction(timeline)
      ? `${at} accepted the request; no money ${waits_for_buyer ? 'is' : 'was'} on hold yet`
      : `${jobText(name, 'done', amount)} at ${at}`
  const forms = {
    at,
    done,
    to_do: jobText(name, 'to_do', amount),
    resource: jobText(name, 'resource', amount),
  }
  const sentences = attemptSentences(forms, next, details)
  const found = outcome === null ? undefined : sentences[outcome]
  const [text, changed] = found ?? [
    ended_at === null && job?.state === 'running'
      ? `${jobText(name, 'doing', amount)} at ${at}`
      : `The worker stopped before ${at} responded`,
  ]
  return {
    name: text,
    note: attempt > 1 ? `${name}, attempt ${attempt}` : name,
    ended_at:
      ended_at ?? (outcome === null && job?.state === 'running' ? new Date(context.now).toISOString() : null),
    outcome:
      outcome === 'done' && waits_for_buyer
        ? 'requires_action'
        : (outcome ?? (job?.state === 'running' ? 'running' : 'lost')),
    changed,
    // Of repeated failures, only the first and the last are major.
    is_major:
      attempt === 1 ||
      attempt === job?.attempt ||
      !['retry', 'ambiguous', 'returned'].includes(outcome ?? ''),
    links: is_operator && typeof details['job_id'] === 'string' && (
      <Link to="/ops/jobs/$id" params={{ id: details['job_id'] }}>
        Job
      </Link>
    ),
  }
}

/** The time of the next attempt: ` in 2 s`, or ` 2 s later` if it already happened. */
function nextAttemptText(
  { timeline, clock_now }: TimelineContext,
  job: TimelineJob | undefined,
  attempt: number,
): string {
  if (job === undefined) return ''
  const attemptEntry = (at: number) =>
    timeline.entries.find(
      ({ kind, details }) => kind === 'attempt' && details['job_id'] === job.id && details['attempt'] === at,
    )
  const [before, after] = [attemptEntry(attempt), attemptEntry(attempt + 1)]
  if (after !== undefined && before !== undefined) {
    const ended = before.details['ended_at']
    return ` ${formatDuration(Date.parse(after.at) - Date.parse(typeof ended === 'string' ? ended : before.at))} later`
  }
  return job.run_at === null ? '' : dueText(job.run_at, clock_now)
}

/** The entry of a job: from its request to its first attempt. */
function jobItem(
  { payment, timeline, now, clock_now, is_operator, paused }: TimelineContext,
  job: TimelineJob,
): TimelineItem {
  const amount = amountOfJob(payment, timeline, job)
  const first = timeline.entries.find(
    ({ kind, details }) => kind === 'attempt' && details['job_id'] === job.id,
  )
  const waits = first === undefined && job.run_at !== null
  const context = job.name === 'payment.capture' || job.name === 'payment.cancel'
  return {
    id: `job-${job.id}`,
    at: job.created_at,
    ended_at: first?.at ?? (waits ? new Date(now).toISOString() : null),
    icon: KIND_ICONS.job,
    name: context
      ? jobText(job.name, 'requested', amount)
      : `The ${jobText(job.name, 'resource', amount)} waited for a worker`,
    note: waits
      ? `waits ${paused ? 'until its queue is resumed' : `for a worker, due${dueText(job.run_at!, clock_now)}`}`
      : context
        ? 'then waited for a worker'
        : job.name,
    outcome: waits ? 'queued' : null,
    // The request of any other job is already shown by the entry of an event, such as `refund.created`.
    is_major: waits || context,
    links: is_operator && (
      <Link to="/ops/jobs/$id" params={{ id: job.id }}>
        Job
      </Link>
    ),
    details: job,
  }
}
