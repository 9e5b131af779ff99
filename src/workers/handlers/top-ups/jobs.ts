// Performs the job of a top-up: creates it at the processor.
import type { Outcome } from '#core/outcome.ts'
import { topUpSourceContext } from '#domain/top-ups/sealed.ts'
import { findTopUpByIds } from '#domain/top-ups/find.ts'
import { emptyTopUpUpdate, type TopUpUpdate } from '#domain/top-ups/settle.ts'
import { createTopUp } from '#jobs/top-ups.ts'
import type { ProcessorTopUp } from '#providers/top-ups.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, type Decision } from '../../decision.ts'
import { IRREVERSIBLE, filteredListRange } from '../absence.ts'
import { UNREACHABLE, outcomeOfSealError } from '../calls.ts'
import { createAtProvider, reportMismatch, resendUnderNewKey } from '../create.ts'
import { calling, type JobOf } from '../handler.ts'
import { adoptTopUp, comparedTopUp, settlingTopUp, sideOfTopUp, topUpUpdate } from './effects.ts'

type TopUpJob = JobOf<typeof createTopUp>

export const topUpHandlers = {
  [createTopUp.name]: calling(createTopUp, create),
}

/** Collects money into a balance. The collection may take days; a notification reports the final status. */
async function create(context: WorkerContext, job: TopUpJob): Promise<Decision> {
  const { sql, top_ups } = context
  const { amount_minor, currency } = job.call.request
  const ids = idsOf(job)
  const { tenant_id, top_up_id: id } = ids
  return await createAtProvider<ProcessorTopUp>(context, job, {
    row: { tenant_id, resource: 'top_up', id },
    provider: top_ups,
    absence: IRREVERSIBLE,
    send: (key) => send(context, job, key),
    isUndecided: () => false,
    findReference: async () =>
      (await findTopUpByIds(sql, { tenant_id, id }, null))?.processor_reference ?? null,
    find: (reference) => top_ups.findTopUp(reference),
    search: ({ any_content = false }) =>
      top_ups.searchTopUp({
        top_up_id: id,
        amount_minor: any_content ? null : amount_minor,
        ...filteredListRange(job),
      }),
    matchesRequest: (found) => matchesRequest(found, job),
    onMismatch: (found) =>
      reportMismatch(
        context,
        comparedTopUp,
        { tenant_id, id },
        {
          requested: { amount_minor, currency },
          theirs: sideOfTopUp(found),
          reference: found.reference,
        },
      ),
    created: (top_up) =>
      done({ reference: top_up.reference, effects: topUpEffects(topUpUpdate(ids, top_up)) }),
    adopt: (found) => adoptTopUp(context, { ...ids, requested: job.call.request.metadata }, found),
    refused: (failure) => refused(job, failure),
    absent: resendUnderNewKey,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

// Sends the stored request with its token decrypted. If the token cannot be decrypted, nothing is sent and the job
// waits.
async function send(
  { top_ups, vault }: WorkerContext,
  { tenant_id, id, call }: TopUpJob,
  key: string,
): Promise<Outcome<ProcessorTopUp>> {
  const { sealed, ...request } = call.request
  try {
    const source =
      sealed?.source === undefined ? null : vault.open(sealed.source, topUpSourceContext(tenant_id, id))
    return await top_ups.topUp({ ...request, source }, key)
  } catch (error) {
    return outcomeOfSealError(error)
  }
}

function matchesRequest(
  { amount_minor, currency, metadata }: ProcessorTopUp,
  { call, payload }: TopUpJob,
): boolean {
  const marked_id = metadata['sluice_top_up_id'] ?? payload.top_up_id
  return (
    amount_minor === call.request.amount_minor &&
    currency === call.request.currency &&
    marked_id === payload.top_up_id
  )
}

function refused(job: TopUpJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  const update = { ...emptyTopUpUpdate, ...idsOf(job), failure: { code, message } }
  return failed(failure, { effects: topUpEffects({ ...update, reported: 'failed' }) })
}

const topUpEffects = (update: TopUpUpdate) => settlingTopUp({ update, notification_id: null })

function idsOf({ tenant_id, payload }: TopUpJob) {
  return { tenant_id, top_up_id: payload.top_up_id }
}
