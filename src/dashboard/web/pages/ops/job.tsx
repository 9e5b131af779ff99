// One job: its state, next run, attempts, provider calls and operator acts, and the resource that it works on.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { usePathParam } from '../../address.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Facts } from '../../kit/Facts.tsx'
import { ErrorPage } from '../../kit/ErrorPage.tsx'
import { Id } from '../../kit/Id.tsx'
import { formatDuration, formatInstant, Instant, useNow } from '../../kit/Instant.tsx'
import { Json } from '../../kit/Json.tsx'
import { singlePageList } from '../../kit/list.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { allowsAct, JOB_ACT_KINDS, JOB_ACTS } from '../../operations/job-acts.ts'
import { JobActDialog, type JobActTarget } from '../../operations/JobActDialog.tsx'
import { ResolveDialog } from '../../operations/ResolveDialog.tsx'
import type { JobDetails } from '../../operations/shapes.ts'
import { DeliveryLink, JobResource } from '../../operations/JobResource.tsx'
import { useAnswer } from '../../queries.ts'
import { attemptName, CALL_NAME, KIND_ICONS, REPLACED_TEXT } from '../../timeline/items.tsx'
import { Timeline, type TimelineItem } from '../../timeline/Timeline.tsx'
import { JobState } from './jobs.tsx'

const PAUSED_TEXT = 'The queue is paused. The job continues when the queue is resumed.'

type CallRow = JobDetails['calls'][number]

const CALLS: TableColumn<CallRow>[] = [
  { title: 'Operation', cell: ({ operation }) => <span className="mono">{operation}</span> },
  { title: 'Key', cell: ({ key }) => <Id id={key} label="key" short /> },
  { title: 'First sent', cell: ({ first_sent_at }) => <Instant at={first_sent_at} none="not sent" /> },
  { title: 'Last sent', cell: ({ last_sent_at }) => <Instant at={last_sent_at} /> },
  {
    title: 'Outcome',
    cell: ({ outcome, refused_since }) =>
      refused_since === null ? (
        outcome === null ? (
          '–'
        ) : (
          <Status status={outcome} />
        )
      ) : (
        <span className="inline">
          <Status status="refused" /> since <Instant at={refused_since} />
        </span>
      ),
  },
  {
    title: 'Reference',
    cell: ({ provider_reference }) =>
      provider_reference === null ? '–' : <Id id={provider_reference} label="reference" short />,
  },
]

export function JobPage() {
  const id = usePathParam('id')
  const query = useAnswer<JobDetails>(`/ops/jobs/${id}`, undefined, { interval_ms: 2_000 })
  const { data: job, error, refetch } = query
  const [target, setTarget] = useState<JobActTarget>()
  const [resolving, setResolving] = useState(false)
  const now = useNow()
  const parent = { to: '/ops/jobs', title: 'Jobs' }
  if (error !== null && job === undefined)
    return <ErrorPage title="Job" parent={parent} error={error} retry={refetch} />
  const kinds = [...JOB_ACT_KINDS, 'resolve' as const]
  const acts = kinds.filter((act) => job !== undefined && allowsAct(job, act, now))
  return (
    <>
      <PageHeader
        title={job?.name ?? 'Job'}
        heading={
          <span className="inline">
            {job?.name ?? 'Job'} {job && <JobState job={job} pill />}
          </span>
        }
        parent={parent}
        read={query}
        description={<Id id={id} />}
        actions={acts.map((act) => {
          const Icon = JOB_ACTS[act].icon
          return (
            <Button
              key={act}
              leftSection={<Icon size={14} />}
              onClick={() => (act === 'resolve' ? setResolving(true) : job && setTarget({ act, job }))}
            >
              {JOB_ACTS[act].title}
            </Button>
          )
        })}
      />
      {job && <JobSummary job={job} now={now} />}
      <div className="columns">
        <div>
          <section className="section">
            <h2>Attempts</h2>
            {job !== undefined && timelineItems(job).length === 0 && <p className="dim">None yet.</p>}
            {job && <Timeline items={timelineItems(job)} label="Attempts" />}
          </section>
          <section className="section">
            <h2>Provider calls</h2>
            <DataTable
              label="Provider calls"
              list={singlePageList(query, job?.calls)}
              columns={CALLS}
              rowKey={({ generation }) => String(generation)}
              paged={false}
              empty={<EmptyState title="No provider calls" />}
            />
          </section>
        </div>
        <div>
          <JobResource job={job} />
          <h2 className="side-title">Job</h2>
          <JobFacts job={job} />
          <h2 className="side-title">Payload</h2>
          <Json value={job?.payload ?? {}} label="payload" />
        </div>
      </div>
      <JobActDialog target={target} close={() => setTarget(undefined)} />
      {job && <ResolveDialog job={job} opened={resolving} onClose={() => setResolving(false)} />}
    </>
  )
}

function JobFacts({ job }: { job: JobDetails | undefined }) {
  return (
    <Facts
      facts={{
        Queue: job && <Link to={`/ops/queues/${job.queue}`}>{job.queue}</Link>,
        Tenant: job && (
          <Link to="/ops/jobs" search={{ tenant: job.tenant ?? job.tenant_id, state: 'all' }}>
            {job.tenant ?? job.tenant_id}
          </Link>
        ),
        // Each attempt of a delivery is a separate job.
        Attempt:
          job && (job.delivery === null ? `${job.attempt} of ${job.max_attempts}` : String(job.attempt)),
        'Next run': job && (job.finished_at === null ? <NextRun job={job} /> : null),
        Worker: job && (job.worker ?? null),
        'Lease until':
          job && (job.state === 'running' && job.lease_until ? <Instant at={job.lease_until} /> : null),
        'Unknown since': job?.unknown_since ? <Instant at={job.unknown_since} /> : null,
        Request: job && (job.request_id === null ? null : <Id id={job.request_id} label="request id" />),
        Created: job && <Instant at={job.created_at} />,
        Finished: job && (job.finished_at === null ? null : <Instant at={job.finished_at} />),
      }}
    />
  )
}

function JobSummary({ job, now }: { job: JobDetails; now: number }) {
  return (
    <p className="job-summary">
      {job.delivery === null ? (
        summaryOf(job, now)
      ) : (
        <>
          {attemptSummary(job, job.delivery, now)} <DeliveryLink job={job} id={job.delivery.id} />
        </>
      )}
    </p>
  )
}

/** The outcome of an attempt. A declined delivery counts as failed: the receiver rejected it or was unreachable. */
function outcomeOf({ delivery }: JobDetails, { outcome, ended_at }: JobDetails['attempts'][number]) {
  if (outcome === 'declined' && delivery !== null) return 'failed'
  return outcome ?? (ended_at === null ? 'running' : null)
}

function NextRun({ job }: { job: JobDetails }) {
  if (job.parked) return <>When an operator acts</>
  if (job.state === 'running') return <>Running now</>
  if (job.paused) return <>When the queue is resumed</>
  if (job.run_at === null) return <>–</>
  return (
    <>
      {formatInstant(job.run_at)} (<Instant at={job.run_at} />)
    </>
  )
}

/** What happened, the system's next step, and what an operator can do. */
function summaryOf(job: JobDetails, now: number): string {
  const failed = job.error === null ? '' : `The last attempt failed: ${job.error.replace(/\.$/, '')}. `
  if (job.state === 'succeeded') return 'The job succeeded.'
  if (job.state === 'failed')
    return `The job failed permanently. ${failed}To try again, repeat the request on the page of its resource.`
  if (job.state === 'discarded') return `The job was discarded without being done. ${failed}`
  if (job.parked)
    return `${failed}The job waits for an operator: retry it or ${job.call?.under_way === true && job.unknown_since !== null ? 'resolve' : 'discard'} it.`
  if (job.unknown_since !== null)
    return `${job.paused ? `${PAUSED_TEXT} ` : ''}It is unknown whether the call took effect at the provider. ${failed}The effect is looked up until it is known. If the provider has lists and they do not contain the effect for some minutes, the call is sent again with a new key. Otherwise check the effect at the provider and resolve the job.`
  if (job.state === 'running') return 'The job is running.'
  if (job.paused) return failed + PAUSED_TEXT
  const due = job.run_at === null || Date.parse(job.run_at) <= now
  const next = due
    ? 'The job is due and starts when a worker is free.'
    : `The job runs next at ${formatInstant(job.run_at!)}.`
  return failed + next
}

/** The summary of one attempt of a delivery. Other attempts are other jobs. */
function attemptSummary(job: JobDetails, delivery: NonNullable<JobDetails['delivery']>, now: number): string {
  if (job.finished_at === null) return summaryOf(job, now)
  if (job.state === 'succeeded') return 'This attempt was delivered.'
  const reason = job.error === null ? '' : `: ${job.error.replace(/\.$/, '')}`
  const failed =
    job.state === 'failed' ? `This attempt failed${reason}.` : `This attempt was discarded${reason}.`
  return `${failed} ${deliveryOutlook(delivery, now)}`
}

function deliveryOutlook(
  { status, next_attempt_at }: NonNullable<JobDetails['delivery']>,
  now: number,
): string {
  if (status === 'delivered') return 'Another attempt was delivered.'
  if (status === 'skipped') return 'The delivery was skipped: nothing more is sent.'
  if (status !== 'pending') return 'This was the last attempt: the delivery is not retried automatically.'
  if (next_attempt_at === null) return 'The next attempt is in progress.'
  const ms = Date.parse(next_attempt_at) - now
  return ms < 1_000 ? 'The next attempt is due now.' : `The next attempt is in ${formatDuration(ms)}.`
}

function timelineItems(job: JobDetails): TimelineItem[] {
  const attempts = job.attempts.map((attempt): TimelineItem => ({
    id: `attempt ${attempt.attempt} ${attempt.started_at}`,
    at: attempt.started_at,
    ended_at: attempt.ended_at,
    icon: KIND_ICONS.attempt,
    name: attemptName(attempt.attempt),
    note: attempt.worker,
    outcome: outcomeOf(job, attempt),
    ...(attempt.error !== null && { changed: attempt.error }),
    details: attempt,
  }))
  const calls = job.calls.flatMap((call): TimelineItem[] =>
    call.first_sent_at === null
      ? []
      : [
          {
            id: `call ${call.generation}`,
            at: call.first_sent_at,
            icon: KIND_ICONS.provider_call,
            name: CALL_NAME,
            note: call.operation,
            outcome: call.outcome,
            ...(call.outcome === 'rotated' && { changed: REPLACED_TEXT }),
            details: call,
          },
        ],
  )
  const acts = job.acts.map((act): TimelineItem => ({
    id: `act ${act.at}`,
    at: act.at,
    icon: KIND_ICONS.person,
    name: act.act === 'run_now' ? 'Run now' : act.act.charAt(0).toUpperCase() + act.act.slice(1),
    note: act.actor,
    changed: `${act.before} to ${act.after}: ${act.reason}`,
    details: act,
  }))
  return [...attempts, ...calls, ...acts].toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
}
