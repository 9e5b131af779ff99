// Starts the system under torture: real processes and servers of its own, with a proxy in front of each server.
import { randomBytes, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from '#test/client.ts'
import { createVault, type Vault } from '#core/secrets.ts'
import { createKey, HOST, SMALL_SYSTEM, variables } from '#test/environment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { PARTS, type PartName } from '#test/parts.ts'
import { startProcess, until, type Process } from '#test/process.ts'
import { startProviders, type Provider, type ProviderName, type ProviderAddresses } from '#test/providers.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import {
  registerEndpoints,
  TENANTS_PER_SUBSCRIBER,
  ALL_EVENTS_ENDPOINTS,
  BUSY_TENANT_ENDPOINTS,
} from './events/endpoints.ts'
import { followFeed, type Follower } from './events/follower.ts'
import { startReceivers, type Receivers } from './events/receivers.ts'
import { startQueueServers, type QueueServer, type RunningQueueServers } from './queue-servers.ts'
import type { Member } from './member.ts'
import type { Random } from './random.ts'

/** Retry delays of a delivery: many, so that no delivery fails, and short, so that ordered endpoints continue soon. */
const RETRY_SCHEDULE_S = [0, 0.2, 0.5, 1, ...Array.from({ length: 40 }, () => 2)].join(',')

export type System = {
  queue: QueueServer
  /** The folder of the processes' sources. */
  root: string
  /** Connects directly to the database, without the proxy. */
  sql: Sql
  postgres: EmbeddedPostgres
  /** The servers of the queue; null if the queue is on PostgreSQL. */
  redis: RunningQueueServers | null
  /** The proxies of the processes' connections. Redis has no proxy if it consists of several servers. */
  wires: { postgres: Proxy; redis: Proxy | null; provider: (name: ProviderName) => Proxy }
  apis: Member[]
  workers: Member[]
  /** One client per API, of the same tenant. */
  clients: Client[]
  tenant_id: string
  /** Creates a tenant with clients. Some tenants have endpoints and a follower. */
  newTenant: () => Promise<Client[]>
  /** The receivers and the feed followers of all tenants. */
  receivers: Receivers
  followers: Follower[]
  /** The webhooks host, and the secret that the email relay signs with. */
  webhooks_url: string
  email_secret: string
  /** Opens values that the processes have sealed. */
  vault: Vault
  /** The control API of a provider, without the proxy. */
  provider: (name: ProviderName) => Provider
  /** Calls the processor's API with our credentials, as another application of the same account would. */
  asAnotherApplication: (path: string, params: Record<string, string>) => Promise<{ id: string }>
  /** The folder with the logs. */
  folder: string
  /** Runs `work` when the system stops. */
  onStop(work: () => Promise<unknown>): void
  stop(): Promise<void>
}

export type SystemOptions = {
  queue: QueueServer
  /** The folder whose sources are run: the project's, or a copy. */
  root: string
  /** Random numbers for the behavior of the receivers. */
  random: Random
  /** Called with each log line of a process. */
  onOutputLine: (name: string, line: string) => void
  /** Called when a process ends unexpectedly. */
  onEnd: (name: string, how: string) => void
}

/** Starts PostgreSQL, Redis, the emulators, the receivers, two APIs, two workers and the webhooks host. */
export async function startSystem({
  queue,
  root,
  random,
  onOutputLine,
  onEnd,
}: SystemOptions): Promise<System> {
  const { path: folder, remove } = await createTemporaryFolder('torture')
  await mkdir(join(folder, 'logs'))
  const cleanup = new AsyncDisposableStack()
  let stopping = false
  const stop = async () => {
    stopping = true
    await cleanup.disposeAsync().catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
    await rm(join(folder, 'postgres'), { recursive: true, force: true })
  }
  async function launch(
    name: string,
    file: string,
    how: {
      ready?: string
      args?: string[]
      env?: Record<string, string>
      root?: string
      output?: number | undefined
    },
  ): Promise<Process> {
    const log = createWriteStream(join(folder, 'logs', `${name}.log`), { flags: 'a' })
    const started = await startProcess(file, {
      root,
      ...how,
      onOutputLine(line) {
        log.write(`${line}\n`)
        onOutputLine(name, line)
      },
    })
    void started.ended.then(() => log.end())
    return started
  }
  async function member(name: string, part: PartName, env: Record<string, string>): Promise<Member> {
    const { file, ready } = PARTS[part]
    let options: NonNullable<Parameters<Member['start']>[0]> = {}
    const stopped_by_us = new WeakSet<Process>()
    const startMember = async () => {
      const { output } = options
      const started = await launch(name, file, {
        ...(output === undefined && { ready }),
        output,
        root: options.root ?? root,
        env: { ...env, ...options.env },
      })
      void started.ended.then(
        ({ code, signal }) => stopped_by_us.has(started) || stopping || onEnd(name, String(signal ?? code)),
      )
      return started
    }
    let current = await startMember()
    cleanup.defer(async () => void (await current.end()))
    return {
      name,
      process: () => current,
      async kill(signal) {
        stopped_by_us.add(current)
        await current.end(signal)
      },
      async start(changes = {}) {
        options = { ...options, ...changes }
        current = await startMember()
      },
    }
  }

  try {
    const postgres = await startPostgres({
      data_dir: join(folder, 'postgres'),
      settings: { shared_buffers: '128MB', max_connections: '200' },
    })
    cleanup.defer(() => postgres.stop())
    const redis = await startQueueServers(queue, (stop) => cleanup.defer(stop))
    const wired = async (url: string) => {
      const wire = await startProxy(url)
      cleanup.defer(() => wire.close())
      return wire
    }
    const wires = {
      postgres: await wired(postgres.url),
      redis: redis && queue === 'redis' ? await wired(redis.url) : null,
    }

    const ports = { api: [await freePort(HOST), await freePort(HOST)], webhooks: await freePort(HOST) }
    const webhooks_url = `http://${HOST}:${ports.webhooks}`
    const email_secret = `whsec_${randomBytes(32).toString('base64')}`
    const providers = await startProviders(cleanup, {
      launch,
      webhooks_url,
      data_dir: folder,
    })
    const provider = (name: ProviderName) => providers.get(name)!
    const toProviders = new Map<ProviderName, Proxy>()
    /** The addresses of each provider, with the proxy in front of the API that Sluice calls. */
    const addresses = new Map<ProviderName, ProviderAddresses>()
    for (const [name, { addresses: direct }] of providers) {
      const called = direct['smtp_url'] === undefined ? 'url' : 'smtp_url'
      const wire = await wired(direct[called]!)
      toProviders.set(name, wire)
      addresses.set(name, { ...direct, [called]: wire.url })
    }
    const toProvider = (name: ProviderName) => toProviders.get(name)!

    const receivers = await startReceivers(random)
    cleanup.defer(() => receivers.close())

    const env: Record<string, string> = {
      ...SMALL_SYSTEM,
      ...variables({
        database_url: wires.postgres.url,
        redis_url: redis && (wires.redis?.url ?? redis.url),
        provider: (name) => addresses.get(name)!,
      }),
      AUDIT_EVERY_S: '20',
      RECONCILE_EVERY_S: '5',
      RECONCILE_AFTER_S: '10',
      // A silent SMTP server blocks each connection for a minute.
      SMTP_CONNECTIONS: '50',
      WEBHOOKS_URL: webhooks_url,
      EMAIL_WEBHOOK_SECRET: email_secret,
      // Many scenarios send to the same test numbers.
      MESSAGES_PER_DESTINATION_HOUR: '1000000',
      WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8,::1/128',
      WEBHOOK_RETRY_SCHEDULE_S: RETRY_SCHEDULE_S,
    }
    const migration = await launch('migrate', 'src/commands/migrate.ts', { env, ready: 'Applied' })
    await migration.ended
    const sql = connectDatabase(postgres.url, { max: 4, application_name: 'torture' })
    cleanup.defer(() => sql.end({ timeout: 1 }))
    const { tenant_id, secret } = await createKey(sql, 'acme')

    await member('webhooks', 'webhooks', { ...env, WEBHOOKS_PORT: String(ports.webhooks) })
    const apis = await Promise.all(
      ports.api.map((port, index) => member(`api-${index + 1}`, 'api', { ...env, API_PORT: String(port) })),
    )
    const inside = { NODE_OPTIONS: `--import=${new URL('preload.ts', import.meta.url).href}` }
    const workers = await Promise.all(
      [1, 2].map((index) => member(`worker-${index}`, 'worker', { ...env, ...inside })),
    )
    const clientsOf = (key: string) => ports.api.map((port) => createClient(`http://${HOST}:${port}`, key))
    const followers: Follower[] = []
    cleanup.defer(() => followers.forEach((follower) => follower.stop()))
    const open = async (clients: Client[], tenant_id: string, specs: typeof ALL_EVENTS_ENDPOINTS) => {
      await registerEndpoints(receivers, clients, tenant_id, specs)
      followers.push(followFeed(clients, tenant_id))
      return clients
    }
    const clients = await open(clientsOf(secret), tenant_id, BUSY_TENANT_ENDPOINTS)
    let tenants = 0
    const stripe = provider('stripe')
    // Injected faults also hit the other application, which retries.
    const asAnotherApplication: System['asAnotherApplication'] = async (path, params) => {
      let key = randomUUID()
      return await until(`POST ${path} is answered`, async () => {
        const response = await fetch(`${stripe.url}${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${stripe.api_key}`, 'idempotency-key': key },
          body: new URLSearchParams(params),
        }).catch(() => undefined)
        // After a lost answer the request may have had an effect, so it is repeated with the same key. After an error
        // the key changes, because the same key would replay the error.
        if (response?.ok === false) key = randomUUID()
        return (
          response?.ok === true && (await (response.json() as Promise<{ id: string }>).catch(() => undefined))
        )
      })
    }
    return {
      queue,
      root,
      sql,
      postgres,
      redis,
      wires: { ...wires, provider: toProvider },
      apis,
      workers,
      clients,
      receivers,
      followers,
      tenant_id,
      async newTenant() {
        const nth = tenants++
        const name = `tenant-${nth}`
        // The database may be down.
        const key = await until('the tenant is created', () => createKey(sql, name).catch(() => undefined))
        const of_tenant = clientsOf(key.secret)
        return nth % TENANTS_PER_SUBSCRIBER === 0
          ? await open(of_tenant, key.tenant_id, ALL_EVENTS_ENDPOINTS)
          : of_tenant
      },
      webhooks_url,
      email_secret,
      vault: createVault(env['ENCRYPTION_KEY']!),
      provider,
      asAnotherApplication,
      folder,
      onStop: (work) => cleanup.defer(async () => void (await work())),
      stop,
    }
  } catch (error) {
    await stop()
    await remove()
    throw error
  }
}
