// The measured system: servers, product and provider as separate processes, and the floors.
import { createServer } from 'node:http'
import { join } from 'node:path'
import postgres from 'postgres'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { freePort } from '#start/ports.ts'
import { createKey, HOST, variables } from '#test/environment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { PARTS, type PartName } from '#test/parts.ts'
import {
  startProviders,
  type Provider,
  type ProviderName,
  type ProviderOptions,
  type Providers,
} from '#test/providers.ts'
import { listening } from '#test/receiver.ts'
import { needRedis } from '#test/redis.ts'
import { openDatabaseServer, type CreateDatabase } from './databases.ts'
import { startMeasured, type Running } from './processes.ts'
import type { Reference } from './reference.ts'
import { writeStatements } from './statements.ts'

/** An API key as an authorization header, and its tenant. */
export type Key = { tenant_id: string; authorization: string }

export type System = {
  options: Options
  /** The product's database. */
  sql: Sql
  database_url: string
  /** Creates another database on the same server. */
  createDatabase: CreateDatabase
  redis_url: string
  provider: (name: ProviderName) => Provider
  /** Starts additional emulators that notify the host at this URL. `cleanup` stops them. */
  startNotifyingProviders(cleanup: AsyncDisposableStack, webhooks_url: string): Promise<Providers>
  keys: Key[]
  /** Starts a process of the product. A second call with the same name starts another process. */
  startProduct(name: PartName, env?: Record<string, string>): Promise<Product>
  /** Starts a file of `floors/`, with its own database. */
  startFloor(file: string, env?: Record<string, string>): Promise<Floor>
  floor_url: string
  stop(): Promise<void>
}
type Product = Running & { url: string }
/** `report`: the JSON that it printed when it was ready, with its `url`. */
type Floor = Running & { report: Record<string, unknown> }

export type Options = {
  /** Seconds of each run. Figures are medians of `rounds` runs. */
  seconds: number
  rounds: number
  /** Rows of the tenant whose customers are listed. */
  rows: number
  /** Finished jobs of the database that is compared with an empty one. */
  finished: number
  /** Jobs of the drained backlog. */
  backlog: number
  /** The operator's own PostgreSQL server; null: an embedded one. */
  postgres: string | null
  /** The share of requests that are traced, or null. */
  traces: string | null
  /** A folder for CPU profiles, or null. */
  profile: string | null
  /** Collects the times of atomic steps; null if they are not needed. */
  reference: Reference | null
  log: (line: string) => void
}

/** Starts PostgreSQL, Redis and the provider. Measures start the rest. `stop` ends everything. */
export async function startSystem(options: Options): Promise<System> {
  const { profile, reference, traces } = options
  await using cleanup = new AsyncDisposableStack()
  const { path: cwd, remove } = await createTemporaryFolder('bench')
  cleanup.defer(remove)
  // The databases that measures create are dropped after everything else has stopped.
  const databases = cleanup.use(new AsyncDisposableStack())
  const createDatabase = await openDatabaseServer(databases, { server_url: options.postgres, folder: cwd })
  const redis = await needRedis({ data_dir: join(cwd, 'redis') })
  cleanup.defer(() => redis.stop())

  const database_url = await createDatabase('migrated')
  const floor_url = await createDatabase('empty')
  const admin = postgres(database_url, { max: 1, onnotice: () => {} })
  await admin.unsafe('create extension if not exists pg_stat_statements').catch(() => {})
  await admin.end()
  const sql = connectDatabase(database_url, { max: 2, application_name: 'bench' })
  cleanup.defer(() => sql.end())
  if (profile !== null)
    cleanup.defer(async () => void (await writeStatements(sql, join(profile, 'statements.txt'))))

  const emulators = {
    launch: (name, file, how) => startMeasured(`emulator-${name}`, file, { ...how, cwd, profile }),
    record_requests: false,
  } satisfies ProviderOptions
  const providers = await startProviders(cleanup, emulators)
  const provider = (name: ProviderName) => providers.get(name)!
  const environment = {
    ...variables({ database_url, redis_url: redis.url, provider: (name) => provider(name).addresses }),
    LOG_LEVEL: 'warn',
    ...(traces !== null && (await traceVariables(cleanup, traces))),
  }
  const keys = await createKeys(sql, 100)
  const disposables = cleanup.move()
  return {
    options,
    sql,
    database_url,
    createDatabase,
    redis_url: redis.url,
    provider,
    startNotifyingProviders: (stack, webhooks_url) =>
      startProviders(stack, { ...emulators, webhooks_url, only_needed: true }),
    floor_url,
    keys,
    async startProduct(name, env = {}) {
      const [port, metrics_port] = [String(await freePort(HOST)), String(await freePort(HOST))]
      const ports = {
        API_PORT: port,
        WEBHOOKS_PORT: port,
        DASHBOARD_PORT: port,
        METRICS_PORT: metrics_port,
      }
      const operations_url = `http://${HOST}:${metrics_port}`
      const running = await startMeasured(name, PARTS[name].file, {
        env: { ...environment, ...ports, ...env },
        answers: `${operations_url}/readyz`,
        cwd,
        profile,
      })
      // Some measures stop a process before it is disposed of.
      let is_collected = false
      const stop = async () => {
        if (!is_collected) await reference?.collect(operations_url)
        is_collected = true
        await running.stop()
      }
      return { ...running, stop, [Symbol.asyncDispose]: stop, url: `http://${HOST}:${port}` }
    },
    async startFloor(file, env = {}) {
      const running = await startMeasured(`floor-${file}`, `bench/floors/${file}.ts`, {
        env: { ...environment, DATABASE_URL: floor_url, ...env },
        ready: '{"url":',
        cwd,
      })
      return { ...running, report: JSON.parse(running.ready) as Record<string, unknown> }
    },
    stop: () => disposables.disposeAsync(),
  }
}

/** Variables that trace this share of requests. The spans go to a sink in this process. */
async function traceVariables(cleanup: AsyncDisposableStack, share: string): Promise<Record<string, string>> {
  const sink = createServer((request, response) => request.resume().on('end', () => response.end()))
  const port = await listening(sink)
  cleanup.defer(() => sink.close().closeAllConnections())
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://${HOST}:${port}`,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: share,
    TRACES_PER_SECOND: '1000000',
  }
}

/** Creates this many tenants with a key each. */
export async function createKeys(sql: Sql, tenants: number): Promise<Key[]> {
  const keys: Key[] = []
  for (let index = 0; index < tenants; index++) {
    const { tenant_id, secret } = await createKey(sql, `bench-${index}`)
    keys.push({ tenant_id, authorization: `Bearer ${secret}` })
  }
  return keys
}
