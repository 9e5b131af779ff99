// Applies notifications. Their content is not trusted: the processor is asked for the present state of the object.
import { findNotification } from '#domain/notifications.ts'
import { applyNotification } from '#jobs/notifications.ts'
import type { WorkerContext } from '../context.ts'
import { done, type Decision } from '../decision.ts'
import { handling, type JobOf } from './handler.ts'
import { readNews } from './notifications/news.ts'
import { over, parkPoison } from './notifications/parked.ts'
import { applyPayment } from './notifications/payments.ts'
import { applyRefund } from './notifications/refunds.ts'

export const notificationHandlers = {
  [applyNotification.name]: handling(applyNotification, apply, parkPoison),
}

/** Applies one notification. In whatever order and however often they come, the result is the same. */
async function apply(context: WorkerContext, job: JobOf<typeof applyNotification>): Promise<Decision> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied') return done()
  const news = readNews(context.processor, notification)
  if (news === null) return over(notification, 'ignored')
  if (news.subject === 'payment') return await applyPayment(context, notification, news)
  if (news.subject === 'refund') return await applyRefund(context, notification, news)
  throw new Error(`nobody here applies news of a ${news.subject}`)
}
