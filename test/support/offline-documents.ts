// The OpenAPI documents as an API serves them, without a running server.
import { randomBytes } from 'node:crypto'
import { buildApi } from '#api/app.ts'
import { createCallerLimit } from '#api/limit.ts'
import { createListRunner } from '#api/lists.ts'
import { createRecentNames } from '#api/recent.ts'
import { createFeedWaiters, createJobWaiters } from '#api/wait.ts'
import { loadConfig } from '#core/config.ts'
import { AppError } from '#core/errors.ts'
import { connectDatabase } from '#core/pool.ts'
import { createLog } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { areasOf } from '#domain/areas.ts'
import { createWakeUps } from '#queue/wakeup.ts'
import { CURRENT_DATABASE } from './databases.ts'

/**
 * Returns the responses of an API at `https://api.sluice.test` to these paths. Connections stay open, so the caller
 * must end the process.
 */
export async function offlineDocuments<Path extends string>(
  paths: readonly Path[],
): Promise<Record<Path, any>> {
  const config = loadConfig({
    NODE_ENV: 'test',
    // No server listens at this address.
    DATABASE_URL: 'postgres://127.0.0.1:1/none',
    REDIS_URL: 'redis://127.0.0.1:1',
    API_URL: 'https://api.sluice.test',
    WEBHOOKS_URL: 'https://hooks.sluice.test',
  })
  const log = createLog('silent', 'lint')
  const sql = connectDatabase(config.DATABASE_URL!, { max: 1, application_name: 'lint' })
  const queue = openConfiguredQueue(config, log)
  const limit = createCallerLimit(config)
  const context = {
    config,
    areas: areasOf(config),
    sql,
    database: CURRENT_DATABASE,
    findStoredKey: async () => undefined,
    confirmReplicated: async () => {},
    recent_keys: createRecentNames(1),
    limit,
    runList: createListRunner({ long: sql }, 1, limit),
    log,
    logLostCommit: () => {},
    queue,
    record: () => {},
    vault: createVault(randomBytes(32).toString('base64')),
    hashOf: () => '',
    wakeups: createWakeUps(queue, 1),
    waiters: createJobWaiters(sql, queue, log),
    feed_waiters: createFeedWaiters(sql, queue, log),
  }
  const api = await buildApi(context, {
    authenticate: () => {
      throw new AppError('unauthorized')
    },
  })
  const documents = await Promise.all(
    paths.map(async (path) => [path, (await api.inject(path)).json()] as const),
  )
  return Object.fromEntries(documents) as Record<Path, any>
}
