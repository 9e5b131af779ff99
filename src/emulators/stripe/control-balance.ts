// The controls of payouts, transfers, top-ups and disputes: decisions of banks, and reversals.
import { BANK_CALL, DASHBOARD_CALL } from '../shared/call.ts'
import { textOf } from '../shared/controls.ts'
import { asParams, statusOf, type StripeControl } from './control-parts.ts'
import { closeDispute, DISPUTE_FINAL_STATUSES, findDispute } from './disputes.ts'
import { findPayout, PAYOUT_FINAL_STATUSES, settlePayout } from './payouts.ts'
import { render } from './render.ts'
import { findTopup, settleTopup, TOPUP_FINAL_STATUSES } from './topups.ts'
import { findTransfer, reverseTransfer } from './transfers.ts'

export const BALANCE_CONTROLS: Record<string, StripeControl> = {
  'POST payouts/:id/settle': (emulator, id, body) => {
    const status = statusOf(body, PAYOUT_FINAL_STATUSES)
    const payout = findPayout(emulator, id)
    return render(
      settlePayout(emulator, BANK_CALL, payout, status, textOf(body, 'failure_code')),
      emulator.url,
    )
  },
  'POST topups/:id/settle': (emulator, id, body) => {
    const status = statusOf(body, TOPUP_FINAL_STATUSES)
    return render(settleTopup(emulator, BANK_CALL, findTopup(emulator, id), status), emulator.url)
  },
  'POST disputes/:id/close': (emulator, id, body) => {
    const status = statusOf(body, DISPUTE_FINAL_STATUSES)
    return render(closeDispute(emulator, BANK_CALL, findDispute(emulator, id), status), emulator.url)
  },
  'POST transfers/:id/reverse': (emulator, id, body) =>
    render(
      reverseTransfer(emulator, DASHBOARD_CALL, findTransfer(emulator, id), asParams(body)),
      emulator.url,
    ),
}
