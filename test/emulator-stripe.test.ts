// Tests with Stripe's SDK that the Stripe emulator behaves like Stripe.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Stripe } from 'stripe'
import { afterEach, describe, expect, test } from 'vitest'
import { signStripe, startStripeEmulator, type StripeEmulatorOptions } from '#emulators/stripe/main.ts'
import { eventually } from '#test/payments.ts'
import { requestBytes, sendBytes } from '#test/raw.ts'
import {
  clientsOf,
  EMULATOR_KEY,
  postForm,
  pressButton,
  refusal,
  runEmulator,
} from '#test/stripe-emulator.ts'

const SECRET = 'whsec_dGVzdA=='

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const close of cleanups.splice(0).toReversed()) await close()
})

async function start(options: Partial<StripeEmulatorOptions> = {}) {
  const emulator = await startStripeEmulator({ port: 0, api_key: EMULATOR_KEY, ...options })
  cleanups.push(() => emulator.close())
  return { ...emulator, ...clientsOf(emulator.url) }
}

const HOLD: Stripe.PaymentIntentCreateParams = {
  amount: 1000,
  currency: 'usd',
  capture_method: 'manual',
  payment_method: 'pm_card_visa',
  confirm: true,
  automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
}
const SALE: Stripe.PaymentIntentCreateParams = { ...HOLD, capture_method: 'automatic' }

/** The types of all events, oldest first. */
async function eventTypes(stripe: Stripe): Promise<string[]> {
  const { data } = await stripe.events.list({ limit: 100 })
  return data.map((each) => each.type).toReversed()
}

const CREATE = 'amount=500&currency=usd'

describe('payment intents', () => {
  test('a hold is authorized and captured in part, and its remainder is released', async () => {
    const { stripe, control } = await start({ capture_window_ms: 3_600_000 })
    const authorized = await stripe.paymentIntents.create({
      ...HOLD,
      description: 'A chair',
      metadata: { order: '7', 'a{b}': 'x & y = z +1 é' },
      expand: ['latest_charge'],
    })
    expect(authorized).toMatchObject({
      object: 'payment_intent',
      status: 'requires_capture',
      amount: 1000,
      amount_capturable: 1000,
      amount_received: 0,
      currency: 'usd',
      capture_method: 'manual',
      description: 'A chair',
      livemode: false,
      metadata: { order: '7' },
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
    })
    expect(authorized.id).toMatch(/^pi_/)
    expect(authorized.client_secret).toMatch(new RegExp(`^${authorized.id}_secret_`))
    expect(authorized.payment_method).toMatch(/^pm_/)
    const charge = authorized.latest_charge as Stripe.Charge
    expect(charge).toMatchObject({
      object: 'charge',
      captured: false,
      amount_captured: 0,
      amount_refunded: 0,
      paid: true,
      status: 'succeeded',
    })
    expect(charge.payment_method_details!.card!.capture_before).toBe(charge.created + 3600)

    const captured = await stripe.paymentIntents.capture(authorized.id, {
      amount_to_capture: 600,
      expand: ['latest_charge.payment_intent'],
    })
    expect(captured).toMatchObject({ status: 'succeeded', amount_capturable: 0, amount_received: 600 })
    expect(captured.latest_charge).toMatchObject({
      captured: true,
      amount_captured: 600,
      amount_refunded: 400,
      refunded: false,
      payment_intent: { id: authorized.id },
    })
    expect(await stripe.charges.retrieve(charge.id)).toMatchObject({
      amount_captured: 600,
      payment_intent: authorized.id,
    })
    expect(
      (await stripe.charges.list({ payment_intent: authorized.id })).data.map((each) => each.id),
    ).toEqual([charge.id])

    expect(await eventTypes(stripe)).toEqual([
      'payment_intent.created',
      'charge.succeeded',
      'payment_intent.amount_capturable_updated',
      'charge.captured',
      'payment_intent.succeeded',
      'charge.updated',
    ])
    expect((await control('GET', 'effects')).data).toMatchObject([
      {
        seq: 1,
        effect: 'authorize',
        payment_intent: authorized.id,
        amount: 1000,
        currency: 'usd',
        source: 'api',
        metadata: { order: '7' },
      },
      { seq: 2, effect: 'capture', payment_intent: authorized.id, amount: 600 },
    ])
    expect(await control('GET', 'effects?effect=capture&metadata[order]=7')).toMatchObject({
      count: 1,
      amount: 600,
    })
    expect(await control('GET', 'effects?metadata[order]=8')).toMatchObject({ count: 0 })
  })

  test('an automatic capture happens at the confirmation', async () => {
    const { stripe, control } = await start()
    const sold = await stripe.paymentIntents.create(SALE)
    expect(sold).toMatchObject({ status: 'succeeded', amount_received: 1000, amount_capturable: 0 })
    expect(await eventTypes(stripe)).toEqual([
      'payment_intent.created',
      'charge.succeeded',
      'payment_intent.succeeded',
      'charge.updated',
    ])
    expect((await control('GET', 'effects')).data.map((each: any) => each.effect)).toEqual([
      'authorize',
      'capture',
    ])
  })

  test('a payment intent needs a payment method, then a confirmation', async () => {
    const { stripe, control } = await start()
    const empty = await stripe.paymentIntents.create({
      amount: 700,
      currency: 'eur',
      capture_method: 'manual',
    })
    expect(empty).toMatchObject({ status: 'requires_payment_method', currency: 'eur', latest_charge: null })
    expect(await refusal(stripe.paymentIntents.confirm(empty.id))).toMatchObject({
      code: 'payment_intent_unexpected_state',
      statusCode: 400,
    })
    expect(
      await control('POST', `payment_intents/${empty.id}/confirm`, { payment_method: 'pm_card_mastercard' }),
    ).toMatchObject({ status: 'requires_capture' })

    const ready = await stripe.paymentIntents.create({
      amount: 700,
      currency: 'eur',
      payment_method: 'pm_card_visa',
    })
    expect(ready.status).toBe('requires_confirmation')
    const updated = await stripe.paymentIntents.update(ready.id, { amount: 800, metadata: { a: '1' } })
    expect(updated).toMatchObject({ amount: 800, metadata: { a: '1' } })
    expect(
      await stripe.paymentIntents.confirm(ready.id, { return_url: 'https://example.com/back' }),
    ).toMatchObject({ status: 'succeeded', amount_received: 800 })
    expect((await control('GET', 'effects?effect=authorize')).data.map((each: any) => each.source)).toEqual([
      'browser',
      'api',
    ])
  })

  test.each([
    ['pm_card_visa_chargeDeclined', { code: 'card_declined', decline_code: 'generic_decline' }],
    [
      'pm_card_visa_chargeDeclinedInsufficientFunds',
      { code: 'card_declined', decline_code: 'insufficient_funds' },
    ],
    ['pm_card_chargeDeclinedExpiredCard', { code: 'expired_card' }],
  ])('%s is declined with a 402 that contains the intent', async (payment_method, reason) => {
    const { stripe, control } = await start()
    const error = await refusal(stripe.paymentIntents.create({ ...HOLD, payment_method }))
    expect(error).toMatchObject({ statusCode: 402, rawType: 'card_error', ...reason })
    expect(error.charge).toMatch(/^ch_/)
    expect(error.requestId).toMatch(/^req_/)
    const intent = await stripe.paymentIntents.retrieve(error.payment_intent!.id)
    expect(intent).toMatchObject({
      status: 'requires_payment_method',
      payment_method: null,
      last_payment_error: { ...reason, type: 'card_error' },
    })
    expect(await eventTypes(stripe)).toEqual([
      'payment_intent.created',
      'charge.failed',
      'payment_intent.payment_failed',
    ])
    expect(await control('GET', 'effects')).toMatchObject({ count: 0 })
  })

  test('the buyer completes or fails an authentication', async () => {
    const { stripe, control } = await start()
    const params: Stripe.PaymentIntentCreateParams = {
      ...HOLD,
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://shop.example/back',
    }
    const first = await stripe.paymentIntents.create(params)
    expect(first).toMatchObject({
      status: 'requires_action',
      next_action: { type: 'redirect_to_url', redirect_to_url: { return_url: params.return_url } },
    })
    const page = first.next_action!.redirect_to_url!.url!
    expect(await (await fetch(page)).text()).toContain('Complete authentication')
    const back = await fetch(page, {
      method: 'POST',
      body: new URLSearchParams({ outcome: 'succeed' }),
      redirect: 'manual',
    })
    expect(back.status).toBe(303)
    expect(back.headers.get('location')).toContain(`https://shop.example/back?payment_intent=${first.id}`)
    expect(await stripe.paymentIntents.retrieve(first.id)).toMatchObject({
      status: 'requires_capture',
      next_action: null,
    })

    const second = await stripe.paymentIntents.create({
      ...params,
      payment_method: 'pm_card_threeDSecure2Required',
      return_url: undefined,
    })
    expect(second.next_action!.type).toBe('use_stripe_sdk')
    const third = await stripe.paymentIntents.create({ ...params, return_url: undefined })
    const answered = await fetch(page.replace(first.id, third.id), {
      method: 'POST',
      body: new URLSearchParams({ outcome: 'succeed' }),
    })
    expect([answered.status, answered.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(await answered.text()).toContain('Thank you. You can close this page.')
    expect(
      await control('POST', `payment_intents/${second.id}/authenticate`, { outcome: 'fail' }),
    ).toMatchObject({
      status: 'requires_payment_method',
      last_payment_error: { code: 'payment_intent_authentication_failure' },
    })
    const types = await eventTypes(stripe)
    expect(types).toContain('payment_intent.requires_action')
    expect(types.at(-1)).toBe('payment_intent.payment_failed')
    expect(await refusal(stripe.paymentIntents.create({ ...params, off_session: true }))).toMatchObject({
      code: 'authentication_required',
    })
  })

  test('a cancellation releases a hold, and refuses later cancellations and captures', async () => {
    const { stripe, control } = await start()
    const authorized = await stripe.paymentIntents.create(HOLD)
    const canceled = await stripe.paymentIntents.cancel(authorized.id, { cancellation_reason: 'abandoned' })
    expect(canceled).toMatchObject({
      status: 'canceled',
      cancellation_reason: 'abandoned',
      amount_capturable: 0,
    })
    expect(canceled.canceled_at).toBeGreaterThan(0)
    expect((await eventTypes(stripe)).slice(-2)).toEqual(['charge.refunded', 'payment_intent.canceled'])
    expect((await stripe.refunds.list({ payment_intent: authorized.id })).data).toEqual([])
    for (const refused of [
      stripe.paymentIntents.cancel(authorized.id),
      stripe.paymentIntents.capture(authorized.id),
    ]) {
      const error = await refusal(refused)
      expect(error).toMatchObject({
        statusCode: 400,
        code: 'payment_intent_unexpected_state',
        payment_intent: { id: authorized.id, status: 'canceled' },
      })
    }
    expect((await control('GET', 'effects')).data.map((each: any) => [each.effect, each.amount])).toEqual([
      ['authorize', 1000],
      ['cancel', 1000],
    ])
  })

  test('a hold expires by a control request, and by the clock', async () => {
    const { stripe, control } = await start()
    const [expired, timed] = [
      await stripe.paymentIntents.create(HOLD),
      await stripe.paymentIntents.create(HOLD),
    ]
    await control('POST', `payment_intents/${expired.id}/expire`)
    expect(await stripe.paymentIntents.retrieve(expired.id)).toMatchObject({
      status: 'canceled',
      cancellation_reason: 'automatic',
    })
    expect(await eventTypes(stripe)).toContain('charge.expired')
    await control('POST', 'clock', { advance_ms: 7 * 24 * 3_600_000 + 1000 })
    expect(await refusal(stripe.paymentIntents.capture(timed.id))).toMatchObject({
      code: 'payment_intent_unexpected_state',
    })
    expect(await control('GET', 'effects?source=expiry')).toMatchObject({
      count: 2,
      data: [{ effect: 'cancel' }, { effect: 'cancel' }],
    })
  })

  test('a hold expires by itself after the capture window', async () => {
    const { stripe, control } = await start({ capture_window_ms: 50 })
    await stripe.paymentIntents.create(HOLD)
    // A request to the API would expire the hold; this control does not.
    await eventually(async () =>
      expect(await control('GET', 'effects?source=expiry')).toMatchObject({ count: 1 }),
    )
  })

  test('after the clock was moved, a hold expires by itself at the new time', async () => {
    const { stripe, control } = await start()
    await stripe.paymentIntents.create(HOLD)
    await control('POST', 'clock', { advance_ms: 7 * 24 * 3_600_000 - 100 })
    // The timer that the creation has set ends after a minute.
    await eventually(
      async () => expect(await control('GET', 'effects?source=expiry')).toMatchObject({ count: 1 }),
      30_000,
    )
  })

  test('a clock that is moved forward also performs the decisions of banks', async () => {
    const { stripe, control } = await start({ late_return_ms: 3_600_000 })
    const { id } = await stripe.payouts.create({
      amount: 500,
      currency: 'usd',
      destination: 'ba_lateReturn',
    })
    await control('POST', 'clock', { advance_ms: 2 * 3_600_000 })
    expect((await stripe.payouts.retrieve(id)).status).toBe('failed')
  })

  test("the emulator's dashboard can capture and cancel payment intents", async () => {
    const { stripe, control } = await start()
    const [one, two] = [await stripe.paymentIntents.create(HOLD), await stripe.paymentIntents.create(HOLD)]
    expect(
      await control('POST', `payment_intents/${one.id}/capture`, { amount_to_capture: 900 }),
    ).toMatchObject({ amount_received: 900 })
    expect(await control('POST', `payment_intents/${two.id}/cancel`)).toMatchObject({ status: 'canceled' })
    expect(await control('GET', 'effects?source=dashboard')).toMatchObject({ count: 2 })
    expect((await stripe.events.list({ type: 'payment_intent.canceled' })).data[0]!.request).toEqual({
      id: null,
      idempotency_key: null,
    })
  })

  test('lists have pages, and searches match metadata', async () => {
    const { stripe } = await start()
    const ids: string[] = []
    for (const n of [1, 2, 3]) {
      const metadata = { n: String(n), quoted: "it's" }
      ids.unshift((await stripe.paymentIntents.create({ amount: 500 + n, currency: 'usd', metadata })).id)
    }
    const first = await stripe.paymentIntents.list({ limit: 2 })
    expect([first.data.map((each) => each.id), first.has_more]).toEqual([ids.slice(0, 2), true])
    const rest = await stripe.paymentIntents.list({ limit: 2, starting_after: ids[1], created: { gte: 1 } })
    expect([rest.data.map((each) => each.id), rest.has_more]).toEqual([ids.slice(2), false])
    expect((await stripe.paymentIntents.list({ created: { lt: 1 } })).data).toEqual([])

    const search = async (query: string) =>
      (await stripe.paymentIntents.search({ query })).data.map((each) => each.id)
    expect(await search("metadata['n']:'2'")).toEqual([ids[1]])
    expect(await search(`metadata["quoted"]:'it\\'s' AND -metadata['n']:'2'`)).toEqual([ids[0], ids[2]])
    expect(await search("status:'succeeded'")).toEqual([])
    expect(await refusal(stripe.paymentIntents.search({ query: 'what?' }))).toMatchObject({ statusCode: 400 })
  })
})

test('invalid requests get the status, code and parameter of Stripe', async () => {
  const { stripe, url, control } = await start()
  const create = (changes: object) => refusal(stripe.paymentIntents.create({ ...HOLD, ...changes }))
  expect(await create({ amount: 49 })).toMatchObject({
    statusCode: 400,
    code: 'amount_too_small',
    param: 'amount',
  })
  expect(await create({ amount: 100_000_000 })).toMatchObject({ statusCode: 400, code: 'amount_too_large' })
  expect(await create({ amount: 1.5 })).toMatchObject({ statusCode: 400, code: 'parameter_invalid_integer' })
  expect(await create({ amount: undefined })).toMatchObject({ code: 'parameter_missing', param: 'amount' })
  expect(await create({ currency: 'xyz' })).toMatchObject({ statusCode: 400, param: 'currency' })
  expect(await create({ payment_method: 'pm_card_none' })).toMatchObject({
    statusCode: 400,
    code: 'resource_missing',
    param: 'payment_method',
  })
  expect(await create({ nonsense: 1 })).toMatchObject({ code: 'parameter_unknown', param: 'nonsense' })
  expect(await create({ expand: ['amount'] })).toMatchObject({ statusCode: 400, param: 'expand' })
  expect((await create({ automatic_payment_methods: { enabled: true } })).message).toContain('return_url')
  expect(await refusal(stripe.paymentIntents.retrieve('pi_none'))).toMatchObject({
    statusCode: 404,
    code: 'resource_missing',
  })
  expect(await refusal(stripe.customers.list())).toMatchObject({
    statusCode: 404,
    rawType: 'invalid_request_error',
  })
  const wrong = new Stripe('sk_test_wrong', {
    host: '127.0.0.1',
    port: new URL(url).port,
    protocol: 'http',
    telemetry: false,
    maxNetworkRetries: 0,
  })
  expect(await refusal(wrong.paymentIntents.list())).toMatchObject({
    statusCode: 401,
    type: 'StripeAuthenticationError',
  })
  expect((await fetch(`${url}/v1/events`)).status).toBe(401)

  const authorized = await stripe.paymentIntents.create(HOLD)
  expect(
    await refusal(stripe.paymentIntents.capture(authorized.id, { amount_to_capture: 1001 })),
  ).toMatchObject({
    code: 'amount_too_large',
  })
  expect(await control('GET', 'effects')).toMatchObject({ count: 1 })
})

describe('refunds', () => {
  test('refunds are limited to the captured amount', async () => {
    const { stripe, control } = await start()
    const sold = await stripe.paymentIntents.create(SALE)
    const part = await stripe.refunds.create({
      payment_intent: sold.id,
      amount: 400,
      reason: 'requested_by_customer',
      metadata: { r: '1' },
    })
    expect(part).toMatchObject({
      object: 'refund',
      status: 'succeeded',
      amount: 400,
      currency: 'usd',
      payment_intent: sold.id,
      metadata: { r: '1' },
    })
    expect(await refusal(stripe.refunds.create({ payment_intent: sold.id, amount: 601 }))).toMatchObject({
      statusCode: 400,
      message: 'Refund amount ($6.01) is greater than unrefunded amount on charge ($6.00)',
    })
    const rest = await control('POST', 'refunds', { payment_intent: sold.id })
    expect(rest).toMatchObject({ amount: 600, metadata: {} })
    expect(await refusal(stripe.refunds.create({ payment_intent: sold.id }))).toMatchObject({
      statusCode: 400,
      code: 'charge_already_refunded',
    })
    expect((await stripe.refunds.list({ payment_intent: sold.id })).data.map((each) => each.id)).toEqual([
      rest.id,
      part.id,
    ])
    expect((await stripe.charges.retrieve(sold.latest_charge as string)).refunded).toBe(true)
    expect((await eventTypes(stripe)).slice(-4)).toEqual([
      'refund.created',
      'charge.refunded',
      'refund.created',
      'charge.refunded',
    ])
    expect((await control('GET', 'effects?effect=refund')).data).toMatchObject([
      { refund: part.id, amount: 400, source: 'api', metadata: { r: '1' } },
      { refund: rest.id, amount: 600, source: 'dashboard' },
    ])
  })

  test('a succeeded refund can fail later, and can then be created again', async () => {
    const { stripe, control } = await start()
    const sold = await stripe.paymentIntents.create({ ...SALE, payment_method: 'pm_card_refundFail' })
    const refund = await stripe.refunds.create({ payment_intent: sold.id })
    expect(refund.status).toBe('succeeded')
    await control('POST', `refunds/${refund.id}/settle`, { status: 'failed' })
    expect(await stripe.refunds.retrieve(refund.id)).toMatchObject({
      status: 'failed',
      failure_reason: 'expired_or_canceled_card',
    })
    expect((await eventTypes(stripe)).slice(-3)).toEqual([
      'refund.updated',
      'refund.failed',
      'charge.refund.updated',
    ])
    expect(
      (await stripe.events.list({ type: 'refund.updated' })).data[0]!.data.previous_attributes,
    ).toMatchObject({ status: 'succeeded' })
    expect(await control('GET', 'effects?effect=refund_failed')).toMatchObject({ count: 1, amount: 1000 })
    expect(await stripe.refunds.create({ payment_intent: sold.id })).toMatchObject({ amount: 1000 })
  })

  test('a pending refund can be settled, or can require an action and be canceled', async () => {
    const { stripe, control } = await start()
    const sold = await stripe.paymentIntents.create({ ...SALE, payment_method: 'pm_card_pendingRefund' })
    const [one, two] = [
      await stripe.refunds.create({ payment_intent: sold.id, amount: 100 }),
      await stripe.refunds.create({ payment_intent: sold.id, amount: 200 }),
    ]
    expect(one.status).toBe('pending')
    expect(await control('POST', `refunds/${one.id}/settle`, { status: 'succeeded' })).toMatchObject({
      status: 'succeeded',
    })
    expect(await refusal(stripe.refunds.cancel(two.id))).toMatchObject({ statusCode: 400 })
    await control('POST', `refunds/${two.id}/settle`, { status: 'requires_action' })
    expect(await stripe.refunds.cancel(two.id)).toMatchObject({ status: 'canceled' })
    expect(await stripe.charges.retrieve(sold.latest_charge as string)).toMatchObject({
      amount_refunded: 100,
    })
  })

  test('an uncaptured hold has no refund, and with `release_refunds` its release is listed as a refund', async () => {
    const { stripe, control } = await start({ release_refunds: true })
    const authorized = await stripe.paymentIntents.create(HOLD)
    expect(await refusal(stripe.refunds.create({ payment_intent: authorized.id }))).toMatchObject({
      statusCode: 400,
      code: 'payment_intent_unexpected_state',
    })
    expect(await refusal(stripe.refunds.create({ payment_intent: 'pi_none' }))).toMatchObject({
      statusCode: 404,
      code: 'resource_missing',
    })
    await control('POST', `payment_intents/${authorized.id}/expire`)
    expect((await stripe.refunds.list({ payment_intent: authorized.id })).data).toMatchObject([
      { amount: 1000, reason: 'expired_uncaptured_charge' },
    ])
    expect(await control('GET', 'effects?effect=refund')).toMatchObject({ count: 0 })
  })
})

describe('events', () => {
  test('are listed by type, time and page, and retrieved', async () => {
    const { stripe } = await start()
    await stripe.paymentIntents.create(HOLD, { idempotencyKey: 'the-key' })
    const { data, has_more } = await stripe.events.list({
      types: ['charge.succeeded', 'payment_intent.created'],
      created: { gte: 1 },
      limit: 1,
    })
    expect([data[0]!.type, has_more]).toEqual(['charge.succeeded', true])
    const before = await stripe.events.list({ starting_after: data[0]!.id })
    expect(before.data.map((each) => each.type)).toEqual(['payment_intent.created'])
    const after = await stripe.events.list({ ending_before: before.data[0]!.id, limit: 1 })
    expect([after.data.map((each) => each.id), after.has_more]).toEqual([[data[0]!.id], true])
    expect(
      await refusal(stripe.events.list({ types: Array.from({ length: 21 }, () => 'a.b') })),
    ).toMatchObject({ statusCode: 400, param: 'types' })
    expect(await refusal(stripe.events.list({ type: 'a.b', types: ['a.b'] }))).toMatchObject({
      statusCode: 400,
    })
    const event = await stripe.events.retrieve(before.data[0]!.id)
    // The intent as it was at the time of the event, not its current state.
    expect(event).toMatchObject({
      object: 'event',
      api_version: '2026-10-28.endive',
      request: { idempotency_key: 'the-key' },
      data: { object: { object: 'payment_intent', status: 'requires_confirmation' } },
    })
  })

  test('are sent signed and in order, are retried until the receiver accepts them, and are not sent while paused', async () => {
    const received: Stripe.Event[] = []
    let refusals = 1
    const webhooks = await startReceiver((payload, signature) => {
      if (refusals-- > 0) return 500
      received.push(new Stripe(EMULATOR_KEY).webhooks.constructEvent(payload, signature, SECRET))
      return 200
    })
    const { stripe, control } = await start({
      webhook_url: webhooks.url,
      webhook_secret: SECRET,
      webhook_events: ['payment_intent.created', 'refund.created'],
    })
    const one = await stripe.paymentIntents.create(SALE)
    await webhooks.until(() => received.length === 1)
    expect(received[0]).toMatchObject({ type: 'payment_intent.created', data: { object: { id: one.id } } })
    expect(await control('GET', 'webhooks')).toMatchObject({ delivered: 1, failed_attempts: 1 })

    await control('POST', 'webhooks', { paused: true, duplicate_percent: 100, shuffle: true })
    await stripe.refunds.create({ payment_intent: one.id })
    const event = (await stripe.events.list({ limit: 2 })).data[1]!
    expect(event).toMatchObject({ type: 'refund.created', pending_webhooks: 1 })
    expect(await control('POST', `events/${event.id}/send`)).toEqual({ id: event.id, status: 200 })
    expect(received.map((each) => each.id)).toEqual([received[0]!.id, event.id])
    await control('POST', 'webhooks', { paused: false })
    await webhooks.until(() => received.length === 4)
    expect(received.slice(2).map((each) => each.id)).toEqual([event.id, event.id])
    expect((await stripe.events.retrieve(event.id)).pending_webhooks).toBe(0)
  })

  test('are delayed by the configured percentage, and later events overtake delayed events', async () => {
    const received: Stripe.Event[] = []
    const webhooks = await startReceiver((payload, signature) => {
      received.push(new Stripe(EMULATOR_KEY).webhooks.constructEvent(payload, signature, SECRET))
      return 200
    })
    const { stripe, control } = await start({
      webhook_url: webhooks.url,
      webhook_secret: SECRET,
      webhook_events: ['payment_intent.created'],
    })
    await control('POST', 'webhooks', { late_percent: 100, late_ms: 1_000_000_000 })
    await stripe.paymentIntents.create(SALE)
    await control('POST', 'webhooks', { late_ms: 10 })
    const soon = await stripe.paymentIntents.create(SALE)
    await control('POST', 'webhooks', { late_percent: 0 })
    const next = await stripe.paymentIntents.create(SALE)
    await webhooks.until(() => received.length === 2)
    const ids = received.map((each) => (each.data.object as Stripe.PaymentIntent).id)
    expect(ids.toSorted()).toEqual([soon.id, next.id].toSorted())
    expect(await control('GET', 'webhooks')).toMatchObject({ delayed: 2, delivered: 2, waiting: 1 })
  })

  test('do not exist for the configured percentage of changes', async () => {
    const webhooks = await startReceiver(() => 200)
    const { stripe, control } = await start({
      webhook_url: webhooks.url,
      webhook_secret: SECRET,
      webhook_events: ['payment_intent.created'],
    })
    await control('POST', 'webhooks', { omit_percent: 100 })
    await stripe.paymentIntents.create(SALE)
    await control('POST', 'webhooks', { omit_percent: 0 })
    const { id } = await stripe.paymentIntents.create(SALE)
    const { data } = await stripe.events.list({ type: 'payment_intent.created' })
    expect(data.map((event) => (event.data.object as Stripe.PaymentIntent).id)).toEqual([id])
  })

  test('have the signatures that the SDK generates', () => {
    const header = new Stripe(EMULATOR_KEY).webhooks.generateTestHeaderString({
      payload: '{"a":1}',
      secret: SECRET,
      timestamp: 1_700_000_000,
    })
    expect(signStripe('{"a":1}', SECRET, 1_700_000_000)).toBe(header)
  })
})

describe('idempotency keys', () => {
  test('a key replays its first response even after later changes', async () => {
    const { stripe, url, control } = await start()
    const first = await postForm(url, '/v1/payment_intents', `${CREATE}&expand[]=latest_charge`, 'k1')
    const body = await first.text()
    await stripe.paymentIntents.cancel(JSON.parse(body).id)
    // The order of the parameters does not matter.
    const replayed = await postForm(
      url,
      '/v1/payment_intents',
      'currency=usd&expand[]=latest_charge&amount=500',
      'k1',
    )
    expect(await replayed.text()).toBe(body)
    expect(replayed.headers.get('idempotent-replayed')).toBe('true')
    expect(replayed.headers.get('original-request')).toBe(first.headers.get('request-id'))
    expect(first.headers.get('idempotent-replayed')).toBeNull()

    const other = await postForm(url, '/v1/payment_intents', 'amount=501&currency=usd', 'k1')
    expect(other.status).toBe(400)
    expect(await other.json()).toMatchObject({ error: { type: 'idempotency_error' } })
    expect(await control('GET', 'requests?idempotency_key=k1')).toMatchObject({
      count: 3,
      replayed: 1,
      data: [{ replayed: false }, { replayed: true }, { status: 400 }],
    })
    expect((await control('GET', 'requests')).counts).toEqual({
      'POST /v1/payment_intents': 3,
      'POST /v1/payment_intents/:id/cancel': 1,
    })
  })

  test('a key stores declines, but not refusals of parameters, and expires after a day', async () => {
    const { url, control } = await start()
    const status = async (params: string, key: string) => {
      const response = await postForm(url, '/v1/payment_intents', params, key)
      return [response.status, response.headers.get('idempotent-replayed') === 'true']
    }
    const declined = `${CREATE}&confirm=true&payment_method=pm_card_chargeDeclined&return_url=https://shop.example`
    expect([await status(declined, 'a'), await status(declined, 'a')]).toEqual([
      [402, false],
      [402, true],
    ])
    expect([await status('amount=1&currency=usd', 'b'), await status(CREATE, 'b')]).toEqual([
      [400, false],
      [200, false],
    ])
    expect(await status(CREATE, 'b')).toEqual([200, true])
    await control('POST', 'clock', { advance_ms: 24 * 3_600_000 + 1 })
    expect(await status(CREATE, 'b')).toEqual([200, false])
  })

  test('a key is in use until its request is answered', async () => {
    const { stripe, control } = await start()
    await control('POST', 'faults', {
      match: { method: 'POST', path: '/payment_intents$' },
      fault: { hold: 'before' },
    })
    const first = stripe.paymentIntents.create(HOLD, { idempotencyKey: 'k' })
    expect(await control('GET', 'wait?hits=1')).toEqual({ hits: 1 })
    expect(await control('GET', 'effects')).toMatchObject({ count: 0 })
    const second = await refusal(stripe.paymentIntents.create(HOLD, { idempotencyKey: 'k' }))
    expect(second).toMatchObject({ statusCode: 409, code: 'idempotency_key_in_use' })
    expect(await control('POST', 'release')).toEqual({ released: 1 })
    const { id } = await first
    expect((await stripe.paymentIntents.create(HOLD, { idempotencyKey: 'k' })).id).toBe(id)
    expect(await control('GET', 'effects')).toMatchObject({ count: 1 })
  })
})

describe('faults', () => {
  const key = { idempotencyKey: 'k' }

  test.each([
    ['drop_before', { type: 'StripeConnectionError' }, 0],
    ['drop_after', { type: 'StripeConnectionError' }, 1],
    ['cut_body', { type: 'StripeConnectionError' }, 1],
    ['error_500_unstored', { statusCode: 500 }, 0],
    ['html_503', { type: 'StripeAPIError' }, 0],
    ['conflict_409', { statusCode: 409, code: 'idempotency_key_in_use' }, 0],
    ['rate_limited_429', { statusCode: 429, type: 'StripeRateLimitError' }, 0],
    ['refuse_401', { statusCode: 401 }, 0],
  ])('after %s, a retry with the same key takes effect once', async (fault, error, effects) => {
    const { stripe, control } = await start()
    // The SDK retries once after a lost connection.
    await control('POST', 'faults', { times: 2, fault })
    const failed = await refusal(stripe.paymentIntents.create(HOLD, key))
    expect(failed).toMatchObject(error)
    expect(await control('GET', 'effects')).toMatchObject({ count: effects })
    await control('DELETE', 'faults')
    expect((await stripe.paymentIntents.create(HOLD, key)).status).toBe('requires_capture')
    expect(await control('GET', 'effects')).toMatchObject({ count: 1 })
  })

  test.each([
    ['error_500_before', 0],
    ['error_500_after', 1],
  ])('%s is stored and replayed', async (fault, effects) => {
    const { stripe, control } = await start()
    await control('POST', 'faults', { fault: { [fault]: true } })
    for (const replayed of [undefined, 'true']) {
      const error = await refusal(stripe.paymentIntents.create(HOLD, key))
      expect([error.statusCode, error.headers!['idempotent-replayed']]).toEqual([500, replayed])
    }
    expect(await control('GET', 'effects')).toMatchObject({ count: effects })
  })

  test('with empty_200 the response has an empty body and with string_ok a string, both after the effect', async () => {
    const { stripe, url, control } = await start()
    await control('POST', 'faults', { fault: 'empty_200' })
    expect((await stripe.paymentIntents.create(HOLD)).id).toBeUndefined()
    await control('POST', 'faults', { fault: 'string_ok' })
    expect(await (await postForm(url, '/v1/payment_intents', CREATE, 'x')).text()).toBe('"ok"')
    expect((await stripe.paymentIntents.list()).data).toHaveLength(2)
  })

  test('apply to their matching requests, as often as configured', async () => {
    const { stripe, control } = await start()
    const nth = await control('POST', 'faults', {
      match: { contains: 'order-7', nth: 2 },
      fault: { rate_limited_429: true, retry_after_s: 3 },
    })
    const params = { ...HOLD, metadata: { order: 'order-7' } }
    await stripe.paymentIntents.create(HOLD)
    await stripe.paymentIntents.create(params)
    expect((await refusal(stripe.paymentIntents.create(params))).headers!['retry-after']).toBe('3')
    await stripe.paymentIntents.create(params)
    expect(await control('GET', 'faults')).toMatchObject({
      data: [{ id: nth.id, seen: 3, hits: 1, left: 0 }],
    })

    await control('DELETE', 'faults')
    await control('POST', 'faults', { probability: 0.5, seed: 7, fault: { delay_ms: 1 } })
    for (let i = 0; i < 30; i++) await stripe.events.list()
    const { hits } = await control('GET', 'faults')
    expect(hits).toBeGreaterThan(5)
    expect(hits).toBeLessThan(25)
    expect(await control('POST', 'faults', { fault: 'nonsense' })).toMatchObject({
      error: { param: 'fault' },
    })
    expect(await control('GET', 'wait?hits=1000&timeout_ms=10')).toMatchObject({
      error: { type: 'invalid_request_error' },
    })
  })

  test('can hold a request after its effect', async () => {
    const { stripe, control } = await start()
    const authorized = await stripe.paymentIntents.create(HOLD)
    const { id } = await control('POST', 'faults', { match: { path: '/capture$' }, fault: { hold: 'after' } })
    const capture = stripe.paymentIntents.capture(authorized.id, {}, key)
    await control('GET', `wait?fault=${id}`)
    expect(await control('GET', 'effects?effect=capture')).toMatchObject({ count: 1 })
    expect(await refusal(stripe.paymentIntents.capture(authorized.id, {}, key))).toMatchObject({
      statusCode: 409,
    })
    await control('POST', 'release', { fault: id })
    expect((await capture).status).toBe('succeeded')
  })
})

describe('the emulator server', () => {
  test('shows its payment intents on a page, escaped', async () => {
    const { url, stripe, control } = await start()
    const { id } = await stripe.paymentIntents.create({ ...HOLD, metadata: { note: '<script>' } })
    const page = await (await fetch(url)).text()
    expect(page).toContain(id)
    expect(page).not.toContain('<script>')
    expect(await control('GET', 'healthz')).toEqual({ status: 'ok' })
    expect(await control('GET', 'nothing')).toMatchObject({ error: { type: 'invalid_request_error' } })
  })

  test('shows on its page which events it does not send, but not the requests that list events', async () => {
    const { url, stripe, control } = await start({
      webhook_url: 'http://127.0.0.1:9/stripe',
      webhook_events: ['charge.refunded'],
    })
    await control('POST', 'webhooks', { paused: true })
    await stripe.refunds.create({ payment_intent: (await stripe.paymentIntents.create(SALE)).id })
    await stripe.events.list()
    await stripe.events.list()
    const page = await (await fetch(url)).text()
    const delivered = (type: string) =>
      new RegExp(`<code>${type}</code>.*data-head="delivered"><code>([^<]*)<`).exec(page)?.[1]
    expect([delivered('payment_intent.succeeded'), delivered('charge.refunded')]).toEqual([
      'not sent',
      'not yet',
    ])
    expect(page).toContain('Without 2 polls of the event list (GET /v1/events).')
    expect(page).not.toContain('<code>GET /v1/events')
  })

  test('refuses an invalid pattern', async () => {
    const { url } = await start()
    const control = (path: string, init?: RequestInit) => fetch(`${url}/_emulator/${path}`, init)
    const body = JSON.stringify({ match: { path: '[' }, fault: 'hold' })
    for (const response of [
      await control('faults', { method: 'POST', body }),
      await control('requests?path=['),
    ])
      expect([response.status, await response.json()]).toEqual([
        400,
        {
          error: expect.objectContaining({
            message: 'Invalid path: Invalid regular expression: /[/: Unterminated character class',
            param: 'path',
          }),
        },
      ])
  })

  test('refuses control requests with foreign host names and posts of other sites', async () => {
    const { url, port } = await start()
    const statusOf = async (method: string, path: string, headers: Record<string, string>) =>
      (await sendBytes(url, requestBytes(method, path, { host: `127.0.0.1:${port}`, ...headers }))).status
    const change = (headers: Record<string, string>) =>
      statusOf('POST', '/_emulator/webhooks', { 'content-type': 'text/plain', ...headers })
    const foreign = `attacker.example:${port}`
    for (const path of ['/', '/_emulator/requests', '/_emulator/faults'])
      expect([path, await statusOf('GET', path, { host: foreign })]).toEqual([path, 403])
    expect(await statusOf('DELETE', '/_emulator/faults', { host: foreign })).toBe(403)
    // The API requires a key and accepts any host name.
    expect(
      await statusOf('GET', '/v1/events', { host: foreign, authorization: `Bearer ${EMULATOR_KEY}` }),
    ).toBe(200)
    for (const site of ['cross-site', 'same-site'])
      expect([site, await change({ 'sec-fetch-site': site })]).toEqual([site, 403])
    expect(await change({ 'sec-fetch-site': 'same-origin' })).toBe(200)
    expect(await statusOf('GET', '/favicon.ico', { host: foreign })).toBe(204)
    for (const host of [`localhost:${port}`, '127.0.0.1', `[::1]:${port}`])
      expect([host, await change({ host })]).toEqual([host, 200])
    expect(await change({ origin: url })).toBe(200)
    for (const origin of [
      'https://attacker.example',
      'null',
      `https://127.0.0.1:${port}`,
      `http://localhost:${port}`,
    ])
      expect([origin, await change({ origin })]).toEqual([origin, 403])
    // A read from another site is permitted: the buyer follows a link from the shop.
    expect(await statusOf('GET', '/_emulator/clock', { origin: 'https://shop.example' })).toBe(200)
  })

  test('has a content security policy without scripts and frames that allows the return to the shop', async () => {
    const { url, stripe } = await start()
    const { id } = await stripe.paymentIntents.create({
      ...HOLD,
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://shop.example/orders/1',
      automatic_payment_methods: { enabled: true },
    })
    const pages = ['/', `/_emulator/payment_intents/${id}/authenticate`]
    const [overview, challenge] = await Promise.all(pages.map((path) => fetch(`${url}${path}`)))
    const [, style] = /<style>([^]*?)<\/style>/.exec(await overview!.text()) ?? []
    const hash = createHash('sha256').update(style!).digest('base64')
    const policy = (actions: string) =>
      `default-src 'none'; style-src 'sha256-${hash}'; form-action ${actions}; base-uri 'none'; frame-ancestors 'none'`
    expect(overview!.headers.get('content-security-policy')).toBe(policy("'self'"))
    expect(challenge!.headers.get('content-security-policy')).toBe(policy("'self' https://shop.example"))
    const refused = await fetch(`${url}/_emulator/page/capture`, { method: 'POST' })
    expect(refused.headers.get('content-security-policy')).toBe(policy("'self'"))
  })

  test('has buttons to confirm, capture, refund and settle, and for faults', async () => {
    const { url, stripe, control } = await start()
    const page = async () => await (await fetch(url)).text()
    const press = (name: string, fields?: Record<string, string>) => pressButton(url, name, null, fields)
    const bare = { amount: 500, currency: 'usd', capture_method: 'manual' } as const
    const { id } = await stripe.paymentIntents.create(bare)
    expect(await press('confirm', { value: 'pm_card_authenticationRequired' })).toContain(
      `href="/_emulator/payment_intents/${id}/authenticate"`,
    )
    await control('POST', `payment_intents/${id}/authenticate`, { outcome: 'fail' })
    await press('confirm', { value: 'pm_card_visa' })
    await press('capture')
    await press('refund')
    expect(await press('settle')).toMatch(/re_\w+<\/code><\/td><td[^>]*><code>failed/)
    expect((await stripe.paymentIntents.retrieve(id)).status).toBe('succeeded')

    const faulty = await press('fault', { value: 'refuse_401', place: 'authorization', times: '2' })
    expect(faulty).toContain('&quot;refuse_401&quot;')
    expect(await refusal(stripe.paymentIntents.create(bare))).toMatchObject({ statusCode: 401 })
    expect(await page()).toMatch(/POST \/v1\/payment_intents<\/code><\/td><td[^>]*><code>401/)
    expect(await press('clear')).not.toContain('&quot;refuse_401&quot;')
    const other = await stripe.paymentIntents.create(bare)
    await press('confirm', { value: 'pm_card_chargeDeclined' })
    expect((await stripe.paymentIntents.retrieve(other.id)).last_payment_error?.code).toBe('card_declined')

    const twice = await fetch(`${url}/_emulator/page/capture`, {
      method: 'POST',
      body: new URLSearchParams({ id }),
    })
    expect([twice.status, await twice.text()]).toEqual([400, expect.stringContaining('The action failed')])
    for (const name of ['__proto__', 'constructor', 'toString'])
      expect([name, (await fetch(`${url}/_emulator/page/${name}`, { method: 'POST' })).status]).toEqual([
        name,
        400,
      ])
    expect((await fetch(`${url}/?refresh`)).status).toBe(200)
  })

  test('runs as a separate process and keeps its state across restarts', async () => {
    const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
    cleanups.push(() => rm(data_dir, { recursive: true }))
    const first = await run(data_dir)
    const { stripe } = clientsOf(first.url)
    const authorized = await stripe.paymentIntents.create({ ...HOLD, metadata: { order: '9' } })
    const answered = await (
      await postForm(first.url, `/v1/payment_intents/${authorized.id}/capture`, 'amount_to_capture=800', 'k')
    ).text()
    await refusal(
      stripe.paymentIntents.create(
        { ...HOLD, payment_method: 'pm_card_chargeDeclined' },
        { idempotencyKey: 'declined' },
      ),
    )
    const events = await eventTypes(stripe)
    expect(await first.stop()).toBe(0)
    const lines = (await readFile(join(data_dir, 'stripe-effects.jsonl'), 'utf8')).trim().split('\n')
    expect(lines.map((line) => JSON.parse(line).effect)).toEqual(['authorize', 'capture'])

    const second = await run(data_dir)
    const { stripe: later, control } = clientsOf(second.url)
    expect(await later.paymentIntents.retrieve(authorized.id, { expand: ['latest_charge'] })).toMatchObject({
      amount_received: 800,
      latest_charge: { amount_captured: 800 },
    })
    expect(
      await (
        await postForm(
          second.url,
          `/v1/payment_intents/${authorized.id}/capture`,
          'amount_to_capture=800',
          'k',
        )
      ).text(),
    ).toBe(answered)
    expect(
      await refusal(
        later.paymentIntents.create(
          { ...HOLD, payment_method: 'pm_card_chargeDeclined' },
          { idempotencyKey: 'declined' },
        ),
      ),
    ).toMatchObject({ statusCode: 402 })
    expect(await eventTypes(later)).toEqual(events)
    await later.refunds.create({ payment_intent: authorized.id, amount: 300 })
    expect((await control('GET', 'effects')).data.map((each: any) => [each.seq, each.effect])).toEqual([
      [1, 'authorize'],
      [2, 'capture'],
      [3, 'refund'],
    ])
    expect(await second.stop()).toBe(0)
  })
})

async function run(data_dir: string) {
  const emulator = await runEmulator(data_dir)
  cleanups.push(emulator.kill)
  return emulator
}

/** A webhook endpoint that answers with the status that `respond` returns. */
async function startReceiver(respond: (payload: string, signature: string) => number) {
  let wake = () => {}
  const server = createServer((request, response) => {
    let payload = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (payload += chunk))
    request.on('end', () => {
      response.writeHead(respond(payload, String(request.headers['stripe-signature']))).end()
      wake()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/stripe`,
    async until(condition: () => boolean) {
      while (!condition()) await new Promise<void>((resolve) => (wake = resolve))
    },
  }
}
