// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { requireVariable } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { deriveFrom } from '#core/derived.ts'
import { metrics } from '#core/metrics.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { LOOKUP_KIND } from '#domain/reconciliation/lookups.ts'
import { checkStripeHeader, verifyStripe } from '#providers/signatures.ts'
import { isEventOfAnyForm, readEvent } from '#providers/stripe/events.ts'
import type { NotificationRoute, StoreNotification, WebhooksContext } from './context.ts'
import { headerOf, parseJson, nowSeconds, rawBody, createNotificationRefusals } from './refuse.ts'

const SIGNATURE = 'stripe-signature'

export const stripeNotifications: NotificationRoute = {
  path: '/stripe',
  route: stripeRoute,
}

function stripeRoute(
  app: FastifyInstance,
  { config, log }: WebhooksContext,
  storeNotification: StoreNotification,
): void {
  const currentSecrets = deriveFrom(() => requireVariable(config, 'STRIPE_WEBHOOK_SECRET'), list)
  const refuse = createNotificationRefusals('stripe', log)

  // Refuses a header that cannot be valid, before the body is read.
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const verdict = checkStripeHeader(headerOf(request, SIGNATURE), nowSeconds())
    return verdict && (await refuse.signature(verdict, request, reply))
  }
  app.post(stripeNotifications.path, { onRequest }, async (request, reply) => {
    const raw = rawBody(request)
    const verdict = verifyStripe(raw, headerOf(request, SIGNATURE), currentSecrets(), nowSeconds())
    if (verdict !== 'valid') return await refuse.signature(verdict, request, reply)
    const body = parseJson(raw)
    const event = readEvent(body)
    // Events in formats that are not stored, such as thin events, are accepted, although they concern no resource here:
    // Stripe would send a refused event for three days and then disable the endpoint.
    if (event === undefined && isEventOfAnyForm(body)) {
      metrics.notificationsStored.inc({ provider: 'stripe', state: 'unknown_form' })
      return { received: true }
    }
    // An event with the type of our own lookup requests is refused: the ids in a lookup request are trusted, so only
    // Sluice may write one.
    if (event === undefined || event.kind === LOOKUP_KIND) return await refuse.content(request, reply)
    const is_new = await storeNotification(notificationOf('stripe', event), request, reply)
    return { received: true, ...(!is_new && { duplicate: true }) }
  })
}
