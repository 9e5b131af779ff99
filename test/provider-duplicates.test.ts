// Duplicates at the provider: a call was made again under a new key, and what it made first shows up after all. What can be
// undone is canceled by itself.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { waitingForLocks } from '#test/locks.ts'
import { loseFirstWrite } from '#test/lost-writes.ts'
import { ASYNC, createPayment, eventually, fault, heldPayment, paymentIn } from '#test/payments.ts'
import { createWorld, type World } from '#test/world.ts'
import { askProvider, party, startVerification, verificationIn } from '#test/verifications.ts'

let world: World
let client: Client & { tenant_id: string }
beforeAll(async () => {
  world = await createWorld()
  client = await world.clientOf()
})
afterAll(async () => await world?.close())

async function askStripe(method: string, path: string, fields?: Record<string, string>): Promise<any> {
  const { url, api_key } = world.provider('stripe')
  const answer = await fetch(`${url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${api_key}` },
    ...(fields !== undefined && { body: new URLSearchParams(fields) }),
  })
  return await answer.json()
}

/** The processor has made another one of this payment, as if late. */
async function madeLate(payment_id: string, capture_method: 'manual' | 'automatic'): Promise<string> {
  const made = await askStripe('POST', '/payment_intents', {
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

const lateHold = (payment_id: string) => madeLate(payment_id, 'manual')
const lateCharge = (payment_id: string) => madeLate(payment_id, 'automatic')

/** A payment whose first call met a stored error before its effect, three minutes ago. */
async function unknownPayment(description = freshKey()): Promise<{ id: string; description: string }> {
  await fault(world, {
    match: { method: 'POST', contains: description },
    times: 2,
    fault: 'error_500_before',
  })
  const { body } = await createPayment(client, { description }, ASYNC)
  await eventually(async () => {
    const aged = await world.sql`
      update jobs set first_sent_at = first_sent_at - interval '3 minutes', last_sent_at = last_sent_at - interval '3 minutes',
        created_at = created_at - interval '3 minutes' where subject_id = ${body.id} and state = 'unknown' returning id`
    expect(aged).toHaveLength(1)
  })
  return { id: body.id, description }
}

const dueNow = async (payment_id: string) =>
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where subject_id = ${payment_id} and state = 'unknown'`

const statusAt = async (reference: string): Promise<string> =>
  (await askStripe('GET', `/payment_intents/${reference}`)).status

const drifts = async () => (await client.get('/v1/reconciliation')).body

async function isCanceled(reference: string): Promise<void> {
  await eventually(async () => expect(await statusAt(reference)).toBe('canceled'))
}

test('a hold that shows up beside the one that was made again is released, under a stored key', async () => {
  const { id } = await unknownPayment()
  await dueNow(id)
  const { processor_reference } = await paymentIn(client, id, 'authorized')
  const late = await lateHold(id)
  await isCanceled(late)
  await world.drain()
  const jobs = await world.sql`
    select state, key, generation from jobs where subject_id = ${id} and name = 'payment.cancel_duplicate'`
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

test('a hold that shows up while the call is made again is taken, and the second one is released', async () => {
  const { id, description } = await unknownPayment()
  const held = await fault(world, {
    match: { method: 'POST', contains: description },
    fault: 'hold',
  })
  await dueNow(id)
  await held.hit()
  const late = await lateHold(id)
  expect(await paymentIn(client, id, 'authorized')).toMatchObject({ processor_reference: late })
  await held.release()
  const all = await eventually(async () => {
    const { data } = await askStripe('GET', '/payment_intents?limit=100')
    const found = data.filter((each: any) => each.metadata.sluice_payment_id === id)
    expect(found).toHaveLength(2)
    return found
  })
  await isCanceled(all.find((each: any) => each.id !== late).id)
  await world.drain()
  expect(await statusAt(late)).toBe('requires_capture')
  expect(await drifts()).toEqual([])
})

test('a release that meets stored errors of its own ends all the same', async () => {
  const { id } = await unknownPayment()
  await dueNow(id)
  await paymentIn(client, id, 'authorized')
  const failing = await fault(world, {
    match: { method: 'POST', path: '/cancel$' },
    times: 3,
    fault: 'error_500_before',
  })
  const late = await lateHold(id)
  await failing.hit(3)
  await isCanceled(late)
  await world.drain()
  expect(await drifts()).toEqual([])
})

test('a duplicate that the provider does not know is unknown, and not over: it may be of another account', async () => {
  const { id } = await unknownPayment()
  await dueNow(id)
  await paymentIn(client, id, 'authorized')
  const failing = await fault(world, { match: { method: 'POST', path: '/cancel$' }, fault: 'drop_before' })
  const late = await lateHold(id)
  await failing.hit()
  const name = 'payment.cancel_duplicate'
  await eventually(async () => {
    const moved = await world.sql`
      update jobs set request = '{"reference":"pi_of_another_account"}', run_at = now(), wakeup_sent_at = null
      where subject_id = ${id} and name = ${name} and state = 'ready' returning id`
    expect(moved).toHaveLength(1)
  })
  await eventually(async () =>
    expect(await world.sql`select state from jobs where subject_id = ${id} and name = ${name}`).toMatchObject(
      [{ state: 'unknown' }],
    ),
  )
  await world.sql`
    update jobs set request = jsonb_build_object('reference', ${late}::text), run_at = now(), wakeup_sent_at = null
    where subject_id = ${id} and name = ${name}`
  await isCanceled(late)
})

test('a hold that shows up although the second call was refused is released: the payment has failed', async () => {
  const { id, description } = await unknownPayment()
  await fault(world, { match: { method: 'POST', contains: description }, fault: 'refuse_400' })
  await dueNow(id)
  await paymentIn(client, id, 'failed')
  await isCanceled(await lateHold(id))
  await world.drain()
  expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'failed' })
})

/** The payment whose late hold was canceled. It has no drift. */
async function releasedFrom(payment_id: string, late: string): Promise<any> {
  await isCanceled(late)
  await world.drain()
  expect((await drifts()).filter((each: any) => each.subject_id === payment_id)).toEqual([])
  return (await client.get(`/v1/payments/${payment_id}`)).body
}

const STAYS = { status: 'canceled', processor_reference: null }

test('a hold that shows up after its payment was canceled without another call is released', async () => {
  const { id } = await unknownPayment()
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  await dueNow(id)
  expect(await paymentIn(client, id, 'canceled')).toMatchObject({ processor_reference: null })
  expect(await releasedFrom(id, await lateHold(id))).toMatchObject(STAYS)
})

/** A payment that is being canceled without another call, and what the processor tells of meanwhile. */
async function reportedWhileCanceled(
  make: (payment_id: string) => Promise<string>,
): Promise<{ id: string; late: string }> {
  const { id } = await unknownPayment()
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  const late = await world.sql.begin(async (tx) => {
    await tx`select from payments where id = ${id} for update`
    await dueNow(id)
    await waitingForLocks(world.sql, 1)
    // The notification reads the payment as it was, and is settled after the cancellation.
    const reference = await make(id)
    const asked = { method: 'GET', path: `/v1/payment_intents/${reference}` }
    await eventually(async () => expect(await world.provider('stripe').requests(asked)).not.toHaveLength(0))
    await waitingForLocks(world.sql, 2)
    return reference
  })
  return { id, late }
}

test('a hold that shows up while its payment is being canceled without another call is released', async () => {
  const { id, late } = await reportedWhileCanceled(lateHold)
  expect(await releasedFrom(id, late)).toMatchObject(STAYS)
})

test('it is released also when the first look at it is lost: nothing is settled without it', async () => {
  const found = await loseFirstWrite(
    world.sql,
    'insert',
    'notifications',
    `new.event_id like 'lookup:%:duplicate'`,
  )
  const { id, late } = await reportedWhileCanceled(lateHold)
  expect(await releasedFrom(id, late)).toMatchObject(STAYS)
  await found()
})

test('a copy of a payment that was called once may be of another program: it is left alone, and shown', async () => {
  const { id } = await heldPayment(client)
  const other = await lateHold(id)
  await eventually(async () => expect(await drifts()).toMatchObject([{ subject_id: id, state: 'differs' }]))
  expect(await statusAt(other)).toBe('requires_capture')
})

test('money that shows up while its payment is being canceled without another call is shown', async () => {
  const { id, late } = await reportedWhileCanceled(lateCharge)
  await eventually(async () =>
    expect((await drifts()).filter((each: any) => each.subject_id === id)).toMatchObject([
      { state: 'differs', ours: { status: 'canceled' }, theirs: { processor_reference: late } },
    ]),
  )
})

test('a payment that was canceled while its call was unknown is not held: it ends without another call', async () => {
  const { id } = await unknownPayment()
  expect((await client.post(`/v1/payments/${id}/cancel`, {}, ASYNC)).status).toBe(202)
  await dueNow(id)
  expect(await paymentIn(client, id, 'canceled')).toMatchObject({ processor_reference: null })
  expect(await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': id })).toEqual([])
  const jobs = await world.sql`select name, state, generation from jobs where subject_id = ${id}`
  expect(jobs).toMatchObject([{ name: 'payment.authorize', state: 'failed', generation: 2 }])
})

/** The provider has another session for this verification, as if it had made it late. */
async function lateSession(kyc_id: string): Promise<string> {
  const made = await askStripe('POST', '/identity/verification_sessions', {
    type: 'document',
    client_reference_id: kyc_id,
    'metadata[sluice_kyc_id]': kyc_id,
    'metadata[sluice_tenant_id]': client.tenant_id,
  })
  expect(made).toMatchObject({ status: 'requires_input' })
  return made.id
}

/** The match of a verification's call, whose first answer is a stored error before its effect. */
async function failingOnce() {
  const mark = freshKey()
  const of = { ...(await party(client, 'customer')), return_url: `https://shop.example/${mark}` }
  const match = { method: 'POST', path: '/verification_sessions$', contains: mark }
  await fault(world, { match, times: 2, fault: 'error_500_before' })
  return { of, match }
}

const sessionIsCanceled = async (reference: string) =>
  await eventually(async () =>
    expect(await askProvider(world, 'GET', `/${reference}`)).toMatchObject({ status: 'canceled' }),
  )

test('a session that shows up while another is opened is canceled, and the verification keeps its own', async () => {
  const { of, match } = await failingOnce()
  const held = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, of, ASYNC)
  await held.hit()
  const late = await lateSession(body.id)
  await held.release()
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  expect(provider_reference).not.toBe(late)
  await sessionIsCanceled(late)
  await world.drain()
  expect((await client.get(`/v1/compliance/kyc/${body.id}`)).body).toMatchObject({
    status: 'requires_input',
    provider_reference,
  })
})

test('the end of a duplicate is not the end of the verification, also when the first write of that is lost', async () => {
  const { of, match } = await failingOnce()
  const held = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, of, ASYNC)
  await held.hit()
  const late = await lateSession(body.id)
  const written = await loseFirstWrite(world.sql, 'update', 'verifications', `new.id = '${body.id}'`)
  await held.release()
  await sessionIsCanceled(late)
  await written()
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  expect(provider_reference).not.toBe(late)
  const settle = { status: 'verified' }
  await world.provider('stripe').control('POST', `/identity/${provider_reference}/settle`, settle)
  await verificationIn(client, body.id, 'approved')
})

test('a session that is canceled by hand while the call is made again does not end the verification', async () => {
  const { of, match } = await failingOnce()
  const held = await fault(world, { match, fault: 'hold' })
  const { body } = await startVerification(client, of, ASYNC)
  await held.hit()
  const late = await lateSession(body.id)
  await askStripe('POST', `/identity/verification_sessions/${late}/cancel`, {})
  await eventually(async () =>
    expect(await world.sql`select state from notifications where object_id = ${late}`).toContainEqual({
      state: 'parked',
    }),
  )
  await held.release()
  expect((await verificationIn(client, body.id, 'requires_input')).provider_reference).not.toBe(late)
})

test('a session that shows up after another was opened is canceled too', async () => {
  const { of } = await failingOnce()
  const { body } = await startVerification(client, of, ASYNC)
  const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
  await world.drain()
  await sessionIsCanceled(await lateSession(body.id))
  const { body: still } = await client.get(`/v1/compliance/kyc/${body.id}`)
  expect(still).toMatchObject({ status: 'requires_input', provider_reference })
})

test('a session that shows up although the second call was refused is canceled: the verification is rejected', async () => {
  const { of, match } = await failingOnce()
  await fault(world, { match, fault: 'refuse_400' })
  const { body } = await startVerification(client, of, ASYNC)
  await verificationIn(client, body.id, 'rejected')
  await sessionIsCanceled(await lateSession(body.id))
  await world.drain()
  const { body: still } = await client.get(`/v1/compliance/kyc/${body.id}`)
  expect(still).toMatchObject({ status: 'rejected', decided_by: null })
  expect((await drifts()).filter((each: any) => each.subject_id === body.id)).toEqual([])
})
