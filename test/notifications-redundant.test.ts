// Notifications that bring no news: over as they are stored, without a job and without asking the processor.
import { describe, expect } from 'vitest'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { HISTORY_START, moveJoblessNotifications } from '#domain/history.ts'
import { API_VERSION, readEvent } from '#providers/stripe/events.ts'
import { Stripe } from 'stripe'
import { checkInvariants } from './support/books.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  drift,
  eventually,
  fault,
  heldPayment,
  paymentIn,
  refund,
} from './support/payments.ts'
import {
  deliver,
  listEvents,
  notificationId,
  pick,
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

const HELD = 'payment_intent.amount_capturable_updated'
const CAPTURED = 'payment_intent.succeeded'
const CANCELED = 'payment_intent.canceled'

/** What became of the notification of an event as it was stored: its state, and whether it got a job. */
async function taken(world: World, event: StripeEvent): Promise<{ state: string; job: boolean }> {
  expect((await deliver(world, event)).body).toEqual({ received: true })
  const [row] = await world.sql<{ state: string; job: boolean }[]>`
    select n.state, exists (select from jobs j where j.id = n.id) as job from notifications n
    where n.id = ${notificationId(event)}`
  return { ...row! }
}
const REDUNDANT = { state: 'applied', job: false }

async function only(world: World, reference: string, type: string): Promise<StripeEvent> {
  return pick(await listEvents(world, reference), [type])[0]!
}

/** The same event again, as another one, with other content. */
let copies = 0
function changed(event: StripeEvent, object: object, rest: object = {}): StripeEvent {
  copies += 1
  return {
    ...event,
    ...rest,
    id: `${event.id}_${copies}`,
    data: { object: { ...event.data.object, ...object } },
  }
}

/** How many notifications are counted as stored, or as having waited, with this state. */
async function counted(
  counter: 'notificationsStored' | 'notificationsWaited',
  state: string,
): Promise<number> {
  const { values } = await metrics[counter].get()
  // Whatever other labels they have: other files count in this process too.
  return values.filter(({ labels }) => labels['state'] === state).reduce((sum, { value }) => sum + value, 0)
}

async function asked(world: World, path: string): Promise<number> {
  return (await world.provider('stripe').requests({ path, method: 'GET' })).length
}

async function canceledPayment(world: World, reason?: string): Promise<any> {
  const { id } = await heldPayment(world.client)
  const body = reason === undefined ? {} : { reason }
  const answer = await world.client.post(`/v1/payments/${id}/cancel`, body)
  expect(answer.body).toMatchObject({ status: 'canceled' })
  return answer.body
}

test('events are compared when they are of the API version that our SDK speaks', () => {
  expect(API_VERSION).toBe(Stripe.API_VERSION)
})

test('an event with a reason that is none of Stripe’s is not compared, and the others are', () => {
  const object = { id: 'pi_1', object: 'payment_intent', status: 'canceled', amount: 100, currency: 'usd' }
  const reported = (reason?: unknown) =>
    readEvent({
      id: 'evt_1',
      type: CANCELED,
      api_version: API_VERSION,
      data: { object: { ...object, cancellation_reason: reason } },
    })!.reported
  for (const reason of [undefined, null, 'duplicate', 'x'.repeat(255)])
    expect(reported(reason)).toMatchObject({ status: 'canceled', reason: reason ?? null })
  for (const reason of ['x'.repeat(256), 'x'.repeat(9000), 7]) expect(reported(reason)).toBeNull()
})

describe('what is so here already needs neither a job nor a request to the processor', () => {
  test('a hold, while it is held and after its capture', async ({ world }) => {
    const { id, processor_reference: reference } = await heldPayment(world.client)
    const event = await only(world, reference, HELD)
    const before = await asked(world, `/v1/payment_intents/${reference}`)
    expect(await taken(world, event)).toEqual(REDUNDANT)
    await world.client.post(`/v1/payments/${id}/capture`, { amount_minor: 400 })
    expect(await taken(world, changed(event, {}))).toEqual(REDUNDANT)
    expect(await asked(world, `/v1/payment_intents/${reference}`)).toBe(before)
    const { body } = await world.client.get(`/v1/payments/${id}/timeline`)
    expect(body.filter((entry: any) => entry.kind === 'notification')).toHaveLength(2)
  })

  test('a capture, a cancellation, and refunds', async ({ world }) => {
    const captured = await capturedPayment(world.client)
    expect(await taken(world, await only(world, captured.processor_reference, CAPTURED))).toEqual(REDUNDANT)
    expect(
      await taken(world, await only(world, (await canceledPayment(world)).processor_reference, CANCELED)),
    ).toEqual(REDUNDANT)
    const duplicate = await canceledPayment(world, 'duplicate')
    expect(await taken(world, await only(world, duplicate.processor_reference, CANCELED))).toEqual(REDUNDANT)

    const { body } = await refund(world.client, captured.id, { amount_minor: 100 })
    expect(body.status).toBe('succeeded')
    const events = await listEvents(world, captured.processor_reference)
    expect(await taken(world, pick(events, ['refund.created'])[0]!)).toEqual(REDUNDANT)

    const slow = await capturedPayment(world.client, { payment_method: 'pm_card_pendingRefund' })
    const { body: pending } = await refund(world.client, slow.id)
    expect(pending.status).toBe('pending')
    const created = await only(world, slow.processor_reference, 'refund.created')
    expect(await taken(world, created)).toEqual(REDUNDANT)
    await settleRefund(world, pending.processor_reference, 'failed')
    const failed = await only(world, slow.processor_reference, 'refund.failed')
    expect((await taken(world, failed)).job).toBe(true)
    await world.drain()
    expect(await taken(world, changed(failed, {}))).toEqual(REDUNDANT)
    expect(await taken(world, changed(created, {}))).toEqual(REDUNDANT)
    await checkInvariants(world)
  })

  test('kinds that never matter are ignored', async ({ world }) => {
    const { processor_reference } = await capturedPayment(world.client)
    const events = await listEvents(world, processor_reference, { all_kinds: true })
    const kinds = ['payment_intent.created', 'charge.succeeded', 'charge.captured', 'charge.updated']
    const never = ['charge.failed', 'charge.pending'].map((type) => changed(events[0]!, {}, { type }))
    for (const event of [...pick(events, kinds), ...never])
      expect(await taken(world, event)).toEqual({ state: 'ignored', job: false })
  })
})

test('whatever says anything else is looked at', async ({ world }) => {
  const { processor_reference: reference } = await capturedPayment(world.client)
  const captured = await only(world, reference, CAPTURED)
  const held = await only(world, reference, HELD)
  const other = await heldPayment(world.client)
  const differing = await heldPayment(world.client)
  await drift(world, differing.id)
  const refunded = await capturedPayment(world.client)
  await refund(world.client, refunded.id, { amount_minor: 100 })
  const made = await only(world, refunded.processor_reference, 'refund.created')
  const disputed = await capturedPayment(world.client)
  await refund(world.client, disputed.id, { amount_minor: 100 })
  await drift(world, disputed.id)
  const cases: [string, StripeEvent][] = [
    ['more was captured', changed(captured, { amount_received: 1001 })],
    ['another amount', changed(captured, { amount: 999 })],
    ['another currency', changed(captured, { currency: 'eur' })],
    ['another version of the API', changed(captured, {}, { api_version: '2020-08-27' })],
    ['no version of the API', changed(captured, {}, { api_version: null })],
    ['another account', changed(captured, {}, { account: 'acct_other' })],
    ['another status than its kind', changed(captured, { status: 'processing' })],
    ['a failure', changed(captured, {}, { type: 'payment_intent.payment_failed' })],
    ['an action', changed(held, {}, { type: 'payment_intent.requires_action' })],
    ['a kind that is not known', changed(captured, {}, { type: 'payment_intent.partially_funded' })],
    ['another hold', changed(await only(world, other.processor_reference, HELD), { amount_capturable: 999 })],
    ['a hold under another reference', changed(held, { id: 'pi_another' })],
    [
      'a capture that we do not know',
      changed(
        await only(world, other.processor_reference, HELD),
        { status: 'succeeded', amount_received: 1000 },
        { type: CAPTURED },
      ),
    ],
    ['an open drift', await only(world, differing.processor_reference, HELD)],
    [
      "a refund under its payment's open drift",
      await only(world, disputed.processor_reference, 'refund.created'),
    ],
    ['a refund that succeeded otherwise', changed(made, { amount: 99 })],
    ['a refund that failed', changed(made, { status: 'failed' }, { type: 'refund.failed' })],
    ['a refund of another currency', changed(made, { currency: 'eur' })],
    [
      'a reason for which it was not canceled',
      changed(await only(world, (await canceledPayment(world, 'duplicate')).processor_reference, CANCELED), {
        cancellation_reason: 'fraudulent',
      }),
    ],
  ]
  for (const [what, event] of cases) {
    // By now its job may have been performed.
    expect([what, (await taken(world, event)).job]).toEqual([what, true])
    await tried(world, [event])
  }
  await checkInvariants(world)
})

describe('what comes while our own call is under way', () => {
  test('waits for it, and then brings no news', async ({ world }) => {
    const held = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await held.hit()
    const [{ payment_intent: reference }] = await world
      .provider('stripe')
      .effects({ 'metadata[sluice_payment_id]': body.id })
    const event = await only(world, reference, HELD)
    const before = [
      await counted('notificationsStored', 'waiting'),
      await counted('notificationsWaited', 'applied'),
    ]
    // The reference is not known here yet.
    expect(await taken(world, event)).toEqual({ state: 'waiting', job: false })
    expect((await auditEverything(world.sql)).problems).toEqual([])
    await held.remove()
    await paymentIn(world.client, body.id, 'authorized')
    await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
    expect(await asked(world, `/v1/payment_intents/${reference}`)).toBe(0)
    expect((await world.sql`select from jobs where id = ${notificationId(event)}`).count).toBe(0)
    await eventually(async () =>
      expect([
        await counted('notificationsStored', 'waiting'),
        await counted('notificationsWaited', 'applied'),
      ]).toEqual(before.map((count) => count + 1)),
    )
  })

  test('is looked at when that takes long, or when nobody knows what came of it', async ({ world }) => {
    const { id, processor_reference: reference } = await heldPayment(world.client)
    const held = await fault(world, {
      match: { method: 'POST', path: `/v1/payment_intents/${reference}/capture$` },
      fault: { hold: 'after' },
    })
    await world.client.post(`/v1/payments/${id}/capture`, {}, ASYNC)
    await held.hit()
    const event = await only(world, reference, CAPTURED)
    expect(await taken(world, event)).toEqual({ state: 'waiting', job: false })
    await paymentIn(world.client, id, 'captured')
    await held.remove()

    const doubtful = await heldPayment(world.client)
    const silent = await fault(world, {
      match: { method: 'POST', path: `/v1/payment_intents/${doubtful.processor_reference}/capture$` },
      fault: { hold: 'after' },
    })
    await world.client.post(`/v1/payments/${doubtful.id}/capture`, {}, ASYNC)
    await silent.hit()
    await world.sql`update jobs set in_doubt = true where subject_id = ${doubtful.id} and state = 'running'`
    const unexpected = await only(world, doubtful.processor_reference, CAPTURED)
    expect((await taken(world, unexpected)).job).toBe(true)
    await paymentIn(world.client, doubtful.id, 'captured')
    await silent.remove()
    await world.drain()
    await checkInvariants(world)
  })
})

test('what became of each is counted', async ({ world }) => {
  const { processor_reference: reference } = await heldPayment(world.client)
  const event = await only(world, reference, HELD)
  const states = ['applied', 'received', 'ignored', 'duplicate']
  const stored = () => Promise.all(states.map((state) => counted('notificationsStored', state)))
  const before = await stored()
  await taken(world, event)
  await taken(world, changed(event, { amount: 999 }))
  await taken(world, changed(event, {}, { type: 'charge.succeeded' }))
  await deliver(world, event)
  expect(await stored()).toEqual(before.map((count) => count + 1))
})

test('several notifications of one object share a look', async ({ world }) => {
  const { id, processor_reference: reference } = await capturedPayment(world.client)
  const made = await refundInDashboard(world, reference, 250)
  const created = await only(world, reference, 'refund.created')
  const events = [
    created,
    ...Array.from({ length: 9 }, () => changed(created, {}, { type: 'refund.updated' })),
  ]
  const look = await fault(world, {
    match: { method: 'GET', path: `/v1/refunds/${made.id}$` },
    fault: { hold: 'before' },
  })
  const [first, ...others] = shuffled(events)
  await deliver(world, first!)
  await look.hit()
  await Promise.all(others.map((event) => deliver(world, event)))
  await look.remove()
  await world.drain()
  for (const event of events) expect(await stateOf(world, event)).toBe('applied')
  const [row] =
    await world.sql`select count(*) as n from jobs where id = any(${events.map(notificationId)}::uuid[])`
  expect([row!.n, await asked(world, `/v1/refunds/${made.id}`)]).toEqual([1, 1])
  expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -250'])
})

test('one that came during a look at its object is not taken for known by it', async ({ world }) => {
  const { id, processor_reference: reference } = await capturedPayment(world.client, {
    payment_method: 'pm_card_pendingRefund',
  })
  const made = await refundInDashboard(world, reference, 250)
  const [created] = pick(await listEvents(world, reference), ['refund.created'])
  const held = await fault(world, {
    match: { method: 'GET', path: `^/v1/refunds/${made.id}$` },
    fault: { hold: 'after' },
  })
  await deliver(world, created!)
  await held.hit()
  // The look has its answer: pending.
  await settleRefund(world, made.id, 'succeeded')
  const updated = await only(world, reference, 'refund.updated')
  expect(await taken(world, updated)).toEqual({ state: 'waiting', job: false })
  await held.remove()
  await world.drain()
  expect((await paymentSummary(world, id)).refunds).toMatchObject([
    { status: 'succeeded', amount_minor: 250 },
  ])
  await checkInvariants(world)
})

test('one that has waited for a look for longer than five seconds gets a job, and so does what comes then', async ({
  world,
}) => {
  const { processor_reference: reference } = await capturedPayment(world.client)
  const made = await refundInDashboard(world, reference, 250)
  const created = await only(world, reference, 'refund.created')
  const held = await fault(world, {
    match: { method: 'GET', path: `^/v1/refunds/${made.id}$` },
    // Nobody learns of it before the end.
    times: 10,
    fault: 'hold',
  })
  await deliver(world, created)
  await held.hit()
  const waits = changed(created, {})
  expect(await taken(world, waits)).toEqual({ state: 'waiting', job: false })
  const cameAgo = async (event: StripeEvent, seconds: number) =>
    await world.sql`
      update notifications set received_at = now() - ${seconds} * interval '1 second' where id = ${notificationId(event)}`
  // As if looks followed one another: this one stays young.
  await cameAgo(created, -60)
  await cameAgo(waits, 6)
  await eventually(async () =>
    expect(await world.sql`select from jobs where id = ${notificationId(waits)}`).toHaveLength(1),
  )
  await cameAgo(created, 6)
  expect((await taken(world, changed(created, {}))).job).toBe(true)
  await held.remove()
  await world.drain()
  await checkInvariants(world)
})

test('one that cannot be compared gets a job, and so do those that are due with it', async ({ world }) => {
  const { processor_reference: reference } = await heldPayment(world.client)
  const event = changed(await only(world, reference, HELD), {})
  const job = { id: newId(), taken: newId() }
  await world.sql`
    insert into notifications (id, provider, event_id, kind, object_id, payload, state, reported, due_at)
    select id, 'stripe', 'evt_' || id, ${HELD}, 'pi_strange', ${world.sql.json(event)}, 'waiting', reported::jsonb, now()
    from (values (${job.id}::uuid, '{"amount_minor":"x"}'), (${job.taken}::uuid, '{"tenant_id":7}')) as strange(id, reported)`
  // Whoever stored it may have asked for the job as well.
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    values (${job.taken}, ${SYSTEM_TENANT_ID}, 'notifications', 'notification.apply',
      ${world.sql.json({ notification_id: job.taken })}, 25)`
  await eventually(async () => {
    const rows = await world.sql`
      select n.state, j.state as job from notifications n join jobs j on j.id = n.id where n.id in (${job.id}, ${job.taken})`
    expect(rows.map((row) => ({ ...row }))).toEqual([
      { state: 'applied', job: 'succeeded' },
      { state: 'applied', job: 'succeeded' },
    ])
  })
})

test('what waits too long is named by every audit', async () => {
  const queue = await createWorld({ notifications: false, parts: ['api', 'webhooks'] })
  try {
    const id = newId()
    await queue.sql`
      insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at, received_at)
      values (${id}, 'stripe', 'evt_1', ${HELD}, '{}', 'waiting', '{}', now() - interval '1 hour', now() - interval '1 hour')`
    const expected = [{ problem: 'a notification waits although it is due', id }]
    expect((await auditEverything(queue.sql)).problems).toMatchObject(expected)
    const started_at = new Date().toISOString()
    expect((await auditChanges(queue.sql, started_at, [])).problems).toMatchObject(expected)
  } finally {
    await queue.close()
  }
})

test('they go to the history without a job, stay in timelines, and are not stored again', async ({
  world,
}) => {
  const { id, processor_reference: reference } = await heldPayment(world.client)
  const event = await only(world, reference, HELD)
  expect(await taken(world, event)).toEqual(REDUNDANT)
  await world.sql`
    update notifications set received_at = received_at - interval '2 hours', applied_at = applied_at - interval '2 hours'
    where id = ${notificationId(event)}`
  const { moved } = await moveJoblessNotifications(world.sql, HISTORY_START, 1000)
  expect(moved).toBeGreaterThanOrEqual(1)
  expect(await stateOf(world, event)).toBeUndefined()
  expect((await deliver(world, event)).body).toEqual({ received: true, duplicate: true })
  expect(await stateOf(world, event)).toBeUndefined()
  const { body } = await world.client.get(`/v1/payments/${id}/timeline`)
  expect(body.filter((entry: any) => entry.kind === 'notification')).toHaveLength(1)
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
