// The chain floor, the webhooks host: a notification is verified, and stored and applied in a transaction, its content believed.
import { verifyStripe } from '#providers/signatures.ts'
import { need, openPool, serve } from './serve.ts'

const sql = openPool()
const secrets = [need('STRIPE_WEBHOOK_SECRET')]
const STATUS: Record<string, string> = { requires_capture: 'authorized', succeeded: 'captured' }

type Event = {
  id: string
  type: string
  data: { object: { status: string; metadata: { sluice_payment_id: string } } }
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
    const status = STATUS[data.object.status]!
    await sql.begin(async (tx) => {
      await tx`
        insert into floor_notifications (id, kind, payload, state) values (${id}, ${type}, ${text}::text::jsonb, 'received')
        on conflict do nothing`
      await tx`
        update floor_payments set status = ${status}
        where id = ${data.object.metadata.sluice_payment_id} and status not in (${status}, 'captured')`
      await tx`update floor_notifications set state = 'applied', applied_at = now() where id = ${id}`
    })
    return { received: true }
  })
})
