// The board Overview: requests, objectives, work that needs a person, processes.
import { maximum, p99, perSecond, type Row } from './board.ts'

const ANSWERS = 'sluice_http_request_seconds_count'

export const OVERVIEW: Row[] = [
  {
    title: 'Requests',
    panels: [
      {
        title: 'Answers',
        unit: 'reqps',
        about: 'Answers a second of each listener.',
        queries: [perSecond(ANSWERS, 'listener')],
      },
      {
        title: 'Errors',
        unit: 'reqps',
        about: 'Answers with a status of 5xx. 502: a provider failed.',
        queries: [perSecond(`${ANSWERS}{status=~"5.."}`, 'listener', 'status')],
      },
      {
        title: 'Time to answer',
        unit: 's',
        about: '99 of 100 answers take less. A request may wait for its outcome for up to 30 seconds.',
        queries: [p99('sluice_http_request_seconds', ['listener'])],
      },
      {
        title: 'Refused requests',
        unit: 'reqps',
        about: 'Requests that a limit refused with 429 or 503, by the limit.',
        queries: [perSecond('sluice_requests_limited_total', 'reason')],
      },
    ],
  },
  {
    title: 'Objectives',
    panels: [
      {
        title: 'Burn rate of an hour',
        unit: 'short',
        about: 'How many times faster than allowed the error budget is used up. Above 14.4, the alert pages.',
        queries: [['sluice:slo_burn:1h', '{{slo}}']],
      },
      {
        title: 'Burn rate of three days',
        unit: 'short',
        about: 'Above 1, the objective will be missed. The alert is a ticket.',
        queries: [['sluice:slo_burn:3d', '{{slo}}']],
      },
      {
        title: 'Firing alerts',
        unit: 'short',
        about: 'The Watchdog always fires.',
        queries: [
          ['count by (alertname, severity) (ALERTS{alertstate="firing", service="sluice"})', '{{alertname}}'],
        ],
      },
    ],
  },
  {
    title: 'Work',
    panels: [
      {
        title: 'Oldest due job',
        unit: 's',
        about: 'Jobs that are due and that no worker has claimed. Above a minute, the alert pages.',
        queries: [maximum('sluice_oldest_due_seconds', 'queue')],
      },
      {
        title: 'Retrying jobs',
        unit: 'short',
        about: 'Open jobs whose last attempt failed.',
        queries: [maximum('sluice_jobs_retrying', 'queue')],
      },
      {
        title: 'For a person to decide',
        unit: 'short',
        about: 'Unknown calls, parked jobs, open drifts and problems of the audit. Usually 0.',
        queries: [
          ['max(sluice_jobs_unknown) or vector(0)', 'unknown calls'],
          ['sum(max by (queue) (sluice_jobs_parked)) or vector(0)', 'parked jobs'],
          ['sum(max by (state) (sluice_open_drifts)) or vector(0)', 'open drifts'],
          ['sum(max by (check) (sluice_audit_problems)) or vector(0)', 'problems of the audit'],
        ],
      },
    ],
  },
  {
    title: 'Processes',
    panels: [
      {
        title: 'Processes by version',
        unit: 'short',
        about: 'Two versions run side by side only during a deployment.',
        queries: [['count by (job, version) (sluice_build_info)', '{{job}} {{version}}']],
      },
      {
        title: 'Processor time',
        unit: 'percentunit',
        about: 'Of one processor. A process at 100 % is at its limit: add another.',
        queries: [['rate(process_cpu_seconds_total[$__rate_interval])', '{{job}} {{instance}}']],
      },
      {
        title: 'Memory',
        unit: 'bytes',
        about: 'Resident memory.',
        queries: [['process_resident_memory_bytes', '{{job}} {{instance}}']],
      },
      {
        title: 'Lag of the event loop',
        unit: 's',
        about: 'Above 0.1 s a process is busy with something else than answering.',
        queries: [['nodejs_eventloop_lag_seconds', '{{job}} {{instance}}']],
      },
      {
        title: 'Lost log lines',
        unit: 'short',
        about: 'Log lines a second that could not be written.',
        queries: [perSecond('sluice_log_lines_lost_total', 'reason')],
      },
    ],
  },
]
