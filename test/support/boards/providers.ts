// The board Providers: calls, outages, notifications, drifts.
import { maximum, p99, perSecond, type Row } from './board.ts'

export const PROVIDERS_BOARD: Row[] = [
  {
    title: 'Calls',
    panels: [
      {
        title: 'Calls',
        unit: 'ops',
        about: 'Calls a second by provider and operation.',
        queries: [perSecond('sluice_provider_call_seconds_count', 'provider', 'operation')],
      },
      {
        title: 'Failed attempts',
        unit: 'ops',
        about: 'Attempts a second that did not succeed. Declined: the provider refused the request itself.',
        queries: [perSecond('sluice_failed_attempts_total', 'provider', 'outcome')],
      },
      {
        title: 'Time of a call',
        unit: 's',
        about: '99 of 100 calls take less.',
        queries: [p99('sluice_provider_call_seconds', ['provider', 'operation'])],
      },
      {
        title: 'Outages',
        unit: 's',
        about: 'How long an outage of a provider, or of one of its operations, has lasted.',
        queries: [maximum('sluice_provider_outage_seconds', 'provider', 'operation')],
      },
      {
        title: 'Refused credentials',
        unit: 'ops',
        about:
          'Calls a second that a provider refused because of our credentials, or that a worker could not make without credentials.',
        queries: [perSecond('sluice_provider_misconfigured_total', 'provider')],
      },
      {
        title: 'Payouts without funds',
        unit: 'ops',
        about: 'Payouts a second that were parked because the balance of the platform was too low.',
        queries: [perSecond('sluice_platform_balance_insufficient_total')],
      },
    ],
  },
  {
    title: 'Notifications',
    panels: [
      {
        title: 'Arrived',
        unit: 'ops',
        about: 'Notifications a second by what became of them.',
        queries: [perSecond('sluice_notifications_stored_total', 'provider', 'state')],
      },
      {
        title: 'Waited',
        unit: 'ops',
        about: 'Notifications that waited for a call of ours.',
        queries: [perSecond('sluice_notifications_waited_total', 'state')],
      },
      {
        title: 'Recovered',
        unit: 'ops',
        about: 'Notifications that did not arrive and were read from the list of the provider.',
        queries: [perSecond('sluice_notifications_recovered_total', 'provider')],
      },
      {
        title: 'Refused',
        unit: 'ops',
        about: 'Notifications with an invalid signature, or a body that is not an event.',
        queries: [perSecond('sluice_notifications_refused_total', 'provider', 'reason')],
      },
      {
        title: 'Parked',
        unit: 'short',
        about: 'Notifications that cannot be applied.',
        queries: [maximum('sluice_notifications_parked', 'reason')],
      },
      {
        title: 'Ignored',
        unit: 'ops',
        about: 'Notifications whose object never became known.',
        queries: [perSecond('sluice_notifications_ignored_total', 'reason')],
      },
    ],
  },
  {
    title: 'Agreement',
    panels: [
      {
        title: 'Open drifts',
        unit: 'short',
        about: 'Resources whose state at the provider differs from ours or is unknown.',
        queries: [maximum('sluice_open_drifts', 'state')],
      },
      {
        title: 'Oldest drift',
        unit: 's',
        about: 'Age of the oldest open drift.',
        queries: [maximum('sluice_oldest_drift_seconds')],
      },
      {
        title: 'Unknown calls',
        unit: 'short',
        about: 'Calls that may or may not have taken effect.',
        queries: [maximum('sluice_jobs_unknown')],
      },
    ],
  },
]
