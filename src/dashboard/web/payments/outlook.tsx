// The outlook of a payment: what happened, what happens next and when, and what a person can do.
import type { Dispute, Payment } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { formatInstant } from '../kit/Instant.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { toneClass } from '../kit/Status.tsx'
import { humanize, type Tone } from '../kit/statuses.ts'
import { useIsInSandbox } from '../sandbox/acts.ts'
import { useClockNow, useProcessorNow } from '../sandbox/clock.ts'
import { useMay, useRolesThatMay, useSession } from '../session.tsx'
import { useIsPaused } from '../operations/paused.ts'
import { dueText } from '../timeline/parts.tsx'
import type { PaymentTimelineData, TimelineJob } from './timeline.ts'
import { amountOfJob, buyerActionText, jobText, moneyOf, processorName, refundsText } from './texts.ts'

export type OutlookLine = { key: string; tone: Tone; text: ReactNode }

/** One line for each open job, the status and each dispute. */
export function PaymentOutlook({
  payment,
  timeline,
}: {
  payment: Payment
  timeline: PaymentTimelineData | undefined
}) {
  const now = useClockNow()
  const processor_now = useProcessorNow()
  const in_sandbox = useIsInSandbox()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const may_capture = useMay('capturePayment')
  const who_may = useRolesThatMay('capturePayment')
  const jobs = timeline?.jobs.filter((job) => job.run_at !== null && !isSettled(job, payment)) ?? []
  const lines = [
    ...jobs.map((job) => jobOutlook({ payment, timeline: timeline!, job, now, is_operator, paused })),
    ...(jobs.length === 0
      ? statusOutlook({ payment, timeline, processor_now, who_may: may_capture ? undefined : who_may })
      : []),
    ...(timeline?.disputes ?? []).flatMap((dispute) => disputeOutlook(dispute, { in_sandbox })),
  ]
  return <Outlook lines={lines} />
}

export function Outlook({ lines }: { lines: OutlookLine[] }) {
  return (
    <div className="stack" aria-live="polite">
      {lines.map(({ key, tone, text }) => (
        <div key={key} className={toneClass(tone, 'outlook')}>
          {text}
        </div>
      ))}
    </div>
  )
}

const REQUESTED_STATUS: Record<string, Payment['status']> = {
  'payment.authorize': 'pending',
  'payment.capture': 'capturing',
  'payment.cancel': 'canceling',
}

/** Whether a notification has already settled the payment, before the job's next attempt. */
function isSettled({ name }: TimelineJob, { status }: Payment): boolean {
  return name in REQUESTED_STATUS && REQUESTED_STATUS[name] !== status
}

/** The outlook of an open job. */
export function jobOutlook({
  payment,
  timeline,
  job,
  now,
  is_operator,
  paused,
}: {
  payment: Payment
  timeline: PaymentTimelineData
  job: TimelineJob
  /** The time of the page's clock. */
  now: number
  is_operator: boolean
  /** Whether the queue of the job is paused. */
  paused: boolean
}): OutlookLine {
  const at = processorName(payment.processor)
  const amount = amountOfJob(payment, timeline, job)
  const doing = jobText(job.name, 'doing', amount)
  const to_do = jobText(job.name, 'to_do', amount)
  const is_paused = paused && job.state !== 'running'
  const pause_text = is_paused ? 'The queue is paused. ' : ''
  const due = is_paused ? ' when it is resumed' : dueText(job.run_at ?? job.created_at, now)
  const last = timeline.entries.findLast(
    ({ kind, details, outcome }) => kind === 'attempt' && details['job_id'] === job.id && outcome !== null,
  )?.outcome
  const line = (tone: Tone, text: string): OutlookLine => ({
    key: job.id,
    tone,
    text: (
      <>
        {text}
        {is_operator && <JobLink id={job.id} />}
      </>
    ),
  })
  if (job.unknown_since !== null || last === 'unknown')
    return line(
      'unknown',
      `${pause_text}It is unknown whether ${at} did ${to_do}. It is looked up${due}, and sent again only if it did not take effect, so no money moves twice. ${is_paused ? 'If' : 'You need not do anything; if'} it stays unknown, an operator decides.`,
    )
  if (last === 'parked')
    return line('warn', `${doing} waits for an operator. Nothing is sent until the operator decides.`)
  if (last === 'misconfigured')
    return line(
      'bad',
      `${pause_text}${at} refused our credentials. An operator has to correct them. Then it is retried automatically, next${due}.`,
    )
  if (job.state === 'running') return line('pending', `${doing}: waiting for the response of ${at}.`)
  const tried = last === 'retry' || last === 'returned'
  if (last === 'ambiguous' || (tried && job.in_doubt))
    return line(
      'unknown',
      `${pause_text}${at} has not confirmed whether it did ${to_do}. It is retried with the same key${due}, so no money moves twice.${is_paused ? '' : ' You need not do anything.'}`,
    )
  if (paused)
    return line('warn', `${doing} is waiting: the queue is paused. It continues when the queue is resumed.`)
  if (tried)
    return line(
      'warn',
      `${at} did not ${to_do}, and no money moved. It is retried${due}. You need not do anything.`,
    )
  return line('pending', `${doing} is waiting for a worker and is due${due}.`)
}

function JobLink({ id }: { id: string }) {
  return (
    <>
      {' '}
      <Link to="/ops/jobs/$id" params={{ id }}>
        See the job
      </Link>
    </>
  )
}

/** The outlook of a status. `who_may`: the roles that may act, if the reader's role may not. */
function statusOutlook({
  payment,
  timeline,
  processor_now,
  who_may,
}: {
  payment: Payment
  timeline: PaymentTimelineData | undefined
  processor_now: number
  who_may: string | undefined
}): OutlookLine[] {
  const { status, failure, capture_before, amount_capturable_minor, currency, cancellation_reason } = payment
  const line = (tone: Tone, text: string): OutlookLine[] => [{ key: status, tone, text }]
  const amount = moneyOf(payment)
  const bank =
    failure?.decline_code == null
      ? ''
      : ` Reason of the bank: ${humanize(failure.decline_code).toLowerCase()}.`
  if (status === 'requires_action')
    return line(
      'warn',
      `No money is on hold yet. ${buyerActionText(payment, timeline)} Then the payment continues. Until then you can cancel it.`,
    )
  if (status === 'authorized') {
    const on_hold = formatMoney(amount_capturable_minor, currency)
    const until = capture_before === null ? '' : ` until ${formatInstant(capture_before)}`
    const soon = capture_before !== null && Date.parse(capture_before) - processor_now < 86_400_000
    const failed =
      failure === null ? '' : `The last request failed: ${failure.message} Nothing was captured. `
    const to_do =
      who_may === undefined
        ? 'Capture or cancel it before then'
        : `A member with the role ${who_may} can capture it before then, or cancel it`
    return line(
      failure === null ? (soon ? 'warn' : 'pending') : 'bad',
      `${failed}${on_hold} is on hold${until}. ${to_do}. After that the hold lapses and nothing can be captured.`,
    )
  }
  if (status === 'failed')
    return line(
      'bad',
      `${failure?.message ?? 'The authorization failed.'}${bank} No money was taken, and the payment is not retried. To try again, create a new payment.`,
    )
  if (status === 'canceled')
    return line(
      'idle',
      `${amount} was not captured${cancellation_reason === null ? '' : `: ${humanize(cancellation_reason).toLowerCase()}`}. Nothing more happens.`,
    )
  if (status === 'captured') {
    const captured = payment.amount_captured_minor
    const money = (minor: number) => formatMoney(minor, currency)
    const released =
      captured < payment.amount_minor
        ? `, and the other ${money(payment.amount_minor - captured)} was released`
        : ''
    return line('idle', `${money(captured)} was captured${released}. ${refundsText(payment)}`)
  }
  return []
}

/**
 * The outlook of a dispute. Closed disputes have none on the page of the payment. `in_sandbox`: the processor is the
 * sandbox, which has no dashboard.
 */
export function disputeOutlook(
  dispute: Dispute,
  { in_sandbox, with_link = true }: { in_sandbox: boolean; with_link?: boolean },
): OutlookLine[] {
  const { id, status, reason, closed_at, evidence_due_by } = dispute
  if (closed_at !== null) {
    if (with_link) return []
    const ended =
      status === 'won'
        ? 'was won: the money was returned to you'
        : status === 'lost'
          ? 'was lost: the buyer keeps the money'
          : 'was closed'
    return [{ key: id, tone: 'idle', text: `The dispute of ${moneyOf(dispute)} ${ended}.` }]
  }
  const reason_text = reason === null ? '' : ` (${humanize(reason).toLowerCase()})`
  const due = evidence_due_by && formatInstant(evidence_due_by)
  const until = due === null ? '' : ` by ${due}`
  const to_do = in_sandbox
    ? `The sandbox takes no response: the dispute is lost${due === null ? '' : ` after ${due}`}.`
    : `Respond in the processor's dashboard${until}, or it is lost.`
  const text = {
    needs_response: `The buyer's bank disputes ${moneyOf(dispute)}${reason_text}. ${to_do}`,
    under_review: `The buyer's bank is deciding the dispute of ${moneyOf(dispute)}. You need not do anything.`,
    warning: `The buyer's bank is inquiring about ${moneyOf(dispute)}${reason_text}. No money was taken. ${in_sandbox ? 'The sandbox takes no response.' : `Respond in the processor's dashboard${until}.`}`,
    lost: `The dispute of ${moneyOf(dispute)} was lost. The bank has not closed it yet.`,
    won: `The dispute of ${moneyOf(dispute)} was won.`,
  }[status]
  return [
    {
      key: id,
      tone: status === 'under_review' ? 'pending' : 'warn',
      text: (
        <>
          {text}{' '}
          {with_link && (
            <Link to="/disputes/$id" params={{ id }}>
              See the dispute
            </Link>
          )}
        </>
      ),
    },
  ]
}
