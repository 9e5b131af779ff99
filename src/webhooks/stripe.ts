// Notifications from Stripe: `POST /stripe`.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { derivedId } from '#core/ids.ts'
import { verifyStripe } from '#providers/signatures.ts'
import type { Take, WebhooksContext } from './app.ts'

/** What we need of an event; the rest is kept as it came. */
const eventSchema = z.looseObject({
  id: z.string().min(1).max(255),
  type: z.string().min(1).max(255),
  account: z.string().max(255).optional(),
  data: z.looseObject({
    object: z.looseObject({ id: z.string().max(255).optional(), object: z.string().optional() }),
  }),
})

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
      log.warn({ verdict, ip: request.ip }, 'a notification was refused')
      return await reply.code(400).send({
        error: { code: 'invalid_signature', message: `The signature is not acceptable: ${verdict}.` },
      })
    }
    const event = eventSchema.safeParse(parsed(raw))
    if (!event.success)
      return await reply
        .code(400)
        .send({ error: { code: 'invalid_request', message: 'This is not an event.' } })
    const { id, type, account = '', data } = event.data
    const fresh = await take({
      id: derivedId('stripe', account, id),
      provider: 'stripe',
      account,
      event_id: id,
      kind: type,
      object_id: data.object.id ?? null,
      payload: event.data as never,
    })
    return { received: true, ...(!fresh && { duplicate: true }) }
  })
}

const MAX_LEVELS = 100
/** How JSON writes what Postgres cannot store (among what it can); the bytes themselves cannot hold it. */
const SUSPECT = /\\u(?:0000|d[89a-f])/i

/** JSON as Postgres can store it; undefined when it is none, or nested as no event is. */
function parsed(raw: Buffer): unknown {
  const text = raw.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!fits(value, MAX_LEVELS)) return undefined
  return SUSPECT.test(text) ? storable(value) : value
}

function fits(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((each) => fits(each, levels - 1))
}

// Signed, so from the provider; yet a character that Postgres cannot store must not become a retry for ever.
function storable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\u0000', '').toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(storable)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [storable(name), storable(each)]))
}
