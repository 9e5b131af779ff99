// Top-ups of which the processor says what we did not ask for: nothing is booked for them, and somebody is told.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { resolveAsDone, resolveAsFailed } from '#domain/interventions/act.ts'
import { pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findDrifting, looksOf } from '#domain/reconciliation/looks.ts'
import { freshKey, type Client } from '#test/client.ts'
import { everyRow } from '#test/databases.ts'
import { startHere } from '#test/parts.ts'
import { eventually, fault } from '#test/payments.ts'
import { startProxy } from '#test/proxy.ts'
import { deliver, listEvents, tried } from '#test/stripe-events.ts'
import { marksOf, settleTopUp, topUp, topUpElsewhere } from '#test/top-ups.ts'
import { createWorld, type World } from '#test/world.ts'

const MANUAL = { source: 'src_manual' }
const BY = { who: 'ada', reason: 'as support told' }

let world: World
beforeAll(async () => (world = await createWorld({ notifications: false })))
afterAll(async () => await world?.close())

/** A top-up of 5.00 USD of which nobody knows whether the processor has it; it has not. */
async function unknownTopUp(shop: Client): Promise<{ id: string; job_id: string }> {
  const description = `unknown-${freshKey()}`
  await fault(world, { match: { contains: description }, fault: 'error_500_before' })
  const { body } = await topUp(shop, { ...MANUAL, description })
  const job_id = await eventually(async () => {
    const [job] = await jobsOf(body.id)
    expect(job).toMatchObject({ state: 'unknown' })
    return job!.id
  })
  return { id: body.id, job_id }
}

const jobsOf = async (id: string) =>
  await world.sql<{ id: string; state: string; last_error: unknown }[]>`
    select id, state, last_error from jobs where subject_id = ${id}`

/** The processor tells the last that happened to it. */
async function tell(reference: string): Promise<void> {
  const event = (await listEvents(world)).findLast(({ data }) => data.object.id === reference)!
  expect((await deliver(world, event)).status).toBe(200)
  await tried(world, [event])
}

async function driftsOf(shop: Client, id: string): Promise<any[]> {
  const { body } = await shop.get('/v1/reconciliation?subject=top_up')
  return body.filter((each: any) => each.subject_id === id)
}

/** As the reconciler does for rows with an open drift: they have been so for long. */
async function lookAtDrifts(id: string): Promise<void> {
  await world.sql`update top_ups set updated_at = updated_at - interval '2 days' where id = ${id}`
  await world.sql`update drifts set since = since - interval '2 days' where subject_id = ${id}`
  const { stale } = await findDrifting(world.sql, null)
  await storeNotifications(world.sql, looksOf(stale))
}

const topUpOf = async (shop: Client, id: string) => (await shop.get(`/v1/wallet/top_ups/${id}`)).body
const balancesOf = async (shop: Client) => (await shop.get('/v1/wallet/balances')).body

test.each([
  ['another amount and currency', { amount: '1', currency: 'jpy' }, 'succeeded'],
  ['another amount', { amount: '499' }, 'succeeded'],
  ['another currency', { currency: 'eur' }, 'succeeded'],
  ['another amount, and taken back', { amount: '5000' }, 'reversed'],
] as const)(
  '%s under our ids is not booked, but a drift until the real one is there',
  async (_, other, end) => {
    const shop = await world.clientOf()
    const { id, job_id } = await unknownTopUp(shop)
    const marks = marksOf(id, shop.tenant_id)
    const strange = await topUpElsewhere(world, { ...marks, ...other })
    await settleTopUp(world, strange, 'succeeded')
    if (end === 'reversed') await settleTopUp(world, strange, end)
    await tell(strange)
    const theirs = {
      amount_minor: Number('amount' in other ? other.amount : 500),
      processor_reference: strange,
    }
    expect(await driftsOf(shop, id)).toMatchObject([
      {
        state: 'differs',
        ours: { status: 'pending', amount_minor: 500 },
        theirs: { status: end, ...theirs },
      },
    ])
    expect(await topUpOf(shop, id)).toMatchObject({ status: 'pending', processor_reference: null })
    expect(await balancesOf(shop)).toEqual([])

    const real = await topUpElsewhere(world, marks)
    await resolveAsDone(world.sql, { job_id, ...BY }, real)
    await settleTopUp(world, real, 'succeeded')
    await tell(real)
    expect(await topUpOf(shop, id)).toMatchObject({ status: 'succeeded', processor_reference: real })
    expect(await balancesOf(shop)).toMatchObject([{ currency: 'usd', balance_minor: 500 }])
    await lookAtDrifts(id)
    await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
  },
)

test('it stays a drift when ours is given up', async () => {
  const shop = await world.clientOf()
  const { id, job_id } = await unknownTopUp(shop)
  const strange = await topUpElsewhere(world, { amount: '1', ...marksOf(id, shop.tenant_id) })
  await settleTopUp(world, strange, 'succeeded')
  await tell(strange)
  await resolveAsFailed(world.sql, { job_id, ...BY })
  const again = { ...(await listEvents(world)).findLast(({ data }) => data.object.id === strange)! }
  again.id += '_again'
  await deliver(world, again)
  await tried(world, [again])
  expect(await driftsOf(shop, id)).toMatchObject([
    { state: 'differs', ours: { status: 'failed' }, theirs: { amount_minor: 1 } },
  ])
  expect(await topUpOf(shop, id)).toMatchObject({ status: 'failed', processor_reference: null })
  expect(await balancesOf(shop)).toEqual([])
})

test.each(['tells', 'is looked at'])(
  'money that came although ours was given up is posted and a drift, which closes when the processor has taken it back and %s',
  async (how) => {
    const shop = await world.clientOf()
    const { id, job_id } = await unknownTopUp(shop)
    await resolveAsFailed(world.sql, { job_id, ...BY })
    const given_up = await topUpOf(shop, id)
    expect(given_up).toMatchObject({ status: 'failed', processor_reference: null })

    const reference = await topUpElsewhere(world, marksOf(id, shop.tenant_id))
    await settleTopUp(world, reference, 'succeeded')
    await tell(reference)
    expect(await driftsOf(shop, id)).toMatchObject([
      {
        state: 'differs',
        detail: 'the top-up has failed here, and the processor has brought the money in all the same',
        ours: { status: 'failed' },
        theirs: { status: 'succeeded' },
      },
    ])
    expect(await balancesOf(shop)).toMatchObject([{ balance_minor: 500 }])
    // Once, however often it is told.
    const [told] = (await listEvents(world)).filter(({ data }) => data.object.id === reference)
    const again = { ...told!, id: `${told!.id}_again` }
    await deliver(world, again)
    await tried(world, [again])
    const kinds = async () =>
      (await shop.get(`/v1/wallet/transactions?subject_id=${id}`)).body.map(({ kind }: any) => kind)
    expect(await kinds()).toEqual(['top_up'])
    // It is known by its reference from now on; nothing else that is shown of it has changed.
    expect(await topUpOf(shop, id)).toEqual({
      ...given_up,
      processor_reference: reference,
      updated_at: expect.any(String),
    })
    await lookAtDrifts(id)
    await world.drain()
    expect(await driftsOf(shop, id)).toHaveLength(1)

    await settleTopUp(world, reference, 'reversed')
    if (how === 'tells') await tell(reference)
    else {
      await world.sql`delete from notifications where object_id = ${reference}`
      await lookAtDrifts(id)
    }
    await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
    expect(await topUpOf(shop, id)).toMatchObject({ status: 'failed', failure: given_up.failure })
    expect(await kinds()).toEqual(['top_up_reversed', 'top_up'])
    expect(await balancesOf(shop)).toMatchObject([{ balance_minor: 0 }])
    const events = await world.sql<
      { type: string }[]
    >`select type from events where subject_id = ${id} order by id`
    expect(events.map(({ type }) => type)).toEqual(['top_up.created', 'top_up.failed'])
  },
)

test('an answer about another amount than was asked for leaves it unknown, until the right one is found', async () => {
  const other_world = await createWorld({ parts: ['api'], notifications: false })
  onTestFinished(() => other_world.close())
  const wire = await startProxy(other_world.env['STRIPE_API_BASE']!)
  onTestFinished(() => wire.close())
  wire.replaceInAnswers('"amount":500', '"amount":900')
  const env = { ...other_world.env, STRIPE_API_BASE: wire.url }
  const worker = await startHere('worker', env, createLog('silent', 'test'))
  onTestFinished(() => worker.close())
  const { client, sql } = other_world
  const { body } = await topUp(client, MANUAL)
  await eventually(async () => {
    const [job] = await sql`select state, last_error from jobs where subject_id = ${body.id}`
    expect(job).toMatchObject({
      state: 'unknown',
      last_error: { message: expect.stringMatching(/^tu_\w+ is another top-up$/) },
    })
  })
  expect(await topUpOf(client, body.id)).toMatchObject({ status: 'pending', processor_reference: null })
  wire.replaceInAnswers('"amount":900', '"amount":900')
  await eventually(async () =>
    expect(await topUpOf(client, body.id)).toMatchObject({
      status: 'pending',
      processor_reference: expect.stringMatching(/^tu_/),
    }),
  )
})

test('a key that was used otherwise leaves it unknown: what that made may be ours', async () => {
  const shop = await world.clientOf()
  await pauseJobs(world.sql, { queue: 'payments', tenant_id: shop.tenant_id })
  const { body } = await topUp(shop, MANUAL)
  const [job] = await jobsOf(body.id)
  await topUpElsewhere(world, { amount: '499' }, { 'idempotency-key': `${job!.id}:1` })
  await resumeJobs(world.sql, { queue: 'payments', tenant_id: shop.tenant_id })
  await eventually(async () => expect(await jobsOf(body.id)).toMatchObject([{ state: 'unknown' }]))
  expect(await topUpOf(shop, body.id)).toMatchObject({ status: 'pending', processor_reference: null })
})

test('what was taken back at once is posted after what came, each time', async () => {
  const shop = await world.clientOf()
  for (let each = 0; each < 10; each += 1) {
    const { body } = await topUp(shop, MANUAL, { prefer: 'wait=20' })
    await settleTopUp(world, body.processor_reference, 'succeeded')
    await settleTopUp(world, body.processor_reference, 'reversed')
    await tell(body.processor_reference)
  }
  const { body: moved } = await shop.get('/v1/wallet/transactions?limit=100')
  expect(moved.map(({ kind, balance_after_minor }: any) => [kind, balance_after_minor])).toEqual(
    Array.from({ length: 10 }, () => [
      ['top_up_reversed', 0],
      ['top_up', 500],
    ]).flat(),
  )
})

test('the token of a source is in no table in clear once the processor has it', async () => {
  const shop = await world.clientOf()
  const source = `src_manual_${freshKey()}`
  const { body } = await topUp(shop, { source }, { prefer: 'wait=20' })
  for (const status of ['succeeded', 'reversed'] as const) {
    await settleTopUp(world, body.processor_reference, status)
    await tell(body.processor_reference)
  }
  const rows = await everyRow(world.sql)
  expect(rows).toContain(body.processor_reference)
  expect(rows.split('\n').filter((row) => row.includes(source))).toEqual([])
})
