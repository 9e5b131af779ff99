// The registry of the functions that settle a row as failed, for operators. A resource with provider calls does not
// compile without such a function.
import type { Tx } from '#core/db.ts'
import type { CallingResource } from '#jobs/index.ts'
import type { FailedRow, Settlement } from '../jobs/settle.ts'
import { settleAiTaskAsFailed } from '../ai-tasks/settle.ts'
import { settleMessageAsFailed } from '../messages/settle.ts'
import { settlePaymentAsFailed } from '../payments/settle.ts'
import { settlePayoutAsFailed } from '../payouts/settle.ts'
import { settleRefundAsFailed } from '../refunds/settle.ts'
import type { ResourceName } from '../resources.ts'
import { settleTopUpAsFailed } from '../top-ups/settle.ts'
import { settleVerificationAsFailed } from '../verifications/settle.ts'

/** Settles a row whose call did not take effect, and its job, as after a definitive failure. */
type SettleAsFailed = (tx: Tx, settlement: Settlement, of: FailedRow) => Promise<unknown>

const SETTLERS: Record<CallingResource, SettleAsFailed> = {
  kyc: settleVerificationAsFailed,
  payment: settlePaymentAsFailed,
  payout: settlePayoutAsFailed,
  refund: settleRefundAsFailed,
  top_up: settleTopUpAsFailed,
  ai_task: settleAiTaskAsFailed,
  message: settleMessageAsFailed,
}
const byResource = new Map<string, SettleAsFailed>(Object.entries(SETTLERS))

/** The function that settles a row of this resource as failed; undefined for a resource without provider calls. */
export function settleAsFailedOf(resource: ResourceName): SettleAsFailed | undefined {
  return byResource.get(resource)
}
