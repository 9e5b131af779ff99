// Tests that webhooks lead to the same state in any order, even before the response to our own call, and never revert a
// state.
import { describe, expect } from 'vitest'
import { checkInvariants } from './support/books.ts'
import { freshKey } from './support/client.ts'
import {
  ASYNC,
  createPayment,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
} from './support/payments.ts'
import {
  deliver,
  deliverInRounds,
  eventsOf,
  listEvents,
  retryParked,
  ordersOf,
  paymentOf,
  pick,
  refundInDashboard,
  settleRefund,
  shuffled,
  mapConcurrently,
  stateOf,
  paymentSummary,
  type StripeEvent,
  untilAttempted,
} from './support/stripe-events.ts'
import { testIn, type World } from './support/world.ts'

const test = testIn({ notifications: false })

const KINDS = [
  'payment_intent.amount_capturable_updated',
  'payment_intent.succeeded',
  'charge.refunded',
  'refund.created',
  'refund.updated',
] as const

const changeInDashboard = (
  world: World,
  reference: string,
  action: 'capture' | 'cancel' | 'expire',
  body = {},
) => world.provider('stripe').control('POST', `/payment_intents/${reference}/${action}`, body)

/** All drifts, open and resolved. */
const findAllDrifts = async (world: World) => Array.from(await world.sql`select * from drifts`)

/** The five events of a payment in the given order. */
async function pickInOrder(all: StripeEvent[], reference: string, order: readonly string[]) {
  return pick(
    all.filter((event) => paymentOf(event) === reference),
    order,
  )
}

const CAPTURED_AND_REFUNDED = {
  status: 'captured',
  known: true,
  amount_capturable_minor: 0,
  amount_captured_minor: 1000,
  amount_refunded_minor: 600,
  amount_refund_reserved_minor: 600,
  cancellation_reason: null,
  failure: null,
}

describe('five webhooks in all orders', () => {
  test('have the same result if they arrive after the responses to our own calls, in which the refund is still pending', async ({
    world,
  }) => {
    const orders = ordersOf(KINDS)
    expect(orders).toHaveLength(120)
    const payments = await mapConcurrently(orders, 20, async () => {
      const payment = await authorizedPayment(world.client, { payment_method: 'pm_card_pendingRefund' })
      await world.client.post(`/v1/payments/${payment.id}/capture`)
      const { body } = await refund(world.client, payment.id, { amount_minor: 600 })
      expect(body).toMatchObject({ status: 'pending' })
      await settleRefund(world, body.processor_reference, 'succeeded')
      return payment
    })
    const all = await listEvents(world)
    await deliverInRounds(
      world,
      await Promise.all(
        orders.map((order, index) => pickInOrder(all, payments[index].processor_reference, order)),
      ),
    )
    await retryParked(world)
    await world.drain()
    for (const { id } of payments)
      expect(await paymentSummary(world, id)).toEqual({
        payment: CAPTURED_AND_REFUNDED,
        refunds: [{ status: 'succeeded', amount_minor: 600, imported: false, known: true }],
        postings: ['capture 1000', 'refund -600'],
        events: [
          'payment.authorized',
          'payment.captured',
          'payment.created',
          'refund.created',
          'refund.succeeded',
        ],
      })
    await checkInvariants(world)
    expect(await findAllDrifts(world)).toEqual([])
  })

  test('have the same result if the response to our own authorization arrives last', async ({ world }) => {
    // Tests every third order. In these orders each of the five event types comes first and comes last.
    const orders = ordersOf(KINDS).filter((_, index) => index % 3 === 0)
    // Tests the orders in parts. The processor blocks the responses of a part until its webhooks are delivered, and a
    // difference that lasts for 5 s would become a drift.
    for (let start = 0; start < orders.length; start += 20) {
      const part = orders.slice(start, start + 20)
      const blocked = await fault(world, {
        match: { method: 'POST', path: '/v1/payment_intents$' },
        times: part.length,
        fault: { hold: 'after' },
      })
      const ids: string[] = await Promise.all(
        part.map(async () => {
          const { body } = await createPayment(
            world.client,
            { payment_method: 'pm_card_pendingRefund' },
            ASYNC,
          )
          return body.id
        }),
      )
      await blocked.hit(part.length)
      const effects = await world.provider('stripe').effects({ effect: 'authorize' })
      const references = ids.map(
        (id) => effects.find((each: any) => each.metadata.sluice_payment_id === id).payment_intent as string,
      )
      await mapConcurrently(references, 10, async (reference) => {
        await changeInDashboard(world, reference, 'capture')
        const { id } = await refundInDashboard(world, reference, 600)
        await settleRefund(world, id, 'succeeded')
      })
      const all = await listEvents(world)
      await deliverInRounds(
        world,
        await Promise.all(part.map((order, index) => pickInOrder(all, references[index]!, order))),
      )
      await retryParked(world)
      await eventually(async () => {
        for (const id of ids) expect((await paymentSummary(world, id)).payment).toEqual(CAPTURED_AND_REFUNDED)
      })
      await blocked.remove()
      await world.drain()
      for (const id of ids) {
        expect(await paymentSummary(world, id)).toEqual({
          payment: CAPTURED_AND_REFUNDED,
          refunds: [{ status: 'succeeded', amount_minor: 600, imported: true, known: true }],
          postings: ['capture 1000', 'refund -600'],
          events: ['payment.captured', 'payment.created', 'refund.created', 'refund.succeeded'],
        })
      }
    }
    await checkInvariants(world)
    expect(await findAllDrifts(world)).toEqual([])
  })
})

describe('a notification that arrives before the response to our call', () => {
  /** Delivers all events of one payment in random order. Waits until each notification has had an attempt. */
  async function deliverAll(world: World, reference: string): Promise<void> {
    const events = shuffled(await listEvents(world, reference))
    for (const event of events) await deliver(world, event)
    await untilAttempted(world, events)
  }

  test('authorizes the payment, which can be captured at once, and the late response reverts nothing', async ({
    world,
  }) => {
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await blocked.hit()
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    await deliverAll(world, effects[0].payment_intent)
    const payment = await paymentIn(world.client, body.id, 'authorized')
    expect(payment).toMatchObject({ amount_capturable_minor: 1000 })
    expect(payment.capture_before).not.toBeNull()
    const captured = await world.client.post(`/v1/payments/${body.id}/capture`, { amount_minor: 700 })
    expect(captured.body).toMatchObject({ status: 'captured', amount_captured_minor: 700 })
    await blocked.remove()
    await world.drain()
    const summary = await paymentSummary(world, body.id)
    expect(summary.payment).toMatchObject({ status: 'captured', amount_captured_minor: 700 })
    expect(summary.postings).toEqual(['capture 700'])
    expect(summary.events).toEqual(['payment.authorized', 'payment.captured', 'payment.created'])
    await checkInvariants(world)
  })

  test('captures the payment; the waiting request still receives its response, and the capture is posted once', async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/capture$' },
      fault: { hold: 'after' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/capture`)
    await blocked.hit()
    await deliverAll(world, processor_reference)
    await paymentIn(world.client, id, 'captured')
    await blocked.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([200, 'captured'])
    await world.drain()
    const summary = await paymentSummary(world, id)
    expect(summary.postings).toEqual(['capture 1000'])
    expect(summary.events).toEqual(['payment.authorized', 'payment.captured', 'payment.created'])
    await checkInvariants(world)
  })

  test('completes the refund, which is not imported a second time', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    await world.client.post(`/v1/payments/${id}/capture`)
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'after' },
    })
    const waiting = refund(world.client, id, { amount_minor: 400 })
    await blocked.hit()
    await deliverAll(world, processor_reference)
    await eventually(async () =>
      expect((await paymentSummary(world, id)).refunds).toEqual([
        { status: 'succeeded', amount_minor: 400, imported: false, known: true },
      ]),
    )
    await blocked.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([201, 'succeeded'])
    await world.drain()
    const summary = await paymentSummary(world, id)
    expect(summary.refunds).toHaveLength(1)
    expect(summary.postings).toEqual(['capture 1000', 'refund -400'])
    expect(summary.events.filter((type) => type.startsWith('refund.'))).toEqual([
      'refund.created',
      'refund.succeeded',
    ])
    await checkInvariants(world)
  })

  test('cancels the payment; the waiting request still receives its response', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/cancel$' },
      fault: { hold: 'after' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/cancel`, { reason: 'duplicate' })
    await blocked.hit()
    await deliverAll(world, processor_reference)
    await paymentIn(world.client, id, 'canceled')
    await blocked.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([200, 'canceled'])
    await world.drain()
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ status: 'canceled', cancellation_reason: 'duplicate' })
    expect(summary.postings).toEqual([])
    expect(summary.events).toEqual(['payment.authorized', 'payment.canceled', 'payment.created'])
    await checkInvariants(world)
  })

  test('releases the hold if a cancellation was requested in the meantime', async ({ world }) => {
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await blocked.hit()
    await world.client.post(`/v1/payments/${body.id}/cancel`, { reason: 'abandoned' }, ASYNC)
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    await deliverAll(world, effects[0].payment_intent)
    await paymentIn(world.client, body.id, 'canceled')
    await blocked.remove()
    await world.drain()
    const summary = await paymentSummary(world, body.id)
    expect(summary.payment).toMatchObject({ status: 'canceled', amount_capturable_minor: 0 })
    expect(summary.postings).toEqual([])
    await checkInvariants(world)
  })

  test('reports a decline; the payment fails, and does not require an action of the buyer in between', async ({
    world,
  }) => {
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const waiting = createPayment(world.client, { payment_method: 'pm_card_chargeDeclined' })
    await blocked.hit()
    const declined = (await listEvents(world)).findLast(
      (event) => event.type === 'payment_intent.payment_failed',
    )!
    await deliverAll(world, paymentOf(declined)!)
    await blocked.remove()
    const answer = await waiting
    expect([answer.status, answer.body.error.code]).toEqual([402, 'payment_declined'])
    await world.drain()
    const { payment_id } = answer.body.error.context
    const summary = await paymentSummary(world, payment_id)
    expect(summary.payment).toMatchObject({ status: 'failed', failure: 'payment_declined' })
    expect(summary.postings).toEqual([])
    expect(summary.events).toEqual(['payment.created', 'payment.failed'])
    await checkInvariants(world)
  })
})

describe('changes at the processor', () => {
  async function deliverAndDrain(world: World, reference: string): Promise<void> {
    const events = shuffled(await listEvents(world, reference))
    for (const event of events) expect((await deliver(world, event)).status).toBe(200)
    await world.drain()
    for (const event of events) expect(['applied', 'ignored']).toContain(await stateOf(world, event))
  }

  test("a payment that is captured in the processor's dashboard is captured here, even in part", async ({
    world,
  }) => {
    const [whole, part] = [await authorizedPayment(world.client), await authorizedPayment(world.client)]
    await changeInDashboard(world, whole.processor_reference, 'capture')
    await changeInDashboard(world, part.processor_reference, 'capture', { amount_to_capture: 250 })
    await deliverAndDrain(world, whole.processor_reference)
    await deliverAndDrain(world, part.processor_reference)
    const captured = { status: 'captured', amount_capturable_minor: 0, amount_refunded_minor: 0 }
    const first = await paymentSummary(world, whole.id)
    expect(first.payment).toMatchObject({ ...captured, amount_captured_minor: 1000 })
    expect(first.postings).toEqual(['capture 1000'])
    const second = await paymentSummary(world, part.id)
    expect(second.payment).toMatchObject({ ...captured, amount_captured_minor: 250 })
    expect([second.postings, second.refunds]).toEqual([['capture 250'], []])
    const repeated = await world.client.post(`/v1/payments/${whole.id}/capture`)
    expect([repeated.status, repeated.body.error.code]).toEqual([409, 'payment_not_capturable'])
    await checkInvariants(world)
  })

  test("a payment that is canceled in the processor's dashboard is canceled here, and the release of its hold is not posted", async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    await changeInDashboard(world, processor_reference, 'cancel', { cancellation_reason: 'fraudulent' })
    const events = await listEvents(world, processor_reference)
    expect(events.map(({ type }) => type)).toContain('charge.refunded')
    await deliverAndDrain(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({
      status: 'canceled',
      cancellation_reason: 'fraudulent',
      amount_capturable_minor: 0,
      amount_captured_minor: 0,
      amount_refunded_minor: 0,
    })
    expect([summary.refunds, summary.postings]).toEqual([[], []])
    expect(summary.events).toEqual(['payment.authorized', 'payment.canceled', 'payment.created'])
    await checkInvariants(world)
  })

  test('a payment whose hold expires at the processor is canceled here', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    await changeInDashboard(world, processor_reference, 'expire')
    await deliverAndDrain(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ status: 'canceled', amount_capturable_minor: 0 })
    expect(summary.payment.cancellation_reason).not.toBeNull()
    expect(summary.postings).toEqual([])
    await checkInvariants(world)
  })

  test('the capture of a payment whose hold expires in the meantime is refused, and the payment is canceled', async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    const blocked = await fault(world, {
      match: { method: 'POST', path: '/capture$' },
      fault: { hold: 'before' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/capture`)
    await blocked.hit()
    await changeInDashboard(world, processor_reference, 'expire')
    const events = await listEvents(world, processor_reference)
    for (const event of events) await deliver(world, event)
    await paymentIn(world.client, id, 'canceled')
    await blocked.remove()
    const answer = await waiting
    expect([answer.status, answer.body.error.code]).toEqual([409, 'payment_not_capturable'])
    await world.drain()
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ status: 'canceled', amount_captured_minor: 0 })
    expect(summary.postings).toEqual([])
    await checkInvariants(world)
  })

  test('a buyer whose card was declined can use another card, and the webhook authorizes the payment', async ({
    world,
  }) => {
    const { body } = await createPayment(world.client, { payment_method: undefined })
    expect(body).toMatchObject({ status: 'requires_action' })
    const confirm = (payment_method: string) =>
      world.provider('stripe').control('POST', `/payment_intents/${body.processor_reference}/confirm`, {
        payment_method,
      })
    await expect(confirm('pm_card_chargeDeclined')).rejects.toThrow('card_declined')
    await deliverAndDrain(world, body.processor_reference)
    expect((await world.client.get(`/v1/payments/${body.id}`)).body).toMatchObject({
      status: 'requires_action',
      failure: { code: 'payment_declined', decline_code: 'generic_decline' },
    })
    await confirm('pm_card_visa')
    await deliverAndDrain(world, body.processor_reference)
    const summary = await paymentSummary(world, body.id)
    expect(summary.payment).toMatchObject({
      status: 'authorized',
      amount_capturable_minor: 1000,
      failure: null,
    })
    expect(summary.events).toEqual([
      'payment.authorization_failed',
      'payment.authorized',
      'payment.created',
      'payment.requires_action',
    ])
    await checkInvariants(world)
  })

  test('the payment shows the later of two declines, even if the lookup for the earlier decline ends later', async ({
    world,
  }) => {
    const { body } = await createPayment(world.client, { payment_method: undefined })
    const { id, processor_reference: reference } = body
    const decline = async (payment_method: string) => {
      const confirmed = world.provider('stripe').control('POST', `/payment_intents/${reference}/confirm`, {
        payment_method,
      })
      await expect(confirmed).rejects.toThrow('card_declined')
      return (await eventsOf(world, reference)).at(-1)!
    }
    const first = await decline('pm_card_chargeDeclined')
    const blocked = await fault(world, {
      match: { method: 'GET', path: `/v1/payment_intents/${reference}` },
      fault: { hold: 'after' },
    })
    await deliver(world, first)
    await blocked.hit()
    const second = await decline('pm_card_chargeDeclinedInsufficientFunds')
    await deliver(world, second)
    await eventually(async () => expect(await stateOf(world, second)).toBe('applied'))
    await blocked.release()
    await eventually(async () => expect(await stateOf(world, first)).toBe('applied'))
    const { failure } = (await world.client.get(`/v1/payments/${id}`)).body
    expect(failure).toMatchObject({ decline_code: 'insufficient_funds' })
  })

  test('a notification waits while lookups at the processor fail, and is applied afterwards', async ({
    world,
  }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    await changeInDashboard(world, processor_reference, 'capture')
    const broken = await fault(world, {
      match: { method: 'GET', path: `/v1/payment_intents/${processor_reference}` },
      times: 2,
      fault: 'error_500_unstored',
    })
    const [captured] = pick(await listEvents(world, processor_reference), ['payment_intent.succeeded'])
    expect((await deliver(world, captured!)).status).toBe(200)
    await broken.hit(2)
    await world.drain()
    expect(await stateOf(world, captured!)).toBe('applied')
    expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000'])
    await checkInvariants(world)
  })

  test('an old notification does not change a payment that has advanced', async ({ world }) => {
    const key = freshKey()
    const { id, processor_reference } = await authorizedPayment(world.client, { idempotency_key: key })
    await world.client.post(`/v1/payments/${id}/capture`)
    await refund(world.client, id)
    const before = await paymentSummary(world, id)
    await deliverAndDrain(world, processor_reference)
    expect(await paymentSummary(world, id)).toEqual(before)
    await checkInvariants(world)
  })
})
