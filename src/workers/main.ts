// The `worker` process: performs jobs, claims waiting jobs by turns of the tenants, and does the recurring work.
import assert from 'node:assert/strict'
import { createAddressHash } from '#core/addresses.ts'
import { ConfigError, need, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { connectConfiguredDatabase, connectDatabase, endAll } from '#core/pool.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { PROCESS_NAME } from '#core/heartbeat.ts'
import { createVault } from '#core/secrets.ts'
import { runService, serviceOf, type Service } from '#core/service.ts'
import { tenantUrlRules } from '#core/tenant-urls.ts'
import { QUEUES, type QueueName } from '#core/config/queues.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { sendSms } from '#jobs/messages.ts'
import { openProviders, rolesIn } from '#providers/configured.ts'
import { openReceivers } from '#providers/receivers.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import type { Consumer } from '#queue/consumer.ts'
import { learnAccounts } from './recurring/accounts.ts'
import { audits } from './recurring/audit.ts'
import type { Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPerformer } from './perform.ts'
import { tellOfEndpoints } from './recurring/endpoints.ts'
import { followMessages } from './recurring/messages.ts'
import { carryOutActs } from './recurring/operator-acts.ts'
import { carryOutProposals } from './recurring/proposals.ts'
import { reconcile } from './recurring/reconcile.ts'
import { retain } from './recurring/retention.ts'
import { gauge } from './recurring/gauges.ts'
import { expire } from './recurring/holds.ts'
import { rollUp } from './recurring/rollups.ts'
import { cancelAbandoned } from './recurring/verifications.ts'
import { createJobLog } from './job-log.ts'
import { watchProviders } from './provider-watch.ts'
import { deliverEvents } from './deliveries.ts'
import { compareWhatWaits } from './recurring/waiting.ts'
import { sweep, watch } from './sweep.ts'

/** Starts a worker against the servers that `config` names. */
export async function startWorker(config: Config, log: Log): Promise<Service> {
  await using ends = new AsyncDisposableStack()
  const queues = queuesOf(config)
  const sql = connectConfiguredDatabase(config, 'sluice-worker', log)
  const urgent_sql = connectDatabase(need(config, 'DATABASE_URL'), {
    max: 1,
    application_name: 'sluice-worker-leases',
  })
  // The jobs never wait behind audits, retention and the like, whose statements are slow.
  const recurring_sql = connectDatabase(need(config, 'DATABASE_URL'), {
    max: 2,
    application_name: 'sluice-worker-recurring',
  })
  ends.defer(() => endAll(sql, urgent_sql, recurring_sql))
  const context = openContext(config, log, { sql, queues, ends })
  const queue = openConfiguredQueue(config, log)
  ends.defer(() => queue.close())
  const concurrencyOf = (name: string) =>
    name === sendDelivery.queue ? config.DELIVERY_CONCURRENCY : config.WORKER_CONCURRENCY
  const worker = PROCESS_NAME
  const performer = createPerformer(context, queue, { worker, queues, concurrencyOf, urgent_sql })
  const consumers = new Map<string, Consumer>(
    queues.map((name) => [
      name,
      queue.consume({
        queue: name,
        concurrency: concurrencyOf(name),
        perform: (id) => performer.perform({ id, queue: name, by: 'bell' }),
      }),
    ]),
  )
  const watchdog = watch(context, {
    queues,
    performer,
    restart: async (name) => await consumers.get(name)?.restart(),
  })
  const loops = [
    watchdog,
    sweep(context, { queue, queues, performer, concurrencyOf, watchdog }),
    compareWhatWaits(context),
    context.provider_watch.report(recurring_sql, worker),
    ...startRecurring({ ...context, sql: recurring_sql }, queues),
    ...(queues.some((name) => name === sendDelivery.queue)
      ? deliverEvents(context, { queue, performer, worker, concurrency: config.DELIVERY_CONCURRENCY })
      : []),
  ]
  log.info(
    {
      queues,
      concurrency: config.WORKER_CONCURRENCY,
      deliveries: config.DELIVERY_CONCURRENCY,
      queue: queue.backend,
    },
    'the worker works',
  )
  ends.defer(async () => {
    await Promise.all(loops.map((loop) => loop.close()))
    await Promise.all([performer.close(), ...Array.from(consumers.values(), (consumer) => consumer.close())])
  })
  return serviceOf(ends.move(), sql, { name: 'worker', queues })
}

/** Opens what handlers and recurring work share; `ends` closes it. */
function openContext(
  config: Config,
  log: Log,
  { sql, queues, ends }: { sql: Sql; queues: readonly QueueName[]; ends: AsyncDisposableStack },
): WorkerContext {
  const job_log = createJobLog(log, config.logged_part)
  const provider_watch = watchProviders(log)
  const { providers, credentials, ...opened } = openProviders(config, queues, (provider, call) => {
    const { operation, outcome, duration_ms } = call
    metrics.providerCall.observe({ provider, operation, outcome }, duration_ms / 1000)
    if (outcome === 'misconfigured') metrics.misconfigured.inc({ provider })
    provider_watch.ended(provider, call)
    job_log.call(call)
  })
  ends.defer(() => opened.close())
  const receivers = openReceivers(tenantUrlRules(config))
  ends.defer(() => receivers.close())
  return {
    ...providers,
    sql,
    log,
    vault: createVault(need(config, 'ENCRYPTION_KEY')),
    config,
    credentials,
    hashOf: config.ADDRESS_KEY === undefined ? unset : createAddressHash(config.ADDRESS_KEY),
    job_log,
    provider_watch,
    receivers,
  }
}

/** The recurring work of a worker of these queues. */
function startRecurring(context: WorkerContext, queues: readonly QueueName[]): Loop[] {
  const { config } = context
  return [
    expire(context, config.REQUIRES_ACTION_TTL_S),
    cancelAbandoned(context, config.KYC_TTL_DAYS),
    gauge(context),
    carryOutActs(context),
    carryOutProposals(context),
    learnAccounts(context),
    rollUp(context),
    retain(context, { ...config.RETENTION_DAYS, events: config.EVENT_RETENTION_DAYS }),
    audits(context, config.AUDIT_EVERY_S),
    ...(rolesIn(queues).includes('processor')
      ? [reconcile(context, { every_s: config.RECONCILE_EVERY_S, after_s: config.RECONCILE_AFTER_S })]
      : []),
    ...(queues.some((name) => name === sendSms.queue)
      ? [followMessages(context, config.MESSAGE_RETENTION_DAYS)]
      : []),
    ...(queues.some((name) => name === sendDelivery.queue) ? tellOfEndpoints(context) : []),
  ]
}

// A worker of other queues starts without the key.
const unset = () => assert.fail('ADDRESS_KEY is not set')

function queuesOf({ QUEUES: named }: Config): readonly QueueName[] {
  const strange = named.find((name) => !QUEUES.some((queue) => queue === name))
  if (strange !== undefined)
    throw new ConfigError(`QUEUES: no queue is called "${strange}"; there are ${QUEUES.join(', ')}`)
  return named.length === 0 ? QUEUES : QUEUES.filter((queue) => named.includes(queue))
}

if (import.meta.main) await runService('worker', 'performs jobs.', startWorker)
