// Applies notifications: whatever they claim, the processor is asked how the object stands now, and that is applied.
import { findNotification, type StoredNotification } from '#domain/notifications.ts'
import type { ProviderNoun } from '#domain/subjects.ts'
import { applyNotification } from '#jobs/notifications.ts'
import type { ProcessorNews } from '#providers/payments.ts'
import type { WorkerContext } from '../context.ts'
import { done, type Decision } from '../decision.ts'
import { handling, type JobOf } from './handler.ts'
import { newsOf } from './notifications/news.ts'
import { over, parkPoison } from './notifications/parked.ts'
import { applyPayment } from './notifications/payments.ts'
import { applyRefund } from './notifications/refunds.ts'

export const notificationHandlers = {
  [applyNotification.name]: handling(applyNotification, apply, parkPoison),
}

type ApplyNews = (
  context: WorkerContext,
  notification: StoredNotification,
  news: ProcessorNews,
) => Promise<Decision>

/** Who applies news, by what they are of. A noun of which a provider has a record does not compile without. */
const APPLYING: Record<ProviderNoun, ApplyNews> = { payment: applyPayment, refund: applyRefund }
const byNoun = new Map<string, ApplyNews>(Object.entries(APPLYING))

/** Applies one notification; any order and any number of them end in the same state. */
async function apply(context: WorkerContext, job: JobOf<typeof applyNotification>): Promise<Decision> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied') return done()
  const news = newsOf(context.processor, notification)
  if (news === null) return over(notification, 'ignored')
  const applyNews = byNoun.get(news.subject)
  if (applyNews === undefined) throw new Error(`nobody here applies news of a ${news.subject}`)
  return await applyNews(context, notification, news)
}
