// Starts the system under torture: real processes and servers of its own, with a proxy in front of each server.
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import type { EmbeddedPostgres } from '#start/postgres.ts'
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from '#test/client.ts'
import { createVault, type Vault } from '#core/secrets.ts'
import { createKey, HOST, SMALL_SYSTEM, variables } from '#test/environment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startProviders, type Provider, type ProviderName, type ProviderAddresses } from '#test/providers.ts'
import type { PgBouncer } from '#test/pgbouncer.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import type { RestorablePostgres } from '#test/restorable.ts'
import { createUsers, urlAs } from '#test/users.ts'
import { startDatabase } from './database.ts'
import { BUSY_TENANT_ENDPOINTS } from './events/endpoints.ts'
import type { Follower } from './events/follower.ts'
import { startReceivers, type Receivers } from './events/receivers.ts'
import { startQueueServers, type QueueServer, type RunningQueueServers } from './queue-servers.ts'
import { createLauncher, type LauncherOptions, type Member } from './member.ts'
import { onMetricsPorts } from './metrics.ts'
import type { Random } from './random.ts'
import { createOtherApplication, createTenants, type ProcessorCall } from './tenants.ts'

/** Retry delays of a delivery: many, so that no delivery fails, and short, so that ordered endpoints continue soon. */
const RETRY_SCHEDULE_S = [0, 0.2, 0.5, 1, ...Array.from({ length: 40 }, () => 2)].join(',')

export type System = {
  queue: QueueServer
  /** The folder of the processes' sources. */
  root: string
  /** Connects to the primary server, without the faults of the processes' connections. */
  sql: Sql
  /** The primary server. */
  readonly postgres: EmbeddedPostgres
  /** The same server if its data can go back in time: see `SystemOptions`. */
  restorable: RestorablePostgres | null
  /** Moves the address of the database to this server, and ends the connections to the previous one. */
  moveDatabase: (url: string) => void
  /** PgBouncer between the processes and PostgreSQL; null without `--pooler`. */
  pooler: PgBouncer | null
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
  /** ENCRYPTION_KEY of the processes. */
  encryption_keys: string
  /** Opens values that the processes have sealed. */
  vault: Vault
  /** The control API of a provider, without the proxy. */
  provider: (name: ProviderName) => Provider
  /** Calls the processor's API with our credentials, as another application of the same account would. */
  asAnotherApplication: ProcessorCall
  /** The folder with the logs. */
  folder: string
  /** Runs `work` when the system stops. */
  onStop(work: () => Promise<unknown>): void
  stop(): Promise<void>
}

export type SystemOptions = LauncherOptions & {
  queue: QueueServer
  /** Whether the processes reach PostgreSQL through PgBouncer. Default: false. */
  pooler?: boolean
  /** Whether the data of PostgreSQL can go back in time, and standbys can be started. Default: false. */
  restorable?: boolean
  /** Random numbers for the behavior of the receivers. */
  random: Random
  /** The folder for the metrics addresses, as files of targets for Prometheus. Default: none are written. */
  targets_folder?: string | undefined
}

/** Starts PostgreSQL, Redis, the emulators, the receivers, two APIs, two workers and the webhooks host. */
export async function startSystem(options: SystemOptions): Promise<System> {
  const { queue, root, random, targets_folder } = options
  const { path: folder, remove } = await createTemporaryFolder('torture')
  await mkdir(join(folder, 'logs'))
  const cleanup = new AsyncDisposableStack()
  let stopping = false
  const stop = async () => {
    stopping = true
    await cleanup.disposeAsync().catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
    await rm(join(folder, 'postgres'), { recursive: true, force: true })
  }
  const { launch, startMember } = createLauncher(folder, cleanup, () => stopping, options)
  try {
    const wired = async (url: string) => {
      const wire = await startProxy(url)
      cleanup.defer(() => wire.close())
      return wire
    }
    const { primary, moveTo, ...database } = await startDatabase(folder, cleanup, wired, options)
    const { pooler } = database
    const redis = await startQueueServers(queue, (stop) => cleanup.defer(stop))
    const wires = {
      postgres: database.wire,
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
    const { wires: toProviders, addresses } = await wireProviders(providers, wired)
    const toProvider = (name: ProviderName) => toProviders.get(name)!

    const receivers = await startReceivers(random)
    cleanup.defer(() => receivers.close())

    const env = systemVariables({
      database_url: wires.postgres.url,
      redis_url: redis && (wires.redis?.url ?? redis.url),
      provider: (name) => addresses.get(name)!,
      webhooks_url,
      email_secret,
      // Without Redis, only a witness notices that the files of the database are older.
      ...(redis === null && { witness_url: pathToFileURL(join(folder, 'witness')).href }),
    })
    const sql = connectDatabase(database.url, { max: 4, application_name: 'torture' })
    cleanup.defer(() => sql.end({ timeout: 1 }))
    // PgBouncer shares sessions, and migrations need one of their own.
    await prepareDatabase(launch, { ...env, DATABASE_URL: database.url }, pooler && sql)
    const { tenant_id, secret } = await createKey(sql, 'acme')

    const { start, writeTargets } = onMetricsPorts(startMember)
    const { apis, workers } = await startMembers(start, env, ports, pooler !== null)
    await writeTargets(targets_folder)
    const clientsOf = (key: string) => ports.api.map((port) => createClient(`http://${HOST}:${port}`, key))
    const tenants = createTenants(sql, receivers, clientsOf)
    cleanup.defer(() => tenants.followers.forEach((follower) => follower.stop()))
    const clients = await tenants.subscribe(clientsOf(secret), tenant_id, BUSY_TENANT_ENDPOINTS)
    return {
      queue,
      root,
      sql,
      get postgres() {
        return primary()
      },
      restorable: database.restorable,
      moveDatabase: moveTo,
      pooler,
      redis,
      wires: { ...wires, provider: toProvider },
      apis,
      workers,
      clients,
      receivers,
      followers: tenants.followers,
      tenant_id,
      newTenant: () => tenants.newTenant(),
      webhooks_url,
      email_secret,
      encryption_keys: env['ENCRYPTION_KEY']!,
      vault: createVault(env['ENCRYPTION_KEY']!),
      provider,
      asAnotherApplication: createOtherApplication(provider('stripe')),
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

/**
 * Migrates the database at the address in `env`. `pooled`: behind PgBouncer, a connection of the owner, who creates the
 * users of the processes. PgBouncer sets no parameters for them, so the second migration makes these settings of the
 * users.
 */
async function prepareDatabase(
  launch: ReturnType<typeof createLauncher>['launch'],
  env: Record<string, string>,
  pooled: Sql | null,
): Promise<void> {
  const migrate = async (ready: string) => {
    const migration = await launch('migrate', 'src/commands/migrate.ts', { env, ready })
    await migration.ended
  }
  await migrate('Applied')
  if (pooled === null) return
  await createUsers(pooled)
  await migrate('up to date')
}

/** Starts the webhooks host, the APIs at these ports, and two workers; behind PgBouncer, each as its own user. */
async function startMembers(
  startMember: ReturnType<typeof createLauncher>['startMember'],
  env: Record<string, string>,
  ports: { api: number[]; webhooks: number },
  pooled: boolean,
): Promise<Pick<System, 'apis' | 'workers'>> {
  const start = (name: string, process: 'api' | 'webhooks' | 'worker', more: Record<string, string>) => {
    const url = env['DATABASE_URL']!
    const DATABASE_URL = pooled ? urlAs(process, url) : url
    return startMember(name, process, { ...env, DATABASE_URL, ...more })
  }
  await start('webhooks', 'webhooks', { WEBHOOKS_PORT: String(ports.webhooks) })
  const apis = await Promise.all(
    ports.api.map((port, index) => start(`api-${index + 1}`, 'api', { API_PORT: String(port) })),
  )
  const inside = { NODE_OPTIONS: `--import=${new URL('preload.ts', import.meta.url).href}` }
  const workers = await Promise.all([1, 2].map((index) => start(`worker-${index}`, 'worker', inside)))
  return { apis, workers }
}

/** The variables of all processes. */
function systemVariables({
  webhooks_url,
  email_secret,
  witness_url,
  ...addresses
}: Parameters<typeof variables>[0] & {
  webhooks_url: string
  email_secret: string
  witness_url?: string
}): Record<string, string> {
  return {
    ...SMALL_SYSTEM,
    ...variables(addresses),
    ...(witness_url !== undefined && { WITNESS_URL: witness_url }),
    AUDIT_EVERY_S: '20',
    RECONCILE_EVERY_S: '5',
    RECONCILE_AFTER_S: '10',
    COMPLETENESS_EVERY_S: '10',
    // Many connections, because a silent SMTP server blocks each connection for a minute.
    SMTP_CONNECTIONS: '50',
    WEBHOOKS_URL: webhooks_url,
    EMAIL_WEBHOOK_SECRET: email_secret,
    // Many scenarios send to the same test numbers.
    MESSAGES_PER_DESTINATION_HOUR: '1000000',
    WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8,::1/128',
    WEBHOOK_RETRY_SCHEDULE_S: RETRY_SCHEDULE_S,
  }
}

/**
 * Starts a proxy for each provider. `addresses`: the addresses of each provider, with the proxy's address in place of
 * that of the API that Sluice calls.
 */
async function wireProviders(
  providers: Map<ProviderName, Provider>,
  wired: (url: string) => Promise<Proxy>,
): Promise<{ wires: Map<ProviderName, Proxy>; addresses: Map<ProviderName, ProviderAddresses> }> {
  const wires = new Map<ProviderName, Proxy>()
  const addresses = new Map<ProviderName, ProviderAddresses>()
  for (const [name, { addresses: direct }] of providers) {
    const called = direct['smtp_url'] === undefined ? 'url' : 'smtp_url'
    const wire = await wired(direct[called]!)
    wires.set(name, wire)
    addresses.set(name, { ...direct, [called]: wire.url })
  }
  return { wires, addresses }
}
