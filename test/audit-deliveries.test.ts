// Tests the audit of webhook deliveries: it reports lost, late and orphaned deliveries.
import { describe, expect } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { checksOfDeliveries, checksOfBacklogs } from '#domain/audit/deliveries.ts'
import { createEvent, deliveriesOf, LOOPBACK, registerEndpoint } from '#test/deliveries.ts'
import { sequenceAllEvents } from '#test/feed.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

/**
 * An endpoint that subscribes to all event types and is older than every event. One delivery waits in its backlog, and
 * its test delivery has a job.
 */
let endpoint: any
let delivery: any
let test_delivery: any
/** A recovery of all failed deliveries that has not started. */
let recovery: any

// No worker runs: deliveries and jobs keep their states.
const test = testIn({ parts: ['api'], env: LOOPBACK })
test.beforeAll(async ({ world }) => {
  const { client, sql } = world
  endpoint = await registerEndpoint(client, { url: 'http://127.0.0.1:9/all' })
  await registerEndpoint(client, { url: 'http://127.0.0.1:9/payments', types: ['payment.*'] })
  await sequenceAllEvents(sql)
  await sql`
    update webhook_endpoints set created_at = created_at - interval '1 hour', updated_at = updated_at - interval '1 hour'`
  await createEvent(client)
  await sequenceAllEvents(sql)
  const path = `/v1/webhook_endpoints/${endpoint.id}`
  test_delivery = (await client.post(`${path}/test`, { type: 'payment.captured' })).body
  recovery = (await client.post(`${path}/recover`, { since: endpoint.created_at })).body
  delivery = (await deliveriesOf(client, endpoint.id)).find(({ type }) => type === 'customer.created')
})

/** A time before the creation of every row. */
const SINCE = new Date(Date.now() - 2 * 3_600_000).toISOString()

/** The problems of deliveries. The full audit and the audit of changes report the same problems. */
async function findProblems(world: World): Promise<object[]> {
  const reports = [await auditEverything(world.sql), await auditChanges(world.sql, SINCE, [])]
  const names = Object.keys({ ...checksOfDeliveries, ...checksOfBacklogs })
  const [all, changes] = reports.map(({ problems }) =>
    problems.filter(({ check }) => names.includes(check)).toSorted((a, b) => a.check.localeCompare(b.check)),
  )
  expect(changes).toEqual(all)
  return all!
}

type Damage = { damage: string; repair: string }

// Deletes the rows that fulfil the condition. The repair restores them from the table `kept`.
const removed = (table: string, condition: string): Damage => ({
  damage: `create table kept as select * from ${table} where ${condition}; delete from ${table} where ${condition}`,
  repair: `insert into ${table} select * from kept; drop table kept`,
})
const changed = (table: string, id: string, values: string): Damage => ({
  damage: `create table kept as select * from ${table} where id = '${id}'; update ${table} set ${values} where id = '${id}'`,
  repair: `delete from ${table} where id = '${id}'; insert into ${table} select * from kept; drop table kept`,
})
const withNthTable = (statement: string, nth: number) => statement.replaceAll(/\bkept\b/g, `kept_${nth}`)

test('the audit finds no problem while each delivery is in a backlog or has a job', async ({ world }) => {
  expect(delivery).toMatchObject({ status: 'pending', sequence: 3 })
  expect(test_delivery).toMatchObject({ status: 'pending', sequence: null })
  expect(await findProblems(world)).toEqual([])
})

test('the database role of workers may read every table that the audit reads', async ({ world }) => {
  const sql = connectDatabase(urlAs('worker', world.config.DATABASE_URL!), {
    max: 1,
    application_name: 'test',
  })
  try {
    expect((await auditEverything(sql)).problems).toEqual([])
    expect((await auditChanges(sql, SINCE, [])).problems).toEqual([])
  } finally {
    await sql.end()
  }
})

describe('the audit reports until the correction', () => {
  const NOT_IN_PROGRESS = 'a pending delivery is neither queued nor in progress'
  const MISMATCH = 'a delivery has another type or sequence than its event'
  const exhausted = `status = 'exhausted', next_attempt_at = null, updated_at = now() - interval '1 hour'`
  type Case = [name: string, damage: () => Damage, found: (world: World) => object]
  const cases: Case[] = [
    [
      'a delivery that is missing from its backlog',
      () => removed('webhook_due', `delivery_id = '${delivery.id}'`),
      () => ({
        check: 'deliveries',
        problem: NOT_IN_PROGRESS,
        id: delivery.id,
        what: 'customer.created pending',
      }),
    ],
    [
      'a test delivery without a job',
      () => removed('jobs', `payload ->> 'delivery_id' = '${test_delivery.id}'`),
      () => ({ check: 'deliveries', problem: NOT_IN_PROGRESS, id: test_delivery.id }),
    ],
    [
      'a test delivery with a finished job',
      () => ({
        damage: `update jobs set state = 'succeeded', finished_at = now() where payload ->> 'delivery_id' = '${test_delivery.id}'`,
        repair: `update jobs set state = 'ready', finished_at = null where payload ->> 'delivery_id' = '${test_delivery.id}'`,
      }),
      () => ({ check: 'deliveries', problem: NOT_IN_PROGRESS, id: test_delivery.id }),
    ],
    [
      'a delivery without an event',
      () => removed('feed_entries', `event_id = '${delivery.event_id}'`),
      () => ({ check: 'deliveries', problem: 'a delivery has no event', id: delivery.id }),
    ],
    [
      'a delivery with a type that differs from its event',
      () => changed('webhook_deliveries', delivery.id, `type = 'customer.deleted'`),
      () => ({ check: 'deliveries', problem: MISMATCH, id: delivery.id, what: 'customer.deleted pending' }),
    ],
    [
      'a delivery with a sequence that differs from its event',
      () => changed('webhook_deliveries', delivery.id, 'sequence = 17'),
      () => ({ check: 'deliveries', problem: MISMATCH, id: delivery.id }),
    ],
    [
      'a delivery without the sequence of its event',
      () => changed('webhook_deliveries', delivery.id, 'sequence = null'),
      () => ({ check: 'deliveries', problem: MISMATCH, id: delivery.id }),
    ],
    [
      'a test delivery with a sequence',
      () => changed('webhook_deliveries', test_delivery.id, 'sequence = 17'),
      () => ({ check: 'deliveries', problem: MISMATCH, id: test_delivery.id }),
    ],
    [
      'a subscribed event without a delivery',
      () => removed('webhook_deliveries', `id = '${delivery.id}'`),
      (world) => ({
        check: 'subscriptions',
        problem: 'an endpoint is missing the delivery of an event',
        tenant_id: world.tenant_id,
        id: delivery.event_id,
        what: `customer.created for ${endpoint.id}`,
      }),
    ],
    [
      'an entry of a backlog without a delivery',
      () => removed('webhook_deliveries', `id = '${delivery.id}'`),
      () => ({
        check: 'delivery_backlogs',
        problem: 'a queued delivery does not exist',
        id: delivery.id,
      }),
    ],
    [
      'an entry of a backlog with a delivery that ended long ago',
      () => changed('webhook_deliveries', delivery.id, exhausted),
      () => ({
        check: 'delivery_backlogs',
        problem: 'a queued delivery is not pending',
        id: delivery.id,
        what: expect.stringMatching(/^due at .+, customer.created exhausted$/),
      }),
    ],
    [
      'a running recovery without remaining deliveries',
      () =>
        changed(
          'webhook_recoveries',
          recovery.id,
          `status = 'running', after_at = null, found = 2, updated_at = now() - interval '1 hour'`,
        ),
      () => ({
        check: 'recoveries',
        problem: 'a recovery has nothing left to send and is not completed',
        id: recovery.id,
      }),
    ],
  ]

  test.for(cases)('%s', async ([_name, damageOf, problem], { world }) => {
    const { damage, repair } = damageOf()
    await world.sql.unsafe(damage)
    const problems = await findProblems(world)
    await world.sql.unsafe(repair)
    expect(problems).toContainEqual(expect.objectContaining(problem(world)))
    expect((await auditEverything(world.sql)).problems).toEqual([])
  })
})

describe('the audit does not report', () => {
  const foundAllDeliveries = (ago: string) =>
    changed(
      'webhook_recoveries',
      recovery.id,
      `status = 'running', after_at = null, updated_at = now() - interval '${ago}'`,
    )
  /** Sets the lower bound of the oldest partition of events, as if older partitions were dropped. */
  const firstFrom = (start: string) => `
    do $$ declare first record; begin
      select name, to_time into first from partitions p
      where p.parent = 'sequenced_events' and not p.is_default order by p.to_time limit 1;
      execute format('alter table sequenced_events detach partition %I', first.name);
      execute format('alter table sequenced_events attach partition %I for values from (%s) to (%L)', first.name,
        ${start}, first.to_time);
    end $$`
  const retainedSinceYesterday: Damage = {
    damage: firstFrom(`quote_literal(now() - interval '1 day')`),
    repair: firstFrom(`'minvalue'`),
  }
  /** The event has no delivery to the endpoint, and the endpoint has the given column values. */
  const unsent = (values: string) => [
    removed('webhook_due', `delivery_id = '${delivery.id}'`),
    removed('webhook_deliveries', `id = '${delivery.id}'`),
    changed('webhook_endpoints', endpoint.id, values),
  ]
  type Case = [name: string, damages: () => Damage[]]
  const cases: Case[] = [
    [
      'a recovery with a delivery in the backlog',
      () => [
        foundAllDeliveries('1 hour'),
        {
          damage: `update webhook_due set recovery_id = '${recovery.id}' where delivery_id = '${delivery.id}'`,
          repair: `update webhook_due set recovery_id = null`,
        },
      ],
    ],
    [
      'a recovery with a delivery in progress',
      () => [
        foundAllDeliveries('1 hour'),
        {
          damage: `update jobs set payload = payload || '{"recovery_id": "${recovery.id}"}' where resource_id = '${endpoint.id}'`,
          repair: `update jobs set payload = payload - 'recovery_id' where resource_id = '${endpoint.id}'`,
        },
      ],
    ],
    ['a recovery that progressed a moment ago', () => [foundAllDeliveries('1 second')]],
    [
      'an entry of a backlog with a delivery that ended a moment ago',
      () => [
        changed(
          'webhook_deliveries',
          delivery.id,
          `status = 'exhausted', next_attempt_at = null, updated_at = now()`,
        ),
      ],
    ],
    [
      'a delivery of an event past its retention',
      () => [
        retainedSinceYesterday,
        changed('webhook_deliveries', delivery.id, `event_created_at = '2020-01-01'`),
      ],
    ],
    [
      'an entry of a backlog with a delivery past its retention',
      () => [
        retainedSinceYesterday,
        {
          damage: `update webhook_due set delivery_created_at = '2020-01-01' where delivery_id = '${delivery.id}'`,
          repair: `update webhook_due w set delivery_created_at = d.created_at from webhook_deliveries d where d.id = w.delivery_id`,
        },
      ],
    ],
    ['an event of a type without a subscription', () => unsent(`types = '{customer.updated,payment.*}'`)],
    [
      'an event from just after the creation of an endpoint',
      () => unsent(`created_at = now() - interval '50 seconds'`),
    ],
    ['an event from before the last change of an endpoint', () => unsent('updated_at = now()')],
    ['an event for a deleted endpoint', () => unsent(`deleted_at = now() - interval '1 hour'`)],
  ]

  test.for(cases)('%s', async ([_name, damagesOf], { world }) => {
    const damages = damagesOf().map(({ damage, repair }, nth) => ({
      damage: withNthTable(damage, nth),
      repair: withNthTable(repair, nth),
    }))
    for (const { damage } of damages) await world.sql.unsafe(damage)
    const problems = await findProblems(world)
    for (const { repair } of damages.toReversed()) await world.sql.unsafe(repair)
    expect(problems).toEqual([])
  })
})

test('the audit finds no problem after all corrections', async ({ world }) => {
  expect(await findProblems(world)).toEqual([])
})
