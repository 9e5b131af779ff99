// Payments through the API: authorization, decline, action of the buyer, capture, cancellation, lists and timelines.
import { describe, expect } from 'vitest'
import { checkInvariants } from '#test/books.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { MERCHANT } from '#test/parties.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  effectsOf,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

const RANDOM_ID = '01900000-0000-7000-8000-000000000000'

describe('authorization', () => {
  test('a payment is authorized, and shows its capturable amount', async ({ world, client }) => {
    const idempotency_key = freshKey()
    const { status, body } = await createPayment(client, {
      amount_minor: 2500,
      currency: 'usd',
      description: 'Two chairs',
      metadata: { order: 'A-17', lines: [1, 2] },
      idempotency_key,
    })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      tenant_id: world.tenant_id,
      idempotency_key,
      status: 'authorized',
      amount_minor: 2500,
      currency: 'USD',
      method: 'card',
      customer_id: null,
      description: 'Two chairs',
      amount_capturable_minor: 2500,
      amount_captured_minor: 0,
      amount_refunded_minor: 0,
      amount_refund_pending_minor: 0,
      processor: 'stripe',
      processor_reference: expect.stringMatching(/^pi_/),
      client_secret: null,
      failure: null,
      cancellation_reason: null,
      capture_before: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      authorized_at: expect.any(String),
      captured_at: null,
      canceled_at: null,
      metadata: { order: 'A-17', lines: [1, 2] },
    })
    expect((await client.get(`/v1/payments/${body.id}`)).body).toEqual(body)
  })

  test('a declined payment reports the reason, is stored as failed, and cannot be captured, canceled or refunded', async ({
    client,
  }) => {
    const declined = await createPayment(client, {
      payment_method: 'pm_card_chargeDeclinedInsufficientFunds',
    })
    expect(declined.status).toBe(402)
    expect(declined.body.error).toMatchObject({
      code: 'payment_declined',
      context: { decline_code: 'insufficient_funds', payment_id: expect.any(String) },
    })
    const id = declined.body.error.context.payment_id
    const { body } = await client.get(`/v1/payments/${id}`)
    expect(body).toMatchObject({
      status: 'failed',
      processor_reference: expect.stringMatching(/^pi_/),
      failure: { code: 'payment_declined', decline_code: 'insufficient_funds', message: expect.any(String) },
      amount_capturable_minor: 0,
      client_secret: null,
    })
    for (const [action, code] of [
      ['capture', 'payment_not_capturable'],
      ['cancel', 'payment_not_cancelable'],
    ]) {
      const refused = await client.post(`/v1/payments/${id}/${action}`)
      expect(refused.status).toBe(409)
      expect(refused.body.error).toMatchObject({ code, message: expect.stringContaining('failed') })
    }
    expect((await refund(client, id)).body.error).toMatchObject({ code: 'payment_not_refundable' })
  })

  test('a repeated request for a declined payment returns the same error without another call to the processor', async ({
    world,
    client,
  }) => {
    const body = { payment_method: 'pm_card_chargeDeclined', idempotency_key: freshKey() }
    const first = await createPayment(client, body)
    const second = await createPayment(client, body)
    expect(second.status).toBe(402)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect({ ...second.body.error, request_id: null }).toEqual({ ...first.body.error, request_id: null })
    const requests = await world.provider('stripe').requests({ method: 'POST', path: '/v1/payment_intents$' })
    const [call] = await world.sql`
      select key from jobs where resource_id = ${first.body.error.context.payment_id}`
    expect(requests.filter((each: any) => each.idempotency_key === call!.key)).toHaveLength(1)
  })

  test('a payment without a payment method is authorized when the buyer confirms it at the processor', async ({
    world,
    client,
  }) => {
    const { status, body } = await createPayment(client, { payment_method: undefined })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      status: 'requires_action',
      client_secret: expect.stringContaining('_secret_'),
      amount_capturable_minor: 0,
      authorized_at: null,
    })
    const [listed] = (await client.get('/v1/payments?status=requires_action&limit=1')).body
    expect(listed).toEqual(body)
    await world.provider('stripe').control('POST', `/payment_intents/${body.processor_reference}/confirm`, {
      payment_method: 'pm_card_visa',
      return_url: 'https://shop.example.com/back',
    })
    expect(await paymentIn(client, body.id, 'authorized')).toMatchObject({
      client_secret: null,
      amount_capturable_minor: 1000,
      authorized_at: expect.any(String),
    })
    expect((await client.post(`/v1/payments/${body.id}/capture`)).body).toMatchObject({ status: 'captured' })
  })

  test('a payment that requires authentication is authorized when the buyer authenticates', async ({
    world,
    client,
  }) => {
    const { status, body } = await createPayment(client, {
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://shop.example.com/back',
    })
    expect(status).toBe(201)
    expect(body).toMatchObject({ status: 'requires_action', client_secret: expect.any(String) })
    const refused = await client.post(`/v1/payments/${body.id}/capture`)
    expect(refused.body.error).toMatchObject({ message: expect.stringContaining('requires_action') })
    await world
      .provider('stripe')
      .control('POST', `/payment_intents/${body.processor_reference}/authenticate`, {
        outcome: 'succeed',
      })
    expect(await paymentIn(client, body.id, 'authorized')).toMatchObject({ client_secret: null })
  })

  test('a failed authentication is reported with its reason, and can be repeated until the payment is canceled', async ({
    world,
    client,
  }) => {
    const { body } = await createPayment(client, { payment_method: 'pm_card_threeDSecure2Required' })
    const reference = body.processor_reference
    const buyer = (action: string, params: Record<string, unknown>) =>
      world.provider('stripe').control('POST', `/payment_intents/${reference}/${action}`, params)
    await buyer('authenticate', { outcome: 'fail' })
    const refused = await eventually(async () => {
      const { body: payment } = await client.get(`/v1/payments/${body.id}`)
      expect(payment.failure).not.toBeNull()
      return payment
    })
    expect(refused).toMatchObject({
      status: 'requires_action',
      client_secret: body.client_secret,
      failure: {
        code: 'payment_declined',
        decline_code: 'payment_intent_authentication_failure',
        message: expect.stringContaining('failed authentication'),
      },
    })
    // A new attempt of the buyer removes the failure.
    await buyer('confirm', { payment_method: 'pm_card_threeDSecure2Required' })
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({
        status: 'requires_action',
        failure: null,
      }),
    )
    await buyer('authenticate', { outcome: 'fail' })
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${body.id}`)).body.failure).not.toBeNull(),
    )
    const canceled = await client.post(`/v1/payments/${body.id}/cancel`, { reason: 'abandoned' })
    expect(canceled.status).toBe(200)
    expect(canceled.body).toMatchObject({
      status: 'canceled',
      client_secret: null,
      cancellation_reason: 'abandoned',
    })
    expect(await effectsOf(world, reference)).toEqual([])
  })

  test('a payment whose second authentication succeeds shows no failure', async ({ world, client }) => {
    const { body } = await createPayment(client, { payment_method: 'pm_card_threeDSecure2Required' })
    const buyer = (action: string, params: Record<string, unknown>) =>
      world
        .provider('stripe')
        .control('POST', `/payment_intents/${body.processor_reference}/${action}`, params)
    await buyer('authenticate', { outcome: 'fail' })
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${body.id}`)).body.failure).not.toBeNull(),
    )
    await buyer('confirm', { payment_method: 'pm_card_visa' })
    expect(await paymentIn(client, body.id, 'authorized')).toMatchObject({ failure: null })
    const rows = await world.sql`select type from events where subject_id = ${body.id} order by created_at`
    expect(rows.map(({ type }) => type)).toEqual([
      'payment.created',
      'payment.requires_action',
      'payment.authorization_failed',
      'payment.authorized',
    ])
  })

  test('a payment that the processor rejects as invalid is answered with 422 and stored as failed', async ({
    client,
  }) => {
    for (const body of [{ payment_method: 'pm_card_of_nobody' }, { amount_minor: 10 }]) {
      const refused = await createPayment(client, body)
      expect(refused.status).toBe(422)
      expect(refused.body.error).toMatchObject({ code: 'payment_invalid' })
      const { body: payment } = await client.get(`/v1/payments/${refused.body.error.context.payment_id}`)
      expect(payment).toMatchObject({ status: 'failed', failure: { code: 'payment_invalid' } })
    }
  })

  test('a payment that the processor can never settle is refused before anything is stored', async ({
    world,
  }) => {
    const { tenant_id, ...other } = await world.clientOf()
    const refusals: [Record<string, unknown>, number, string][] = [
      [{ amount_minor: 1005, currency: 'KWD' }, 422, 'payment_invalid'],
      [{ amount_minor: 15_010, currency: 'ISK' }, 422, 'payment_invalid'],
      [{ amount_minor: 250_001, currency: 'ugx' }, 422, 'payment_invalid'],
      [{ amount_minor: 9_007_199_254_740_991 }, 422, 'amount_too_large'],
      [{ amount_minor: 100_000_000 }, 422, 'amount_too_large'],
      [{ amount_minor: 1_000_000_000_000, currency: 'idr' }, 422, 'amount_too_large'],
      [{ currency: 'IRR' }, 400, 'invalid_request'],
      [{ currency: 'ghs' }, 400, 'invalid_request'],
      [{ method: 'bank_transfer' }, 400, 'invalid_request'],
      [{ currency: 'XYZ' }, 400, 'invalid_request'],
      [{ customer_id: RANDOM_ID }, 404, 'customer_not_found'],
      [{ idempotency_key: undefined }, 400, 'invalid_request'],
    ]
    for (const [body, status, code] of refusals) {
      const refused = await createPayment(other, body)
      expect([refused.status, refused.body.error.code]).toEqual([status, code])
    }
    expect((await other.get('/v1/payments')).body).toEqual([])
    const [stored] = await world.sql`
      select (select count(*) from jobs where tenant_id = ${tenant_id}) + (select count(*) from idempotency_keys where tenant_id = ${tenant_id}) as count`
    expect(stored!.count).toBe(0)
  })

  test('amounts are in the smallest unit of their currency, whatever number of decimals the currency has', async ({
    world,
    client,
  }) => {
    for (const [currency, amount_minor] of [
      ['JPY', 500],
      ['KWD', 1230],
      ['KRW', 99_999],
      ['USD', 99_999_999],
      ['IDR', 999_999_999_999],
    ] as const) {
      const { id, processor_reference } = await capturedPayment(client, { currency, amount_minor })
      const effects = await effectsOf(world, processor_reference)
      expect(effects.map(({ effect, amount, currency: of }) => [effect, amount, of])).toEqual([
        ['authorize', amount_minor, currency.toLowerCase()],
        ['capture', amount_minor, currency.toLowerCase()],
      ])
      expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({
        currency,
        amount_captured_minor: amount_minor,
      })
    }
  })

  test("another tenant's payment is not found", async ({ world, client }) => {
    const { id } = await authorizedPayment(client)
    const other = await world.clientOf()
    for (const answer of [
      await other.get(`/v1/payments/${id}`),
      await other.get(`/v1/payments/${id}/timeline`),
      await other.get(`/v1/payments/${id}/refunds`),
      await other.post(`/v1/payments/${id}/capture`),
      await other.post(`/v1/payments/${id}/cancel`),
      await refund(other, id),
    ]) {
      expect(answer.status).toBe(404)
      expect(answer.body.error).toMatchObject({ code: 'payment_not_found' })
    }
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'authorized' })
  })
})

describe('capture', () => {
  test.for([
    ['without a body', {}],
    ['with a content type and an empty body', { headers: { 'content-type': 'application/json' }, body: '' }],
    ['with an empty object', { headers: { 'content-type': 'application/json' }, body: '{}' }],
  ] as const)('with %s the whole authorized amount is captured', async ([, init], { world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const { status, body } = await client.send('POST', `/v1/payments/${id}/capture`, init)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      status: 'captured',
      amount_captured_minor: 1000,
      amount_capturable_minor: 0,
      captured_at: expect.any(String),
    })
    expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
      'authorize',
      'capture',
    ])
  })

  test('a partial capture releases the rest of the authorized amount', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const { body } = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 400 })
    expect(body).toMatchObject({
      status: 'captured',
      amount_minor: 1000,
      amount_captured_minor: 400,
      amount_capturable_minor: 0,
    })
    expect((await effectsOf(world, processor_reference)).at(-1)).toMatchObject({
      effect: 'capture',
      amount: 400,
    })
    const repetition = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 600 })
    expect(repetition.body.error).toMatchObject({ code: 'payment_not_capturable' })
  })

  test('a capture above the authorized amount is refused and changes nothing', async ({ client }) => {
    const { id } = await authorizedPayment(client)
    const refused = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 1001 })
    expect(refused.status).toBe(422)
    expect(refused.body.error).toMatchObject({
      code: 'amount_too_large',
      param: 'amount_minor',
      context: { requested_minor: 1001, amount_capturable_minor: 1000 },
    })
    expect((await client.post(`/v1/payments/${id}/capture`, { amount_minor: 1000 })).status).toBe(200)
  })

  test.for([
    ['KWD', 1005, 'Amounts in KWD must end in 0: they are settled in steps of KWD 0.010.', 1010],
    ['ISK', 15_050, 'Amounts in ISK must end in 00: they are settled in steps of ISK 1.00.', 15_000],
    ['UGX', 15_001, 'Amounts in UGX must end in 00: they are settled in steps of UGX 1.00.', 15_100],
  ] as const)(
    'a partial capture in %s is refused if the amount cannot be settled',
    async ([currency, part, message, whole], { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client, { currency, amount_minor: 20_000 })
      const refused = await client.post(`/v1/payments/${id}/capture`, { amount_minor: part })
      expect([refused.status, refused.body.error]).toMatchObject([
        422,
        { code: 'payment_invalid', param: 'amount_minor', message },
      ])
      expect((await client.post(`/v1/payments/${id}/capture`, { amount_minor: whole })).status).toBe(200)
      const effects = (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
      expect(effects).toEqual(['authorize', 'capture'])
    },
  )

  test.for([[500], [undefined]] as const)(
    'a capture of %s is refused if the processor has captured another amount',
    async ([amount_minor], { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client, { amount_minor: 20_100 })
      const stripe = world.provider('stripe')
      await stripe.control('POST', '/webhooks', { paused: true })
      const dashboard_capture = { amount_to_capture: 20_000 }
      await stripe.control('POST', `/payment_intents/${processor_reference}/capture`, dashboard_capture)
      const headers = { 'idempotency-key': freshKey() }
      for (const replayed of [null, 'true']) {
        const refused = await client.post(`/v1/payments/${id}/capture`, { amount_minor }, headers)
        expect([refused.status, refused.headers.get('idempotent-replayed')]).toEqual([409, replayed])
        expect(refused.body.error).toMatchObject({
          code: 'payment_not_capturable',
          message: `The payment was captured at the processor with USD 200.00, not ${amount_minor === undefined ? 'USD 201.00' : 'USD 5.00'}.`,
          context: { status: 'captured', amount_captured_minor: 20_000, currency: 'USD', payment_id: id },
        })
      }
      await stripe.control('POST', '/webhooks', { paused: false })
      const repetition = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 20_000 })
      expect(repetition.body.error).toMatchObject({
        code: 'payment_not_capturable',
        message: 'The payment cannot be captured: USD 200.00 is already captured.',
        context: { amount_captured_minor: 20_000 },
      })
      await checkInvariants(world)
    },
  )

  test('a capture succeeds if the processor has already captured the same amount', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client, { amount_minor: 20_000 })
    const stripe = world.provider('stripe')
    await stripe.control('POST', '/webhooks', { paused: true })
    await stripe.control('POST', `/payment_intents/${processor_reference}/capture`, {
      amount_to_capture: 500,
    })
    const { status, body } = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 500 })
    expect([status, body]).toMatchObject([200, { status: 'captured', amount_captured_minor: 500 }])
    await stripe.control('POST', '/webhooks', { paused: false })
  })

  test('a captured or canceled payment cannot be captured or canceled again, and the error names its status', async ({
    client,
  }) => {
    const captured = await capturedPayment(client)
    const canceled = await authorizedPayment(client)
    await client.post(`/v1/payments/${canceled.id}/cancel`)
    for (const [id, state] of [
      [captured.id, 'captured'],
      [canceled.id, 'canceled'],
    ]) {
      for (const [action, code] of [
        ['capture', 'payment_not_capturable'],
        ['cancel', 'payment_not_cancelable'],
      ]) {
        const refused = await client.post(`/v1/payments/${id}/${action}`)
        expect(refused.status).toBe(409)
        expect(refused.body.error).toMatchObject({
          code,
          message: expect.stringContaining(state),
          context: { status: state },
        })
      }
    }
    for (const action of ['capture', 'cancel'])
      expect((await client.post(`/v1/payments/${RANDOM_ID}/${action}`)).status).toBe(404)
  })

  test("a payment that is canceled in the processor's dashboard cannot be captured, even before the notification", async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    await world.provider('stripe').control('POST', '/webhooks', { paused: true })
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/cancel`)
    const refused = await client.post(`/v1/payments/${id}/capture`)
    expect(refused.status).toBe(409)
    expect(refused.body.error).toMatchObject({
      code: 'payment_not_capturable',
      message: expect.stringContaining('canceled'),
    })
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'canceled' })
    await world.provider('stripe').control('POST', '/webhooks', { paused: false })
  })

  test("a capture or cancellation in the processor's dashboard is applied and posted", async ({
    world,
    client,
  }) => {
    const [captured, canceled] = [await authorizedPayment(client), await authorizedPayment(client)]
    const control = (payment: any, action: string, body = {}) =>
      world
        .provider('stripe')
        .control('POST', `/payment_intents/${payment.processor_reference}/${action}`, body)
    await control(captured, 'capture', { amount_to_capture: 700 })
    await control(canceled, 'cancel', { cancellation_reason: 'duplicate' })
    expect(await paymentIn(client, captured.id, 'captured')).toMatchObject({ amount_captured_minor: 700 })
    expect(await paymentIn(client, canceled.id, 'canceled')).toMatchObject({
      cancellation_reason: 'duplicate',
    })
    await checkInvariants(world)
  })
})

describe('cancellation', () => {
  test.for([undefined, 'requested_by_customer', 'duplicate', 'fraudulent', 'abandoned'])(
    'with the reason %s releases the authorized amount',
    async (reason, { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client)
      const { status, body } = await client.post(`/v1/payments/${id}/cancel`, reason && { reason })
      expect(status).toBe(200)
      expect(body).toMatchObject({
        status: 'canceled',
        cancellation_reason: reason ?? null,
        amount_capturable_minor: 0,
        canceled_at: expect.any(String),
      })
      expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
        'authorize',
        'cancel',
      ])
    },
  )

  test('with an unknown reason is refused', async ({ client }) => {
    const { id } = await authorizedPayment(client)
    const refused = await client.post(`/v1/payments/${id}/cancel`, { reason: 'boredom' })
    expect(refused.body.error).toMatchObject({ code: 'invalid_request', param: 'reason' })
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'authorized' })
  })

  test.for([
    ['cancels the authorized payment', 'pm_card_visa', ['authorize', 'cancel']],
    ['cancels the payment that requires an action', undefined, []],
  ] as const)(
    'during the authorization is recorded, and then %s',
    async ([, payment_method, effects], { world, client }) => {
      const description = freshKey()
      const hold = await fault(world, { match: { contains: description }, fault: 'hold' })
      const { status, body } = await createPayment(client, { payment_method, description }, ASYNC)
      expect([status, body.status]).toEqual([202, 'pending'])
      await hold.hit()
      const canceled = await client.post(`/v1/payments/${body.id}/cancel`, { reason: 'duplicate' })
      expect(canceled.status).toBe(202)
      expect(canceled.headers.get('location')).toBe(`/v1/payments/${body.id}`)
      expect(canceled.body).toMatchObject({ status: 'pending', cancellation_reason: 'duplicate' })
      await hold.remove()
      const { processor_reference } = await paymentIn(client, body.id, 'canceled')
      expect(await client.get(`/v1/payments/${body.id}`)).toMatchObject({
        body: { cancellation_reason: 'duplicate', client_secret: null, amount_capturable_minor: 0 },
      })
      expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual(effects)
    },
  )

  test('during an authorization that ends as declined leaves the payment failed', async ({
    world,
    client,
  }) => {
    const description = freshKey()
    const hold = await fault(world, { match: { contains: description }, fault: 'hold' })
    const { body } = await createPayment(
      client,
      { payment_method: 'pm_card_chargeDeclined', description },
      ASYNC,
    )
    await hold.hit()
    const key = { idempotency_key: freshKey() }
    const cancel = () => client.post(`/v1/payments/${body.id}/cancel`, key)
    expect((await cancel()).status).toBe(202)
    expect((await cancel()).status).toBe(202)
    await hold.remove()
    await paymentIn(client, body.id, 'failed')
    const late = await cancel()
    expect([late.status, late.body.error.code]).toEqual([409, 'payment_not_cancelable'])
    expect(late.body.error.context).toMatchObject({ status: 'failed' })
  })
})

describe('waiting', () => {
  test('with respond-async the response is an immediate 202 with the location of the payment', async ({
    client,
  }) => {
    const { status, headers, body } = await createPayment(client, {}, ASYNC)
    expect(status).toBe(202)
    expect(headers.get('preference-applied')).toBe('respond-async')
    expect(headers.get('location')).toBe(`/v1/payments/${body.id}`)
    await paymentIn(client, body.id, 'authorized')
    const capture = await client.post(`/v1/payments/${body.id}/capture`, undefined, ASYNC)
    expect([capture.status, capture.headers.get('location')]).toEqual([202, `/v1/payments/${body.id}`])
    await paymentIn(client, body.id, 'captured')
  })

  test('wait=0 does not wait, wait=30 waits for the result, and a longer wait is limited to 30', async ({
    client,
  }) => {
    const none = await createPayment(client, {}, { prefer: 'wait=0' })
    expect([none.status, none.headers.get('preference-applied')]).toEqual([202, 'wait=0'])
    const long = await createPayment(client, {}, { prefer: 'wait=30' })
    expect([long.status, long.headers.get('preference-applied')]).toEqual([201, 'wait=30'])
    const longer = await createPayment(client, {}, { prefer: 'wait=600' })
    expect([longer.status, longer.headers.get('preference-applied')]).toEqual([201, 'wait=30'])
  })

  test('a capture that is not finished in time returns 202 and continues', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const hold = await fault(world, { match: { path: `${processor_reference}/capture` }, fault: 'hold' })
    const { status, headers, body } = await client.post(`/v1/payments/${id}/capture`, undefined, {
      prefer: 'wait=1',
    })
    expect([status, headers.get('location'), body.status]).toEqual([202, `/v1/payments/${id}`, 'capturing'])
    expect((await client.post(`/v1/payments/${id}/cancel`)).body.error).toMatchObject({
      message: expect.stringContaining('capturing'),
    })
    await hold.remove()
    await paymentIn(client, id, 'captured')
  })

  test('a repeated request that arrives during the first request waits for the same result', async ({
    world,
    client,
  }) => {
    const description = freshKey()
    const body = { description, idempotency_key: freshKey() }
    const hold = await fault(world, { match: { contains: description }, fault: 'hold' })
    const first = createPayment(client, body)
    await hold.hit()
    const repetitions = [createPayment(client, body), createPayment(client, body)]
    // The processor answers after both repeated requests have found their key.
    expect((await createPayment(client, body, ASYNC)).body).toMatchObject({ status: 'pending' })
    await hold.remove()
    const answers = await Promise.all([first, ...repetitions])
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201])
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect(answers.map(({ headers }) => headers.get('idempotent-replayed'))).toEqual([null, 'true', 'true'])
  })
})

describe('idempotency', () => {
  test('a repeated request returns the current payment', async ({ client }) => {
    const body = { idempotency_key: freshKey() }
    const { id } = await capturedPayment(client, body)
    const repetition = await createPayment(client, body)
    expect([repetition.status, repetition.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(repetition.body).toMatchObject({ id, status: 'captured' })
  })

  test('the same key with other content is refused', async ({ client }) => {
    const idempotency_key = freshKey()
    await createPayment(client, { idempotency_key })
    const other = await createPayment(client, { idempotency_key, amount_minor: 1001 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('an action whose key is in the header can be replayed', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const headers = { 'idempotency-key': freshKey() }
    const first = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 300 }, headers)
    const second = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 300 }, headers)
    expect([first.status, second.status]).toEqual([200, 200])
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(second.body).toEqual(first.body)
    const other = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 200 }, headers)
    expect(other.body.error).toMatchObject({ code: 'idempotency_key_reused' })
    expect((await effectsOf(world, processor_reference)).map(({ effect }) => effect)).toEqual([
      'authorize',
      'capture',
    ])
  })

  test('a refused request leaves its key unused', async ({ client }) => {
    const headers = { 'idempotency-key': freshKey() }
    const { id } = await authorizedPayment(client)
    const refused = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 2000 }, headers)
    expect(refused.status).toBe(422)
    const accepted = await client.post(`/v1/payments/${id}/capture`, { amount_minor: 1000 }, headers)
    expect(accepted.status).toBe(200)
  })

  test('a replayed cancellation returns the current payment', async ({ world, client }) => {
    const description = freshKey()
    const headers = { 'idempotency-key': freshKey() }
    const hold = await fault(world, { match: { contains: description }, fault: 'hold' })
    const { body } = await createPayment(client, { description }, ASYNC)
    await hold.hit()
    const answers = [await client.post(`/v1/payments/${body.id}/cancel`, undefined, headers)]
    answers.push(await client.post(`/v1/payments/${body.id}/cancel`, undefined, headers))
    await hold.remove()
    await paymentIn(client, body.id, 'canceled')
    answers.push(await client.post(`/v1/payments/${body.id}/cancel`, undefined, headers))
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 200])
    expect(answers.map(({ headers: replay_headers }) => replay_headers.get('idempotent-replayed'))).toEqual([
      null,
      'true',
      'true',
    ])
  })
})

describe('lists', () => {
  test('every filter finds a change as soon as the request for the change is answered', async ({ world }) => {
    const shop = await world.clientOf()
    const { body: customer } = await shop.post('/v1/customers', { name: 'Ada', idempotency_key: freshKey() })
    const dollars = await authorizedPayment(shop, {
      amount_minor: 100,
      metadata: { order: 'A-1', shop: 'north' },
    })
    const euros = await authorizedPayment(shop, {
      amount_minor: 200,
      currency: 'eur',
      customer_id: customer.id,
      metadata: { order: 'A-2', shop: 'north', count: 7 },
    })
    const yen = await authorizedPayment(shop, { amount_minor: 300, currency: 'JPY', metadata: 'none' })
    const ids = async (query: string) => {
      const answer = await shop.get(`/v1/payments?${query}`)
      expect(answer).toMatchObject({ status: 200 })
      return answer.body.map(({ id }: { id: string }) => id)
    }
    const [one, two, three] = [dollars.id, euros.id, yen.id]
    expect(await ids('')).toEqual([three, two, one])
    expect(await ids('status=authorized')).toEqual([three, two, one])
    expect(await ids('status=captured')).toEqual([])
    expect(await ids(`customer_id=${customer.id}`)).toEqual([two])
    expect(await ids(`processor_reference=${euros.processor_reference}`)).toEqual([two])
    expect(await ids(`processor_reference=${euros.processor_reference}&currency=jpy`)).toEqual([])
    expect(await ids('processor_reference=pi_nobody')).toEqual([])
    expect(await ids('currency=EUR')).toEqual([two])
    expect(await ids('currency=eur')).toEqual([two])
    expect(await ids('currency=Jpy')).toEqual([three])
    expect(await ids('amount_min=200')).toEqual([three, two])
    expect(await ids('amount_max=200')).toEqual([two, one])
    expect(await ids('amount_min=101&amount_max=299')).toEqual([two])
    expect(await ids(`created_from=${euros.created_at}`)).toEqual([three, two])
    expect(await ids(`created_to=${euros.created_at}`)).toEqual([one])
    expect(await ids(`created_from=${dollars.created_at}&created_to=${yen.created_at}`)).toEqual([two, one])
    expect(await ids(`${encodeURIComponent('metadata[order]')}=A-2`)).toEqual([two])
    expect(await ids('metadata[shop]=north')).toEqual([two, one])
    expect(await ids('metadata[shop]=north&metadata[order]=A-1')).toEqual([one])
    expect(await ids('metadata[count]=7')).toEqual([two])
    expect(await ids('metadata[shop]=south')).toEqual([])

    await shop.post(`/v1/payments/${one}/capture`)
    expect(await ids('status=captured')).toEqual([one])
    expect(await ids('status=authorized')).toEqual([three, two])
    await shop.post(`/v1/payments/${two}/cancel`)
    expect(await ids('status=canceled')).toEqual([two])
    expect(await ids('status=authorized&currency=jpy&metadata[shop]=north')).toEqual([])
    for (const query of [
      'status=gone',
      'amount_min=-1',
      'processor_reference=',
      'created_from=yesterday',
      'colour=red',
      'limit=0',
    ])
      expect([query, (await shop.get(`/v1/payments?${query}`)).status]).toEqual([query, 400])
  })

  test('the pages of a filtered list neither omit nor repeat payments', async ({ world }) => {
    const shop = await world.clientOf()
    const created = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        createPayment(shop, { metadata: { even: String(index % 2 === 0) } }),
      ),
    )
    const listed_ids: string[] = []
    for (let url: string | undefined = '/v1/payments?limit=4&metadata[even]=true&status=authorized'; url;) {
      const { body, headers } = await shop.get(url)
      listed_ids.push(...body.map(({ id }: { id: string }) => id))
      url = /<(.+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
    }
    const expected = created.map(({ body }) => body).filter(({ metadata }) => metadata.even === 'true')
    expect(expected).toHaveLength(6)
    expect(listed_ids).toEqual(
      expected.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1)).map(({ id }) => id),
    )
  })
})

describe('timeline', () => {
  test('lists every attempt, call, notification, posting and event, in order', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const refund_answer = await refund(client, id, { amount_minor: 250 })
    // The types are amount_capturable_updated, succeeded, refund.created and charge.refunded; notifications of
    // irrelevant types are not assigned to the payment.
    const entries = await eventually(async () => {
      const { body } = await client.get(`/v1/payments/${id}/timeline`)
      const notifications = body.filter((each: any) => each.kind === 'notification')
      expect(notifications.length).toBeGreaterThanOrEqual(4)
      expect(new Set(notifications.map((each: any) => each.outcome))).toEqual(new Set(['applied']))
      return body as { at: string; kind: string; name: string; outcome: string | null; details: any }[]
    })
    expect(entries.map(({ at }) => at)).toEqual(entries.map(({ at }) => at).toSorted())
    const own_entries = entries.filter(({ kind }) => kind !== 'notification')
    const steps = (kinds: string[]) =>
      own_entries.filter(({ kind }) => kinds.includes(kind)).map(({ kind, name }) => `${kind} ${name}`)
    expect(steps(['attempt', 'provider_call', 'event'])).toEqual([
      'event payment.created',
      'attempt payment.authorize',
      'provider_call authorize',
      'event payment.authorized',
      'attempt payment.capture',
      'provider_call capture',
      'event payment.captured',
      'event refund.created',
      'attempt refund.create',
      'provider_call refund',
      'event refund.succeeded',
    ])
    // A first attempt that succeeds is stored only in the row of its job.
    const [row] = await world.sql`
      select count(*) from job_attempts where job_id in (select id from jobs where resource_id = ${id})`
    expect(row).toEqual({ count: 0 })
    expect(steps(['posting'])).toEqual(['posting capture', 'posting refund'])
    const postings = own_entries.filter(({ kind }) => kind === 'posting')
    expect(postings.map(({ details }) => details)).toEqual([
      transfer(id, 'processor_clearing', 'available', 1000),
      transfer(refund_answer.body.id, 'available', 'processor_clearing', 250),
    ])
    for (const { outcome } of own_entries.filter(
      ({ kind }) => kind === 'attempt' || kind === 'provider_call',
    ))
      expect(outcome).toBe('done')
    const names = entries.filter(({ kind }) => kind === 'notification').map(({ name }) => name)
    expect(names).toEqual(
      expect.arrayContaining([
        'payment_intent.amount_capturable_updated',
        'payment_intent.succeeded',
        'refund.created',
      ]),
    )
    expect(JSON.stringify(entries)).not.toContain('_secret_')
    expect(JSON.stringify(entries)).toContain(processor_reference)
  })

  function transfer(subject_id: string, debit_account: string, credit_account: string, amount_minor: number) {
    const transfer_id = expect.any(String)
    return { transfer_id, subject_id, debit_account, credit_account, currency: 'USD', amount_minor }
  }
})

test('after these tests the books balance and agree with the processor', async ({ world }) => {
  await world.drain()
  expect(await findRemainingProblems(world)).toEqual([])
})

test('an id in upper case is accepted', async ({ client }) => {
  const customer = (await client.post('/v1/customers', { idempotency_key: freshKey() })).body
  const authorized_payment = await authorizedPayment(client, { customer_id: customer.id.toUpperCase() })
  expect(authorized_payment.customer_id).toBe(customer.id)
  const path = `/v1/payments/${authorized_payment.id.toUpperCase()}`
  expect((await client.get(path)).body).toEqual(authorized_payment)
  const captured = await client.post(`${path}/capture`)
  expect([captured.status, captured.body]).toMatchObject([
    200,
    { id: authorized_payment.id, status: 'captured' },
  ])
  const returned = await refund(client, authorized_payment.id.toUpperCase())
  expect([returned.status, returned.body.payment_id]).toEqual([201, authorized_payment.id])
  const listed = await client.get(`/v1/payments?customer_id=${customer.id.toUpperCase()}`)
  expect(listed.body.map(({ id }: { id: string }) => id)).toEqual([authorized_payment.id])
})

describe('the merchant of a payment', () => {
  async function createMerchant(client: Client, shop: Client = client): Promise<string> {
    const answer = await shop.post('/v1/merchants', {
      idempotency_key: freshKey(),
      ...MERCHANT,
    })
    expect(answer.status).toBe(201)
    return answer.body.id
  }

  /** Counts payments, their jobs and idempotency keys. */
  async function countStoredRows(world: World): Promise<number> {
    const [row] = await world.sql<{ n: number }[]>`
      select (select count(*) from payments)::int + (select count(*) from jobs where queue = 'payments')::int
        + (select count(*) from idempotency_keys)::int as n`
    return row!.n
  }

  test('is in every response and event of the payment, and is null if the payment has no merchant', async ({
    world,
    client,
  }) => {
    const merchant_id = await createMerchant(client)
    const authorized_payment = await authorizedPayment(client, { merchant_id: merchant_id.toUpperCase() })
    expect(authorized_payment.merchant_id).toBe(merchant_id)
    expect((await client.get(`/v1/payments/${authorized_payment.id}`)).body.merchant_id).toBe(merchant_id)
    const captured = await client.post(`/v1/payments/${authorized_payment.id}/capture`)
    expect(captured.body).toMatchObject({ status: 'captured', merchant_id })
    const events = await world.sql<{ type: string; merchant_id: string | null }[]>`
      select type, data ->> 'merchant_id' as merchant_id from events
      where tenant_id = ${world.tenant_id} and subject_id = ${authorized_payment.id} order by created_at`
    expect(events.map((event) => ({ ...event }))).toEqual(
      ['payment.created', 'payment.authorized', 'payment.captured'].map((type) => ({ type, merchant_id })),
    )
    for (const body of [{}, { merchant_id: null }])
      expect((await authorizedPayment(client, body)).merchant_id).toBeNull()
  })

  test('that is unknown, archived or foreign is refused, and nothing is stored', async ({
    world,
    client,
  }) => {
    const archived = await createMerchant(client)
    await client.delete(`/v1/merchants/${archived}`)
    const foreign_merchant = await createMerchant(client, await world.clientOf())
    const own_merchant = await createMerchant(client)
    const before = await countStoredRows(world)
    for (const [body, status, code, param] of [
      [{ merchant_id: RANDOM_ID }, 404, 'merchant_not_found', 'merchant_id'],
      [{ merchant_id: foreign_merchant }, 404, 'merchant_not_found', 'merchant_id'],
      [{ merchant_id: archived }, 422, 'payment_invalid', 'merchant_id'],
      [{ merchant_id: archived.toUpperCase() }, 422, 'payment_invalid', 'merchant_id'],
      [{ merchant_id: own_merchant, customer_id: RANDOM_ID }, 404, 'customer_not_found', 'customer_id'],
      [{ merchant_id: 'engines' }, 400, 'invalid_request', 'merchant_id'],
      [{ merchant_id: '' }, 400, 'invalid_request', 'merchant_id'],
      [{ merchant_id: 17 }, 400, 'invalid_request', 'merchant_id'],
      [{ merchant_id: [own_merchant] }, 400, 'invalid_request', 'merchant_id'],
    ] as const) {
      for (const headers of [{}, ASYNC]) {
        const refused = await createPayment(client, body, headers)
        expect([body, refused.status, refused.body.error]).toMatchObject([body, status, { code, param }])
      }
    }
    expect(await countStoredRows(world)).toBe(before)
    // A refused request leaves its key unused.
    const idempotency_key = freshKey()
    expect((await createPayment(client, { merchant_id: archived, idempotency_key })).status).toBe(422)
    expect((await createPayment(client, { merchant_id: own_merchant, idempotency_key })).status).toBe(201)
  })

  test('is checked for each of several concurrent payments, and only those with an invalid merchant are refused', async ({
    world,
    client,
  }) => {
    const archived = await createMerchant(client)
    await client.delete(`/v1/merchants/${archived}`)
    const own_merchant = await createMerchant(client)
    const choices = [
      [{ merchant_id: own_merchant }, 202],
      [{ merchant_id: RANDOM_ID }, 404],
      [{}, 202],
      [{ merchant_id: archived }, 422],
    ] as const
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => createPayment(client, choices[n % 4]![0], ASYNC)),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map((_, n) => choices[n % 4]![1]))
    await world.drain()
  })

  test('may be archived later: the accepted payment continues, and its key is replayed', async ({
    client,
  }) => {
    const merchant_id = await createMerchant(client)
    const body = { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey(), merchant_id }
    const first = await client.post('/v1/payments', body)
    expect(first.status).toBe(201)
    await client.delete(`/v1/merchants/${merchant_id}`)
    const repetition = await client.post('/v1/payments', body)
    expect([repetition.status, repetition.body, repetition.headers.get('idempotent-replayed')]).toEqual([
      201,
      first.body,
      'true',
    ])
    const other = await client.post('/v1/payments', { ...body, merchant_id: null })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
    const captured = await client.post(`/v1/payments/${first.body.id}/capture`)
    expect(captured.body).toMatchObject({ status: 'captured', merchant_id })
  })

  test('is a filter of lists, alone and with other filters', async ({ world, client }) => {
    const [one, two] = [await createMerchant(client), await createMerchant(client)]
    const customer = await client.post('/v1/customers', { idempotency_key: freshKey() })
    const customer_id = customer.body.id as string
    const names_by_id = new Map<string, string>()
    for (const [name, body] of [
      ['a', { merchant_id: one }],
      ['b', { merchant_id: one, customer_id }],
      ['c', { merchant_id: two, customer_id }],
      ['d', { customer_id }],
      ['e', { merchant_id: one, currency: 'EUR' }],
    ] as const)
      names_by_id.set((await authorizedPayment(client, body)).id, name)
    const last = (await client.get(`/v1/payments?merchant_id=${one}&limit=1`)).body[0].created_at
    for (const [query, names] of [
      [`merchant_id=${one}`, 'eba'],
      [`merchant_id=${one.toUpperCase()}`, 'eba'],
      [`merchant_id=${two}`, 'c'],
      [`merchant_id=${one}&customer_id=${customer_id}`, 'b'],
      [`merchant_id=${one}&status=authorized&currency=eur`, 'e'],
      [`merchant_id=${one}&status=captured`, ''],
      [`merchant_id=${one}&created_to=${last}`, 'ba'],
      [`merchant_id=${RANDOM_ID}`, ''],
    ]) {
      const { body } = await client.get(`/v1/payments?${query}`)
      expect([query, body.map(({ id }: { id: string }) => names_by_id.get(id)).join('')]).toEqual([
        query,
        names,
      ])
    }
    expect((await (await world.clientOf()).get(`/v1/payments?merchant_id=${one}`)).body).toEqual([])
    const refused = await client.get('/v1/payments?merchant_id=engines')
    expect([refused.status, refused.body.error.param]).toEqual([400, 'merchant_id'])
  })

  test('is checked by the database, as is the customer: both must exist and belong to the tenant', async ({
    world,
    client,
  }) => {
    const authorized_payment = await authorizedPayment(client, { merchant_id: await createMerchant(client) })
    const other = await world.clientOf()
    const { body } = await other.post('/v1/customers', { idempotency_key: freshKey() })
    const setReference = async (column: 'merchant_id' | 'customer_id', id: string) =>
      await world.sql`
        update payments set ${world.sql(column)} = ${id} where tenant_id = ${world.tenant_id} and id = ${authorized_payment.id}`
    for (const id of [RANDOM_ID, await createMerchant(client, other)])
      await expect(setReference('merchant_id', id)).rejects.toMatchObject({
        constraint_name: 'payments_merchant',
      })
    for (const id of [RANDOM_ID, body.id])
      await expect(setReference('customer_id', id)).rejects.toMatchObject({ code: '23503' })
  })
})

describe('a client that waits while a notification overtakes the job', () => {
  test.for([
    ['capture', 'captured'],
    ['cancel', 'canceled'],
  ] as const)('gets 200 for a %s that has taken effect', async ([action, status], { world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const path = `/v1/payments/${id}/${action}`
    const match = { path: `${processor_reference}/${action}` }
    const hold = await fault(world, { match, fault: { hold: 'after' } })
    const idempotency_key = freshKey()
    const first = await client.post(path, { idempotency_key }, ASYNC)
    expect(first.status).toBe(202)
    await hold.hit()
    await paymentIn(client, id, status)
    const waited = await client.post(path, { idempotency_key }, { prefer: 'wait=1' })
    expect([waited.status, waited.body]).toMatchObject([200, { id, status }])
    expect(waited.headers.get('location')).toBeNull()
    await hold.remove()
    await world.drain()
    await checkInvariants(world)
  })

  test('gets 202 for a capture as long as only another amount is captured', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client, { amount_minor: 20_000 })
    const match = { path: `${processor_reference}/capture` }
    const hold = await fault(world, { match, fault: 'hold' })
    const body = { amount_minor: 500, idempotency_key: freshKey() }
    const path = `/v1/payments/${id}/capture`
    expect((await client.post(path, body, ASYNC)).status).toBe(202)
    await hold.hit()
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    await paymentIn(client, id, 'captured')
    const waited = await client.post(path, body, { prefer: 'wait=1' })
    expect([waited.status, waited.body]).toMatchObject([
      202,
      { status: 'captured', amount_captured_minor: 20_000 },
    ])
    await hold.remove()
    const refused = await client.post(path, body)
    expect([refused.status, refused.body.error]).toMatchObject([
      409,
      { code: 'payment_not_capturable', context: { amount_captured_minor: 20_000 } },
    ])
    await checkInvariants(world)
  })
})
