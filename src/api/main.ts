// The `api` process: {base_url}.
import { AREA_NAMES, areaStates } from '#core/areas.ts'
import { list, need, type Config } from '#core/config.ts'
import { connectConfiguredDatabase } from '#core/pool.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { assertMigrated } from '#core/migrate.ts'
import { createVault } from '#core/secrets.ts'
import { runService, type Part, type Ready } from '#core/service.ts'
import { places, portError } from '#core/startup.ts'
import { createDoorbell } from '#queue/doorbell.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { buildApi } from './app.ts'
import { connectLists, listConnections } from './lists.ts'
import { createWaiters } from './wait.ts'

/** Starts the API against the servers that `config` names. */
export async function startApi(config: Config, log: Log): Promise<Part & { url: string; ready: Ready }> {
  const { quick, long } = listConnections(config.DATABASE_POOL)
  const pool = { ...config, DATABASE_POOL: Math.max(1, config.DATABASE_POOL - quick - long) }
  const sql = connectConfiguredDatabase(pool, 'sluice-api', log)
  const lanes = connectLists(need(config, 'DATABASE_URL'), config.DATABASE_POOL)
  const queue = openConfiguredQueue(config, log)
  const doorbell = createDoorbell(queue, config.TENANT_WINDOW)
  const waiters = createWaiters(sql, queue, log)
  const subscription = await queue.subscribe((outcomes) => {
    waiters.heard(outcomes)
    doorbell.heard(outcomes)
  })
  const context = {
    config,
    sql,
    lanes,
    log,
    queue,
    doorbell,
    waiters,
    vault: createVault(need(config, 'ENCRYPTION_KEY')),
  }
  const app = await buildApi(context)
  const url = await app.listen({ host: config.HOST, port: config.API_PORT }).catch((error: unknown) => {
    throw portError(error, places(config).api)
  })
  const areas = areaStates(list(config.DISABLED_AREAS))
  for (const area of AREA_NAMES) metrics.areas.set({ area }, areas.deployed.includes(area) ? 1 : 0)
  log.info({ url, queue: queue.backend, areas }, 'the API listens')
  return {
    url,
    async ready() {
      await assertMigrated(sql)
      return { areas }
    },
    async close() {
      waiters.close()
      await app.close()
      await subscription.close()
      await queue.close()
      await Promise.all([sql, lanes.quick, lanes.long].map((each) => each.end({ timeout: 5 })))
    },
  }
}

if (import.meta.main) {
  await runService({
    name: 'api',
    metrics_port: 9464,
    about: 'serves /v1, /docs and /openapi.json.',
    needs: ['DATABASE_URL', 'ENCRYPTION_KEY'],
    start: startApi,
  })
}
