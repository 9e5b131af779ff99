// The board Queues: jobs by queue, their times, and the machinery.
import { maximum, p99, perSecond, type Row } from './board.ts'

export const QUEUES_BOARD: Row[] = [
  {
    title: 'Jobs',
    panels: [
      {
        title: 'Waiting jobs',
        unit: 'short',
        about: 'Jobs that are due or scheduled.',
        queries: [maximum('sluice_jobs_waiting', 'queue')],
      },
      {
        title: 'Running jobs',
        unit: 'short',
        about: 'Jobs with a lease.',
        queries: [maximum('sluice_jobs_running', 'queue')],
      },
      {
        title: 'Retrying jobs',
        unit: 'short',
        about: 'Open jobs whose last attempt failed.',
        queries: [maximum('sluice_jobs_retrying', 'queue')],
      },
      {
        title: 'Oldest due job',
        unit: 's',
        about: 'Above a minute, the alert pages.',
        queries: [maximum('sluice_oldest_due_seconds', 'queue')],
      },
      {
        title: 'Oldest retrying job',
        unit: 's',
        about: 'Time since the first failure of the oldest job that is retried.',
        queries: [maximum('sluice_oldest_retrying_seconds', 'queue')],
      },
      {
        title: 'Parked jobs',
        unit: 'short',
        about: 'Jobs that wait for an operator.',
        queries: [maximum('sluice_jobs_parked', 'queue')],
      },
    ],
  },
  {
    title: 'Attempts',
    panels: [
      {
        title: 'Attempts',
        unit: 'ops',
        about: 'Attempts a second by queue.',
        queries: [perSecond('sluice_job_run_seconds_count', 'queue')],
      },
      {
        title: 'Outcomes',
        unit: 'ops',
        about: 'Attempts a second by outcome.',
        queries: [perSecond('sluice_job_run_seconds_count', 'outcome')],
      },
      {
        title: 'Wait until a claim',
        unit: 's',
        about: '99 of 100 due jobs are claimed sooner.',
        queries: [p99('sluice_job_wait_seconds', ['queue'])],
      },
      {
        title: 'Time of an attempt',
        unit: 's',
        about: '99 of 100 attempts take less.',
        queries: [p99('sluice_job_run_seconds', ['queue'])],
      },
      {
        title: 'From request to end',
        unit: 's',
        about: '99 of 100 jobs end sooner.',
        queries: [p99('sluice_job_end_to_end_seconds', ['queue'])],
      },
    ],
  },
  {
    title: 'Machinery',
    panels: [
      {
        title: 'Claimed without a wake-up',
        unit: 'ops',
        about: 'Jobs whose wake-up was lost or whose worker died.',
        queries: [perSecond('sluice_jobs_claimed_directly_total', 'queue')],
      },
      {
        title: 'Dropped wake-ups and restarted consumers',
        unit: 'ops',
        about: 'Usually 0. Otherwise look at Redis.',
        queries: [
          [perSecond('sluice_wakeups_dropped_total')[0], 'dropped wake-ups'],
          [perSecond('sluice_watchdog_restarts_total')[0], 'restarted consumers'],
        ],
      },
      {
        title: 'Fenced writes',
        unit: 'ops',
        about: 'Late writes that the fence refused: their worker had lost its lease.',
        queries: [perSecond('sluice_jobs_fenced_total', 'queue')],
      },
      {
        title: 'Failing recurring work',
        unit: 's',
        about: 'How long every run of a work has failed.',
        queries: [maximum('sluice_recurring_failing_seconds', 'work')],
      },
      {
        title: 'Failed runs of recurring work',
        unit: 'ops',
        about: 'Failed runs a second.',
        queries: [perSecond('sluice_recurring_failures_total', 'work')],
      },
      {
        title: 'Moved into the history',
        unit: 'ops',
        about: 'Finished jobs and notifications.',
        queries: [perSecond('sluice_history_moved_total', 'kind')],
      },
    ],
  },
]
