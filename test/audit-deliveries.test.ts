// Tests the audit of webhook deliveries: it reports lost, late and orphaned deliveries.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { checksOfDeliveries, checksOfBacklogs } from '#domain/audit/deliveries.ts'
import { createEvent, deliveriesOf, LOOPBACK, makeEndpoint } from '#test/deliveries.ts'
import { sequenceAll } from '#test/feed.ts'
import { urlAs } from '#test/users.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
/** Subscribes to all types and is older than every event: its backlog has one delivery, and its test delivery has a job. */
let endpoint: any
let delivery: any
let test_delivery: any
/** A recovery of all failed deliveries; it has not started. */
let recovery: any

// No worker runs: deliveries and jobs keep their states.
beforeAll(async () => {
  world = await createWorld({ parts: ['api'], env: LOOPBACK })
  const { client, sql } = world
  endpoint = await makeEndpoint(client, { url: 'http://127.0.0.1:9/all' })
  await makeEndpoint(client, { url: 'http://127.0.0.1:9/payments', types: ['payment.*'] })
  await sequenceAll(sql)
  await sql`
    update webhook_endpoints set created_at = created_at - interval '1 hour', updated_at = updated_at - interval '1 hour'`
  await createEvent(client)
  await sequenceAll(sql)
  const path = `/v1/webhook_endpoints/${endpoint.id}`
  test_delivery = (await client.post(`${path}/test`, { type: 'payment.captured' })).body
  recovery = (await client.post(`${path}/recover`, { since: endpoint.created_at })).body
  delivery = (await deliveriesOf(client, endpoint.id)).find(({ type }) => type === 'customer.created')
})
afterAll(async () => await world?.close())

/** A time before the first row. */
const SINCE = new Date(Date.now() - 2 * 3_600_000).toISOString()

/** Problems of deliveries. The full audit and the audit of changes report the same problems. */
async function findProblems(): Promise<object[]> {
  const reports = [await auditEverything(world.sql), await auditChanges(world.sql, SINCE, [])]
  const names = Object.keys({ ...checksOfDeliveries, ...checksOfBacklogs })
  const [all, changes] = reports.map(({ problems }) =>
    problems.filter(({ check }) => names.includes(check)).toSorted((a, b) => a.check.localeCompare(b.check)),
  )
  expect(changes).toEqual(all)
  return all!
}

type Damage = { damage: string; repair: string }

// A table keeps the original rows until the correction.
const removed = (table: string, condition: string): Damage => ({
  damage: `create table kept as select * from ${table} where ${condition}; delete from ${table} where ${condition}`,
  repair: `insert into ${table} select * from kept; drop table kept`,
})
const changed = (table: string, id: string, values: string): Damage => ({
  damage: `create table kept as select * from ${table} where id = '${id}'; update ${table} set ${values} where id = '${id}'`,
  repair: `delete from ${table} where id = '${id}'; insert into ${table} select * from kept; drop table kept`,
})
const withNthTable = (statement: string, nth: number) => statement.replaceAll(/\bkept\b/g, `kept_${nth}`)

test('the audit finds no problem while each delivery is in a backlog or has a job', async () => {
  expect(delivery).toMatchObject({ status: 'pending', sequence: 3 })
  expect(test_delivery).toMatchObject({ status: 'pending', sequence: null })
  expect(await findProblems()).toEqual([])
})

test('the role of workers may read every table of the audit', async () => {
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
  type Case = [name: string, damage: () => Damage, found: () => object]
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
      () => removed('sequenced_events', `id = '${delivery.event_id}'`),
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
      () => ({
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

  test.each(cases)('%s', async (_name, damageOf, problem) => {
    const { damage, repair } = damageOf()
    await world.sql.unsafe(damage)
    const problems = await findProblems()
    await world.sql.unsafe(repair)
    expect(problems).toContainEqual(expect.objectContaining(problem()))
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
  /** The event has no delivery to the endpoint, and the endpoint has the given values. */
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
          damage: `update jobs set payload = payload || '{"recovery_id": "${recovery.id}"}' where subject_id = '${endpoint.id}'`,
          repair: `update jobs set payload = payload - 'recovery_id' where subject_id = '${endpoint.id}'`,
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

  test.each(cases)('%s', async (_name, damagesOf) => {
    const damages = damagesOf().map(({ damage, repair }, nth) => ({
      damage: withNthTable(damage, nth),
      repair: withNthTable(repair, nth),
    }))
    for (const { damage } of damages) await world.sql.unsafe(damage)
    const problems = await findProblems()
    for (const { repair } of damages.toReversed()) await world.sql.unsafe(repair)
    expect(problems).toEqual([])
  })
})

test('the audit finds no problem after all corrections', async () => {
  expect(await findProblems()).toEqual([])
})
