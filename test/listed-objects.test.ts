// The processor's lists of objects are read regularly, and after a switch of the database: what no event reported is
// found.
import { expect } from 'vitest'
import { objectsResult } from '#workers/recurring/objects-position.ts'
import { checkInvariants } from '#test/books.ts'
import { authorizedPayment, capturedPayment, eventually, fault } from '#test/payments.ts'
import { refundInDashboard } from '#test/stripe-events.ts'
import { topUpAtProcessor } from '#test/top-ups.ts'
import { describeIn, type World } from '#test/world.ts'

const EAGER = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0', COMPLETENESS_EVERY_S: '1' }

/** The result of the next run of the reader that begins now. */
async function nextResult({ sql }: Pick<World, 'sql'>) {
  const [now] = await sql<{ at: string }[]>`select now() as at`
  return await eventually(async () => {
    const [work] = await sql`
      select result from recurring_work
      where name = 'objects of stripe' and started_at > ${now!.at} and ended_at >= started_at`
    return objectsResult.parse(work?.result)
  })
}

describeIn('without any event of the processor', { parts: ['api', 'worker'], env: EAGER }, (test) => {
  test.beforeAll(async ({ world }) => {
    await fault(world, { match: { path: '^/v1/events' }, times: 100_000, fault: 'html_503' })
  })

  test("a refund and a dispute made in the processor's dashboard are found", async ({ world }) => {
    const { client } = world
    const payment = await capturedPayment(client)
    await refundInDashboard(world, payment.processor_reference, 350)
    const disputed = await capturedPayment(client, { payment_method: 'pm_card_createDispute' })
    const read = async ({ id }: { id: string }) => (await client.get(`/v1/payments/${id}`)).body
    await eventually(async () => expect(await read(payment)).toMatchObject({ amount_refunded_minor: 350 }))
    await eventually(async () =>
      expect(await read(disputed)).toMatchObject({ dispute: { status: 'needs_response' } }),
    )
    await world.drain()
    await checkInvariants(world)
    const { lists } = await nextResult(world)
    expect(lists['refunds']).toEqual({ agrees: 1, differs: 0, missing: 0, foreign: 0 })
    expect(lists['payments']).toMatchObject({ differs: 0, missing: 0, foreign: 0 })
  })

  test('a capture in the dashboard is found', async ({ world }) => {
    const { client, provider } = world
    const payment = await authorizedPayment(client)
    await provider('stripe').control('POST', `/payment_intents/${payment.processor_reference}/capture`)
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({ status: 'captured' }),
    )
  })

  test('all pages of a list are read, and objects of other applications are ignored', async ({ world }) => {
    const others = Array.from({ length: 130 }, () => topUpAtProcessor(world, {}))
    await Promise.all(others)
    const { lists } = await nextResult(world)
    expect(lists['top_ups']).toEqual({ agrees: 0, differs: 0, missing: 0, foreign: 130 })
    const names = ['disputes', 'payments', 'payouts', 'refunds', 'top_ups', 'transfers', 'verifications']
    expect(Object.keys(lists).toSorted()).toEqual(names)
    const [count] = await world.sql`select count(*)::integer from notifications where object_id like 'tu_%'`
    expect(count).toEqual({ count: 0 })
  })
})

describeIn(
  'after a switch of the database',
  { parts: ['api', 'worker'], notifications: false, env: { ...EAGER, COMPLETENESS_EVERY_S: '86400' } },
  (test) => {
    test('everything since an hour before the last change is read at once, and recorded', async ({
      world,
    }) => {
      const { sql, client } = world
      await nextResult(world)
      const payment = await capturedPayment(client)
      await refundInDashboard(world, payment.processor_reference, 350)
      await sql`
      insert into database_switches
        (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier, to_timeline, newest_at,
        switched_at, recorded_at)
      values (1, 'restore', 'operator', '1', 1, '1', 2, now() - interval '5 days', now(), now())`
      await eventually(async () => {
        const [row] = await sql`select lists_read_at >= switched_at as is_read from database_switches`
        expect(row).toEqual({ is_read: true })
      })
      const [work] = await sql`select result from recurring_work where name = 'objects of stripe'`
      const { from_s, to_s, lists } = objectsResult.parse(work!.result)
      expect(to_s - from_s).toBeGreaterThanOrEqual(5 * 24 * 3600 + 3600)
      expect(lists['payments']).toMatchObject({ agrees: 1 })
      // It had been applied before the switch counted as read.
      expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({
        amount_refunded_minor: 350,
      })
      const [events] = await sql`select position from recurring_work where name = 'events of stripe'`
      expect(events!.position).toMatchObject({ read_for: 1 })
      await checkInvariants(world)
    })
  },
)
