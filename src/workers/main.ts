// The `worker` process: performs jobs, claims waiting jobs round robin by tenant, and does the recurring work.
import assert from 'node:assert/strict'
import { createAddressHash } from '#core/addresses.ts'
import { ConfigError, requireVariable, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { connectConfiguredDatabase, endPools } from '#core/process-pool.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { observeTraced } from '#core/tracing.ts'
import { PROCESS_NAME } from '#core/heartbeat.ts'
import { createCurrentVault } from '#core/secrets.ts'
import { runService, createService, type Service } from '#core/service.ts'
import { tenantUrlRules } from '#core/tenant-urls.ts'
import { QUEUES, type QueueName } from '#core/config/queues.ts'
import { findOperatorWork, findPolledWork } from '#domain/polled-work.ts'
import { createModeCache } from '#domain/modes.ts'
import { acceptedKeysOf } from '#domain/switches/kept-facts.ts'
import { watchDatabase, type DatabaseWatch } from '#domain/switches/watch.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { applyNotification } from '#jobs/notifications.ts'
import { sendSms } from '#jobs/messages.ts'
import { openProviders, rolesOfQueues } from '#providers/configured.ts'
import { openReceivers } from '#providers/receivers.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import type { Queue } from '#queue/queue.ts'
import type { Consumer } from '#queue/consumer.ts'
import { warnOfMissingCredentials } from './handlers/missing-credentials.ts'
import { startAccountDiscovery } from './recurring/accounts.ts'
import { startAudits } from './recurring/audit.ts'
import type { Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPerformer } from './perform.ts'
import { startEndpointNotices } from './recurring/endpoints.ts'
import { startMessageUpkeep } from './recurring/messages.ts'
import { startOperatorActs } from './recurring/operator-acts.ts'
import { startOptOutReader } from './recurring/opt-outs.ts'
import { startProposals } from './recurring/proposals.ts'
import { startReconciler } from './recurring/reconcile.ts'
import { startRetention } from './recurring/retention.ts'
import { startGauges } from './recurring/gauges.ts'
import { startHoldExpiry } from './recurring/holds.ts'
import { startRollups } from './recurring/rollups.ts'
import { startSandboxes } from './recurring/sandboxes.ts'
import { startTestClocks } from './recurring/test-clocks.ts'
import { startTestDataRetention } from './recurring/test-data.ts'
import { startVerificationExpiry } from './recurring/verifications.ts'
import { createJobLog } from './job-log.ts'
import { traceCall } from './job-span.ts'
import { createTestContexts } from './test-context.ts'
import { createIdleness } from './idleness.ts'
import { checkNewSecret } from './new-secrets.ts'
import { pollWork, type HasOperatorWork, type HasWork } from './polled-work.ts'
import { watchProviders } from './provider-watch.ts'
import { callTimeoutOf, shutdownTimeoutOf } from './shutdown.ts'
import { deliverEvents } from './deliveries.ts'
import { startLostRequests } from './recurring/lost-requests.ts'
import { compareWaitingNotifications } from './recurring/waiting.ts'
import { startSweep, startWatchdog } from './sweep.ts'

/** Starts a worker against the servers that `config` names. */
export async function startWorker(config: Config, log: Log): Promise<Service> {
  await using cleanup = new AsyncDisposableStack()
  const queues = queuesOf(config)
  const sql = connectConfiguredDatabase(config, 'sluice-worker', log)
  const urgent_sql = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: 1,
    application_name: 'sluice-worker-leases',
    pool_name: 'leases',
  })
  // A separate connection: the slow statements of recurring work must not delay jobs.
  const recurring_sql = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: 2,
    application_name: 'sluice-worker-recurring',
    pool_name: 'recurring',
  })
  cleanup.defer(() => endPools(sql, urgent_sql, recurring_sql))
  const queue = openConfiguredQueue(
    config,
    log,
    acceptedKeysOf(recurring_sql, () => requireVariable(config, 'ENCRYPTION_KEY')),
  )
  cleanup.defer(() => queue.close())
  const database = await watchDatabase(config, { sql: urgent_sql, log, queue })
  cleanup.defer(() => database.close())
  const context = openContext(config, log, { sql, database, queues, cleanup })
  warnOfMissingCredentials(context)
  const concurrencyOf = (name: string) =>
    name === sendDelivery.queue ? config.DELIVERY_CONCURRENCY : config.WORKER_CONCURRENCY
  const worker = PROCESS_NAME
  const call_timeout_ms = callTimeoutOf(config, queues)
  const performer = createPerformer(context, queue, {
    worker,
    queues,
    concurrencyOf,
    urgent_sql,
    call_timeout_ms,
  })
  const consumers = new Map<string, Consumer>(
    queues.map((name) => [
      name,
      queue.consume({
        queue: name,
        concurrency: concurrencyOf(name),
        perform: (id) => performer.perform({ id, queue: name, by: 'wakeup' }),
      }),
    ]),
  )
  const watchdog = startWatchdog(context, {
    queues,
    performer,
    restart: async (name) => await consumers.get(name)?.restart(),
  })
  const hasWork = pollWork(() => findPolledWork(sql))
  // Its tables are small: an act of an operator waits for nothing.
  const hasOperatorWork = pollWork(() => findOperatorWork(recurring_sql), 0)
  const loops = [
    watchdog,
    startSweep(context, { queue, queues, performer, concurrencyOf, watchdog }),
    compareWaitingNotifications(context, hasWork),
    startSandboxes({ ...context, sql: recurring_sql }, config.MESSAGE_RETENTION_DAYS, hasWork),
    context.provider_watch.report({ ...context, sql: recurring_sql }, worker),
    ...startRecurring({ ...context, sql: recurring_sql }, queues, {
      accepted: queue.accepted,
      hasWork,
      hasOperatorWork,
    }),
    ...(queues.some((name) => name === sendDelivery.queue)
      ? deliverEvents(context, {
          queue,
          performer,
          worker,
          concurrency: config.DELIVERY_CONCURRENCY,
          hasWork,
        })
      : []),
  ]
  log.info(
    {
      queues,
      concurrency: config.WORKER_CONCURRENCY,
      deliveries: config.DELIVERY_CONCURRENCY,
      queue: queue.backend,
    },
    'the worker is running',
  )
  cleanup.defer(async () => {
    // The performer stops first: a loop may end only after a slow call of its own.
    performer.stop()
    await Promise.all([...loops, ...consumers.values()].map((opened) => opened.close()))
    await performer.close()
  })
  return {
    ...createService(cleanup.move(), context, { name: 'worker', queues }),
    shutdown_timeout_ms: shutdownTimeoutOf(config, queues),
    checkNewSecret: (name, value) => checkNewSecret(context, name, value),
  }
}

/** Opens the dependencies that handlers and recurring work share; `cleanup` closes them. */
function openContext(
  config: Config,
  log: Log,
  {
    sql,
    database,
    queues,
    cleanup,
  }: {
    sql: Sql
    database: DatabaseWatch
    queues: readonly QueueName[]
    cleanup: AsyncDisposableStack
  },
): WorkerContext {
  const job_log = createJobLog(log, config.log_sample_rate)
  const provider_watch = watchProviders({ log, config })
  const opened = openProviders(config, queues, (provider, call) => {
    const { operation, outcome, duration_ms } = call
    observeTraced(metrics.providerCall, { provider, operation, outcome }, duration_ms / 1000)
    traceCall(provider, call)
    if (outcome === 'misconfigured') metrics.misconfigured.inc({ provider })
    provider_watch.ended(provider, call)
    job_log.call(call)
  })
  cleanup.defer(() => opened.close())
  const { providers, credentials, configured } = opened
  const receivers = openReceivers(tenantUrlRules(config))
  cleanup.defer(() => receivers.close())
  const context: WorkerContext = {
    ...providers,
    credentials,
    configured,
    livemode: true,
    sandbox_of: null,
    modes: {
      ...createModeCache(sql),
      contextOf: (livemode) => (livemode ? context : test.context()),
      testContextOf: (tenant_id) => test.contextOf(tenant_id),
      sandboxes: () => test.sandboxes(),
    },
    sql,
    database,
    log,
    vault: createCurrentVault(() => requireVariable(config, 'ENCRYPTION_KEY')),
    config,
    hashOf: config.ADDRESS_KEY === undefined ? unset : createAddressHash(config.ADDRESS_KEY),
    job_log,
    idleness: createIdleness(),
    provider_watch,
    receivers,
  }
  const test = createTestContexts(context, queues)
  cleanup.defer(() => test.close())
  return context
}

/** Starts the recurring work for these queues. */
function startRecurring(
  context: WorkerContext,
  queues: readonly QueueName[],
  {
    accepted,
    hasWork,
    hasOperatorWork,
  }: { accepted: Queue['accepted']; hasWork: HasWork; hasOperatorWork: HasOperatorWork },
): Loop[] {
  const { config } = context
  return [
    startHoldExpiry(context, config.REQUIRES_ACTION_TTL_S),
    startVerificationExpiry(context, config.KYC_TTL_DAYS),
    startTestClocks(context, hasWork),
    startGauges(context),
    startOperatorActs(context, hasOperatorWork),
    startProposals(context, hasOperatorWork),
    startLostRequests(context, accepted),
    startAccountDiscovery(context),
    startRollups(context),
    startRetention(context, { ...config.RETENTION_DAYS, events: config.EVENT_RETENTION_DAYS }),
    startTestDataRetention(context),
    startAudits(context, config.AUDIT_EVERY_S),
    ...(rolesOfQueues(queues).includes('processor')
      ? [
          startReconciler(context, {
            every_s: config.RECONCILE_EVERY_S,
            after_s: config.RECONCILE_AFTER_S,
            // Only a worker that applies notifications has clients of all providers with lists.
            objects_every_s: queues.some((name) => name === applyNotification.queue)
              ? config.COMPLETENESS_EVERY_S
              : null,
          }),
        ]
      : []),
    ...(queues.some((name) => name === sendSms.queue)
      ? [startMessageUpkeep(context, config.MESSAGE_RETENTION_DAYS), startOptOutReader(context)]
      : []),
    ...(queues.some((name) => name === sendDelivery.queue) ? startEndpointNotices(context) : []),
  ]
}

// Called only if the key is used: a worker of other queues starts without the key.
const unset = () => assert.fail('ADDRESS_KEY is not set')

function queuesOf({ QUEUES: names }: Config): readonly QueueName[] {
  const unknown_queue = names.find((name) => !QUEUES.some((queue) => queue === name))
  if (unknown_queue !== undefined)
    throw new ConfigError(
      `QUEUES: there is no queue "${unknown_queue}". The queues are ${QUEUES.join(', ')}.`,
    )
  return names.length === 0 ? QUEUES : QUEUES.filter((queue) => names.includes(queue))
}

if (import.meta.main) await runService('worker', 'performs jobs.', startWorker)
