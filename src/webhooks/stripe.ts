// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance } from 'fastify'
import { notificationOf } from '#domain/notifications.ts'
import { verifyStripe } from '#providers/signatures.ts'
import type { Take, WebhooksContext } from './app.ts'

export function stripeRoute(
  app: FastifyInstance,
  { stripe_secrets, log }: WebhooksContext,
  take: Take,
): void {
  app.post('/stripe', async (request, reply) => {
    const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const header = request.headers['stripe-signature']
    const verdict = verifyStripe(
      raw,
      Array.isArray(header) ? header[0] : header,
      stripe_secrets,
      Math.floor(Date.now() / 1000),
    )
    if (verdict !== 'valid') {
      log.warn({ request_id: request.id, verdict, ip: request.ip }, 'a notification was refused')
      return await reply.code(400).send({
        error: { code: 'invalid_signature', message: `The signature is not acceptable: ${verdict}.` },
      })
    }
    const notification = notificationOf('stripe', parsed(raw))
    if (notification === undefined)
      return await reply
        .code(400)
        .send({ error: { code: 'invalid_request', message: 'This is not an event.' } })
    const fresh = await take(notification, request)
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
