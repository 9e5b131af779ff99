// Payment scenarios: changes by clients, and changes at the processor without Sluice.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  changePayment,
  withOtherClientFirst,
  createPayment,
  readPayment,
  readRefund,
  READ_INTERVAL_MS,
  changeAtProcessor,
  EXTERNAL_CHANGE_TIMEOUT_MS,
  type CreatedPayment,
  type Scenario,
} from '../calls.ts'

/** Share of changes with concurrent reads. */
const READ_PROBABILITY = 0.25
const MAX_READS = 4

export async function paymentScenario(scenario: Scenario): Promise<void> {
  const { random, key } = scenario
  const kind = random.next()
  const amount_minor = random.between(200, 5000)
  if (kind < 0.05) return void (await createPayment(scenario, amount_minor, 'pm_card_chargeDeclined'))
  if (kind < 0.1) return await random.pick(EXTERNAL_CHANGE_SCENARIOS)(scenario, amount_minor)
  const payment = await createPayment(scenario, amount_minor, 'pm_card_visa')
  if (payment === null || kind < 0.15) return
  if (kind < 0.25) {
    const body = { idempotency_key: `${key}-cancel`, reason: 'requested_by_customer' }
    return void (await withReads(scenario, payment, changePayment(scenario, 'cancel', payment, body)))
  }
  if (kind < 0.4) return await raceScenario(scenario, payment)
  const captured_minor = random.next() < 0.3 ? random.between(100, amount_minor) : amount_minor
  const body = {
    idempotency_key: `${key}-capture`,
    ...(captured_minor !== amount_minor && { amount_minor: captured_minor }),
  }
  const twice = random.next() < 0.2
  const captures = Promise.all([
    changePayment(scenario, 'capture', payment, body),
    twice && changePayment(withOtherClientFirst(scenario), 'capture', payment, body),
  ])
  const [captured] = await withReads(scenario, payment, captures)
  if (captured === null || random.next() < 0.4) return
  // Each refund is more than half of the amount, so only one succeeds.
  const refund_minor = Math.floor(captured_minor / 2) + 1
  await refundTimes(scenario, payment, random.next() < 0.5 ? 3 : 1, refund_minor)
}

/**
 * Concurrent captures and a cancellation: the first wins, the others are refused. A refund succeeds only after a
 * capture.
 */
async function raceScenario(scenario: Scenario, payment: CreatedPayment): Promise<void> {
  const { key } = scenario
  const other_client = withOtherClientFirst(scenario)
  const race = Promise.all([
    changePayment(scenario, 'capture', payment, { idempotency_key: `${key}-capture-a` }),
    changePayment(other_client, 'capture', payment, {
      idempotency_key: `${key}-capture-b`,
      amount_minor: 100,
    }),
    changePayment(scenario, 'capture', payment, { idempotency_key: `${key}-capture-c` }),
    changePayment(other_client, 'cancel', payment, { idempotency_key: `${key}-cancel` }),
    ...[1, 2].map(async (nth) => {
      await sleep(scenario.reads.between(0, 60))
      await changePayment(scenario, 'refund', payment, {
        idempotency_key: `${key}-refund-${nth}`,
        amount_minor: 70,
      })
    }),
  ])
  await withReads(scenario, payment, race)
}

async function refundTimes(
  scenario: Scenario,
  payment: CreatedPayment,
  times: number,
  amount_minor: number,
): Promise<void> {
  const refunds = Array.from({ length: times }, async (_, nth) => {
    const key = `${scenario.key}-refund-${nth + 1}`
    const refund = await changePayment(scenario, 'refund', payment, { idempotency_key: key, amount_minor })
    if (refund !== null) await readRefund(scenario, payment, { id: (refund.body as CreatedPayment).id, key })
  })
  await withReads(scenario, payment, Promise.all(refunds))
}

/** Reads from both APIs during some changes, and after most changes. */
async function withReads<T>(scenario: Scenario, payment: CreatedPayment, work: Promise<T>): Promise<T> {
  const { reads } = scenario
  const one = () =>
    readPayment(
      scenario,
      payment,
      reads.pick(['payment', 'payment', 'payment', 'payment', 'refunds', 'list']),
    )
  const finished = new AbortController()
  const watching = async () => {
    for (let times = 0; !finished.signal.aborted && times < MAX_READS; times++) {
      await one()
      await sleep(reads.between(2, 40))
    }
  }
  const concurrent_reads = reads.next() < READ_PROBABILITY ? watching() : undefined
  const result = await work.finally(() => finished.abort())
  if (reads.next() < READ_PROBABILITY) await one()
  await concurrent_reads
  return result
}

/** Changes in the processor's dashboard become visible here in the end, with or without a notification. */
const EXTERNAL_CHANGE_SCENARIOS: ((scenario: Scenario, amount_minor: number) => Promise<void>)[] = [
  async (scenario, amount_minor) => {
    const payment = await createPayment(scenario, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const path = `/payment_intents/${payment.processor_reference}/capture`
    const amount = scenario.random.between(100, amount_minor)
    const operation = { op: 'external capture', amount_minor: amount } as const
    const captured = changeAtProcessor(scenario, payment.key, operation, path, {
      amount_to_capture: String(amount),
    })
    await raceWithClient(scenario, payment, captured, 'cancel')
    await waitUntilPayment(scenario, payment, ({ status }) => status === 'captured' || status === 'canceled')
  },
  async (scenario, amount_minor) => {
    const payment = await createPayment(scenario, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const path = `/payment_intents/${payment.processor_reference}/${scenario.random.pick(['cancel', 'expire'])}`
    await raceWithClient(
      scenario,
      payment,
      changeAtProcessor(scenario, payment.key, { op: 'external cancel' }, path, {}),
      'capture',
    )
    await waitUntilPayment(scenario, payment, ({ status }) => status === 'captured' || status === 'canceled')
  },
  async (scenario, amount_minor) => {
    const payment = await createCaptured(scenario, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const amount = scenario.random.between(100, amount_minor)
    const body = { payment_intent: payment.processor_reference, amount: String(amount) }
    await changeAtProcessor(
      scenario,
      payment.key,
      { op: 'external refund', amount_minor: amount },
      '/refunds',
      body,
    )
    await waitUntilPayment(scenario, payment, ({ amount_refunded_minor }) => amount_refunded_minor === amount)
  },
  async (scenario, amount_minor) =>
    await externalRefundSettlement(scenario, amount_minor, 'pm_card_refundFail', 'failed'),
  async (scenario, amount_minor) =>
    await externalRefundSettlement(scenario, amount_minor, 'pm_card_pendingRefund', 'succeeded'),
]

async function externalRefundSettlement(
  scenario: Scenario,
  amount_minor: number,
  payment_method: string,
  status: 'succeeded' | 'failed',
): Promise<void> {
  const payment = await createCaptured(scenario, amount_minor, payment_method)
  if (payment === null) return
  const key = `${scenario.key}-refund-1`
  const body = { idempotency_key: key, amount_minor }
  const refund = await changePayment(scenario, 'refund', payment, body, { may_fail_late: true })
  if (refund === null) return
  const { id, processor_reference } = refund.body as CreatedPayment
  const path = `/refunds/${processor_reference}/settle`
  await changeAtProcessor(scenario, payment.key, { op: 'external refund settlement', key, status }, path, {
    status,
  })
  const remaining_minor = status === 'failed' ? 0 : amount_minor
  await waitUntilPayment(
    scenario,
    payment,
    ({ amount_refunded_minor }) => amount_refunded_minor === remaining_minor,
  )
  await readRefund(scenario, payment, { id, key })
}

async function createCaptured(
  scenario: Scenario,
  amount_minor: number,
  payment_method: string,
): Promise<CreatedPayment | null> {
  const payment = await createPayment(scenario, amount_minor, payment_method)
  if (payment === null) return null
  const captured = await changePayment(scenario, 'capture', payment, {
    idempotency_key: `${scenario.key}-capture`,
  })
  return captured && payment
}

/** In half of the cases a client requests another change at the same time. */
async function raceWithClient(
  scenario: Scenario,
  payment: CreatedPayment,
  work: Promise<void>,
  other: 'capture' | 'cancel',
): Promise<void> {
  const body = { idempotency_key: `${scenario.key}-${other}` }
  const racing = scenario.random.next() < 0.5
  await withReads(
    scenario,
    payment,
    Promise.all([work, racing && changePayment(scenario, other, payment, body)]),
  )
}

/** Reads until the payment shows the change at the processor. */
async function waitUntilPayment(
  scenario: Scenario,
  payment: CreatedPayment,
  is: (shown: { status: string; amount_refunded_minor: number }) => boolean,
): Promise<void> {
  for (const deadline = performance.now() + EXTERNAL_CHANGE_TIMEOUT_MS; ; await sleep(READ_INTERVAL_MS)) {
    const answer = await readPayment(scenario, payment, 'payment')
    if (answer?.status === 200 && is(answer.body)) return
    if (performance.now() < deadline) continue
    scenario.record.problems.push({ problem: 'a change at the processor is not shown', ...payment })
    return
  }
}
