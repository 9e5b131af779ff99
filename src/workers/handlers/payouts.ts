// Performs the jobs of payouts: create and cancel. Each makes one provider call, or a look where a call could pay twice or
// is no longer wanted.
import { metrics } from '#core/metrics.ts'
import type { Outcome } from '#core/outcome.ts'
import { beginCalls } from '#domain/payouts/begin.ts'
import { findPayoutByIds, type KnownPayout } from '#domain/payouts/find.ts'
import type { PayoutTold } from '#domain/payouts/settle.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import { cancelPayout, createPayout } from '#jobs/payouts.ts'
import { lacksFunds, type ProcessorPayout } from '#providers/payouts.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../context.ts'
import {
  done,
  failed,
  giveBack,
  retry,
  rotate,
  unanswered,
  undone,
  unknown,
  type Decision,
} from '../decision.ts'
import { IRREVERSIBLE, NEVER_TOOK_EFFECT, timesSinceAsked, untilAbsent } from './absence.ts'
import { mayHideAnEffect, MAX_GENERATIONS, neverSent, TOO_LATE, UNREACHABLE } from './calls.ts'
import { calling, type JobOf } from './handler.ts'
import { compare } from './notifications/drifts.ts'
import { comparedPayout, payoutTold, settlingPayout, sideOfPayout } from './notifications/payouts.ts'

type CreateJob = JobOf<typeof createPayout>
type CancelJob = JobOf<typeof cancelPayout>
type Sent = Outcome<ProcessorPayout>

export const payoutHandlers = {
  [createPayout.name]: calling(createPayout, create),
  [cancelPayout.name]: calling(cancelPayout, cancel),
}

/** Pays out, unless somebody wanted the payout failed or canceled before the call could leave. */
async function create(context: WorkerContext, job: CreateJob): Promise<Decision> {
  const { call } = job
  if (call.look_only) return await look(context, job, TOO_LATE)
  const { id: job_id, lease_token, tenant_id } = job
  const begun = await beginCalls(context.sql, [{ job_id, lease_token, ...idsOf(job), tenant_id }])
  if (!begun.has(job_id)) return await notCalled(context, job)
  const sent = await context.payouts.payOut(call.request, call.key).catch(heldBack)
  if (sent instanceof NotStarted) return { ...giveBack(sent.message), tells: told(job, 'unsent') }
  if (sent.kind === 'done') return await created(context, job, sent.value)
  if (mayHideAnEffect(call, sent)) return await look(context, job, sent)
  if (sent.kind === 'declined') return refused(context, job, sent.failure)
  if (neverSent(call, sent)) return refused(context, job, UNREACHABLE)
  return sent.kind === 'ambiguous' ? undone(sent) : { ...undone(sent), tells: told(job, 'unsent') }
}

// Nobody wants the payout any more, or it is settled. What no attempt can have sent is over; else the processor is asked.
async function notCalled(context: WorkerContext, job: CreateJob): Promise<Decision> {
  const payout = await findPayoutByIds(context.sql, { tenant_id: job.tenant_id, id: job.payload.payout_id })
  if (payout === undefined || isWanted(payout))
    return retry('the lease was lost before the call', { unsent: true })
  // A worker that was killed before it began its call leaves the job in doubt, and no call.
  const ended = payout.status === 'failed' || payout.status === 'canceled'
  const never_left = payout.call_started_at === null && payout.processor_reference === null
  if (!ended || !never_left) return await look(context, job, TOO_LATE)
  const became = payout.status === 'failed' ? 'failed by hand' : 'canceled'
  const message = `The payout was ${became} before the processor was asked.`
  return failed({ code: 'payout_refused', message }, { unsent: true, tells: told(job, 'unsent') })
}

// Decides a payout in doubt by the processor's own records. `sent`: how this attempt was answered.
async function look(context: WorkerContext, job: CreateJob, sent: Exclude<Sent, { kind: 'done' }>) {
  const { sql, payouts } = context
  const { payout_id } = job.payload
  const known = await findPayoutByIds(sql, { tenant_id: job.tenant_id, id: payout_id })
  const reference = job.call.reference ?? known?.processor_reference ?? null
  const { destination } = job.call.request
  const looked =
    reference === null
      ? await payouts.searchPayout({ payout_id, destination, ...timesSinceAsked(job) })
      : await payouts.findPayout(reference)
  if (looked.kind !== 'done') return unanswered(looked)
  const found = looked.value
  if (found !== null) return await created(context, job, found)
  if (sent.kind === 'declined' && sent.failure.code !== 'processor_error')
    return refused(context, job, sent.failure)
  if (reference !== null) return unknown(`the processor does not know ${reference}`)
  const pending = await untilAbsent(context, job.sendings, payouts, IRREVERSIBLE)
  const unwanted = known !== undefined && !isWanted(known)
  return pending ?? absent(job, unwanted)
}

// The call never took effect: the payout is made under another key, unless nobody wants it any more.
function absent(job: CreateJob, unwanted: boolean): Decision {
  if (!unwanted) return { ...rotate(NEVER_TOOK_EFFECT), tells: told(job, 'unsent') }
  const message = 'The payout is no longer wanted, and the processor has no record of it.'
  return failed({ code: 'payout_refused', message }, { tells: told(job, 'absent') })
}

/** Nobody has asked to cancel or fail it, and it has not ended. */
function isWanted({ status, cancel_requested_at, fail_requested_at }: KnownPayout): boolean {
  return status === 'pending' && cancel_requested_at === null && fail_requested_at === null
}

/** A pause, or the end of the worker, kept the call from leaving. */
function heldBack(error: unknown): NotStarted {
  if (error instanceof NotStarted) return error
  throw error
}

// What the processor has for this payout. If that is not what was asked for, nothing is settled with it, and it is shown.
async function created(context: WorkerContext, job: CreateJob, found: ProcessorPayout): Promise<Decision> {
  if (isOurs(found, job)) return tell(job, found)
  const { reference } = found
  const { amount_minor, currency } = job.call.request
  const theirs = sideOfPayout(found)
  if (isOfOtherMoney({ ...theirs, amount_minor, currency }, theirs)) {
    const ours = { tenant_id: job.tenant_id, id: job.payload.payout_id }
    const compared = await compare(context, comparedPayout, ours, theirs, { reference })
    if (compared.kind !== 'done') return unanswered(compared)
  }
  return unknown(`${reference} is another payout`)
}

function isOurs(found: ProcessorPayout, { call, payload }: CreateJob): boolean {
  const { amount_minor, currency, destination } = call.request
  return (
    found.amount_minor === amount_minor &&
    found.currency === currency &&
    (found.destination ?? destination) === destination &&
    (found.metadata['sluice_payout_id'] ?? payload.payout_id) === payload.payout_id
  )
}

// The processor did not take it. Where only the platform's own balance there is too low, the payout stays as it is, and
// its job waits until somebody has filled it up. The key is used up: the processor would repeat its answer.
function refused(
  { log }: WorkerContext,
  job: CreateJob,
  failure: { code: string; message: string; processor_code?: string },
): Decision {
  if (!lacksFunds({ failure })) return failed(failure, { tells: told(job, 'refused', failure) })
  metrics.platformLacksFunds.inc()
  log.error(
    { job_id: job.id, ...idsOf(job), currency: job.call.request.currency },
    "a payout is parked until it is retried: the platform's balance at the processor is too low for it",
  )
  const reason = "the platform's balance at the processor is too low"
  return { ...rotate(reason, { parked: true }), tells: told(job, 'unsent') }
}

/** Asks the processor to let go of a payout that it has taken. How it stands there decides after a refusal or in doubt. */
async function cancel(context: WorkerContext, job: CancelJob): Promise<Decision> {
  const { sql, payouts } = context
  const { call } = job
  const { reference } = call.request
  const payout = await findPayoutByIds(sql, { tenant_id: job.tenant_id, id: job.payload.payout_id })
  // It ended otherwise meanwhile, by hand for example: then the processor is not asked any more.
  if ((payout?.status === 'failed' || payout?.status === 'paid') && !call.in_doubt)
    return failed(notCancelable(`The payout is ${payout.status}.`), { unsent: true })
  const sent: Sent = call.look_only ? TOO_LATE : await payouts.cancelPayout(reference, call.key)
  if (sent.kind === 'done' && sent.value.status === 'canceled') return tell(job, sent.value)
  const never_sent = neverSent(call, sent)
  const doubtful =
    sent.kind === 'done' || sent.kind === 'declined' || (sent.kind === 'ambiguous' && sent.replayed)
  if (!doubtful && !never_sent) return undone(sent)

  const looked = await payouts.findPayout(reference)
  if (looked.kind !== 'done') return unanswered(looked, { unsent: never_sent })
  const found = looked.value
  if (found === null) return unknown(`the processor does not know ${reference}`)
  if (found.status === 'canceled') return tell(job, found)
  if (found.status !== 'processing')
    return { ...tell(job, found), kind: 'failed', failure: notCancelable(`The payout is ${found.status}.`) }
  if (sent.kind === 'ambiguous' && call.generation < MAX_GENERATIONS) return rotate(sent.reason)
  const kept = notCancelable('The payout is processing, and the processor no longer lets go of it.')
  return failed(sent.kind === 'declined' ? kept : UNREACHABLE, { tells: told(job, 'kept') })
}

function notCancelable(message: string) {
  return { code: 'payout_not_cancelable', message }
}

function tell(job: CreateJob | CancelJob, payout: ProcessorPayout): Decision {
  const { reference } = payout
  return done({
    reference,
    tells: settlingPayout({ told: payoutTold(idsOf(job), payout), notification_id: null }),
  })
}

/** What is said of a payout of which the processor has no record, or no news. */
function told(
  job: CreateJob | CancelJob,
  said: 'refused' | 'unsent' | 'absent' | 'kept',
  failure: { code: string; message: string } | null = null,
) {
  const nothing: PayoutTold = {
    ...idsOf(job),
    said,
    processor_reference: null,
    arrival_date: null,
    returned_minor: 0,
    failure: failure && { code: failure.code, message: failure.message },
  }
  return settlingPayout({ told: nothing, notification_id: null })
}

function idsOf({ tenant_id, payload }: CreateJob | CancelJob) {
  return { tenant_id, payout_id: payload.payout_id }
}
