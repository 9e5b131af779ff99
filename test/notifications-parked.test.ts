// Notifications that cannot be applied yet, or never: they wait, are woken by what they wait for, and are never forgotten.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { metrics } from '#core/metrics.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { discardJob, retryJob } from '#domain/interventions/act.ts'
import { searchJobs } from '#domain/interventions/search.ts'
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
  heldPayment,
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
  tried,
  type StripeEvent,
} from './support/stripe-events.ts'
import { createWorld, type World } from './support/world.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'

let world: World
beforeAll(async () => {
  world = await createWorld({ notifications: false })
})
afterAll(async () => await world.close())

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S

async function deliverAndTry(events: StripeEvent[]): Promise<void> {
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await tried(world, events)
}

/** How the notification of an event stands, and in how many seconds its job looks again. */
async function standing(event: StripeEvent) {
  const [row] = await world.sql`
    select n.state, n.reason, j.state as job, j.attempt, extract(epoch from j.run_at - now())::float8 as after_s
    from notifications n join jobs j on j.id = n.id where n.id = ${notificationId(event)}`
  return row!
}

async function statesOf(events: StripeEvent[]): Promise<(string | undefined)[]> {
  return await Promise.all(events.map((event) => stateOf(world, event)))
}

/** As if so much time had gone by since they were parked: their next look is due. */
async function age(events: StripeEvent[], by_s: number): Promise<void> {
  const before = await Promise.all(events.map(standing))
  await world.sql`
    update notifications set parked_at = parked_at - ${by_s} * interval '1 second'
    where id = any(${events.map(notificationId)}::uuid[])`
  await world.sql`
    update jobs set run_at = now(), wakeup_sent_at = null where id = any(${events.map(notificationId)}::uuid[]) and state = 'ready'`
  await eventually(async () => {
    for (const [index, event] of events.entries())
      expect((await standing(event)).attempt).toBeGreaterThan(before[index]!.attempt)
  })
  await tried(world, events)
}

const askedFor = async (path: string): Promise<number> =>
  (await world.provider('stripe').requests({ path })).length

/** A payment that another program makes with our key. */
async function foreignPayment(): Promise<string> {
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

test("a notification that seemed to be another application's is applied at once when its reference is stored here", async () => {
  const held = await fault(world, {
    match: { method: 'POST', path: '/v1/payment_intents$' },
    fault: { hold: 'after' },
  })
  const { body } = await createPayment(world.client, {}, ASYNC)
  await held.hit()
  const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
  // Somebody has cleared its metadata.
  const events = (await listEvents(world, effects[0].payment_intent)).map((event) => ({
    ...event,
    data: { object: { ...event.data.object, metadata: {} } },
  }))
  await deliverAndTry(events)
  expect(new Set(await statesOf(events))).toEqual(new Set(['parked']))
  await held.remove()
  await paymentIn(world.client, body.id, 'authorized')
  await eventually(async () => expect(new Set(await statesOf(events))).toEqual(new Set(['applied'])))
  await checkInvariants(world)
})

test('a notification about an unknown object looks again soon, after an hour and a day, and is then ignored', async () => {
  const { processor_reference } = await heldPayment(world.client)
  const metadata = { sluice_tenant_id: world.tenant_id }
  const events = [
    fabricatedEvent('payment_intent.succeeded', { id: 'pi_unknown', object: 'payment_intent', metadata }),
    fabricatedEvent('refund.created', { id: 're_unknown', object: 'refund', payment_intent: 'pi_unknown' }),
    // We know the payment, the processor does not know the refund.
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
  await deliverAndTry(events)
  const all = async () => await Promise.all(events.map(standing))
  for (const { state, reason, after_s } of await all()) {
    expect([state, reason]).toEqual(['parked', 'not_at_processor'])
    expect(after_s).toBeLessThanOrEqual(5)
  }
  await age(events, 6)
  for (const { state, after_s } of await all())
    expect([state, Math.round(after_s / HOUR_S)]).toEqual(['parked', 1])
  await age(events, HOUR_S)
  for (const { state, after_s } of await all())
    expect([state, Math.round(after_s / DAY_S)]).toEqual(['parked', 1])
  expect(await countParked(world.sql, 100)).toContainEqual({
    reason: 'not_at_processor',
    count: events.length,
  })
  await age(events, DAY_S)
  for (const { state, reason, job } of await all())
    expect([state, reason, job]).toEqual(['ignored', 'not_at_processor', 'succeeded'])
})

async function driftsOf(payment_id: string): Promise<any[]> {
  return (await world.client.get(`/v1/reconciliation?payment_id=${payment_id}`)).body
}

describe('a refund made in the dashboard while ours of the same money is reserved', () => {
  test('is never given up, is a drift that names both, and is booked at once when ours fails', async () => {
    const { id, processor_reference } = await capturedPayment(world.client)
    await world.drain()
    await pauseJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
    const { body: ours } = await refund(world.client, id, {}, ASYNC)
    const theirs = await refundInDashboard(world, processor_reference)
    const events = (await listEvents(world, processor_reference)).filter(
      ({ type }) => type === 'refund.created',
    )
    await deliver(world, events[0]!)
    await tried(world, events)
    // Each of the attempts that are left comes to the same, and the one that would be the last too.
    await world.sql`update jobs set attempt = max_attempts - 1 where id = ${notificationId(events[0]!)}`
    await age(events, 0)
    await age(events, 0)
    expect(await standing(events[0]!)).toMatchObject({
      state: 'parked',
      reason: 'does_not_fit',
      job: 'ready',
    })
    expect(await driftsOf(id)).toEqual([])

    await age(events, 6)
    const [drift] = await eventually(async () => {
      const drifts = await driftsOf(id)
      expect(drifts).toHaveLength(1)
      return drifts
    })
    expect(drift).toMatchObject({
      subject: 'payment',
      state: 'differs',
      ours: { amount_captured_minor: 1000, amount_refunded_minor: 0, amount_refund_reserved_minor: 1000 },
      theirs: { amount_captured_minor: 1000, amount_refunded_minor: 1000 },
    })
    expect(drift.detail).toContain(`${theirs.id} of the processor exceeds`)
    expect(drift.detail).toContain('refunded USD 10.00; here USD 0.00 is refunded and USD 10.00 reserved')
    // However long it takes it looks again, each hour.
    await age(events, 30 * DAY_S)
    expect((await standing(events[0]!)).after_s).toBeLessThanOrEqual(HOUR_S)

    await resumeJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
    await eventually(async () => expect(await statesOf(events)).toEqual(['applied']))
    expect((await world.client.get(`/v1/refunds/${ours.id}`)).body.status).toBe('failed')
    const story = await paymentSummary(world, id)
    expect(story.payment).toMatchObject({ amount_refunded_minor: 1000, amount_refund_reserved_minor: 1000 })
    expect(story.postings).toEqual(['capture 1000', 'refund -1000'])
    await eventually(async () => expect(await driftsOf(id)).toEqual([]))
    await checkInvariants(world)
  })
})

test('a refund for which room is made during its attempt is booked soon, and otherwise named by the audit', async () => {
  const { id, processor_reference } = await capturedPayment(world.client)
  await world.drain()
  await pauseJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
  await refund(world.client, id, {}, ASYNC)
  await refundInDashboard(world, processor_reference, 400)
  const events = pick(await listEvents(world, processor_reference), ['refund.created'])
  await deliverAndTry(events)
  await age(events, 2 * HOUR_S)
  expect((await standing(events[0]!)).after_s).toBeGreaterThan(HOUR_S / 3)
  const fits = async () =>
    (await auditEverything(world.sql)).problems.filter(({ problem }) =>
      problem.endsWith('fits now and is not resumed'),
    )
  expect(await fits()).toEqual([])
  const reserve = async (amount_minor: number) =>
    await world.sql`update payments set amount_refund_reserved_minor = ${amount_minor} where id = ${id}`
  await reserve(600)
  expect(await fits()).toMatchObject([{ id: notificationId(events[0]!), subject_id: id }])
  await reserve(1000)

  const held = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$` },
    fault: 'hold',
  })
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id = ${notificationId(events[0]!)}`
  await held.hit()
  await resumeJobs(world.sql, { queue: 'payments', tenant_id: world.tenant_id })
  await eventually(async () =>
    expect((await paymentSummary(world, id)).payment).toMatchObject({ amount_refund_reserved_minor: 0 }),
  )
  await held.remove()
  await eventually(async () => expect(await statesOf(events)).toEqual(['applied']))
  expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -400'])
  await eventually(async () => expect(await driftsOf(id)).toEqual([]))
  await checkInvariants(world)
})

describe('ten notifications whose worker is killed each time', () => {
  test('end parked, are seen in audit, metrics and reconciliation, and are applied when they are retried', async () => {
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
    // Stored while nobody works, so that all their attempts can be spent.
    await pauseJobs(world.sql, { queue: 'notifications' })
    await Promise.all(events.map((event) => deliver(world, event)))
    await world.sql`
      update jobs set state = 'running', attempt = max_attempts, worker = 'a dead one', started_at = now(),
        lease_token = gen_random_uuid(), lease_until = now()
      where id = any(${ids}::uuid[])`
    await resumeJobs(world.sql, { queue: 'notifications' })
    await eventually(async () => expect(new Set(await statesOf(events))).toEqual(new Set(['parked'])))

    const given_up = (report: { problems: { problem: string; id: string | null }[] }) =>
      report.problems.filter(({ problem }) => problem === 'a notification was given up').map(({ id }) => id)
    expect(new Set(given_up(await auditEverything(world.sql)))).toEqual(new Set(ids))
    expect(given_up(await auditChanges(world.sql, started_at, []))).toHaveLength(10)
    const later = new Date(Date.now() + 1000 * DAY_S).toISOString()
    expect(given_up(await auditChanges(world.sql, later, []))).toHaveLength(10)
    await eventually(async () => {
      const { values } = await metrics.parked.get()
      expect(values.find(({ labels }) => labels.reason === 'poison')?.value).toBe(10)
    })
    for (const { id } of payments)
      await eventually(async () =>
        expect(await driftsOf(id)).toMatchObject([
          { state: 'differs', detail: expect.stringContaining('is parked (poison)') },
        ]),
      )

    const waits = fabricatedEvent('payment_intent.succeeded', {
      id: 'pi_waits',
      object: 'payment_intent',
      metadata: { sluice_tenant_id: world.tenant_id },
    })
    await deliverAndTry([waits])
    await eventually(async () =>
      expect(
        new Set((await searchJobs(world.sql, { state: 'parked' }, { limit: 100 })).items.map(({ id }) => id)),
      ).toEqual(new Set(ids)),
    )
    const asked = { who: 'ada', reason: 'mended' }
    for (const job_id of ids)
      expect(await retryJob(world.sql, { ...asked, job_id })).toMatchObject({ after: 'ready' })
    expect(await discardJob(world.sql, { ...asked, job_id: notificationId(waits) })).toMatchObject({
      after: 'discarded',
    })
    await eventually(async () => {
      const { values } = await metrics.parked.get()
      expect(values.filter(({ value }) => value > 0)).toEqual([])
    })
    await eventually(async () => expect(new Set(await statesOf(events))).toEqual(new Set(['applied'])))
    for (const { id } of payments)
      expect((await paymentSummary(world, id)).postings).toEqual(['capture 1000', 'refund -300'])
    await checkInvariants(world)
  })
})

test('a notification that is compared is not finished before the comparison is', async () => {
  const { id, processor_reference } = await heldPayment(world.client)
  await world.sql`update payments set amount_capturable_minor = 900 where id = ${id}`
  const [event] = pick(await listEvents(world, processor_reference), [
    'payment_intent.amount_capturable_updated',
  ])
  const held = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$`, nth: 2 },
    fault: 'hold',
  })
  await deliver(world, event!)
  await held.hit()
  // Were its worker killed now, it would come again.
  const [job] = await world.sql`select state from jobs where id = ${notificationId(event!)}`
  expect([await stateOf(world, event!), job!.state]).toEqual(['received', 'running'])
  await held.remove()
  await eventually(async () => expect(await statesOf([event!])).toEqual(['applied']))
  expect(await driftsOf(id)).toMatchObject([{ state: 'differs' }])
  await world.sql`update payments set amount_capturable_minor = 1000 where id = ${id}`
  await world.sql`update drifts set resolved_at = now() where payment_id = ${id}`
})

test('a refund that we never heard of is a drift, also when one answer about it is lost', async () => {
  const { id, processor_reference } = await capturedPayment(world.client)
  const { id: refund_id } = await refundInDashboard(world, processor_reference, 300)
  const events = await listEvents(world, processor_reference)
  await deliver(world, pick(events, ['charge.refunded'])[0]!)
  const looks = world.sql`kind = 'reconciliation.lookup' and object_id = ${processor_reference}`
  await eventually(async () =>
    expect([...(await world.sql`select reason from notifications where ${looks}`)]).toEqual([
      { reason: 'refunds_differ' },
    ]),
  )
  // The look asks once more, and again before it opens a drift.
  const lost = await fault(world, {
    match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$`, nth: 2 },
    fault: 'error_500_before',
  })
  await world.sql`update notifications set parked_at = parked_at - interval '6 seconds' where ${looks}`
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id in (select id from notifications where ${looks})`
  await lost.hit()
  await eventually(async () =>
    expect(await driftsOf(id)).toMatchObject([
      { state: 'differs', ours: { amount_refunded_minor: 0 }, theirs: { amount_refunded_minor: 300 } },
    ]),
  )
  const news = events.filter((event) => event.data.object.id === refund_id)
  for (const event of news) await deliver(world, event)
  await eventually(async () => expect(new Set(await statesOf(news))).toEqual(new Set(['applied'])))
  await world.sql`update drifts set resolved_at = now() where payment_id = ${id}`
})

test('a look that cannot be read is ignored, and not tried for ever', async () => {
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

test('an event that only a newer version can read waits for it, however often it is tried', async () => {
  const news = {
    account: '',
    event_id: 'evt_of_tomorrow',
    kind: 'message.delivered',
    object_id: 'SM1',
    payload: {},
  }
  const notification = notificationOf('a provider of tomorrow', news)
  await storeNotifications(world.sql, [
    { ...notification, is_relevant: true, reported: null, will_wake: false, request_id: null },
  ])
  const job = await eventually(async () => {
    const [row] = await world.sql`
      select j.state, a.outcome, j.attempt, j.max_attempts - j.attempt as left,
        j.run_at > now() + interval '30 seconds' as later
      from jobs j left join job_attempts a on a.job_id = j.id
      where j.id = ${notification.id}`
    expect([row!['attempt'], row!['state']]).toEqual([1, 'ready'])
    return row!
  })
  expect(job).toEqual({ state: 'ready', outcome: 'retry', attempt: 1, left: 25, later: true })
  await discardJob(world.sql, { job_id: notification.id, who: 'ada', reason: 'no such version' })
})

test('waking and listing parked notifications are look-ups by key, even if planned while nothing was parked', async () => {
  const fresh = await createWorld({ parts: [] })
  try {
    const moved = fresh.sql`select processor as provider, processor_reference as reference from payments offset 0`
    const plan = await fresh.sql`explain with ${resuming(fresh.sql, moved)} select`
    const lines = plan.map((row) => String(row['QUERY PLAN']))
    const at = lines.findIndex((line) => line.includes('notifications n'))
    expect(lines[at]).toContain('Index Scan using notifications_parked on')
    expect(lines[at + 1]).toMatch(/Index Cond: .*provider = .*waits_for = /)

    const about = await fresh.sql`explain select ${parkedEvents(fresh.sql, 'payment', null)} from payments p`
    const all = about.map((row) => String(row['QUERY PLAN'])).join('\n')
    expect(all).toMatch(
      /notifications_subject on .*\n.*Index Cond: .*tenant_id = p\.tenant_id.*subject_id = p\.id/,
    )
    expect(all).not.toContain('notifications_parked')
  } finally {
    await fresh.close()
  }
})

// Last of all: the processor's record holds from here on what is none of ours.
test('events of another application on the same account are soon ignored, with at most one fetch for a refund', async () => {
  const reference = await foreignPayment()
  const made = await refundInDashboard(world, reference, 250)
  const events = await listEvents(world, reference)
  expect(events.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['payment_intent.succeeded', 'charge.refunded', 'refund.created']),
  )
  await deliverAndTry(events)
  for (const event of events)
    expect(await standing(event)).toMatchObject({ state: 'parked', reason: 'not_ours', job: 'ready' })
  await age(events, 301)
  for (const event of events)
    expect(await standing(event)).toMatchObject({ state: 'ignored', reason: 'not_ours', job: 'succeeded' })
  const gone = await metrics.notificationsIgnored.get()
  expect(gone.values.find(({ labels }) => labels.reason === 'not_ours')?.value).toBeGreaterThanOrEqual(
    events.length,
  )
  const refunds = events.filter(({ type }) => type.startsWith('refund.'))
  expect(await askedFor(`/v1/payment_intents/${reference}`)).toBe(refunds.length)
  expect(await askedFor(`/v1/refunds/${made.id}`)).toBe(0)
  expect((await auditEverything(world.sql)).problems).toEqual([])
})
