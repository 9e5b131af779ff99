// What a system under test stands on, whoever runs its parts: servers, providers, variables, and tenants with keys.
import { randomBytes } from 'node:crypto'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { migrateQueue } from '#queue/queue.ts'
import { freePort } from '#start/ports.ts'
import { createDatabase } from './databases.ts'
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

/** The variables of every process. The rate limits are so high that no test meets them. */
export function variables(places: {
  database_url: string
  /** Null: the queue is on PostgreSQL. */
  redis_url: string | null
  provider: (name: ProviderName) => ProviderAddresses
}): Record<string, string> {
  return {
    DATABASE_URL: places.database_url,
    ...(places.redis_url === null ? { QUEUE: 'postgres' } : { REDIS_URL: places.redis_url }),
    ...providerVariables(places.provider),
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ADDRESS_KEY: randomBytes(32).toString('base64'),
    RATE_LIMIT_RPS: '1000000',
    RATE_LIMIT_BURST: '1000000',
  }
}

/** Of small systems beside each other: on any free port, with few connections, and what happens is in the log. */
export const SMALL_SYSTEM = {
  NODE_ENV: 'test',
  LOG_LEVEL: 'info',
  DATABASE_POOL: '8',
  API_PORT: '0',
  WEBHOOKS_PORT: '0',
  DASHBOARD_PORT: '0',
  METRICS_PORT: '0',
}

/** A new key of the tenant of that name, which is made when there is none; for every scope unless told. */
export async function createKey(
  sql: Sql,
  tenant: string,
  scopes: readonly Scope[] = SCOPES,
): Promise<{ tenant_id: string; key_id: string; secret: string }> {
  const row = await ensureTenant(sql, tenant)
  const asked = { name: 'test', scopes: [...scopes], expires_at: null }
  const key = await createApiKey(sql, row, asked, testActor(row.id))
  return { tenant_id: row.id, key_id: key.id, secret: key.secret }
}

/** Somebody at the machine, for the audit log. */
export function testActor(tenant_id: string | null): Actor {
  return { tenant_id, actor: 'test', request_id: null, address: null }
}

export type Environment = {
  /** As the owner of the tables: see `asUser`. */
  env: Record<string, string>
  /** As the owner of the tables, too. */
  sql: Sql
  /** Null with the queue on PostgreSQL. */
  redis: OwnRedis | null
  provider: (name: ProviderName) => Provider
  [Symbol.asyncDispose](): Promise<void>
}

/** A database, a Redis where the queue is on one, and the providers. */
export async function createEnvironment({
  queue,
  server_url,
  redis_up = true,
  notifications,
  env: more,
  ...emulators
}: {
  queue: 'redis' | 'postgres'
  /** A PostgreSQL of the test's own; else the suite's. A new database is made there. */
  server_url?: string | undefined
  /** Whether the Redis runs from the beginning. */
  redis_up?: boolean
  /** Whether the providers notify the webhooks host, which need not be there. */
  notifications: boolean
  changes?: EmulatorChanges | undefined
  /** More variables, or others. */
  env: Record<string, string>
}): Promise<Environment> {
  await using ends = new AsyncDisposableStack()
  const database = await createDatabase(server_url)
  ends.defer(database.drop)
  const redis = queue === 'redis' ? await createRedis({ up: redis_up }) : null
  if (redis) ends.defer(() => redis.kill())
  else await migrateQueue({ redis_url: null, database_url: database.url })
  const webhooks_port = notifications ? await freePort(HOST) : 0
  const providers = await startProviders(ends, {
    ...emulators,
    webhooks_url: notifications ? `http://${HOST}:${webhooks_port}` : undefined,
  })
  const sql = connectDatabase(database.url, { max: 4, application_name: 'test' })
  ends.defer(() => sql.end())
  const provider = (name: ProviderName) => providers.get(name)!
  const kept = ends.move()
  return {
    env: {
      ...SMALL_SYSTEM,
      ...variables({
        database_url: database.url,
        redis_url: redis?.url ?? null,
        provider: (name) => provider(name).told,
      }),
      WEBHOOKS_PORT: String(webhooks_port),
      ...more,
    },
    sql,
    redis,
    provider,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
