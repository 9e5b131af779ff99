// The chain floor, the worker: one call to the provider, a transaction, and the waiter is woken. The provider is the product's
// own adapter, or with STUB=1 a function that answers a capture at once.
import { randomUUIDv7 } from 'node:crypto'
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { stripeProcessor } from '#providers/stripe/payments.ts'
import { need, openPool } from './serve.ts'

/** As in the product. */
const CONCURRENCY = 100

type Ask = { payment_id: string; job_id: string }
type Authorize = Ask & { amount: number; currency: string; payment_method: string }
type Capture = Ask & { reference: string; amount: number }

const sql = openPool()
const publisher = new Redis(need('REDIS_URL'))
const processor = stripeProcessor({
  secret_key: need('STRIPE_SECRET_KEY'),
  api_base: need('STRIPE_API_BASE'),
})

async function authorize(job: Authorize): Promise<void> {
  const { payment_id, job_id, amount: amount_minor, currency, payment_method } = job
  const outcome = await processor.authorize(
    {
      amount_minor,
      currency,
      payment_method,
      description: null,
      return_url: null,
      metadata: { sluice_payment_id: payment_id },
    },
    job_id,
  )
  if (outcome.kind !== 'done') throw new Error(`the provider did not authorize: ${outcome.kind}`)
  const { reference } = outcome.value
  await sql.begin(async (tx) => {
    await tx`update floor_payments set status = 'authorized', reference = ${reference} where id = ${payment_id}`
    await tx`insert into floor_events (id, payment_id, type) values (${randomUUIDv7()}, ${payment_id}, 'payment.authorized')`
    await tx`update floor_jobs set state = 'succeeded' where id = ${job_id}`
  })
}

async function capture({ payment_id, job_id, reference, amount }: Capture): Promise<void> {
  if (process.env.STUB !== '1') {
    const outcome = await processor.capture({ reference, amount_minor: amount }, job_id)
    if (outcome.kind !== 'done') throw new Error(`the provider did not capture: ${outcome.kind}`)
  }
  await sql.begin(async (tx) => {
    await tx`update floor_payments set status = 'captured' where id = ${payment_id}`
    await tx`insert into floor_events (id, payment_id, type) values (${randomUUIDv7()}, ${payment_id}, 'payment.captured')`
    await tx`update floor_jobs set state = 'succeeded' where id = ${job_id}`
  })
}

const worker = new Worker(
  need('QUEUE_NAME'),
  async ({ name, data }) => {
    await (name === 'authorize' ? authorize(data as Authorize) : capture(data as Capture))
    await publisher.publish(`${need('QUEUE_NAME')}:done`, (data as Ask).job_id)
  },
  {
    connection: new Redis(need('REDIS_URL'), { maxRetriesPerRequest: null }),
    concurrency: CONCURRENCY,
  },
)
worker.on('failed', (_job, error) => console.error(error))
await worker.waitUntilReady()
console.log(JSON.stringify({ url: 'none' }))
process.once('SIGTERM', () => process.exit(0))
