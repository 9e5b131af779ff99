// Performs top-ups: one provider call, or a look when sending again could bring the money in twice.
import type { Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import { sourcePlace } from '#domain/top-ups/sealed.ts'
import type { TopUpTold } from '#domain/top-ups/settle.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../context.ts'
import { done, failed, rotate, unanswered, undone, unknown, type Decision } from '../decision.ts'
import { IRREVERSIBLE, NEVER_TOOK_EFFECT, timesSinceAsked, untilAbsent } from './absence.ts'
import { mayHideAnEffect, neverSent, TOO_LATE, UNREACHABLE } from './calls.ts'
import { calling, type JobOf } from './handler.ts'
import { settlingTopUp, topUpTold } from './notifications/top-ups.ts'

type TopUpJob = JobOf<typeof createTopUp>

export const topUpHandlers = {
  [createTopUp.name]: calling(createTopUp, create),
}

/** Brings money into a balance. What the processor has taken may be under way for days: its notification tells. */
async function create(context: WorkerContext, job: TopUpJob): Promise<Decision> {
  const { call } = job
  const sent: Outcome<ProcessorTopUp> = call.look_only ? TOO_LATE : await send(context, job, call.key)
  if (sent.kind === 'done') return tell(job, sent.value)

  if (mayHideAnEffect(call, sent)) {
    const looked = await look(context, job)
    if (looked.kind !== 'done') return unanswered(looked)
    const found = looked.value
    if (found !== null) return tell(job, found)
    if (sent.kind !== 'declined' || sent.failure.code === 'processor_error') {
      if (call.reference !== null) return unknown(`the processor does not know ${call.reference}`)
      return (
        (await untilAbsent(context, job.sendings, context.top_ups, IRREVERSIBLE)) ?? rotate(NEVER_TOOK_EFFECT)
      )
    }
  }
  if (sent.kind === 'declined') return refused(job, sent.failure)
  if (neverSent(call, sent)) return refused(job, UNREACHABLE)
  return undone(sent)
}

// Sends the stored request with its token opened. When that cannot be opened, nothing is sent and the job waits.
async function send(
  { top_ups, vault }: WorkerContext,
  { tenant_id, id, call }: TopUpJob,
  key: string,
): Promise<Outcome<ProcessorTopUp>> {
  const { sealed, ...request } = call.request
  try {
    const source = sealed?.source === undefined ? null : vault.open(sealed.source, sourcePlace(tenant_id, id))
    return await top_ups.topUp({ ...request, source }, key)
  } catch (error) {
    if (error instanceof SealError) return { kind: 'misconfigured', reason: error.message }
    throw error
  }
}

// Finds the top-up by the reference that is known, else by our own id among those since the job was asked for.
async function look({ top_ups }: WorkerContext, job: TopUpJob) {
  const { call, payload } = job
  if (call.reference !== null) return await top_ups.findTopUp(call.reference)
  const { amount_minor } = call.request
  return await top_ups.searchTopUp({ ...payload, amount_minor, ...timesSinceAsked(job) })
}

function isOurs({ amount_minor, currency, metadata }: ProcessorTopUp, { call, payload }: TopUpJob): boolean {
  const named = metadata['sluice_top_up_id'] ?? payload.top_up_id
  return (
    amount_minor === call.request.amount_minor &&
    currency === call.request.currency &&
    named === payload.top_up_id
  )
}

function tell(job: TopUpJob, top_up: ProcessorTopUp): Decision {
  if (!isOurs(top_up, job)) return unknown(`${top_up.reference} is another top-up`)
  return done({ reference: top_up.reference, tells: aboutTopUp(topUpTold(idsOf(job), top_up)) })
}

function refused(job: TopUpJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const told = { ...idsOf(job), processor_reference: null, failure: { code, message } }
  return failed(failure, { tells: aboutTopUp({ ...told, said: 'failed' }) })
}

const aboutTopUp = (told: TopUpTold) => settlingTopUp({ told, notification_id: null })

function idsOf({ tenant_id, payload }: TopUpJob) {
  return { tenant_id, top_up_id: payload.top_up_id }
}
