// The `api` process: {base_url}.
import { need, type Config } from '#core/config.ts'
import { connectConfiguredDatabase } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { portError, runService, type Part } from '#core/service.ts'
import { createDoorbell } from '#queue/doorbell.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { buildApi } from './app.ts'
import { createWaiters } from './wait.ts'

/** Starts the API against the servers that `config` names. */
export async function startApi(
  config: Config,
  log: Log,
): Promise<Part & { url: string; ready: () => Promise<unknown> }> {
  const sql = connectConfiguredDatabase(config, 'sluice-api', log)
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
    log,
    queue,
    doorbell,
    waiters,
    vault: createVault(need(config, 'ENCRYPTION_KEY')),
  }
  const app = await buildApi(context)
  const url = await app.listen({ host: config.HOST, port: config.API_PORT }).catch((error: unknown) => {
    throw portError(error, 'API_PORT', config.API_PORT)
  })
  log.info({ url, queue: queue.backend }, 'the API listens')
  return {
    url,
    ready: () => sql`select 1`,
    async close() {
      waiters.close()
      await app.close()
      await subscription.close()
      await queue.close()
      await sql.end({ timeout: 5 })
    },
  }
}

if (import.meta.main) {
  await runService({
    name: 'api',
    metrics_port: 9464,
    help: 'sluice api: serves /v1, /docs and /openapi.json.\nConfiguration is the environment: DATABASE_URL, REDIS_URL or QUEUE=postgres, ENCRYPTION_KEY, HOST, API_PORT, METRICS_PORT.',
    start: startApi,
  })
}
