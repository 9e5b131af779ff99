// Applies notifications: whatever they claim, the processor is asked how the object stands now, and that is applied.
import { findNotification } from '#domain/notifications.ts'
import { applyNotification } from '#jobs/notifications.ts'
import type { WorkerContext } from '../context.ts'
import { done, type Decision } from '../decision.ts'
import { handling, type JobOf } from './handler.ts'
import { objectOf } from './notifications/news.ts'
import { over, parkPoison } from './notifications/parked.ts'
import { applyPayment } from './notifications/payments.ts'
import { applyRefund } from './notifications/refunds.ts'

export const notificationHandlers = {
  [applyNotification.name]: handling(applyNotification, apply, parkPoison),
}

/** Applies one notification; any order and any number of them end in the same state. */
async function apply(context: WorkerContext, job: JobOf<typeof applyNotification>): Promise<Decision> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied') return done()
  const object = objectOf(notification)
  if (object?.object === 'payment_intent') return await applyPayment(context, notification, object)
  if (object?.object === 'refund') return await applyRefund(context, notification, object)
  // A charge changes with its payment. Its refunds come as events of their own: `charge.refunded` also fires when an
  // uncaptured hold is released.
  if (object?.object === 'charge' && object.payment_intent != null)
    return await applyPayment(context, notification, { ...object, id: object.payment_intent })
  return over(notification, 'ignored')
}
