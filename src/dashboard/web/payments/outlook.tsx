// How a payment stands, in sentences: what happened, what the system does next and when, and what a person can do.
import type { Dispute, Payment } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useNow, formatInstant } from '../kit/Instant.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { toneClass } from '../kit/Status.tsx'
import { inWords, type Tone } from '../kit/statuses.ts'
import { useMay, useRolesThatMay, useSession } from '../session.tsx'
import { useIsPaused } from '../operations/held.ts'
import { inTime } from '../timeline/story-parts.tsx'
import type { PaymentStory, StoryJob } from './story.ts'
import { amountOfJob, buyerHasTo, jobWords, moneyOf, processorName, refundsInWords } from './words.ts'

export type Said = { key: string; tone: Tone; words: ReactNode }

/** One line for each thing that is to be known. */
export function PaymentOutlook({ payment, story }: { payment: Payment; story: PaymentStory | undefined }) {
  const now = useNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const may_capture = useMay('capturePayment')
  const who_may = useRolesThatMay('capturePayment')
  const jobs = story?.jobs.filter((job) => job.run_at !== null && !hasEnded(job, payment)) ?? []
  const said = [
    ...jobs.map((job) => jobSaid({ payment, story: story!, job, now, is_operator, paused })),
    ...(jobs.length === 0 ? stateSaid(payment, story, may_capture ? undefined : who_may) : []),
    ...(story?.disputes ?? []).flatMap((dispute) => disputeSaid(dispute)),
  ]
  return <Outlook said={said} />
}

export function Outlook({ said }: { said: Said[] }) {
  return (
    <div className="stack" aria-live="polite">
      {said.map(({ key, tone, words }) => (
        <div key={key} className={toneClass(tone, 'outlook')}>
          {words}
        </div>
      ))}
    </div>
  )
}

const ASKED_AS: Record<string, Payment['status']> = {
  'payment.authorize': 'pending',
  'payment.capture': 'capturing',
  'payment.cancel': 'canceling',
}

/** Whether a notification has told what the job will only see on its next attempt. */
function hasEnded({ name }: StoryJob, { status }: Payment): boolean {
  return name in ASKED_AS && ASKED_AS[name] !== status
}

/** What becomes of a job that is open. */
export function jobSaid({
  payment,
  story,
  job,
  now,
  is_operator,
  paused,
}: {
  payment: Payment
  story: PaymentStory
  job: StoryJob
  now: number
  is_operator: boolean
  /** Its queue is. */
  paused: boolean
}): Said {
  const at = processorName(payment.processor)
  const amount = amountOfJob(payment, story, job)
  const doing = jobWords(job.name, 'doing', amount)
  const to_do = jobWords(job.name, 'to_do', amount)
  const is_held = paused && job.state !== 'running'
  const held = is_held ? 'The queue is paused. ' : ''
  const due = is_held ? ' when it is resumed' : inTime(job.run_at ?? job.created_at, now)
  const last = story.entries.findLast(
    ({ kind, details, outcome }) => kind === 'attempt' && details['job_id'] === job.id && outcome !== null,
  )?.outcome
  const say = (tone: Tone, words: string): Said => ({
    key: job.id,
    tone,
    words: (
      <>
        {words}
        {is_operator && <JobLink id={job.id} />}
      </>
    ),
  })
  if (job.unknown_since !== null || last === 'unknown')
    return say(
      'doubt',
      `${held}It is not known whether ${at} did ${to_do}. It is looked up${due}, and sent again only if it never took effect, so no money moves twice. ${is_held ? 'If' : 'You need not do anything; if'} it stays unknown, an operator decides.`,
    )
  if (last === 'parked')
    return say('warn', `${doing} is waiting for an operator. Nothing is sent until they decide.`)
  if (last === 'misconfigured')
    return say(
      'bad',
      `${held}${at} refused our credentials. An operator has to correct them. It is then retried automatically, next${due}.`,
    )
  if (job.state === 'running') return say('going', `${doing}: waiting for ${at} to answer.`)
  const tried = last === 'retry' || last === 'returned'
  if (last === 'ambiguous' || (tried && job.in_doubt))
    return say(
      'doubt',
      `${held}${at} has not said whether it did ${to_do}. It is retried with the same key${due}, so no money moves twice.${is_held ? '' : ' You need not do anything.'}`,
    )
  if (paused)
    return say('warn', `${doing} is waiting: the queue is paused. It continues when the queue is resumed.`)
  if (tried)
    return say(
      'warn',
      `${at} did not ${to_do} yet, and nothing happened. It is retried${due}. You need not do anything.`,
    )
  return say('going', `${doing} is waiting for a worker and is due${due}.`)
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

/** What a payment waits for, or how it ended. `who_may`: the roles that can act on it, where the reader's cannot. */
function stateSaid(payment: Payment, story: PaymentStory | undefined, who_may: string | undefined): Said[] {
  const { status, failure, capture_before, amount_capturable_minor, currency, cancellation_reason } = payment
  const say = (tone: Tone, words: string): Said[] => [{ key: status, tone, words }]
  const amount = moneyOf(payment)
  const bank =
    failure?.decline_code == null ? '' : ` The bank says: ${inWords(failure.decline_code).toLowerCase()}.`
  if (status === 'requires_action')
    return say(
      'warn',
      `Nothing is held yet. ${buyerHasTo(payment, story)} The payment continues when they have. Until then you can cancel it.`,
    )
  if (status === 'authorized') {
    const held = formatMoney(amount_capturable_minor, currency)
    const until = capture_before === null ? '' : ` until ${formatInstant(capture_before)}`
    const soon = capture_before !== null && Date.parse(capture_before) - Date.now() < 86_400_000
    const failed =
      failure === null ? '' : `The last request failed: ${failure.message} Nothing was captured. `
    const to_do =
      who_may === undefined
        ? 'Capture or cancel it before then'
        : `A member with the role ${who_may} can capture it before then, or cancel it`
    return say(
      failure === null ? (soon ? 'warn' : 'going') : 'bad',
      `${failed}${held} is held${until}. ${to_do}. After that the hold lapses and nothing can be captured.`,
    )
  }
  if (status === 'failed')
    return say(
      'bad',
      `${failure?.message ?? 'The authorization failed.'}${bank} No money was taken, and the payment is not retried. To try again, create a new payment.`,
    )
  if (status === 'canceled')
    return say(
      'idle',
      `${amount} was not captured${cancellation_reason === null ? '' : `: ${inWords(cancellation_reason).toLowerCase()}`}. Nothing more happens.`,
    )
  if (status === 'captured') {
    const captured = payment.amount_captured_minor
    const money = (minor: number) => formatMoney(minor, currency)
    const released =
      captured < payment.amount_minor
        ? `, and the other ${money(payment.amount_minor - captured)} was released`
        : ''
    return say('idle', `${money(captured)} was captured${released}. ${refundsInWords(payment)}`)
  }
  return []
}

/** How a dispute stands; of one that is over nothing is said on its payment. */
export function disputeSaid(dispute: Dispute, { with_link = true } = {}): Said[] {
  const { id, status, reason, closed_at, evidence_due_by } = dispute
  if (closed_at !== null) {
    if (with_link) return []
    const ended =
      status === 'won'
        ? 'was won: the money is yours again'
        : status === 'lost'
          ? 'was lost: the buyer has the money'
          : 'is over'
    return [{ key: id, tone: 'idle', words: `The dispute of ${moneyOf(dispute)} ${ended}.` }]
  }
  const why = reason === null ? '' : ` (${inWords(reason).toLowerCase()})`
  const until = evidence_due_by === null ? '' : ` by ${formatInstant(evidence_due_by)}`
  const words = {
    needs_response: `The buyer's bank disputes ${moneyOf(dispute)}${why}. Respond in the processor's dashboard${until}, or it is lost.`,
    under_review: `The buyer's bank is deciding the dispute of ${moneyOf(dispute)}. You need not do anything.`,
    warning: `The buyer's bank is inquiring about ${moneyOf(dispute)}${why}. No money was taken. Respond in the processor's dashboard${until}.`,
    lost: `The dispute of ${moneyOf(dispute)} was lost. It is not closed yet.`,
    won: `The dispute of ${moneyOf(dispute)} was won.`,
  }[status]
  return [
    {
      key: id,
      tone: status === 'under_review' ? 'going' : 'warn',
      words: (
        <>
          {words}{' '}
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
