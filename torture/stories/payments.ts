// Stories of payments: what clients, and others at the processor, do with one.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  act,
  asOther,
  createPayment,
  look,
  lookAtRefund,
  LOOK_AGAIN_MS,
  outside,
  OUTSIDE_PATIENCE_MS,
  type Made,
  type Story,
} from '../calls.ts'

/** Of the changes, with reads beside them. */
const WATCHED = 0.25
const MOST_READS = 4

export async function paymentStory(story: Story): Promise<void> {
  const { random, key } = story
  const kind = random.next()
  const amount_minor = random.between(200, 5000)
  if (kind < 0.05) return void (await createPayment(story, amount_minor, 'pm_card_chargeDeclined'))
  if (kind < 0.1) return await random.pick(OUTSIDE)(story, amount_minor)
  const payment = await createPayment(story, amount_minor, 'pm_card_visa')
  if (payment === null || kind < 0.15) return
  if (kind < 0.25) {
    const body = { idempotency_key: `${key}-cancel`, reason: 'requested_by_customer' }
    return void (await watched(story, payment, act(story, 'cancel', payment, body)))
  }
  if (kind < 0.4) return await raceStory(story, payment)
  const captured_minor = random.next() < 0.3 ? random.between(100, amount_minor) : amount_minor
  const body = {
    idempotency_key: `${key}-capture`,
    ...(captured_minor !== amount_minor && { amount_minor: captured_minor }),
  }
  const twice = random.next() < 0.2
  const captures = Promise.all([
    act(story, 'capture', payment, body),
    twice && act(asOther(story), 'capture', payment, body),
  ])
  const [captured] = await watched(story, payment, captures)
  if (captured === null || random.next() < 0.4) return
  // Each is more than half: one wins.
  const refund_minor = Math.floor(captured_minor / 2) + 1
  await refundTimes(story, payment, random.next() < 0.5 ? 3 : 1, refund_minor)
}

/** Who comes first wins; the others are refused. Refunds fit only after a capture has won. */
async function raceStory(story: Story, payment: Made): Promise<void> {
  const { key } = story
  const others = asOther(story)
  const race = Promise.all([
    act(story, 'capture', payment, { idempotency_key: `${key}-capture-a` }),
    act(others, 'capture', payment, { idempotency_key: `${key}-capture-b`, amount_minor: 100 }),
    act(story, 'capture', payment, { idempotency_key: `${key}-capture-c` }),
    act(others, 'cancel', payment, { idempotency_key: `${key}-cancel` }),
    ...[1, 2].map(async (nth) => {
      await sleep(story.reads.between(0, 60))
      await act(story, 'refund', payment, { idempotency_key: `${key}-refund-${nth}`, amount_minor: 70 })
    }),
  ])
  await watched(story, payment, race)
}

async function refundTimes(story: Story, payment: Made, times: number, amount_minor: number): Promise<void> {
  const refunds = Array.from({ length: times }, async (_, nth) => {
    const key = `${story.key}-refund-${nth + 1}`
    const refund = await act(story, 'refund', payment, { idempotency_key: key, amount_minor })
    if (refund !== null) await lookAtRefund(story, payment, { id: (refund.body as Made).id, key })
  })
  await watched(story, payment, Promise.all(refunds))
}

/** Reads from both APIs beside some changes, and after most. */
async function watched<T>(story: Story, payment: Made, work: Promise<T>): Promise<T> {
  const { reads } = story
  const one = () =>
    look(story, payment, reads.pick(['payment', 'payment', 'payment', 'payment', 'refunds', 'list']))
  const over = new AbortController()
  const watching = async () => {
    for (let times = 0; !over.signal.aborted && times < MOST_READS; times++) {
      await one()
      await sleep(reads.between(2, 40))
    }
  }
  const beside = reads.next() < WATCHED ? watching() : undefined
  const done = await work.finally(() => over.abort())
  if (reads.next() < WATCHED) await one()
  await beside
  return done
}

/** What others do in the processor's dashboard shows here in the end, whether its notification comes or not. */
const OUTSIDE: ((story: Story, amount_minor: number) => Promise<void>)[] = [
  async (story, amount_minor) => {
    const payment = await createPayment(story, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const path = `/payment_intents/${payment.processor_reference}/capture`
    const amount = story.random.between(100, amount_minor)
    const asked = { op: 'capture outside', amount_minor: amount } as const
    const captured = outside(story, payment.key, asked, path, { amount_to_capture: String(amount) })
    await alone(story, payment, captured, 'cancel')
    await shows(story, payment, ({ status }) => status === 'captured' || status === 'canceled')
  },
  async (story, amount_minor) => {
    const payment = await createPayment(story, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const path = `/payment_intents/${payment.processor_reference}/${story.random.pick(['cancel', 'expire'])}`
    await alone(story, payment, outside(story, payment.key, { op: 'cancel outside' }, path, {}), 'capture')
    await shows(story, payment, ({ status }) => status === 'captured' || status === 'canceled')
  },
  async (story, amount_minor) => {
    const payment = await capturedBy(story, amount_minor, 'pm_card_visa')
    if (payment === null) return
    const amount = story.random.between(100, amount_minor)
    const body = { payment_intent: payment.processor_reference, amount: String(amount) }
    await outside(story, payment.key, { op: 'refund outside', amount_minor: amount }, '/refunds', body)
    await shows(story, payment, ({ amount_refunded_minor }) => amount_refunded_minor === amount)
  },
  async (story, amount_minor) => await refundSettles(story, amount_minor, 'pm_card_refundFail', 'failed'),
  async (story, amount_minor) =>
    await refundSettles(story, amount_minor, 'pm_card_pendingRefund', 'succeeded'),
]

async function refundSettles(
  story: Story,
  amount_minor: number,
  payment_method: string,
  status: 'succeeded' | 'failed',
): Promise<void> {
  const payment = await capturedBy(story, amount_minor, payment_method)
  if (payment === null) return
  const key = `${story.key}-refund-1`
  const body = { idempotency_key: key, amount_minor }
  const refund = await act(story, 'refund', payment, body, { may_fail_late: true })
  if (refund === null) return
  const { id, processor_reference } = refund.body as Made
  const path = `/refunds/${processor_reference}/settle`
  await outside(story, payment.key, { op: 'refund settles outside', key, status }, path, { status })
  const left = status === 'failed' ? 0 : amount_minor
  await shows(story, payment, ({ amount_refunded_minor }) => amount_refunded_minor === left)
  await lookAtRefund(story, payment, { id, key })
}

async function capturedBy(story: Story, amount_minor: number, payment_method: string): Promise<Made | null> {
  const payment = await createPayment(story, amount_minor, payment_method)
  if (payment === null) return null
  const captured = await act(story, 'capture', payment, { idempotency_key: `${story.key}-capture` })
  return captured && payment
}

/** As often as not somebody here wants something else at the same moment. */
async function alone(
  story: Story,
  payment: Made,
  work: Promise<void>,
  other: 'capture' | 'cancel',
): Promise<void> {
  const body = { idempotency_key: `${story.key}-${other}` }
  const racing = story.random.next() < 0.5
  await watched(story, payment, Promise.all([work, racing && act(story, other, payment, body)]))
}

/** Looks until the payment is as it has become at the processor. */
async function shows(
  story: Story,
  payment: Made,
  is: (shown: { status: string; amount_refunded_minor: number }) => boolean,
): Promise<void> {
  for (const deadline = performance.now() + OUTSIDE_PATIENCE_MS; ; await sleep(LOOK_AGAIN_MS)) {
    const answer = await look(story, payment, 'payment')
    if (answer?.status === 200 && is(answer.body)) return
    if (performance.now() < deadline) continue
    story.seen.problems.push({ problem: 'what others did at the processor is not shown', ...payment })
    return
  }
}
