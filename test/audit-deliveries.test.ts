// The audit of deliveries: it finds nothing where each is on its way, and names what was lost, is late or of nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { checksOfDeliveries, checksOfBacklogs } from '#domain/audit/deliveries.ts'
import { createEvent, deliveriesOf, LOOPBACK, makeEndpoint } from '#test/deliveries.ts'
import { sequenceAll } from '#test/feed.ts'
import { urlAs } from '#test/users.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
/** Takes everything and was there before: its delivery of a customer's event waits in its line, that of a test has a job. */
let endpoint: any
let delivery: any
let trial: any
/** Of all that has failed until now; it has not begun. */
let recovery: any

// No worker: all stays as it is.
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
  trial = (await client.post(`${path}/test`, { type: 'payment.captured' })).body
  recovery = (await client.post(`${path}/recover`, { since: endpoint.created_at })).body
  delivery = (await deliveriesOf(client, endpoint.id)).find(({ type }) => type === 'customer.created')
})
afterAll(async () => await world?.close())

/** Before anything here was written. */
const SINCE = new Date(Date.now() - 2 * 3_600_000).toISOString()

/** What is found of deliveries by the audits of everything and of what changed; they are to find the same. */
async function found(): Promise<object[]> {
  const reports = [await auditEverything(world.sql), await auditChanges(world.sql, SINCE, [])]
  const names = Object.keys({ ...checksOfDeliveries, ...checksOfBacklogs })
  const [all, changes] = reports.map(({ problems }) =>
    problems.filter(({ check }) => names.includes(check)).toSorted((a, b) => a.check.localeCompare(b.check)),
  )
  expect(changes).toEqual(all)
  return all!
}

type Harm = { harm: string; mend: string }

// What was before is kept in a table meanwhile.
const taken = (table: string, which: string): Harm => ({
  harm: `create table kept as select * from ${table} where ${which}; delete from ${table} where ${which}`,
  mend: `insert into ${table} select * from kept; drop table kept`,
})
const changed = (table: string, id: string, values: string): Harm => ({
  harm: `create table kept as select * from ${table} where id = '${id}'; update ${table} set ${values} where id = '${id}'`,
  mend: `delete from ${table} where id = '${id}'; insert into ${table} select * from kept; drop table kept`,
})
const named = (statement: string, nth: number) => statement.replaceAll(/\bkept\b/g, `kept_${nth}`)

test('nothing is found while each delivery is in a line or has a job', async () => {
  expect(delivery).toMatchObject({ status: 'pending', sequence: 3 })
  expect(trial).toMatchObject({ status: 'pending', sequence: null })
  expect(await found()).toEqual([])
})

test('a worker may read all that the audit asks for', async () => {
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

describe('it is named until it is corrected', () => {
  const NOTHING_WORKS = 'a pending delivery is neither queued nor in progress'
  const OTHER = 'a delivery has another type or sequence than its event'
  const ended = `status = 'exhausted', next_attempt_at = null, updated_at = now() - interval '1 hour'`
  type Case = [name: string, harm: () => Harm, found: () => object]
  const cases: Case[] = [
    [
      'a delivery that was lost from its line',
      () => taken('webhook_due', `delivery_id = '${delivery.id}'`),
      () => ({
        check: 'deliveries',
        problem: NOTHING_WORKS,
        id: delivery.id,
        what: 'customer.created pending',
      }),
    ],
    [
      'a test whose job is gone',
      () => taken('jobs', `payload ->> 'delivery_id' = '${trial.id}'`),
      () => ({ check: 'deliveries', problem: NOTHING_WORKS, id: trial.id }),
    ],
    [
      'a test whose job has ended',
      () => ({
        harm: `update jobs set state = 'succeeded', finished_at = now() where payload ->> 'delivery_id' = '${trial.id}'`,
        mend: `update jobs set state = 'ready', finished_at = null where payload ->> 'delivery_id' = '${trial.id}'`,
      }),
      () => ({ check: 'deliveries', problem: NOTHING_WORKS, id: trial.id }),
    ],
    [
      'a delivery whose event is gone',
      () => taken('sequenced_events', `id = '${delivery.event_id}'`),
      () => ({ check: 'deliveries', problem: 'a delivery has no event', id: delivery.id }),
    ],
    [
      'a delivery of another type than its event',
      () => changed('webhook_deliveries', delivery.id, `type = 'customer.deleted'`),
      () => ({ check: 'deliveries', problem: OTHER, id: delivery.id, what: 'customer.deleted pending' }),
    ],
    [
      'a delivery of another sequence than its event',
      () => changed('webhook_deliveries', delivery.id, 'sequence = 17'),
      () => ({ check: 'deliveries', problem: OTHER, id: delivery.id }),
    ],
    [
      'a delivery that has lost its sequence',
      () => changed('webhook_deliveries', delivery.id, 'sequence = null'),
      () => ({ check: 'deliveries', problem: OTHER, id: delivery.id }),
    ],
    [
      'a test that takes a place in the feed',
      () => changed('webhook_deliveries', trial.id, 'sequence = 17'),
      () => ({ check: 'deliveries', problem: OTHER, id: trial.id }),
    ],
    [
      'an event that an endpoint wanted and nobody sends',
      () => taken('webhook_deliveries', `id = '${delivery.id}'`),
      () => ({
        check: 'subscriptions',
        problem: 'an endpoint is missing the delivery of an event',
        tenant_id: world.tenant_id,
        id: delivery.event_id,
        what: `customer.created for ${endpoint.id}`,
      }),
    ],
    [
      'what waits in a line and is not there',
      () => taken('webhook_deliveries', `id = '${delivery.id}'`),
      () => ({
        check: 'delivery_backlogs',
        problem: 'a queued delivery does not exist',
        id: delivery.id,
      }),
    ],
    [
      'what waits in a line and ended long ago',
      () => changed('webhook_deliveries', delivery.id, ended),
      () => ({
        check: 'delivery_backlogs',
        problem: 'a queued delivery is not pending',
        id: delivery.id,
        what: expect.stringMatching(/^due at .+, customer.created exhausted$/),
      }),
    ],
    [
      'a recovery of which nothing is left',
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

  test.each(cases)('%s', async (_name, harmOf, problem) => {
    const { harm, mend } = harmOf()
    await world.sql.unsafe(harm)
    const problems = await found()
    await world.sql.unsafe(mend)
    expect(problems).toContainEqual(expect.objectContaining(problem()))
    expect((await auditEverything(world.sql)).problems).toEqual([])
  })
})

describe('nothing is said of', () => {
  const foundAll = (ago: string) =>
    changed(
      'webhook_recoveries',
      recovery.id,
      `status = 'running', after_at = null, updated_at = now() - interval '${ago}'`,
    )
  /** Another bound of the first partition of events: before it all has been dropped. */
  const firstFrom = (start: string) => `
    do $$ declare first record; begin
      select name, to_time into first from partitions p
      where p.parent = 'sequenced_events' and not p.is_default order by p.to_time limit 1;
      execute format('alter table sequenced_events detach partition %I', first.name);
      execute format('alter table sequenced_events attach partition %I for values from (%s) to (%L)', first.name,
        ${start}, first.to_time);
    end $$`
  const keptSinceYesterday: Harm = {
    harm: firstFrom(`quote_literal(now() - interval '1 day')`),
    mend: firstFrom(`'minvalue'`),
  }
  /** Nobody sends the event to the endpoint, which has changed like this. */
  const unsent = (values: string) => [
    taken('webhook_due', `delivery_id = '${delivery.id}'`),
    taken('webhook_deliveries', `id = '${delivery.id}'`),
    changed('webhook_endpoints', endpoint.id, values),
  ]
  type Case = [name: string, harms: () => Harm[]]
  const cases: Case[] = [
    [
      'a recovery of which a delivery waits in its line',
      () => [
        foundAll('1 hour'),
        {
          harm: `update webhook_due set recovery_id = '${recovery.id}' where delivery_id = '${delivery.id}'`,
          mend: `update webhook_due set recovery_id = null`,
        },
      ],
    ],
    [
      'a recovery of which a delivery is being sent',
      () => [
        foundAll('1 hour'),
        {
          harm: `update jobs set payload = payload || '{"recovery_id": "${recovery.id}"}' where subject_id = '${endpoint.id}'`,
          mend: `update jobs set payload = payload - 'recovery_id' where subject_id = '${endpoint.id}'`,
        },
      ],
    ],
    ['a recovery that went on a moment ago', () => [foundAll('1 second')]],
    [
      'what ended a moment ago and waits in a line',
      () => [
        changed(
          'webhook_deliveries',
          delivery.id,
          `status = 'exhausted', next_attempt_at = null, updated_at = now()`,
        ),
      ],
    ],
    [
      'a delivery whose event is kept no longer',
      () => [
        keptSinceYesterday,
        changed('webhook_deliveries', delivery.id, `event_created_at = '2020-01-01'`),
      ],
    ],
    [
      'what waits in a line and is kept no longer',
      () => [
        keptSinceYesterday,
        {
          harm: `update webhook_due set delivery_created_at = '2020-01-01' where delivery_id = '${delivery.id}'`,
          mend: `update webhook_due w set delivery_created_at = d.created_at from webhook_deliveries d where d.id = w.delivery_id`,
        },
      ],
    ],
    ['an event that an endpoint did not want', () => unsent(`types = '{customer.updated,payment.*}'`)],
    [
      'an event from just after an endpoint was made',
      () => unsent(`created_at = now() - interval '50 seconds'`),
    ],
    ['an event from before an endpoint changed', () => unsent('updated_at = now()')],
    ['an event for an endpoint that was deleted', () => unsent(`deleted_at = now() - interval '1 hour'`)],
  ]

  test.each(cases)('%s', async (_name, harmsOf) => {
    const harms = harmsOf().map(({ harm, mend }, nth) => ({ harm: named(harm, nth), mend: named(mend, nth) }))
    for (const { harm } of harms) await world.sql.unsafe(harm)
    const problems = await found()
    for (const { mend } of harms.toReversed()) await world.sql.unsafe(mend)
    expect(problems).toEqual([])
  })
})

test('nothing is left when all of this is corrected', async () => {
  expect(await found()).toEqual([])
})
