// Builds the timelines of payouts, top-ups and verifications.
import type { TimelineEntry } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import type { Answers } from '../generated/answers.ts'
import { formatDuration } from '../kit/Instant.tsx'
import { humanize } from '../kit/statuses.ts'
import { entryItem, KIND_ICONS } from './items.tsx'
import { attemptSentences, byTime, deliveryItem, dueText, providerItem } from './parts.tsx'
import type { RowJobTexts, RowTexts } from './row-texts.ts'
import type { TimelineItem } from './Timeline.tsx'

type TimelineAnswer = Answers['GET /timelines/{id}']
/** A page of a timeline, with jobs and deliveries of the same period. */
export type TimelinePage = {
  entries: TimelineEntry[]
  jobs: TimelineAnswer['jobs']
  deliveries: TimelineAnswer['deliveries']
}

/** The entries, oldest first. `at`: the provider's display name. `clock_now`: the time of the page's clock. */
export function rowItems(
  { entries, jobs, deliveries }: TimelinePage,
  texts: RowTexts,
  context: { at: string; now: number; clock_now: number; is_operator: boolean },
): TimelineItem[] {
  const { at, now, clock_now, is_operator } = context
  const jobs_by_id = new Map(jobs.map((job) => [job.id, job]))
  const attempted = new Set(
    entries.map(({ kind, details }) => (kind === 'attempt' ? details['job_id'] : null)),
  )
  const items = entries.map((entry): TimelineItem => {
    const item = entryItem(entry)
    const job_id = String(entry.details['job_id'])
    const job = jobs_by_id.get(job_id)
    switch (entry.kind) {
      case 'attempt':
        return {
          ...item,
          ...attemptFields(entry, texts, {
            entries,
            job,
            at,
            now,
            clock_now,
          }),
          links: is_operator && (
            <Link to="/ops/jobs/$id" params={{ id: job_id }}>
              Job
            </Link>
          ),
        }
      case 'provider_call':
      case 'notification':
      case 'posting':
        return providerItem(entry, at)
      default:
        return {
          ...item,
          name: texts.events[entry.name] ?? item.name,
          note: entry.name,
          is_major: entry.name in texts.events,
          links: (
            <Link to="/events/$id" params={{ id: String(entry.details['event_id']) }}>
              Event
            </Link>
          ),
        }
    }
  })
  const waiting = jobs
    .filter(({ id, run_at }) => run_at !== null && !attempted.has(id))
    .map((job) => waitingItem(job, texts, context))
  return [...items, ...waiting, ...deliveries.map((each) => deliveryItem(each, clock_now))].toSorted(byTime)
}

function attemptFields(
  { name, details, outcome, at: began_at }: TimelineEntry,
  texts: RowTexts,
  {
    entries,
    job,
    at,
    now,
    clock_now,
  }: {
    entries: TimelineEntry[]
    job: TimelineAnswer['jobs'][number] | undefined
    at: string
    now: number
    clock_now: number
  },
) {
  const { done, to_do, doing } = texts.jobs[name] ?? defaultJobTexts(name)
  const attempt = Number(details['attempt'])
  const ended_at = typeof details['ended_at'] === 'string' ? details['ended_at'] : null
  const after = entries.find(
    (each) =>
      each.kind === 'attempt' &&
      each.details['job_id'] === details['job_id'] &&
      each.details['attempt'] === attempt + 1,
  )
  const next =
    after !== undefined
      ? ` ${formatDuration(Date.parse(after.at) - Date.parse(ended_at ?? began_at))} later`
      : typeof job?.run_at === 'string'
        ? dueText(job.run_at, clock_now)
        : ''
  const sentences = attemptSentences(
    { at, done: `${done} at ${at}`, to_do, resource: `job: ${to_do}` },
    next,
    details,
  )
  const is_running = outcome === null && job?.state === 'running'
  const [sentence, changed] = (outcome === null ? undefined : sentences[outcome]) ?? [
    is_running ? `${doing} at ${at}` : `The worker stopped before ${at} responded`,
  ]
  return {
    name: sentence,
    note: attempt > 1 ? `${name}, attempt ${attempt}` : name,
    ended_at: ended_at ?? (is_running ? new Date(now).toISOString() : null),
    outcome: outcome ?? (is_running ? 'running' : 'lost'),
    changed,
    // Of repeated failures, only the first and the last are major.
    is_major:
      attempt === 1 || after === undefined || !['retry', 'ambiguous', 'returned'].includes(outcome ?? ''),
  }
}

function waitingItem(
  job: TimelineAnswer['jobs'][number],
  texts: RowTexts,
  { now, clock_now }: { now: number; clock_now: number },
): TimelineItem {
  const { to_do } = texts.jobs[job.name] ?? defaultJobTexts(job.name)
  return {
    id: `job-${job.id}`,
    at: job.created_at,
    ended_at: new Date(now).toISOString(),
    icon: KIND_ICONS.job,
    name: `Waits for a worker: ${to_do}`,
    note: `due${dueText(job.run_at ?? job.created_at, clock_now)}`,
    outcome: 'queued',
    details: job,
  }
}

function defaultJobTexts(name: string): RowJobTexts {
  const texts = humanize(name)
  return { done: texts, to_do: texts.toLowerCase(), doing: texts }
}
