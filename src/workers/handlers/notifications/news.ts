// What a notification says of itself: the object that it is about, and whether that carries our mark.
import { z } from 'zod'
import type { StoredNotification } from '#domain/notifications.ts'

/** What we need of an event; everything else is asked for. */
const eventSchema = z.object({
  data: z.object({
    object: z.object({
      object: z.string(),
      id: z.string(),
      payment_intent: z.string().nullish(),
      metadata: z.record(z.string(), z.unknown()).nullish().catch(null),
    }),
  }),
})

/** The object of an event. */
export type NewsObject = z.output<typeof eventSchema>['data']['object']

/** Undefined when it says nothing that we could read. */
export function objectOf(notification: StoredNotification): NewsObject | undefined {
  return eventSchema.safeParse(notification.payload).data?.data.object
}

/** The processor's name of the payment that a notification is about, as far as it says so. */
export function paymentNamedBy(notification: StoredNotification): string | undefined {
  const object = objectOf(notification)
  return object?.object === 'payment_intent' ? object.id : (object?.payment_intent ?? undefined)
}

/** What we make at the processor has our ids in its metadata from its first moment on, and so has each of its charges. */
export function isMarked(metadata: NewsObject['metadata']): boolean {
  return Object.keys(metadata ?? {}).some((name) => name.startsWith('sluice_'))
}
