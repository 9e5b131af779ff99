// Refunds from the processor's dashboard are imported into payments and ledger, even during refunds of Sluice.
import { describe, expect } from 'vitest'
import { checkInvariants } from './support/books.ts'
import {
  ASYNC,
  capturedPayment,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
  unknownRefund,
} from './support/payments.ts'
import {
  deliver,
  deliverAll,
  listEvents,
  refundInDashboard,
  settleRefund,
  shuffled,
  stateOf,
  paymentSummary,
  untilAttempted,
  type StripeEvent,
} from './support/stripe-events.ts'
import { createWorld, testIn, type World } from './support/world.ts'

const test = testIn({ notifications: false })

/** Delivers all events of a payment in random order. Waits for the attempts of the events, and returns the events. */
async function deliverShuffled(world: World, reference: string): Promise<StripeEvent[]> {
  const events = shuffled(await listEvents(world, reference))
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await untilAttempted(world, events)
  return events
}

async function deliverAndApply(world: World, reference: string): Promise<void> {
  const events = await deliverShuffled(world, reference)
  await world.drain()
  for (const event of events) expect(['applied', 'ignored']).toContain(await stateOf(world, event))
  await checkInvariants(world)
}

describe("refunds from the processor's dashboard", () => {
  test('a partial refund is imported, marked as imported, and leaves the remaining amount refundable', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const dashboard_refund = await refundInDashboard(world, processor_reference, 350)
    await deliverAndApply(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({
      status: 'captured',
      amount_captured_minor: 1000,
      amount_refunded_minor: 350,
      amount_refund_reserved_minor: 350,
    })
    expect(summary.postings).toEqual(['capture 1000', 'refund -350'])
    const { body: refunds } = await world.client.get(`/v1/payments/${id}/refunds`)
    expect(refunds).toMatchObject([
      {
        status: 'succeeded',
        amount_minor: 350,
        currency: 'USD',
        imported: true,
        idempotency_key: null,
        processor_reference: dashboard_refund.id,
      },
    ])
    const tooMuch = await refund(world.client, id, { amount_minor: 651 })
    expect([tooMuch.status, tooMuch.body.error.code]).toEqual([422, 'refund_exceeds_captured'])
    const rest = await refund(world.client, id)
    expect(rest.body).toMatchObject({ status: 'succeeded', amount_minor: 650 })
    await deliverAndApply(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 1000 })
  })

  test('a full refund and several partial refunds are imported once each', async ({ world }) => {
    const whole = await capturedPayment(world.client)
    await refundInDashboard(world, whole.processor_reference)
    await deliverAndApply(world, whole.processor_reference)
    const first = await paymentSummary(world, whole.id)
    expect(first.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 1000 })
    expect(first.postings).toEqual(['capture 1000', 'refund -1000'])
    const none = await refund(world.client, whole.id)
    expect([none.status, none.body.error.code]).toEqual([422, 'refund_exceeds_captured'])

    const parts = await capturedPayment(world.client)
    for (const amount of [100, 200, 300, 400])
      await refundInDashboard(world, parts.processor_reference, amount)
    await deliverAndApply(world, parts.processor_reference)
    const second = await paymentSummary(world, parts.id)
    expect(second.payment).toMatchObject({ amount_refunded_minor: 1000, amount_refund_reserved_minor: 1000 })
    expect(second.refunds.map((row) => row.amount_minor)).toEqual([100, 200, 300, 400])
    expect(second.postings).toEqual([
      'capture 1000',
      'refund -400',
      'refund -300',
      'refund -200',
      'refund -100',
    ])
  })

  test('a refund with 100 concurrent webhooks is imported once', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    await refundInDashboard(world, processor_reference, 500)
    const events = (await listEvents(world, processor_reference)).flatMap((event) =>
      Array.from({ length: 100 }, () => event),
    )
    await deliverAll(world, shuffled(events))
    await world.drain()
    const summary = await paymentSummary(world, id)
    expect(summary.refunds).toEqual([{ status: 'succeeded', amount_minor: 500, imported: true, known: true }])
    expect(summary.postings).toEqual(['capture 1000', 'refund -500'])
    await checkInvariants(world)
  })

  test('a notification of a refund waits for the capture', async ({ world }) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    await refundInDashboard(world, processor_reference, 200)
    const events = await listEvents(world, processor_reference)
    const created = events.filter((event) => event.type === 'refund.created')
    for (const event of created) await deliver(world, event)
    await untilAttempted(world, created)
    expect((await paymentSummary(world, id)).payment).toMatchObject({
      status: 'authorized',
      amount_refunded_minor: 0,
    })
    await deliverAndApply(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 200 })
    expect(summary.postings).toEqual(['capture 1000', 'refund -200'])
  })

  test('an imported refund is pending while the refund is pending at the processor', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client, {
      payment_method: 'pm_card_pendingRefund',
    })
    const dashboard_refund = await refundInDashboard(world, processor_reference, 200)
    await deliverAndApply(world, processor_reference)
    const pending = await paymentSummary(world, id)
    expect(pending.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 200 })
    expect(pending.refunds).toMatchObject([{ status: 'pending', imported: true }])
    await settleRefund(world, dashboard_refund.id, 'succeeded')
    await deliverAndApply(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 200 })
  })
})

describe('refunds that fail later', () => {
  test("a refund that fails later returns its amount, whether it comes from the processor's dashboard or from Sluice", async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const own_refund = await refund(world.client, id, { amount_minor: 300 })
    const dashboard_refund = await refundInDashboard(world, processor_reference, 200)
    await deliverAndApply(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 500 })

    await settleRefund(world, own_refund.body.processor_reference, 'failed')
    await settleRefund(world, dashboard_refund.id, 'failed')
    await deliverAndApply(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 0 })
    expect(summary.refunds.map((row) => row.status)).toEqual(['failed', 'failed'])
    expect(summary.postings).toEqual([
      'capture 1000',
      'refund -300',
      'refund -200',
      'refund_failed 200',
      'refund_failed 300',
    ])
    expect(summary.events.filter((type) => type === 'refund.failed')).toHaveLength(2)
    // Late repetitions of the events of success change nothing.
    await deliverAndApply(world, processor_reference)
    expect(await paymentSummary(world, id)).toEqual(summary)
    const full_refund = await refund(world.client, id)
    expect(full_refund.body).toMatchObject({ status: 'succeeded', amount_minor: 1000 })
  })

  test('a refund that fails before its notification is imported as failed and reserves nothing', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const dashboard_refund = await refundInDashboard(world, processor_reference, 1000)
    await settleRefund(world, dashboard_refund.id, 'failed')
    const own_refund = await refund(world.client, id)
    expect(own_refund.body).toMatchObject({ status: 'succeeded', amount_minor: 1000 })
    await deliverAndApply(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ amount_refunded_minor: 1000, amount_refund_reserved_minor: 1000 })
    expect(summary.refunds.map(({ status, imported }) => `${status} ${imported}`).toSorted()).toEqual([
      'failed true',
      'succeeded false',
    ])
    expect(summary.postings).toEqual(['capture 1000', 'refund -1000'])
    expect(summary.events.filter((type) => type.startsWith('refund.'))).toEqual([
      'refund.created',
      'refund.created',
      'refund.failed',
      'refund.succeeded',
    ])
  })
})

describe('during a refund of Sluice', () => {
  test('both of two refunds that fit within the captured amount are posted', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'before' },
    })
    const waiting = refund(world.client, id, { amount_minor: 600 })
    await hold.hit()
    await refundInDashboard(world, processor_reference, 400)
    await deliverShuffled(world, processor_reference)
    await hold.remove()
    expect((await waiting).body).toMatchObject({ status: 'succeeded' })
    await deliverAndApply(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 1000 })
  })

  test("of two refunds that together exceed the captured amount, the processor's refund is posted and Sluice's refund fails", async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'before' },
    })
    const { body: own_refund } = await refund(world.client, id, { amount_minor: 600 }, ASYNC)
    await hold.hit()
    await refundInDashboard(world, processor_reference, 700)
    const events = await deliverShuffled(world, processor_reference)
    // The imported refund exceeds the unreserved amount, so the refund is not posted yet.
    const meanwhile = await paymentSummary(world, id)
    expect(meanwhile.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 600 })
    expect(meanwhile.postings).toEqual(['capture 1000'])
    await hold.remove()
    await eventually(async () => {
      const { body } = await world.client.get(`/v1/refunds/${own_refund.id}`)
      expect(body).toMatchObject({ status: 'failed' })
    })
    await world.drain()
    for (const event of events) expect(await stateOf(world, event)).toBe('applied')
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ amount_refunded_minor: 700, amount_refund_reserved_minor: 700 })
    expect(summary.refunds).toEqual([
      { status: 'failed', amount_minor: 600, imported: false, known: false },
      { status: 'succeeded', amount_minor: 700, imported: true, known: true },
    ])
    expect(summary.postings).toEqual(['capture 1000', 'refund -700'])
    await checkInvariants(world)
  })

  test('a refund whose response is lost is settled once by its webhook', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const lost = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { drop_after: true },
    })
    const waiting = refund(world.client, id, { amount_minor: 600 })
    await lost.hit()
    await deliverShuffled(world, processor_reference)
    expect((await waiting).body).toMatchObject({ status: 'succeeded', amount_minor: 600 })
    await deliverAndApply(world, processor_reference)
    const summary = await paymentSummary(world, id)
    expect(summary.refunds).toEqual([
      { status: 'succeeded', amount_minor: 600, imported: false, known: true },
    ])
    expect(summary.postings).toEqual(['capture 1000', 'refund -600'])
  })
})

describe('a processor that reports released holds as refunds', () => {
  test('released holds of cancellations and partial captures are not imported as refunds', async () => {
    const other = await createWorld({
      notifications: false,
      providers: { stripe: { release_refunds: true } },
    })
    try {
      const canceled = await authorizedPayment(other.client)
      await other.client.post(`/v1/payments/${canceled.id}/cancel`)
      const part = await authorizedPayment(other.client)
      await other.client.post(`/v1/payments/${part.id}/capture`, { amount_minor: 600 })
      const events = await listEvents(other)
      expect(events.filter(({ type }) => type === 'refund.created')).toHaveLength(2)
      for (const event of shuffled(events)) await deliver(other, event)
      await other.drain()
      expect((await paymentIn(other.client, canceled.id, 'canceled')).amount_refunded_minor).toBe(0)
      const summary = await paymentSummary(other, part.id)
      expect(summary.payment).toMatchObject({ amount_captured_minor: 600, amount_refunded_minor: 0 })
      expect([summary.refunds, summary.postings]).toEqual([[], ['capture 600']])
      await checkInvariants(other)
    } finally {
      await other.close()
    }
  })
})

describe('foreign objects with ids of Sluice', () => {
  test('a copied payment is parked, a copied refund is imported separately, and a refund of another amount is a drift', async () => {
    const other = await createWorld({ notifications: false })
    try {
      const api = async (path: string, form: Record<string, string>): Promise<any> => {
        const { url, api_key } = other.provider('stripe')
        const response = await fetch(`${url}/v1/${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${api_key}` },
          body: new URLSearchParams(form),
        })
        return await response.json()
      }
      const { id, processor_reference } = await authorizedPayment(other.client)
      const copy = await api('payment_intents', {
        amount: '1000',
        currency: 'usd',
        capture_method: 'automatic',
        confirm: 'true',
        payment_method: 'pm_card_visa',
        'automatic_payment_methods[enabled]': 'true',
        'automatic_payment_methods[allow_redirects]': 'never',
        'metadata[sluice_payment_id]': id,
        'metadata[sluice_tenant_id]': other.tenant_id,
      })
      const events = await listEvents(other, copy.id)
      for (const event of events) await deliver(other, event)
      await untilAttempted(other, events)
      for (const event of events) expect(await stateOf(other, event)).toBe('parked')
      expect((await paymentSummary(other, id)).payment).toMatchObject({ status: 'authorized' })

      await other.client.post(`/v1/payments/${id}/capture`)
      const { body: own_refund } = await refund(other.client, id, { amount_minor: 100 })
      await api('refunds', {
        payment_intent: processor_reference,
        amount: '250',
        'metadata[sluice_refund_id]': own_refund.id,
        'metadata[sluice_payment_id]': id,
        'metadata[sluice_tenant_id]': other.tenant_id,
      })
      for (const event of await listEvents(other, processor_reference)) await deliver(other, event)
      await other.drain()
      const summary = await paymentSummary(other, id)
      expect(summary.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 350 })
      expect(summary.refunds.map(({ amount_minor, imported }) => [amount_minor, imported])).toEqual([
        [100, false],
        [250, true],
      ])
      expect(summary.postings).toEqual(['capture 1000', 'refund -250', 'refund -100'])

      // This refund has another amount, and the ids of a refund that has no effect yet.
      const { payment, refund_id } = await unknownRefund(other, 300)
      const mismatched = await api('refunds', {
        payment_intent: payment.processor_reference,
        amount: '200',
        'metadata[sluice_refund_id]': refund_id,
        'metadata[sluice_payment_id]': payment.id,
        'metadata[sluice_tenant_id]': other.tenant_id,
      })
      const mismatched_events = await listEvents(other, payment.processor_reference)
      for (const event of mismatched_events) await deliver(other, event)
      await untilAttempted(other, mismatched_events)
      expect((await paymentSummary(other, payment.id)).postings).toEqual(['capture 1000'])
      const drifts = (await other.client.get(`/v1/reconciliation?payment_id=${payment.id}&subject=refund`))
        .body
      expect(drifts).toMatchObject([
        {
          state: 'differs',
          ours: { status: 'pending', amount_minor: 300, processor_reference: null },
          theirs: { status: 'succeeded', amount_minor: 200, processor_reference: mismatched.id },
        },
      ])
    } finally {
      await other.close()
    }
  })
})
