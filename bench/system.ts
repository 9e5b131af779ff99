// The system under measurement: servers, product and provider as processes of their own, and the floors beside them.
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startPostgres } from '#start/postgres.ts'
import { freePort } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { startNode, type Running } from './processes.ts'

export const STRIPE_KEY = 'sk_test_bench'
export const WEBHOOK_SECRET = 'whsec_bench'

/** An API key as a request carries it, and whose it is. */
export type Key = { tenant_id: string; authorization: string }

export type System = {
  options: Options
  /** The product's database. */
  sql: Sql
  database_url: string
  redis_url: string
  stripe_url: string
  keys: Key[]
  /** One of the product's own processes; a second call of a name starts one more. */
  startProduct(name: 'api' | 'webhooks' | 'workers', env?: Record<string, string>): Promise<Product>
  /** A file of `floors/`, on a database of its own. */
  startFloor(file: string, env?: Record<string, string>): Promise<Running>
  floor_url: string
  stop(): Promise<void>
}
type Product = Running & { url: string }

export type Options = {
  /** Of each run; every number is the median of `rounds` of them. */
  seconds: number
  rounds: number
  /** Rows of the tenant whose customers are listed. */
  rows: number
  /** Finished jobs of the database that is compared with an empty one. */
  finished: number
  /** Jobs of the backlog that is drained. */
  backlog: number
  /** A folder for CPU profiles, or null. */
  profile: string | null
  log: (line: string) => void
}

/** Starts PostgreSQL, Redis and the provider; the rest is started by the measure that needs it. `stop` ends everything. */
export async function startSystem(options: Options): Promise<System> {
  const cwd = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  await chmod(cwd, 0o711)
  const closers: (() => Promise<unknown>)[] = [() => rm(cwd, { recursive: true, force: true })]
  const stop = async () => {
    for (const close of closers.toReversed().splice(0)) await close()
  }
  try {
    const server = await startPostgres({
      data_dir: join(cwd, 'postgres'),
      // A checkpoint during the turn of one side would favour the other.
      settings: { max_wal_size: '8GB', checkpoint_timeout: '1h' },
    })
    closers.push(() => server.stop())
    const redis = await startRedis({ data_dir: join(cwd, 'redis') })
    if (redis === null) throw new Error('redis-server or valkey-server must be on the PATH')
    closers.push(() => redis.stop())

    const database_url = server.url
    const floor_url = Object.assign(new URL(database_url), { pathname: '/floor' }).href
    const admin = postgres(database_url, { max: 1, onnotice: () => {} })
    await admin.unsafe('create database floor')
    await admin.unsafe('create extension if not exists pg_stat_statements').catch(() => {})
    await admin.end()
    await migrate(database_url)
    const sql = connectDatabase(database_url, { max: 2, application_name: 'bench' })
    closers.push(() => sql.end())
    const { profile } = options
    if (profile !== null) closers.push(() => writeStatements(sql, profile))

    const emulator = await startNode('emulator', 'src/emulators/stripe/main.ts', {
      args: ['--port', '0', '--api-key', STRIPE_KEY, '--no-request-log'],
      cwd,
      profile: options.profile,
    })
    closers.push(() => emulator.stop())
    const stripe_url = String(emulator.told['stripe_url'])
    const environment = {
      DATABASE_URL: database_url,
      REDIS_URL: redis.url,
      STRIPE_SECRET_KEY: STRIPE_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_API_BASE: stripe_url,
      ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      LOG_LEVEL: 'warn',
      RATE_LIMIT_RPS: '1000000',
      RATE_LIMIT_BURST: '1000000',
    }
    return {
      options,
      sql,
      database_url,
      redis_url: redis.url,
      stripe_url,
      floor_url,
      keys: await createKeys(sql, 100),
      async startProduct(name, env = {}) {
        const [port, metrics_port] = [await freePort('127.0.0.1'), await freePort('127.0.0.1')]
        const ports = {
          API_PORT: String(port),
          WEBHOOKS_PORT: String(port),
          METRICS_PORT: String(metrics_port),
        }
        const running = await startNode(name, `src/${name}/main.ts`, {
          env: { ...environment, ...ports, ...env },
          ready: `http://127.0.0.1:${metrics_port}/readyz`,
          cwd,
          profile: options.profile,
        })
        return { ...running, url: `http://127.0.0.1:${port}` }
      },
      startFloor: async (file, env = {}) =>
        await startNode(`floor-${file}`, `bench/floors/${file}.ts`, {
          env: { ...environment, DATABASE_URL: floor_url, ...env },
          cwd,
        }),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** What the database spent its time on, most first; a server without pg_stat_statements cannot tell. */
async function writeStatements(sql: Sql, folder: string): Promise<void> {
  const rows = await sql<{ line: string }[]>`
    select format('%s ms total, %s calls, %s ms each, %s rows, %s blocks hit, %s WAL bytes' || chr(10) || '%s' || chr(10),
      round(total_exec_time), calls, round(mean_exec_time::numeric, 3), rows, shared_blks_hit, wal_bytes, query) as line
    from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
    order by total_exec_time desc limit 25`.catch(() => [])
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'statements.txt'), rows.map(({ line }) => `${line}\n`).join(''))
}

/** Keys of as many tenants. */
export async function createKeys(sql: Sql, tenants: number): Promise<Key[]> {
  const keys: Key[] = []
  for (let index = 0; index < tenants; index++) {
    const tenant = await ensureTenant(sql, `bench-${index}`)
    const { secret } = await createApiKey(sql, tenant, {
      name: 'bench',
      scopes: [...SCOPES],
      expires_at: null,
    })
    keys.push({ tenant_id: tenant.id, authorization: `Bearer ${secret}` })
  }
  return keys
}
