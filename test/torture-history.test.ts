// The torture's check of client histories: the check accepts exactly the histories that some order of the calls
// explains.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Operation, Call, CallResult, PaymentView, RefundView } from '../torture/history/call.ts'
import { checkHistories, explainCalls, UNEXPLAINED } from '../torture/history/check.ts'

const isExplained = (calls: Call[]) => explainCalls(calls).found

/** The client's view of a payment of 1000. */
function payment(status: string, fields: Partial<PaymentView> = {}): PaymentView {
  const authorized = ['authorized', 'capturing', 'canceling'].includes(status)
  const captured = status === 'captured' ? 1000 : 0
  return { status, capturable: authorized ? 1000 : 0, captured, refunded: 0, failed: false, ...fields }
}

const CREATE = { op: 'create', key: 'p', amount_minor: 1000 } as const
const CAPTURE = { op: 'capture', key: 'c', amount_minor: null } as const
const CANCEL = { op: 'cancel', key: 'v', amount_minor: null } as const
const REFUND = { op: 'refund', key: 'r', amount_minor: 600 } as const
const READ = { op: 'read' } as const

/** A call that begins and is answered at these times. */
function answeredCall(
  start: number,
  end: number,
  operation: Operation,
  result: Partial<CallResult> = {},
): Call {
  return { operation, start, api: 1, answer: { end, result: { status: 200, replayed: false, ...result } } }
}
const unansweredCall = (start: number, operation: Operation): Call => ({
  operation,
  start,
  api: 1,
  answer: null,
})
const readCall = (start: number, end: number, view: PaymentView) =>
  answeredCall(start, end, READ, { payment: view })
const refusedCall = (
  start: number,
  end: number,
  operation: Operation,
  code: string,
  context: Record<string, unknown>,
) => answeredCall(start, end, operation, { status: 409, refusal: { code, context } })

const created = answeredCall(0, 10, CREATE, { status: 201, payment: payment('authorized') })
const captured = answeredCall(20, 30, CAPTURE, { payment: payment('captured') })
const canceled = answeredCall(20, 30, CANCEL, { payment: payment('canceled') })
const refund: RefundView = { key: 'r', status: 'succeeded', amount_minor: 600 }
const refunded = answeredCall(40, 50, REFUND, { status: 201, refund })
const capturedView = (refunded_minor: number) => payment('captured', { refunded: refunded_minor })

const EXPLAINED: Record<string, Call[]> = {
  'sequential calls': [
    created,
    readCall(12, 15, payment('authorized')),
    captured,
    refunded,
    readCall(60, 70, capturedView(600)),
  ],
  'reads during a capture, in any order': [
    created,
    captured,
    readCall(19, 31, payment('captured')),
    readCall(19, 31, payment('authorized')),
    readCall(19, 31, payment('capturing')),
  ],
  'an unanswered capture with a late effect': [
    created,
    unansweredCall(20, CAPTURE),
    readCall(100, 110, payment('authorized')),
    readCall(200, 210, payment('captured')),
  ],
  'an unanswered capture without an effect': [
    created,
    unansweredCall(20, CAPTURE),
    answeredCall(100, 110, CANCEL, { payment: payment('canceled') }),
  ],
  'a repetition of an unanswered capture': [
    created,
    unansweredCall(20, CAPTURE),
    answeredCall(30, 40, CAPTURE, { payment: payment('captured'), replayed: true }),
  ],
  'a 202 and a failed capture': [
    created,
    answeredCall(20, 30, CAPTURE, { status: 202, payment: payment('capturing') }),
    readCall(40, 50, payment('authorized', { failed: true })),
    answeredCall(60, 70, CANCEL, { payment: payment('canceled') }),
    refusedCall(80, 90, CAPTURE, 'payment_declined', { payment_id: 'x' }),
  ],
  'the first of several concurrent calls succeeds': [
    created,
    captured,
    refusedCall(20, 30, { ...CAPTURE, key: 'c2' }, 'payment_not_capturable', { status: 'capturing' }),
    refusedCall(20, 30, CANCEL, 'payment_not_cancelable', { status: 'captured' }),
  ],
  'two concurrent cancellations': [created, canceled, { ...canceled, operation: { ...CANCEL, key: 'v2' } }],
  'a cancellation before the authorization is final': [
    answeredCall(0, 10, CREATE, { status: 202, payment: payment('pending') }),
    answeredCall(20, 30, CANCEL, { status: 202, payment: payment('pending') }),
    readCall(40, 50, payment('canceling')),
    readCall(60, 70, payment('canceled')),
  ],
  'an external capture during a cancellation': [
    created,
    unansweredCall(15, { op: 'external capture', amount_minor: 700 }),
    refusedCall(20, 30, CANCEL, 'payment_not_cancelable', { payment_id: 'x' }),
    readCall(40, 50, payment('captured', { captured: 700 })),
  ],
  'a late failure of a refund': [
    created,
    captured,
    refunded,
    readCall(55, 56, capturedView(600)),
    unansweredCall(60, { op: 'external refund settlement', key: 'r', status: 'failed' }),
    answeredCall(70, 80, { op: 'read refund', key: 'r' }, { refund: { ...refund, status: 'failed' } }),
    readCall(90, 95, capturedView(0)),
  ],
  'an external refund in the list': [
    created,
    captured,
    unansweredCall(40, { op: 'external refund', amount_minor: 100 }),
    answeredCall(
      60,
      70,
      { op: 'list refunds' },
      { refunds: [{ key: null, status: 'pending', amount_minor: 100 }] },
    ),
    readCall(90, 95, capturedView(100)),
  ],
  'a list with a status that the payment does not have': [
    created,
    captured,
    answeredCall(40, 50, { op: 'list', status: 'authorized' }, { payments: [] }),
    answeredCall(40, 50, { op: 'list', status: 'captured' }, { payments: [payment('captured')] }),
  ],
}

const UNEXPLAINABLE: Record<string, Call[]> = {
  'a read that does not show an answered capture': [
    created,
    captured,
    readCall(31, 40, payment('authorized')),
  ],
  'a state that goes backwards': [
    created,
    unansweredCall(20, CAPTURE),
    readCall(30, 40, payment('capturing')),
    readCall(41, 50, payment('authorized')),
  ],
  'a captured state without a request': [created, readCall(20, 30, payment('captured'))],
  'an impossible state': [created, readCall(20, 30, payment('requires_action'))],
  'a capture before its request': [created, captured, readCall(12, 19, payment('capturing'))],
  'a refused cancellation without a conflict': [
    created,
    refusedCall(20, 30, CANCEL, 'payment_not_cancelable', { status: 'capturing' }),
    answeredCall(31, 40, CAPTURE, { payment: payment('captured') }),
  ],
  'a refused capture without a conflict': [
    created,
    refusedCall(20, 30, CAPTURE, 'payment_not_capturable', { status: 'authorized' }),
  ],
  'two answered captures': [
    created,
    captured,
    answeredCall(40, 50, { ...CAPTURE, key: 'c2' }, { payment: payment('captured') }),
  ],
  'a capture of another amount': [
    created,
    answeredCall(20, 30, { ...CAPTURE, amount_minor: 700 }, { payment: payment('captured') }),
  ],
  'an answered capture and an answered cancellation': [created, captured, canceled],
  'a key that was accepted twice': [
    created,
    captured,
    answeredCall(40, 50, CAPTURE, { payment: payment('captured') }),
  ],
  'a repetition without a first request': [
    created,
    answeredCall(20, 30, CAPTURE, { payment: payment('captured'), replayed: true }),
  ],
  'a 200 with an unfinished capture': [
    created,
    answeredCall(20, 30, CAPTURE, { payment: payment('capturing') }),
  ],
  'refunds above the captured amount': [
    created,
    captured,
    refunded,
    answeredCall(60, 70, { ...REFUND, key: 'r2' }, { status: 201, refund: { ...refund, key: 'r2' } }),
  ],
  'a refused refund within the captured amount': [
    created,
    captured,
    refusedCall(40, 50, REFUND, 'refund_exceeds_captured', {
      amount_captured_minor: 1000,
      amount_refunded_minor: 0,
    }),
  ],
  'an answered refund that the payment does not show': [
    created,
    captured,
    refunded,
    readCall(51, 60, capturedView(0)),
  ],
  'a refunded amount that shrinks': [
    created,
    captured,
    refunded,
    readCall(51, 60, capturedView(600)),
    readCall(61, 70, capturedView(0)),
  ],
  'a late failure of a refund without a cause': [
    created,
    captured,
    refunded,
    answeredCall(70, 80, { op: 'read refund', key: 'r' }, { refund: { ...refund, status: 'failed' } }),
  ],
  'a payment that is not found': [created, refusedCall(20, 30, READ, 'payment_not_found', {})],
  'a list without a refund that was answered': [
    created,
    captured,
    refunded,
    answeredCall(60, 70, { op: 'list refunds' }, { refunds: [] }),
  ],
  'a list without the payment': [
    created,
    captured,
    answeredCall(40, 50, { op: 'list', status: 'captured' }, { payments: [] }),
  ],
  'a list with an outdated status of the payment': [
    created,
    captured,
    answeredCall(40, 50, { op: 'list', status: 'authorized' }, { payments: [payment('authorized')] }),
  ],
  'a canceled state without a request': [created, readCall(20, 30, payment('canceled'))],
}

describe('a history is explained', () => {
  test.each(Object.entries(EXPLAINED))('%s', (_, calls) => expect(isExplained(calls)).toBe(true))
})
describe('a history is not explained', () => {
  test.each(Object.entries(UNEXPLAINABLE))('%s', (_, calls) => expect(isExplained(calls)).toBe(false))
})

test('the report of an unexplained history contains as few calls as possible', () => {
  const calls = [
    created,
    readCall(11, 12, payment('authorized')),
    captured,
    readCall(25, 35, payment('captured')),
    unansweredCall(30, REFUND),
    readCall(31, 39, payment('authorized')),
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

/** Sequential operations on one payment. */
const operation_lists = fc.array(
  fc.oneof(
    fc.record({ op: fc.constantFrom('read', 'list refunds', 'settle') }),
    fc.record({ op: fc.constantFrom('capture', 'cancel'), reuses_key: fc.boolean(), lost: fc.boolean() }),
    fc.record({
      op: fc.constant('refund'),
      amount_minor: fc.integer({ min: 100, max: 700 }),
      lost: fc.boolean(),
    }),
  ),
  { minLength: 3, maxLength: 25 },
)
type GeneratedOperation = { op: string; reuses_key?: boolean; lost?: boolean; amount_minor?: number }

/**
 * Simulates a payments service that performs one call after the other. Returns the calls of its clients; each response
 * takes no time.
 */
function simulateSerially(list: GeneratedOperation[], { cancels_fail = true } = {}): Call[] {
  let status = 'authorized'
  let failed = false
  let captured_minor = 0
  const refunds: RefundView[] = []
  const keys = new Set<string>()
  const view = () =>
    payment(status, {
      captured: captured_minor,
      refunded: refunds.reduce((sum, each) => sum + (each.status === 'succeeded' ? each.amount_minor : 0), 0),
      failed,
    })
  const calls = [answeredCall(0, 0, CREATE, { status: 201, payment: view() })]
  for (const [index, { op, reuses_key, lost, amount_minor = 0 }] of list.entries()) {
    const at = (index + 1) * 10
    const addCall = (operation: Operation, result: Partial<CallResult>) =>
      calls.push(lost ? unansweredCall(at, operation) : answeredCall(at, at, operation, result))
    const key = reuses_key ? op : `${op} ${index}`
    if (op === 'read') addCall(READ, { payment: view() })
    if (op === 'list refunds') addCall({ op }, { refunds: refunds.map((each) => ({ ...each })) })
    if (op === 'settle') {
      if (status === 'capturing') [status, captured_minor] = ['captured', 1000]
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
        addCall(operation, { status: 202, replayed: true, payment: view() })
      } else if (status === 'authorized' || joins) {
        keys.add(key)
        failed = false
        status = op === 'capture' ? 'capturing' : 'canceling'
        addCall(operation, { status: 202, payment: view() })
      } else
        addCall(operation, {
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
        addCall(operation, { status: 409, refusal: { code: 'payment_not_refundable', context: { status } } })
      } else if (reserved + amount_minor > captured_minor) {
        const { captured: amount_captured_minor, refunded: amount_refunded_minor } = view()
        const context = { amount_captured_minor, amount_refunded_minor }
        addCall(operation, { status: 422, refusal: { code: 'refund_exceeds_captured', context } })
      } else {
        refunds.push({ key, status: 'pending', amount_minor })
        addCall(operation, { status: 202, refund: { ...refunds.at(-1)! } })
      }
    }
  }
  return calls
}

/** The calls as clients see them: each call begins earlier and ends later, so that the calls overlap. */
function stretchCalls(calls: Call[], offsets: number[]): Call[] {
  return calls.map((call, nth) => ({
    ...call,
    start: call.start - offsets[(2 * nth) % offsets.length]!,
    answer: call.answer && {
      ...call.answer,
      end: call.answer.end + offsets[(2 * nth + 1) % offsets.length]!,
    },
  }))
}

const offset_lists = fc.array(fc.nat(45), { minLength: 7, maxLength: 11 })

test('a serial history is explained however the calls overlap', () => {
  fc.assert(
    fc.property(operation_lists, offset_lists, (list, offsets) => {
      expect(isExplained(stretchCalls(simulateSerially(list), offsets))).toBe(true)
    }),
    { numRuns: 500 },
  )
})

test('a history in which the responses of two reads are exchanged is not explained', () => {
  let exchanged = 0
  fc.assert(
    fc.property(operation_lists, offset_lists, (list, offsets) => {
      // After a failed cancellation the payment looks as it did before, and an exchange of two equal responses would be
      // explained. So no cancellation fails here.
      const calls = stretchCalls(simulateSerially(list, { cancels_fail: false }), offsets)
      const reads = calls.filter(({ operation, answer }) => operation.op === 'read' && answer !== null)
      const resultOf = ({ answer }: Call) => JSON.stringify(answer!.result)
      for (const earlier of reads) {
        const later = reads.find(
          (each) => each.start > earlier.answer!.end && resultOf(each) !== resultOf(earlier),
        )
        if (later === undefined) continue
        exchanged++
        const [first, second] = [earlier.answer!, later.answer!]
        const changed_calls = calls.map((call) => {
          if (call === earlier) return { ...call, answer: { ...first, result: second.result } }
          return call === later ? { ...call, answer: { ...second, result: first.result } } : call
        })
        expect(isExplained(changed_calls)).toBe(false)
        return
      }
    }),
    { numRuns: 1000 },
  )
  expect(exchanged).toBeGreaterThan(50)
})
