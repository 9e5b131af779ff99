// The system under torture: real processes on servers of its own, each server behind a wire that can be cut.
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectDatabase, type Sql } from '#core/db.ts'
import { createApiKey, SCOPES } from '#domain/api-keys.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { freePort } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { createClient, type Client } from '#test/client.ts'
import { startProcess, type Process } from '#test/process.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'

const HOST = '127.0.0.1'
const STRIPE_KEY = 'sk_test_torture'
const WEBHOOK_SECRET = 'whsec_torture'

/** A process that is started again, on the same port, after it was killed. */
export type Member = {
  name: string
  process(): Process
  kill(): Promise<void>
  start(): Promise<void>
}

export type System = {
  queue: 'redis' | 'postgres'
  /** Straight to the database, past the wire. */
  sql: Sql
  postgres: EmbeddedPostgres
  /** Null with the queue on PostgreSQL. */
  redis: { url: string; kill(): Promise<void>; start(): Promise<void> } | null
  /** What the processes' connections go through. */
  wires: { postgres: Proxy; redis: Proxy | null; stripe: Proxy }
  apis: Member[]
  workers: Member[]
  /** One for each API, of the same tenant. */
  clients: Client[]
  tenant_id: string
  stripe: (method: string, path: string, body?: unknown) => Promise<any>
  /** Where the logs are. */
  folder: string
  stop(): Promise<void>
}

export type SystemOptions = {
  queue: 'redis' | 'postgres'
  /** The folder of the project, or of a copy of it, whose processes are run. */
  root: string
  /** Hears each line that a process logs. */
  onLine: (name: string, line: string) => void
}

/** Starts everything: PostgreSQL, Redis, the processor's look-alike, two APIs, two workers, the webhooks host. */
export async function startSystem({ queue, root, onLine }: SystemOptions): Promise<System> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-torture-'))
  await chmod(folder, 0o711)
  await mkdir(join(folder, 'logs'))
  const closers: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const close of closers.splice(0).toReversed()) await close()
    await rm(join(folder, 'postgres'), { recursive: true, force: true })
  }
  async function launch(
    name: string,
    file: string,
    ready: string,
    env: Record<string, string>,
    args: string[] = [],
  ): Promise<Process> {
    const log = createWriteStream(join(folder, 'logs', `${name}.log`), { flags: 'a' })
    const started = await startProcess(file, {
      args,
      env,
      ready,
      root,
      onLine(line) {
        log.write(`${line}\n`)
        onLine(name, line)
      },
    })
    void started.ended.then(() => log.end())
    return started
  }
  async function member(
    name: string,
    file: string,
    ready: string,
    env: Record<string, string>,
  ): Promise<Member> {
    let current = await launch(name, file, ready, env)
    closers.push(() => current.end())
    return {
      name,
      process: () => current,
      kill: async () => void (await current.end()),
      async start() {
        current = await launch(name, file, ready, env)
      },
    }
  }

  try {
    const postgres = await startPostgres({
      data_dir: join(folder, 'postgres'),
      settings: { shared_buffers: '128MB', max_connections: '100' },
    })
    closers.push(() => postgres.stop())
    const redis = queue === 'redis' ? await startOwnRedis() : null
    if (redis) closers.push(() => redis.kill())
    const wires = {
      postgres: await startProxy(postgres.url),
      redis: redis && (await startProxy(redis.url)),
    }
    closers.push(
      () => wires.postgres.close(),
      () => wires.redis?.close() ?? Promise.resolve(),
    )

    const ports = { api: [await freePort(HOST), await freePort(HOST)], webhooks: await freePort(HOST) }
    const emulator = await launch('stripe', 'src/emulators/stripe/main.ts', 'stripe_url', {}, [
      '--port=0',
      `--api-key=${STRIPE_KEY}`,
      `--webhook-secret=${WEBHOOK_SECRET}`,
      `--webhook-url=http://${HOST}:${ports.webhooks}/stripe`,
      `--data-dir=${join(folder, 'stripe')}`,
    ])
    closers.push(() => emulator.end())
    const { stripe_url } = JSON.parse(emulator.ready) as { stripe_url: string }
    const stripeWire = await startProxy(stripe_url)
    closers.push(() => stripeWire.close())

    const env = {
      NODE_ENV: 'test',
      LOG_LEVEL: 'info',
      DATABASE_URL: wires.postgres.url,
      DATABASE_POOL: '8',
      ...(wires.redis ? { REDIS_URL: wires.redis.url } : { QUEUE: 'postgres' }),
      STRIPE_SECRET_KEY: STRIPE_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_API_BASE: stripeWire.url.replace(/\/$/, ''),
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      METRICS_PORT: '0',
      RATE_LIMIT_RPS: '100000',
      RATE_LIMIT_BURST: '100000',
    }
    const migration = await launch('migrate', 'src/commands/migrate.ts', 'Applied', env)
    await migration.ended
    const sql = connectDatabase(postgres.url, { max: 4, application_name: 'torture' })
    closers.push(() => sql.end({ timeout: 1 }))
    const tenant = await ensureTenant(sql, 'acme')
    const key = await createApiKey(sql, tenant, { name: 'torture', scopes: [...SCOPES], expires_at: null })

    await member('webhooks', 'src/webhooks/main.ts', 'the webhooks host listens', {
      ...env,
      WEBHOOKS_PORT: String(ports.webhooks),
    })
    const apis = await Promise.all(
      ports.api.map((port, index) =>
        member(`api-${index + 1}`, 'src/api/main.ts', 'the API listens', { ...env, API_PORT: String(port) }),
      ),
    )
    const workers = await Promise.all(
      [1, 2].map((index) => member(`worker-${index}`, 'src/workers/main.ts', 'the worker works', env)),
    )
    const stripe: System['stripe'] = async (method, path, body) => {
      const response = await fetch(`${stripe_url}${path}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return await response.json()
    }
    await stripe('POST', '/_emulator/webhooks', { duplicate_percent: 20, shuffle: true })
    return {
      queue,
      sql,
      postgres,
      redis,
      wires: { ...wires, stripe: stripeWire },
      apis,
      workers,
      clients: ports.api.map((port) => createClient(`http://${HOST}:${port}`, key.secret)),
      tenant_id: tenant.id,
      stripe,
      folder,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Comes back on the same port, and empty. */
async function startOwnRedis(): Promise<NonNullable<System['redis']>> {
  const start = async (port: number) => {
    const settings = { 'enable-protected-configs': 'yes' }
    const redis = await startRedis({ data_dir: null, port, settings })
    if (redis === null) throw new Error('redis-server or valkey-server must be on the PATH')
    return redis
  }
  let running = await start(await freePort(HOST))
  const { url, port } = running
  return {
    url,
    kill: () => running.kill(),
    async start() {
      running = await start(port)
    },
  }
}
