// Cancels duplicates: objects that a provider created for earlier keys of a call.
import type { Outcome } from '#core/outcome.ts'
import { isCancelable, type CancelableResource } from '#domain/reconciliation/duplicates.ts'
import { cancelDuplicatePayment } from '#jobs/payments.ts'
import { cancelDuplicateVerification } from '#jobs/verifications.ts'
import type { WorkerContext } from '../../context.ts'
import { done, failed, rotate, type Decision } from '../../decision.ts'
import { changeAtProvider } from '../change.ts'
import { calling, type JobOf } from '../handler.ts'

export const duplicateHandlers = {
  [cancelDuplicatePayment.name]: calling(cancelDuplicatePayment, (context, job) =>
    cancel(context, job, {
      resource: 'payment',
      send: (reference, key) => context.processor.cancel({ reference, reason: 'duplicate' }, key),
      find: (reference) => context.processor.findPayment(reference),
    }),
  ),
  [cancelDuplicateVerification.name]: calling(cancelDuplicateVerification, (context, job) =>
    cancel(context, job, {
      resource: 'kyc',
      send: (reference, key) => context.identity.cancelSession(reference, key),
      find: (reference) => context.identity.findSession(reference),
    }),
  ),
}

type CancelDuplicateJob = JobOf<typeof cancelDuplicatePayment> | JobOf<typeof cancelDuplicateVerification>
type FoundDuplicate = { status: string }

/**
 * Cancels one duplicate. No request waits for this job, so it is retried for as long as the duplicate can be canceled.
 */
async function cancel(
  context: WorkerContext,
  job: CancelDuplicateJob,
  {
    resource,
    send,
    find,
  }: {
    resource: CancelableResource
    send: (reference: string, key: string) => Promise<Outcome<FoundDuplicate>>
    find: (reference: string) => Promise<Outcome<FoundDuplicate | null>>
  },
): Promise<Decision> {
  const { reference } = job.call.request
  return await changeAtProvider<FoundDuplicate>(context, job, {
    reference,
    max_generations: Infinity,
    send: (key) => send(reference, key),
    find: () => find(reference),
    changed: ({ status }) => (status === 'canceled' || status === 'failed' ? done({ reference }) : null),
    otherwise: ({ status }) => {
      if (isCancelable(resource, status)) return null
      const message = `The duplicate is ${status} at the provider.`
      return failed({ code: 'processor_error', message })
    },
    unchanged: ({ status }) => rotate(`the duplicate ${reference} is still ${status}`),
    missing: () => done({ reference }),
  })
}
