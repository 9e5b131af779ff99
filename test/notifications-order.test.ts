// Webhooks in any order, before or after what they tell of is known here: the same end, and never a step back.
import { describe, expect } from 'vitest'
import { checkInvariants } from './support/books.ts'
import { freshKey } from './support/client.ts'
import {
  ASYNC,
  createPayment,
  eventually,
  fault,
  heldPayment,
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
  tried,
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

const dashboard = (world: World, reference: string, what: 'capture' | 'cancel' | 'expire', body = {}) =>
  world.provider('stripe').control('POST', `/payment_intents/${reference}/${what}`, body)

/** What was ever taken for a disagreement. */
const driftsEver = async (world: World) => Array.from(await world.sql`select * from drifts`)

/** The five events of a payment, in the order wanted. */
async function inOrder(all: StripeEvent[], reference: string, order: readonly string[]) {
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
  test('end alike when we did it all ourselves and only a refund is still pending', async ({ world }) => {
    const orders = ordersOf(KINDS)
    expect(orders).toHaveLength(120)
    const payments = await mapConcurrently(orders, 20, async () => {
      const payment = await heldPayment(world.client, { payment_method: 'pm_card_pendingRefund' })
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
        orders.map((order, index) => inOrder(all, payments[index].processor_reference, order)),
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
    expect(await driftsEver(world)).toEqual([])
  }, 180_000)

  test('end alike when they tell everything, and our own authorization is answered last', async ({
    world,
  }) => {
    // Every third, so that each of the five comes first, and each last.
    const orders = ordersOf(KINDS).filter((_, index) => index % 3 === 0)
    // In parts: all answers of a part are held while its webhooks come, and what does not fit for 5 s is a drift.
    for (let start = 0; start < orders.length; start += 20) {
      const part = orders.slice(start, start + 20)
      const held = await fault(world, {
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
      await held.hit(part.length)
      const effects = await world.provider('stripe').effects({ effect: 'authorize' })
      const references = ids.map(
        (id) => effects.find((each: any) => each.metadata.sluice_payment_id === id).payment_intent as string,
      )
      await mapConcurrently(references, 10, async (reference) => {
        await dashboard(world, reference, 'capture')
        const { id } = await refundInDashboard(world, reference, 600)
        await settleRefund(world, id, 'succeeded')
      })
      const all = await listEvents(world)
      await deliverInRounds(
        world,
        await Promise.all(part.map((order, index) => inOrder(all, references[index]!, order))),
      )
      await retryParked(world)
      await eventually(async () => {
        for (const id of ids) expect((await paymentSummary(world, id)).payment).toEqual(CAPTURED_AND_REFUNDED)
      })
      await held.remove()
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
    expect(await driftsEver(world)).toEqual([])
  }, 180_000)
})

describe('a webhook that is faster than our own answer', () => {
  /** What the webhooks host is told of one payment so far, all of it, in any order. */
  async function tellAll(world: World, reference: string): Promise<void> {
    const events = shuffled(await listEvents(world, reference))
    for (const event of events) await deliver(world, event)
    await tried(world, events)
  }

  test('authorizes; the payment can be captured at once, and the late answer moves nothing back', async ({
    world,
  }) => {
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await held.hit()
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    await tellAll(world, effects[0].payment_intent)
    const payment = await paymentIn(world.client, body.id, 'authorized')
    expect(payment).toMatchObject({ amount_capturable_minor: 1000 })
    expect(payment.capture_before).not.toBeNull()
    const captured = await world.client.post(`/v1/payments/${body.id}/capture`, { amount_minor: 700 })
    expect(captured.body).toMatchObject({ status: 'captured', amount_captured_minor: 700 })
    await held.remove()
    await world.drain()
    const story = await paymentSummary(world, body.id)
    expect(story.payment).toMatchObject({ status: 'captured', amount_captured_minor: 700 })
    expect(story.postings).toEqual(['capture 700'])
    expect(story.events).toEqual(['payment.authorized', 'payment.captured', 'payment.created'])
    await checkInvariants(world)
  })

  test('captures; the waiting caller still gets the answer, and it is posted once', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: '/capture$' },
      fault: { hold: 'after' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/capture`)
    await held.hit()
    await tellAll(world, processor_reference)
    await paymentIn(world.client, id, 'captured')
    await held.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([200, 'captured'])
    await world.drain()
    const story = await paymentSummary(world, id)
    expect(story.postings).toEqual(['capture 1000'])
    expect(story.events).toEqual(['payment.authorized', 'payment.captured', 'payment.created'])
    await checkInvariants(world)
  })

  test('refunds; the refund is ours and not imported a second time', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    await world.client.post(`/v1/payments/${id}/capture`)
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'after' },
    })
    const waiting = refund(world.client, id, { amount_minor: 400 })
    await held.hit()
    await tellAll(world, processor_reference)
    await eventually(async () =>
      expect((await paymentSummary(world, id)).refunds).toEqual([
        { status: 'succeeded', amount_minor: 400, imported: false, known: true },
      ]),
    )
    await held.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([201, 'succeeded'])
    await world.drain()
    const story = await paymentSummary(world, id)
    expect(story.refunds).toHaveLength(1)
    expect(story.postings).toEqual(['capture 1000', 'refund -400'])
    expect(story.events.filter((type) => type.startsWith('refund.'))).toEqual([
      'refund.created',
      'refund.succeeded',
    ])
    await checkInvariants(world)
  })

  test('cancels; the waiting caller still gets the answer', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: '/cancel$' },
      fault: { hold: 'after' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/cancel`, { reason: 'duplicate' })
    await held.hit()
    await tellAll(world, processor_reference)
    await paymentIn(world.client, id, 'canceled')
    await held.remove()
    const answer = await waiting
    expect([answer.status, answer.body.status]).toEqual([200, 'canceled'])
    await world.drain()
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ status: 'canceled', cancellation_reason: 'duplicate' })
    expect(story.postings).toEqual([])
    expect(story.events).toEqual(['payment.authorized', 'payment.canceled', 'payment.created'])
    await checkInvariants(world)
  })

  test('finds that a cancellation was requested meanwhile and releases the hold', async ({ world }) => {
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await held.hit()
    await world.client.post(`/v1/payments/${body.id}/cancel`, { reason: 'abandoned' }, ASYNC)
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    await tellAll(world, effects[0].payment_intent)
    await paymentIn(world.client, body.id, 'canceled')
    await held.remove()
    await world.drain()
    const story = await paymentSummary(world, body.id)
    expect(story.payment).toMatchObject({ status: 'canceled', amount_capturable_minor: 0 })
    expect(story.postings).toEqual([])
    await checkInvariants(world)
  })

  test('tells of a decline; the payment ends failed, and never asks the buyer to act', async ({ world }) => {
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const waiting = createPayment(world.client, { payment_method: 'pm_card_chargeDeclined' })
    await held.hit()
    const declined = (await listEvents(world)).findLast(
      (event) => event.type === 'payment_intent.payment_failed',
    )!
    await tellAll(world, paymentOf(declined)!)
    await held.remove()
    const answer = await waiting
    expect([answer.status, answer.body.error.code]).toEqual([402, 'payment_declined'])
    await world.drain()
    const { payment_id } = answer.body.error.context
    const story = await paymentSummary(world, payment_id)
    expect(story.payment).toMatchObject({ status: 'failed', failure: 'payment_declined' })
    expect(story.postings).toEqual([])
    expect(story.events).toEqual(['payment.created', 'payment.failed'])
    await checkInvariants(world)
  })
})

describe('changes made elsewhere', () => {
  async function tell(world: World, reference: string): Promise<void> {
    const events = shuffled(await listEvents(world, reference))
    for (const event of events) expect((await deliver(world, event)).status).toBe(200)
    await world.drain()
    for (const event of events) expect(['applied', 'ignored']).toContain(await stateOf(world, event))
  }

  test('a payment captured in the dashboard is captured here, also in part', async ({ world }) => {
    const [whole, part] = [await heldPayment(world.client), await heldPayment(world.client)]
    await dashboard(world, whole.processor_reference, 'capture')
    await dashboard(world, part.processor_reference, 'capture', { amount_to_capture: 250 })
    await tell(world, whole.processor_reference)
    await tell(world, part.processor_reference)
    const captured = { status: 'captured', amount_capturable_minor: 0, amount_refunded_minor: 0 }
    const first = await paymentSummary(world, whole.id)
    expect(first.payment).toMatchObject({ ...captured, amount_captured_minor: 1000 })
    expect(first.postings).toEqual(['capture 1000'])
    const second = await paymentSummary(world, part.id)
    expect(second.payment).toMatchObject({ ...captured, amount_captured_minor: 250 })
    expect([second.postings, second.refunds]).toEqual([['capture 250'], []])
    const again = await world.client.post(`/v1/payments/${whole.id}/capture`)
    expect([again.status, again.body.error.code]).toEqual([409, 'payment_not_capturable'])
    await checkInvariants(world)
  })

  test('a payment canceled in the dashboard is canceled here, and its released hold books nothing', async ({
    world,
  }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    await dashboard(world, processor_reference, 'cancel', { cancellation_reason: 'fraudulent' })
    const events = await listEvents(world, processor_reference)
    expect(events.map(({ type }) => type)).toContain('charge.refunded')
    await tell(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({
      status: 'canceled',
      cancellation_reason: 'fraudulent',
      amount_capturable_minor: 0,
      amount_captured_minor: 0,
      amount_refunded_minor: 0,
    })
    expect([story.refunds, story.postings]).toEqual([[], []])
    expect(story.events).toEqual(['payment.authorized', 'payment.canceled', 'payment.created'])
    await checkInvariants(world)
  })

  test('a hold that lapsed at the processor is canceled here', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    await dashboard(world, processor_reference, 'expire')
    await tell(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ status: 'canceled', amount_capturable_minor: 0 })
    expect(story.payment.cancellation_reason).not.toBeNull()
    expect(story.postings).toEqual([])
    await checkInvariants(world)
  })

  test('a hold that lapsed while we capture leaves the payment canceled and the caller refused', async ({
    world,
  }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: '/capture$' },
      fault: { hold: 'before' },
    })
    const waiting = world.client.post(`/v1/payments/${id}/capture`)
    await held.hit()
    await dashboard(world, processor_reference, 'expire')
    const events = await listEvents(world, processor_reference)
    for (const event of events) await deliver(world, event)
    await paymentIn(world.client, id, 'canceled')
    await held.remove()
    const answer = await waiting
    expect([answer.status, answer.body.error.code]).toEqual([409, 'payment_not_capturable'])
    await world.drain()
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ status: 'canceled', amount_captured_minor: 0 })
    expect(story.postings).toEqual([])
    await checkInvariants(world)
  })

  test('a buyer whose first card is declined may try another, and the payment is authorized by the webhook', async ({
    world,
  }) => {
    const { body } = await createPayment(world.client, { payment_method: undefined })
    expect(body).toMatchObject({ status: 'requires_action' })
    const confirm = (payment_method: string) =>
      world.provider('stripe').control('POST', `/payment_intents/${body.processor_reference}/confirm`, {
        payment_method,
      })
    await expect(confirm('pm_card_chargeDeclined')).rejects.toThrow('card_declined')
    await tell(world, body.processor_reference)
    expect((await world.client.get(`/v1/payments/${body.id}`)).body).toMatchObject({
      status: 'requires_action',
      failure: { code: 'payment_declined', decline_code: 'generic_decline' },
    })
    await confirm('pm_card_visa')
    await tell(world, body.processor_reference)
    const story = await paymentSummary(world, body.id)
    expect(story.payment).toMatchObject({
      status: 'authorized',
      amount_capturable_minor: 1000,
      failure: null,
    })
    expect(story.events).toEqual([
      'payment.authorization_failed',
      'payment.authorized',
      'payment.created',
      'payment.requires_action',
    ])
    await checkInvariants(world)
  })

  test('of two declines the later one holds, also where the answer about the earlier one comes later', async ({
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
    const held = await fault(world, {
      match: { method: 'GET', path: `/v1/payment_intents/${reference}` },
      fault: { hold: 'after' },
    })
    await deliver(world, first)
    await held.hit()
    const second = await decline('pm_card_chargeDeclinedInsufficientFunds')
    await deliver(world, second)
    await eventually(async () => expect(await stateOf(world, second)).toBe('applied'))
    await held.release()
    await eventually(async () => expect(await stateOf(world, first)).toBe('applied'))
    const { failure } = (await world.client.get(`/v1/payments/${id}`)).body
    expect(failure).toMatchObject({ decline_code: 'insufficient_funds' })
  })

  test('while the processor cannot be asked the notification waits, and is applied later', async ({
    world,
  }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    await dashboard(world, processor_reference, 'capture')
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

  test('an old notification about a payment that went on changes nothing', async ({ world }) => {
    const key = freshKey()
    const { id, processor_reference } = await heldPayment(world.client, { idempotency_key: key })
    await world.client.post(`/v1/payments/${id}/capture`)
    await refund(world.client, id)
    const before = await paymentSummary(world, id)
    await tell(world, processor_reference)
    expect(await paymentSummary(world, id)).toEqual(before)
    await checkInvariants(world)
  })
})
