// A deployment of real processes for crash tests: each part by itself, to be killed, frozen and started again.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectDatabase, type Sql } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { createApiKey, SCOPES } from '#domain/api-keys.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { migrateQueue } from '#queue/main.ts'
import { freePort } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { createClient, type Answer, type Client } from './client.ts'
import { createDatabase } from './databases.ts'
import { createUsers, urlAs } from './users.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HOST = '127.0.0.1'
const STRIPE_KEY = 'sk_test_emulator'
const WEBHOOK_SECRET = 'whsec_test_current'

type Ended = { code: number | null; signal: NodeJS.Signals | null }
export type Process = {
  pid: number
  /** The line that said it was ready. */
  ready: string
  /** Sends a signal and goes on at once. */
  signal(signal: NodeJS.Signals): void
  /** Sends a signal, SIGKILL unless told, and resolves when the process has ended. */
  end(signal?: NodeJS.Signals): Promise<Ended>
  ended: Promise<Ended>
  /** What it has written to standard output and error so far. */
  output(): string
  /** Resolves with the first line, past or to come, that holds this text; rejects when the process ends before. */
  says(text: string): Promise<string>
}

/**
 * Starts `node <file>` with this environment and no other; resolves when it has written a line that holds `ready`. Throws with
 * what it wrote when it ends before. It does not outlive the test run, however that ends.
 */
export async function startProcess(
  file: string,
  { args = [], env = {}, ready }: { args?: string[]; env?: NodeJS.ProcessEnv; ready: string },
): Promise<Process> {
  const child = spawn(process.execPath, [file, ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const pid = child.pid!
  // The system closes the watcher's input also when this process is killed.
  const watcher = spawn('/bin/sh', ['-c', `read -r _; kill -s KILL ${pid}`], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watcher.unref()
  watcher.stdin.on('error', () => {})
  const ended = once(child, 'close').then(([code, signal]: unknown[]) => {
    watcher.kill('SIGKILL')
    return { code, signal } as Ended
  })

  const lines: string[] = []
  const listeners = new Set<(line: string) => void>()
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      for (const listener of listeners) listener(line)
    })
  }
  const output = () => lines.join('\n')

  async function says(text: string): Promise<string> {
    const said = lines.find((line) => line.includes(text))
    if (said !== undefined) return said
    return await new Promise((resolve, reject) => {
      const listener = (line: string) => {
        if (!line.includes(text)) return
        listeners.delete(listener)
        resolve(line)
      }
      listeners.add(listener)
      void ended.then(({ code, signal }) =>
        reject(new Error(`${file} ended (${code ?? signal}) without saying "${text}":\n${output()}`)),
      )
    })
  }

  return {
    pid,
    ready: await says(ready),
    signal: (signal) => void child.kill(signal),
    async end(signal = 'SIGKILL') {
      child.kill(signal)
      return await ended
    },
    ended,
    output,
    says,
  }
}

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
  let running: Awaited<ReturnType<typeof startRedis>> = null
  async function start(): Promise<void> {
    running = await startRedis({ data_dir: null, port })
    if (running === null)
      throw new Error('this test needs redis-server or valkey-server on the PATH, and none was found')
  }
  if (up) await start()
  return {
    start,
    url: `redis://${HOST}:${port}`,
    async kill() {
      await running?.kill()
      running = null
    },
    signal: (signal) => void process.kill(running!.pid, signal),
  }
}

/** Asks again and again until the answer is neither undefined nor false. Throws after `limit_ms`, naming what was awaited. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  limit_ms = 30_000,
): Promise<T> {
  const deadline = performance.now() + limit_ms
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`waited ${limit_ms} ms for this: ${what}`)
    await sleep(20)
  }
}
