// A whole Sluice for one test file: its own database, Redis and emulator, and the three parts in this process.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { startApi } from '#api/main.ts'
import { loadConfig, type Config } from '#core/config.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import type { Part } from '#core/service.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startStripeEmulator, type StripeEmulatorOptions } from '#emulators/stripe/main.ts'
import { migrateQueue } from '#queue/main.ts'
import { startRedis } from '#start/redis.ts'
import { startWebhooks } from '#webhooks/main.ts'
import { startWorker } from '#workers/main.ts'
import { createClient, type Client } from './client.ts'
import { createDatabase } from './databases.ts'
import { urlAs, type ProcessRole } from './users.ts'

export const WEBHOOK_SECRET = 'whsec_test_current'
export const STRIPE_KEY = 'sk_test_emulator'

export type World = {
  /** As the owner of the tables; each part of the world connects as the user of its role. */
  config: Config
  sql: Sql
  /** Speaks for the world's first tenant, with every scope. */
  client: Client
  tenant_id: string
  stripe_url: string
  /** A client of another tenant, or of the same one with other scopes. */
  clientOf(options?: {
    tenant?: string
    scopes?: Scope[]
  }): Promise<Client & { tenant_id: string; key_id: string }>
  /** Calls the emulator's control API. */
  stripe(method: string, path: string, body?: unknown): Promise<any>
  /** Resolves when no job is open, but those parked for later. */
  drain(): Promise<void>
  close(): Promise<void>
}

export type WorldOptions = {
  queue?: 'redis' | 'postgres'
  env?: Record<string, string>
  /** Which parts run in this process; all unless said otherwise. */
  parts?: ('api' | 'webhooks' | 'worker')[]
  /** Whether the emulator sends webhooks by itself. */
  webhooks?: boolean
  /** How the emulator differs from the usual one. */
  stripe?: Partial<StripeEmulatorOptions>
}

/** Servers and configuration for parts that run here or in processes of their own. */
export async function createWorld({
  queue = 'redis',
  env = {},
  parts = ['api', 'webhooks', 'worker'],
  webhooks = true,
  stripe = {},
}: WorldOptions = {}): Promise<World> {
  const closers: (() => Promise<unknown>)[] = []
  const database = await createDatabase()
  closers.push(database.drop)
  const redis = queue === 'redis' ? await startRedis({ data_dir: null }) : null
  if (queue === 'redis' && redis === null)
    throw new Error('this test needs redis-server or valkey-server on the PATH, and none was found')
  if (redis) closers.push(() => redis.stop())
  else await migrateQueue({ redis_url: null, database_url: database.url })

  const config = loadConfig({
    NODE_ENV: 'test',
    LOG_LEVEL: process.env.TEST_LOG_LEVEL ?? 'silent',
    DATABASE_URL: database.url,
    ...(redis ? { REDIS_URL: redis.url } : { QUEUE: 'postgres' }),
    STRIPE_SECRET_KEY: STRIPE_KEY,
    STRIPE_WEBHOOK_SECRET: `${WEBHOOK_SECRET},whsec_test_old`,
    ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    API_PORT: '0',
    WEBHOOKS_PORT: '0',
    RATE_LIMIT_RPS: '100000',
    RATE_LIMIT_BURST: '100000',
    DATABASE_POOL: '8',
    // A test that wants it says so: what comes by itself would disturb the others' order of things.
    RECONCILE_EVERY_S: '3600',
    ...env,
  })
  const log = createLog(config.LOG_LEVEL, 'test')
  const as = (role: ProcessRole) => ({ ...config, DATABASE_URL: urlAs(role, config.DATABASE_URL!) })
  const running: Part[] = []
  let api_url = ''
  if (parts.includes('webhooks')) {
    const part = await startWebhooks(as('webhooks'), log)
    running.push(part)
    config.WEBHOOKS_URL = part.url
  }
  const emulator = await startStripeEmulator({
    port: 0,
    api_key: STRIPE_KEY,
    data_dir: null,
    ...(webhooks &&
      config.WEBHOOKS_URL !== undefined && {
        webhook_url: `${config.WEBHOOKS_URL}/stripe`,
        webhook_secret: WEBHOOK_SECRET,
      }),
    ...stripe,
  })
  closers.push(() => emulator.close())
  config.STRIPE_API_BASE = emulator.url
  if (parts.includes('worker')) running.push(await startWorker(as('worker'), log))
  if (parts.includes('api')) {
    const part = await startApi(as('api'), log)
    running.push(part)
    api_url = part.url
  }
  const sql = connectDatabase(database.url, { max: 4, application_name: 'test' })

  async function clientOf({
    tenant = `t-${randomBytes(4).toString('hex')}`,
    scopes = [...SCOPES],
  }: { tenant?: string; scopes?: Scope[] } = {}) {
    const row = await ensureTenant(sql, tenant)
    const key = await createApiKey(sql, row, { name: 'test', scopes, expires_at: null })
    return { ...createClient(api_url, key.secret), tenant_id: row.id, key_id: key.id }
  }
  const first = await clientOf({ tenant: 'acme' })

  return {
    config,
    sql,
    client: first,
    tenant_id: first.tenant_id,
    stripe_url: emulator.url,
    clientOf,
    async stripe(method, path, body) {
      const response = await fetch(`${emulator.url}${path}`, {
        method,
        headers: { 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return await response.json()
    },
    async drain() {
      for (;;) {
        const [row] = await sql<{ open: number }[]>`
          select count(*) as open from jobs where finished_at is null and run_at < now() + interval '1 minute'`
        if (row!.open === 0) return
        await sleep(20)
      }
    },
    async close() {
      for (const part of running.toReversed()) await part.close()
      await sql.end()
      for (const close of closers.toReversed()) await close()
    },
  }
}
