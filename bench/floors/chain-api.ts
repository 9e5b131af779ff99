// The API of the chain floor, which authorizes, captures and pays out without any protection. For each request: one
// transaction, one BullMQ job, a wait for the job, and the answer.
import { randomUUIDv7 } from 'node:crypto'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { z } from 'zod'
import { requireEnv, openPool, serve } from './serve.ts'

const sql = openPool()
const channel = `${requireEnv('QUEUE_NAME')}:done`
const queue = new Queue(requireEnv('QUEUE_NAME'), {
  connection: new Redis(requireEnv('REDIS_URL'), { maxRetriesPerRequest: null }),
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
})
const waiting = new Map<string, () => void>()
const subscriber = new Redis(requireEnv('REDIS_URL'))
await subscriber.subscribe(channel)
subscriber.on('message', (_channel, id) => {
  waiting.get(id)?.()
  waiting.delete(id)
})

const paymentBody = z.strictObject({
  idempotency_key: z.string().min(1).max(255),
  amount_minor: z.int().positive(),
  currency: z.string().length(3),
  method: z.literal('card'),
  payment_method: z.string().max(255),
  metadata: z.json().default({}),
})

const payoutBody = z.strictObject({
  idempotency_key: z.string().min(1).max(255),
  amount_minor: z.int().positive(),
  currency: z.string().length(3),
  destination: z.string().max(255),
  metadata: z.json().default({}),
})

async function perform(
  name: 'authorize' | 'capture' | 'payout',
  job_id: string,
  data: object,
): Promise<void> {
  const done = new Promise<void>((resolve) => waiting.set(job_id, resolve))
  await queue.add(name, { ...data, job_id }, { jobId: job_id })
  await done
}

await serve((app) => {
  app.post('/payments', async (request, reply) => {
    const { amount_minor, currency, payment_method } = paymentBody.parse(request.body)
    const [id, job_id] = [randomUUIDv7(), randomUUIDv7()]
    await sql.begin(async (tx) => {
      await tx`insert into floor_payments (id, status, amount) values (${id}, 'authorizing', ${amount_minor})`
      await tx`insert into floor_jobs (id, resource_id, state) values (${job_id}, ${id}, 'ready')`
      await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${id}, 'payment.created')`
    })
    await perform('authorize', job_id, { payment_id: id, amount: amount_minor, currency, payment_method })
    return await reply.code(201).send({ id, status: 'authorized' })
  })

  app.post('/payments/:id/capture', async (request) => {
    const { id } = request.params as { id: string }
    const job_id = randomUUIDv7()
    const [payment] = await sql.begin(async (tx) => {
      const rows = await tx`
        update floor_payments set status = 'capturing' where id = ${id} and status = 'authorized' returning reference, amount`
      await tx`insert into floor_jobs (id, resource_id, state) values (${job_id}, ${id}, 'ready')`
      await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${id}, 'payment.capturing')`
      return rows
    })
    await perform('capture', job_id, { payment_id: id, ...payment })
    return { id, status: 'captured' }
  })

  app.post('/payouts', async (request, reply) => {
    const { amount_minor, currency, destination } = payoutBody.parse(request.body)
    const [id, job_id] = [randomUUIDv7(), randomUUIDv7()]
    await sql.begin(async (tx) => {
      await tx`
        insert into floor_payouts (id, status, amount, created_at) values (${id}, 'pending', ${amount_minor}, clock_timestamp())`
      await tx`insert into floor_jobs (id, resource_id, state) values (${job_id}, ${id}, 'ready')`
      await tx`insert into floor_events (id, subject_id, type) values (${randomUUIDv7()}, ${id}, 'payout.created')`
    })
    await perform('payout', job_id, { payout_id: id, amount: amount_minor, currency, destination })
    return await reply.code(201).send({ id, status: 'processing' })
  })
})
