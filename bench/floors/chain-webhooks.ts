// The chain floor, the webhooks host: a notification is verified, stored once, rung for and answered. It is rung for only the
// kinds in KINDS, separated by commas: those that the product asks the provider about.
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { verifyStripe } from '#providers/signatures.ts'
import { need, openPool, serve } from './serve.ts'

const sql = openPool()
const kinds = new Set(need('KINDS').split(','))
const secrets = [need('STRIPE_WEBHOOK_SECRET')]
const queue = new Queue(`${need('QUEUE_NAME')}-notifications`, {
  connection: new Redis(need('REDIS_URL'), { maxRetriesPerRequest: null }),
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
})

type Event = {
  id: string
  type: string
  data: { object: { object: string; id: string; payment_intent?: string } }
}

await serve((app) => {
  // The signature covers the bytes as they came.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  app.post('/stripe', async (request, reply) => {
    const raw = request.body as Buffer
    const signature = String(request.headers['stripe-signature'])
    if (verifyStripe(raw, signature, secrets, Math.floor(Date.now() / 1000)) !== 'valid')
      return await reply.code(400).send({ error: 'invalid_signature' })
    const text = raw.toString('utf8')
    const { id, type, data } = JSON.parse(text) as Event
    const state = kinds.has(type) ? 'received' : 'ignored'
    const [stored] = await sql`
      insert into floor_notifications (id, kind, payload, state) values (${id}, ${type}, ${text}::text::jsonb, ${state})
      on conflict do nothing returning id`
    const reference = data.object.object === 'charge' ? data.object.payment_intent : data.object.id
    if (stored !== undefined && state === 'received')
      await queue.add('notification', { event_id: id, reference }, { jobId: id })
    return { received: true }
  })
})
