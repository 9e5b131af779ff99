// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { requireVariable } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { PAYMENTS } from '#core/config/providers.ts'
import { deriveFrom } from '#core/derived.ts'
import { metrics } from '#core/metrics.ts'
import { LOOKUP_KIND, notificationOf } from '#domain/notifications/notification.ts'
import { checkStripeHeader, verifyStripe } from '#providers/signatures.ts'
import { isEventOfAnyForm, readEvent } from '#providers/stripe/events.ts'
import { createAccountModes } from './account-modes.ts'
import type { NotificationRoute, StoreNotification, WebhooksContext } from './context.ts'
import { headerOf, parseJson, nowSeconds, rawBody, createNotificationRefusals } from './refuse.ts'

const SIGNATURE = 'stripe-signature'
const TEST_MODE: ReadonlySet<string> = new Set(['test'])

export const stripeNotifications: NotificationRoute = {
  path: '/stripe',
  route: stripeRoute,
}

function stripeRoute(
  app: FastifyInstance,
  { config, log, sql }: WebhooksContext,
  storeNotification: StoreNotification,
): void {
  const liveSecrets = deriveFrom(() => requireVariable(config, 'STRIPE_WEBHOOK_SECRET'), list)
  const testSecrets = deriveFrom(() => config.STRIPE_TEST_WEBHOOK_SECRET ?? '', list)
  const currentLiveModes = createAccountModes(sql, PAYMENTS.provider)
  const refuse = createNotificationRefusals('stripe', log)
  const refuseTest = createNotificationRefusals('stripe', log, { livemode: false })

  // Refuses a header that cannot be valid, before the body is read.
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const verdict = checkStripeHeader(headerOf(request, SIGNATURE), nowSeconds())
    return verdict && (await refuse.signature(verdict, request, reply))
  }
  app.post(stripeNotifications.path, { onRequest }, async (request, reply) => {
    const raw = rawBody(request)
    const verify = (secrets: string[]) =>
      verifyStripe(raw, headerOf(request, SIGNATURE), secrets, nowSeconds())
    const live_verdict = verify(liveSecrets())
    const livemode = live_verdict !== 'mismatch'
    const verdict = livemode ? live_verdict : verify(testSecrets())
    if (verdict !== 'valid') return await refuse.signature(verdict, request, reply)
    const body = parseJson(raw)
    const accepted_modes = livemode ? currentLiveModes() : TEST_MODE
    const refuseVerified = livemode ? refuse : refuseTest
    if (!isOfOneMode(body, accepted_modes)) return await refuseVerified.mode(request, reply)
    const event = readEvent(body)
    // Events in formats that are not stored, such as thin events, are accepted, although they concern no resource here:
    // Stripe would send a refused event for three days and then disable the endpoint.
    if (event === undefined && isEventOfAnyForm(body)) {
      if (livemode) metrics.notificationsStored.inc({ provider: 'stripe', state: 'unknown_form' })
      return { received: true }
    }
    // An event with the type of our own lookup requests is refused: the ids in a lookup request are trusted, so only
    // Sluice may write one.
    if (event === undefined || event.kind === LOOKUP_KIND) return await refuseVerified.content(request, reply)
    const notification = notificationOf({ provider: 'stripe', livemode }, event)
    const is_new = await storeNotification(notification, request, reply)
    return { received: true, ...(!is_new && { duplicate: true }) }
  })
}

const eventMode = z.object({ livemode: z.boolean() })

/** Whether an event is of one of these modes. Empty: they are not known. An event that names no mode is of any. */
function isOfOneMode(body: unknown, modes: ReadonlySet<string>): boolean {
  const livemode = eventMode.safeParse(body).data?.livemode
  return livemode === undefined || modes.size === 0 || modes.has(livemode ? 'live' : 'test')
}
