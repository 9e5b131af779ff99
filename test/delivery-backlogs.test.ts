// Backlogs of endpoints: which deliveries a claim returns, when the deliveries begin, and when the next scan is due.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import type { BacklogPosition } from '#domain/deliveries/backlogs.ts'
import { claimDeliveries, type ClaimOptions, type ClaimedDeliveries } from '#domain/deliveries/claim.ts'
import { createDatabase } from '#test/databases.ts'
import { sequenceAllEvents } from '#test/feed.ts'

let sql: Sql
let end: () => Promise<void>
let backlog: BacklogPosition
beforeAll(async () => {
  const { url, drop } = await createDatabase()
  sql = connectDatabase(url, { max: 2, application_name: 'test' })
  end = async () => {
    await sql.end()
    await drop()
  }
})
afterAll(async () => await end?.())
beforeEach(() => {
  backlog = { tenant_id: newId(), endpoint_id: newId() }
})

/** Creates an endpoint with this many deliveries due. */
async function createDueDeliveries(
  count: number,
  { rate_per_s = null, max_in_flight = 100 }: { rate_per_s?: number | null; max_in_flight?: number },
): Promise<void> {
  await sql`
    insert into webhook_endpoints (tenant_id, id, slot, url, types, secrets, ordered, max_in_flight, rate_per_s)
    values (${backlog.tenant_id}, ${backlog.endpoint_id}, 1, 'https://receiver.example', '{*}', '[]', false, ${max_in_flight},
      ${rate_per_s})`
  await sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select ${backlog.tenant_id}, uuidv7(), 'customer.created', uuidv7(), '{}' from generate_series(1, ${count}::integer)`
  await sequenceAllEvents(sql)
}

async function claim(options: Partial<ClaimOptions> = {}, backlogs = [backlog]): Promise<ClaimedDeliveries> {
  return await claimDeliveries(
    sql,
    { backlogs, tenants: [] },
    {
      worker: 'one',
      room: 500,
      share: undefined,
      proven: () => true,
      last_at: () => null,
      unproven: { window: 9, room: 9, room_for_more: 9 },
      ...options,
    },
  )
}

const LATER = { in_ms: expect.any(Number) }

test('a backlog whose endpoint has its maximum of open requests is scanned after an attempt, even if the rate permits more requests', async () => {
  await createDueDeliveries(3, { rate_per_s: 500, max_in_flight: 2 })
  expect(await claim()).toMatchObject({ jobs: [{}, {}], scanned: [{ backlog, next_scan: 'after_attempt' }] })
  expect(await claim()).toMatchObject({ jobs: [], scanned: [{ backlog, next_scan: 'after_attempt' }] })
  await sql`update webhook_endpoints set max_in_flight = 9`
  expect(await claim()).toMatchObject({ jobs: [{}], scanned: [{ backlog, next_scan: null }] })
})

test('a backlog that is limited by the rate of its endpoint is scanned when the rate allows the next delivery', async () => {
  await createDueDeliveries(3, { rate_per_s: 1 })
  expect(await claim()).toMatchObject({
    jobs: [{ begins_in_ms: 0 }],
    scanned: [{ backlog, next_scan: LATER }],
  })
  expect(await claim()).toMatchObject({ jobs: [], scanned: [{ backlog, next_scan: LATER }] })
})

test('a backlog that another claim has locked is scanned again soon', async () => {
  await createDueDeliveries(1, {})
  await sql.begin(async (tx) => {
    await tx`select from webhook_backlogs where endpoint_id = ${backlog.endpoint_id} for update`
    expect(await claim()).toMatchObject({ jobs: [], scanned: [{ backlog, next_scan: LATER }] })
  })
  expect(await claim()).toMatchObject({ jobs: [{}] })
})

test('a backlog without due deliveries is not scanned', async () => {
  await createDueDeliveries(1, {})
  await claim()
  expect(await claim()).toMatchObject({ jobs: [], scanned: [] })
})

test('outdated deliveries are dropped from an ordered backlog, and the next delivery is sent', async () => {
  await createDueDeliveries(3, { max_in_flight: 1 })
  await sql`update webhook_endpoints set ordered = true where id = ${backlog.endpoint_id}`
  await sql`
    update webhook_due set queued_at = '-infinity' where endpoint_id = ${backlog.endpoint_id} and sequence < 3`
  expect(await claim()).toMatchObject({ jobs: [], dropped: 2 })
  expect(await claim()).toMatchObject({ jobs: [{}], dropped: 0 })
})

test('an endpoint without a success so far gets its first attempt before another such endpoint gets a second attempt', async () => {
  const [hanging, fresh] = [backlog, { tenant_id: newId(), endpoint_id: newId() }]
  await createDueDeliveries(5, {})
  backlog = fresh
  await createDueDeliveries(5, {})
  const unproven = (room: number, room_for_more: number): Partial<ClaimOptions> => ({
    proven: () => false,
    last_at: (id) => (id === hanging.endpoint_id ? 1 : null),
    unproven: { window: 9, room, room_for_more },
  })
  const claimedEndpoints = async (...room: [number, number]) =>
    (await claim(unproven(...room), [hanging, fresh])).jobs.map((job) => job.backlog.endpoint_id)
  expect(await claimedEndpoints(1, 0)).toEqual([fresh.endpoint_id])
  expect(await claimedEndpoints(2, 1)).toEqual([hanging.endpoint_id])
  expect(await claimedEndpoints(9, 3)).toHaveLength(3)
})

test.each([
  { rate_per_s: 10, gap_ms: 100, together: 1 },
  { rate_per_s: 100, gap_ms: 10, together: 1 },
  { rate_per_s: 1_000, gap_ms: 50, together: 50 },
])(
  'at $rate_per_s deliveries a second, $together deliveries begin together',
  async ({ rate_per_s, gap_ms, together }) => {
    await createDueDeliveries(100, { rate_per_s })
    const begins = (await claim()).jobs.map(({ begins_in_ms }) => begins_in_ms)
    const begin_times = [...new Set(begins)].toSorted((a, b) => a - b)
    expect(begin_times[0]).toBe(0)
    expect(begin_times.slice(0, 3)).toEqual([0, gap_ms, 2 * gap_ms].slice(0, begin_times.length))
    for (const begin_time of begin_times)
      expect(begins.filter((each) => each === begin_time).length).toBeLessThanOrEqual(together)
  },
)
