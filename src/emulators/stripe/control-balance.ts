// The controls of payouts, transfers, top-ups and disputes: what banks decide, and what somebody reverses.
import { BANK, DASHBOARD } from '../shared/call.ts'
import { textOf } from '../shared/controls.ts'
import { asParams, statusOf, type StripeControl } from './control-parts.ts'
import { closeDispute, DISPUTE_ENDS, findDispute } from './disputes.ts'
import { findPayout, PAYOUT_ENDS, settlePayout } from './payouts.ts'
import { render } from './render.ts'
import { findTopup, settleTopup, TOPUP_ENDS } from './topups.ts'
import { findTransfer, reverseTransfer } from './transfers.ts'

export const BALANCE_CONTROLS: Record<string, StripeControl> = {
  'POST payouts/:id/settle': (emulator, id, body) => {
    const status = statusOf(body, PAYOUT_ENDS)
    const payout = findPayout(emulator, id)
    return render(settlePayout(emulator, BANK, payout, status, textOf(body, 'failure_code')), emulator.url)
  },
  'POST topups/:id/settle': (emulator, id, body) => {
    const status = statusOf(body, TOPUP_ENDS)
    return render(settleTopup(emulator, BANK, findTopup(emulator, id), status), emulator.url)
  },
  'POST disputes/:id/close': (emulator, id, body) => {
    const status = statusOf(body, DISPUTE_ENDS)
    return render(closeDispute(emulator, BANK, findDispute(emulator, id), status), emulator.url)
  },
  'POST transfers/:id/reverse': (emulator, id, body) =>
    render(reverseTransfer(emulator, DASHBOARD, findTransfer(emulator, id), asParams(body)), emulator.url),
}
