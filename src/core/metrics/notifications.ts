// Metrics of notifications from providers.
import { Counter, Gauge } from 'prom-client'
import { SAME_IN_WORKERS, registers } from './registry.ts'

export const notificationsMetrics = {
  parked: new Gauge({
    name: 'sluice_notifications_parked',
    help: `Parked notifications, by reason; counted up to 10,000 for each reason. ${SAME_IN_WORKERS}`,
    labelNames: ['reason'],
    registers,
  }),
  notificationsIgnored: new Counter({
    name: 'sluice_notifications_ignored_total',
    help: 'Notifications ignored because their object never became known',
    labelNames: ['reason'],
    registers,
  }),
  notificationsRefused: new Counter({
    name: 'sluice_notifications_refused_total',
    help: 'Notifications with an invalid signature or a body that is not an event',
    labelNames: ['provider', 'reason'],
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
  listedObjects: new Counter({
    name: 'sluice_listed_objects_total',
    help: "Objects in the processor's lists, by the result of the comparison with our rows: agrees, differs, missing (ours without a row), foreign (not ours)",
    labelNames: ['list', 'result'],
    registers,
  }),
  receivedSmsSkipped: new Counter({
    name: 'sluice_received_sms_skipped_total',
    help: 'Received SMS that were read from the list of the provider after a switch of the database and lacked their number, text or time: an opt-out may be among them',
    registers,
  }),
  rowsRecovered: new Counter({
    name: 'sluice_rows_recovered_total',
    help: 'Rows that were lost and made again from the record of their provider',
    labelNames: ['resource'],
    registers,
  }),
  eventsRecovered: new Counter({
    name: 'sluice_notifications_recovered_total',
    help: "Notifications that did not arrive and were read from the processor's list",
    labelNames: ['provider'],
    registers,
  }),
}
