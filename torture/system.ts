// The system under torture: real processes on servers of its own, each server behind a wire that can be cut.
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { freePort } from '#start/processes.ts'
import { createClient, type Client } from '#test/client.ts'
import { startProcess, until, type Process } from '#test/process.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { startQueueServers, type Place, type QueueServers } from './queue-servers.ts'

const HOST = '127.0.0.1'
const STRIPE_KEY = 'sk_test_torture'
const WEBHOOK_SECRET = 'whsec_torture'
/** A process that was told to end has this long. */
const TERM_LIMIT_MS = 30_000

/** A process that is started again, on the same port, after it ended. */
export type Member = {
  name: string
  process(): Process
  /** SIGKILL unless told. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** As it was before, but for what is told: it stays so. */
  start(as?: { root?: string; env?: Record<string, string> }): Promise<void>
}

export type System = {
  queue: Place
  /** Where the processes' sources are. */
  root: string
  /** Straight to the database, past the wire. */
  sql: Sql
  postgres: EmbeddedPostgres
  /** Null with the queue on PostgreSQL. */
  redis: QueueServers | null
  /** What the processes' connections go through; several Redis are reached directly. */
  wires: { postgres: Proxy; redis: Proxy | null; stripe: Proxy }
  apis: Member[]
  workers: Member[]
  /** One for each API, of the same tenant. */
  clients: Client[]
  tenant_id: string
  stripe: (method: string, path: string, body?: unknown) => Promise<any>
  /** Asks the processor's API for something, with our credentials and not through us. */
  asAnotherApplication: (path: string, params: Record<string, string>) => Promise<{ id: string }>
  /** Where the logs are. */
  folder: string
  /** Done when everything is stopped. */
  onStop(work: () => Promise<unknown>): void
  stop(): Promise<void>
}

export type SystemOptions = {
  queue: Place
  /** The folder of the project, or of a copy of it, whose processes are run. */
  root: string
  /** Hears each line that a process logs. */
  onLine: (name: string, line: string) => void
  /** Hears of a process that ended without being told to. */
  onEnd: (name: string, how: string) => void
}

/** Starts everything: PostgreSQL, Redis, the processor's look-alike, two APIs, two workers, the webhooks host. */
export async function startSystem({ queue, root, onLine, onEnd }: SystemOptions): Promise<System> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-torture-'))
  await chmod(folder, 0o711)
  await mkdir(join(folder, 'logs'))
  const closers: (() => Promise<unknown>)[] = []
  let stopping = false
  const stop = async () => {
    stopping = true
    for (const close of closers.splice(0).toReversed())
      await close().catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
    await rm(join(folder, 'postgres'), { recursive: true, force: true })
  }
  async function launch(
    name: string,
    file: string,
    ready: string,
    env: Record<string, string>,
    { args = [], from = root }: { args?: string[]; from?: string } = {},
  ): Promise<Process> {
    const log = createWriteStream(join(folder, 'logs', `${name}.log`), { flags: 'a' })
    const started = await startProcess(file, {
      args,
      env,
      ready,
      root: from,
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
    let as = { root, env: {} }
    const told = new WeakSet<Process>()
    const begin = async () => {
      const begun = await launch(name, file, ready, { ...env, ...as.env }, { from: as.root })
      void begun.ended.then(
        ({ code, signal }) => told.has(begun) || stopping || onEnd(name, String(signal ?? code)),
      )
      return begun
    }
    let current = await begin()
    closers.push(() => current.end())
    return {
      name,
      process: () => current,
      async kill(signal) {
        told.add(current)
        const patience = setTimeout(() => current.signal('SIGKILL'), TERM_LIMIT_MS)
        await current.end(signal)
        clearTimeout(patience)
      },
      async start(otherwise = {}) {
        as = { ...as, ...otherwise }
        current = await begin()
      },
    }
  }

  try {
    const postgres = await startPostgres({
      data_dir: join(folder, 'postgres'),
      settings: { shared_buffers: '128MB', max_connections: '200' },
    })
    closers.push(() => postgres.stop())
    const redis = await startQueueServers(queue, (stop) => closers.push(stop))
    const wires = {
      postgres: await startProxy(postgres.url),
      redis: redis && queue === 'redis' ? await startProxy(redis.url) : null,
    }
    closers.push(
      () => wires.postgres.close(),
      () => wires.redis?.close() ?? Promise.resolve(),
    )

    const ports = { api: [await freePort(HOST), await freePort(HOST)], webhooks: await freePort(HOST) }
    const args = [
      '--port=0',
      `--api-key=${STRIPE_KEY}`,
      `--webhook-secret=${WEBHOOK_SECRET}`,
      `--webhook-url=http://${HOST}:${ports.webhooks}/stripe`,
      `--data-dir=${join(folder, 'stripe')}`,
    ]
    const emulator = await launch('stripe', 'src/emulators/stripe/main.ts', 'stripe_url', {}, { args })
    closers.push(() => emulator.end())
    const { stripe_url } = JSON.parse(emulator.ready) as { stripe_url: string }
    const stripeWire = await startProxy(stripe_url)
    closers.push(() => stripeWire.close())

    const env = {
      NODE_ENV: 'test',
      LOG_LEVEL: 'info',
      DATABASE_URL: wires.postgres.url,
      DATABASE_POOL: '8',
      ...(redis ? { REDIS_URL: wires.redis?.url ?? redis.url } : { QUEUE: 'postgres' }),
      STRIPE_SECRET_KEY: STRIPE_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_API_BASE: stripeWire.url.replace(/\/$/, ''),
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      METRICS_PORT: '0',
      AUDIT_EVERY_S: '20',
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
    const inside = { NODE_OPTIONS: `--import=${new URL('preload.ts', import.meta.url).href}` }
    const workers = await Promise.all(
      [1, 2].map((index) =>
        member(`worker-${index}`, 'src/workers/main.ts', 'the worker works', { ...env, ...inside }),
      ),
    )
    const stripe: System['stripe'] = async (method, path, body) => {
      const response = await fetch(`${stripe_url}${path}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const answer: unknown = await response.json()
      if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
      return answer
    }
    // The processor's own faults meet others too, who simply ask again.
    const asAnotherApplication: System['asAnotherApplication'] = async (path, params) =>
      await until(`POST ${path} is answered`, async () => {
        const response = await fetch(`${stripe_url}${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${STRIPE_KEY}` },
          body: new URLSearchParams(params),
        }).catch(() => undefined)
        return (
          response?.ok === true && (await (response.json() as Promise<{ id: string }>).catch(() => undefined))
        )
      })
    await stripe('POST', '/_emulator/webhooks', { duplicate_percent: 20, shuffle: true })
    return {
      queue,
      root,
      sql,
      postgres,
      redis,
      wires: { ...wires, stripe: stripeWire },
      apis,
      workers,
      clients: ports.api.map((port) => createClient(`http://${HOST}:${port}`, key.secret)),
      tenant_id: tenant.id,
      stripe,
      asAnotherApplication,
      folder,
      onStop: (work) => void closers.push(work),
      stop,
    }
  } catch (error) {
    await stop()
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}
