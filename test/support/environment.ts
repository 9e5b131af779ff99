// The environment of a system under test: servers, providers, variables, tenants and keys.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import type { Mode } from '#domain/modes.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { ensureTenant, ensureTwin } from '#domain/tenants.ts'
import { migrateQueue } from '#queue/queue.ts'
import { freePort } from '#start/ports.ts'
import { createDatabase } from './databases.ts'
import { runCommand } from './commands.ts'
import {
  providerVariables,
  startProviders,
  type EmulatorChanges,
  type Provider,
  type ProviderName,
  type ProviderAddresses,
} from './providers.ts'
import { createRedis, type OwnRedis } from './redis.ts'

export const HOST = '127.0.0.1'

/** Variables of every process. The rate limits are so high that no test reaches them. */
export function variables(addresses: {
  database_url: string
  /** Null: the queue is on PostgreSQL. */
  redis_url: string | null
  provider: (name: ProviderName) => ProviderAddresses
}): Record<string, string> {
  return {
    DATABASE_URL: addresses.database_url,
    ...(addresses.redis_url === null ? { QUEUE: 'postgres' } : { REDIS_URL: addresses.redis_url }),
    ...providerVariables(addresses.provider),
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ADDRESS_KEY: randomBytes(32).toString('base64'),
    RATE_LIMIT_RPS: '1000000',
    RATE_LIMIT_BURST: '1000000',
  }
}

/** Variables for small systems that run in parallel: free ports, few connections, log level info. */
export const SMALL_SYSTEM = {
  NODE_ENV: 'test',
  LOG_LEVEL: 'info',
  DATABASE_POOL: '8',
  API_PORT: '0',
  WEBHOOKS_PORT: '0',
  DASHBOARD_PORT: '0',
  METRICS_PORT: '0',
  // Tests leave calls behind that are never answered.
  SHUTDOWN_TIMEOUT_S: '10',
}

/**
 * Creates an API key of the tenant with this name, and the tenant if it does not exist. Default: all scopes, live mode.
 */
export async function createKey(
  sql: Sql,
  tenant: string,
  scopes: readonly Scope[] = SCOPES,
  mode: Mode = 'live',
): Promise<{ tenant_id: string; key_id: string; secret: string }> {
  const live = await ensureTenant(sql, tenant)
  const row = mode === 'live' ? live : await ensureTwin(sql, live)
  const request = { name: 'test', scopes: [...scopes], expires_at: null }
  const key = await createApiKey(sql, row, request, testActor(row.id))
  return { tenant_id: row.id, key_id: key.id, secret: key.secret }
}

/** An actor for the audit log. */
export function testActor(tenant_id: string | null): Actor {
  return { tenant_id, actor: 'test', request_id: null, address: null }
}

export type Environment = {
  /** The variables of a process. The user in DATABASE_URL is the owner of the tables; `asUser` replaces this user. */
  env: Record<string, string>
  /** A connection with the owner of the tables. */
  sql: Sql
  /** Null with the queue on PostgreSQL. */
  redis: OwnRedis | null
  provider: (name: ProviderName) => Provider
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts a database, the providers and, if the queue is on Redis, a Redis. */
export async function createEnvironment({
  queue,
  server_url,
  redis_up = true,
  release,
  notifications,
  env: extra_env,
  ...emulators
}: {
  queue: 'redis' | 'postgres'
  /** A separate PostgreSQL server. Default: the suite's server. A database is created on the server. */
  server_url?: string | undefined
  /** Whether Redis runs when the environment starts. */
  redis_up?: boolean
  /** The release that migrates the database. Default: these sources. */
  release?: { path: string } | undefined
  /** Whether the providers send notifications to the webhooks host, which need not be running. */
  notifications: boolean
  changes?: EmulatorChanges | undefined
  /** Additional variables, which override the others. */
  env: Record<string, string>
}): Promise<Environment> {
  await using cleanup = new AsyncDisposableStack()
  const database = await createDatabase(server_url, { empty: release !== undefined })
  cleanup.defer(database.drop)
  if (release !== undefined) await runInRelease(release, 'migrate', [], database.url)
  const redis = queue === 'redis' ? await createRedis({ up: redis_up }) : null
  if (redis) cleanup.defer(() => redis.kill())
  else await migrateQueue({ redis_url: null, database_url: database.url })
  const webhooks_port = notifications ? await freePort(HOST) : 0
  const providers = await startProviders(cleanup, {
    ...emulators,
    webhooks_url: notifications ? `http://${HOST}:${webhooks_port}` : undefined,
  })
  const sql = connectDatabase(database.url, { max: 4, application_name: 'test' })
  cleanup.defer(() => sql.end())
  const provider = (name: ProviderName) => providers.get(name)!
  const disposables = cleanup.move()
  return {
    env: {
      ...SMALL_SYSTEM,
      ...variables({
        database_url: database.url,
        redis_url: redis?.url ?? null,
        provider: (name) => provider(name).addresses,
      }),
      WEBHOOKS_PORT: String(webhooks_port),
      ...extra_env,
    },
    sql,
    redis,
    provider,
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  }
}

/** Runs a command of a release on the database and returns its output. Throws if it fails. */
export async function runInRelease(
  { path }: { path: string },
  command: string,
  args: string[],
  DATABASE_URL: string,
): Promise<string> {
  const env = { DATABASE_URL, QUEUE: 'redis' }
  const { code, stdout, stderr } = await runCommand(join(path, `src/commands/${command}.ts`), args, env, path)
  if (code !== 0) throw new Error(`npm run ${command} failed: ${stderr}`)
  return stdout
}
