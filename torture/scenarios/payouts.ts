// Payout scenarios: each way in which a payout can end, and concurrent payouts from one balance.
import type { Answer } from '#test/client.ts'
import { sendOnce, withOtherClientFirst, type Scenario } from '../calls.ts'
import { recordAcceptance } from '../record.ts'
import {
  reportUnexpected,
  atProcessor,
  createResource,
  changeResource,
  waitForStatus,
  expectEnd,
  createParty,
  referenceOf,
  type CreatedResource,
} from './steps.ts'
import { topUp } from './top-ups.ts'

const TYPES = { ba: 'bank_account', card: 'card', acct: 'account' } as const
const PAID = ['ba_success', 'card_success', 'acct_success'] as const
const CONCURRENT_PAYOUTS = 8

type Variant = (scenario: Scenario, amount_minor: number) => Promise<void>

/** Pays out an amount that is available, unless a concurrent payout has used the balance. */
export async function payoutScenario(scenario: Scenario, amount_minor: number): Promise<void> {
  await scenario.random.pick(VARIANTS)(scenario, amount_minor)
}

const endsIn =
  (destination: string, status: string): Variant =>
  async (scenario, amount_minor) => {
    const payout = await payOut(scenario, amount_minor, destination, status)
    if (payout !== null) await waitForStatus(scenario, payout, status)
  }

const VARIANTS: Variant[] = [
  ...PAID.map((destination) => endsIn(destination, 'paid')),
  endsIn('ba_noAccount', 'failed'),
  endsIn('ba_lateReturn', 'failed'),
  endsIn('ba_refused', 'failed'),
  bankSettles,
  bankReturns,
  transferReversed,
  canceledBeforePaid,
  canceledDuringCall,
  failedDuringCall,
  failedByOperator,
]

/** The bank decides a payout that the processor can no longer cancel. */
async function bankSettles(scenario: Scenario, amount_minor: number): Promise<void> {
  const { random, key } = scenario
  const payout = await payOut(scenario, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(scenario, payout))
  if (reference === null) return
  if (random.next() < 0.5)
    await changeResource(scenario, 'cancel_payout', payout!, 'cancel', keyBody(`${key}-cancel`))
  const status = random.pick(['paid', 'failed', 'canceled'])
  await atProcessor(scenario, `/payouts/${reference}/settle`, { status })
  await waitForStatus(scenario, payout!, status)
}

/** The bank returns the payout after it was paid. */
async function bankReturns(scenario: Scenario, amount_minor: number): Promise<void> {
  const payout = await payOut(scenario, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(scenario, payout))
  if (reference === null) return
  for (const status of ['paid', 'failed']) {
    await atProcessor(scenario, `/payouts/${reference}/settle`, { status })
    await waitForStatus(scenario, payout!, status)
  }
}

/** A transfer that is reversed in parts. The payout has failed when the full amount is back. */
async function transferReversed(scenario: Scenario, amount_minor: number): Promise<void> {
  const payout = await payOut(scenario, amount_minor, 'acct_success', 'paid')
  const reference = payout && (await referenceOf(scenario, payout))
  if (reference === null) return
  const path = `/transfers/${reference}/reverse`
  await atProcessor(scenario, path, { amount: scenario.random.between(1, amount_minor - 1) })
  if (scenario.random.next() < 0.3) return
  await atProcessor(scenario, path, {})
  await waitForStatus(scenario, payout!, 'failed')
}

/** The processor can cancel the payout until the bank has paid it. */
async function canceledBeforePaid(scenario: Scenario, amount_minor: number): Promise<void> {
  const { random, key } = scenario
  const payout = await payOut(scenario, amount_minor, 'ba_pending', 'processing')
  const reference = payout && (await referenceOf(scenario, payout))
  if (reference === null) return
  const racing = random.next() < 0.4
  expectEnd(scenario, payout!.key, 'canceled', ...(racing ? ['paid'] : []))
  const [status] = await Promise.all([
    changeResource(scenario, 'cancel_payout', payout!, 'cancel', keyBody(`${key}-cancel`)),
    racing && atProcessor(scenario, `/payouts/${reference}/settle`, { status: 'paid' }),
  ])
  if (status !== 202) await waitForStatus(scenario, payout!, status === 200 || !racing ? 'canceled' : 'paid')
}

/** Requests two cancellations during the call to the processor. */
async function canceledDuringCall(scenario: Scenario, amount_minor: number): Promise<void> {
  const payout = await payOut(scenario, amount_minor, scenario.random.pick(PAID), ['canceled', 'paid'], {})
  if (payout === null) return
  const statuses = await Promise.all([
    changeResource(scenario, 'cancel_payout', payout, 'cancel', keyBody(`${scenario.key}-cancel-1`)),
    changeResource(
      withOtherClientFirst(scenario),
      'cancel_payout',
      payout,
      'cancel',
      keyBody(`${scenario.key}-cancel-2`),
    ),
  ])
  if (!statuses.includes(202))
    await waitForStatus(scenario, payout, statuses.includes(200) ? 'canceled' : 'paid')
}

/** An operator fails the payout during the call to the processor: the result of the call decides. */
async function failedDuringCall(scenario: Scenario, amount_minor: number): Promise<void> {
  const payout = await payOut(scenario, amount_minor, scenario.random.pick(PAID), ['failed', 'paid'], {})
  if (payout === null) return
  const status = await fail(scenario, payout)
  if (status !== 202) await waitForStatus(scenario, payout, status === 200 ? 'failed' : 'paid')
}

/**
 * An operator fails the payout. The failure waits for the bank's decision, which comes at the same time as the
 * operator's request or later.
 */
async function failedByOperator(scenario: Scenario, amount_minor: number): Promise<void> {
  const { random } = scenario
  const payout = await payOut(scenario, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(scenario, payout))
  if (reference === null) return
  const status = random.pick(['paid', 'paid', 'failed', 'canceled'])
  const settle = () => atProcessor(scenario, `/payouts/${reference}/settle`, { status })
  const racing = random.next() < 0.5
  // If the bank decides before the failure is requested, the failure is refused.
  const end = status === 'paid' ? 'paid' : 'failed'
  expectEnd(scenario, payout!.key, end, ...(racing ? [status] : []))
  const [answered] = await Promise.all([fail(scenario, payout!), racing && settle()])
  if (!racing) await settle()
  await waitForStatus(scenario, payout!, answered === 409 ? status : end)
}

/** A tenant without a balance tops up once and requests more payouts than it can afford. */
export async function raceForBalance(scenario: Scenario): Promise<void> {
  const { random, record } = scenario
  const funded = { ...scenario, clients: await scenario.newTenant() }
  const [affordable, amount_minor] = [random.between(1, 3), random.between(200, 2000)]
  if (!(await topUp(funded, affordable * amount_minor))) return
  const recipient_id = await recipient(funded, random.pick(PAID))
  const results = await Promise.all(
    Array.from({ length: CONCURRENT_PAYOUTS }, async (_, nth) => {
      const key = `${scenario.key}-payout-${nth + 1}`
      expectEnd(funded, key, 'paid')
      const body = { idempotency_key: key, amount_minor, currency: 'usd', recipient_id }
      const answer = await createResource(
        { ...funded, first_client: scenario.first_client + nth },
        'payout',
        body,
      )
      return { key, answer }
    }),
  )
  const accepted = results.filter(({ answer }) => answer.status < 300)
  if (accepted.length !== affordable)
    record.problems.push({
      problem: 'the number of accepted concurrent payouts does not match the balance',
      affordable,
      accepted: accepted.length,
      scenario: scenario.key,
    })
  for (const { key, answer } of results)
    if (answer.status === 201)
      await waitForStatus(funded, { resource: 'payout', key, id: answer.body.id }, 'paid')
    else if (answer.status >= 400 && !lacksBalance(answer)) reportUnexpected(funded, key, answer)
  if (accepted.some(({ answer }) => answer.status !== 201)) return
  const balances = await sendOnce(funded, random.between(0, 1), (client) => client.get('/v1/wallet/balances'))
  const remaining = balances?.status === 200 && balances.body[0]
  if (remaining && (remaining.balance_minor !== 0 || remaining.pending_payouts_minor !== 0))
    record.problems.push({
      problem: 'a balance is shown after it was paid out',
      remaining,
      scenario: scenario.key,
    })
}

/**
 * Requests a payout. Returns null if the balance is too low, the outcome is unknown, or the payout was refused as
 * expected.
 */
async function payOut(
  scenario: Scenario,
  amount_minor: number,
  destination: string,
  expected: string | string[],
  headers?: Record<string, string>,
): Promise<CreatedResource | null> {
  const key = `${scenario.key}-payout`
  const recipient_id = await recipient(scenario, destination)
  expectEnd(scenario, key, ...[expected].flat())
  const body = { idempotency_key: key, amount_minor, currency: 'USD', recipient_id }
  const answer = await createResource(scenario, 'payout', body, headers)
  if (answer.status < 300)
    return answer.status === 201 ? { resource: 'payout', key, id: answer.body.id } : null
  const { code, context } = answer.body.error
  if (code === 'payout_refused' && destination === 'ba_refused')
    recordAcceptance(scenario.record, {
      kind: 'payout',
      key,
      id: context.payout_id,
      status: 'failed',
      amount_minor: null,
    })
  else if (!lacksBalance(answer)) reportUnexpected(scenario, key, answer)
  return null
}

function lacksBalance({ body: { error } }: Answer): boolean {
  return (
    error.code === 'insufficient_balance' && error.context.available_minor < error.context.requested_minor
  )
}

async function recipient(scenario: Scenario, destination: string): Promise<string> {
  const type = TYPES[destination.split('_')[0] as keyof typeof TYPES]
  return await createParty(scenario, 'recipient', {
    name: 'Ada',
    type,
    currency: 'usd',
    country: 'US',
    destination,
  })
}

const keyBody = (idempotency_key: string) => ({ idempotency_key })

async function fail(scenario: Scenario, payout: CreatedResource): Promise<number> {
  const body = { ...keyBody(`${scenario.key}-fail`), reason: 'The bank reports that the payout failed.' }
  return await changeResource(scenario, 'fail_payout', payout, 'fail', body)
}
