// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { need } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { metrics } from '#core/metrics.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { checkStripeHeader, verifyStripe } from '#providers/signatures.ts'
import { isEventOfAnyForm, readEvent } from '#providers/stripe/news.ts'
import type { NotificationRoute, Take, WebhooksContext } from './context.ts'
import { headerOf, jsonOf, nowS, rawBody, refusing } from './refuse.ts'

const SIGNATURE = 'stripe-signature'

export const stripeNotifications: NotificationRoute = {
  path: '/stripe',
  route: stripeRoute,
}

function stripeRoute(app: FastifyInstance, { config, log }: WebhooksContext, take: Take): void {
  const secrets = list(need(config, 'STRIPE_WEBHOOK_SECRET'))
  const refuse = refusing('stripe', log)

  // What anybody can see to be no signature of ours is refused without reading the body.
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const verdict = checkStripeHeader(headerOf(request, SIGNATURE), nowS())
    return verdict && (await refuse.signature(verdict, request, reply))
  }
  app.post(stripeNotifications.path, { onRequest }, async (request, reply) => {
    const raw = rawBody(request)
    const verdict = verifyStripe(raw, headerOf(request, SIGNATURE), secrets, nowS())
    if (verdict !== 'valid') return await refuse.signature(verdict, request, reply)
    const body = jsonOf(raw)
    const event = readEvent(body)
    // Nothing that is followed has such a form. Stripe would send it again for three days, and disable the endpoint.
    if (event === undefined && isEventOfAnyForm(body)) {
      metrics.notificationsStored.inc({ provider: 'stripe', state: 'unknown_form' })
      return { received: true }
    }
    // A look is only ever written by us: it would be believed to carry our ids.
    if (event === undefined || event.kind === LOOK_KIND) return await refuse.content(request, reply)
    const fresh = await take(notificationOf('stripe', event), request)
    return { received: true, ...(!fresh && { duplicate: true }) }
  })
}
