// The registry of what settles a row as failed, for operators. A noun with provider calls does not compile without.
import type { Tx } from '#core/db.ts'
import type { CallingNoun } from '#jobs/index.ts'
import type { FailedRow, Settlement } from '../jobs/settle.ts'
import { settleAiTaskAsFailed } from '../ai-tasks/settle.ts'
import { settleMessageAsFailed } from '../messages/settle.ts'
import { settlePaymentAsFailed } from '../payments/settle.ts'
import { settlePayoutAsFailed } from '../payouts/settle.ts'
import { settleRefundAsFailed } from '../refunds/settle.ts'
import type { Noun } from '../subjects.ts'
import { settleTopUpAsFailed } from '../top-ups/settle.ts'
import { settleVerificationAsFailed } from '../verifications/settle.ts'

/** Settles a row whose call never took effect, and its job, as after a definitive failure. */
type SettleAsFailed = (tx: Tx, settlement: Settlement, of: FailedRow) => Promise<unknown>

const SETTLING: Record<CallingNoun, SettleAsFailed> = {
  kyc: settleVerificationAsFailed,
  payment: settlePaymentAsFailed,
  payout: settlePayoutAsFailed,
  refund: settleRefundAsFailed,
  top_up: settleTopUpAsFailed,
  ai_task: settleAiTaskAsFailed,
  message: settleMessageAsFailed,
}
const byNoun = new Map<string, SettleAsFailed>(Object.entries(SETTLING))

/** Undefined for a noun without provider calls. */
export function settlingAsFailed(noun: Noun): SettleAsFailed | undefined {
  return byNoun.get(noun)
}
