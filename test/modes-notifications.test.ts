// The jobs of notifications by mode: those of test mode share neither slots nor turns with those of live mode.
import { describe, expect } from 'vitest'
import { SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { claimJobs } from '#domain/jobs/claim.ts'
import { findDue, findOldestDue } from '#domain/jobs/claimable.ts'
import { findRetrying } from '#domain/jobs/retrying.ts'
import { countOpenJobs } from '#domain/jobs/states.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { compareWaiting, storeNotifications, type Arrival } from '#domain/notifications/store.ts'
import { findOldestDueAges } from '#domain/operations/oldest-due.ts'
import { requestingLookups, requestLookup } from '#domain/reconciliation/lookups.ts'
import { sandboxAccount } from '#domain/sandboxes/account.ts'
import { ensureTwin } from '#domain/tenants.ts'
import { applyNotification } from '#jobs/notifications.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const { queue } = applyNotification
const FLOOD = 50

/** `twin_id`: the twin of the world's first tenant. Nothing runs, so the jobs stay. */
type NotificationsWorld = World & { twin_id: string }

async function createNotificationsWorld(): Promise<NotificationsWorld> {
  const world = await createWorld({ parts: [] })
  const twin = await ensureTwin(world.sql, { id: world.tenant_id, slug: 'acme' })
  return { ...world, twin_id: twin.id }
}

const test = testIn(createNotificationsWorld)
test.afterEach(async ({ world }) => {
  await world.sql`delete from jobs`
  await world.sql`delete from notifications`
})

let last = 0

/** A notification that needs a lookup. */
function arrivalOf(livemode: boolean, account: string): Arrival {
  last++
  const event = {
    account,
    event_id: `evt_${last}`,
    kind: 'payout.paid',
    object_id: `po_${last}`,
    payload: {},
  }
  const notification = notificationOf({ provider: 'stripe', livemode }, event)
  return { ...notification, is_relevant: true, reported: null, will_wake: false, request_id: null }
}

const arrivals = (count: number, livemode: boolean, account: string) =>
  Array.from({ length: count }, () => arrivalOf(livemode, account))

async function ownersOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ tenant_id: string }[]>`select tenant_id from jobs where queue = ${queue}`
  return rows.map(({ tenant_id }) => tenant_id)
}

describe('the job of a notification belongs', () => {
  test('to the system in live mode, whatever the account is called', async ({ world }) => {
    const { sql, twin_id } = world
    await storeNotifications(sql, [arrivalOf(true, ''), arrivalOf(true, sandboxAccount(twin_id))])
    expect(await ownersOf(sql)).toEqual([SYSTEM_TENANT_ID, SYSTEM_TENANT_ID])
  })

  test('to the tenant in test mode whose sandbox reports it', async ({ world }) => {
    const { sql, twin_id } = world
    await storeNotifications(sql, [arrivalOf(false, sandboxAccount(twin_id))])
    expect(await ownersOf(sql)).toEqual([twin_id])
  })

  test('to a tenant of its own if a test account reports it', async ({ world }) => {
    const { sql } = world
    await storeNotifications(sql, [arrivalOf(false, ''), arrivalOf(false, 'acct_1')])
    expect(await ownersOf(sql)).toEqual([SYSTEM_TWIN_ID, SYSTEM_TWIN_ID])
  })

  test('to the tenant in test mode whose row is looked up', async ({ world }) => {
    const { sql, tenant_id, twin_id } = world
    const lookup = { resource: 'payout', reference: 'po_1' } as const
    const requested = [
      requestLookup({ provider: 'stripe', livemode: false }, { ...lookup, tenant_id: twin_id }, 'a'),
      requestLookup({ provider: 'stripe', livemode: false }, { ...lookup, tenant_id: null }, 'b'),
      requestLookup({ provider: 'stripe', livemode: true }, { ...lookup, tenant_id }, 'c'),
    ]
    await storeNotifications(sql, requested)
    expect((await ownersOf(sql)).toSorted()).toEqual([SYSTEM_TENANT_ID, SYSTEM_TWIN_ID, twin_id].toSorted())
    await sql`delete from jobs`
    // A settlement requests a lookup without knowing the mode of its tenant.
    for (const tenant of [tenant_id, twin_id])
      await sql`
        with ${requestingLookups(
          sql,
          'payout',
          sql`select 'stripe' as provider, ${tenant} as reference, 'd' as name,
          ${tenant}::uuid as tenant_id`,
        )} select`
    expect(await compareWaiting(sql, 10)).toHaveLength(2)
    expect((await ownersOf(sql)).toSorted()).toEqual([SYSTEM_TENANT_ID, twin_id].toSorted())
  })
})

test('notifications of test mode do not precede those of live mode, however many wait', async ({ world }) => {
  const { sql, twin_id } = world
  await storeNotifications(sql, arrivals(FLOOD, false, sandboxAccount(twin_id)))
  await storeNotifications(sql, arrivals(FLOOD, false, 'acct_1'))
  const live = arrivals(3, true, '')
  await storeNotifications(sql, live)
  const claimed: string[] = []
  for (let after: string | null = null; claimed.length < 9;) {
    const scan = { queue, room: 3, after }
    const [found] = await findDue(sql, [scan], { names: JOB_NAMES, grace_ms: 0 })
    after = found!.after
    const jobs = await claimJobs(sql, found!.ids, { worker: 'test', names: JOB_NAMES })
    claimed.push(...jobs.map(({ id }) => id))
  }
  // Each tenant has every third turn.
  const places = live.map(({ id }) => Math.floor(claimed.indexOf(id) / 3))
  expect(new Set(places)).toEqual(new Set([0, 1, 2]))
})

test('figures, alerts and the audit count notifications of live mode only', async ({ world }) => {
  const { sql, twin_id } = world
  const figures = async () => ({
    shown: [...(await findOldestDueAges(sql, [queue])).keys()],
    watched: (await findOldestDue(sql, [queue], JOB_NAMES)).map((each) => each.queue),
    open: (await countOpenJobs(sql)).map((each) => [each.queue, each.due]),
    retrying: [...(await findRetrying(sql)).values()].map(({ retrying }) => retrying),
    problems: (await auditEverything(sql)).problems.map(({ problem }) => problem),
  })
  const store = async (stored: Arrival[]) => {
    await storeNotifications(sql, stored)
    await sql`
      update jobs set run_at = now() - interval '1 hour', created_at = created_at - interval '2 hours',
        failing_since = now() - interval '1 hour'`
  }
  const none = { shown: [], watched: [], open: [], retrying: [], problems: [] }
  expect(await figures()).toEqual(none)
  await store([arrivalOf(false, sandboxAccount(twin_id)), arrivalOf(false, 'acct_1')])
  expect(await figures()).toEqual(none)
  await store([arrivalOf(true, '')])
  expect(await figures()).toEqual({
    shown: [queue],
    watched: [queue],
    open: [[queue, 1]],
    retrying: [1],
    problems: ['a due job is not claimed'],
  })
})
