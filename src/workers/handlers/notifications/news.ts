// What a notification is about: as its processor tells it, or as we wrote it down ourselves to have something looked at.
import type { StoredNotification } from '#domain/notifications.ts'
import { LOOK_KIND, lookOf } from '#domain/reconciliation/looks.ts'
import type { PaymentProcessor, ProcessorNews } from '#providers/payments.ts'

/** Null when it is about nothing that we follow. */
export function readNews(processor: PaymentProcessor, notification: StoredNotification): ProcessorNews | null {
  if (notification.kind !== LOOK_KIND) return processor.newsOf(notification.payload)
  const { subject, reference } = lookOf(notification)
  return { subject, reference, payment_reference: subject === 'payment' ? reference : null, marked: true }
}
