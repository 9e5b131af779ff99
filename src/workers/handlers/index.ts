// The registry of handlers: who performs which job. A job without one does not compile.
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { JobName, PayloadOf } from '#jobs/index.ts'
import type { WorkerContext } from '../context.ts'
import { parkPoison } from '../recurring/parked.ts'
import { applyNotification } from './notifications.ts'
import { authorizePayment, cancelPayment, capturePayment } from './payments.ts'
import { createRefund } from './refunds.ts'

export type Handler<Name extends JobName> = (
  context: WorkerContext,
  job: ClaimedJob & { payload: PayloadOf<Name> },
) => Promise<Settlement>

/** By the name of the job. */
export const HANDLERS: { [Name in JobName]: Handler<Name> } = {
  'payment.authorize': authorizePayment,
  'payment.capture': capturePayment,
  'payment.cancel': cancelPayment,
  'refund.create': createRefund,
  'notification.apply': applyNotification,
}

/** Jobs that end otherwise than the rest when no attempt is left: what a provider told us is never given up. */
export const EXHAUSTED: {
  [Name in JobName]?: (context: WorkerContext, job: ClaimedJob, reason: string) => Promise<Settlement>
} = { 'notification.apply': parkPoison }
