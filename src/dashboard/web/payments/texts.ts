// Texts of the timeline and the outlook of a payment.
import type { Payment, Refund } from '#sdk/index.ts'
import { formatMoney } from '../kit/amounts.ts'
import { humanize } from '../kit/statuses.ts'
import type { PaymentTimelineData } from './timeline.ts'

/**
 * Whether the buyer's bank has the money because of a dispute. Then the processor refuses refunds. An inquiry takes no
 * money.
 */
export function bankHasMoney({ dispute }: Payment): boolean {
  return dispute !== null && dispute.status !== 'won' && dispute.status !== 'warning'
}

/** The amount that can still be refunded, in minor units. Pending refunds count as refunded. */
export const refundableMinor = (payment: Payment): number =>
  payment.amount_captured_minor - payment.amount_refunded_minor - payment.amount_refund_pending_minor

/** The refunds of a payment as text: the refunded and the pending amount, and the amount that stays captured. */
export function refundsText(payment: Payment): string {
  const { amount_captured_minor: captured, amount_refunded_minor: refunded } = payment
  const { amount_refund_pending_minor: pending } = payment
  const money = (minor: number) => formatMoney(minor, payment.currency)
  if (refunded + pending === 0)
    return bankHasMoney(payment)
      ? 'The bank has the money, so it cannot be refunded.'
      : 'It can be refunded in full or in part.'
  if (refunded === captured) return 'It was refunded in full.'
  const back = [
    ...(refunded > 0 ? [`${money(refunded)} was refunded`] : []),
    ...(pending > 0 ? [`${money(pending)} is being refunded`] : []),
  ]
  return `${back.join(', ')}; ${money(refundableMinor(payment))} stays captured.`
}

/** Whether the buyer had to act before the authorization. */
export const neededBuyerAction = ({ entries }: Pick<PaymentTimelineData, 'entries'>): boolean =>
  entries.some(({ kind, name }) => kind === 'event' && name === 'payment.requires_action')

/** The buyer's next step, as far as the processor reported it. */
export function buyerActionText(
  { failure }: Payment,
  timeline: Pick<PaymentTimelineData, 'entries'> | undefined,
): string {
  const last = timeline?.entries.findLast(
    ({ kind, name }) => kind === 'notification' && /\.(?:requires_action|payment_failed)$/.test(name),
  )
  if (last?.name.endsWith('requires_action')) return 'The buyer has to confirm the payment with the bank.'
  if (failure !== null)
    return `The last attempt failed: ${failure.message} The buyer has to try again, with this card or another.`
  return 'The buyer has to enter a card and, if the bank asks, confirm the payment.'
}

/** The texts of a job. `{}` is the amount. */
type JobTexts = { done: string; to_do: string; doing: string; requested: string; resource: string }

const JOBS: Record<string, JobTexts> = {
  'payment.authorize': {
    done: 'Authorized {}',
    to_do: 'authorize {}',
    doing: 'Authorizing {}',
    requested: 'Payment of {} requested',
    resource: 'authorization',
  },
  'payment.capture': {
    done: 'Captured {}',
    to_do: 'capture {}',
    doing: 'Capturing {}',
    requested: 'Capture of {} requested',
    resource: 'capture',
  },
  'payment.cancel': {
    done: 'Released the hold of {}',
    to_do: 'release the hold of {}',
    doing: 'Releasing the hold of {}',
    requested: 'Cancellation requested',
    resource: 'cancellation',
  },
  'payment.cancel_duplicate': {
    done: 'Released a second hold of {}',
    to_do: 'release a second hold of {}',
    doing: 'Releasing a second hold of {}',
    requested: 'Release of a second hold requested',
    resource: 'release of a second hold',
  },
  'refund.create': {
    done: 'Refunded {}',
    to_do: 'refund {}',
    doing: 'Refunding {}',
    requested: 'Refund of {} requested',
    resource: 'refund',
  },
}

/** The text of a job in the form `kind`. */
export function jobText(name: string, kind: keyof JobTexts, amount: string): string {
  const template = JOBS[name]?.[kind]
  if (template === undefined) return humanize(name)
  return amount === '' ? template.replace(/( of)? {}/, '') : template.replace('{}', amount)
}

/** The amount that a job moves, as text. Empty: unknown. */
export function amountOfJob(
  payment: Payment,
  { refunds, entries }: Pick<PaymentTimelineData, 'refunds' | 'entries'>,
  { name, refund_id }: { name: string; refund_id: string | null },
): string {
  if (name === 'refund.create') {
    const refund = refunds.find(({ id }) => id === refund_id)
    return refund === undefined ? '' : moneyOf(refund)
  }
  if (name === 'payment.capture') {
    const posting = entries.find((entry) => entry.kind === 'posting' && entry.name === 'capture')
    const minor = posting?.details['amount_minor']
    return typeof minor === 'number' ? formatMoney(minor, payment.currency) : ''
  }
  return moneyOf(payment)
}

export const moneyOf = ({ amount_minor, currency }: Pick<Refund, 'amount_minor' | 'currency'>) =>
  formatMoney(amount_minor, currency)

/** The display name of a processor. */
export const processorName = (processor: string) => humanize(processor)

/** Texts of payment events by type. */
export const EVENT_TEXTS: Record<string, string> = {
  'payment.created': 'Payment requested',
  'payment.requires_action': 'The buyer has to act',
  'payment.authorized': 'The money is on hold',
  'payment.authorization_failed': 'An attempt by the buyer failed',
  'payment.capture_expiring': 'The hold lapses within a day',
  'payment.captured': 'The money was captured',
  'payment.capture_failed': 'The capture failed; the hold remains',
  'payment.canceled': 'The payment is canceled',
  'payment.cancel_failed': 'The cancellation failed; the hold remains',
  'payment.failed': 'The payment failed',
  'payment.disputed': "The buyer's bank disputes the payment",
  'payment.dispute_won': 'The dispute was won',
  'payment.dispute_lost': 'The dispute was lost',
  'payment.dispute_closed': 'The dispute was closed',
  'refund.created': 'Refund requested',
  'refund.succeeded': 'The refund succeeded',
  'refund.failed': 'The refund failed; the money stays',
}

/** Events that are major entries. Other events are minor: another entry already shows what happened. */
export const MAJOR_EVENTS = new Set([
  'payment.created',
  'payment.requires_action',
  'payment.authorization_failed',
  'payment.capture_expiring',
  'payment.disputed',
  'payment.dispute_won',
  'payment.dispute_lost',
  'payment.dispute_closed',
  'refund.created',
  'refund.failed',
])

/** The effect of a posting on the balance. */
export function postingText(kind: string, credit_account: unknown, amount: string): string {
  const what = POSTINGS[kind] ?? humanize(kind).toLowerCase()
  return credit_account === 'available'
    ? `${amount} added to the balance: ${what}`
    : `${amount} taken from the balance: ${what}`
}

const POSTINGS: Record<string, string> = {
  capture: 'the capture',
  refund: 'the refund',
  refund_failed: 'the refund that failed',
  dispute_withdrawn: 'the dispute',
  dispute_reinstated: 'the dispute that ended',
  payout_paid: 'the payout',
  payout_returned: 'the payout that was returned',
  top_up: 'the top-up',
  top_up_reversed: 'the top-up that was reversed',
}
