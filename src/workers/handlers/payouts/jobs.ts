// Performs the jobs of payouts: create and cancel.
import { metrics } from '#core/metrics.ts'
import { beginPayoutCalls } from '#domain/payouts/begin.ts'
import { findPayoutByIds, type ExistingPayout } from '#domain/payouts/find.ts'
import { emptyPayoutUpdate, type PayoutUpdate } from '#domain/payouts/settle.ts'
import { cancelPayout, createPayout } from '#jobs/payouts.ts'
import { lacksFunds, type ProcessorPayout } from '#providers/payouts.ts'
import { isUncovered, NOT_COVERED } from '#domain/payouts/uncovered.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, retry, rotate, type Decision } from '../../decision.ts'
import { isTestAttempt } from '../../job-log.ts'
import { IRREVERSIBLE, filteredListRange } from '../absence.ts'
import { UNREACHABLE } from '../calls.ts'
import { changeAtProvider, MAX_GENERATIONS } from '../change.ts'
import {
  createAtProvider,
  reportMismatch,
  lookUpCreation,
  resendUnderNewKey,
  type Creation,
} from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { adoptPayout, comparedPayout, payoutUpdate, settlingPayout, sideOfPayout } from './effects.ts'

type CreateJob = JobOf<typeof createPayout>
type CancelJob = JobOf<typeof cancelPayout>

export const payoutHandlers = {
  [createPayout.name]: calling(createPayout, create),
  [cancelPayout.name]: calling(cancelPayout, cancel),
}

/** Creates the payout, unless it was failed or canceled before the call. */
async function create(context: WorkerContext, job: CreateJob): Promise<Decision> {
  const creation = creationOf(context, job)
  if (!job.call.lookup_only) {
    const { id: job_id, lease_token } = job
    const begun = await beginPayoutCalls(context.sql, [{ job_id, lease_token, ...idsOf(job) }])
    if (!begun.has(job_id)) return await decideUncalled(context, job, creation)
  }
  return await createAtProvider(context, job, creation)
}

function creationOf(context: WorkerContext, job: CreateJob): Creation<ProcessorPayout> {
  const { sql, payouts } = context
  const { request } = job.call
  const { amount_minor, currency, destination } = request
  const { tenant_id, payout_id } = idsOf(job)
  const find = async () => await findPayoutByIds(sql, { tenant_id, id: payout_id })
  return {
    row: { tenant_id, resource: 'payout', id: payout_id },
    provider: payouts,
    absence: IRREVERSIBLE,
    send: (key) => payouts.payOut(request, key),
    isUndecided: () => false,
    findReference: async () => (await find())?.processor_reference ?? null,
    find: (reference) => payouts.findPayout(reference),
    search: ({ any_content = false }) =>
      payouts.searchPayout({
        payout_id,
        destination: any_content ? null : destination,
        ...filteredListRange(job),
      }),
    matchesRequest: (found) => matchesRequest(found, job),
    onMismatch: (found) =>
      reportMismatch(
        context,
        comparedPayout,
        { tenant_id, id: payout_id },
        {
          requested: { amount_minor, currency },
          theirs: sideOfPayout(found),
          reference: found.reference,
        },
      ),
    created: (found) => decideByReport(job, found),
    adopt: (found) => adoptPayout(context, { tenant_id, payout_id, requested: request.metadata }, found),
    refused: (failure) => refused(context, job, failure),
    absent: async () => await absent(context, job, await find()),
    unreachable: UNREACHABLE,
    unsent: payoutEffects(job, 'unsent'),
  }
}

// Decides for a payout that is no longer wanted or already settled. If no attempt can have sent the call, the job
// fails; otherwise the processor's records decide.
async function decideUncalled(
  context: WorkerContext,
  job: CreateJob,
  creation: Creation<ProcessorPayout>,
): Promise<Decision> {
  const payout = await findPayoutByIds(context.sql, { tenant_id: job.tenant_id, id: job.payload.payout_id })
  if (payout === undefined || isToBeSent(payout))
    return retry('the lease was lost before the call', { unsent: true })
  // Only the payout's row shows that no call began: a worker that was killed before its call leaves the job `in_doubt`.
  const is_final = payout.status === 'failed' || payout.status === 'canceled'
  const never_left = payout.call_started_at === null && payout.processor_reference === null
  if (!is_final || !never_left) return await lookUpCreation(context, job, creation)
  const became = payout.status === 'failed' ? 'failed' : 'canceled'
  const message = `The payout was ${became} before the call to the processor.`
  return failed({ code: 'payout_refused', message }, { unsent: true, effects: payoutEffects(job, 'unsent') })
}

// Decides for a call that never took effect: the payout is sent under another key, unless it is no longer wanted, or
// not covered any more after a switch of the database, because payouts that the database had lost were recovered.
async function absent(
  { sql, database }: WorkerContext,
  job: CreateJob,
  payout: ExistingPayout | undefined,
): Promise<Decision> {
  if (payout === undefined || isToBeSent(payout)) {
    if (database.lostSince() !== null && (await isUncovered(sql, job.tenant_id, job.call.request.currency)))
      return failed(NOT_COVERED, { effects: payoutEffects(job, 'refused', NOT_COVERED) })
    return { ...(await resendUnderNewKey()), effects: payoutEffects(job, 'unsent') }
  }
  const message = 'The payout was canceled, and the processor has no record of it.'
  return failed({ code: 'payout_refused', message }, { effects: payoutEffects(job, 'absent') })
}

/** Whether the payout is pending without a request to cancel or fail it. */
function isToBeSent({ status, cancel_requested_at, fail_requested_at }: ExistingPayout): boolean {
  return status === 'pending' && cancel_requested_at === null && fail_requested_at === null
}

function matchesRequest(found: ProcessorPayout, { call, payload }: CreateJob): boolean {
  const { amount_minor, currency, destination } = call.request
  return (
    found.amount_minor === amount_minor &&
    found.currency === currency &&
    (found.destination ?? destination) === destination &&
    (found.metadata['sluice_payout_id'] ?? payload.payout_id) === payload.payout_id
  )
}

// Settles a payout that the processor refused. If only the platform's balance at the processor is too low, the payout
// stays unchanged, and its job is parked until an operator has topped up the balance and retries the job. The retry
// needs a new key, because the processor would repeat its answer under the old one.
function refused(
  { log }: WorkerContext,
  job: CreateJob,
  failure: { code: string; message: string; processor_code?: string },
): Decision {
  if (!lacksFunds({ failure })) return failed(failure, { effects: payoutEffects(job, 'refused', failure) })
  if (!isTestAttempt()) metrics.platformLacksFunds.inc()
  log.error(
    { job_id: job.id, ...idsOf(job), currency: job.call.request.currency },
    "a payout is parked: the platform's balance at the processor is too low for it. Add funds there, then retry the job",
  )
  const reason = "the platform's balance at the processor is too low"
  return { ...rotate(reason, { parked: true }), effects: payoutEffects(job, 'unsent') }
}

/** Cancels a payout at the processor. */
async function cancel(context: WorkerContext, job: CancelJob): Promise<Decision> {
  const { sql, payouts } = context
  const { call } = job
  const { reference } = call.request
  const payout = await findPayoutByIds(sql, { tenant_id: job.tenant_id, id: job.payload.payout_id })
  // The payout is already final, for example because an operator decided: no call is needed.
  if ((payout?.status === 'failed' || payout?.status === 'paid') && !call.in_doubt)
    return failed(notCancelable(`The payout cannot be canceled: it is ${payout.status}.`), { unsent: true })
  return await changeAtProvider<ProcessorPayout>(context, job, {
    reference,
    max_generations: MAX_GENERATIONS,
    send: (key) => payouts.cancelPayout(reference, key),
    find: () => payouts.findPayout(reference),
    changed: (found) => (found.status === 'canceled' ? decideByReport(job, found) : null),
    otherwise: (found) => {
      if (found.status === 'processing') return null
      const failure = notCancelable(`The payout cannot be canceled: it is ${found.status} at the processor.`)
      return { ...decideByReport(job, found), kind: 'failed', failure }
    },
    unchanged: (_found, refusal) => {
      const not_cancelable = notCancelable(
        'The payout is processing, and the processor can no longer cancel it.',
      )
      return failed(refusal === null ? UNREACHABLE : not_cancelable, {
        effects: payoutEffects(job, 'cancel_refused'),
      })
    },
    missing: () => done({ reference, effects: payoutEffects(job, 'canceled') }),
  })
}

function notCancelable(message: string) {
  return { code: 'payout_not_cancelable', message }
}

function decideByReport(job: CreateJob | CancelJob, payout: ProcessorPayout): Decision {
  const { reference } = payout
  return done({
    reference,
    effects: settlingPayout({ update: payoutUpdate(idsOf(job), payout), notification_id: null }),
  })
}

/** The effects for a payout that the processor does not have, or has not changed. */
function payoutEffects(
  job: CreateJob | CancelJob,
  reported: 'refused' | 'unsent' | 'absent' | 'canceled' | 'cancel_refused',
  failure: { code: string; message: string } | null = null,
) {
  const update: PayoutUpdate = {
    ...emptyPayoutUpdate,
    ...idsOf(job),
    reported,
    failure: failure && { code: failure.code, message: failure.message },
  }
  return settlingPayout({ update, notification_id: null })
}

function idsOf({ tenant_id, payload }: CreateJob | CancelJob) {
  return { tenant_id, payout_id: payload.payout_id }
}
