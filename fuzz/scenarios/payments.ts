// Scenarios of one payment: captures, cancels and refunds in any order, with amounts around the limits, some at once.
import { type Arbitrary, array, boolean, constantFrom, record } from 'fast-check'
import { freshKey } from '#test/client.ts'
import type { Target } from '../target.ts'
import { recordingClient, type ScenarioResult } from './recording-client.ts'

type Move = {
  kind: 'capture' | 'cancel' | 'refund'
  size: 'omitted' | 'all' | 'half' | 'one' | 'too_much' | 'none'
  /** Repeats the request with the same key. */
  repeat: boolean
}
type Scenario = {
  amount_minor: number
  currency: string
  /** Lists of moves, one list after the other; the moves of one list run at the same time. */
  moves: Move[][]
}

const move: Arbitrary<Move> = record({
  kind: constantFrom('capture', 'cancel', 'refund', 'refund'),
  size: constantFrom('omitted', 'all', 'half', 'half', 'one', 'too_much', 'none'),
  repeat: boolean(),
})

export const paymentScenarios: Arbitrary<Scenario> = record({
  amount_minor: constantFrom(100, 101, 1000, 99_999_999),
  currency: constantFrom('USD', 'JPY'),
  moves: array(array(move, { minLength: 1, maxLength: 4, size: 'small' }), { maxLength: 6 }),
})

/** The fields of a payment that the scenario uses. */
type State = Record<'amount_minor' | 'amount_captured_minor' | 'amount_refunded_minor', number> & {
  id: string
  status: string
}

/** Runs the scenario. Returns contradictions, and the requests so far as commands. */
export async function runPaymentScenario(target: Target, scenario: Scenario): Promise<ScenarioResult> {
  const { sendRequest, commands } = recordingClient(target)
  const read = async (id: string): Promise<State> =>
    (await sendRequest('GET', `/v1/payments/${id}`, null)).body

  const { amount_minor, currency } = scenario
  const created = await sendRequest('POST', '/v1/payments', {
    idempotency_key: freshKey(),
    amount_minor,
    currency,
    method: 'card',
    payment_method: 'pm_card_visa',
  })
  if (created.body?.status !== 'authorized')
    return { problems: [`the payment was not authorized: ${created.status} ${created.text}`], commands }
  let state: State = created.body
  const path = `/v1/payments/${state.id}`

  for (const moves of scenario.moves) {
    const requests = moves.map((each) => ({ ...each, key: freshKey(), amount: amountOf(each, state) }))
    const act = async ({ kind, key, amount }: (typeof requests)[number]) =>
      await sendRequest('POST', `${path}/${kind === 'refund' ? 'refunds' : kind}`, {
        idempotency_key: key,
        ...(amount !== undefined && kind !== 'cancel' && { amount_minor: amount }),
      })
    const answers = await Promise.all(requests.map(act))
    await target.stored()
    for (const [index, each] of requests.entries()) {
      const { status, text } = answers[index]!
      const description = `${each.kind} of ${each.amount ?? 'all'} in ${state.status}`
      const allowed =
        moves.length === 1 ? [expected(each.kind, each.amount, state)] : [200, 201, 400, 409, 422]
      if (![...allowed, 202].includes(status))
        return {
          problems: [`${description}: ${status} instead of ${allowed.join(' or ')}: ${text}`],
          commands,
        }
      if (!each.repeat || status >= 400) continue
      const repeat = await act(each)
      if (repeat.headers.get('idempotent-replayed') !== 'true' || repeat.status >= 300)
        return {
          problems: [`${description}, repeated with its key: ${repeat.status} ${repeat.text}`],
          commands,
        }
    }
    state = await read(state.id)
    const { amount_captured_minor: captured, amount_refunded_minor: refunded } = state
    if (captured > amount_minor || refunded > captured)
      return { problems: [`refunded ${refunded}, captured ${captured} of ${amount_minor}`], commands }
  }
  const refunds: any[] = (await sendRequest('GET', `${path}/refunds?limit=100`, null)).body
  const succeeded = refunds.filter(({ status }) => status === 'succeeded')
  const sum = succeeded.reduce((total, each) => total + each.amount_minor, 0)
  if (sum === state.amount_refunded_minor) return { problems: [], commands }
  return {
    problems: [`its refunds sum to ${sum}, but amount_refunded_minor is ${state.amount_refunded_minor}`],
    commands,
  }
}

function amountOf({ kind, size }: Move, state: State): number | undefined {
  const limit =
    kind === 'refund' ? state.amount_captured_minor - state.amount_refunded_minor : state.amount_minor
  const sizes = {
    omitted: undefined,
    all: limit,
    half: Math.ceil(limit / 2),
    one: 1,
    too_much: limit + 1,
    none: 0,
  }
  return sizes[size]
}

/** The expected status of a single move. */
function expected(kind: Move['kind'], amount: number | undefined, state: State): number {
  const { status } = state
  if (kind !== 'cancel' && amount === 0) return 400
  if (kind === 'cancel') return status === 'authorized' ? 200 : 409
  if (kind === 'capture') {
    if (status !== 'authorized') return 409
    return amount !== undefined && amount > state.amount_minor ? 422 : 200
  }
  if (status !== 'captured') return 409
  const remaining = state.amount_captured_minor - state.amount_refunded_minor
  return remaining === 0 || (amount ?? remaining) > remaining ? 422 : 201
}
