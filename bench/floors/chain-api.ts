// The chain floor, first half: a capture without any protection, written naively. Transaction, bell, wait, answer.
import { randomUUIDv7 } from 'node:crypto'
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { need, openPool, serve } from './serve.ts'

const sql = openPool()
const channel = `${need('QUEUE_NAME')}:done`
const queue = new Queue(need('QUEUE_NAME'), {
  connection: new Redis(need('REDIS_URL'), { maxRetriesPerRequest: null }),
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
})
const waiting = new Map<string, () => void>()
const subscriber = new Redis(need('REDIS_URL'))
await subscriber.subscribe(channel)
subscriber.on('message', (_channel, id) => {
  waiting.get(id)?.()
  waiting.delete(id)
})

await serve((app) => {
  app.post('/payments/:id/capture', async (request) => {
    const { id } = request.params as { id: string }
    const job_id = randomUUIDv7()
    const [payment] = await sql.begin(async (tx) => {
      const rows = await tx`
        update floor_payments set status = 'capturing' where id = ${id} and status = 'authorized' returning reference, amount`
      await tx`insert into floor_jobs (id, payment_id, state) values (${job_id}, ${id}, 'ready')`
      await tx`insert into floor_events (id, payment_id, type) values (${randomUUIDv7()}, ${id}, 'payment.capturing')`
      return rows
    })
    const done = new Promise<void>((resolve) => waiting.set(job_id, resolve))
    await queue.add('capture', { payment_id: id, job_id, ...payment }, { jobId: job_id })
    await done
    return { id, status: 'captured' }
  })
})
