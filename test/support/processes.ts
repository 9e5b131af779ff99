// A deployment of real processes for crash tests: each part by itself, to be killed, frozen and started again.
import { randomBytes } from 'node:crypto'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { migrateQueue } from '#queue/main.ts'
import { freePort } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { createClient, type Answer, type Client } from './client.ts'
import { createDatabase } from './databases.ts'
import { startProcess, type Process } from './process.ts'
import { createUsers, urlAs } from './users.ts'

const HOST = '127.0.0.1'
const STRIPE_KEY = 'sk_test_emulator'
const WEBHOOK_SECRET = 'whsec_test_current'

export type Deployment = {
  env: Record<string, string>
  sql: Sql
  /** Speaks for the deployment's tenant, with every scope; the API need not run. */
  client: Client
  tenant_id: string
  /** Null on PostgreSQL. */
  redis: DeployedRedis | null
  /** Each process may be given variables of its own. They are killed when the deployment closes. */
  startApi(env?: Record<string, string>): Promise<Process>
  startWorker(env?: Record<string, string>): Promise<Process>
  /** What all processes of ours have written so far, also those that ended. */
  output(): string
  /** Kills the APIs and workers that still run. */
  killAll(): Promise<void>
  /** Calls the emulator, which is a process of its own: `/_emulator/...` scripts and shows it. */
  stripe: (method: string, path: string, body?: unknown) => Promise<any>
  /** Posts to the webhooks host, if it was started. */
  webhook: (body: string, signature: string) => Promise<Answer>
  close(): Promise<void>
}

/** A Redis that comes back on the same port, and empty. */
type DeployedRedis = {
  start(): Promise<void>
  kill(): Promise<void>
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  url: string
}

export type DeploymentOptions = {
  queue: 'redis' | 'postgres'
  /** A PostgreSQL of the test's own; else the suite's. The deployment takes a new database there. */
  server_url?: string
  /** Starts the webhooks host, to which the emulator sends its events. */
  webhooks?: boolean
  /** Whether the Redis runs from the beginning. */
  redis_up?: boolean
  env?: Record<string, string>
}

/** Makes database, Redis, emulator and, if asked for, the webhooks host; the test starts APIs and workers. */
export async function createDeployment({
  queue,
  server_url,
  webhooks = false,
  redis_up = true,
  env: more = {},
}: DeploymentOptions): Promise<Deployment> {
  const closers: (() => Promise<unknown>)[] = []
  const database = await (server_url === undefined ? createDatabase() : createDatabaseOn(server_url))
  closers.push(database.drop)
  const redis = queue === 'redis' ? await deployRedis(redis_up) : null
  if (redis) closers.push(() => redis.kill())
  else await migrateQueue({ redis_url: null, database_url: database.url })

  const [api_port, webhooks_port] = [await freePort(HOST), await freePort(HOST)]
  const emulator = await startProcess('src/emulators/stripe/main.ts', {
    args: ['--port=0', `--api-key=${STRIPE_KEY}`, `--webhook-secret=${WEBHOOK_SECRET}`].concat(
      webhooks ? [`--webhook-url=http://${HOST}:${webhooks_port}/stripe`] : [],
    ),
    ready: 'stripe_url',
  })
  closers.push(() => emulator.end())
  const { stripe_url } = JSON.parse(emulator.ready) as { stripe_url: string }

  const env = {
    NODE_ENV: 'test',
    LOG_LEVEL: 'info',
    DATABASE_URL: database.url,
    DATABASE_POOL: '8',
    ...(redis ? { REDIS_URL: redis.url } : { QUEUE: 'postgres' }),
    STRIPE_SECRET_KEY: STRIPE_KEY,
    STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
    STRIPE_API_BASE: stripe_url,
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    API_PORT: String(api_port),
    WEBHOOKS_PORT: String(webhooks_port),
    METRICS_PORT: '0',
    RATE_LIMIT_RPS: '100000',
    RATE_LIMIT_BURST: '100000',
    ...more,
  }
  const processes = new Set<Process>()
  const everStarted: Process[] = []
  const killAll = async () => void (await Promise.all([...processes].map((one) => one.end())))
  closers.push(killAll)
  async function start(
    role: 'api' | 'worker',
    file: string,
    ready: string,
    own: Record<string, string> = {},
  ): Promise<Process> {
    const all = { ...env, ...own }
    const started = await startProcess(file, {
      env: { ...all, DATABASE_URL: urlAs(role, all.DATABASE_URL) },
      ready,
    })
    processes.add(started)
    everStarted.push(started)
    void started.ended.then(() => processes.delete(started))
    return started
  }
  if (webhooks) {
    const host = await startProcess('src/webhooks/main.ts', {
      env: { ...env, DATABASE_URL: urlAs('webhooks', database.url) },
      ready: 'the webhooks host listens',
    })
    everStarted.push(host)
    closers.push(() => host.end())
  }

  const sql = connectDatabase(database.url, { max: 4, application_name: 'test' })
  closers.push(() => sql.end())
  const tenant = await ensureTenant(sql, 'acme')
  const key = await createApiKey(sql, tenant, { name: 'test', scopes: [...SCOPES], expires_at: null })
  return {
    env,
    sql,
    client: createClient(`http://${HOST}:${api_port}`, key.secret),
    tenant_id: tenant.id,
    redis,
    startApi: (own) => start('api', 'src/api/main.ts', 'the API listens', own),
    startWorker: (own) => start('worker', 'src/workers/main.ts', 'the worker works', own),
    output: () => everStarted.map((one) => one.output()).join('\n'),
    killAll,
    async stripe(method, path, body) {
      const response = await fetch(`${stripe_url}${path}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return await response.json()
    },
    webhook: (body, signature) =>
      createClient(`http://${HOST}:${webhooks_port}`, '').post('/stripe', JSON.parse(body), {
        'stripe-signature': signature,
      }),
    async close() {
      for (const close of closers.toReversed()) await close()
    },
  }
}

/** It ends with its server. */
async function createDatabaseOn(server_url: string): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `sluice_${randomBytes(6).toString('hex')}`
  const sql = connectDatabase(server_url, { max: 1, application_name: 'test' })
  await sql.unsafe(`create database ${name}`)
  const url = new URL(server_url)
  url.pathname = `/${name}`
  await migrate(url.href)
  const [known] =
    await sql`select from pg_roles where rolname = ${new URL(urlAs('api', server_url)).username}`
  if (known === undefined) await createUsers(sql)
  await sql.end()
  return { url: url.href, drop: () => Promise.resolve() }
}

async function deployRedis(up: boolean): Promise<DeployedRedis> {
  const port = await freePort(HOST)
  const password = randomBytes(12).toString('hex')
  let running: Awaited<ReturnType<typeof startRedis>> = null
  async function start(): Promise<void> {
    running = await startRedis({ data_dir: null, port, password })
    if (running === null)
      throw new Error('this test needs redis-server or valkey-server on the PATH, and none was found')
  }
  if (up) await start()
  return {
    start,
    url: `redis://:${password}@${HOST}:${port}`,
    async kill() {
      await running?.kill()
      running = null
    },
    signal: (signal) => void process.kill(running!.pid, signal),
  }
}
