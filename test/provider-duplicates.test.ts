// Duplicates at the provider: a call is repeated under a new key, and the resource of the first call appears later.
// Duplicates that can be undone are canceled automatically.
import { expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { waitingForLocks } from '#test/locks.ts'
import { loseFirstWrite } from '#test/lost-writes.ts'
import { ASYNC, createPayment, eventually, fault, authorizedPayment, paymentIn } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'
import { callProvider, party, startVerification, verificationIn } from '#test/verifications.ts'

let client: Client & { tenant_id: string }
const test = testIn()
test.beforeAll(async ({ world }) => {
  client = await world.clientOf()
})

async function callStripe(
  world: World,
  method: string,
  path: string,
  fields?: Record<string, string>,
): Promise<any> {
  const { url, api_key } = world.provider('stripe')
  const response = await fetch(`${url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${api_key}` },
    ...(fields !== undefined && { body: new URLSearchParams(fields) }),
  })
  return await response.json()
}

/** Creates a second payment intent of this payment at the processor, like a late effect of the first call. */
async function createLateIntent(
  world: World,
  payment_id: string,
  capture_method: 'manual' | 'automatic',
): Promise<string> {
  const made = await callStripe(world, 'POST', '/payment_intents', {
    amount: '1000',
    currency: 'usd',
    capture_method,
    confirm: 'true',
    payment_method: 'pm_card_visa',
    'automatic_payment_methods[enabled]': 'true',
    'automatic_payment_methods[allow_redirects]': 'never',
    'metadata[sluice_payment_id]': payment_id,
    'metadata[sluice_tenant_id]': client.tenant_id,
  })
  expect(made).toMatchObject({ status: capture_method === 'manual' ? 'requires_capture' : 'succeeded' })
  return made.id
}

const createLateHold = (world: World, payment_id: string) => createLateIntent(world, payment_id, 'manual')
const createLateCharge = (world: World, payment_id: string) =>
  createLateIntent(world, payment_id, 'automatic')

/** Creates a payment whose first call got a stored error before its effect, three minutes ago. */
async function createUnknownPayment(
  world: World,
  description = freshKey(),
): Promise<{ id: string; description: string }> {
  await fault(world, {
    match: { method: 'POST', contains: description },
    times: 2,
    fault: 'error_500_before',
  })
  const { body } = await createPayment(client, { description }, ASYNC)
  await eventually(async () => {
    const aged = await world.sql`
      update jobs set first_sent_at = first_sent_at - interval '3 minutes', last_sent_at = last_sent_at - interval '3 minutes',
        created_at = created_at - interval '3 minutes' where resource_id = ${body.id} and state = 'unknown' returning id`
    expect(aged).toHaveLength(1)
  })
  return { id: body.id, description }
}

const makeDue = async (world: World, payment_id: string) =>
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where resource_id = ${payment_id} and state = 'unknown'`

const stripeStatusOf = async (world: World, reference: string): Promise<string> =>
  (await callStripe(world, 'GET', `/payment_intents/${reference}`)).status

const drifts = async () => (await client.get('/v1/reconciliation')).body

async function awaitCanceled(world: World, reference: string): Promise<void> {
  await eventually(async () => expect(await stripeStatusOf(world, reference)).toBe('canceled'))
}

test('a late hold in addition to the hold of the repeated call is released, with a stored key', async ({
  world,
}) => {
  const { id } = await createUnknownPayment(world)
  await makeDue(world, id)
  const { processor_reference } = await paymentIn(client, id, 'authorized')
  const late = await createLateHold(world, id)
  await awaitCanceled(world, late)
  await world.drain()
  const jobs = await world.sql`
    select state, key, generation from jobs where resource_id = ${id} and name = 'payment.cancel_duplicate'`
  expect(jobs).toMatchObject([{ state: 'succeeded', generation: 1 }])
  const requests = await world.provider('stripe').requests({ idempotency_key: jobs[0]!['key'] })
  expect(requests).toMatchObject([{ path: `/v1/payment_intents/${late}/cancel`, status: 200 }])
  expect(await drifts()).toEqual([])
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({
    status: 'authorized',
    processor_reference,
  })
  expect((await client.post(`/v1/payments/${id}/capture`)).body).toMatchObject({ status: 'captured' })
})

test('a late hold that appears during the repeated call is accepted, and the hold of the repeated call is released', async ({
  world,
}) => {
  const { id, description } = await createUnknownPayment(world)
  const hold = await fault(world, {
    match: { method: 'POST', contains: description },
    fault: 'hold',
  })
  await makeDue(world, id)
  await hold.hit()
  const late = await createLateHold(world, id)
  expect(await paymentIn(client, id, 'authorized')).toMatchObject({ processor_reference: late })
  await hold.release()
  const all = await eventually(async () => {
    const { data } = await callStripe(world, 'GET', '/payment_intents?limit=100')
    const found = data.filter((each: any) => each.metadata.sluice_payment_id === id)
    expect(found).toHaveLength(2)
    return found
  })
  await awaitCanceled(world, all.find((each: any) => each.id !== late).id)
  await world.drain()
  expect(await stripeStatusOf(world, late)).toBe('requires_capture')
  expect(await drifts()).toEqual([])
})

test('a release whose calls get stored errors succeeds in the end', async ({ world }) => {
  const { id } = await createUnknownPayment(world)
  await makeDue(world, id)
  await paymentIn(client, id, 'authorized')
  const failing = await fault(world, {
    match: { method: 'POST', path: '/cancel$' },
    times: 3,
    fault: 'error_500_before',
  })
  const late = await createLateHold(world, id)
  await failing.hit(3)
  await awaitCanceled(world, late)
  await world.drain()
  expect(await drifts()).toEqual([])
})

test('a duplicate that the provider does not find stays unknown, because it may belong to another account', async ({
  world,
}) => {
  const { id } = await createUnknownPayment(world)
  await makeDue(world, id)
  await paymentIn(client, id, 'authorized')
  const failing = await fault(world, { match: { method: 'POST', path: '/cancel$' }, fault: 'drop_before' })
  const late = await createLateHold(world, id)
  await failing.hit()
  const name = 'payment.cancel_duplicate'
  await eventually(async () => {
    const moved = await world.sql`
      update jobs set request = '{"reference":"pi_of_another_account"}', run_at = now(), wakeup_sent_at = null
      where resource_id = ${id} and name = ${name} and state = 'ready' returning id`
    expect(moved).toHaveLength(1)
  })
  await eventually(async () =>
    expect(
      await world.sql`select state from jobs where resource_id = ${id} and name = ${name}`,
    ).toMatchObject([{ state: 'unknown' }]),
  )
  await world.sql`
    update jobs set request = jsonb_build_object('reference', ${late}::text), run_at = now(), wakeup_sent_at = null
    where resource_id = ${id} and name = ${name}`
  await awaitCanceled(world, late)
})

test('a late hold of a payment that failed because of its repeated call is released', async ({ world }) => {
  const { id, description } = await createUnknownPayment(world)
  await fault(world, { match: { method: 'POST', contains: description }, fault: 'refuse_400' })
  await makeDue(world, id)
  await paymentIn(client, id, 'failed')
  await awaitCanceled(world, await createLateHold(world, id))
  await world.drain()
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'failed' })
})

/** Waits for the cancellation of a late hold. Expects no drift, and returns the payment. */
async function awaitReleased(world: World, payment_id: string, late: string): Promise<any> {
  await awaitCanceled(world, late)
  await world.drain()
  expect((await drifts()).filter((each: any) => each.subject_id === payment_id)).toEqual([])
  return (await client.get(`/v1/payments/${payment_id}`)).body
}

const CANCELED = { status: 'canceled', processor_reference: null }

test('a late hold of a payment that was canceled without repeating its call is released', async ({
  world,
}) => {
  const { id } = await createUnknownPayment(world)
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  await makeDue(world, id)
  expect(await paymentIn(client, id, 'canceled')).toMatchObject({ processor_reference: null })
  expect(await awaitReleased(world, id, await createLateHold(world, id))).toMatchObject(CANCELED)
})

/** Cancels a payment whose call was not repeated, while the processor reports the object that `make` creates. */
async function reportDuringCancellation(
  world: World,
  make: (world: World, payment_id: string) => Promise<string>,
): Promise<{ id: string; late: string }> {
  const { id } = await createUnknownPayment(world)
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  const late = await world.sql.begin(async (tx) => {
    await tx`select from payments where id = ${id} for update`
    await makeDue(world, id)
    await waitingForLocks(world.sql, 1)
    // The worker reads the payment for the notification before the cancellation, and settles the notification after
    // the cancellation.
    const reference = await make(world, id)
    const lookup = { method: 'GET', path: `/v1/payment_intents/${reference}` }
    await eventually(async () => expect(await world.provider('stripe').requests(lookup)).not.toHaveLength(0))
    await waitingForLocks(world.sql, 2)
    return reference
  })
  return { id, late }
}

test('a late hold that appears during the cancellation of a payment whose call was not repeated is released', async ({
  world,
}) => {
  const { id, late } = await reportDuringCancellation(world, createLateHold)
  expect(await awaitReleased(world, id, late)).toMatchObject(CANCELED)
})

test('a late hold that appears during a cancellation is released even if the first write of its lookup is lost', async ({
  world,
}) => {
  const awaitLostWrite = await loseFirstWrite(
    world.sql,
    'insert',
    'notifications',
    `new.event_id like 'lookup:%:duplicate'`,
  )
  const { id, late } = await reportDuringCancellation(world, createLateHold)
  expect(await awaitReleased(world, id, late)).toMatchObject(CANCELED)
  await awaitLostWrite()
})

test('a duplicate of a payment with a single call is kept and shown as a drift', async ({ world }) => {
  const { id } = await authorizedPayment(client)
  const other = await createLateHold(world, id)
  await eventually(async () => expect(await drifts()).toMatchObject([{ subject_id: id, state: 'differs' }]))
  expect(await stripeStatusOf(world, other)).toBe('requires_capture')
})

test('a late charge that appears during the cancellation of a payment whose call was not repeated is shown as a drift', async ({
  world,
}) => {
  const { id, late } = await reportDuringCancellation(world, createLateCharge)
  await eventually(async () =>
    expect((await drifts()).filter((each: any) => each.subject_id === id)).toMatchObject([
      { state: 'differs', ours: { status: 'canceled' }, theirs: { processor_reference: late } },
    ]),
  )
})

test('the cancellation of a payment whose call has an unknown outcome does not repeat the call', async ({
  world,
}) => {
  const { id } = await createUnknownPayment(world)
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  await makeDue(world, id)
  expect(await paymentIn(client, id, 'canceled')).toMatchObject({ processor_reference: null })
  expect(await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': id })).toEqual([])
  const jobs = await world.sql`select name, state, generation from jobs where resource_id = ${id}`
  expect(jobs).toMatchObject([{ name: 'payment.authorize', state: 'failed', generation: 2 }])
})

/** Creates a second session of this verification at the provider, like a late effect of the first call. */
async function createLateSession(world: World, kyc_id: string): Promise<string> {
  const made = await callStripe(world, 'POST', '/identity/verification_sessions', {
    type: 'document',
    client_reference_id: kyc_id,
    'metadata[sluice_kyc_id]': kyc_id,
    'metadata[sluice_tenant_id]': client.tenant_id,
  })
  expect(made).toMatchObject({ status: 'requires_input' })
  return made.id
}

/**
 * Prepares a verification whose first call gets a stored error before its effect. `match` matches the calls of the
 * verification.
 */
async function failFirstCall(world: World) {
  const mark = freshKey()
  const request = { ...(await party(client, 'customer')), return_url: `https://shop.example/${mark}` }
  const match = { method: 'POST', path: '/verification_sessions$', contains: mark }
  await fault(world, { match, times: 2, fault: 'error_500_before' })
  return { request, match }
}

const awaitSessionCanceled = async (world: World, reference: string) =>
  await eventually(async () =>
    expect(await callProvider(world, 'GET', `/${reference}`)).toMatchObject({ status: 'canceled' }),
  )

test('a late session that appears while a second session is created is canceled, and the verification keeps the second session', async ({
  world,
}) => {
  const { request, match } = await failFirstCall(world)
  const hold = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, request, ASYNC)
  await hold.hit()
  const late = await createLateSession(world, body.id)
  await hold.release()
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  expect(provider_reference).not.toBe(late)
  await awaitSessionCanceled(world, late)
  await world.drain()
  expect((await client.get(`/v1/compliance/kyc/${body.id}`)).body).toMatchObject({
    status: 'requires_input',
    provider_reference,
  })
})

test('the cancellation of a duplicate session does not end the verification, even if its first write is lost', async ({
  world,
}) => {
  const { request, match } = await failFirstCall(world)
  const hold = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, request, ASYNC)
  await hold.hit()
  const late = await createLateSession(world, body.id)
  const awaitLostUpdate = await loseFirstWrite(world.sql, 'update', 'verifications', `new.id = '${body.id}'`)
  await hold.release()
  await awaitSessionCanceled(world, late)
  await awaitLostUpdate()
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  expect(provider_reference).not.toBe(late)
  const settle = { status: 'verified' }
  await world.provider('stripe').control('POST', `/identity/${provider_reference}/settle`, settle)
  await verificationIn(client, body.id, 'approved')
})

test('a late session that is canceled manually during the repeated call does not end the verification', async ({
  world,
}) => {
  const { request, match } = await failFirstCall(world)
  const hold = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, request, ASYNC)
  await hold.hit()
  const late = await createLateSession(world, body.id)
  await callStripe(world, 'POST', `/identity/verification_sessions/${late}/cancel`, {})
  await eventually(async () =>
    expect(await world.sql`select state from notifications where object_id = ${late}`).toContainEqual({
      state: 'parked',
    }),
  )
  await hold.release()
  expect((await verificationIn(client, body.id, 'requires_input')).provider_reference).not.toBe(late)
})

test('a late session that appears after the second session is canceled', async ({ world }) => {
  const { request } = await failFirstCall(world)
  const { body } = await startVerification(client, request, ASYNC)
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  await world.drain()
  await awaitSessionCanceled(world, await createLateSession(world, body.id))
  const { body: verification } = await client.get(`/v1/compliance/kyc/${body.id}`)
  expect(verification).toMatchObject({ status: 'requires_input', provider_reference })
})

test('a session that appears late is canceled if its verification was rejected because of a repeated call', async ({
  world,
}) => {
  const { request, match } = await failFirstCall(world)
  await fault(world, { match, fault: 'refuse_400' })
  const { body } = await startVerification(client, request, ASYNC)
  await verificationIn(client, body.id, 'rejected')
  await awaitSessionCanceled(world, await createLateSession(world, body.id))
  await world.drain()
  const { body: verification } = await client.get(`/v1/compliance/kyc/${body.id}`)
  expect(verification).toMatchObject({ status: 'rejected', decided_by: null })
  expect((await drifts()).filter((each: any) => each.subject_id === body.id)).toEqual([])
})
