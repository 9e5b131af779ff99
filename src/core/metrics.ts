// All metrics, served at `/metrics`.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

export const registry = new Registry()
// The event loop lag statistics would wake each process a hundred times a second, which costs an idle process more
// than all other work. They are removed; `nodejs_eventloop_lag_seconds` is measured on request.
collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 2 ** 31 - 1 })
for (const statistic of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'])
  registry.removeSingleMetric(`nodejs_eventloop_lag_${statistic}_seconds`)

const registers = [registry]
const short_buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const long_buckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
]

export const metrics = {
  request: new Histogram({
    name: 'sluice_http_request_seconds',
    help: 'Time to answer a request',
    labelNames: ['listener', 'method', 'route', 'status'],
    buckets: short_buckets,
    registers,
  }),
  areas: new Gauge({
    name: 'sluice_area_deployed',
    help: '1 if an area of the API is deployed, 0 if it is switched off, not available yet, or its provider has no credentials',
    labelNames: ['area'],
    registers,
  }),
  jobWait: new Histogram({
    name: 'sluice_job_wait_seconds',
    help: 'Time from when a job is due until it is claimed',
    labelNames: ['queue', 'job'],
    buckets: long_buckets,
    registers,
  }),
  jobRun: new Histogram({
    name: 'sluice_job_run_seconds',
    help: 'Time from when a job is claimed until the attempt is settled',
    labelNames: ['queue', 'job', 'outcome'],
    buckets: long_buckets,
    registers,
  }),
  jobTotal: new Histogram({
    name: 'sluice_job_end_to_end_seconds',
    help: 'Time from when a job is requested until it is finished',
    labelNames: ['queue', 'job', 'state'],
    buckets: long_buckets,
    registers,
  }),
  providerCall: new Histogram({
    name: 'sluice_provider_call_seconds',
    help: 'Time of a call to a provider',
    labelNames: ['provider', 'operation', 'outcome'],
    buckets: short_buckets,
    registers,
  }),
  statement: new Histogram({
    name: 'sluice_statement_seconds',
    help: 'Time of an atomic step in the database, by the step',
    labelNames: ['step'],
    buckets: short_buckets,
    registers,
  }),
  fenced: new Counter({
    name: 'sluice_jobs_fenced_total',
    help: 'Late writes that the fence refused',
    labelNames: ['queue', 'job'],
    registers,
  }),
  directClaims: new Counter({
    name: 'sluice_jobs_claimed_directly_total',
    help: 'Jobs claimed from the database because their wake-up was lost or their worker died',
    labelNames: ['queue'],
    registers,
  }),
  sequenced: new Counter({
    name: 'sluice_events_sequenced_total',
    help: 'Events that this process sequenced into the feed',
    registers,
  }),
  deliveryAttempts: new Counter({
    name: 'sluice_delivery_attempts_total',
    help: 'Delivery attempts by result: delivered, retry, exhausted, failed, skipped (nothing was sent)',
    labelNames: ['result'],
    registers,
  }),
  endpointsDisabled: new Counter({
    name: 'sluice_webhook_endpoints_disabled_total',
    help: 'Webhook endpoints that were disabled automatically, by reason: gone, failing; counted when their tenant is notified',
    labelNames: ['reason'],
    registers,
  }),
  wakeupsDropped: new Counter({
    name: 'sluice_wakeups_dropped_total',
    help: 'Wake-ups that could not be sent to the queue in time; their jobs are claimed directly',
    registers,
  }),
  watchdog: new Counter({
    name: 'sluice_watchdog_restarts_total',
    help: 'Consumers restarted because no wake-ups arrived while jobs waited',
    labelNames: ['queue'],
    registers,
  }),
  misconfigured: new Counter({
    name: 'sluice_provider_misconfigured_total',
    help: 'Calls that a provider refused because of our credentials',
    labelNames: ['provider'],
    registers,
  }),
  platformLacksFunds: new Counter({
    name: 'sluice_platform_balance_insufficient_total',
    help: "Payouts whose job was parked because the platform's balance at the processor was too low",
    registers,
  }),
  oldestDue: new Gauge({
    name: 'sluice_oldest_due_seconds',
    help: 'Age of the oldest due and unclaimed job',
    labelNames: ['queue'],
    registers,
  }),
  retrying: new Gauge({
    name: 'sluice_jobs_retrying',
    help: 'Open jobs whose last attempt failed; counted up to 10,000 for each job name. Each worker reports the same value: use the maximum',
    labelNames: ['queue'],
    registers,
  }),
  oldestRetrying: new Gauge({
    name: 'sluice_oldest_retrying_seconds',
    help: 'Time since the first failure of the oldest open job whose last attempt failed. Use the maximum of the workers',
    labelNames: ['queue'],
    registers,
  }),
  parked: new Gauge({
    name: 'sluice_notifications_parked',
    help: 'Parked notifications, by reason; counted up to 10,000 for each reason',
    labelNames: ['reason'],
    registers,
  }),
  notificationsIgnored: new Counter({
    name: 'sluice_notifications_ignored_total',
    help: 'Notifications ignored because their object never became known',
    labelNames: ['reason'],
    registers,
  }),
  unknown: new Gauge({
    name: 'sluice_jobs_unknown',
    help: 'Jobs whose effect at the provider is unknown',
    registers,
  }),
  auditProblems: new Gauge({
    name: 'sluice_audit_problems',
    help: 'Problems that the last audit found, by check',
    labelNames: ['check'],
    registers,
  }),
  auditUnfinished: new Gauge({
    name: 'sluice_audit_unfinished',
    help: '1 if a check of the last audit timed out and has no result',
    labelNames: ['check'],
    registers,
  }),
  auditAge: new Gauge({
    name: 'sluice_audit_age_seconds',
    help: 'Time since the last audit ended',
    registers,
  }),
  drifts: new Gauge({
    name: 'sluice_open_drifts',
    help: 'Resources whose state at the provider differs from ours or is unknown',
    labelNames: ['state'],
    registers,
  }),
  oldestDrift: new Gauge({
    name: 'sluice_oldest_drift_seconds',
    help: 'Age of the oldest open drift',
    registers,
  }),
  notificationsRefused: new Counter({
    name: 'sluice_notifications_refused_total',
    help: 'Notifications with an invalid signature or a body that is not an event',
    labelNames: ['provider', 'reason'],
    registers,
  }),
  moved: new Counter({
    name: 'sluice_history_moved_total',
    help: 'Finished jobs, and notifications without a job, that were moved into the history',
    labelNames: ['kind'],
    registers,
  }),
  strays: new Gauge({
    name: 'sluice_stray_rows',
    help: 'Rows without a partition because none was created in time; 1000 means 1000 or more',
    labelNames: ['table'],
    registers,
  }),
  notificationsWaited: new Counter({
    name: 'sluice_notifications_waited_total',
    help: 'Waiting notifications after their comparison, by state: applied (redundant by then), received (a job applies it)',
    labelNames: ['state'],
    registers,
  }),
  notificationsStored: new Counter({
    name: 'sluice_notifications_stored_total',
    help: 'Notifications that arrived, by state: received (a job applies it), waiting, applied (redundant), ignored, duplicate; unknown_form (answered, not stored)',
    labelNames: ['provider', 'state'],
    registers,
  }),
  logLinesLost: new Counter({
    name: 'sluice_log_lines_lost_total',
    help: 'Log lines that could not be written, by reason: the error code (ENOSPC, EPIPE, ...), or slow (their reader did not keep up)',
    labelNames: ['reason'],
    registers,
  }),
  recurringFailures: new Counter({
    name: 'sluice_recurring_failures_total',
    help: 'Failed runs of recurring work, by work',
    labelNames: ['work'],
    registers,
  }),
  recurringFailing: new Gauge({
    name: 'sluice_recurring_failing_seconds',
    help: 'How long every run of this work has failed; absent if its last run succeeded',
    labelNames: ['work'],
    registers,
  }),
  eventsRecovered: new Counter({
    name: 'sluice_notifications_recovered_total',
    help: "Notifications that did not arrive and were read from the processor's list",
    labelNames: ['provider'],
    registers,
  }),
}

// The metric is absent until this process has read the result of an audit: 0 would mean that an audit has just ended.
metrics.auditAge.remove()
