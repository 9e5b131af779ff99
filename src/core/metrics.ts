// All metrics, for every layer; served at `/metrics`.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

export const registry = new Registry()
// The statistics of the event loop's lag would wake each process a hundred times a second, which costs an idle one more
// than everything else together. They are left out; `nodejs_eventloop_lag_seconds` is measured when it is asked for.
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
    help: '1 where an area of the API answers, 0 where it is switched off, not there yet, or its provider has no credentials',
    labelNames: ['area'],
    registers,
  }),
  jobWait: new Histogram({
    name: 'sluice_job_wait_seconds',
    help: 'From due to claimed',
    labelNames: ['queue', 'job'],
    buckets: long_buckets,
    registers,
  }),
  jobRun: new Histogram({
    name: 'sluice_job_run_seconds',
    help: 'From claimed to settled',
    labelNames: ['queue', 'job', 'outcome'],
    buckets: long_buckets,
    registers,
  }),
  jobTotal: new Histogram({
    name: 'sluice_job_end_to_end_seconds',
    help: 'From asked for to finished',
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
    help: 'Jobs claimed from the database because no bell brought them in time: it was lost, or their worker died',
    labelNames: ['queue'],
    registers,
  }),
  sequenced: new Counter({
    name: 'sluice_events_sequenced_total',
    help: 'Events that got their sequence from this process, and so came into the feed',
    registers,
  }),
  deliveryAttempts: new Counter({
    name: 'sluice_delivery_attempts_total',
    help: 'Attempts at deliveries by what followed: delivered, again (it is tried again), exhausted, failed, skipped (nothing was sent)',
    labelNames: ['result'],
    registers,
  }),
  endpointsDisabled: new Counter({
    name: 'sluice_webhook_endpoints_disabled_total',
    help: 'Webhook endpoints that were disabled by themselves, by reason: gone, failing; counted when their tenant is told',
    labelNames: ['reason'],
    registers,
  }),
  wakeupsDropped: new Counter({
    name: 'sluice_wakeups_dropped_total',
    help: 'Bells that could not be put into the queue in time; their jobs are claimed directly',
    registers,
  }),
  watchdog: new Counter({
    name: 'sluice_watchdog_restarts_total',
    help: 'Consumers restarted because no bells came while jobs waited',
    labelNames: ['queue'],
    registers,
  }),
  misconfigured: new Counter({
    name: 'sluice_provider_misconfigured_total',
    help: 'Calls that a provider refused for our credentials',
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
    help: 'Open jobs whose last attempt failed; counted up to 10,000 of each kind of job. Each worker says the same: take the max',
    labelNames: ['queue'],
    registers,
  }),
  oldestRetrying: new Gauge({
    name: 'sluice_oldest_retrying_seconds',
    help: 'Since the first of the failed attempts at the oldest open job whose last attempt failed. Take the max of the workers',
    labelNames: ['queue'],
    registers,
  }),
  parked: new Gauge({
    name: 'sluice_notifications_parked',
    help: 'Notifications that wait for what they name, or were given up, by reason; counted up to 10,000 of each',
    labelNames: ['reason'],
    registers,
  }),
  notificationsIgnored: new Counter({
    name: 'sluice_notifications_ignored_total',
    help: 'Notifications ignored in the end because what they name never became known',
    labelNames: ['reason'],
    registers,
  }),
  unknown: new Gauge({
    name: 'sluice_jobs_unknown',
    help: 'Jobs whose effect at the provider is not known',
    registers,
  }),
  auditProblems: new Gauge({
    name: 'sluice_audit_problems',
    help: 'What the last audit found, by check',
    labelNames: ['check'],
    registers,
  }),
  auditUnfinished: new Gauge({
    name: 'sluice_audit_unfinished',
    help: '1 where a check of the last audit took too long and has no result',
    labelNames: ['check'],
    registers,
  }),
  auditAge: new Gauge({
    name: 'sluice_audit_age_seconds',
    help: 'Since the last audit ended',
    registers,
  }),
  drifts: new Gauge({
    name: 'sluice_open_drifts',
    help: 'Payments, payouts and all else at a provider whose state there differs from ours or is not known',
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
    help: 'Notifications with a bad signature, or whose body is not an event',
    labelNames: ['provider', 'reason'],
    registers,
  }),
  moved: new Counter({
    name: 'sluice_moved_total',
    help: 'Finished jobs, and notifications that had none, that were moved into the history',
    labelNames: ['kind'],
    registers,
  }),
  strays: new Gauge({
    name: 'sluice_stray_rows',
    help: 'Rows that fitted no partition because none was made in time; 1000 stands for more',
    labelNames: ['table'],
    registers,
  }),
  notificationsWaited: new Counter({
    name: 'sluice_notifications_waited_total',
    help: 'Notifications that had waited, by what became of them: applied (no news by then), received (a job applies it)',
    labelNames: ['state'],
    registers,
  }),
  notificationsStored: new Counter({
    name: 'sluice_notifications_stored_total',
    help: 'Notifications that came in, by what became of them: received (a job applies it), waiting, applied (no news), ignored, duplicate; unknown_form (answered, not stored)',
    labelNames: ['provider', 'state'],
    registers,
  }),
  logLinesLost: new Counter({
    name: 'sluice_log_lines_lost_total',
    help: 'Log lines that could not be written, by reason: the error (ENOSPC, EPIPE, ...), or slow (their reader did not keep up)',
    labelNames: ['reason'],
    registers,
  }),
  recurringFailures: new Counter({
    name: 'sluice_recurring_failures_total',
    help: 'Runs of recurring work that failed, by work',
    labelNames: ['work'],
    registers,
  }),
  recurringFailing: new Gauge({
    name: 'sluice_recurring_failing_seconds',
    help: 'For how long every run of this work has failed; absent while its last run succeeded',
    labelNames: ['work'],
    registers,
  }),
  eventsRecovered: new Counter({
    name: 'sluice_notifications_recovered_total',
    help: "Notifications that never arrived and were read from the processor's own list",
    labelNames: ['provider'],
    registers,
  }),
}

// Absent until this process has seen the result of an audit: 0 would mean that one has just ended.
metrics.auditAge.remove()
