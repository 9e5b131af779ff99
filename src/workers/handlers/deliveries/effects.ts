// The step that settles an attempt at a delivery.
import { metrics } from '#core/metrics.ts'
import { settleDeliveries, type DeliveryChange } from '#domain/deliveries/settle.ts'
import { addLogFacts, isTestAttempt } from '../../job-log.ts'
import { onceWritten, createSettlingStep, type Effects } from '../../settle.ts'

/** Attempts at one delivery never share a statement, because a statement writes each row once. */
const DELIVERY = createSettlingStep<{ change: DeliveryChange }>(
  'settle_delivery',
  settleDeliveries,
  ({ change }) => change.delivery_id,
)

/** Settles an attempt, and counts it in the metrics after it is written. */
export function deliveryEffects(change: DeliveryChange): Effects {
  const { result, attempt } = change
  return onceWritten(DELIVERY({ change }), () => {
    if (!isTestAttempt()) metrics.deliveryAttempts.inc({ result })
    addLogFacts({ status_code: attempt?.status_code ?? null, result })
  })
}
