// The controls of payouts, transfers, top-ups and disputes: decisions of banks, and reversals.
import { BANK_CALL, DASHBOARD_CALL } from '#providers/sandbox/stripe/call.ts'
import { closeDispute, DISPUTE_FINAL_STATUSES, findDispute } from '#providers/sandbox/stripe/disputes.ts'
import { findPayout, PAYOUT_FINAL_STATUSES, settlePayout } from '#providers/sandbox/stripe/payouts.ts'
import { render } from '#providers/sandbox/stripe/render.ts'
import { findTopup, settleTopup, TOPUP_FINAL_STATUSES } from '#providers/sandbox/stripe/topups.ts'
import { findTransfer, reverseTransfer } from '#providers/sandbox/stripe/transfers.ts'
import { textOf } from '../shared/controls.ts'
import { asParams, statusOf, type StripeControl } from './control-parts.ts'

export const BALANCE_CONTROLS: Record<string, StripeControl> = {
  'POST payouts/:id/settle': ({ engine }, id, body) => {
    const status = statusOf(body, PAYOUT_FINAL_STATUSES)
    const payout = findPayout(engine, id)
    return render(
      settlePayout(engine, BANK_CALL, payout, status, textOf(body, 'failure_code')),
      engine.pages_url,
    )
  },
  'POST topups/:id/settle': ({ engine }, id, body) => {
    const status = statusOf(body, TOPUP_FINAL_STATUSES)
    return render(settleTopup(engine, BANK_CALL, findTopup(engine, id), status), engine.pages_url)
  },
  'POST disputes/:id/close': ({ engine }, id, body) => {
    const status = statusOf(body, DISPUTE_FINAL_STATUSES)
    return render(closeDispute(engine, BANK_CALL, findDispute(engine, id), status), engine.pages_url)
  },
  'POST transfers/:id/reverse': ({ engine }, id, body) =>
    render(
      reverseTransfer(engine, DASHBOARD_CALL, findTransfer(engine, id), asParams(body)),
      engine.pages_url,
    ),
}
