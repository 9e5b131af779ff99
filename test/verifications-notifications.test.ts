// Tests notifications about verifications: in any order, late, repeated, and concurrent with manual decisions.
import { describe, expect } from 'vitest'
import { resolveAsFailed } from '#domain/job-acts/act.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import {
  callProvider,
  decide,
  getVerification,
  verificationIn,
  verificationOf,
  verificationSummary,
  party,
  settleSession,
  startVerification,
} from '#test/verifications.ts'
import { lookUpAfterMonth } from '#test/lookups.ts'
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
  untilAttempted,
} from '#test/stripe-events.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ notifications: false })

/** The provider events of a session, oldest first. */
const sessionEvents = (world: World, reference: string) => eventsOf(world, reference)

/**
 * Creates one verification per step, performs all steps on each verification, and then delivers the events in rotated
 * orders. The worker does not read the content of events, so other orders are equivalent.
 */
async function deliverAfterwards(
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

describe('any order of events leads to the same state', () => {
  test('with the steps processing, input required, processing again and approved', async ({
    world,
    client,
  }) => {
    const verifications = await deliverAfterwards(world, client, [
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
  })

  test('with the steps processing and finally input required', async ({ world, client }) => {
    const verifications = await deliverAfterwards(world, client, [
      ['processing'],
      ['requires_input', 'abandoned'],
    ])
    for (const { id } of verifications)
      expect(await verificationSummary(world, id)).toMatchObject({
        status: 'requires_input',
        failure: 'abandoned',
      })
  })

  test('with a delivery after each step, and with late duplicates of earlier events', async ({
    world,
    client,
  }) => {
    const { id, provider_reference } = await verificationOf(client)
    for (const [reported, status] of [
      ['processing', 'processing'],
      ['requires_input', 'requires_input'],
      ['processing', 'processing'],
      ['canceled', 'rejected'],
    ] as const) {
      await settleSession(world, provider_reference, reported)
      const events = await sessionEvents(world, provider_reference)
      await deliver(world, events.at(-1)!)
      await verificationIn(client, id, status)
      // Late duplicates of earlier events change nothing.
      await deliverAll(world, events)
      await world.drain()
      expect((await getVerification(client, id)).status).toBe(status)
    }
  })

  test('with a late response to an earlier lookup, which is ignored', async ({ world, client }) => {
    const { id, provider_reference } = await verificationOf(client)
    await settleSession(world, provider_reference, 'processing')
    const hold = await fault(world, {
      match: { method: 'GET', path: `/${provider_reference}$` },
      fault: { hold: 'after' },
    })
    const [first] = await sessionEvents(world, provider_reference)
    await deliver(world, first!)
    await hold.hit()
    await settleSession(world, provider_reference, 'requires_input', 'document_expired')
    const second = (await sessionEvents(world, provider_reference)).at(-1)!
    await deliver(world, second)
    await eventually(async () => expect(await stateOf(world, second)).toBe('applied'))
    expect((await getVerification(client, id)).failure).toMatchObject({ code: 'document_expired' })
    await hold.release()
    await eventually(async () => expect(await stateOf(world, first!)).toBe('applied'))
    expect(await getVerification(client, id)).toMatchObject({
      status: 'requires_input',
      failure: { code: 'document_expired' },
    })
  })
})

test('an event that precedes the response to the create call is applied once, by the id of the verification', async ({
  world,
  client,
}) => {
  const hold = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
  const { body } = await startVerification(client, await party(client, 'customer'), ASYNC)
  await hold.hit()
  const { data } = await callProvider(world, 'GET', `?client_reference_id=${body.id}`)
  await settleSession(world, data[0].id, 'verified')
  const events = await sessionEvents(world, data[0].id)
  await deliverAll(world, events)
  await verificationIn(client, body.id, 'approved')
  await hold.release()
  await world.drain()
  expect(await verificationSummary(world, body.id)).toMatchObject({ status: 'approved', no_links: true })
})

test('a manual decision prevails over a concurrent decision of the provider', async ({ world, client }) => {
  const verifications = await mapConcurrently(Array.from({ length: 20 }), 10, () =>
    verificationOf(client, 'recipient'),
  )
  for (const { provider_reference } of verifications)
    await settleSession(world, provider_reference, 'verified')
  const events = await listEvents(world)
  const responses = await Promise.all(
    verifications.flatMap(({ id, provider_reference }) => [
      decide(client, id, 'rejected'),
      ...events
        .filter(({ data }) => data.object.id === provider_reference)
        .map((event) => deliver(world, event)),
    ]),
  )
  for (const { status } of responses) expect(status).toBe(200)
  await world.drain()
  for (const { id, subject_id } of verifications) {
    expect(await getVerification(client, id)).toMatchObject({ status: 'rejected', decided_by: 'manual' })
    expect((await client.get(`/v1/recipients/${subject_id}`)).body.kyc_status).toBe('rejected')
  }
})

describe('a redaction', () => {
  test.for([
    ['verified', 'approved'],
    ['canceled', 'rejected'],
    [null, 'rejected'],
  ] as const)(
    'of a session with the status %s changes only the timeline',
    async ([reported, status], { world, client }) => {
      const verification = await verificationOf(client)
      if (reported !== null) await settleSession(world, verification.provider_reference, reported)
      else await decide(client, verification.id, 'rejected')
      await deliverAll(world, await sessionEvents(world, verification.provider_reference))
      await verificationIn(client, verification.id, status)
      await world.drain()
      const before = await getVerification(client, verification.id)
      await callProvider(world, 'POST', `/${verification.provider_reference}/redact`)
      const redacted = await eventually(async () => {
        const event = (await sessionEvents(world, verification.provider_reference)).find(({ type }) =>
          type.endsWith('.redacted'),
        )
        expect(event).toBeDefined()
        return event!
      })
      expect(redacted.data.object.metadata).toEqual({})
      await deliverAll(world, await sessionEvents(world, verification.provider_reference))
      await eventually(async () => expect(await stateOf(world, redacted)).toBe('applied'))
      expect(await getVerification(client, verification.id)).toEqual(before)
      const { body } = await client.get(`/v1/compliance/kyc/${verification.id}/timeline`)
      expect(body.map(({ name }: any) => name)).toContain('identity.verification_session.redacted')
    },
  )

  test('of an open session rejects the verification', async ({ world, client }) => {
    const verification = await verificationOf(client)
    await callProvider(world, 'POST', `/${verification.provider_reference}/redact`)
    await eventually(async () =>
      expect(await sessionEvents(world, verification.provider_reference)).toHaveLength(2),
    )
    await deliverAll(world, await sessionEvents(world, verification.provider_reference))
    expect(await verificationIn(client, verification.id, 'rejected')).toMatchObject({
      decided_by: 'provider',
    })
  })
})

test('the event of a session that another application created is parked', async ({ world }) => {
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
  const [event] = await sessionEvents(world, id)
  await deliver(world, event!)
  await untilAttempted(world, [event!])
  expect(await stateOf(world, event!)).toBe('parked')
})

test('a lookup finds the decision on a session for which no notification arrives', async ({
  world,
  client,
}) => {
  const { id, provider_reference } = await verificationOf(client)
  await settleSession(world, provider_reference, 'verified')
  expect(await lookUpAfterMonth(world, 'kyc', id)).toBe(true)
  expect(await verificationIn(client, id, 'approved')).toMatchObject({ decided_by: 'provider' })
  expect((await client.get('/v1/reconciliation')).body).toEqual([])
})

test('after all scenarios the books and the provider agree', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
  expect(Array.from(await world.sql`select detail from drifts where subject = 'kyc'`)).toEqual([])
})

// These tests leave drifts behind, so they run last.
test('a canceled session of an approved verification is a drift, except after a redaction', async ({
  world,
  client,
}) => {
  const [redacted, canceled] = [await verificationOf(client), await verificationOf(client)]
  const ids = [redacted.id, canceled.id]
  await world.sql`
    update verifications set status = 'approved', decision = 'approved', decided_by = 'provider', decided_at = now(),
      links = '{}', links_until = null
    where id = any(${ids})`
  await callProvider(world, 'POST', `/${redacted.provider_reference}/redact`)
  await settleSession(world, canceled.provider_reference, 'canceled')
  const events = await eventually(async () => {
    const all = await listEvents(world)
    const of_both = [redacted, canceled].map((verification) =>
      eventsOf(world, verification.provider_reference, all),
    )
    const [first, second] = await Promise.all(of_both)
    expect([first!.length, second!.length]).toEqual([2, 1])
    return [...first!, ...second!]
  })
  await deliverAll(world, events)
  for (const event of events)
    await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
  const drifts = (await client.get('/v1/reconciliation')).body
  expect(drifts).toMatchObject([
    { subject_id: canceled.id, detail: 'the verification is approved here and canceled at the provider' },
  ])
})

/** A verification that an operator has resolved as failed although its call took effect. */
async function resolveAsFailedByMistake(
  world: World,
  client: Client,
): Promise<{ id: string; session: string }> {
  const match = { method: 'POST', path: '/verification_sessions$' }
  const lost_response = await fault(world, { match, fault: 'drop_after' })
  const outage = await fault(world, { match, times: 1000, fault: 'html_503' })
  const { body } = await startVerification(client, await party(client, 'recipient'), ASYNC)
  await lost_response.hit()
  await outage.hit()
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${body.id}`
  await eventually(async () =>
    expect(
      await world.sql.begin((tx) =>
        resolveAsFailed(tx, { job_id: job!.id, actor: 'ada', reason: 'by mistake' }),
      ),
    ).toMatchObject({ after: 'failed' }),
  )
  await outage.remove()
  expect(await getVerification(client, body.id)).toMatchObject({ status: 'rejected', decided_by: null })
  const { data } = await callProvider(world, 'GET', `?client_reference_id=${body.id}`)
  return { id: body.id, session: data[0].id }
}

test('a verification that is resolved as failed here and verified at the provider is a drift', async ({
  world,
  client,
}) => {
  const { id, session } = await resolveAsFailedByMistake(world, client)
  await settleSession(world, session, 'verified')
  const [event] = await eventsOf(world, session)
  await deliver(world, event!)
  await eventually(async () => expect(await stateOf(world, event!)).toBe('applied'))
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
      detail: 'the verification is rejected here and verified at the provider',
    }),
  )
})

test('the session of a verification that is resolved as failed is canceled', async ({ world, client }) => {
  const { id, session } = await resolveAsFailedByMistake(world, client)
  await settleSession(world, session, 'requires_input')
  await deliverAll(world, await sessionEvents(world, session))
  await eventually(async () =>
    expect(await callProvider(world, 'GET', `/${session}`)).toMatchObject({ status: 'canceled' }),
  )
  await world.drain()
  expect(await getVerification(client, id)).toMatchObject({ status: 'rejected', decided_by: null })
  // An event that is applied before the cancellation opens a drift, which the lookup closes.
  await lookUpAfterMonth(world, 'kyc', id)
  await world.drain()
  expect((await client.get('/v1/reconciliation')).body).not.toContainEqual(
    expect.objectContaining({ subject_id: id }),
  )
})
