// Floor: BullMQ alone with no-op jobs, on Redis or its PostgreSQL backend. Prints its two figures and ends.
import { once } from 'node:events'
import { Queue, Worker, createPostgresBackend, createRedisBackend, runMigrations } from 'bullmq'
import { Redis } from 'ioredis'
import { Client } from 'pg'
import { requireEnv } from './serve.ts'

const CONCURRENCY = 50
const IDLE_JOBS = 200

const jobs = Number(requireEnv('JOBS'))
const onPostgres = requireEnv('BACKEND') === 'postgres'
const name = `floor-${process.pid}`
const job_options = { removeOnComplete: true, removeOnFail: true }
const { queue, worker } = onPostgres ? await openPostgres() : openRedis()

// Draining a backlog: the worker starts after all jobs were added.
for (let added = 0; added < jobs; added += 500) {
  await queue.addBulk(
    Array.from({ length: Math.min(500, jobs - added) }, () => ({ name: 'nothing', data: {} })),
  )
}
const started = performance.now()
void worker.run()
await until(jobs)
const rate = jobs / ((performance.now() - started) / 1000)

const latencies: number[] = []
for (let index = 0; index < IDLE_JOBS; index++) {
  const added_at = performance.now()
  const completed = once(worker, 'completed')
  await queue.add('nothing', {})
  await completed
  latencies.push(performance.now() - added_at)
}
latencies.sort((a, b) => a - b)
console.log(JSON.stringify({ url: 'none', rate, idle_p50_ms: latencies[IDLE_JOBS >> 1] }))
process.exit(0)

async function until(count: number): Promise<void> {
  let completed = 0
  await new Promise<void>((resolve) => {
    worker.on('completed', () => {
      completed += 1
      if (completed === count) resolve()
    })
  })
  worker.removeAllListeners('completed')
}

function openRedis() {
  const connect = () => new Redis(requireEnv('REDIS_URL'), { maxRetriesPerRequest: null })
  const options = { concurrency: CONCURRENCY, autorun: false, connection: connect() }
  return {
    queue: new Queue(name, { connection: connect(), defaultJobOptions: job_options }),
    worker: new Worker(name, async () => {}, options, createRedisBackend),
  }
}

async function openPostgres() {
  const connectionString = requireEnv('DATABASE_URL')
  const client = new Client({ connectionString })
  await client.connect()
  await runMigrations(client, 'bullmq')
  await client.end()
  const connection = { connectionString, schema: 'bullmq', max: 10 }
  return {
    queue: new Queue(name, { connection, defaultJobOptions: job_options }, createPostgresBackend),
    worker: new Worker(
      name,
      async () => {},
      { connection, concurrency: CONCURRENCY, autorun: false },
      createPostgresBackend,
    ),
  }
}
