// The section of the emulator's page that lists disputes.
import { formatMoney } from '#providers/sandbox/stripe/currencies.ts'
import type { Store } from '#providers/sandbox/stripe/store.ts'
import type { Dispute } from '#providers/sandbox/stripe/versions.ts'
import { section, type Cell } from '../shared/html.ts'
import { buttons, latest, time, type StatusButton } from './page-parts.ts'

export function disputeSection({ disputes }: Store): string {
  return section(
    'Disputes',
    ['id', 'status', 'the bank decides', 'amount', 'reason', 'payment intent', 'created'],
    latest(disputes).map(disputeRow),
  )
}

const DECIDED: StatusButton[] = [
  ['won', 'We win'],
  ['lost', 'We lose'],
]
const NEXT_STATUSES: Partial<Record<Dispute['status'], StatusButton[]>> = {
  needs_response: DECIDED,
  under_review: DECIDED,
  lost: [['won', 'We win after all']],
  warning_needs_response: [['warning_closed', 'Closed']],
  warning_under_review: [['warning_closed', 'Closed']],
}

function disputeRow({ id, status, amount, currency, reason, payment_intent, created }: Dispute): Cell[] {
  const decisions = buttons('close_dispute', id, NEXT_STATUSES[status])
  return [id, status, decisions, formatMoney(amount, currency), reason, payment_intent, time(created)]
}
