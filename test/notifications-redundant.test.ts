// Redundant notifications are applied when they are stored, without a job and without a request to the processor.
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
  authorizedPayment,
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
  untilAttempted,
  type StripeEvent,
} from './support/stripe-events.ts'
import { createWorld, testIn, type World } from './support/world.ts'

const test = testIn({ notifications: false })

const CAPTURABLE = 'payment_intent.amount_capturable_updated'
const CAPTURED = 'payment_intent.succeeded'
const CANCELED = 'payment_intent.canceled'

/** Delivers an event. Returns the state of its notification, and whether the notification has a job. */
async function deliverAndRead(world: World, event: StripeEvent): Promise<{ state: string; job: boolean }> {
  expect((await deliver(world, event)).body).toEqual({ received: true })
  const [row] = await world.sql<{ state: string; job: boolean }[]>`
    select n.state, exists (select from jobs j where j.id = n.id) as job from notifications n
    where n.id = ${notificationId(event)}`
  return { ...row! }
}
const REDUNDANT = { state: 'applied', job: false }

async function findEvent(world: World, reference: string, type: string): Promise<StripeEvent> {
  return pick(await listEvents(world, reference), [type])[0]!
}

/** A copy of an event with a new id and changed content. */
let copies = 0
function copyOf(event: StripeEvent, object: object, rest: object = {}): StripeEvent {
  copies += 1
  return {
    ...event,
    ...rest,
    id: `${event.id}_${copies}`,
    data: { object: { ...event.data.object, ...object } },
  }
}

/** The value of the counter of notifications for a state. */
async function countNotifications(
  counter: 'notificationsStored' | 'notificationsWaited',
  state: string,
): Promise<number> {
  const { values } = await metrics[counter].get()
  // Sums over the other labels of the counter.
  return values.filter(({ labels }) => labels['state'] === state).reduce((sum, { value }) => sum + value, 0)
}

async function countRequests(world: World, path: string): Promise<number> {
  return (await world.provider('stripe').requests({ path, method: 'GET' })).length
}

async function canceledPayment(world: World, reason?: string): Promise<any> {
  const { id } = await authorizedPayment(world.client)
  const body = reason === undefined ? {} : { reason }
  const answer = await world.client.post(`/v1/payments/${id}/cancel`, body)
  expect(answer.body).toMatchObject({ status: 'canceled' })
  return answer.body
}

test('the API version of events that are compared is the version of the Stripe SDK', () => {
  expect(API_VERSION).toBe(Stripe.API_VERSION)
})

test('an event with a valid cancellation reason is compared with the stored payment, and an event with an invalid reason is not', () => {
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

describe('redundant notifications need neither a job nor a request to the processor', () => {
  test('a notification of a hold is redundant before and after the capture', async ({ world }) => {
    const { id, processor_reference: reference } = await authorizedPayment(world.client)
    const event = await findEvent(world, reference, CAPTURABLE)
    const before = await countRequests(world, `/v1/payment_intents/${reference}`)
    expect(await deliverAndRead(world, event)).toEqual(REDUNDANT)
    await world.client.post(`/v1/payments/${id}/capture`, { amount_minor: 400 })
    expect(await deliverAndRead(world, copyOf(event, {}))).toEqual(REDUNDANT)
    expect(await countRequests(world, `/v1/payment_intents/${reference}`)).toBe(before)
    const { body } = await world.client.get(`/v1/payments/${id}/timeline`)
    expect(body.filter((entry: any) => entry.kind === 'notification')).toHaveLength(2)
  })

  test('notifications of a capture, of cancellations and of refunds are redundant', async ({ world }) => {
    const captured = await capturedPayment(world.client)
    expect(
      await deliverAndRead(world, await findEvent(world, captured.processor_reference, CAPTURED)),
    ).toEqual(REDUNDANT)
    expect(
      await deliverAndRead(
        world,
        await findEvent(world, (await canceledPayment(world)).processor_reference, CANCELED),
      ),
    ).toEqual(REDUNDANT)
    const duplicate = await canceledPayment(world, 'duplicate')
    expect(
      await deliverAndRead(world, await findEvent(world, duplicate.processor_reference, CANCELED)),
    ).toEqual(REDUNDANT)

    const { body } = await refund(world.client, captured.id, { amount_minor: 100 })
    expect(body.status).toBe('succeeded')
    const events = await listEvents(world, captured.processor_reference)
    expect(await deliverAndRead(world, pick(events, ['refund.created'])[0]!)).toEqual(REDUNDANT)

    const slow = await capturedPayment(world.client, { payment_method: 'pm_card_pendingRefund' })
    const { body: pending } = await refund(world.client, slow.id)
    expect(pending.status).toBe('pending')
    const created = await findEvent(world, slow.processor_reference, 'refund.created')
    expect(await deliverAndRead(world, created)).toEqual(REDUNDANT)
    await settleRefund(world, pending.processor_reference, 'failed')
    const failed = await findEvent(world, slow.processor_reference, 'refund.failed')
    expect((await deliverAndRead(world, failed)).job).toBe(true)
    await world.drain()
    expect(await deliverAndRead(world, copyOf(failed, {}))).toEqual(REDUNDANT)
    expect(await deliverAndRead(world, copyOf(created, {}))).toEqual(REDUNDANT)
    await checkInvariants(world)
  })

  test('notifications of irrelevant types are ignored', async ({ world }) => {
    const { processor_reference } = await capturedPayment(world.client)
    const events = await listEvents(world, processor_reference, { all_kinds: true })
    const kinds = ['payment_intent.created', 'charge.succeeded', 'charge.captured', 'charge.updated']
    const irrelevant = ['charge.failed', 'charge.pending'].map((type) => copyOf(events[0]!, {}, { type }))
    for (const event of [...pick(events, kinds), ...irrelevant])
      expect(await deliverAndRead(world, event)).toEqual({ state: 'ignored', job: false })
  })
})

test('a notification that differs from the stored state gets a job', async ({ world }) => {
  const { processor_reference: reference } = await capturedPayment(world.client)
  const captured = await findEvent(world, reference, CAPTURED)
  const capturable = await findEvent(world, reference, CAPTURABLE)
  const other = await authorizedPayment(world.client)
  const differing = await authorizedPayment(world.client)
  await drift(world, differing.id)
  const refunded = await capturedPayment(world.client)
  await refund(world.client, refunded.id, { amount_minor: 100 })
  const refund_created = await findEvent(world, refunded.processor_reference, 'refund.created')
  const disputed = await capturedPayment(world.client)
  await refund(world.client, disputed.id, { amount_minor: 100 })
  await drift(world, disputed.id)
  const cases: [string, StripeEvent][] = [
    ['more was captured', copyOf(captured, { amount_received: 1001 })],
    ['another amount', copyOf(captured, { amount: 999 })],
    ['another currency', copyOf(captured, { currency: 'eur' })],
    ['another version of the API', copyOf(captured, {}, { api_version: '2020-08-27' })],
    ['no version of the API', copyOf(captured, {}, { api_version: null })],
    ['another account', copyOf(captured, {}, { account: 'acct_other' })],
    ['another status than its kind', copyOf(captured, { status: 'processing' })],
    ['a failure', copyOf(captured, {}, { type: 'payment_intent.payment_failed' })],
    ['an action', copyOf(capturable, {}, { type: 'payment_intent.requires_action' })],
    ['an unknown kind', copyOf(captured, {}, { type: 'payment_intent.partially_funded' })],
    [
      'another hold',
      copyOf(await findEvent(world, other.processor_reference, CAPTURABLE), { amount_capturable: 999 }),
    ],
    ['a hold under another reference', copyOf(capturable, { id: 'pi_another' })],
    [
      'an unknown capture',
      copyOf(
        await findEvent(world, other.processor_reference, CAPTURABLE),
        { status: 'succeeded', amount_received: 1000 },
        { type: CAPTURED },
      ),
    ],
    ['an open drift', await findEvent(world, differing.processor_reference, CAPTURABLE)],
    [
      "a refund under its payment's open drift",
      await findEvent(world, disputed.processor_reference, 'refund.created'),
    ],
    ['a refund of another amount', copyOf(refund_created, { amount: 99 })],
    ['a refund that failed', copyOf(refund_created, { status: 'failed' }, { type: 'refund.failed' })],
    ['a refund of another currency', copyOf(refund_created, { currency: 'eur' })],
    [
      'another cancellation reason',
      copyOf(
        await findEvent(world, (await canceledPayment(world, 'duplicate')).processor_reference, CANCELED),
        {
          cancellation_reason: 'fraudulent',
        },
      ),
    ],
  ]
  for (const [name, event] of cases) {
    // The job may already be finished.
    expect([name, (await deliverAndRead(world, event)).job]).toEqual([name, true])
    await untilAttempted(world, [event])
  }
  await checkInvariants(world)
})

describe('notifications during a call of Sluice', () => {
  test('a notification waits for the call and is redundant after it', async ({ world }) => {
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/payment_intents$' },
      fault: { hold: 'after' },
    })
    const { body } = await createPayment(world.client, {}, ASYNC)
    await hold.hit()
    const [{ payment_intent: reference }] = await world
      .provider('stripe')
      .effects({ 'metadata[sluice_payment_id]': body.id })
    const event = await findEvent(world, reference, CAPTURABLE)
    const before = [
      await countNotifications('notificationsStored', 'waiting'),
      await countNotifications('notificationsWaited', 'applied'),
    ]
    // The processor reference is not stored yet.
    expect(await deliverAndRead(world, event)).toEqual({ state: 'waiting', job: false })
    expect((await auditEverything(world.sql)).problems).toEqual([])
    await hold.remove()
    await paymentIn(world.client, body.id, 'authorized')
    await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
    expect(await countRequests(world, `/v1/payment_intents/${reference}`)).toBe(0)
    expect((await world.sql`select from jobs where id = ${notificationId(event)}`).count).toBe(0)
    await eventually(async () =>
      expect([
        await countNotifications('notificationsStored', 'waiting'),
        await countNotifications('notificationsWaited', 'applied'),
      ]).toEqual(before.map((count) => count + 1)),
    )
  })

  test('a notification gets a job if the call takes long or its outcome is unknown', async ({ world }) => {
    const { id, processor_reference: reference } = await authorizedPayment(world.client)
    const hold = await fault(world, {
      match: { method: 'POST', path: `/v1/payment_intents/${reference}/capture$` },
      fault: { hold: 'after' },
    })
    await world.client.post(`/v1/payments/${id}/capture`, {}, ASYNC)
    await hold.hit()
    const event = await findEvent(world, reference, CAPTURED)
    expect(await deliverAndRead(world, event)).toEqual({ state: 'waiting', job: false })
    await paymentIn(world.client, id, 'captured')
    await hold.remove()

    const uncertain = await authorizedPayment(world.client)
    const second_hold = await fault(world, {
      match: { method: 'POST', path: `/v1/payment_intents/${uncertain.processor_reference}/capture$` },
      fault: { hold: 'after' },
    })
    await world.client.post(`/v1/payments/${uncertain.id}/capture`, {}, ASYNC)
    await second_hold.hit()
    await world.sql`update jobs set in_doubt = true where resource_id = ${uncertain.id} and state = 'running'`
    const unexpected = await findEvent(world, uncertain.processor_reference, CAPTURED)
    expect((await deliverAndRead(world, unexpected)).job).toBe(true)
    await paymentIn(world.client, uncertain.id, 'captured')
    await second_hold.remove()
    await world.drain()
    await checkInvariants(world)
  })
})

test('stored notifications are counted by state', async ({ world }) => {
  const { processor_reference: reference } = await authorizedPayment(world.client)
  const event = await findEvent(world, reference, CAPTURABLE)
  const states = ['applied', 'received', 'ignored', 'duplicate']
  const stored = () => Promise.all(states.map((state) => countNotifications('notificationsStored', state)))
  const before = await stored()
  await deliverAndRead(world, event)
  await deliverAndRead(world, copyOf(event, { amount: 999 }))
  await deliverAndRead(world, copyOf(event, {}, { type: 'charge.succeeded' }))
  await deliver(world, event)
  expect(await stored()).toEqual(before.map((count) => count + 1))
})

test('several notifications of one object share a lookup', async ({ world }) => {
  const { id, processor_reference: reference } = await capturedPayment(world.client)
  const dashboard_refund = await refundInDashboard(world, reference, 250)
  const created = await findEvent(world, reference, 'refund.created')
  const events = [
    created,
    ...Array.from({ length: 9 }, () => copyOf(created, {}, { type: 'refund.updated' })),
  ]
  const lookup = await fault(world, {
    match: { method: 'GET', path: `/v1/refunds/${dashboard_refund.id}$` },
    fault: { hold: 'before' },
  })
  const [first, ...others] = shuffled(events)
  await deliver(world, first!)
  await lookup.hit()
  await Promise.all(others.map((event) => deliver(world, event)))
  await lookup.remove()
  await world.drain()
  for (const event of events) expect(await stateOf(world, event)).toBe('applied')
  const [row] =
    await world.sql`select count(*) as n from jobs where id = any(${events.map(notificationId)}::uuid[])`
  expect([row!.n, await countRequests(world, `/v1/refunds/${dashboard_refund.id}`)]).toEqual([1, 1])
  expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -250'])
})

test('a lookup that began before a notification does not settle the notification', async ({ world }) => {
  const { id, processor_reference: reference } = await capturedPayment(world.client, {
    payment_method: 'pm_card_pendingRefund',
  })
  const dashboard_refund = await refundInDashboard(world, reference, 250)
  const [created] = pick(await listEvents(world, reference), ['refund.created'])
  const hold = await fault(world, {
    match: { method: 'GET', path: `^/v1/refunds/${dashboard_refund.id}$` },
    fault: { hold: 'after' },
  })
  await deliver(world, created!)
  await hold.hit()
  // The lookup has read the status pending.
  await settleRefund(world, dashboard_refund.id, 'succeeded')
  const updated = await findEvent(world, reference, 'refund.updated')
  expect(await deliverAndRead(world, updated)).toEqual({ state: 'waiting', job: false })
  await hold.remove()
  await world.drain()
  expect((await paymentSummary(world, id)).refunds).toMatchObject([
    { status: 'succeeded', amount_minor: 250 },
  ])
  await checkInvariants(world)
})

test('a notification that waits for a lookup longer than five seconds gets a job, and so do later notifications of the object', async ({
  world,
}) => {
  const { processor_reference: reference } = await capturedPayment(world.client)
  const dashboard_refund = await refundInDashboard(world, reference, 250)
  const created = await findEvent(world, reference, 'refund.created')
  const hold = await fault(world, {
    match: { method: 'GET', path: `^/v1/refunds/${dashboard_refund.id}$` },
    // No lookup ends before the fault is removed.
    times: 10,
    fault: 'hold',
  })
  await deliver(world, created)
  await hold.hit()
  const waits = copyOf(created, {})
  expect(await deliverAndRead(world, waits)).toEqual({ state: 'waiting', job: false })
  const setReceivedAgo = async (event: StripeEvent, seconds: number) =>
    await world.sql`
      update notifications set received_at = now() - ${seconds} * interval '1 second' where id = ${notificationId(event)}`
  // The first notification counts as just received, and its lookup as recent. Only the later one has waited too long.
  await setReceivedAgo(created, -60)
  await setReceivedAgo(waits, 6)
  await eventually(async () =>
    expect(await world.sql`select from jobs where id = ${notificationId(waits)}`).toHaveLength(1),
  )
  await setReceivedAgo(created, 6)
  expect((await deliverAndRead(world, copyOf(created, {}))).job).toBe(true)
  await hold.remove()
  await world.drain()
  await checkInvariants(world)
})

test('notifications that cannot be compared get a job', async ({ world }) => {
  const { processor_reference: reference } = await authorizedPayment(world.client)
  const event = copyOf(await findEvent(world, reference, CAPTURABLE), {})
  const job = { id: newId(), existing: newId() }
  await world.sql`
    insert into notifications (id, provider, event_id, kind, object_id, payload, state, reported, due_at)
    select id, 'stripe', 'evt_' || id, ${CAPTURABLE}, 'pi_strange', ${world.sql.json(event)}, 'waiting', reported::jsonb, now()
    from (values (${job.id}::uuid, '{"amount_minor":"x"}'), (${job.existing}::uuid, '{"tenant_id":7}')) as unreadable(id, reported)`
  // The second notification already has a job.
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    values (${job.existing}, ${SYSTEM_TENANT_ID}, 'notifications', 'notification.apply',
      ${world.sql.json({ notification_id: job.existing })}, 25)`
  await eventually(async () => {
    const rows = await world.sql`
      select n.state, j.state as job from notifications n join jobs j on j.id = n.id where n.id in (${job.id}, ${job.existing})`
    expect(rows.map((row) => ({ ...row }))).toEqual([
      { state: 'applied', job: 'succeeded' },
      { state: 'applied', job: 'succeeded' },
    ])
  })
})

test('every audit reports a notification that has waited too long', async () => {
  const queue = await createWorld({ notifications: false, parts: ['api', 'webhooks'] })
  try {
    const id = newId()
    await queue.sql`
      insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at, received_at)
      values (${id}, 'stripe', 'evt_1', ${CAPTURABLE}, '{}', 'waiting', '{}', now() - interval '1 hour', now() - interval '1 hour')`
    const expected = [{ problem: 'a notification waits although it is due', id }]
    expect((await auditEverything(queue.sql)).problems).toMatchObject(expected)
    const started_at = new Date().toISOString()
    expect((await auditChanges(queue.sql, started_at, [])).problems).toMatchObject(expected)
  } finally {
    await queue.close()
  }
})

test('redundant notifications move to the history, are still shown in timelines, and are not stored again', async ({
  world,
}) => {
  const { id, processor_reference: reference } = await authorizedPayment(world.client)
  const event = await findEvent(world, reference, CAPTURABLE)
  expect(await deliverAndRead(world, event)).toEqual(REDUNDANT)
  await world.sql`
    update notifications set received_at = received_at - interval '2 hours', applied_at = applied_at - interval '2 hours'
    where id = ${notificationId(event)}`
  await moveJoblessNotifications(world.sql, HISTORY_START, 1000)
  expect(await stateOf(world, event)).toBeUndefined()
  expect((await deliver(world, event)).body).toEqual({ received: true, duplicate: true })
  expect(await stateOf(world, event)).toBeUndefined()
  const { body } = await world.client.get(`/v1/payments/${id}/timeline`)
  expect(body.filter((entry: any) => entry.kind === 'notification')).toHaveLength(1)
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
