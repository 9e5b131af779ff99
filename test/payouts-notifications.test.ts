// Notifications about payouts: in any order, about duplicates with Sluice's ids, with other amounts, during slow calls,
// and with late cancellations.
import { describe, expect, onTestFinished } from 'vitest'
import { auditEverything } from '#domain/audit/audit.ts'
import { discardJob, resolveAsFailed } from '#domain/job-acts/act.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { lookUpAfterMonth } from '#test/lookups.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, createPayment, eventually, fault } from '#test/payments.ts'
import {
  accountOf,
  fund,
  payOut,
  payoutIn,
  payoutSummary,
  recipient,
  clientWithBalance,
} from '#test/payouts.ts'
import {
  deliver,
  eventsOf,
  ordersOf,
  shuffled,
  mapConcurrently,
  stateOf,
  deliverInOrders,
  untilAttempted,
} from '#test/stripe-events.ts'
import { topUp } from '#test/top-ups.ts'
import { testIn } from '#test/world.ts'
import { createWiredWorld, type WiredWorld } from '#test/wired-world.ts'

const test = testIn(createWiredWorld)
test.beforeAll(async ({ client }) => {
  await fund(client, 1_000_000)
})

const WAIT = { prefer: 'wait=20' }
const control = (world: WiredWorld, path: string, body: object) =>
  world.provider('stripe').control('POST', path, body)
const settle = (world: WiredWorld, reference: string, status: string) =>
  control(world, `/payouts/${reference}/settle`, { status })
const listAllDrifts = async (world: WiredWorld) => Array.from(await world.sql`select * from drifts`)
const jobOf = async (world: WiredWorld, payout_id: string) => {
  const [job] = await world.sql<
    { id: string; state: string }[]
  >`select id, state from jobs where resource_id = ${payout_id}`
  return job!
}

/** Creates one payout at the processor for each order of `count` events. */
async function createPayoutPerOrder(
  client: Client,
  count: number,
  destination: string,
): Promise<{ payouts: any[]; orders: number[][] }> {
  const orders = ordersOf(Array.from({ length: count }, (_, index) => index))
  const to = await recipient(client, destination)
  const payouts = await mapConcurrently(
    orders,
    20,
    async () => (await payOut(client, to, {}, { prefer: 'wait=20' })).body,
  )
  return { payouts, orders }
}

async function deliverInAllOrders(world: WiredWorld, payouts: any[], orders: number[][]): Promise<void> {
  await deliverInOrders(
    world,
    payouts.map((payout) => payout.processor_reference),
    orders,
  )
}

describe('the notifications of a payout', () => {
  test('have the same result in every order if the payout is paid and then fails', async ({
    world,
    client,
  }) => {
    const { payouts, orders } = await createPayoutPerOrder(client, 3, 'ba_manual')
    for (const { processor_reference } of payouts) {
      // Stripe also reports changes that Sluice ignores.
      const { url, api_key } = world.provider('stripe')
      await fetch(`${url}/v1/payouts/${processor_reference}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
        body: 'metadata[seen]=1',
      })
      await settle(world, processor_reference, 'paid')
      await settle(world, processor_reference, 'failed')
    }
    await deliverInAllOrders(world, payouts, orders)
    for (const { id } of payouts)
      expect(await payoutSummary(world, id)).toEqual({
        payout: {
          status: 'failed',
          processor_status: 'failed',
          paid_minor: 0,
          returned_minor: 0,
          failure: 'could_not_process',
          manual: false,
          known: true,
        },
        postings: [],
        events: ['created', 'failed', 'processing'],
      })
    expect(await listAllDrifts(world)).toEqual([])
  })

  test("have the same result in every order if the payout is canceled in the processor's dashboard", async ({
    world,
    client,
  }) => {
    const { payouts, orders } = await createPayoutPerOrder(client, 1, 'ba_pending')
    for (const { processor_reference } of payouts) await settle(world, processor_reference, 'canceled')
    await deliverInAllOrders(world, payouts, orders)
    for (const { id } of payouts)
      expect(await payoutSummary(world, id)).toMatchObject({
        payout: { status: 'canceled', processor_status: 'canceled', paid_minor: 0 },
        events: ['canceled', 'created', 'processing'],
      })
  })

  test('post the payout and its return in the order in which the processor sends them', async ({
    world,
    client,
  }) => {
    const {
      payouts: [payout],
    } = await createPayoutPerOrder(client, 1, 'ba_manual')
    const { id, processor_reference: reference } = payout
    await settle(world, reference, 'paid')
    const [paid] = (await eventsOf(world, reference)).filter(({ type }) => type === 'payout.paid')
    await deliver(world, paid!)
    await payoutIn(client, id, 'paid')
    await settle(world, reference, 'failed')
    const [failed] = (await eventsOf(world, reference)).filter(({ type }) => type === 'payout.failed')
    await deliver(world, failed!)
    await payoutIn(client, id, 'failed')
    // A late duplicate with a new event id and an outdated status.
    await deliver(world, { ...paid!, id: `${paid!.id}_copy` })
    await world.drain()
    expect(await payoutSummary(world, id)).toMatchObject({
      payout: { status: 'failed', paid_minor: 100, returned_minor: 100 },
      postings: ['payout_paid -100', 'payout_returned 100'],
      events: ['created', 'failed', 'paid', 'processing'],
    })
  })
})

describe('a transfer', () => {
  const reverse = (world: WiredWorld, reference: string, amount?: number) =>
    control(world, `/transfers/${reference}/reverse`, amount === undefined ? {} : { amount })

  test('that is reversed in parts has a posting for each return, and fails with the last return', async ({
    world,
    client,
  }) => {
    const {
      payouts: [payout],
    } = await createPayoutPerOrder(client, 1, 'acct_success')
    const { id, processor_reference: reference } = payout
    const delivered = new Set<string>()
    const deliverNew = async () => {
      for (const event of await eventsOf(world, reference)) {
        if (delivered.has(event.id)) continue
        delivered.add(event.id)
        await deliver(world, event)
      }
      await world.drain()
    }
    await deliverNew()
    await reverse(world, reference, 30)
    await deliverNew()
    expect(await payoutSummary(world, id)).toMatchObject({
      payout: { status: 'paid', returned_minor: 30 },
      postings: ['payout_paid -100', 'payout_returned 30'],
    })
    await reverse(world, reference, 20)
    await reverse(world, reference)
    await deliverNew()
    expect(await payoutSummary(world, id)).toEqual({
      payout: {
        status: 'failed',
        processor_status: 'failed',
        paid_minor: 100,
        returned_minor: 100,
        failure: 'reversed',
        manual: false,
        known: true,
      },
      postings: ['payout_paid -100', 'payout_returned 30', 'payout_returned 70'],
      events: ['created', 'failed', 'paid'],
    })
  })

  test('has the same result for notifications in any order', async ({ world, client }) => {
    const { payouts, orders } = await createPayoutPerOrder(client, 3, 'acct_success')
    for (const { processor_reference } of payouts) {
      await reverse(world, processor_reference, 40)
      await reverse(world, processor_reference)
    }
    await deliverInAllOrders(world, payouts, orders)
    for (const { id } of payouts) {
      const summary = await payoutSummary(world, id)
      expect(summary).toMatchObject({
        payout: { status: 'failed', paid_minor: 100, returned_minor: 100, failure: 'reversed' },
        events: ['created', 'failed', 'paid'],
      })
      expect(summary.postings[0]).toBe('payout_paid -100')
    }
    expect(await listAllDrifts(world)).toEqual([])
  })
})

test('a notification that precedes the response to the call settles the payout, and the late response changes nothing', async ({
  world,
  client,
}) => {
  const to = await recipient(client, 'ba_manual')
  const hold = await fault(world, {
    match: { method: 'POST', path: '/v1/payouts$' },
    fault: { hold: 'after' },
  })
  const { body } = await payOut(client, to)
  await hold.hit()
  const [effect] = await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': body.id })
  await settle(world, effect.payout, 'paid')
  for (const event of shuffled(await eventsOf(world, effect.payout))) await deliver(world, event)
  await payoutIn(client, body.id, 'paid')
  await hold.release()
  await world.drain()
  expect(await payoutSummary(world, body.id)).toMatchObject({
    payout: { status: 'paid', known: true },
    postings: ['payout_paid -100'],
    events: ['created', 'paid'],
  })
})

test('a notification about a payout of another application is parked and changes nothing', async ({
  world,
}) => {
  const { url, api_key } = world.provider('stripe')
  const answer = await fetch(`${url}/v1/payouts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: 'amount=700&currency=usd&destination=ba_manual&metadata[application]=another',
  })
  const { id } = (await answer.json()) as { id: string }
  await settle(world, id, 'paid')
  const events = await eventsOf(world, id)
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await eventually(async () => {
    for (const event of events) expect(await stateOf(world, event)).toBe('parked')
  })
  expect(await listAllDrifts(world)).toEqual([])
})

test('a payout is posted before its return, even if one notification reports both', async ({ world }) => {
  const client = await clientWithBalance(world, 10_000)
  const to = await recipient(client, 'acct_success')
  const COUNT = 12
  const hold = await fault(world, {
    match: { method: 'POST', path: '/v1/transfers$' },
    times: COUNT,
    fault: { hold: 'after' },
  })
  const ids = await Promise.all(Array.from({ length: COUNT }, async () => (await payOut(client, to)).body.id))
  await hold.hit(COUNT)
  for (const id of ids) {
    const [effect] = await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': id })
    await control(world, `/transfers/${effect.transfer}/reverse`, { amount: 30 })
    const events = await eventsOf(world, effect.transfer)
    await deliver(world, events.at(-1)!)
  }
  for (const id of ids) await payoutIn(client, id, 'paid')
  for (const id of ids)
    expect((await payoutSummary(world, id)).postings).toEqual(['payout_paid -100', 'payout_returned 30'])
  await hold.release()
  await world.drain()
})

test('a cancellation that had no effect is refused when it is repeated with the same key', async ({
  world,
}) => {
  const client = await clientWithBalance(world, 1000)
  const hold = await fault(world, {
    match: { method: 'POST', path: '/v1/transfers$' },
    fault: { hold: 'after' },
  })
  const { body } = await payOut(client, await recipient(client, 'acct_success'))
  await hold.hit()
  const key = { idempotency_key: freshKey() }
  const cancel = () => client.post(`/v1/payouts/${body.id}/cancel`, key)
  for (const replayed of [null, 'true']) {
    const recorded = await cancel()
    expect([recorded.status, recorded.body.status]).toEqual([202, 'pending'])
    expect(recorded.headers.get('idempotent-replayed')).toBe(replayed)
  }
  await hold.release()
  await payoutIn(client, body.id, 'paid')
  const late = await cancel()
  expect([late.status, late.body.error.code]).toEqual([409, 'payout_not_cancelable'])
  expect(late.body.error.context).toMatchObject({ status: 'paid' })
})

test('a payout whose call is prevented by a pause is canceled at once', async ({ world }) => {
  const client = await clientWithBalance(world, 1000)
  const { sql } = world
  const to = await recipient(client, 'ba_manual')
  await pauseJobs(sql, { queue: 'payouts' })
  onTestFinished(async () => await resumeJobs(sql, { queue: 'payouts' }))
  const { body } = await payOut(client, to)
  // The lock on the payout delays the claimed job until its call would begin.
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const locking = sql.begin(async (tx) => {
    await tx`select from payouts where id = ${body.id} for update`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  await resumeJobs(sql, { queue: 'payouts' })
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('running'))
  await pauseJobs(sql, { queue: 'payouts' })
  // The job checks the pause again one second after the claim; the lease lasts for four seconds.
  await eventually(async () => {
    const [claimed] = await sql`
      select from jobs where resource_id = ${body.id} and started_at < now() - interval '1 second'`
    expect(claimed).toBeDefined()
  })
  release.resolve()
  await locking
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('ready'))
  const canceled = await client.post(`/v1/payouts/${body.id}/cancel`)
  await resumeJobs(sql, { queue: 'payouts' })
  expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
  await world.drain()
  expect(await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': body.id })).toEqual([])
})

test('all books agree with the processor while no objects of other applications exist', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
})

describe('a duplicate object at the processor with the ids of Sluice', () => {
  const DUPLICATES = [
    ['payout', 'payouts', 'destination=ba_manual'],
    ['top_up', 'topups', 'source=src_manual'],
    [
      'payment',
      'payment_intents',
      'capture_method=manual&confirm=true&payment_method=pm_card_visa&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never',
    ],
  ] as const

  test.for(DUPLICATES)(
    'of a %s is a drift until an operator resolves it',
    async ([resource, path, fields], { world }) => {
      const client = await clientWithBalance(world, 1000)
      const create = {
        payout: async () => await payOut(client, await recipient(client, 'acct_success'), {}, WAIT),
        top_up: async () => await topUp(client, { source: 'src_success' }, WAIT),
        payment: async () => await createPayment(client),
      }
      const { body } = await create[resource]()
      const events_of_original = await eventsOf(world, body.processor_reference)
      for (const event of events_of_original) await deliver(world, event)
      await untilAttempted(world, events_of_original)
      const { url, api_key } = world.provider('stripe')
      const answer = await fetch(`${url}/v1/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
        body: `amount=77&currency=usd&${fields}&metadata[sluice_${resource}_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`,
      })
      const { id: reference } = (await answer.json()) as { id: string }
      expect(body.processor_reference).not.toBe(reference)
      if (resource !== 'payment')
        await control(world, `/${path}/${reference}/settle`, {
          status: resource === 'payout' ? 'paid' : 'succeeded',
        })
      const [first, ...rest] = await eventsOf(world, reference)
      // A notification is delivered twice.
      for (const event of [first!, ...rest, { ...first!, id: `${first!.id}_again` }]) {
        await deliver(world, event)
        await untilAttempted(world, [event])
      }
      const drifts = async () => (await client.get(`/v1/reconciliation?subject=${resource}`)).body
      expect(await drifts()).toMatchObject([
        {
          subject_id: body.id,
          state: 'differs',
          detail: expect.stringContaining(`the processor has a duplicate, ${reference}, of USD 0.77`),
          theirs: { processor_reference: body.processor_reference },
        },
      ])
      const parked = async () =>
        await world.sql<{ id: string }[]>`
        select id from notifications where object_id = ${reference} and state = 'parked' and reason = 'duplicate'`
      expect(await parked()).toHaveLength(1)
      const { problems } = await auditEverything(world.sql)
      expect(problems.filter(({ resource_id }) => resource_id === body.id)).toMatchObject([
        { problem: 'the processor has a duplicate object' },
      ])
      const reconcile = async () => {
        await lookUpAfterMonth(world, resource, body.id)
        await world.drain()
      }
      await reconcile()
      expect(await drifts()).toHaveLength(1)
      const [{ id: job_id } = { id: '' }] = await parked()
      await discardJob(world.sql, { job_id, actor: 'test', reason: 'it was taken back' })
      await reconcile()
      await eventually(async () => expect(await drifts()).toEqual([]))
    },
  )

  const DUPLICATES_OF_SAME_AMOUNT = {
    payout: ['transfers', 'amount=100&currency=usd&destination=acct_success'],
    top_up: ['topups', 'amount=500&currency=usd&source=src_manual'],
    payment: ['payment_intents', `amount=1000&currency=usd&${DUPLICATES[2][2]}`],
  } as const

  test.for(['payout', 'top_up', 'payment'] as const)(
    'of a %s is a drift even if its notification precedes the response to the call',
    async (resource, { world }) => {
      const client = await clientWithBalance(world, 1000)
      const [path, fields] = DUPLICATES_OF_SAME_AMOUNT[resource]
      const hold = await fault(world, {
        match: { method: 'POST', path: `/v1/${path}$` },
        fault: { hold: 'after' },
      })
      const create = {
        payout: async () => await payOut(client, await recipient(client, 'acct_success')),
        top_up: async () => await topUp(client, { source: 'src_manual' }),
        payment: async () => await createPayment(client, {}, ASYNC),
      }
      const { body } = await create[resource]()
      await hold.hit()
      const { url, api_key } = world.provider('stripe')
      const answer = await fetch(`${url}/v1/${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
        body: `${fields}&metadata[sluice_${resource}_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`,
      })
      const { id: other } = (await answer.json()) as { id: string }
      if (resource === 'top_up') await control(world, `/topups/${other}/settle`, { status: 'succeeded' })
      const events = await eventsOf(world, other)
      for (const event of events) await deliver(world, event)
      await untilAttempted(world, events)
      await hold.release()
      await eventually(async () =>
        expect((await client.get(`/v1/reconciliation?subject=${resource}`)).body).toMatchObject([
          {
            subject_id: body.id,
            state: 'differs',
            detail: expect.stringContaining('the processor has a duplicate'),
          },
        ]),
      )
    },
  )

  test('is ignored if it has moved no money', async ({ world }) => {
    const client = await clientWithBalance(world, 1000)
    const { body } = await payOut(client, await recipient(client, 'ba_success'), {}, WAIT)
    const { url, api_key } = world.provider('stripe')
    const answer = await fetch(`${url}/v1/payouts`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: `amount=77&currency=usd&destination=ba_manual&metadata[sluice_payout_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`,
    })
    const { id: reference } = (await answer.json()) as { id: string }
    await settle(world, reference, 'failed')
    const events = await eventsOf(world, reference)
    for (const event of events) await deliver(world, event)
    await untilAttempted(world, events)
    expect((await client.get('/v1/reconciliation')).body).toEqual([])
    for (const event of events) expect(await stateOf(world, event)).toBe('applied')
  })
})

test('a payout with the ids of Sluice and another amount settles nothing, and stays a drift', async ({
  world,
}) => {
  const client = await clientWithBalance(world, 1000)
  await fault(world, { match: { method: 'POST', path: '/v1/payouts$' }, fault: 'error_500_before' })
  const { body } = await payOut(client, await recipient(client, 'ba_manual'))
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('unknown'))
  const { url, api_key } = world.provider('stripe')
  const our_metadata = `metadata[sluice_payout_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`
  const answer = await fetch(`${url}/v1/payouts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: `amount=90&currency=usd&destination=ba_manual&${our_metadata}`,
  })
  const { id: reference } = (await answer.json()) as { id: string }
  await settle(world, reference, 'paid')
  const events = await eventsOf(world, reference)
  for (const event of events) await deliver(world, event)
  await untilAttempted(world, events)
  const drifts = async () => (await client.get('/v1/reconciliation')).body
  const drift = {
    subject_id: body.id,
    state: 'differs',
    ours: { status: 'pending', amount_minor: 100 },
    theirs: { status: 'paid', amount_minor: 90 },
  }
  expect(await drifts()).toMatchObject([drift])
  const { id: job_id } = await jobOf(world, body.id)
  await world.sql.begin((tx) => resolveAsFailed(tx, { job_id, actor: 'test', reason: 'asked the processor' }))
  expect(await drifts()).toMatchObject([drift])
  expect(await payoutSummary(world, body.id)).toMatchObject({ payout: { status: 'failed' }, postings: [] })
})

test('a response with another amount settles nothing, and opens a drift', async ({ world }) => {
  const own = await clientWithBalance(world, 1000)
  world.wire.replaceInAnswers('"amount":100,', '"amount":190,')
  onTestFinished(() => world.wire.replaceInAnswers(null))
  const { body } = await payOut(own, await recipient(own, 'ba_manual'))
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('unknown'))
  expect((await own.get('/v1/reconciliation')).body).toMatchObject([
    {
      subject_id: body.id,
      state: 'differs',
      ours: { status: 'pending', amount_minor: 100 },
      theirs: { status: 'processing', amount_minor: 190 },
    },
  ])
  expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 1000, reserved: 100 })
  expect(await payoutSummary(world, body.id)).toMatchObject({
    payout: { status: 'pending', processor_status: null, known: false },
    postings: [],
    events: ['created'],
  })
})
