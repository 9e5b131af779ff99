// Prints a history: one line per call, in the order of their starts.
import type { Operation, Call, CallResult, PaymentView, RefundView } from './call.ts'

/** Lines with times in milliseconds since the first start. */
export function historyLines(calls: Call[]): string[] {
  const started_at = Math.min(...calls.map(({ start }) => start))
  return calls.map(({ operation, start, api, answer }) => {
    const at = (ms: number) => (ms - started_at).toFixed(1).padStart(9)
    const times = `${at(start)} ..${answer === null ? ''.padStart(9) : at(answer.end)} ms`
    return `${times}  ${api === 0 ? 'processor' : `api ${api}`}  ${request(operation)} -> ${answer === null ? 'no answer' : reply(answer.result)}`
  })
}

function request(operation: Operation): string {
  const { op } = operation
  const amount =
    'amount_minor' in operation && operation.amount_minor !== null ? ` of ${operation.amount_minor}` : ''
  const key = 'key' in operation ? ` "${operation.key}"` : ''
  return `${op}${amount}${key}${'status' in operation ? ` ${operation.status}` : ''}`
}

function reply({ status, replayed, payment, payments, refund, refunds, refusal }: CallResult): string {
  const context = refusal && `${refusal.code} ${JSON.stringify(refusal.context)}`
  const view = [
    payment && [paymentText(payment)],
    payments?.map(paymentText),
    refund && [refundText(refund)],
    refunds?.map(refundText),
    context && [context],
  ]
  const details = view.flatMap((each) => each ?? []).join('; ')
  return `${status}${replayed ? ' replayed' : ''} ${details === '' ? 'nothing' : details}`
}

function paymentText({ status, capturable, captured, refunded, failed }: PaymentView): string {
  const amounts = status === 'captured' ? `${captured}, refunded ${refunded}` : `capturable ${capturable}`
  return `${status} ${amounts}${failed ? ', with a failure' : ''}`
}

function refundText({ key, status, amount_minor }: RefundView): string {
  return `refund ${key === null ? 'at the processor' : `"${key}"`} ${status} ${amount_minor}`
}
