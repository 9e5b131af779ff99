// Cancels duplicates: what the provider made of a call that was made again, beside what our row knows.
import type { Outcome } from '#core/outcome.ts'
import { isUndoable, type UndoableNoun } from '#domain/reconciliation/duplicates.ts'
import { cancelDuplicatePayment } from '#jobs/payments.ts'
import { cancelDuplicateVerification } from '#jobs/verifications.ts'
import { done, failed, rotate, unanswered, undone, type Decision } from '../decision.ts'
import { TOO_LATE } from './calls.ts'
import { calling, type JobOf } from './handler.ts'

export const duplicateHandlers = {
  [cancelDuplicatePayment.name]: calling(cancelDuplicatePayment, ({ processor }, job) =>
    cancel(job, {
      noun: 'payment',
      send: (reference, key) => processor.cancel({ reference, reason: 'duplicate' }, key),
      find: (reference) => processor.findPayment(reference),
    }),
  ),
  [cancelDuplicateVerification.name]: calling(cancelDuplicateVerification, ({ identity }, job) =>
    cancel(job, {
      noun: 'kyc',
      send: (reference, key) => identity.cancelSession(reference, key),
      find: (reference) => identity.findSession(reference),
    }),
  ),
}

type CancelDuplicateJob = JobOf<typeof cancelDuplicatePayment> | JobOf<typeof cancelDuplicateVerification>
type FoundDuplicate = { status: string }

/** After a refusal or in doubt, the state of the duplicate decides. One that can still be undone is canceled under a new key. */
async function cancel(
  { call }: CancelDuplicateJob,
  {
    noun,
    send,
    find,
  }: {
    noun: UndoableNoun
    send: (reference: string, key: string) => Promise<Outcome<FoundDuplicate>>
    find: (reference: string) => Promise<Outcome<FoundDuplicate | null>>
  },
): Promise<Decision> {
  const { reference } = call.request
  const sent: Outcome<FoundDuplicate> = call.look_only ? TOO_LATE : await send(reference, call.key)
  if (sent.kind === 'done' && sent.value.status === 'canceled') return done({ reference })
  const decided = sent.kind === 'done' || sent.kind === 'declined'
  if (!decided && !(sent.kind === 'ambiguous' && sent.replayed)) return undone(sent)

  const looked = await find(reference)
  if (looked.kind !== 'done') return unanswered(looked)
  const status = looked.value?.status ?? 'canceled'
  if (status === 'canceled' || status === 'failed') return done({ reference })
  if (isUndoable(noun, status)) return rotate(`the duplicate ${reference} is still ${status}`)
  const message = `The duplicate is ${status} at the provider.`
  return failed({ code: 'processor_error', message })
}
