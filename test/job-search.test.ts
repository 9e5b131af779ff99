// Tests the search for jobs: its filters, and pages that stay stable while jobs arrive, even with many jobs.
import { afterAll, expect } from 'vitest'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import { findJob } from '#domain/job-acts/find.ts'
import { countJobs, searchJobs, type JobSearch } from '#domain/job-acts/search.ts'
import { findTimelineData, timelineDataSchema } from '#domain/operations/timeline-data.ts'
import { freshKey } from '#test/client.ts'
import { capturedPayment, eventually, refund } from '#test/payments.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

/** A connection of the dashboard's user. */
let dashboard: Sql
const test = testIn({ notifications: false })
test.beforeAll(async ({ world }) => {
  dashboard = connectDatabase(urlAs('dashboard', world.config.DATABASE_URL!), {
    max: 2,
    application_name: 'test-dashboard',
  })
})
afterAll(async () => {
  await dashboard?.end()
})

const find = async (search: JobSearch, limit = 100) =>
  (await searchJobs(dashboard, search, { limit })).items.map(({ id }) => id)

test('a job is found by each of its ids, references and keys', async ({ world }) => {
  const { client } = world
  const payment = await capturedPayment(client)
  const key = freshKey()
  const { body } = await refund(client, payment.id, { amount_minor: 300, idempotency_key: key })
  await world.drain()
  const [job, capture] = (
    await searchJobs(dashboard, { state: 'all', resource_id: payment.id }, { limit: 10 })
  ).items
  expect([job!.name, capture!.name]).toEqual(['refund.create', 'payment.capture'])
  const { id } = job!
  const [origin] = await world.sql<{ request_id: string }[]>`select request_id from jobs where id = ${id}`
  for (const moved of [false, true]) {
    if (moved) {
      await world.sql`update jobs set finished_at = finished_at - interval '2 hours' where finished_at is not null`
      await world.sql`select move_finished_jobs('-infinity', ${newId()}, 1000)`
    }
    expect(await world.sql`select from jobs where id = ${id}`).toHaveLength(moved ? 0 : 1)
    for (const search of [
      id,
      `${id}:1`,
      payment.id,
      payment.processor_reference,
      body.processor_reference,
      key,
      origin!.request_id,
    ])
      expect([search, await find({ state: 'all', search })]).toEqual([search, expect.arrayContaining([id])])
    expect(await find({ state: 'all', search: id, queue: 'ai' })).toEqual([])
    expect(await find({ state: 'failed', search: id })).toEqual([])
    expect(await find({ state: 'all', search: id, tenant: 'acme', name: 'refund.create' })).toEqual([id])
    expect(await find({ state: 'all', search: id, tenant: 'nobody' })).toEqual([])
    expect(await findJob(dashboard, id)).toMatchObject({
      state: 'succeeded',
      works_on: {
        resource: 'refund',
        id: body.id,
        amount_minor: 300,
        currency: 'USD',
        status: 'succeeded',
        provider_reference: body.processor_reference,
        idempotency_key: key,
      },
      attempts: [{ attempt: 1, outcome: 'done', ended_at: expect.any(String) }],
      calls: [{ generation: 1, outcome: 'done' }],
    })
  }
})

/** Creates `count` jobs of this name, open or final. */
async function createJobs(world: World, name: string, count: number, is_final = false): Promise<void> {
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, state, created_at, finished_at, last_error)
    select uuidv7(), ${world.tenant_id}, 'compliance', ${name}, '{}', 1, 'infinity',
      ${is_final ? 'failed' : 'ready'}, now() - n * interval '1 second',
      case when ${is_final} then now() - n * interval '1 second' end, '{"message": "It SAID no."}'
    from generate_series(1, ${count}) n`
}

test('pages lead forward and back through open jobs, final jobs and their history while jobs arrive', async ({
  world,
}) => {
  await createJobs(world, 'some.work', 25)
  await createJobs(world, 'some.work', 7000, true)
  // Final jobs that are older than an hour move to the history.
  await world.sql`select move_finished_jobs('-infinity', ${newId()}, 20000)`
  const search = { state: 'all', name: 'some.work' } as const
  const all = await find(search, 7025)
  expect(new Set(all).size).toBe(7025)
  expect(await countJobs(dashboard, search)).toEqual({ count: 7025, more: false })
  expect(await countJobs(dashboard, search, { max_count: 100 })).toEqual({ count: 100, more: true })

  const pages: Awaited<ReturnType<typeof searchJobs>>[] = []
  for (let after: string | undefined; ; after = pages.at(-1)!.next!) {
    pages.push(await searchJobs(dashboard, search, { limit: 1000, ...(after && { after }) }))
    await createJobs(world, 'some.work', 1)
    if (pages.at(-1)!.next === null) break
    expect(pages.length).toBeLessThan(10)
  }
  expect(pages.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(all)
  // The last page on the way back has the jobs that have arrived since the first page was read.
  const back: string[] = []
  let before = pages.at(-1)!.previous
  while (before !== null) {
    const page = await searchJobs(dashboard, search, { limit: 1000, before })
    back.unshift(...page.items.map(({ id }) => id))
    expect(back.length).toBeLessThan(10_000)
    before = page.previous
  }
  const before_last = all.slice(0, -pages.at(-1)!.items.length)
  expect(back.slice(-before_last.length)).toEqual(before_last)
  expect(back).toHaveLength(before_last.length + pages.length)
})

test('the count for an act includes only the jobs that the act would change, and an empty page links to the previous page', async ({
  world,
}) => {
  await createJobs(world, 'old.work', 9, true)
  await world.sql`update jobs set state = 'discarded', finished_at = now() - interval '31 days' where name = 'old.work'`
  await world.sql`select move_finished_jobs('-infinity', ${newId()}, 20000)`
  const search = { state: 'discarded', name: 'old.work' } as const
  expect(await countJobs(dashboard, search, { max_count: 100 })).toEqual({ count: 9, more: false })
  expect(await countJobs(dashboard, search, { for_act: true })).toEqual({ count: 0, more: false })

  await createJobs(world, 'sparse.work', 3)
  await createJobs(world, 'other.work', 12)
  await world.sql`update jobs set created_at = created_at - interval '1 minute' where name = 'other.work'`
  const sparse = { state: 'open', name: 'sparse.work' } as const
  const ids = await find(sparse)
  expect(ids).toHaveLength(3)
  let page = await searchJobs(dashboard, sparse, { limit: 5, scan_limit: 3 })
  const pages = [page]
  while (page.next !== null) {
    page = await searchJobs(dashboard, sparse, { limit: 5, scan_limit: 3, after: page.next })
    pages.push(page)
  }
  expect(pages.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(ids)
  const empty = pages.findIndex(({ items }, nth) => items.length === 0 && pages[nth - 1]?.items.length)
  expect(empty).toBeGreaterThan(0)
  const back: string[] = []
  for (let before = pages[empty]!.previous; before !== null;) {
    const earlier = await searchJobs(dashboard, sparse, { limit: 5, scan_limit: 3, before })
    back.unshift(...earlier.items.map(({ id }) => id))
    before = earlier.previous
  }
  expect(back).toEqual(pages.slice(0, empty).flatMap(({ items }) => items.map(({ id }) => id)))
})

test('a search for a rare job scans a part of the jobs at a time, returns how far the scan has come, and finds the job', async ({
  world,
}) => {
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, created_at, finished_at, last_error)
    values (${newId()}, ${world.tenant_id}, 'ai', 'rare.work', '{}', 1, 'failed', now() - interval '9 days',
      now() - interval '9 days', '{"message": "Nobody ANSWERED."}')`
  await world.sql`select move_finished_jobs('-infinity', ${newId()}, 1000)`
  const search = { state: 'failed', search: 'nobody answered' } as const
  const first = await searchJobs(dashboard, search, { limit: 10, scan_limit: 500 })
  expect(first).toMatchObject({ items: [], next: expect.any(String), scanned_until: expect.any(String) })
  let page = first
  for (let pages = 0; page.next !== null && pages < 100; pages++)
    page = await searchJobs(dashboard, search, { limit: 10, scan_limit: 500, after: page.next })
  expect(page.items).toMatchObject([{ name: 'rare.work', error: 'Nobody ANSWERED.' }])
  await expect(searchJobs(dashboard, search, { limit: 1, after: 'x' })).rejects.toMatchObject({
    code: 'invalid_request',
  })
})

test('the timeline of a payment has only its own jobs and the deliveries of its events', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const url = 'https://receiver.invalid/hook'
  const endpoint = await shop.post('/v1/webhook_endpoints', { url, types: ['payment.captured'] })
  const payment = await capturedPayment(shop)
  await capturedPayment(shop)
  await eventually(async () => {
    const { jobs, deliveries } = timelineDataSchema.parse(
      await findTimelineData(dashboard, shop.tenant_id, payment.id),
    )
    expect(jobs.map(({ name, state, run_at }) => [name, state, run_at])).toEqual([
      ['payment.authorize', 'succeeded', null],
      ['payment.capture', 'succeeded', null],
    ])
    const { id: endpoint_id } = endpoint.body
    expect(deliveries).toMatchObject([{ endpoint_id, url, type: 'payment.captured' }])
  })
  const { jobs, events } = await findTimelineData(dashboard, shop.tenant_id, payment.id)
  expect(new Set(events.map(({ about_id }) => about_id))).toEqual(new Set([payment.id]))
  // A job belongs to each period in which it was open.
  const [authorize, capture] = jobs.map(({ created_at, finished_at }) => ({ created_at, finished_at }))
  const namesOf = async (period: object) => {
    const part = await findTimelineData(dashboard, shop.tenant_id, payment.id, period)
    return [part.jobs.map(({ name }) => name), part.deliveries.length]
  }
  expect(await namesOf({ before: capture!.created_at })).toEqual([['payment.authorize'], 0])
  expect(await namesOf({ since: capture!.created_at })).toEqual([['payment.capture'], 1])
  expect((await namesOf({ since: authorize!.finished_at }))[0]).toEqual([
    'payment.authorize',
    'payment.capture',
  ])
  const foreign = await findTimelineData(dashboard, world.tenant_id, payment.id)
  expect([foreign.jobs, foreign.events, foreign.deliveries]).toEqual([[], [], []])
})

test('waiting jobs are in the latest period of a timeline, even if there are many waiting jobs', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const { id } = await capturedPayment(shop)
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, resource_id, max_attempts, run_at, created_at)
    select gen_random_uuid(), tenant_id, queue, name, payload, resource_id, 1, now() + interval '1 day',
      now() - interval '1 day'
    from (select * from all_jobs where tenant_id = ${shop.tenant_id} and resource_id = ${id} limit 1) one
    cross join generate_series(1, 230)`
  const countWaiting = async (period: object) => {
    const { jobs } = await findTimelineData(dashboard, shop.tenant_id, id, period)
    return jobs.filter(({ run_at }) => run_at !== null).length
  }
  expect(await countWaiting({ since: new Date().toISOString() })).toBe(230)
  expect(await countWaiting({})).toBe(230)
})
