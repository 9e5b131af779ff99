// The board Deliveries: events, their sequences, and the attempts to deliver them.
import { maximum, p99, perSecond, type Row } from './board.ts'

const ATTEMPTS = 'sluice_delivery_attempts_total'
const DELIVERIES = '{queue="deliveries"}'
const rateOf = (selector: string) => `sum(rate(${ATTEMPTS}{${selector}}[$__rate_interval]))`

export const DELIVERIES_BOARD: Row[] = [
  {
    title: 'Events',
    panels: [
      {
        title: 'Events',
        unit: 'ops',
        about: 'Events a second that entered the feed.',
        queries: [perSecond('sluice_events_sequenced_total')],
      },
      {
        title: 'Oldest event without a sequence',
        unit: 's',
        about: 'Above 30 seconds, the alert pages: a worker must serve the queue deliveries.',
        queries: [maximum('sluice_oldest_unsequenced_event_seconds')],
      },
    ],
  },
  {
    title: 'Attempts',
    panels: [
      {
        title: 'Attempts by result',
        unit: 'ops',
        about: 'Attempts a second. It is normal that the receivers of single tenants fail.',
        queries: [perSecond(ATTEMPTS, 'result')],
      },
      {
        title: 'Share of successful attempts',
        unit: 'percentunit',
        about: 'The objective is 95 %.',
        queries: [[`${rateOf('result="delivered"')} / ${rateOf('result!="skipped"')}`, 'delivered']],
      },
      {
        title: 'Time of an attempt',
        unit: 's',
        about: '99 of 100 attempts take less. The receiver decides.',
        queries: [p99('sluice_job_run_seconds', ['job'], DELIVERIES)],
      },
    ],
  },
  {
    title: 'Backlog',
    panels: [
      {
        title: 'Late deliveries',
        unit: 'short',
        about: 'Deliveries that have been due for more than a minute and whose attempt has not begun.',
        queries: [maximum('sluice_deliveries_late')],
      },
      {
        title: 'Oldest due delivery',
        unit: 's',
        about: 'Above five minutes, the alert is a ticket.',
        queries: [maximum('sluice_oldest_due_delivery_seconds')],
      },
      {
        title: 'Disabled endpoints',
        unit: 'ops',
        about: 'Endpoints that were disabled automatically.',
        queries: [perSecond('sluice_webhook_endpoints_disabled_total', 'reason')],
      },
    ],
  },
]
