// The chain floor, second half: the worker. Provider, transaction, wake the waiter. The provider is the product's own adapter
// (the official SDK against the same emulator), or with STUB=1 a function that answers at once.
import { randomUUIDv7 } from 'node:crypto'
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { stripeProcessor } from '#providers/stripe/payments.ts'
import { need, openPool } from './serve.ts'

const CONCURRENCY = 100

type Capture = { payment_id: string; job_id: string; reference: string; amount: number }

const sql = openPool()
const publisher = new Redis(need('REDIS_URL'))
const processor = stripeProcessor({
  secret_key: need('STRIPE_SECRET_KEY'),
  api_base: need('STRIPE_API_BASE'),
})

async function capture({ reference, amount, job_id }: Capture): Promise<void> {
  if (process.env.STUB === '1') return
  const outcome = await processor.capture({ reference, amount_minor: amount }, job_id)
  if (outcome.kind !== 'done') throw new Error(`the provider did not capture: ${outcome.kind}`)
}

const worker = new Worker<Capture>(
  need('QUEUE_NAME'),
  async ({ data }) => {
    const { payment_id, job_id } = data
    await capture(data)
    await sql.begin(async (tx) => {
      await tx`update floor_payments set status = 'captured' where id = ${payment_id}`
      await tx`insert into floor_events (id, payment_id, type) values (${randomUUIDv7()}, ${payment_id}, 'payment.captured')`
      await tx`update floor_jobs set state = 'succeeded' where id = ${job_id}`
    })
    await publisher.publish(`${need('QUEUE_NAME')}:done`, job_id)
  },
  { connection: new Redis(need('REDIS_URL'), { maxRetriesPerRequest: null }), concurrency: CONCURRENCY },
)
worker.on('failed', (_job, error) => console.error(error))
await worker.waitUntilReady()
console.log(JSON.stringify({ url: 'none' }))
process.once('SIGTERM', () => process.exit(0))
