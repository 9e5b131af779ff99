// Reads what a notification is about: an event of the processor, or a look that we wrote ourselves.
import type { StoredNotification } from '#domain/notifications.ts'
import { LOOK_KIND, lookOf } from '#domain/reconciliation/looks.ts'
import type { PaymentProcessor, ProcessorNews } from '#providers/payments.ts'

/** Null when the notification is about an object that we do not keep. */
export function readNews(
  processor: PaymentProcessor,
  notification: StoredNotification,
): ProcessorNews | null {
  if (notification.kind !== LOOK_KIND) return processor.newsOf(notification.payload)
  const look = lookOf(notification)
  if (look === undefined) return null
  const { subject, reference } = look
  return { subject, reference, payment_reference: subject === 'payment' ? reference : null, marked: true }
}
