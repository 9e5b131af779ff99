// The product for the life of payments: its parts as processes, or everything under `npm start`.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { hasOpenWork } from '#test/open-work.ts'
import { until } from '#test/process.ts'
import { handleOf, providerVariables, type Provider } from '#test/providers.ts'
import { needRedis } from '#test/redis.ts'
import { npmStart } from '../../npm-start.ts'
import type { Running } from '../../processes.ts'
import { createKeys, type Key, type System } from '../../system.ts'
import { DUE_WITHIN_S } from '../measure.ts'
import { paymentRequests } from '../captures/requests.ts'
import type { Target } from './live.ts'

/** Disables reconciliation, which would read the lost notifications of an earlier run from the event list. */
const NO_RECONCILIATION = { RECONCILE_AFTER_S: '1000000' }

type Product = { target: Target; sql: Sql; [Symbol.asyncDispose](): Promise<void> }
/** `env`: the variables for additional processes. */
export type ProductProcesses = Product & {
  database_url: string
  keys: Key[]
  api: Running
  worker: Running
  env: Record<string, string>
}

/**
 * Starts API, webhooks host and worker with their own database, Redis and emulators that notify them. `variables`: more
 * variables of each.
 */
export async function startProductProcesses(
  system: System,
  variables: Record<string, string> = {},
): Promise<ProductProcesses> {
  await using cleanup = new AsyncDisposableStack()
  const database_url = await system.createDatabase('migrated')
  const sql = openSql(cleanup, database_url)
  const folder = await createTemporaryFolder('bench')
  cleanup.defer(folder.remove)
  const redis = await needRedis({ data_dir: folder.path })
  cleanup.defer(() => redis.stop())
  const servers = { DATABASE_URL: database_url, REDIS_URL: redis.url, ...NO_RECONCILIATION, ...variables }
  const webhooks = cleanup.use(await system.startProduct('webhooks', servers))
  const providers = await system.startNotifyingProviders(cleanup, webhooks.url)
  const env = { ...servers, ...providerVariables((name) => providers.get(name)!.addresses) }
  const api = cleanup.use(await system.startProduct('api', env))
  const worker = cleanup.use(await system.startProduct('worker', env))
  const keys = await createKeys(sql, 100)
  const target = targetOf({ sql, keys, url: api.url, provider: providers.get('stripe')! })
  const disposables = cleanup.move()
  return {
    target,
    sql,
    database_url,
    keys,
    api,
    worker,
    env,
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  }
}

/** Starts everything with `npm start`, with its embedded servers and emulators. */
export async function startWithNpmStart(): Promise<Product> {
  await using cleanup = new AsyncDisposableStack()
  const folder = await createTemporaryFolder('bench')
  cleanup.defer(folder.remove)
  const limits = {
    RATE_LIMIT_RPS: '1000000',
    RATE_LIMIT_BURST: '1000000',
    RATE_LIMIT_TENANT_RPS: '1000000',
    RATE_LIMIT_TENANT_BURST: '1000000',
  }
  const { url } = cleanup.use(await npmStart(folder.path, { ...limits, ...NO_RECONCILIATION }))
  const config = await until('dev.json is written', () =>
    readFile(join(folder.path, 'dev.json'), 'utf8').then(
      (text) => JSON.parse(text) as { database_url: string; emulators: { stripe_url: string } },
      () => undefined,
    ),
  )
  const sql = openSql(cleanup, config.database_url)
  const keys = await createKeys(sql, 100)
  const target = targetOf({
    sql,
    keys,
    url,
    provider: handleOf('stripe', { url: config.emulators.stripe_url }),
  })
  const disposables = cleanup.move()
  return { target, sql, [Symbol.asyncDispose]: () => disposables.disposeAsync() }
}

function openSql(cleanup: AsyncDisposableStack, database_url: string): Sql {
  const sql = connectDatabase(database_url, { max: 2, application_name: 'bench' })
  cleanup.defer(() => sql.end())
  return sql
}

function targetOf({
  sql,
  keys,
  ...options
}: {
  sql: Sql
  keys: Key[]
  url: string
  provider: Provider
}): Target {
  const requests = paymentRequests(keys)
  return {
    ...options,
    authorize: () => requests.create(),
    capture: (answer) => requests.capture(requests.paymentIn(answer)),
    isBusy: async () => await hasOpenWork(sql, DUE_WITHIN_S),
    async count(since) {
      const [row] = await sql<{ notifications: number; final: number }[]>`
        select count(*)::integer as notifications, count(*) filter (where state in ('applied', 'ignored'))::integer as final
        from notifications where received_at >= ${since}`
      return row!
    },
  }
}
