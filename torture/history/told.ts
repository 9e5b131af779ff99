// A history as people read it: one line a call, in the order in which they began.
import type { Asked, Call, Said, Shown, ShownRefund } from './call.ts'

/** Lines with times in ms from the first start. */
export function told(calls: Call[]): string[] {
  const began = Math.min(...calls.map(({ start }) => start))
  return calls.map(({ asked, start, api, answer }) => {
    const at = (ms: number) => (ms - began).toFixed(1).padStart(9)
    const times = `${at(start)} ..${answer === null ? ''.padStart(9) : at(answer.end)} ms`
    return `${times}  ${api === 0 ? 'outside' : `api ${api}`}  ${request(asked)} -> ${answer === null ? 'any answer, or none' : reply(answer.said)}`
  })
}

function request(asked: Asked): string {
  const { op } = asked
  const amount = 'amount_minor' in asked && asked.amount_minor !== null ? ` of ${asked.amount_minor}` : ''
  const key = 'key' in asked ? ` "${asked.key}"` : ''
  return `${op}${amount}${key}${'status' in asked ? ` ${asked.status}` : ''}`
}

function reply({ status, replayed, payment, payments, refund, refunds, refusal }: Said): string {
  const facts = refusal && `${refusal.code} ${JSON.stringify(refusal.facts)}`
  const shown = [
    payment && [inShort(payment)],
    payments?.map(inShort),
    refund && [refundInShort(refund)],
    refunds?.map(refundInShort),
    facts && [facts],
  ]
  const words = shown.flatMap((each) => each ?? []).join('; ')
  return `${status}${replayed ? ' replayed' : ''} ${words === '' ? 'nothing' : words}`
}

function inShort({ status, capturable, captured, refunded, failed }: Shown): string {
  const amounts = status === 'captured' ? `${captured}, refunded ${refunded}` : `holding ${capturable}`
  return `${status} ${amounts}${failed ? ', with a failure' : ''}`
}

function refundInShort({ key, status, amount_minor }: ShownRefund): string {
  return `refund ${key === null ? 'of others' : `"${key}"`} ${status} ${amount_minor}`
}
