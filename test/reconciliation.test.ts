// The reconciler reads missed events, and opens drifts for differences from the processor until the differences are
// resolved.
import { expect, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { newId } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import { connectDatabase } from '#core/pool.ts'
import type { Scope } from '#domain/areas.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { PROVIDER_RESOURCE_NAMES } from '#domain/resources.ts'
import { beginRun, endRun, renewRun, runIfDue } from '#domain/jobs/recurring.ts'
import { startWorker } from '#workers/main.ts'
import { recoverCommand } from '#commands/recover.ts'
import { checkInvariants } from '#test/books.ts'
import { runHere } from '#test/commands.ts'
import type { Client } from '#test/client.ts'
import { capturedPayment, eventually, fault, authorizedPayment, paymentIn, refund } from '#test/payments.ts'
import {
  deliver,
  listEvents,
  notificationId,
  stateOf,
  paymentSummary,
  type StripeEvent,
} from '#test/stripe-events.ts'
import { until } from '#test/process.ts'
import { goBackInTime } from '#test/switches.ts'
import { settleTopUp, topUp } from '#test/top-ups.ts'
import { createWorld, describeIn, type World } from '#test/world.ts'

const STRIPE = { provider: 'stripe', livemode: true }

const EAGER = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0' }

async function driftsOf(client: Client, filter = ''): Promise<any[]> {
  const answer = await client.get(`/v1/reconciliation${filter}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function countRecovered(): Promise<number> {
  return (await metrics.eventsRecovered.get()).values[0]?.value ?? 0
}

describeIn('while the webhooks host is down', { parts: ['api', 'worker'], env: EAGER }, (test) => {
  const dashboard = (world: World, path: string, body?: object) =>
    world.provider('stripe').control('POST', `/${path}`, body)

  test("captures, cancellations, refunds and failed refunds in the processor's dashboard are applied", async ({
    world,
  }) => {
    const { client } = world
    const before = await countRecovered()
    const [captured, canceled, partly_captured] = [
      await authorizedPayment(client),
      await authorizedPayment(client),
      await authorizedPayment(client),
    ]
    const pending = await capturedPayment(client, { payment_method: 'pm_card_pendingRefund' })
    await dashboard(world, `payment_intents/${captured.processor_reference}/capture`)
    await dashboard(world, `payment_intents/${canceled.processor_reference}/cancel`)
    await dashboard(world, `payment_intents/${partly_captured.processor_reference}/capture`, {
      amount_to_capture: 800,
    })
    await dashboard(world, 'refunds', { payment_intent: partly_captured.processor_reference, amount: 250 })
    const pending_refund = (await refund(client, pending.id, { amount_minor: 400 })).body
    expect(pending_refund.status).toBe('pending')
    await dashboard(world, `refunds/${pending_refund.processor_reference}/settle`, { status: 'succeeded' })
    const top_up = (await topUp(client, { source: 'src_manual' }, { prefer: 'wait=20' })).body
    await settleTopUp(world, top_up.processor_reference, 'succeeded')

    await paymentIn(client, captured.id, 'captured')
    await paymentIn(client, canceled.id, 'canceled')
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${partly_captured.id}`)).body).toMatchObject({
        status: 'captured',
        amount_captured_minor: 800,
        amount_refunded_minor: 250,
      }),
    )
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${pending_refund.id}`)).body.status).toBe('succeeded'),
    )
    await eventually(async () =>
      expect((await client.get(`/v1/wallet/top_ups/${top_up.id}`)).body.status).toBe('succeeded'),
    )
    await dashboard(world, `refunds/${pending_refund.processor_reference}/settle`, { status: 'failed' })
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${pending_refund.id}`)).body.status).toBe('failed'),
    )
    await world.drain()
    await checkInvariants(world)
    expect(await driftsOf(client)).toEqual([])
    expect((await countRecovered()) - before).toBeGreaterThanOrEqual(5)
  })

  test('several pages of events are read although some requests to the processor fail', async ({ world }) => {
    const { client } = world
    const payments = await Promise.all(Array.from({ length: 70 }, () => authorizedPayment(client)))
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'html_503' })
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'rate_limited_429' })
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'cut_body' })
    await Promise.all(
      payments.map((each) => dashboard(world, `payment_intents/${each.processor_reference}/capture`)),
    )
    for (const { id } of payments) await paymentIn(client, id, 'captured')
    await world.drain()
    const events = (await listEvents(world)).filter(({ type }) => type === 'payment_intent.succeeded')
    expect(events.length).toBeGreaterThan(70)
    for (const event of events) expect(await stateOf(world, event)).toBe('applied')
    await checkInvariants(world)
  })
})

describeIn('after a switch of the database', { notifications: false, env: EAGER }, (test) => {
  test('missing notifications are counted again, even if another list cannot be read', async ({ world }) => {
    const { client, env, sql } = world
    await fault(world, { match: { path: '^/v1/transfers' }, times: 100_000, fault: 'refuse_401' })
    const { number } = await goBackInTime(world)
    await eventually(async () =>
      expect(await sql`select from failing_lists where list = 'transfers'`).toHaveLength(1),
    )
    const release = ['release', '--without-lists', '--messages', 'send', '--reason', 'no transfers here']
    expect(await runHere(recoverCommand, release, env)).toMatchObject({ code: 0 })
    await eventually(async () =>
      expect(
        await sql`
          select from recurring_work
          where name = 'events of stripe' and (position ->> 'read_for')::integer >= ${number}`,
      ).toHaveLength(1),
    )
    const before = await countRecovered()
    await capturedPayment(client)
    await eventually(async () => expect(await countRecovered()).toBeGreaterThan(before))
  })
})

describeIn('events that are both delivered and read', { notifications: false, env: EAGER }, (test) => {
  /** Waits until the reconciler has read all existing events. */
  async function awaitRead(world: World): Promise<void> {
    const { processor_reference } = await authorizedPayment(world.client)
    const [last] = await listEvents(world, processor_reference).then((events) =>
      events.filter(({ type }) => type === 'payment_intent.amount_capturable_updated'),
    )
    await eventually(async () => expect(await stateOf(world, last!)).toBe('applied'))
  }

  async function attempts(world: World, event: StripeEvent): Promise<unknown> {
    const [row] = await world.sql`
      select count(distinct n.id) as stored, count(distinct j.id) as jobs, count(a.attempt) as attempts
      from notifications n join jobs j on j.id = n.id left join all_job_attempts a on a.job_id = j.id
      where n.event_id = ${event.id}`
    return { ...row }
  }

  test.for(['before', 'after'])(
    'an event that is delivered %s the reconciler reads it is applied once',
    async (when, { world }) => {
      const { id, processor_reference } = await capturedPayment(world.client)
      await world
        .provider('stripe')
        .control('POST', '/refunds', { payment_intent: processor_reference, amount: 350 })
      const [event] = await listEvents(world, processor_reference).then((events) =>
        events.filter(({ type }) => type === 'refund.created'),
      )
      if (when === 'after') await awaitRead(world)
      const answer = await deliver(world, event!)
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual({ received: true, ...(when === 'after' && { duplicate: true }) })
      await awaitRead(world)
      await world.drain()
      expect(await attempts(world, event!)).toEqual({ stored: 1, jobs: 1, attempts: 1 })
      const { refunds, postings } = await paymentSummary(world, id)
      expect(refunds).toMatchObject([{ amount_minor: 350, imported: true, status: 'succeeded' }])
      expect(postings).toEqual(['capture 1000', 'refund -350'])
      expect(await world.sql`select from notifications where id = ${notificationId(event!)}`).toHaveLength(1)
      await checkInvariants(world)
    },
  )
})

test('events of lost webhooks are read after the delay RECONCILE_AFTER_S', async () => {
  const world = await createWorld({ env: { ...EAGER, RECONCILE_AFTER_S: '4' } })
  try {
    await world.provider('stripe').control('POST', '/webhooks', { drop_percent: 100 })
    const { id, processor_reference } = await authorizedPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    const [happened] = await listEvents(world, processor_reference).then((events) =>
      events.filter(({ type }) => type === 'payment_intent.succeeded'),
    )
    await paymentIn(world.client, id, 'captured')
    const row = await until('the event of the capture is read', async () => {
      const rows = await world.sql<{ after_s: number }[]>`
        select extract(epoch from received_at)::float8 - (payload ->> 'created')::integer as after_s
        from notifications where id = ${notificationId(happened!)}`
      return rows[0]
    })
    expect(row.after_s).toBeGreaterThanOrEqual(4)
    const webhooks = await world.provider('stripe').control('GET', '/webhooks')
    expect(webhooks).toMatchObject({ delivered: 0, waiting: 0, dropped: expect.any(Number) })
    expect(webhooks.dropped).toBeGreaterThanOrEqual(2)
    await checkInvariants(world)
  } finally {
    await world.close()
  }
})

// These tests run concurrently, because they spend most of their time waiting for the next lookup.
describeIn('drifts', { notifications: false, env: EAGER, concurrent: true }, (test) => {
  let stranger: Client
  test.beforeAll(async ({ world }) => {
    stranger = await world.clientOf()
  })

  async function onlyDrift(client: Client, filter: string): Promise<any> {
    return await eventually(async () => {
      const drifts = await driftsOf(client, filter)
      expect(drifts).toHaveLength(1)
      return drifts[0]
    })
  }
  /** Moves a payment, its refunds and its drifts ten seconds into the past, so that the first lookup is due. */
  async function makeLookupDue(world: World, payment_id: string): Promise<void> {
    const { sql } = world
    await sql`update payments set updated_at = updated_at - interval '10 seconds' where id = ${payment_id}`
    await sql`update refunds set updated_at = updated_at - interval '10 seconds' where payment_id = ${payment_id}`
    await sql`update drifts set since = since - interval '10 seconds' where payment_id = ${payment_id}`
  }
  const byPayment = (payment_id: string) => `?payment_id=${payment_id}`
  async function awaitResolved(world: World, payment_id: string): Promise<void> {
    await makeLookupDue(world, payment_id)
    await eventually(
      async () => expect(await driftsOf(world.client, byPayment(payment_id))).toEqual([]),
      30_000,
    )
  }

  test('a refund with an unknown effect has a drift with its age until the effect is known', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'error_500_before',
    })
    const { body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    const filter = byPayment(id)
    const drift = await onlyDrift(client, filter)
    expect(drift).toMatchObject({
      tenant_id: world.tenant_id,
      subject: 'refund',
      subject_id: body.id,
      payment_id: id,
      state: 'unknown',
      ours: { status: 'pending', amount_minor: 300, currency: 'USD', processor_reference: null },
      theirs: null,
      detail: expect.stringContaining('refund.create: '),
    })
    await eventually(async () =>
      expect((await driftsOf(client, filter))[0].age_s).toBeGreaterThan(drift.age_s),
    )
    await eventually(async () => {
      const { values } = await metrics.drifts.get()
      expect(values.find(({ labels }) => labels.state === 'unknown')?.value).toBeGreaterThanOrEqual(1)
      expect((await metrics.oldestDrift.get()).values[0]!.value).toBeGreaterThan(0)
    })
    expect(await driftsOf(client, `${filter}&state=unknown&subject=refund`)).toHaveLength(1)
    expect(await driftsOf(client, `${filter}&state=differs`)).toEqual([])
    expect(await driftsOf(client, `${filter}&subject=payment`)).toEqual([])
    expect(await driftsOf(stranger, filter)).toEqual([])
    expect(await driftsOf(stranger)).toEqual([])

    // The refund succeeds at the processor later.
    await world.provider('stripe').control('POST', '/refunds', {
      payment_intent: processor_reference,
      amount: 300,
      metadata: { sluice_refund_id: body.id, sluice_payment_id: id, sluice_tenant_id: world.tenant_id },
    })
    await world.sql`update jobs set run_at = now() where resource_id = ${id} and state = 'unknown'`
    await awaitResolved(world, id)
    expect((await client.get(`/v1/refunds/${body.id}`)).body.status).toBe('succeeded')
  })

  test('a drift in the state `differs` stays open during and after an unknown job of its payment', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const [capturable] = (await listEvents(world, processor_reference)).filter(
      ({ type }) => type === 'payment_intent.amount_capturable_updated',
    )
    await world.sql`update payments set amount_capturable_minor = 900, updated_at = clock_timestamp() where id = ${id}`
    await deliver(world, { ...capturable!, id: `${capturable!.id}_again` })
    const filter = byPayment(id)
    const differs = { state: 'differs', detail: 'the amounts that can be captured differ' }
    expect(await onlyDrift(client, filter)).toMatchObject(differs)
    const [job] = await world.sql`
      update jobs set state = 'unknown', unknown_since = now(), finished_at = null, run_at = 'infinity' where resource_id = ${id} returning id`
    await syncUnknownDrifts(world.sql)
    expect(await driftsOf(client, filter)).toMatchObject([differs])
    await world.sql`
      update jobs set state = 'succeeded', unknown_since = null, finished_at = now() where id = ${job!.id}`
    await syncUnknownDrifts(world.sql)
    expect(await driftsOf(client, filter)).toMatchObject([differs])
    await world.sql`update payments set amount_capturable_minor = 1000, updated_at = clock_timestamp() where id = ${id}`
    await awaitResolved(world, id)
  })

  test('a stale payment has a drift until it changes', async ({ world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    // The payment waits for a job that does not exist.
    await world.sql`update payments set status = 'capturing', updated_at = now() - interval '10 seconds' where id = ${id}`
    const filter = byPayment(id)
    expect(await onlyDrift(client, filter)).toMatchObject({
      subject: 'payment',
      subject_id: id,
      state: 'stale',
      ours: { status: 'capturing', amount_captured_minor: 0 },
      theirs: { status: 'authorized', amount_capturable_minor: 1000, processor_reference },
      checked_at: expect.stringMatching(/Z$/),
    })
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    await paymentIn(client, id, 'captured')
    await awaitResolved(world, id)
  })

  test('a payment with another status at the processor has a drift with both statuses until the statuses match', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    await world.sql`update payments set status = 'failed', amount_capturable_minor = 0 where id = ${id}`
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    const filter = byPayment(id)
    expect(await onlyDrift(client, filter)).toMatchObject({
      state: 'differs',
      ours: { status: 'failed', amount_captured_minor: 0 },
      theirs: { status: 'captured', amount_captured_minor: 1000 },
    })
    await world.sql`
      update payments set status = 'authorized', amount_capturable_minor = 1000, updated_at = clock_timestamp() where id = ${id}`
    await paymentIn(client, id, 'captured')
    await awaitResolved(world, id)
  })

  test('a pending refund has a drift only while the processor has no record of the refund', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client, {
      payment_method: 'pm_card_pendingRefund',
    })
    const { body } = await refund(client, id, { amount_minor: 400 })
    expect(body.status).toBe('pending')
    const awaitLookup = async (reference: string) =>
      await eventually(async () => {
        const [lookup] = await world.sql`
          select state from notifications where kind = 'reconciliation.lookup' and object_id = ${reference}`
        expect(['applied', 'ignored']).toContain(lookup?.state)
      })
    await makeLookupDue(world, id)
    await awaitLookup(body.processor_reference)
    const filter = byPayment(id)
    expect(await driftsOf(client, filter)).toEqual([])

    const setReference = async (reference: string) =>
      await world.sql`
        update refunds set processor_reference = ${reference}, updated_at = clock_timestamp() - interval '10 seconds'
        where id = ${body.id}`
    // All events are applied before the reference changes: after that they would belong to an unknown refund.
    const events = (await listEvents(world, processor_reference)).filter(({ type }) =>
      type.startsWith('refund.'),
    )
    expect(events).not.toEqual([])
    for (const event of events)
      await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
    await setReference('re_nobody')
    await awaitLookup('re_nobody')
    expect(await onlyDrift(client, filter)).toMatchObject({
      subject: 'refund',
      subject_id: body.id,
      state: 'stale',
      ours: { status: 'pending', processor_reference: 're_nobody' },
      theirs: null,
      detail: 'the processor has no record of the refund',
    })
    await setReference(body.processor_reference)
    await awaitResolved(world, id)
    await world.provider('stripe').control('POST', `/refunds/${body.processor_reference}/settle`, {
      status: 'succeeded',
    })
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${body.id}`)).body.status).toBe('succeeded'),
    )
  })

  test('a refund that failed here and succeeded at the processor has a drift until its status is corrected', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const { body } = await refund(client, id, { amount_minor: 400 })
    await paymentIn(client, id, 'captured')
    await eventually(async () => expect((await paymentSummary(world, id)).postings).toHaveLength(2))
    await world.sql`update refunds set status = 'failed' where id = ${body.id}`
    const [event] = (await listEvents(world, processor_reference)).filter(
      ({ type }) => type === 'refund.created',
    )
    await deliver(world, { ...event!, id: 'evt_told_again' })
    const filter = byPayment(id)
    expect(await onlyDrift(client, filter)).toMatchObject({
      subject: 'refund',
      state: 'differs',
      ours: { status: 'failed' },
      theirs: { status: 'succeeded', amount_minor: 400, processor_reference: body.processor_reference },
    })
    await world.sql`update refunds set status = 'succeeded', updated_at = clock_timestamp() where id = ${body.id}`
    await awaitResolved(world, id)
  })

  type Amounts = {
    amount: string
    corruption: string
    hiding: string[]
    repair: string
    kind: string
    found: object
  }
  test.for<Amounts>([
    {
      amount: 'capturable',
      corruption: 'amount_capturable_minor = 900',
      hiding: [],
      repair: 'amount_capturable_minor = 1000',
      kind: 'payment_intent.amount_capturable_updated',
      found: {
        ours: { status: 'authorized', amount_capturable_minor: 900 },
        theirs: { status: 'authorized', amount_capturable_minor: 1000 },
        detail: 'the amounts that can be captured differ',
      },
    },
    {
      amount: 'refunded',
      // The stored payment has no refund.
      corruption: 'amount_refunded_minor = 0, amount_refund_reserved_minor = 0',
      // A second refund reserves the whole amount.
      hiding: ['amount_refund_reserved_minor = 1000'],
      repair: 'amount_refunded_minor = 300, amount_refund_reserved_minor = 300',
      kind: 'charge.refunded',
      found: {
        ours: { status: 'captured', amount_refunded_minor: 0, amount_refund_reserved_minor: 0 },
        theirs: { status: 'captured', amount_captured_minor: 1000, amount_refunded_minor: 300 },
        detail: 'the processor has refunded USD 3.00; here USD 0.00 is refunded and USD 0.00 reserved',
      },
    },
  ])(
    'a payment whose $amount amount differs at the processor has a drift',
    async ({ corruption, hiding, repair, kind, found }, { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client)
      if (kind === 'charge.refunded') {
        await client.post(`/v1/payments/${id}/capture`)
        await refund(client, id, { amount_minor: 300 })
        await world.drain()
      }
      const set = (amounts: string) =>
        world.sql.unsafe(`update payments set ${amounts}, updated_at = clock_timestamp() where id = '${id}'`)
      await set(corruption)
      const original = (await listEvents(world, processor_reference)).find(({ type }) => type === kind)!
      await deliver(world, { ...original, id: `${original.id}_again` })
      const filter = byPayment(id)
      expect(await onlyDrift(client, filter)).toMatchObject({
        subject: 'payment',
        state: 'differs',
        ...found,
      })
      for (const update of hiding) {
        // The next lookup is due.
        await world.sql`update drifts set since = since - interval '1 minute' where payment_id = ${id}`
        await set(update)
        const [moved] = await world.sql<{ at: string }[]>`
        update payments set updated_at = updated_at - interval '10 seconds' where id = ${id} returning updated_at as at`
        await eventually(async () => {
          const lookups = await world.sql`
          select state from notifications where event_id like ${`lookup:${processor_reference}:${moved!.at}:%`}`
          expect(lookups[0]).toMatchObject({ state: 'applied' })
        })
        expect(await driftsOf(client, filter)).toMatchObject([{ state: 'differs' }])
      }
      await set(repair)
      await awaitResolved(world, id)
    },
  )

  test('a response that is older than the last change of the payment opens no drift', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const original = (await listEvents(world, processor_reference)).find(
      ({ type }) => type === 'payment_intent.amount_capturable_updated',
    )!
    // A new event without an API version causes a lookup.
    const event = { ...original, id: `${original.id}_again`, api_version: null }
    const slow = await fault(world, {
      match: { method: 'GET', path: `^/v1/payment_intents/${processor_reference}$` },
      fault: { hold: 'after' },
    })
    await deliver(world, event)
    await slow.hit()
    expect((await client.post(`/v1/payments/${id}/capture`)).body.status).toBe('captured')
    await slow.remove()
    await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
    await world.drain()
    expect([...(await world.sql`select * from drifts where payment_id = ${id}`)]).toEqual([])
  })

  test.for([
    ['is applied', 0],
    ['is repeated', 1],
  ] as const)(
    'a response that is older than the response that opened a drift does not close the drift: the older lookup %s',
    async ([_which, answers], { world, client }) => {
      const { id, processor_reference: reference } = await capturedPayment(client)
      const match = { method: 'GET', path: `^/v1/payment_intents/${reference}$` }
      const requestPaymentLookup = async (name: string) => {
        const arrival = requestLookup(STRIPE, { resource: 'payment', reference, tenant_id: null }, name)
        await storeNotifications(world.sql, [arrival])
        return async () =>
          await eventually(async () => {
            const [stored] = await world.sql`select state from notifications where id = ${arrival.id}`
            expect(stored).toMatchObject({ state: 'applied' })
          })
      }
      if (answers > 0) await fault(world, { match, times: answers, fault: 'still_processing' })
      const older = await fault(world, { match, fault: { hold: 'after' } })
      const awaitOlder = await requestPaymentLookup('older')
      await older.hit()
      const working = await fault(world, { match, times: 1000, fault: 'still_processing' })
      const awaitNewer = await requestPaymentLookup('newer')
      await awaitNewer()
      const drifts = async () => [
        ...(await world.sql`select state, theirs ->> 'status' as there from drifts where subject_id = ${id} and resolved_at is null`),
      ]
      expect(await drifts()).toEqual([{ state: 'differs', there: 'processing' }])
      await older.remove()
      await awaitOlder()
      expect(await drifts()).toEqual([{ state: 'differs', there: 'processing' }])
      await working.remove()
      await awaitResolved(world, id)
    },
  )

  test('a response that is older than the response that closed a drift does not open the drift again', async ({
    world,
    client,
  }) => {
    const { id, processor_reference: reference } = await authorizedPayment(client)
    const match = { method: 'GET', path: `^/v1/payment_intents/${reference}$` }
    const requestPaymentLookup = async (name: string) =>
      await storeNotifications(world.sql, [
        requestLookup(STRIPE, { resource: 'payment', reference, tenant_id: null }, name),
      ])
    await world.sql`update payments set status = 'canceled', amount_capturable_minor = 0 where id = ${id}`
    await requestPaymentLookup('opens')
    expect(await onlyDrift(client, byPayment(id))).toMatchObject({ theirs: { status: 'authorized' } })
    const older = await fault(world, { match: { ...match, nth: 2 }, fault: { hold: 'after' } })
    await requestPaymentLookup('older')
    await older.hit()
    await world.provider('stripe').control('POST', `/payment_intents/${reference}/cancel`)
    await requestPaymentLookup('closes')
    await eventually(async () => expect(await driftsOf(client, byPayment(id))).toEqual([]))
    await older.remove()
    await world.drain()
    expect(await driftsOf(client, byPayment(id))).toEqual([])
    await world.sql`update payments set status = 'authorized', amount_capturable_minor = 1000 where id = ${id}`
    await requestPaymentLookup('ends')
    await paymentIn(client, id, 'canceled')
  })

  test('an unknown job of an unrecognized resource opens no drift, and the name of the job is returned for the log', async ({
    world,
  }) => {
    const id = newId()
    await world.sql`
      insert into jobs (id, tenant_id, queue, name, resource_id, payload, max_attempts, state, unknown_since, run_at)
      values (${id}, ${world.tenant_id}, 'nobody', 'parcel.send', ${id}, ${world.sql.json({ parcel_id: id })}, 1,
        'unknown', now(), 'infinity')`
    expect(await syncUnknownDrifts(world.sql)).toEqual(['parcel.send'])
    await world.sql`delete from jobs where id = ${id}`
    expect(await syncUnknownDrifts(world.sql)).toEqual([])
  })

  test('an unknown job whose resource has no row does not prevent drifts of other jobs', async ({
    world,
    client,
  }) => {
    const { id } = await authorizedPayment(client)
    const unknown = async (payload: Record<string, string>) => {
      const job_id = newId()
      await world.sql`
        insert into jobs (id, tenant_id, queue, name, resource_id, payload, max_attempts, state, unknown_since, run_at)
        values (${job_id}, ${world.tenant_id}, 'nobody', 'payment.capture', ${id}, ${world.sql.json(payload)}, 1, 'unknown', now(),
          'infinity')`
      return job_id
    }
    const jobs = [await unknown({ payment_id: 'x' }), await unknown({ payment_id: id })]
    await syncUnknownDrifts(world.sql)
    const open = await world.sql`select state from drifts where subject_id = ${id} and resolved_at is null`
    expect([...open]).toEqual([{ state: 'unknown' }])
    await world.sql`delete from jobs where id = any(${jobs})`
    await syncUnknownDrifts(world.sql)
  })

  test('drifts are listed newest first and in pages, to keys with the scope', async ({ world, client }) => {
    const { id } = await authorizedPayment(client)
    const { tenant_id } = await world.clientOf({ tenant: 'acme', scopes: [] })
    await world.sql`
      insert into drifts (tenant_id, id, subject, subject_id, payment_id, state, ours, since)
      select ${tenant_id}, gen_random_uuid(), 'refund', gen_random_uuid(), ${id}, 'differs',
        '{"status":"failed","amount_minor":1,"currency":"USD","processor_reference":null}', now()
      from generate_series(1, 5)`
    const filter = `/v1/reconciliation?payment_id=${id}`
    const times: string[] = []
    for (let path: string | undefined = `${filter}&limit=2`; path !== undefined;) {
      const answer = await client.get(path)
      times.push(...answer.body.map(({ created_at }: { created_at: string }) => created_at))
      path = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
    }
    expect(times).toHaveLength(5)
    expect(times).toEqual(times.toSorted().toReversed())
    const writer = await world.clientOf({ tenant: 'acme', scopes: ['payments:write'] })
    expect((await writer.get(filter)).status).toBe(403)
    for (const query of ['state=open', 'subject=parcel', 'payment_id=x', 'status=stale'])
      expect((await client.get(`/v1/reconciliation?${query}`)).status).toBe(400)
    await world.sql`delete from drifts where payment_id = ${id}`
  })

  test('a key reads only the drifts of resources that its scopes include', async ({ world }) => {
    const tenant = 'drifting'
    const { tenant_id } = await world.clientOf({ tenant, scopes: [] })
    await world.sql`
      insert into drifts (tenant_id, id, subject, subject_id, state, ours, since)
      select ${tenant_id}, gen_random_uuid(), subject, gen_random_uuid(), 'differs', '{"status":"failed"}', now()
      from unnest(${PROVIDER_RESOURCE_NAMES}::text[]) subject`
    const subjectsOf = async (scopes: Scope[], filter = '') => {
      const key = await world.clientOf({ tenant, scopes: ['payments:read', ...scopes] })
      const subjects: string[] = (await driftsOf(key, filter)).map(({ subject }) => subject)
      return subjects.toSorted()
    }
    const payments = ['dispute', 'payment', 'refund']
    expect(await subjectsOf([])).toEqual(payments)
    expect(await subjectsOf([], '?subject=payout')).toEqual([])
    expect(await subjectsOf(['payouts:read'])).toEqual([...payments, 'payout'].toSorted())
    expect(await subjectsOf(['wallet:read'], '?subject=top_up')).toEqual(['top_up'])
    expect(await subjectsOf(['compliance:read'], '?subject=kyc')).toEqual(['kyc'])
    await world.sql`delete from drifts where tenant_id = ${tenant_id}`
  })

  test('after all scenarios the ledger balances', { concurrent: false }, async ({ world }) => {
    await world.drain()
    await checkInvariants(world)
  })
})

describeIn('runs of recurring work', { parts: [] }, (test) => {
  test('one worker begins a run, only that worker can end the run, and another worker claims the run after the lease has expired', async ({
    world,
  }) => {
    const { sql } = world
    const begin = () => beginRun(sql, 'some work')
    const runs = (await Promise.all(Array.from({ length: 20 }, begin))).filter((run) => run !== undefined)
    expect(runs).toHaveLength(1)
    const [first] = runs
    expect(first).toMatchObject({ position: null, result: null })
    expect(await renewRun(sql, first!, { at: 1 })).toBe(true)

    await sql`update recurring_work set lease_until = now() where name = 'some work'`
    const second = (await begin())!
    expect(second.position).toEqual({ at: 1 })
    expect(await renewRun(sql, first!, { at: 2 })).toBe(false)
    expect(await endRun(sql, first!, { position: { at: 2 }, next_s: 0 })).toBe(false)
    expect(await endRun(sql, second, { position: { at: 3 }, next_s: 3600 })).toBe(true)
    expect(await begin()).toBeUndefined()
    await sql`update recurring_work set due_at = now() where name = 'some work'`
    expect((await begin())!.position).toEqual({ at: 3 })
  })

  test('a worker begins again at once what it could not end because the database was unavailable', async ({
    world,
  }) => {
    const failing = connectDatabase(world.config.DATABASE_URL!, { max: 1, application_name: 'test' })
    const broken = runIfDue(failing, 'broken work', async () => {
      await failing.end({ timeout: 0 })
      await failing`select`
    })
    await expect(broken).rejects.toMatchObject({ code: 'CONNECTION_ENDED' })
    const leased =
      await world.sql`select from recurring_work where name = 'broken work' and lease_until > now()`
    expect(leased).toHaveLength(1)
    expect(await beginRun(world.sql, 'broken work')).toBeDefined()
    expect(await beginRun(world.sql, 'broken work')).toBeUndefined()
  })

  test('recurring work with a delayed first run does not begin at once', async ({ world }) => {
    const later = () => beginRun(world.sql, 'later', { first_after_s: 3600 })
    expect(await later()).toBeUndefined()
    expect(await later()).toBeUndefined()
  })
})

test('two workers do not read the events at the same time', async () => {
  const world = await createWorld({ notifications: false, env: EAGER })
  const second = await startWorker(world.config, createLog('silent', 'test'))
  try {
    const slow = await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: { hold: 'before' } })
    await slow.hit()
    const countRequests = async () => (await world.provider('stripe').requests({ path: '/v1/events' })).length
    const before = await countRequests()
    const { id, processor_reference } = await authorizedPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    // The worker that reads the events waits for a blocked request. Meanwhile another run begins once a second, which
    // shows that the other worker runs.
    for (let runs = 0, last = ''; runs < 4; runs++) {
      const ended_at = async () =>
        (await world.sql`select ended_at from recurring_work where name = 'reconciling'`)[0]
          ?.ended_at as string
      await eventually(async () => expect(await ended_at()).not.toBe(last))
      last = await ended_at()
    }
    expect(await countRequests()).toBe(before)
    await slow.remove()
    await paymentIn(world.client, id, 'captured')
    await checkInvariants(world)
  } finally {
    await second.close()
    await world.close()
  }
})
