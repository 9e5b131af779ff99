// The `webhooks` process: {webhooks_url}.
import { list, loadConfig, need, queueConfig, type Config } from '#core/config.ts'
import { connectDatabase } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { createLog, type Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { portError, run, serveOperations, type Part } from '#core/service.ts'
import { createDoorbell } from '#queue/doorbell.ts'
import { openQueue } from '#queue/main.ts'
import { buildWebhooks } from './app.ts'

/** A notification is nobody's in particular, so its window is the sum of many tenants'. */
const WINDOW_FACTOR = 8

/** Unless METRICS_PORT says otherwise; each kind of process has its own, so that one of each fits on a host. */
const METRICS_PORT = 9465

/** Starts the webhooks host against the servers that `config` names. */
export async function startWebhooks(
  config: Config,
  log: Log,
): Promise<Part & { url: string; ready: () => Promise<unknown> }> {
  const sql = connectDatabase(need(config, 'DATABASE_URL'), {
    max: config.DATABASE_POOL,
    application_name: 'sluice-webhooks',
  })
  const queue = openQueue(queueConfig(config), {
    process_id: newId(),
    log: (level, fields, message) => log[level](fields, message),
    onDrop: (bells) => metrics.ringsDropped.inc(bells),
  })
  const doorbell = createDoorbell(queue, config.TENANT_WINDOW * WINDOW_FACTOR)
  const subscription = await queue.subscribe((outcomes) => doorbell.heard(outcomes))
  const app = await buildWebhooks({
    sql,
    log,
    doorbell,
    stripe_secrets: list(need(config, 'STRIPE_WEBHOOK_SECRET')),
  })
  const url = await app
    .listen({ host: config.HOST, port: config.WEBHOOKS_PORT, listenTextResolver: () => '' })
    .catch((error: unknown) => {
      throw portError(error, 'WEBHOOKS_PORT', config.WEBHOOKS_PORT)
    })
  log.info({ url, queue: queue.backend }, 'the webhooks host listens')
  return {
    url,
    ready: () => sql`select 1`,
    async close() {
      await app.close()
      await subscription.close()
      await queue.close()
      await sql.end({ timeout: 5 })
    },
  }
}

if (import.meta.main) {
  await run(
    'sluice webhooks: takes notifications at POST /stripe.\nConfiguration is the environment: DATABASE_URL, REDIS_URL or QUEUE=postgres, STRIPE_WEBHOOK_SECRET, HOST, WEBHOOKS_PORT, METRICS_PORT.',
    async () => {
      const config = loadConfig()
      const log = createLog(config.LOG_LEVEL, 'webhooks')
      const webhooks = await startWebhooks(config, log)
      const operations = await serveOperations(
        { host: config.METRICS_HOST, port: config.METRICS_PORT ?? METRICS_PORT },
        webhooks.ready,
      )
      return {
        log,
        async close() {
          await webhooks.close()
          await operations.close()
        },
      }
    },
  )
}
