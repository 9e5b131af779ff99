// The `webhooks` process: receives the notifications of providers.
import { createAddressHash } from '#core/addresses.ts'
import { requireVariable, type Config } from '#core/config.ts'
import { isUnavailable, type Sql } from '#core/db.ts'
import type { VariableName } from '#core/config/variables.ts'
import { connectConfiguredDatabase, connectForChecks, endPools } from '#core/process-pool.ts'
import type { Log } from '#core/log.ts'
import { runService, createService, type Service } from '#core/service.ts'
import { listenAt, listenAddresses } from '#core/startup.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { watchDatabase } from '#domain/switches/watch.ts'
import { createWakeUps } from '#queue/wakeup.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { buildWebhooks } from './app.ts'
import { NOTIFICATION_ROUTES } from './routes.ts'
import { problemOfTwilioToken } from './twilio.ts'

/**
 * The wake-up window of the notifications of one mode, as a multiple of the window of a tenant: notifications belong to
 * no tenant until they are applied, so those of a mode share one window.
 */
const WINDOW_FACTOR = 8

/**
 * Stores an empty batch, so that a missing database permission fails the start of the process. The statement reads the
 * tables of all resources, so a missing permission on one table would stop all notifications.
 */
async function checkPermissions(sql: Sql): Promise<void> {
  try {
    await storeNotifications(sql, [])
  } catch (error) {
    if (!isUnavailable(error)) throw error
  }
}

/** Starts the webhooks host with the servers of `config`. */
export async function startWebhooks(config: Config, log: Log): Promise<Service & { url: string }> {
  await using ends = new AsyncDisposableStack()
  const sql = connectConfiguredDatabase(config, 'sluice-webhooks', log)
  const check_sql = connectForChecks(config, 'sluice-webhooks')
  ends.defer(() => endPools(sql, check_sql))
  await checkPermissions(sql)
  const queue = openConfiguredQueue(config, log)
  ends.defer(() => queue.close())
  const database = await watchDatabase(config, { sql: check_sql, log, queue: null })
  ends.defer(() => database.close())
  const wakeups = createWakeUps(queue, config.TENANT_WINDOW * WINDOW_FACTOR)
  const subscription = await queue.subscribe((states) => wakeups.jobsEnded(states))
  ends.defer(() => subscription.close())
  const hashOf = createAddressHash(requireVariable(config, 'ADDRESS_KEY'))
  const app = await buildWebhooks({ config, sql, database, log, wakeups, hashOf })
  ends.defer(() => app.close())
  const url = await listenAt(app, listenAddresses(config).webhooks)
  log.info({ url, queue: queue.backend }, 'the webhooks host listens')
  const checkNewSecret = async (name: VariableName, value: string) =>
    name === 'TWILIO_AUTH_TOKEN' ? problemOfTwilioToken(value) : null
  return { url, ...createService(ends.move(), { sql, database }, { name: 'webhooks' }), checkNewSecret }
}

if (import.meta.main) {
  const routes = NOTIFICATION_ROUTES.map(({ path }) => `POST ${path}`).join(', ')
  await runService('webhooks', `receives notifications at ${routes}.`, startWebhooks)
}
