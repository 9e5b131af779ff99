// The reconciler: what the processor never told is found, and where the two disagree is shown until it is mended.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { newId } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import type { Scope } from '#domain/areas.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { PROVIDER_RESOURCE_NAMES } from '#domain/resources.ts'
import { beginRun, endRun, renewRun } from '#domain/jobs/recurring.ts'
import { startWorker } from '#workers/main.ts'
import { checkInvariants } from '#test/books.ts'
import type { Client } from '#test/client.ts'
import { capturedPayment, eventually, fault, heldPayment, paymentIn, refund } from '#test/payments.ts'
import {
  deliver,
  listEvents,
  notificationId,
  stateOf,
  paymentSummary,
  type StripeEvent,
} from '#test/stripe-events.ts'
import { until } from '#test/process.ts'
import { settleTopUp, topUp } from '#test/top-ups.ts'
import { createWorld, type World } from '#test/world.ts'

const EAGER = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0' }

async function driftsOf(client: Client, filter = ''): Promise<any[]> {
  const answer = await client.get(`/v1/reconciliation${filter}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

async function recovered(): Promise<number> {
  return (await metrics.eventsRecovered.get()).values[0]?.value ?? 0
}

describe('while the webhooks host is down', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({ parts: ['api', 'worker'], env: EAGER })
  })
  afterAll(async () => await world?.close())

  const dashboard = (path: string, body?: object) =>
    world.provider('stripe').control('POST', `/${path}`, body)

  test('captures, cancellations, refunds and failed refunds made there are all found', async () => {
    const { client } = world
    const before = await recovered()
    const [one, two, three] = [
      await heldPayment(client),
      await heldPayment(client),
      await heldPayment(client),
    ]
    const four = await capturedPayment(client, { payment_method: 'pm_card_pendingRefund' })
    await dashboard(`payment_intents/${one.processor_reference}/capture`)
    await dashboard(`payment_intents/${two.processor_reference}/cancel`)
    await dashboard(`payment_intents/${three.processor_reference}/capture`, { amount_to_capture: 800 })
    await dashboard('refunds', { payment_intent: three.processor_reference, amount: 250 })
    const asked = (await refund(client, four.id, { amount_minor: 400 })).body
    expect(asked.status).toBe('pending')
    await dashboard(`refunds/${asked.processor_reference}/settle`, { status: 'succeeded' })
    const brought = (await topUp(client, { source: 'src_manual' }, { prefer: 'wait=20' })).body
    await settleTopUp(world, brought.processor_reference, 'succeeded')

    await paymentIn(client, one.id, 'captured')
    await paymentIn(client, two.id, 'canceled')
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${three.id}`)).body).toMatchObject({
        status: 'captured',
        amount_captured_minor: 800,
        amount_refunded_minor: 250,
      }),
    )
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${asked.id}`)).body.status).toBe('succeeded'),
    )
    await eventually(async () =>
      expect((await client.get(`/v1/wallet/top_ups/${brought.id}`)).body.status).toBe('succeeded'),
    )
    await dashboard(`refunds/${asked.processor_reference}/settle`, { status: 'failed' })
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${asked.id}`)).body.status).toBe('failed'),
    )
    await world.drain()
    await checkInvariants(world)
    expect(await driftsOf(client)).toEqual([])
    expect((await recovered()) - before).toBeGreaterThanOrEqual(5)
  })

  test('more events than a page holds are all read, while the processor fails at some', async () => {
    const { client } = world
    const held = await Promise.all(Array.from({ length: 70 }, () => heldPayment(client)))
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'html_503' })
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'rate_limited_429' })
    await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: 'cut_body' })
    await Promise.all(held.map((each) => dashboard(`payment_intents/${each.processor_reference}/capture`)))
    for (const { id } of held) await paymentIn(client, id, 'captured')
    await world.drain()
    const told = (await listEvents(world)).filter(({ type }) => type === 'payment_intent.succeeded')
    expect(told.length).toBeGreaterThan(70)
    for (const event of told) expect(await stateOf(world, event)).toBe('applied')
    await checkInvariants(world)
  })
})

describe('of an event that was both delivered and read', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({ notifications: false, env: EAGER })
  })
  afterAll(async () => await world?.close())

  /** Resolves when everything was read that had happened by now. */
  async function allRead(): Promise<void> {
    const { processor_reference } = await heldPayment(world.client)
    const [last] = await listEvents(world, processor_reference).then((events) =>
      events.filter(({ type }) => type === 'payment_intent.amount_capturable_updated'),
    )
    await eventually(async () => expect(await stateOf(world, last!)).toBe('applied'))
  }

  async function attempts(event: StripeEvent): Promise<unknown> {
    const [row] = await world.sql`
      select count(distinct n.id) as stored, count(distinct j.id) as jobs, count(a.attempt) as attempts
      from notifications n join jobs j on j.id = n.id left join all_job_attempts a on a.job_id = j.id
      where n.event_id = ${event.id}`
    return { ...row }
  }

  test.each(['before', 'after'])(
    'the one that was delivered %s it was read is applied once',
    async (when) => {
      const { id, processor_reference } = await capturedPayment(world.client)
      await world
        .provider('stripe')
        .control('POST', '/refunds', { payment_intent: processor_reference, amount: 350 })
      const [event] = await listEvents(world, processor_reference).then((events) =>
        events.filter(({ type }) => type === 'refund.created'),
      )
      if (when === 'after') await allRead()
      const answer = await deliver(world, event!)
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual({ received: true, ...(when === 'after' && { duplicate: true }) })
      await allRead()
      await world.drain()
      expect(await attempts(event!)).toEqual({ stored: 1, jobs: 1, attempts: 1 })
      const { refunds, postings } = await paymentSummary(world, id)
      expect(refunds).toMatchObject([{ amount_minor: 350, imported: true, status: 'succeeded' }])
      expect(postings).toEqual(['capture 1000', 'refund -350'])
      expect(await world.sql`select from notifications where id = ${notificationId(event!)}`).toHaveLength(1)
      await checkInvariants(world)
    },
  )
})

test('webhooks that are dropped on the way are read, after they had the time to arrive by themselves', async () => {
  const world = await createWorld({ env: { ...EAGER, RECONCILE_AFTER_S: '4' } })
  try {
    await world.provider('stripe').control('POST', '/webhooks', { drop_percent: 100 })
    const { id, processor_reference } = await heldPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    const [happened] = await listEvents(world, processor_reference).then((events) =>
      events.filter(({ type }) => type === 'payment_intent.succeeded'),
    )
    await paymentIn(world.client, id, 'captured')
    const row = await until('its event is read', async () => {
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

// Side by side: these stories mostly wait for the next look.
describe.concurrent('a drift', () => {
  let world: World
  let client: Client
  let stranger: Client
  beforeAll(async () => {
    world = await createWorld({ notifications: false, env: EAGER })
    client = world.client
    stranger = await world.clientOf()
  })
  afterAll(async () => await world?.close())

  async function onlyDrift(filter: string): Promise<any> {
    return await eventually(async () => {
      const drifts = await driftsOf(client, filter)
      expect(drifts).toHaveLength(1)
      return drifts[0]
    }, 180_000)
  }
  /** What is kept of a payment is as it was ten seconds ago: the first look at it is due. */
  async function age(payment_id: string): Promise<void> {
    const { sql } = world
    await sql`update payments set updated_at = updated_at - interval '10 seconds' where id = ${payment_id}`
    await sql`update refunds set updated_at = updated_at - interval '10 seconds' where payment_id = ${payment_id}`
    await sql`update drifts set since = since - interval '10 seconds' where payment_id = ${payment_id}`
  }
  const byPayment = (payment_id: string) => `?payment_id=${payment_id}`
  async function mended(payment_id: string): Promise<void> {
    await age(payment_id)
    await eventually(async () => expect(await driftsOf(client, byPayment(payment_id))).toEqual([]), 30_000)
  }

  test('of a refund whose effect is unknown is shown with its age and counted, and closed when it is known', async () => {
    const { id, processor_reference } = await capturedPayment(client)
    await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'error_500_before',
    })
    const { body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    const filter = byPayment(id)
    const drift = await onlyDrift(filter)
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

    // It went through after all, only later.
    await world.provider('stripe').control('POST', '/refunds', {
      payment_intent: processor_reference,
      amount: 300,
      metadata: { sluice_refund_id: body.id, sluice_payment_id: id, sluice_tenant_id: world.tenant_id },
    })
    await world.sql`update jobs set run_at = now() where subject_id = ${id} and state = 'unknown'`
    await mended(id)
    expect((await client.get(`/v1/refunds/${body.id}`)).body.status).toBe('succeeded')
  })

  test('in state differs stays open while a job of its payment is unknown, and after that', async () => {
    const { id, processor_reference } = await heldPayment(client)
    const [held] = (await listEvents(world, processor_reference)).filter(
      ({ type }) => type === 'payment_intent.amount_capturable_updated',
    )
    await world.sql`update payments set amount_capturable_minor = 900, updated_at = clock_timestamp() where id = ${id}`
    await deliver(world, { ...held!, id: `${held!.id}_again` })
    const filter = byPayment(id)
    const differs = { state: 'differs', detail: 'the amounts that can be captured differ' }
    expect(await onlyDrift(filter)).toMatchObject(differs)
    const [job] = await world.sql`
      update jobs set state = 'unknown', unknown_since = now(), finished_at = null, run_at = 'infinity' where subject_id = ${id} returning id`
    await syncUnknownDrifts(world.sql)
    expect(await driftsOf(client, filter)).toMatchObject([differs])
    await world.sql`
      update jobs set state = 'succeeded', unknown_since = null, finished_at = now() where id = ${job!.id}`
    await syncUnknownDrifts(world.sql)
    expect(await driftsOf(client, filter)).toMatchObject([differs])
    await world.sql`update payments set amount_capturable_minor = 1000, updated_at = clock_timestamp() where id = ${id}`
    await mended(id)
  })

  test('of a payment that does not change here is looked at, and closed when it changes', async () => {
    const { id, processor_reference } = await heldPayment(client)
    // As if its job had been lost.
    await world.sql`update payments set status = 'capturing', updated_at = now() - interval '10 seconds' where id = ${id}`
    const filter = byPayment(id)
    expect(await onlyDrift(filter)).toMatchObject({
      subject: 'payment',
      subject_id: id,
      state: 'stale',
      ours: { status: 'capturing', amount_captured_minor: 0 },
      theirs: { status: 'authorized', amount_capturable_minor: 1000, processor_reference },
      checked_at: expect.stringMatching(/Z$/),
    })
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    await paymentIn(client, id, 'captured')
    await mended(id)
  })

  test('of a payment that is settled differently there shows both sides, and is closed when they agree', async () => {
    const { id, processor_reference } = await heldPayment(client)
    await world.sql`update payments set status = 'failed', amount_capturable_minor = 0 where id = ${id}`
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    const filter = byPayment(id)
    expect(await onlyDrift(filter)).toMatchObject({
      state: 'differs',
      ours: { status: 'failed', amount_captured_minor: 0 },
      theirs: { status: 'captured', amount_captured_minor: 1000 },
    })
    await world.sql`
      update payments set status = 'authorized', amount_capturable_minor = 1000, updated_at = clock_timestamp() where id = ${id}`
    await paymentIn(client, id, 'captured')
    await mended(id)
  })

  test('is none while a refund is pending on both sides, and one when the processor does not know it', async () => {
    const { id, processor_reference } = await capturedPayment(client, {
      payment_method: 'pm_card_pendingRefund',
    })
    const { body } = await refund(client, id, { amount_minor: 400 })
    expect(body.status).toBe('pending')
    const looked = async (reference: string) =>
      await eventually(async () => {
        const [look] = await world.sql`
          select state from notifications where kind = 'reconciliation.lookup' and object_id = ${reference}`
        expect(['applied', 'ignored']).toContain(look?.state)
      }, 180_000)
    await age(id)
    await looked(body.processor_reference)
    const filter = byPayment(id)
    expect(await driftsOf(client, filter)).toEqual([])

    const name = async (reference: string) =>
      await world.sql`
        update refunds set processor_reference = ${reference}, updated_at = clock_timestamp() - interval '10 seconds'
        where id = ${body.id}`
    // What is told of it later would be of a refund that nobody here knows.
    const told = (await listEvents(world, processor_reference)).filter(({ type }) =>
      type.startsWith('refund.'),
    )
    expect(told).not.toEqual([])
    for (const event of told)
      await eventually(async () => expect(await stateOf(world, event)).toBe('applied'))
    await name('re_nobody')
    await looked('re_nobody')
    expect(await onlyDrift(filter)).toMatchObject({
      subject: 'refund',
      subject_id: body.id,
      state: 'stale',
      ours: { status: 'pending', processor_reference: 're_nobody' },
      theirs: null,
      detail: 'the processor has no record of the refund',
    })
    await name(body.processor_reference)
    await mended(id)
    await world.provider('stripe').control('POST', `/refunds/${body.processor_reference}/settle`, {
      status: 'succeeded',
    })
    await eventually(async () =>
      expect((await client.get(`/v1/refunds/${body.id}`)).body.status).toBe('succeeded'),
    )
  })

  test('of a refund that failed here and succeeded there is shown, and closed when it has succeeded here', async () => {
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
    expect(await onlyDrift(filter)).toMatchObject({
      subject: 'refund',
      state: 'differs',
      ours: { status: 'failed' },
      theirs: { status: 'succeeded', amount_minor: 400, processor_reference: body.processor_reference },
    })
    await world.sql`update refunds set status = 'succeeded', updated_at = clock_timestamp() where id = ${body.id}`
    await mended(id)
  })

  type Amounts = { what: string; harm: string; hides: string[]; mend: string; kind: string; found: object }
  test.each<Amounts>([
    {
      what: 'can be captured',
      harm: 'amount_capturable_minor = 900',
      hides: [],
      mend: 'amount_capturable_minor = 1000',
      kind: 'payment_intent.amount_capturable_updated',
      found: {
        ours: { status: 'authorized', amount_capturable_minor: 900 },
        theirs: { status: 'authorized', amount_capturable_minor: 1000 },
        detail: 'the amounts that can be captured differ',
      },
    },
    {
      what: 'is refunded',
      // As if its refund had never been heard of.
      harm: 'amount_refunded_minor = 0, amount_refund_reserved_minor = 0',
      // As if another one were under way.
      hides: ['amount_refund_reserved_minor = 1000'],
      mend: 'amount_refunded_minor = 300, amount_refund_reserved_minor = 300',
      kind: 'charge.refunded',
      found: {
        ours: { status: 'captured', amount_refunded_minor: 0, amount_refund_reserved_minor: 0 },
        theirs: { status: 'captured', amount_captured_minor: 1000, amount_refunded_minor: 300 },
        detail: 'the processor has refunded USD 3.00; here USD 0.00 is refunded and USD 0.00 reserved',
      },
    },
  ])(
    'of a payment of which another amount $what there is shown',
    async ({ harm, hides, mend, kind, found }) => {
      const { id, processor_reference } = await heldPayment(client)
      if (kind === 'charge.refunded') {
        await client.post(`/v1/payments/${id}/capture`)
        await refund(client, id, { amount_minor: 300 })
        await world.drain()
      }
      const set = (amounts: string) =>
        world.sql.unsafe(`update payments set ${amounts}, updated_at = clock_timestamp() where id = '${id}'`)
      await set(harm)
      const told = (await listEvents(world, processor_reference)).find(({ type }) => type === kind)!
      await deliver(world, { ...told, id: `${told.id}_again` })
      const filter = byPayment(id)
      expect(await onlyDrift(filter)).toMatchObject({ subject: 'payment', state: 'differs', ...found })
      for (const hide of hides) {
        // The next look is due.
        await world.sql`update drifts set since = since - interval '1 minute' where payment_id = ${id}`
        await set(hide)
        const [moved] = await world.sql<{ at: string }[]>`
        update payments set updated_at = updated_at - interval '10 seconds' where id = ${id} returning updated_at as at`
        await eventually(async () => {
          const looks = await world.sql`
          select state from notifications where event_id like ${`lookup:${processor_reference}:${moved!.at}:%`}`
          expect(looks[0]).toMatchObject({ state: 'applied' })
        })
        expect(await driftsOf(client, filter)).toMatchObject([{ state: 'differs' }])
      }
      await set(mend)
      await mended(id)
    },
  )

  test('is none when the processor answered before the payment moved here', async () => {
    const { id, processor_reference } = await heldPayment(client)
    const told = (await listEvents(world, processor_reference)).find(
      ({ type }) => type === 'payment_intent.amount_capturable_updated',
    )!
    // Not yet read from the list, and of no version of the API, so that it is looked at.
    const event = { ...told, id: `${told.id}_again`, api_version: null }
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

  test.each([
    ['applied', 0],
    ['asked for again', 1],
  ])('is not closed by an answer that is older than the one that opened it: %s', async (_which, answers) => {
    const { id, processor_reference: reference } = await capturedPayment(client)
    const match = { method: 'GET', path: `^/v1/payment_intents/${reference}$` }
    const look = async (name: string) => {
      const arrival = requestLookup('stripe', { subject: 'payment', reference }, name)
      await storeNotifications(world.sql, [arrival])
      return async () =>
        await eventually(async () => {
          const [stored] = await world.sql`select state from notifications where id = ${arrival.id}`
          expect(stored).toMatchObject({ state: 'applied' })
        })
    }
    if (answers > 0) await fault(world, { match, times: answers, fault: 'still_processing' })
    const older = await fault(world, { match, fault: { hold: 'after' } })
    const olderEnds = await look('older')
    await older.hit()
    const working = await fault(world, { match, times: 1000, fault: 'still_processing' })
    const newerEnds = await look('newer')
    await newerEnds()
    const drifts = async () => [
      ...(await world.sql`select state, theirs ->> 'status' as there from drifts where subject_id = ${id} and resolved_at is null`),
    ]
    expect(await drifts()).toEqual([{ state: 'differs', there: 'processing' }])
    await older.remove()
    await olderEnds()
    expect(await drifts()).toEqual([{ state: 'differs', there: 'processing' }])
    await working.remove()
    await mended(id)
  })

  test('is not opened by an answer that is older than the one that closed it', async () => {
    const { id, processor_reference: reference } = await heldPayment(client)
    const match = { method: 'GET', path: `^/v1/payment_intents/${reference}$` }
    const look = async (name: string) =>
      await storeNotifications(world.sql, [requestLookup('stripe', { subject: 'payment', reference }, name)])
    await world.sql`update payments set status = 'canceled', amount_capturable_minor = 0 where id = ${id}`
    await look('opens')
    expect(await onlyDrift(byPayment(id))).toMatchObject({ theirs: { status: 'authorized' } })
    const older = await fault(world, { match: { ...match, nth: 2 }, fault: { hold: 'after' } })
    await look('older')
    await older.hit()
    await world.provider('stripe').control('POST', `/payment_intents/${reference}/cancel`)
    await look('closes')
    await eventually(async () => expect(await driftsOf(client, byPayment(id))).toEqual([]))
    await older.remove()
    await world.drain()
    expect(await driftsOf(client, byPayment(id))).toEqual([])
    await world.sql`update payments set status = 'authorized', amount_capturable_minor = 1000 where id = ${id}`
    await look('ends')
    await paymentIn(client, id, 'canceled')
  })

  test('cannot be opened for a job of an unknown noun, which is logged instead', async () => {
    const id = newId()
    await world.sql`
      insert into jobs (id, tenant_id, queue, name, subject_id, payload, max_attempts, state, unknown_since, run_at)
      values (${id}, ${world.tenant_id}, 'nobody', 'parcel.send', ${id}, ${world.sql.json({ parcel_id: id })}, 1,
        'unknown', now(), 'infinity')`
    expect(await syncUnknownDrifts(world.sql)).toEqual(['parcel.send'])
    await world.sql`delete from jobs where id = ${id}`
    expect(await syncUnknownDrifts(world.sql)).toEqual([])
  })

  test('is opened for all others beside a job whose payload names no row', async () => {
    const { id } = await heldPayment(client)
    const unknown = async (payload: Record<string, string>) => {
      const job_id = newId()
      await world.sql`
        insert into jobs (id, tenant_id, queue, name, subject_id, payload, max_attempts, state, unknown_since, run_at)
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

  test('is listed newest first, in pages, and not without the scope', async () => {
    const { id } = await heldPayment(client)
    const { tenant_id } = await world.clientOf({ tenant: 'acme', scopes: [] })
    await world.sql`
      insert into drifts (tenant_id, id, subject, subject_id, payment_id, state, ours, since)
      select ${tenant_id}, gen_random_uuid(), 'refund', gen_random_uuid(), ${id}, 'differs',
        '{"status":"failed","amount_minor":1,"currency":"USD","processor_reference":null}', now()
      from generate_series(1, 5)`
    const filter = `/v1/reconciliation?payment_id=${id}`
    const seen: string[] = []
    for (let path: string | undefined = `${filter}&limit=2`; path !== undefined;) {
      const answer = await client.get(path)
      seen.push(...answer.body.map(({ created_at }: { created_at: string }) => created_at))
      path = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
    }
    expect(seen).toHaveLength(5)
    expect(seen).toEqual(seen.toSorted().toReversed())
    const writer = await world.clientOf({ tenant: 'acme', scopes: ['payments:write'] })
    expect((await writer.get(filter)).status).toBe(403)
    for (const query of ['state=open', 'subject=parcel', 'payment_id=x', 'status=stale'])
      expect((await client.get(`/v1/reconciliation?${query}`)).status).toBe(400)
    await world.sql`delete from drifts where payment_id = ${id}`
  })

  test('a key sees the drifts of what it may read', async () => {
    const tenant = 'drifting'
    const { tenant_id } = await world.clientOf({ tenant, scopes: [] })
    await world.sql`
      insert into drifts (tenant_id, id, subject, subject_id, state, ours, since)
      select ${tenant_id}, gen_random_uuid(), subject, gen_random_uuid(), 'differs', '{"status":"failed"}', now()
      from unnest(${PROVIDER_RESOURCE_NAMES}::text[]) subject`
    const seen = async (scopes: Scope[], filter = '') => {
      const key = await world.clientOf({ tenant, scopes: ['payments:read', ...scopes] })
      const subjects: string[] = (await driftsOf(key, filter)).map(({ subject }) => subject)
      return subjects.toSorted()
    }
    const payments = ['dispute', 'payment', 'refund']
    expect(await seen([])).toEqual(payments)
    expect(await seen([], '?subject=payout')).toEqual([])
    expect(await seen(['payouts:read'])).toEqual([...payments, 'payout'].toSorted())
    expect(await seen(['wallet:read'], '?subject=top_up')).toEqual(['top_up'])
    expect(await seen(['compliance:read'], '?subject=kyc')).toEqual(['kyc'])
    await world.sql`delete from drifts where tenant_id = ${tenant_id}`
  })

  test('after all of these stories the books balance', { concurrent: false }, async () => {
    await world.drain()
    await checkInvariants(world)
  })
})

describe('a run of recurring work', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld({ parts: [] })
  })
  afterAll(async () => await world?.close())

  test('is begun by one worker, ended by that worker only, and taken over when its lease lapses', async () => {
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

  test('that is not due at first does not begin at once', async () => {
    const later = () => beginRun(world.sql, 'later', { first_after_s: 3600 })
    expect(await later()).toBeUndefined()
    expect(await later()).toBeUndefined()
  })
})

test('two workers read the events one after the other', async () => {
  const world = await createWorld({ notifications: false, env: EAGER })
  const second = await startWorker(world.config, createLog('silent', 'test'))
  try {
    const slow = await fault(world, { match: { path: '^/v1/events' }, times: 1, fault: { hold: 'before' } })
    await slow.hit()
    const asked = async () => (await world.provider('stripe').requests({ path: '/v1/events' })).length
    const before = await asked()
    const { id, processor_reference } = await heldPayment(world.client)
    await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
    // The worker that reads the events is held. Runs of another kind, one a second, show that the other worker goes on.
    for (let runs = 0, last = ''; runs < 4; runs++) {
      const ended_at = async () =>
        (await world.sql`select ended_at from recurring_work where name = 'reconciling'`)[0]
          ?.ended_at as string
      await eventually(async () => expect(await ended_at()).not.toBe(last))
      last = await ended_at()
    }
    expect(await asked()).toBe(before)
    await slow.remove()
    await paymentIn(world.client, id, 'captured')
    await checkInvariants(world)
  } finally {
    await second.close()
    await world.close()
  }
})
