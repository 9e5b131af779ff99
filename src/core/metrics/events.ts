// Metrics of events out and their deliveries.
import { Counter, Gauge } from 'prom-client'
import { SAME_IN_WORKERS, registers } from './registry.ts'

export const eventsMetrics = {
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
  oldestUnsequenced: new Gauge({
    name: 'sluice_oldest_unsequenced_event_seconds',
    help: `Age of the oldest event without a sequence; 0 without any. ${SAME_IN_WORKERS}`,
    registers,
  }),
  deliveriesLate: new Gauge({
    name: 'sluice_deliveries_late',
    help: `Deliveries that have been due for more than a minute and whose attempt has not begun; counted up to 10,000. ${SAME_IN_WORKERS}`,
    registers,
  }),
  oldestDueDelivery: new Gauge({
    name: 'sluice_oldest_due_delivery_seconds',
    help: `How long the oldest delivery has been due whose attempt has not begun; 0 without any. ${SAME_IN_WORKERS}`,
    registers,
  }),
}
