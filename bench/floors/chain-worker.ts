// The worker of the chain floor: one provider call, one transaction, and a publication that wakes the API. The provider
// is called through the product's adapter. With STUB=1, a function that captures immediately replaces the call.
import { randomUUIDv7 } from 'node:crypto'
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { stripeProcessor } from '#providers/stripe/payments.ts'
import { stripePayouts } from '#providers/stripe/payouts.ts'
import { requireEnv, openPool } from './serve.ts'

/** The product's concurrency. */
const CONCURRENCY = 100

type JobData = { job_id: string; amount: number }
type Authorize = JobData & { payment_id: string; currency: string; payment_method: string }
type Capture = JobData & { payment_id: string; reference: string }
type Payout = JobData & { payout_id: string; currency: string; destination: string }

const sql = openPool()
const publisher = new Redis(requireEnv('REDIS_URL'))
const stripe = { secret_key: requireEnv('STRIPE_SECRET_KEY'), api_base: requireEnv('STRIPE_API_BASE') }
const processor = stripeProcessor(stripe)
const payouts = stripePayouts(stripe)

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
    await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${payment_id}, 'payment.authorized')`
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
    await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${payment_id}, 'payment.captured')`
    await tx`update floor_jobs set state = 'succeeded' where id = ${job_id}`
  })
}

async function payOut({
  payout_id,
  job_id,
  amount: amount_minor,
  currency,
  destination,
}: Payout): Promise<void> {
  const outcome = await payouts.payOut(
    { destination, amount_minor, currency, description: null, metadata: { sluice_payout_id: payout_id } },
    job_id,
  )
  if (outcome.kind !== 'done') throw new Error(`the provider did not pay out: ${outcome.kind}`)
  const { reference } = outcome.value
  await sql.begin(async (tx) => {
    // A notification of this payout may already have changed its status.
    await tx`
      update floor_payouts set status = case status when 'pending' then 'processing' else status end, reference = ${reference}
      where id = ${payout_id}`
    await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${payout_id}, 'payout.processing')`
    await tx`update floor_jobs set state = 'succeeded' where id = ${job_id}`
  })
}

const PERFORM: Record<string, (data: never) => Promise<void>> = { authorize, capture, payout: payOut }

const worker = new Worker(
  requireEnv('QUEUE_NAME'),
  async ({ name, data }) => {
    await PERFORM[name]!(data as never)
    await publisher.publish(`${requireEnv('QUEUE_NAME')}:done`, (data as JobData).job_id)
  },
  {
    connection: new Redis(requireEnv('REDIS_URL'), { maxRetriesPerRequest: null }),
    concurrency: CONCURRENCY,
  },
)
worker.on('failed', (_job, error) => console.error(error))
await worker.waitUntilReady()
console.log(JSON.stringify({ url: 'none' }))
process.once('SIGTERM', () => process.exit(0))
