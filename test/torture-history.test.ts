// The torture's check of what clients saw: it accepts what some order explains, and nothing else.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Operation, Call, CallResult, PaymentView, RefundView } from '../torture/history/call.ts'
import { checkHistories, explainCalls, UNEXPLAINED } from '../torture/history/check.ts'

const isExplained = (calls: Call[]) => explainCalls(calls).found

/** A payment of 1000, as it is shown. */
function payment(status: string, more: Partial<PaymentView> = {}): PaymentView {
  const held = ['authorized', 'capturing', 'canceling'].includes(status)
  const captured = status === 'captured' ? 1000 : 0
  return { status, capturable: held ? 1000 : 0, captured, refunded: 0, failed: false, ...more }
}

const CREATE = { op: 'create', key: 'p', amount_minor: 1000 } as const
const CAPTURE = { op: 'capture', key: 'c', amount_minor: null } as const
const CANCEL = { op: 'cancel', key: 'v', amount_minor: null } as const
const REFUND = { op: 'refund', key: 'r', amount_minor: 600 } as const
const READ = { op: 'read' } as const

/** A call that was answered between these times. */
function answered(start: number, end: number, operation: Operation, result: Partial<CallResult> = {}): Call {
  return { operation, start, api: 1, answer: { end, result: { status: 200, replayed: false, ...result } } }
}
const unanswered = (start: number, operation: Operation): Call => ({ operation, start, api: 1, answer: null })
const read = (start: number, end: number, view: PaymentView) => answered(start, end, READ, { payment: view })
const refused = (
  start: number,
  end: number,
  operation: Operation,
  code: string,
  context: Record<string, unknown>,
) => answered(start, end, operation, { status: 409, refusal: { code, context } })

const created = answered(0, 10, CREATE, { status: 201, payment: payment('authorized') })
const captured = answered(20, 30, CAPTURE, { payment: payment('captured') })
const canceled = answered(20, 30, CANCEL, { payment: payment('canceled') })
const refund: RefundView = { key: 'r', status: 'succeeded', amount_minor: 600 }
const refunded = answered(40, 50, REFUND, { status: 201, refund })
const after = (refunded_minor: number) => payment('captured', { refunded: refunded_minor })

const EXPLAINED: Record<string, Call[]> = {
  'one after the other': [
    created,
    read(12, 15, payment('authorized')),
    captured,
    refunded,
    read(60, 70, after(600)),
  ],
  'reads beside a capture, in any order': [
    created,
    captured,
    read(19, 31, payment('captured')),
    read(19, 31, payment('authorized')),
    read(19, 31, payment('capturing')),
  ],
  'a capture that nobody answered, seen long afterwards': [
    created,
    unanswered(20, CAPTURE),
    read(100, 110, payment('authorized')),
    read(200, 210, payment('captured')),
  ],
  'a capture that nobody answered and that never came': [
    created,
    unanswered(20, CAPTURE),
    answered(100, 110, CANCEL, { payment: payment('canceled') }),
  ],
  'a repetition of what nobody answered': [
    created,
    unanswered(20, CAPTURE),
    answered(30, 40, CAPTURE, { payment: payment('captured'), replayed: true }),
  ],
  'a 202, and a capture that failed': [
    created,
    answered(20, 30, CAPTURE, { status: 202, payment: payment('capturing') }),
    read(40, 50, payment('authorized', { failed: true })),
    answered(60, 70, CANCEL, { payment: payment('canceled') }),
    refused(80, 90, CAPTURE, 'payment_declined', { payment_id: 'x' }),
  ],
  'who comes first wins': [
    created,
    captured,
    refused(20, 30, { ...CAPTURE, key: 'c2' }, 'payment_not_capturable', { status: 'capturing' }),
    refused(20, 30, CANCEL, 'payment_not_cancelable', { status: 'captured' }),
  ],
  'two cancellations at once': [created, canceled, { ...canceled, operation: { ...CANCEL, key: 'v2' } }],
  'a cancellation before the authorization is over': [
    answered(0, 10, CREATE, { status: 202, payment: payment('pending') }),
    answered(20, 30, CANCEL, { status: 202, payment: payment('pending') }),
    read(40, 50, payment('canceling')),
    read(60, 70, payment('canceled')),
  ],
  'captured by others while it was canceled here': [
    created,
    unanswered(15, { op: 'external capture', amount_minor: 700 }),
    refused(20, 30, CANCEL, 'payment_not_cancelable', { payment_id: 'x' }),
    read(40, 50, payment('captured', { captured: 700 })),
  ],
  'a refund that failed late': [
    created,
    captured,
    refunded,
    read(55, 56, after(600)),
    unanswered(60, { op: 'external refund settlement', key: 'r', status: 'failed' }),
    answered(70, 80, { op: 'read refund', key: 'r' }, { refund: { ...refund, status: 'failed' } }),
    read(90, 95, after(0)),
  ],
  'a refund of others, in the list': [
    created,
    captured,
    unanswered(40, { op: 'external refund', amount_minor: 100 }),
    answered(
      60,
      70,
      { op: 'list refunds' },
      { refunds: [{ key: null, status: 'pending', amount_minor: 100 }] },
    ),
    read(90, 95, after(100)),
  ],
  'a list of those that it is not one of': [
    created,
    captured,
    answered(40, 50, { op: 'list', status: 'authorized' }, { payments: [] }),
    answered(40, 50, { op: 'list', status: 'captured' }, { payments: [payment('captured')] }),
  ],
}

const REFUSED: Record<string, Call[]> = {
  'a read after an answered capture that does not show it': [
    created,
    captured,
    read(31, 40, payment('authorized')),
  ],
  'a state that goes backwards': [
    created,
    unanswered(20, CAPTURE),
    read(30, 40, payment('capturing')),
    read(41, 50, payment('authorized')),
  ],
  'a state that nobody asked for': [created, read(20, 30, payment('captured'))],
  'a state that never was': [created, read(20, 30, payment('requires_action'))],
  'a capture before anybody asked for it': [created, captured, read(12, 19, payment('capturing'))],
  'a cancellation that was refused although nothing forbade it': [
    created,
    refused(20, 30, CANCEL, 'payment_not_cancelable', { status: 'capturing' }),
    answered(31, 40, CAPTURE, { payment: payment('captured') }),
  ],
  'a capture that was refused although nothing forbade it': [
    created,
    refused(20, 30, CAPTURE, 'payment_not_capturable', { status: 'authorized' }),
  ],
  'two captures, both answered': [
    created,
    captured,
    answered(40, 50, { ...CAPTURE, key: 'c2' }, { payment: payment('captured') }),
  ],
  'a capture of another amount': [
    created,
    answered(20, 30, { ...CAPTURE, amount_minor: 700 }, { payment: payment('captured') }),
  ],
  'a capture and a cancellation, both answered': [created, captured, canceled],
  'a key that was accepted twice': [
    created,
    captured,
    answered(40, 50, CAPTURE, { payment: payment('captured') }),
  ],
  'a repetition of what was never asked': [
    created,
    answered(20, 30, CAPTURE, { payment: payment('captured'), replayed: true }),
  ],
  'a 200 that shows it unfinished': [created, answered(20, 30, CAPTURE, { payment: payment('capturing') })],
  'refunds of more than was captured': [
    created,
    captured,
    refunded,
    answered(60, 70, { ...REFUND, key: 'r2' }, { status: 201, refund: { ...refund, key: 'r2' } }),
  ],
  'a refund that was refused although it fits': [
    created,
    captured,
    refused(40, 50, REFUND, 'refund_exceeds_captured', {
      amount_captured_minor: 1000,
      amount_refunded_minor: 0,
    }),
  ],
  'an answered refund that the payment does not show': [created, captured, refunded, read(51, 60, after(0))],
  'a refunded amount that shrinks': [
    created,
    captured,
    refunded,
    read(51, 60, after(600)),
    read(61, 70, after(0)),
  ],
  'a refund that failed late of itself': [
    created,
    captured,
    refunded,
    answered(70, 80, { op: 'read refund', key: 'r' }, { refund: { ...refund, status: 'failed' } }),
  ],
  'a payment that is not found': [created, refused(20, 30, READ, 'payment_not_found', {})],
  'a list without a refund that was answered': [
    created,
    captured,
    refunded,
    answered(60, 70, { op: 'list refunds' }, { refunds: [] }),
  ],
  'a list that misses it': [
    created,
    captured,
    answered(40, 50, { op: 'list', status: 'captured' }, { payments: [] }),
  ],
  'a list that still has it': [
    created,
    captured,
    answered(40, 50, { op: 'list', status: 'authorized' }, { payments: [payment('authorized')] }),
  ],
  'a cancellation that nobody asked for': [created, read(20, 30, payment('canceled'))],
}

describe('explained', () => {
  test.each(Object.entries(EXPLAINED))('%s', (_, calls) => expect(isExplained(calls)).toBe(true))
})
describe('not explained', () => {
  test.each(Object.entries(REFUSED))('%s', (_, calls) => expect(isExplained(calls)).toBe(false))
})

test('what is not explained is told by the fewest calls', () => {
  const calls = [
    created,
    read(11, 12, payment('authorized')),
    captured,
    read(25, 35, payment('captured')),
    unanswered(30, REFUND),
    read(31, 39, payment('authorized')),
    refunded,
  ]
  const { problems, ...rest } = checkHistories(
    new Map([
      ['p', calls],
      ['other', [created]],
    ]),
  )
  expect(rest).toMatchObject({ payments: 2, calls: 8 })
  expect(problems).toEqual([
    {
      problem: UNEXPLAINED,
      payment: 'p',
      history: [
        expect.stringMatching(/^ +0\.0 \.\. +ms {2}api 1 {2}create of 1000 "p" -> no answer$/),
        expect.stringMatching(/capture "c" -> 200 captured 1000, refunded 0$/),
        expect.stringMatching(/refund of 600 "r" -> no answer$/),
        expect.stringMatching(/read -> 200 authorized capturable 1000$/),
      ],
      before: ['captured 1000, refunded 0', 'captured 1000, refunded 600'],
    },
  ])
})

/** What is done to one payment, one after the other. */
const doings = fc.array(
  fc.oneof(
    fc.record({ op: fc.constantFrom('read', 'list refunds', 'settle') }),
    fc.record({ op: fc.constantFrom('capture', 'cancel'), again: fc.boolean(), lost: fc.boolean() }),
    fc.record({
      op: fc.constant('refund'),
      amount_minor: fc.integer({ min: 100, max: 700 }),
      lost: fc.boolean(),
    }),
  ),
  { minLength: 3, maxLength: 25 },
)
type Doing = { op: string; again?: boolean; lost?: boolean; amount_minor?: number }

/** A payments service that does one thing after the other, and what its clients were answered; each answer takes no time. */
function serially(list: Doing[], { cancels_fail = true } = {}): Call[] {
  let status = 'authorized'
  let failed = false
  let taken = 0
  const refunds: RefundView[] = []
  const keys = new Set<string>()
  const view = () =>
    payment(status, {
      captured: taken,
      refunded: refunds.reduce((sum, each) => sum + (each.status === 'succeeded' ? each.amount_minor : 0), 0),
      failed,
    })
  const calls = [answered(0, 0, CREATE, { status: 201, payment: view() })]
  for (const [index, { op, again, lost, amount_minor = 0 }] of list.entries()) {
    const at = (index + 1) * 10
    const say = (operation: Operation, result: Partial<CallResult>) =>
      calls.push(lost ? unanswered(at, operation) : answered(at, at, operation, result))
    const key = again ? op : `${op} ${index}`
    if (op === 'read') say(READ, { payment: view() })
    if (op === 'list refunds') say({ op }, { refunds: refunds.map((each) => ({ ...each })) })
    if (op === 'settle') {
      if (status === 'capturing') [status, taken] = ['captured', 1000]
      else if (status === 'canceling')
        [status, failed] = cancels_fail && index % 2 ? ['authorized', true] : ['canceled', false]
      for (const each of refunds)
        if (each.status === 'pending') each.status = index % 3 ? 'succeeded' : 'failed'
    }
    if (op === 'capture' || op === 'cancel') {
      const operation: Operation = { op, key, amount_minor: null }
      const joins = op === 'cancel' && status === 'canceling'
      if (keys.has(key)) {
        if (op === 'cancel' && status !== 'canceling') continue
        say(operation, { status: 202, replayed: true, payment: view() })
      } else if (status === 'authorized' || joins) {
        keys.add(key)
        failed = false
        status = op === 'capture' ? 'capturing' : 'canceling'
        say(operation, { status: 202, payment: view() })
      } else
        say(operation, {
          status: 409,
          refusal: {
            code: `payment_not_${op === 'capture' ? 'capturable' : 'cancelable'}`,
            context: { status },
          },
        })
    }
    if (op === 'refund') {
      const operation: Operation = { op, key, amount_minor }
      const reserved = refunds.reduce(
        (sum, each) => sum + (each.status === 'failed' ? 0 : each.amount_minor),
        0,
      )
      if (status !== 'captured') {
        say(operation, { status: 409, refusal: { code: 'payment_not_refundable', context: { status } } })
      } else if (reserved + amount_minor > taken) {
        const { captured: amount_captured_minor, refunded: amount_refunded_minor } = view()
        const context = { amount_captured_minor, amount_refunded_minor }
        say(operation, { status: 422, refusal: { code: 'refund_exceeds_captured', context } })
      } else {
        refunds.push({ key, status: 'pending', amount_minor })
        say(operation, { status: 202, refund: { ...refunds.at(-1)! } })
      }
    }
  }
  return calls
}

/** As clients see it: each call begins a little earlier and is answered a little later, so that they overlap. */
function stretched(calls: Call[], by: number[]): Call[] {
  return calls.map((call, nth) => ({
    ...call,
    start: call.start - by[(2 * nth) % by.length]!,
    answer: call.answer && { ...call.answer, end: call.answer.end + by[(2 * nth + 1) % by.length]! },
  }))
}

const stretches = fc.array(fc.nat(45), { minLength: 7, maxLength: 11 })

test('what was done one after the other is explained, however the calls overlap', () => {
  fc.assert(
    fc.property(doings, stretches, (list, by) => {
      expect(isExplained(stretched(serially(list), by))).toBe(true)
    }),
    { numRuns: 500 },
  )
})

test('the same with the answers of two reads exchanged is not', () => {
  let exchanged = 0
  fc.assert(
    fc.property(doings, stretches, (list, by) => {
      // Nothing of what makes reads differ may come back.
      const calls = stretched(serially(list, { cancels_fail: false }), by)
      const reads = calls.filter(({ operation, answer }) => operation.op === 'read' && answer !== null)
      const words = ({ answer }: Call) => JSON.stringify(answer!.result)
      for (const earlier of reads) {
        const later = reads.find((each) => each.start > earlier.answer!.end && words(each) !== words(earlier))
        if (later === undefined) continue
        exchanged++
        const [first, second] = [earlier.answer!, later.answer!]
        const wrong = calls.map((call) => {
          if (call === earlier) return { ...call, answer: { ...first, result: second.result } }
          return call === later ? { ...call, answer: { ...second, result: first.result } } : call
        })
        expect(isExplained(wrong)).toBe(false)
        return
      }
    }),
    { numRuns: 1000 },
  )
  expect(exchanged).toBeGreaterThan(50)
})
