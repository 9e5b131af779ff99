// Opens the context of the API: the database, the queue, and the waits for jobs and events.
import { createAddressHash } from '#core/addresses.ts'
import { createBatcher } from '#core/batch.ts'
import { requireVariable, type Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { connectConfiguredDatabase, connectForChecks, endPools } from '#core/process-pool.ts'
import { createCurrentVault } from '#core/secrets.ts'
import { areasOf } from '#domain/areas.ts'
import { confirmReplicated, findStoredKeys, type StoredKey, type KeyOnRoute } from '#domain/idempotency.ts'
import { hasVisibleEffect } from '#domain/lost-requests/visible-effects.ts'
import { acceptedKeysOf } from '#domain/switches/kept-facts.ts'
import { watchDatabase } from '#domain/switches/watch.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { createWakeUps } from '#queue/wakeup.ts'
import type { ApiContext } from './context.ts'
import { createCallerLimit } from './limit.ts'
import { connectLists, createListRunner, listConnections } from './lists.ts'
import { createLostCommitLog } from './lost-commits.ts'
import { createRecentNames } from './recent.ts'
import { createFeedWaiters, createJobWaiters } from './wait.ts'

/**
 * The minimum number of remembered idempotency keys: those of 20 seconds, if 500 requests a second create a resource.
 */
const MIN_RECENT_KEYS = 10_000

/**
 * Opens the context of a process. `name`: the application name in PostgreSQL. `ends`: the stack to which the closing of
 * all connections is added.
 */
export async function openApiContext(
  config: Config,
  log: Log,
  name: string,
  ends: AsyncDisposableStack,
): Promise<ApiContext> {
  const areas = areasOf(config)
  const { quick, long } = listConnections(config.DATABASE_POOL)
  const pool = { ...config, DATABASE_POOL: Math.max(1, config.DATABASE_POOL - quick - long) }
  const sql = connectConfiguredDatabase(pool, name, log)
  const lanes = connectLists(requireVariable(config, 'DATABASE_URL'), config.DATABASE_POOL, name)
  const check_sql = connectForChecks(config, name)
  ends.defer(() => endPools(sql, lanes.quick, lanes.long, check_sql))
  const queue = openConfiguredQueue(
    config,
    log,
    acceptedKeysOf(sql, () => requireVariable(config, 'ENCRYPTION_KEY')),
  )
  ends.defer(() => queue.close())
  const database = await watchDatabase(config, { sql: check_sql, log, queue })
  ends.defer(() => database.close())
  const wakeups = createWakeUps(queue, config.TENANT_WINDOW)
  const waiters = createJobWaiters(sql, queue, log)
  const feed_waiters = createFeedWaiters(sql, queue, log)
  const subscription = await queue.subscribe((states) => {
    waiters.notify(states)
    feed_waiters.notify(states)
    wakeups.jobsEnded(states)
  })
  ends.defer(() => subscription.close())
  const findStoredKey = createBatcher<KeyOnRoute, StoredKey | undefined>('find_stored_keys', (sent) =>
    findStoredKeys(sql, sent),
  )
  const confirm = createBatcher('confirm_replicated', async (requests: object[]) => {
    await confirmReplicated(sql)
    return requests
  })
  const vault = createCurrentVault(() => requireVariable(config, 'ENCRYPTION_KEY'))
  const hashOf = createAddressHash(requireVariable(config, 'ADDRESS_KEY'))
  const recent_keys = createRecentNames(MIN_RECENT_KEYS)
  const limit = createCallerLimit(config)
  return {
    config,
    areas,
    sql,
    database,
    findStoredKey,
    async confirmReplicated() {
      if (config.SYNCHRONOUS_STANDBY) await confirm({})
    },
    recent_keys,
    limit,
    runList: createListRunner(lanes, long, limit),
    log,
    queue,
    record({ tenant_id, route, key }, written) {
      // Nothing shows whether any other change without a key is lost.
      if (key !== null || written.is_created || hasVisibleEffect(route))
        queue.record({ tenant_id, route, key, ...written })
    },
    wakeups,
    logLostCommit: createLostCommitLog(log),
    waiters,
    feed_waiters,
    vault,
    hashOf,
  }
}

/**
 * Ends all waits for jobs and events, so that their requests are answered. Call it before the application is closed.
 */
export function endWaits({ waiters, feed_waiters }: ApiContext): void {
  waiters.close()
  feed_waiters.close()
}
