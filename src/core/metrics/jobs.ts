// Metrics of jobs, queues and recurring work.
import { Counter, Gauge, Histogram } from 'prom-client'
import { LONG_BUCKETS, SAME_IN_WORKERS, registers } from './registry.ts'

/** The scans that read only recent rows while scans of all rows are slow. */
export type ReducibleScan = 'jobs' | 'notifications'
const reducible_scans = new Map<ReducibleScan, () => boolean>()

export const jobsMetrics = {
  jobWait: new Histogram({
    name: 'sluice_job_wait_seconds',
    help: 'Time from when a job can be claimed until it is claimed: from when it is due, or from the end of a wait since a switch or a seal',
    labelNames: ['queue', 'job'],
    buckets: LONG_BUCKETS,
    enableExemplars: true,
    registers,
  }),
  jobRun: new Histogram({
    name: 'sluice_job_run_seconds',
    help: 'Time from when a job is claimed until the attempt is settled',
    labelNames: ['queue', 'job', 'outcome'],
    buckets: LONG_BUCKETS,
    enableExemplars: true,
    registers,
  }),
  jobTotal: new Histogram({
    name: 'sluice_job_end_to_end_seconds',
    help: 'Time from when a job is requested until it is finished',
    labelNames: ['queue', 'job', 'state'],
    buckets: LONG_BUCKETS,
    enableExemplars: true,
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
  wakeupsDropped: new Counter({
    name: 'sluice_wakeups_dropped_total',
    help: 'Wake-ups that could not be sent to the queue in time; their jobs are claimed directly',
    registers,
  }),
  requestsUnrecorded: new Counter({
    name: 'sluice_accepted_requests_unrecorded_total',
    help: 'Accepted requests that could not be recorded in Redis: if the database loses one of them, it is not reported',
    registers,
  }),
  watchdog: new Counter({
    name: 'sluice_watchdog_restarts_total',
    help: 'Consumers restarted because no wake-ups arrived while jobs waited',
    labelNames: ['queue'],
    registers,
  }),
  oldestDue: new Gauge({
    name: 'sluice_oldest_due_seconds',
    help: `Age of the oldest due and unclaimed job. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
  retrying: new Gauge({
    name: 'sluice_jobs_retrying',
    help: `Open jobs whose last attempt failed; counted up to 10,000 for each job name. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
  oldestRetrying: new Gauge({
    name: 'sluice_oldest_retrying_seconds',
    help: `Time since the first failure of the oldest open job whose last attempt failed. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
  unknown: new Gauge({
    name: 'sluice_jobs_unknown',
    help: `Jobs whose effect at the provider is unknown. ${SAME_IN_WORKERS}`,
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
    help: `How long every run of this work has failed; absent if its last run succeeded. ${SAME_IN_WORKERS}`,
    labelNames: ['work'],
    registers,
  }),
  scansReduced: new Gauge({
    name: 'sluice_scans_reduced',
    help: '1 while the scans of this worker read only what became due within the last ten seconds, because scans of all that is due are slow, as beside an old snapshot; by scan: jobs, notifications (those that wait)',
    labelNames: ['scan'],
    registers,
    collect() {
      for (const [scan, isReduced] of reducible_scans) this.set({ scan }, isReduced() ? 1 : 0)
    },
  }),
  jobsWaiting: new Gauge({
    name: 'sluice_jobs_waiting',
    help: `Jobs that are due or scheduled and do not run, as of the last count; absent if none was counted for ten minutes. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
  jobsRunning: new Gauge({
    name: 'sluice_jobs_running',
    help: `Jobs with a running attempt, as of the last count; absent if none was counted for ten minutes. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
  jobsParked: new Gauge({
    name: 'sluice_jobs_parked',
    help: `Jobs that wait for an operator, as of the last count; absent if none was counted for ten minutes. ${SAME_IN_WORKERS}`,
    labelNames: ['queue'],
    registers,
  }),
}

/** Reports whether these scans read only recent rows. */
export function reportScan(scan: ReducibleScan, isReduced: () => boolean): void {
  reducible_scans.set(scan, isReduced)
}
