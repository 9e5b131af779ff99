// Performs the job of a top-up: creates it at the processor.
import type { Outcome } from '#core/outcome.ts'
import { SealError } from '#core/secrets.ts'
import { sourcePlace } from '#domain/top-ups/sealed.ts'
import { findTopUpByIds } from '#domain/top-ups/find.ts'
import { nothingReportedOfTopUp, type TopUpTold } from '#domain/top-ups/settle.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, type Decision } from '../../decision.ts'
import { IRREVERSIBLE, timesSinceAsked } from '../absence.ts'
import { UNREACHABLE } from '../calls.ts'
import { createAtProvider, showAnother, madeAgain } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { comparedTopUp, settlingTopUp, sideOfTopUp, topUpTold } from './effects.ts'

type TopUpJob = JobOf<typeof createTopUp>

export const topUpHandlers = {
  [createTopUp.name]: calling(createTopUp, create),
}

/** Brings money into a balance. It may be under way for days; a notification reports how it ends. */
async function create(context: WorkerContext, job: TopUpJob): Promise<Decision> {
  const { sql, top_ups } = context
  const { amount_minor, currency } = job.call.request
  const ids = idsOf(job)
  const { tenant_id, top_up_id: id } = ids
  return await createAtProvider<ProcessorTopUp>(context, job, {
    provider: top_ups,
    absence: IRREVERSIBLE,
    send: (key) => send(context, job, key),
    isUndecided: () => false,
    findReference: async () =>
      (await findTopUpByIds(sql, { tenant_id, id }, null))?.processor_reference ?? null,
    find: (reference) => top_ups.findTopUp(reference),
    search: () => top_ups.searchTopUp({ top_up_id: id, amount_minor, ...timesSinceAsked(job) }),
    isOurs: (found) => isOurs(found, job),
    another: (found) =>
      showAnother(
        context,
        comparedTopUp,
        { tenant_id, id },
        {
          asked: { amount_minor, currency },
          theirs: sideOfTopUp(found),
          reference: found.reference,
        },
      ),
    created: (top_up) => done({ reference: top_up.reference, tells: aboutTopUp(topUpTold(ids, top_up)) }),
    refused: (failure) => refused(job, failure),
    absent: madeAgain,
    unreachable: UNREACHABLE,
    unsent: null,
  })
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

function isOurs({ amount_minor, currency, metadata }: ProcessorTopUp, { call, payload }: TopUpJob): boolean {
  const named = metadata['sluice_top_up_id'] ?? payload.top_up_id
  return (
    amount_minor === call.request.amount_minor &&
    currency === call.request.currency &&
    named === payload.top_up_id
  )
}

function refused(job: TopUpJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const told = { ...nothingReportedOfTopUp, ...idsOf(job), failure: { code, message } }
  return failed(failure, { tells: aboutTopUp({ ...told, said: 'failed' }) })
}

const aboutTopUp = (told: TopUpTold) => settlingTopUp({ told, notification_id: null })

function idsOf({ tenant_id, payload }: TopUpJob) {
  return { tenant_id, top_up_id: payload.top_up_id }
}
