// Applies notifications. Where money moves their content is not trusted: the provider is asked for the present state of
// the object.
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { findNotification, type StoredNotification } from '#domain/notifications/notification.ts'
import type { ProviderNoun } from '#domain/subjects.ts'
import { applyNotification } from '#jobs/notifications.ts'
import type { News } from '#providers/news.ts'
import type { WorkerContext } from '../../context.ts'
import { discard, done, park, retry, type Decision } from '../../decision.ts'
import { factsOf } from '../../job-log.ts'
import { disputeNews } from '../disputes/events.ts'
import { handling, NEWER_MS, type JobOf } from '../handler.ts'
import { applyMessageNews, isOfMessages } from '../messages/events.ts'
import { paymentNews } from '../payments/events.ts'
import { payoutNews } from '../payouts/events.ts'
import { refundNews } from '../refunds/events.ts'
import { topUpNews } from '../top-ups/events.ts'
import { verificationNews } from '../verifications/events.ts'
import { parkAsDrift } from './apply.ts'
import type { ComparedNoun } from './drifts.ts'
import { readNews } from './news.ts'
import { becoming, over } from './parked.ts'

export const notificationHandlers = {
  [applyNotification.name]: handling(applyNotification, apply, parkPoison),
}

type FollowedNoun = {
  apply(context: WorkerContext, notification: StoredNotification, news: News): Promise<Decision>
  /** The row under which news are filed, and how it is compared; undefined when that is not known. */
  findRow(context: WorkerContext, news: News): Promise<FiledRow | undefined>
}
type FiledRow = { tenant_id: string; id: string; compared: ComparedNoun }

/** Who applies news, by what they are of. A noun of which a provider has a record does not compile without. */
const FOLLOWED: Record<ProviderNoun, FollowedNoun> = {
  kyc: verificationNews,
  dispute: disputeNews,
  payment: paymentNews,
  payout: payoutNews,
  refund: refundNews,
  top_up: topUpNews,
}
const byNoun = new Map<string, FollowedNoun>(Object.entries(FOLLOWED))

/** Applies one notification. In whatever order and however often they come, the result is the same. */
async function apply(context: WorkerContext, job: JobOf<typeof applyNotification>): Promise<Decision> {
  const notification = await findNotification(context.sql, job.payload.notification_id)
  if (notification === undefined || notification.state === 'applied') return done()
  if (isOfMessages(notification)) return await applyMessageNews(context, notification)
  const news = readNews(notification)
  if (news === undefined) return leave(`nobody here reads events of ${notification.provider}`)
  if (news === null) return over(notification, 'ignored')
  const noun = byNoun.get(news.subject)
  if (noun === undefined) return leave(`nobody here applies news of a ${news.subject}`)
  return await noun.apply(context, notification, news)
}

// Only a newer version can apply it.
function leave(reason: string): Decision {
  return retry(reason, { delay_ms: NEWER_MS })
}

/**
 * Gives up a notification whose worker was killed, or whose handler threw, each time: it is parked until an operator
 * retries it.
 */
async function parkPoison(context: WorkerContext, job: ClaimedJob, reason: string): Promise<Decision> {
  const { sql, log } = context
  // A notification and its job have one id.
  const notification = await findNotification(sql, job.id)
  if (notification === undefined) return discard(reason)
  const news = readNews(notification)
  const row = news && (await byNoun.get(news.subject)?.findRow(context, news))
  const { kind, object_id } = notification
  log.error(
    {
      ...factsOf(job),
      kind,
      object_id,
      ...(row && { tenant_id: row.tenant_id, [`${row.compared.noun}_id`]: row.id }),
      reason,
    },
    'a notification is given up until it is retried',
  )
  if (!row)
    return park(reason, { code: 'poison', tells: becoming(notification, 'parked', { reason: 'poison' }) })
  const why = { code: 'poison', reason } as const
  return parkAsDrift(context, notification, { compared: row.compared, row, why, counts: true })
}
