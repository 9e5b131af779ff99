// The `api` process: {base_url}.
import { createAddressHash } from '#core/addresses.ts'
import { batcher } from '#core/batch.ts'
import { need, type Config } from '#core/config.ts'
import { connectConfiguredDatabase, endAll } from '#core/pool.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { createVault } from '#core/secrets.ts'
import { runService, serviceOf, type Service } from '#core/service.ts'
import { listenAt, listenAddresses } from '#core/startup.ts'
import { AREAS, AREA_NAMES, areasOf, CHANNEL_CREDENTIALS } from '#domain/areas.ts'
import { findRemembered, type Remembered, type SentKey } from '#domain/idempotency.ts'
import { createDoorbell } from '#queue/doorbell.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { buildApi } from './app.ts'
import { connectLists, listConnections } from './lists.ts'
import { createRecent } from './recent.ts'
import { createFeedWaiters, createJobWaiters } from './wait.ts'

/** At 500 creates a second, those of the last 20 seconds. */
const RECENT_KEYS = 10_000

/** Starts the API against the servers that `config` names. */
export async function startApi(config: Config, log: Log): Promise<Service & { url: string }> {
  await using ends = new AsyncDisposableStack()
  const areas = areasOf(config)
  const { quick, long } = listConnections(config.DATABASE_POOL)
  const pool = { ...config, DATABASE_POOL: Math.max(1, config.DATABASE_POOL - quick - long) }
  const sql = connectConfiguredDatabase(pool, 'sluice-api', log)
  const lanes = connectLists(need(config, 'DATABASE_URL'), config.DATABASE_POOL)
  ends.defer(() => endAll(sql, lanes.quick, lanes.long))
  const queue = openConfiguredQueue(config, log)
  ends.defer(() => queue.close())
  const doorbell = createDoorbell(queue, config.TENANT_WINDOW)
  const waiters = createJobWaiters(sql, queue, log)
  const feed_waiters = createFeedWaiters(sql, queue, log)
  const subscription = await queue.subscribe((states) => {
    waiters.heard(states)
    feed_waiters.heard(states)
    doorbell.heard(states)
  })
  ends.defer(() => subscription.close())
  const remembered = batcher<SentKey, Remembered | undefined>('find_remembered', (sent) =>
    findRemembered(sql, sent),
  )
  const vault = createVault(need(config, 'ENCRYPTION_KEY'))
  const hashOf = createAddressHash(need(config, 'ADDRESS_KEY'))
  const recent_keys = createRecent(RECENT_KEYS)
  const app = await buildApi({
    config,
    areas,
    sql,
    remembered,
    recent_keys,
    lanes,
    log,
    queue,
    doorbell,
    waiters,
    feed_waiters,
    vault,
    hashOf,
  })
  ends.defer(() => app.close())
  ends.defer(() => {
    waiters.close()
    feed_waiters.close()
  })
  const url = await listenAt(app, listenAddresses(config).api)
  for (const area of AREA_NAMES) metrics.areas.set({ area }, areas.deployed.includes(area) ? 1 : 0)
  for (const area of areas.without_credentials) {
    const missing = AREAS[area].credentials?.filter((name) => config[name] === undefined)
    log.warn({ area, missing }, 'the area is not deployed: its provider has no credentials')
  }
  for (const channel of areas.channels_without_credentials) {
    const missing = CHANNEL_CREDENTIALS[channel].filter((name) => config[name] === undefined)
    log.warn(
      { channel, missing },
      'no messages of the channel are sent: whoever sends them has no credentials',
    )
  }
  log.info({ url, queue: queue.backend, areas }, 'the API listens')
  return { url, ...serviceOf(ends.move(), sql, { name: 'api' }, { areas }) }
}

if (import.meta.main) await runService('api', 'serves /v1, /docs and /openapi.json.', startApi)
