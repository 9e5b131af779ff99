// The webhooks host of the chain floor: verifies a notification, and stores and applies it in a transaction. The
// notification is trusted, but a payout in progress is looked up, so that the provider gets as many requests as from
// the product.
import { randomUUIDv7 } from 'node:crypto'
import type { TransactionSql } from 'postgres'
import { verifyStripe } from '#providers/signatures.ts'
import { stripePayouts } from '#providers/stripe/payouts.ts'
import { requireEnv, openPool, serve } from './serve.ts'

const sql = openPool()
const secrets = [requireEnv('STRIPE_WEBHOOK_SECRET')]
const STATUS: Record<string, string> = { requires_capture: 'authorized', succeeded: 'captured' }

const payouts = stripePayouts({
  secret_key: requireEnv('STRIPE_SECRET_KEY'),
  api_base: requireEnv('STRIPE_API_BASE'),
})

type Event = {
  id: string
  type: string
  data: {
    object: { object: string; id: string; status: string; metadata: Record<string, string> }
  }
}

async function applyToPayment(tx: TransactionSql, { data: { object } }: Event): Promise<void> {
  const status = STATUS[object.status]!
  await tx`
    update floor_payments set status = ${status}
    where id = ${object.metadata['sluice_payment_id']!} and status not in (${status}, 'captured')`
}

async function applyToPayout(tx: TransactionSql, event: Event, status: string): Promise<void> {
  const id = event.data.object.metadata['sluice_payout_id']!
  const moved = await tx`
    update floor_payouts set status = ${status}, paid_at = case ${status} when 'paid' then clock_timestamp() end
    where id = ${id} and status not in (${status}, 'paid')`
  if (moved.count > 0)
    await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${id}, ${`payout.${status}`})`
}

async function payoutStatus(reference: string): Promise<string> {
  const outcome = await payouts.findPayout(reference)
  if (outcome.kind !== 'done' || outcome.value === null)
    throw new Error(`the provider returned no payout: ${outcome.kind}`)
  return outcome.value.status
}

await serve((app) => {
  // The signature covers the raw bytes.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  app.post('/stripe', async (request, reply) => {
    const raw = request.body as Buffer
    const signature = String(request.headers['stripe-signature'])
    if (verifyStripe(raw, signature, secrets, Math.floor(Date.now() / 1000)) !== 'valid')
      return await reply.code(400).send({ error: 'invalid_signature' })
    const text = raw.toString('utf8')
    const event = JSON.parse(text) as Event
    const { id, type, data } = event
    const { object, id: reference, status } = data.object
    const current_status = type === 'payout.updated' ? await payoutStatus(reference) : status
    await sql.begin(async (tx) => {
      await tx`
        insert into floor_notifications (id, kind, payload, state) values (${id}, ${type}, ${text}::text::jsonb, 'received')
        on conflict do nothing`
      await (object === 'payout' ? applyToPayout(tx, event, current_status) : applyToPayment(tx, event))
      await tx`update floor_notifications set state = 'applied', applied_at = now() where id = ${id}`
    })
    return { received: true }
  })
})
