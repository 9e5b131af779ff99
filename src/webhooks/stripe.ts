// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance } from 'fastify'
import { need } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { metrics } from '#core/metrics.ts'
import { seldom } from '#core/seldom.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { LOOK_KIND } from '#domain/reconciliation/looks.ts'
import { verifyStripe } from '#providers/signatures.ts'
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

  app.post(stripeNotifications.path, async (request, reply) => {
    const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const header = request.headers['stripe-signature']
    const verdict = verifyStripe(
      raw,
      Array.isArray(header) ? header[0] : header,
      secrets,
      Math.floor(Date.now() / 1000),
    )
    if (verdict !== 'valid') {
      refused(verdict, request.ip)
      return await reply.code(400).send({
        error: { code: 'invalid_signature', message: `The signature is not acceptable: ${verdict}.` },
      })
    }
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

function parsed(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return undefined
  }
}
