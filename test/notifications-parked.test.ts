// Parked notifications: they wait for their object, are resumed when the object is stored, and end as applied or
// ignored.
import { describe, expect } from 'vitest'
import { metrics } from '#core/metrics.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { discardJob, retryJob } from '#domain/job-acts/act.ts'
import { searchJobs } from '#domain/job-acts/search.ts'
import { countParked, notificationOf } from '#domain/notifications/notification.ts'
import { resuming } from '#domain/notifications/settle.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { parkedEvents } from '#domain/reconciliation/drift.ts'
import { checkInvariants } from './support/books.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
} from './support/payments.ts'
import {
  deliver,
  listEvents,
  fabricatedEvent,
  notificationId,
  pick,
  refundInDashboard,
  stateOf,
  paymentSummary,
  untilAttempted,
  type StripeEvent,
} from './support/stripe-events.ts'
import { createWorld, testIn, type World } from './support/world.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'

const test = testIn({ notifications: false })

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S

async function deliverAndTry(world: World, events: StripeEvent[]): Promise<void> {
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await untilAttempted(world, events)
}

/** The state of an event's notification and job, with the delay of the next attempt in seconds. */
async function notificationState(world: World, event: StripeEvent) {
  const [row] = await world.sql`
    select n.state, n.reason, j.state as job, j.attempt, extract(epoch from j.run_at - now())::float8 as after_s
    from notifications n join jobs j on j.id = n.id where n.id = ${notificationId(event)}`
  return row!
}

async function statesOf(world: World, events: StripeEvent[]): Promise<(string | undefined)[]> {
  return await Promise.all(events.map((event) => stateOf(world, event)))
}

/** Moves the time at which the notifications were parked into the past, so that their next attempts are due. */
async function advanceParkedTime(world: World, events: StripeEvent[], by_s: number): Promise<void> {
  const before = await Promise.all(events.map((event) => notificationState(world, event)))
  await world.sql`
    update notifications set parked_at = parked_at - ${by_s} * interval '1 second'
    where id = any(${events.map(notificationId)}::uuid[])`
  await world.sql`
    update jobs set run_at = now(), wakeup_sent_at = null where id = any(${events.map(notificationId)}::uuid[]) and state = 'ready'`
  await eventually(async () => {
    for (const [index, event] of events.entries())
      expect((await notificationState(world, event)).attempt).toBeGreaterThan(before[index]!.attempt)
  })
  await untilAttempted(world, events)
}

const countRequests = async (world: World, path: string): Promise<number> =>
  (await world.provider('stripe').requests({ path })).length

/** Creates a payment as another application with the same API key of the processor. */
async function createForeignPayment(world: World): Promise<string> {
  const { url, api_key, control } = world.provider('stripe')
  const response = await fetch(`${url}/v1/payment_intents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: 'amount=1000&currency=usd&capture_method=manual&confirm=true&payment_method=pm_card_visa&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never&metadata[order]=17',
  })
  const { id } = (await response.json()) as { id: string }
  await control('POST', `/payment_intents/${id}/capture`)
  return id
}

test("a notification without Sluice's metadata is applied when its processor reference is stored", async ({
  world,
}) => {
  const hold = await fault(world, {
    match: { method: 'POST', path: '/v1/payment_intents$' },
    fault: { hold: 'after' },
  })
  const { body } = await createPayment(world.client, {}, ASYNC)
  await hold.hit()
  const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
  // A user has cleared the metadata in the processor's dashboard.
  const events = (await listEvents(world, effects[0].payment_intent)).map((event) => ({
    ...event,
    data: { object: { ...event.data.object, metadata: {} } },
  }))
  await deliverAndTry(world, events)
  expect(new Set(await statesOf(world, events))).toEqual(new Set(['parked']))
  await hold.remove()
  await paymentIn(world.client, body.id, 'authorized')
  await eventually(async () => expect(new Set(await statesOf(world, events))).toEqual(new Set(['applied'])))
  await checkInvariants(world)
})

test('a notification about an unknown object is retried after seconds, an hour and a day, and is then ignored', async ({
  world,
}) => {
  const { processor_reference } = await authorizedPayment(world.client)
  const metadata = { sluice_tenant_id: world.tenant_id }
  const events = [
    fabricatedEvent('payment_intent.succeeded', { id: 'pi_unknown', object: 'payment_intent', metadata }),
    fabricatedEvent('refund.created', { id: 're_unknown', object: 'refund', payment_intent: 'pi_unknown' }),
    // The payment is stored here, but the processor has no such refund.
    fabricatedEvent('refund.created', {
      id: 're_none',
      object: 'refund',
      payment_intent: processor_reference,
    }),
    fabricatedEvent('charge.refunded', {
      id: 'ch_unknown',
      object: 'charge',
      payment_intent: 'pi_unknown',
      metadata,
    }),
  ]
  await deliverAndTry(world, events)
  const readAll = async () => await Promise.all(events.map((event) => notificationState(world, event)))
  for (const { state, reason, after_s } of await readAll()) {
    expect([state, reason]).toEqual(['parked', 'not_at_processor'])
    expect(after_s).toBeLessThanOrEqual(5)
  }
  await advanceParkedTime(world, events, 6)
  for (const { state, after_s } of await readAll())
    expect([state, Math.round(after_s / HOUR_S)]).toEqual(['parked', 1])
  await advanceParkedTime(world, events, HOUR_S)
  for (const { state, after_s } of await readAll())
    expect([state, Math.round(after_s / DAY_S)]).toEqual(['parked', 1])
  expect(await countParked(world.sql, 100)).toContainEqual({
    reason: 'not_at_processor',
    count: events.length,
  })
  await advanceParkedTime(world, events, DAY_S)
  for (const { state, reason, job } of await readAll())
    expect([state, reason, job]).toEqual(['ignored', 'not_at_processor', 'succeeded'])
})

async function driftsOf(world: World, payment_id: string): Promise<any[]> {
  return (await world.client.get(`/v1/reconciliation?payment_id=${payment_id}`)).body
}

describe('a refund in the dashboard that conflicts with a pending refund', () => {
  test('stays parked, opens a drift with both amounts, and is posted when the pending refund fails', async ({
    world,
  }) => {
    const { id, processor_reference } = await capturedPayment(world.client)
    await world.drain()
    await pauseJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
    const { body: pending_refund } = await refund(world.client, id, {}, ASYNC)
    const dashboard_refund = await refundInDashboard(world, processor_reference)
    const events = (await listEvents(world, processor_reference)).filter(
      ({ type }) => type === 'refund.created',
    )
    await deliver(world, events[0]!)
    await untilAttempted(world, events)
    // Even the last attempt of the job does not end the job.
    await world.sql`update jobs set attempt = max_attempts - 1 where id = ${notificationId(events[0]!)}`
    await advanceParkedTime(world, events, 0)
    await advanceParkedTime(world, events, 0)
    expect(await notificationState(world, events[0]!)).toMatchObject({
      state: 'parked',
      reason: 'does_not_fit',
      job: 'ready',
    })
    expect(await driftsOf(world, id)).toEqual([])

    await advanceParkedTime(world, events, 6)
    const [drift] = await eventually(async () => {
      const drifts = await driftsOf(world, id)
      expect(drifts).toHaveLength(1)
      return drifts
    })
    expect(drift).toMatchObject({
      subject: 'payment',
      state: 'differs',
      ours: { amount_captured_minor: 1000, amount_refunded_minor: 0, amount_refund_reserved_minor: 1000 },
      theirs: { amount_captured_minor: 1000, amount_refunded_minor: 1000 },
    })
    expect(drift.detail).toContain(`${dashboard_refund.id} of the processor exceeds`)
    expect(drift.detail).toContain('refunded USD 10.00; here USD 0.00 is refunded and USD 10.00 reserved')
    // The notification is retried every hour, without a limit.
    await advanceParkedTime(world, events, 30 * DAY_S)
    expect((await notificationState(world, events[0]!)).after_s).toBeLessThanOrEqual(HOUR_S)

    await resumeJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
    await eventually(async () => expect(await statesOf(world, events)).toEqual(['applied']))
    expect((await world.client.get(`/v1/refunds/${pending_refund.id}`)).body.status).toBe('failed')
    const summary = await paymentSummary(world, id)
    expect(summary.payment).toMatchObject({ amount_refunded_minor: 1000, amount_refund_reserved_minor: 1000 })
    expect(summary.postings).toEqual(['capture 1000', 'refund -1000'])
    await eventually(async () => expect(await driftsOf(world, id)).toEqual([]))
    await checkInvariants(world)
  })
})

test('a refund that becomes possible during an attempt of its notification is posted soon, or reported by the audit', async ({
  world,
}) => {
  const { id, processor_reference } = await capturedPayment(world.client)
  await world.drain()
  await pauseJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
  await refund(world.client, id, {}, ASYNC)
  await refundInDashboard(world, processor_reference, 400)
  const events = pick(await listEvents(world, processor_reference), ['refund.created'])
  await deliverAndTry(world, events)
  await advanceParkedTime(world, events, 2 * HOUR_S)
  expect((await notificationState(world, events[0]!)).after_s).toBeGreaterThan(HOUR_S / 3)
  const unresumedProblems = async () =>
    (await auditEverything(world.sql)).problems.filter(({ problem }) =>
      problem.endsWith('can be applied now but is not resumed'),
    )
  expect(await unresumedProblems()).toEqual([])
  const reserve = async (amount_minor: number) =>
    await world.sql`update payments set amount_refund_reserved_minor = ${amount_minor} where id = ${id}`
  await reserve(600)
  expect(await unresumedProblems()).toMatchObject([{ id: notificationId(events[0]!), resource_id: id }])
  await reserve(1000)

  const hold = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$` },
    fault: 'hold',
  })
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id = ${notificationId(events[0]!)}`
  await hold.hit()
  await resumeJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
  await eventually(async () =>
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refund_reserved_minor: 0 }),
  )
  await hold.remove()
  await eventually(async () => expect(await statesOf(world, events)).toEqual(['applied']))
  expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -400'])
  await eventually(async () => expect(await driftsOf(world, id)).toEqual([]))
  await checkInvariants(world)
})

describe('ten notifications that kill their worker at each attempt', () => {
  test('are parked, reported by audit, metrics and reconciliation, and applied after a retry', async ({
    world,
  }) => {
    const payments = await Promise.all(Array.from({ length: 10 }, () => capturedPayment(world.client)))
    for (const { processor_reference } of payments) await refundInDashboard(world, processor_reference, 300)
    const all = await listEvents(world)
    const events = payments.map(
      ({ processor_reference }) =>
        pick(
          all.filter((event) => event.data.object.payment_intent === processor_reference),
          ['refund.created'],
        )[0]!,
    )
    const ids = events.map(notificationId)
    const started_at = new Date().toISOString()
    // The queue is paused while the test uses up all attempts.
    await pauseJobs(world.sql, { queue: 'notifications' })
    await Promise.all(events.map((event) => deliver(world, event)))
    await world.sql`
      update jobs set state = 'running', attempt = max_attempts, worker = 'a dead one', started_at = now(),
        lease_token = gen_random_uuid(), lease_until = now()
      where id = any(${ids}::uuid[])`
    await resumeJobs(world.sql, { queue: 'notifications' })
    await eventually(async () => expect(new Set(await statesOf(world, events))).toEqual(new Set(['parked'])))

    const poisonIds = (report: { problems: { problem: string; id: string | null }[] }) =>
      report.problems
        .filter(({ problem }) => problem === 'a notification was parked after repeated failures')
        .map(({ id }) => id)
    expect(new Set(poisonIds(await auditEverything(world.sql)))).toEqual(new Set(ids))
    expect(poisonIds(await auditChanges(world.sql, started_at, []))).toHaveLength(10)
    const later = new Date(Date.now() + 1000 * DAY_S).toISOString()
    expect(poisonIds(await auditChanges(world.sql, later, []))).toHaveLength(10)
    await eventually(async () => {
      const { values } = await metrics.parked.get()
      expect(values.find(({ labels }) => labels.reason === 'poison')?.value).toBe(10)
    })
    for (const { id } of payments)
      await eventually(async () =>
        expect(await driftsOf(world, id)).toMatchObject([
          { state: 'differs', detail: expect.stringContaining('is parked (poison)') },
        ]),
      )

    const waiting_event = fabricatedEvent('payment_intent.succeeded', {
      id: 'pi_waits',
      object: 'payment_intent',
      metadata: { sluice_tenant_id: world.tenant_id },
    })
    await deliverAndTry(world, [waiting_event])
    await eventually(async () =>
      expect(
        new Set((await searchJobs(world.sql, { state: 'parked' }, { limit: 100 })).items.map(({ id }) => id)),
      ).toEqual(new Set(ids)),
    )
    const act = { actor: 'ada', reason: 'mended' }
    for (const job_id of ids)
      expect(await retryJob(world.sql, { ...act, job_id })).toMatchObject({ after: 'ready' })
    expect(await discardJob(world.sql, { ...act, job_id: notificationId(waiting_event) })).toMatchObject({
      after: 'discarded',
    })
    await eventually(async () => {
      const { values } = await metrics.parked.get()
      expect(values.filter(({ value }) => value > 0)).toEqual([])
    })
    await eventually(async () => expect(new Set(await statesOf(world, events))).toEqual(new Set(['applied'])))
    for (const { id } of payments)
      expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -300'])
    await checkInvariants(world)
  })
})

test('a notification that needs a comparison with the processor is finished only after the comparison', async ({
  world,
}) => {
  const { id, processor_reference } = await authorizedPayment(world.client)
  await world.sql`update payments set amount_capturable_minor = 900 where id = ${id}`
  const [event] = pick(await listEvents(world, processor_reference), [
    'payment_intent.amount_capturable_updated',
  ])
  const hold = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$`, nth: 2 },
    fault: 'hold',
  })
  await deliver(world, event!)
  await hold.hit()
  // If the worker died now, another worker would repeat the notification.
  const [job] = await world.sql`select state from jobs where id = ${notificationId(event!)}`
  expect([await stateOf(world, event!), job!.state]).toEqual(['received', 'running'])
  await hold.remove()
  await eventually(async () => expect(await statesOf(world, [event!])).toEqual(['applied']))
  expect(await driftsOf(world, id)).toMatchObject([{ state: 'differs' }])
  await world.sql`update payments set amount_capturable_minor = 1000 where id = ${id}`
  await world.sql`update drifts set resolved_at = now() where payment_id = ${id}`
})

test('a refund whose notification is missing opens a drift, even after a failed lookup', async ({
  world,
}) => {
  const { id, processor_reference } = await capturedPayment(world.client)
  const { id: refund_id } = await refundInDashboard(world, processor_reference, 300)
  const events = await listEvents(world, processor_reference)
  await deliver(world, pick(events, ['charge.refunded'])[0]!)
  const lookup = world.sql`kind = 'reconciliation.lookup' and object_id = ${processor_reference}`
  await eventually(async () =>
    expect([...(await world.sql`select reason from notifications where ${lookup}`)]).toEqual([
      { reason: 'refunds_differ' },
    ]),
  )
  // The lookup reads the payment twice before it opens a drift.
  const lost = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$`, nth: 2 },
    fault: 'error_500_before',
  })
  await world.sql`update notifications set parked_at = parked_at - interval '6 seconds' where ${lookup}`
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id in (select id from notifications where ${lookup})`
  await lost.hit()
  await eventually(async () =>
    expect(await driftsOf(world, id)).toMatchObject([
      { state: 'differs', ours: { amount_refunded_minor: 0 }, theirs: { amount_refunded_minor: 300 } },
    ]),
  )
  const refund_events = events.filter((event) => event.data.object.id === refund_id)
  for (const event of refund_events) await deliver(world, event)
  await eventually(async () =>
    expect(new Set(await statesOf(world, refund_events))).toEqual(new Set(['applied'])),
  )
  await world.sql`update drifts set resolved_at = now() where payment_id = ${id}`
})

test('a lookup with an unreadable payload is ignored', async ({ world }) => {
  const id = newId()
  await world.sql`
    with notification as (
      insert into notifications (id, provider, event_id, kind, payload)
      values (${id}, 'stripe', 'lookup:unreadable', 'reconciliation.lookup', '{}')
    )
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    values (${id}, ${SYSTEM_TENANT_ID}, 'notifications', 'notification.apply', ${world.sql.json({ notification_id: id })}, 1)`
  await eventually(async () => {
    const [row] = await world.sql`select state from notifications where id = ${id}`
    expect(row).toEqual({ state: 'ignored' })
  })
})

test('an event of an unknown provider waits for a newer version, after any number of attempts', async ({
  world,
}) => {
  const future_event = {
    account: '',
    event_id: 'evt_of_tomorrow',
    kind: 'message.delivered',
    object_id: 'SM1',
    payload: {},
  }
  const notification = notificationOf({ provider: 'a provider of tomorrow', livemode: true }, future_event)
  await storeNotifications(world.sql, [
    { ...notification, is_relevant: true, reported: null, will_wake: false, request_id: null },
  ])
  const job = await eventually(async () => {
    const [row] = await world.sql`
      select j.state, a.outcome, j.attempt, j.max_attempts - j.attempt as attempts_left,
        j.run_at > now() + interval '30 seconds' as is_delayed
      from jobs j left join job_attempts a on a.job_id = j.id
      where j.id = ${notification.id}`
    expect([row!['attempt'], row!['state']]).toEqual([1, 'ready'])
    return row!
  })
  expect(job).toEqual({ state: 'ready', outcome: 'retry', attempt: 1, attempts_left: 25, is_delayed: true })
  await discardJob(world.sql, { job_id: notification.id, actor: 'ada', reason: 'no such version' })
})

test('queries for parked notifications use their indexes, even if they are planned on an empty table', async () => {
  const empty = await createWorld({ parts: [] })
  try {
    const moved = empty.sql`select processor as provider, processor_reference as reference from payments offset 0`
    const plan = await empty.sql`explain with ${resuming(empty.sql, moved)} select`
    const lines = plan.map((row) => String(row['QUERY PLAN']))
    const at = lines.findIndex((line) => line.includes('notifications n'))
    expect(lines[at]).toContain('Index Scan using notifications_parked on')
    expect(lines[at + 1]).toMatch(/Index Cond: .*provider = .*waits_for = /)

    const query_plan =
      await empty.sql`explain select ${parkedEvents(empty.sql, 'payment', null)} from payments p`
    const plan_text = query_plan.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(plan_text).toMatch(
      /notifications_of_resource on .*\n.*Index Cond: .*tenant_id = p\.tenant_id.*resource_id = p\.id/,
    )
    expect(plan_text).not.toContain('notifications_parked')
  } finally {
    await empty.close()
  }
})

// This is the last test: from here on the processor has objects of another application.
test('events of another application on the same account are ignored after some minutes, with at most one request per refund', async ({
  world,
}) => {
  const reference = await createForeignPayment(world)
  const foreign_refund = await refundInDashboard(world, reference, 250)
  const events = await listEvents(world, reference)
  expect(events.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['payment_intent.succeeded', 'charge.refunded', 'refund.created']),
  )
  await deliverAndTry(world, events)
  for (const event of events)
    expect(await notificationState(world, event)).toMatchObject({
      state: 'parked',
      reason: 'not_ours',
      job: 'ready',
    })
  await advanceParkedTime(world, events, 301)
  for (const event of events)
    expect(await notificationState(world, event)).toMatchObject({
      state: 'ignored',
      reason: 'not_ours',
      job: 'succeeded',
    })
  const ignored = await metrics.notificationsIgnored.get()
  expect(ignored.values.find(({ labels }) => labels.reason === 'not_ours')?.value).toBeGreaterThanOrEqual(
    events.length,
  )
  const refunds = events.filter(({ type }) => type.startsWith('refund.'))
  expect(await countRequests(world, `/v1/payment_intents/${reference}`)).toBe(refunds.length)
  expect(await countRequests(world, `/v1/refunds/${foreign_refund.id}`)).toBe(0)
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
