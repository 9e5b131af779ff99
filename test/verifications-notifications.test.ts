// What the provider tells of verifications, in any order, late, repeated, and at the moment of a decision by hand.
import { describe, expect } from 'vitest'
import { resolveAsFailed } from '#domain/interventions/act.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import {
  askProvider,
  decide,
  getVerification,
  verificationIn,
  verificationOf,
  verificationSummary,
  party,
  settleSession,
  startVerification,
} from '#test/verifications.ts'
import { lookUpLater } from '#test/lookups.ts'
import { ASYNC, eventually, fault } from '#test/payments.ts'
import {
  deliver,
  deliverAll,
  eventsOf,
  listEvents,
  rotationsOf,
  mapConcurrently,
  stateOf,
  deliverInOrders,
  tried,
} from '#test/stripe-events.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ notifications: false })

/** What there is to tell of one session, oldest first. */
const told = (world: World, reference: string) => eventsOf(world, reference)

/**
 * What happened to as many verifications as there are steps is told when all of it has happened, each time with another
 * step first. What an event says is not read, so that other orders are no other stories.
 */
async function tellAfterwards(
  world: World,
  client: Client,
  steps: [status: string, reason?: string][],
): Promise<any[]> {
  const orders = rotationsOf(steps.map((_, index) => index))
  const verifications = await mapConcurrently(orders, 10, () => verificationOf(client))
  for (const { provider_reference } of verifications)
    for (const [status, reason] of steps) await settleSession(world, provider_reference, status, reason)
  await deliverInOrders(
    world,
    verifications.map((verification) => verification.provider_reference),
    orders,
  )
  return verifications
}

describe('whatever is told first, the end is the same', () => {
  test('looked at, asked for more, looked at again and approved', async ({ world, client }) => {
    const verifications = await tellAfterwards(world, client, [
      ['processing'],
      ['requires_input', 'document_expired'],
      ['processing'],
      ['verified'],
    ])
    for (const { id } of verifications)
      expect(await verificationSummary(world, id)).toEqual({
        status: 'approved',
        failure: null,
        decision: 'approved',
        decided_by: 'provider',
        known: true,
        no_links: true,
      })
  }, 180_000)

  test('looked at, and asked for more in the end', async ({ world, client }) => {
    const verifications = await tellAfterwards(world, client, [
      ['processing'],
      ['requires_input', 'abandoned'],
    ])
    for (const { id } of verifications)
      expect(await verificationSummary(world, id)).toMatchObject({
        status: 'requires_input',
        failure: 'abandoned',
      })
  })

  test('told as it happens, back and forth', async ({ world, client }) => {
    const { id, provider_reference } = await verificationOf(client)
    for (const [reported, status] of [
      ['processing', 'processing'],
      ['requires_input', 'requires_input'],
      ['processing', 'processing'],
      ['canceled', 'rejected'],
    ] as const) {
      await settleSession(world, provider_reference, reported)
      const events = await told(world, provider_reference)
      await deliver(world, events.at(-1)!)
      await verificationIn(client, id, status)
      // Late ones of before change nothing.
      await deliverAll(world, events)
      await world.drain()
      expect((await getVerification(client, id)).status).toBe(status)
    }
  })

  test('an answer that was asked for earlier and comes later does not hold', async ({ world, client }) => {
    const { id, provider_reference } = await verificationOf(client)
    await settleSession(world, provider_reference, 'processing')
    const held = await fault(world, {
      match: { method: 'GET', path: `/${provider_reference}$` },
      fault: { hold: 'after' },
    })
    const [first] = await told(world, provider_reference)
    await deliver(world, first!)
    await held.hit()
    await settleSession(world, provider_reference, 'requires_input', 'document_expired')
    const second = (await told(world, provider_reference)).at(-1)!
    await deliver(world, second)
    await eventually(async () => expect(await stateOf(world, second)).toBe('applied'))
    expect((await getVerification(client, id)).failure).toMatchObject({ code: 'document_expired' })
    await held.release()
    await eventually(async () => expect(await stateOf(world, first!)).toBe('applied'))
    expect(await getVerification(client, id)).toMatchObject({
      status: 'requires_input',
      failure: { code: 'document_expired' },
    })
  })
})

test('told before the answer to our own call is here: by our ids, and once', async ({ world, client }) => {
  const held = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
  const { body } = await startVerification(client, await party(client, 'customer'), ASYNC)
  await held.hit()
  const { data } = await askProvider(world, 'GET', `?client_reference_id=${body.id}`)
  await settleSession(world, data[0].id, 'verified')
  const events = await told(world, data[0].id)
  await deliverAll(world, events)
  await verificationIn(client, body.id, 'approved')
  await held.release()
  await world.drain()
  expect(await verificationSummary(world, body.id)).toMatchObject({ status: 'approved', no_links: true })
})

test('a decision by hand and one of the provider at the same moment: that by hand holds', async ({
  world,
  client,
}) => {
  const verifications = await mapConcurrently(Array.from({ length: 20 }), 10, () =>
    verificationOf(client, 'recipient'),
  )
  for (const { provider_reference } of verifications)
    await settleSession(world, provider_reference, 'verified')
  const all = await listEvents(world)
  const answers = await Promise.all(
    verifications.flatMap(({ id, provider_reference }) => [
      decide(client, id, 'rejected'),
      ...all
        .filter(({ data }) => data.object.id === provider_reference)
        .map((event) => deliver(world, event)),
    ]),
  )
  for (const { status } of answers) expect(status).toBe(200)
  await world.drain()
  for (const { id, subject_id } of verifications) {
    expect(await getVerification(client, id)).toMatchObject({ status: 'rejected', decided_by: 'manual' })
    expect((await client.get(`/v1/recipients/${subject_id}`)).body.kyc_status).toBe('rejected')
  }
})

describe('redacted afterwards', () => {
  test.for([
    ['verified', 'approved'],
    ['canceled', 'rejected'],
    [null, 'rejected'],
  ] as const)('%s: nothing changes but the timeline', async ([reported, status], { world, client }) => {
    const verification = await verificationOf(client)
    if (reported !== null) await settleSession(world, verification.provider_reference, reported)
    else await decide(client, verification.id, 'rejected')
    await deliverAll(world, await told(world, verification.provider_reference))
    await verificationIn(client, verification.id, status)
    await world.drain()
    const before = await getVerification(client, verification.id)
    await askProvider(world, 'POST', `/${verification.provider_reference}/redact`)
    const redacted = await eventually(async () => {
      const event = (await told(world, verification.provider_reference)).find(({ type }) =>
        type.endsWith('.redacted'),
      )
      expect(event).toBeDefined()
      return event!
    })
    expect(redacted.data.object.metadata).toEqual({})
    await deliverAll(world, await told(world, verification.provider_reference))
    await eventually(async () => expect(await stateOf(world, redacted)).toBe('applied'))
    expect(await getVerification(client, verification.id)).toEqual(before)
    const { body } = await client.get(`/v1/compliance/kyc/${verification.id}/timeline`)
    expect(body.map(({ name }: any) => name)).toContain('identity.verification_session.redacted')
  })

  test('while it was open: it is rejected', async ({ world, client }) => {
    const verification = await verificationOf(client)
    await askProvider(world, 'POST', `/${verification.provider_reference}/redact`)
    await eventually(async () => expect(await told(world, verification.provider_reference)).toHaveLength(2))
    await deliverAll(world, await told(world, verification.provider_reference))
    expect(await verificationIn(client, verification.id, 'rejected')).toMatchObject({
      decided_by: 'provider',
    })
  })
})

test('a session of another application is none of ours', async ({ world }) => {
  const { url, api_key } = world.provider('stripe')
  const response = await fetch(`${url}/v1/identity/verification_sessions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${api_key}`,
      'content-type': 'application/x-www-form-urlencoded',
      'idempotency-key': freshKey(),
    },
    body: 'type=document',
  })
  const { id } = (await response.json()) as { id: string }
  await settleSession(world, id, 'verified')
  const [event] = await told(world, id)
  await deliver(world, event!)
  await tried(world, [event!])
  expect(await stateOf(world, event!)).toBe('parked')
})

test('a session that stands still is looked at, when no notification comes', async ({ world, client }) => {
  const { id, provider_reference } = await verificationOf(client)
  await settleSession(world, provider_reference, 'verified')
  expect(await lookUpLater(world, 'kyc', id)).toBe(true)
  expect(await verificationIn(client, id, 'approved')).toMatchObject({ decided_by: 'provider' })
  expect((await client.get('/v1/reconciliation')).body).toEqual([])
})

test('in the end the books and the provider agree', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
  expect(Array.from(await world.sql`select detail from drifts where subject = 'kyc'`)).toEqual([])
}, 180_000)

// These leave the books apart, so they come last.
test('an approved one whose session reads canceled is a drift, unless that is its redaction', async ({
  world,
  client,
}) => {
  const [redacted, canceled] = [await verificationOf(client), await verificationOf(client)]
  const ids = [redacted.id, canceled.id]
  await world.sql`
    update verifications set status = 'approved', decision = 'approved', decided_by = 'provider', decided_at = now(),
      links = '{}', links_until = null
    where id = any(${ids})`
  await askProvider(world, 'POST', `/${redacted.provider_reference}/redact`)
  await settleSession(world, canceled.provider_reference, 'canceled')
  const told = await eventually(async () => {
    const all = await listEvents(world)
    const of_both = [redacted, canceled].map((verification) =>
      eventsOf(world, verification.provider_reference, all),
    )
    const [first, second] = await Promise.all(of_both)
    expect([first!.length, second!.length]).toEqual([2, 1])
    return [...first!, ...second!]
  })
  await deliverAll(world, told)
  for (const event of told) await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
  const drifts = (await client.get('/v1/reconciliation')).body
  expect(drifts).toMatchObject([
    { subject_id: canceled.id, detail: 'it is approved here, and canceled at the provider' },
  ])
})

/** One whose call took effect although an operator said that it did not. */
async function wronglyFailed(world: World, client: Client): Promise<{ id: string; session: string }> {
  const match = { method: 'POST', path: '/verification_sessions$' }
  const lost = await fault(world, { match, fault: 'drop_after' })
  const away = await fault(world, { match, times: 1000, fault: 'html_503' })
  const { body } = await startVerification(client, await party(client, 'recipient'), ASYNC)
  await lost.hit()
  await away.hit()
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${body.id}`
  await eventually(async () =>
    expect(
      await world.sql.begin((tx) =>
        resolveAsFailed(tx, { job_id: job!.id, who: 'ada', reason: 'by mistake' }),
      ),
    ).toMatchObject({ after: 'failed' }),
  )
  await away.remove()
  expect(await getVerification(client, body.id)).toMatchObject({ status: 'rejected', decided_by: null })
  const { data } = await askProvider(world, 'GET', `?client_reference_id=${body.id}`)
  return { id: body.id, session: data[0].id }
}

test('one that was resolved as failed and is verified at the provider all the same shows as a drift', async ({
  world,
  client,
}) => {
  const { id, session } = await wronglyFailed(world, client)
  await settleSession(world, session, 'verified')
  const [told] = await eventsOf(world, session)
  await deliver(world, told!)
  await eventually(async () => expect(await stateOf(world, told!)).toBe('applied'))
  expect(await getVerification(client, id)).toMatchObject({
    status: 'rejected',
    provider_reference: session,
  })
  const drifts = (await client.get('/v1/reconciliation')).body
  expect(drifts).toContainEqual(
    expect.objectContaining({
      subject: 'kyc',
      subject_id: id,
      state: 'differs',
      detail: 'it is rejected here, and verified at the provider',
    }),
  )
})

test('the session of one that was resolved as failed is canceled: nobody goes on with it', async ({
  world,
  client,
}) => {
  const { id, session } = await wronglyFailed(world, client)
  await settleSession(world, session, 'requires_input')
  await deliverAll(world, await told(world, session))
  await eventually(async () =>
    expect(await askProvider(world, 'GET', `/${session}`)).toMatchObject({ status: 'canceled' }),
  )
  await world.drain()
  expect(await getVerification(client, id)).toMatchObject({ status: 'rejected', decided_by: null })
  expect(await lookUpLater(world, 'kyc', id)).toBe(true)
  await world.drain()
  expect((await client.get('/v1/reconciliation')).body).not.toContainEqual(
    expect.objectContaining({ subject_id: id }),
  )
})
