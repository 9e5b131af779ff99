// Refunds made in the processor's dashboard: taken into state and ledger, whatever is under way here.
import { describe, expect } from 'vitest'
import { checkInvariants } from './support/books.ts'
import {
  ASYNC,
  capturedPayment,
  eventually,
  fault,
  heldPayment,
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
  tried,
  type StripeEvent,
} from './support/stripe-events.ts'
import { createWorld, testIn, type World } from './support/world.ts'

const test = testIn({ notifications: false })

/** Delivers what was not delivered yet of a payment, shuffled; answers it. */
async function tell(world: World, reference: string): Promise<StripeEvent[]> {
  const events = shuffled(await listEvents(world, reference))
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await tried(world, events)
  return events
}

async function tellAll(world: World, reference: string): Promise<void> {
  const events = await tell(world, reference)
  await world.drain()
  for (const event of events) expect(['applied', 'ignored']).toContain(await stateOf(world, event))
  await checkInvariants(world)
}

describe('a refund made in the dashboard', () => {
  test('of a part is imported, shown as such, and leaves the rest to refund', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const theirs = await refundInDashboard(world, processor_reference, 350)
    await tellAll(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({
      status: 'captured',
      amount_captured_minor: 1000,
      amount_refunded_minor: 350,
      amount_refund_reserved_minor: 350,
    })
    expect(story.postings).toEqual(['capture 1000', 'refund -350'])
    const { body: refunds } = await world.client.get(`/v1/payments/${id}/refunds`)
    expect(refunds).toMatchObject([
      {
        status: 'succeeded',
        amount_minor: 350,
        currency: 'USD',
        imported: true,
        idempotency_key: null,
        processor_reference: theirs.id,
      },
    ])
    const tooMuch = await refund(world.client, id, { amount_minor: 651 })
    expect([tooMuch.status, tooMuch.body.error.code]).toEqual([422, 'refund_exceeds_captured'])
    const rest = await refund(world.client, id)
    expect(rest.body).toMatchObject({ status: 'succeeded', amount_minor: 650 })
    await tellAll(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 1000 })
  })

  test('of everything, at once or in parts, is imported once each', async ({ world }) => {
    const whole = await capturedPayment(world.client)
    await refundInDashboard(world, whole.processor_reference)
    await tellAll(world, whole.processor_reference)
    const first = await paymentSummary(world, whole.id)
    expect(first.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 1000 })
    expect(first.postings).toEqual(['capture 1000', 'refund -1000'])
    const none = await refund(world.client, whole.id)
    expect([none.status, none.body.error.code]).toEqual([422, 'refund_exceeds_captured'])

    const parts = await capturedPayment(world.client)
    for (const amount of [100, 200, 300, 400])
      await refundInDashboard(world, parts.processor_reference, amount)
    await tellAll(world, parts.processor_reference)
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

  test('is imported once, though 100 of its webhooks come at once', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    await refundInDashboard(world, processor_reference, 500)
    const events = (await listEvents(world, processor_reference)).flatMap((event) =>
      Array.from({ length: 100 }, () => event),
    )
    await deliverAll(world, shuffled(events))
    await world.drain()
    const story = await paymentSummary(world, id)
    expect(story.refunds).toEqual([{ status: 'succeeded', amount_minor: 500, imported: true, known: true }])
    expect(story.postings).toEqual(['capture 1000', 'refund -500'])
    await checkInvariants(world)
  })

  test('that arrives before the capture is known waits for it', async ({ world }) => {
    const { id, processor_reference } = await heldPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    await refundInDashboard(world, processor_reference, 200)
    const events = await listEvents(world, processor_reference)
    const created = events.filter((event) => event.type === 'refund.created')
    for (const event of created) await deliver(world, event)
    await tried(world, created)
    expect((await paymentSummary(world, id)).payment).toMatchObject({
      status: 'authorized',
      amount_refunded_minor: 0,
    })
    await tellAll(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 200 })
    expect(story.postings).toEqual(['capture 1000', 'refund -200'])
  })

  test('is pending here while it is pending there', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client, {
      payment_method: 'pm_card_pendingRefund',
    })
    const theirs = await refundInDashboard(world, processor_reference, 200)
    await tellAll(world, processor_reference)
    const pending = await paymentSummary(world, id)
    expect(pending.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 200 })
    expect(pending.refunds).toMatchObject([{ status: 'pending', imported: true }])
    await settleRefund(world, theirs.id, 'succeeded')
    await tellAll(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 200 })
  })
})

describe('a refund that fails later', () => {
  test('gives the money back, made in the dashboard or here', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const ours = await refund(world.client, id, { amount_minor: 300 })
    const theirs = await refundInDashboard(world, processor_reference, 200)
    await tellAll(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 500 })

    await settleRefund(world, ours.body.processor_reference, 'failed')
    await settleRefund(world, theirs.id, 'failed')
    await tellAll(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 0 })
    expect(story.refunds.map((row) => row.status)).toEqual(['failed', 'failed'])
    expect(story.postings).toEqual([
      'capture 1000',
      'refund -300',
      'refund -200',
      'refund_failed 200',
      'refund_failed 300',
    ])
    expect(story.events.filter((type) => type === 'refund.failed')).toHaveLength(2)
    // Late repetitions of the good news do not bring it back.
    await tellAll(world, processor_reference)
    expect(await paymentSummary(world, id)).toEqual(story)
    const again = await refund(world.client, id)
    expect(again.body).toMatchObject({ status: 'succeeded', amount_minor: 1000 })
  })

  test('before we hear of it is imported as failed and reserves nothing', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const theirs = await refundInDashboard(world, processor_reference, 1000)
    await settleRefund(world, theirs.id, 'failed')
    const ours = await refund(world.client, id)
    expect(ours.body).toMatchObject({ status: 'succeeded', amount_minor: 1000 })
    await tellAll(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ amount_refunded_minor: 1000, amount_refund_reserved_minor: 1000 })
    expect(story.refunds.map(({ status, imported }) => `${status} ${imported}`).toSorted()).toEqual([
      'failed true',
      'succeeded false',
    ])
    expect(story.postings).toEqual(['capture 1000', 'refund -1000'])
    expect(story.events.filter((type) => type.startsWith('refund.'))).toEqual([
      'refund.created',
      'refund.created',
      'refund.failed',
      'refund.succeeded',
    ])
  })
})

describe('while one of ours is under way', () => {
  test('both fit: both are booked', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'before' },
    })
    const waiting = refund(world.client, id, { amount_minor: 600 })
    await held.hit()
    await refundInDashboard(world, processor_reference, 400)
    await tell(world, processor_reference)
    await held.remove()
    expect((await waiting).body).toMatchObject({ status: 'succeeded' })
    await tellAll(world, processor_reference)
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refunded_minor: 1000 })
  })

  test('together they exceed what was captured: the one that the processor made is booked, ours fails', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { hold: 'before' },
    })
    const { body: ours } = await refund(world.client, id, { amount_minor: 600 }, ASYNC)
    await held.hit()
    await refundInDashboard(world, processor_reference, 700)
    const events = await tell(world, processor_reference)
    // It does not fit beside our reservation yet, and no money is invented.
    const meanwhile = await paymentSummary(world, id)
    expect(meanwhile.payment).toMatchObject({ amount_refunded_minor: 0, amount_refund_reserved_minor: 600 })
    expect(meanwhile.postings).toEqual(['capture 1000'])
    await held.remove()
    await eventually(async () => {
      const { body } = await world.client.get(`/v1/refunds/${ours.id}`)
      expect(body).toMatchObject({ status: 'failed' })
    })
    await world.drain()
    for (const event of events) expect(await stateOf(world, event)).toBe('applied')
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ amount_refunded_minor: 700, amount_refund_reserved_minor: 700 })
    expect(story.refunds).toEqual([
      { status: 'failed', amount_minor: 600, imported: false, known: false },
      { status: 'succeeded', amount_minor: 700, imported: true, known: true },
    ])
    expect(story.postings).toEqual(['capture 1000', 'refund -700'])
    await checkInvariants(world)
  })

  test('ours whose answer is lost is settled by its webhook, once', async ({ world }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    const lost = await fault(world, {
      match: { method: 'POST', path: '/v1/refunds$' },
      fault: { drop_after: true },
    })
    const waiting = refund(world.client, id, { amount_minor: 600 })
    await lost.hit()
    await tell(world, processor_reference)
    expect((await waiting).body).toMatchObject({ status: 'succeeded', amount_minor: 600 })
    await tellAll(world, processor_reference)
    const story = await paymentSummary(world, id)
    expect(story.refunds).toEqual([{ status: 'succeeded', amount_minor: 600, imported: false, known: true }])
    expect(story.postings).toEqual(['capture 1000', 'refund -600'])
  })
})

describe('where the processor shows a released hold as a refund', () => {
  test('nothing is imported, neither for a cancellation nor for the rest of a partial capture', async () => {
    const other = await createWorld({
      notifications: false,
      providers: { stripe: { release_refunds: true } },
    })
    try {
      const canceled = await heldPayment(other.client)
      await other.client.post(`/v1/payments/${canceled.id}/cancel`)
      const part = await heldPayment(other.client)
      await other.client.post(`/v1/payments/${part.id}/capture`, { amount_minor: 600 })
      const events = await listEvents(other)
      expect(events.filter(({ type }) => type === 'refund.created')).toHaveLength(2)
      for (const event of shuffled(events)) await deliver(other, event)
      await other.drain()
      expect((await paymentIn(other.client, canceled.id, 'canceled')).amount_refunded_minor).toBe(0)
      const story = await paymentSummary(other, part.id)
      expect(story.payment).toMatchObject({ amount_captured_minor: 600, amount_refunded_minor: 0 })
      expect([story.refunds, story.postings]).toEqual([[], ['capture 600']])
      await checkInvariants(other)
    } finally {
      await other.close()
    }
  })
})

describe('our ids on something that is not ours', () => {
  test('change nothing: a copied payment is parked, a copied refund is imported as another, and other money is a drift', async () => {
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
      const { id, processor_reference } = await heldPayment(other.client)
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
      await tried(other, events)
      for (const event of events) expect(await stateOf(other, event)).toBe('parked')
      expect((await paymentSummary(other, id)).payment).toMatchObject({ status: 'authorized' })

      await other.client.post(`/v1/payments/${id}/capture`)
      const { body: ours } = await refund(other.client, id, { amount_minor: 100 })
      await api('refunds', {
        payment_intent: processor_reference,
        amount: '250',
        'metadata[sluice_refund_id]': ours.id,
        'metadata[sluice_payment_id]': id,
        'metadata[sluice_tenant_id]': other.tenant_id,
      })
      for (const event of await listEvents(other, processor_reference)) await deliver(other, event)
      await other.drain()
      const story = await paymentSummary(other, id)
      expect(story.payment).toMatchObject({ status: 'captured', amount_refunded_minor: 350 })
      expect(story.refunds.map(({ amount_minor, imported }) => [amount_minor, imported])).toEqual([
        [100, false],
        [250, true],
      ])
      expect(story.postings).toEqual(['capture 1000', 'refund -250', 'refund -100'])

      // It bears the ids of a refund whose own never took effect, and is of another amount.
      const { payment, refund_id } = await unknownRefund(other, 300)
      const strange = await api('refunds', {
        payment_intent: payment.processor_reference,
        amount: '200',
        'metadata[sluice_refund_id]': refund_id,
        'metadata[sluice_payment_id]': payment.id,
        'metadata[sluice_tenant_id]': other.tenant_id,
      })
      const told = await listEvents(other, payment.processor_reference)
      for (const event of told) await deliver(other, event)
      await tried(other, told)
      expect((await paymentSummary(other, payment.id)).postings).toEqual(['capture 1000'])
      const drifts = (await other.client.get(`/v1/reconciliation?payment_id=${payment.id}&subject=refund`))
        .body
      expect(drifts).toMatchObject([
        {
          state: 'differs',
          ours: { status: 'pending', amount_minor: 300, processor_reference: null },
          theirs: { status: 'succeeded', amount_minor: 200, processor_reference: strange.id },
        },
      ])
    } finally {
      await other.close()
    }
  })
})
