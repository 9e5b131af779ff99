// The `webhooks` process: {webhooks_url}.
import type { Config } from '#core/config.ts'
import { connectConfiguredDatabase } from '#core/pool.ts'
import type { Log } from '#core/log.ts'
import { assertMigrated } from '#core/migrate.ts'
import { runService, type Part, type Ready } from '#core/service.ts'
import { places, portError } from '#core/startup.ts'
import { createDoorbell } from '#queue/doorbell.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { buildWebhooks } from './app.ts'
import { ROUTES } from './routes.ts'

/** A notification is nobody's in particular, so its window is the sum of many tenants'. */
const WINDOW_FACTOR = 8

/** Starts the webhooks host against the servers that `config` names. */
export async function startWebhooks(config: Config, log: Log): Promise<Part & { url: string; ready: Ready }> {
  const sql = connectConfiguredDatabase(config, 'sluice-webhooks', log)
  const queue = openConfiguredQueue(config, log)
  const doorbell = createDoorbell(queue, config.TENANT_WINDOW * WINDOW_FACTOR)
  const subscription = await queue.subscribe((outcomes) => doorbell.heard(outcomes))
  const app = await buildWebhooks({
    config,
    sql,
    log,
    doorbell,
  })
  const url = await app.listen({ host: config.HOST, port: config.WEBHOOKS_PORT }).catch((error: unknown) => {
    throw portError(error, places(config).webhooks)
  })
  log.info({ url, queue: queue.backend }, 'the webhooks host listens')
  return {
    url,
    async ready() {
      await assertMigrated(sql)
      return {}
    },
    async close() {
      await app.close()
      await subscription.close()
      await queue.close()
      await sql.end({ timeout: 5 })
    },
  }
}

if (import.meta.main) {
  await runService({
    name: 'webhooks',
    metrics_port: 9465,
    about: `takes notifications at ${ROUTES.map(({ path }) => `POST ${path}`).join(', ')}.`,
    needs: ['DATABASE_URL', ...ROUTES.flatMap((route) => route.needs)],
    start: startWebhooks,
  })
}
