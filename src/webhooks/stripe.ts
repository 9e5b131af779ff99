// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { need } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { metrics } from '#core/metrics.ts'
import { seldom } from '#core/seldom.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { checkStripeHeader, verifyStripe, type SignatureVerdict } from '#providers/signatures.ts'
import { readEvent } from '#providers/stripe/news.ts'
import type { NotificationRoute, Take, WebhooksContext } from './context.ts'

export const stripeNotifications: NotificationRoute = {
  path: '/stripe',
  route: stripeRoute,
}

function stripeRoute(app: FastifyInstance, { config, log }: WebhooksContext, take: Take): void {
  const secrets = list(need(config, 'STRIPE_WEBHOOK_SECRET'))
  const warn = seldom((suppressed, verdict: string, ip: string) =>
    log.warn({ verdict, ip, suppressed }, 'a notification was refused'),
  )
  const refused = (reason: string, ip: string) => {
    metrics.notificationsRefused.inc({ provider: 'stripe', reason })
    warn(reason, ip)
  }

  const refuse = (verdict: SignatureVerdict, { ip }: FastifyRequest, reply: FastifyReply) => {
    refused(verdict, ip)
    return reply.code(400).send({
      error: { code: 'invalid_signature', message: `The signature is not acceptable: ${verdict}.` },
    })
  }

  // What anybody can see to be no signature of ours is refused without reading the body.
  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const verdict = checkStripeHeader(signatureOf(request), nowS())
    return verdict && (await refuse(verdict, request, reply))
  }
  app.post(stripeNotifications.path, { onRequest }, async (request, reply) => {
    const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const verdict = verifyStripe(raw, signatureOf(request), secrets, nowS())
    if (verdict !== 'valid') return await refuse(verdict, request, reply)
    const event = readEvent(parsed(raw))
    // A look is only ever written by us: it would be believed to carry our ids.
    if (event === undefined || event.kind === LOOK_KIND) {
      refused('no event', request.ip)
      return await reply
        .code(400)
        .send({ error: { code: 'invalid_request', message: 'This is not an event.' } })
    }
    const fresh = await take(notificationOf('stripe', event), request)
    return { received: true, ...(!fresh && { duplicate: true }) }
  })
}

function signatureOf({ headers }: FastifyRequest): string | undefined {
  const header = headers['stripe-signature']
  return Array.isArray(header) ? header[0] : header
}

function nowS(): number {
  return Math.floor(Date.now() / 1000)
}

function parsed(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return undefined
  }
}
