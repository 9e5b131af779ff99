// Finished jobs move to the history, can be read there, and are dropped with the history's partition.
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { findEvent } from '#domain/feed.ts'
import {
  HISTORY_START,
  countStrays,
  dropNextPartition,
  createNextPartition,
  moveFinishedJobs,
} from '#domain/history.ts'
import { countUnknown } from '#domain/jobs/states.ts'
import { findAbandonedPayments, findExpiredHolds, warnOfExpiry } from '#domain/payments/expiry.ts'
import { listAiTasks } from '#domain/ai-tasks/find.ts'
import { cancelAbandonedVerifications } from '#domain/verifications/cancel.ts'
import { listVerifications } from '#domain/verifications/find.ts'
import { freshKey } from '#test/client.ts'
import { sequenceAllEvents } from '#test/feed.ts'
import {
  capturedPayment,
  createPayment,
  eventually,
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { deliver, listEvents, fabricatedEvent, notificationId } from '#test/stripe-events.ts'
import { postgresUrl } from '#test/suite.ts'
import { urlAs } from '#test/users.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const LONG_AGO = '2020-01-01T00:00:00Z'

/** A connection with the worker's database user. */
let worker: Sql
const test = testIn()
test.beforeAll(async ({ world }) => {
  worker = connectDatabase(urlAs('worker', world.config.DATABASE_URL!), { max: 2, application_name: 'test' })
})
afterAll(async () => {
  await worker?.end()
})

/** Moves the end of jobs and notifications that finished in the last hour two hours into the past. */
async function ageFinished(world: World): Promise<void> {
  await world.sql`
    update jobs set finished_at = finished_at - interval '2 hours' where finished_at > now() - interval '1 hour'`
  // Notifications without a job have only their own times, which are moved in the same way.
  await world.sql`
    update notifications n
    set applied_at = applied_at - interval '2 hours',
      received_at = received_at - case when received_at > now() - interval '1 hour' then interval '2 hours' else '0' end
    where coalesce(applied_at, received_at) > now() - interval '1 hour' and not exists (select from jobs j where j.id = n.id)`
}

async function awaitMove(world: World): Promise<void> {
  await eventually(async () => {
    await ageFinished(world)
    await world.sql`update recurring_work set due_at = now(), position = null where name like 'moving %'`
    expect(await world.sql`select name from jobs where state in ('succeeded', 'failed')`).toHaveLength(0)
    const unmoved = await world.sql`
      select from notifications n
      where n.state in ('applied', 'ignored') and not exists (select from jobs j where j.id = n.id)`
    expect(unmoved).toHaveLength(0)
  })
}

test('timelines, replays and audits include jobs in the history, and repeated notifications are not stored again', async ({
  world,
}) => {
  const body = {
    amount_minor: 1000,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
    idempotency_key: freshKey(),
  }
  const { body: payment } = await world.client.post('/v1/payments', body)
  const capture = { 'idempotency-key': freshKey() }
  await world.client.post(`/v1/payments/${payment.id}/capture`, undefined, capture)
  await refund(world.client, payment.id, { amount_minor: 300 })
  const applied_events = await eventually(async () => {
    const events = await listEvents(world, payment.processor_reference)
    const applied = await world.sql`
      select from notifications where id = any(${events.map(notificationId)}::uuid[]) and state in ('applied', 'ignored')`
    expect([events.length > 2, applied.length]).toEqual([true, events.length])
    return events
  })
  await world.drain()
  // The end of an attempt is not compared, because the test moves the times of jobs and notifications into the past.
  await ageFinished(world)
  const readAll = async () => [
    JSON.parse((await world.client.get(`/v1/payments/${payment.id}/timeline`)).text, (name, value) =>
      name === 'ended_at' ? '' : value,
    ),
    (await world.client.get(`/v1/idempotency_keys/${body.idempotency_key}`)).body,
  ]
  const before = await readAll()
  expect(JSON.stringify(before)).toMatch(/"attempt".*"provider_call".*"notification"/s)

  await awaitMove(world)
  for (const table of ['jobs', 'job_attempts', 'notifications'])
    expect([table, (await world.sql`select from ${world.sql(table)}`).length]).toEqual([table, 0])
  expect(await readAll()).toEqual(before)
  const replay = await world.client.post('/v1/payments', body)
  expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
  const repeated = await world.client.post(`/v1/payments/${payment.id}/capture`, undefined, capture)
  expect([repeated.status, repeated.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
  for (const event of applied_events) expect((await deliver(world, event)).status).toBe(200)
  expect(await world.sql`select from notifications`).toHaveLength(0)
  expect((await auditEverything(world.sql)).problems).toEqual([])
  expect((await auditChanges(world.sql, LONG_AGO, [])).problems).toEqual([])
})

test('jobs are not moved to the history if they are open, discarded, just finished, or have a notification that is not applied', async ({
  world,
}) => {
  await authorizedPayment(world.client)
  const parked = fabricatedEvent('payment_intent.succeeded', { id: 'pi_nobody', object: 'payment_intent' })
  const lost = fabricatedEvent('payment_intent.succeeded', { id: 'pi_lost', object: 'payment_intent' })
  for (const event of [parked, lost]) await deliver(world, event)
  await world.drain()
  await ageFinished(world)
  await world.sql`
    update jobs set state = 'succeeded', finished_at = now() - interval '2 hours' where id = ${notificationId(lost)}`
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, finished_at)
    values (gen_random_uuid(), ${world.tenant_id}, 'nobody', 'payment.capture', '{}', 1, 'discarded', now() - interval '2 hours')`
  const recent = await authorizedPayment(world.client)
  expect((await moveFinishedJobs(worker, HISTORY_START, 1000)).next).toBeNull()
  const unmoved = await world.sql<{ state: string }[]>`
    select state from jobs where id in (${notificationId(parked)}, ${notificationId(lost)}) or queue = 'nobody' or resource_id = ${recent.id}
    order by state`
  expect(unmoved.map(({ state }) => state)).toEqual(['discarded', 'ready', 'succeeded', 'succeeded'])
  const ids = [notificationId(parked), notificationId(lost)]
  expect(await world.sql`select from notifications where id = any(${ids}::uuid[])`).toHaveLength(2)
  await world.sql`delete from notifications where id = ${notificationId(lost)}`
  await world.sql`delete from job_attempts where job_id = ${notificationId(lost)}`
  await world.sql`delete from jobs where id = ${notificationId(lost)} or queue = 'nobody'`
})

test.for([
  ['jobs', 'job_history', []],
  ['job_attempts', 'job_attempt_history', ['finished_at timestamp with time zone']],
  ['notifications', 'notification_history', ['finished_at timestamp with time zone']],
] as const)(
  'the columns of %s have the same order in the history table, because rows are moved by position',
  async ([table, history, first], { world }) => {
    const columnsOf = async (name: string) => {
      const rows = await world.sql<{ name: string; type: string }[]>`
      select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
      where attrelid = ${name}::regclass and attnum > 0 and not attisdropped order by attnum`
      return rows.map((column) => `${column.name} ${column.type}`)
    }
    expect(await columnsOf(history)).toEqual([...first, ...(await columnsOf(table))])
  },
)

test('every column has the small statistics target 10', async ({ world }) => {
  const columns = await world.sql<{ name: string }[]>`
    select c.relname || '.' || a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
      and a.attstattarget is distinct from 10
    order by 1`
  expect(columns.map(({ name }) => name)).toEqual([])
})

describe('partitions', () => {
  const partitionsOf = async (world: World, parent: string) =>
    (
      await world.sql<{ name: string }[]>`select name from partitions where parent = ${parent} order by name`
    ).map(({ name }) => name)

  /** Splits the first partition, so that its first part ends the given number of days ago. */
  async function agePartition(
    world: World,
    parent: string,
    days: number,
    first = `${parent}_before`,
  ): Promise<void> {
    await world.sql.begin(async (tx) => {
      const [bound] = await tx<{ to_time: string; ended: string }[]>`
        select to_time, date_trunc('day', now() - ${days} * interval '1 day') as ended from partitions where name = ${first}`
      await tx.unsafe(`alter table ${parent} detach partition ${first}`)
      await tx.unsafe(`alter table ${first} rename to ${parent}_young`)
      await tx.unsafe(
        `create table ${first} partition of ${parent} for values from (minvalue) to ('${bound!.ended}')`,
      )
      await tx.unsafe(
        `create table ${parent}_now partition of ${parent} for values from ('${bound!.ended}') to ('${bound!.to_time}')`,
      )
      await tx.unsafe(`insert into ${parent} select * from ${parent}_young`)
      await tx.unsafe(`drop table ${parent}_young`)
    })
  }

  test('partitions exist for the coming weeks, and a row outside of all partitions is stored and counted', async ({
    world,
  }) => {
    await eventually(async () => {
      await createNextPartition(worker)
      for (const parent of ['sequenced_events', 'feed_entries', 'webhook_deliveries'])
        expect([parent, (await partitionsOf(world, parent)).length]).toEqual([parent, 6])
    })
    await world.sql`
      insert into events (tenant_id, type, subject_id, data, created_at, sequence)
      select tenant_id, 'customer.told', id, '{}', now() + interval '1 year', 1 from payments limit 1`
    expect(await countStrays(worker)).toContainEqual({ parent: 'sequenced_events', strays: 1 })
    await world.sql`delete from events where type = 'customer.told'`
    expect((await countStrays(worker)).every(({ strays }) => strays === 0)).toBe(true)
    expect(metrics.strays).toBeDefined()
  })

  test('partitions older than their retention are dropped; payments and the ledger stay, and the audit finds no problems', async ({
    world,
  }) => {
    const { id } = await capturedPayment(world.client)
    await world.drain()
    await sequenceAllEvents(world.sql)
    await world.sql`update payments set created_at = created_at - interval '60 days'`
    await agePartition(world, 'sequenced_events', 40, 'events_before')
    await agePartition(world, 'feed_entries', 40)
    await world.sql.begin(async (tx) => {
      await tx`select from event_sequences where tenant_id = ${SYSTEM_TENANT_ID} for update`
      for (const table of ['events', 'event_outbox', 'feed_entries'])
        await tx`update ${tx(table)} set created_at = created_at - interval '60 days'`
    })
    await authorizedPayment(world.client)
    await sequenceAllEvents(world.sql)
    await awaitMove(world)
    await agePartition(world, 'job_history', 40)
    await agePartition(world, 'job_attempt_history', 40)
    const kindsOf = async () =>
      (await world.client.get(`/v1/payments/${id}/timeline`)).body.map(({ kind }: { kind: string }) => kind)
    expect(await kindsOf()).toContain('event')

    expect(await dropNextPartition(worker, 'events', 41)).toBeNull()
    expect(await dropNextPartition(worker, 'notifications', 31)).toBeNull()
    expect((await dropNextPartition(worker, 'events', 31))?.split(', ').toSorted()).toEqual([
      'events_before',
      'feed_entries_before',
    ])
    expect(await dropNextPartition(worker, 'events', 31)).toBeNull()
    expect((await dropNextPartition(worker, 'jobs', 31))?.split(', ').toSorted()).toEqual([
      'job_attempt_history_before',
      'job_history_before',
    ])
    expect(await kindsOf()).not.toContain('event')
    expect(await kindsOf()).toContain('posting')
    expect((await auditEverything(world.sql)).problems).toEqual([])
  })

  test('partitions of events and of their deliveries are dropped together, but not while an old event has no sequence', async ({
    world,
  }) => {
    const sequencer = await world.sql.reserve()
    onTestFinished(() => sequencer.release())
    await sequencer`begin`
    await sequencer`select from event_sequences where tenant_id = ${SYSTEM_TENANT_ID} for update`
    const weeks = ['feed_entries', 'sequenced_events', 'webhook_deliveries'].map(
      (parent) => `${parent}_long_ago`,
    )
    const [from, to] = [54, 47].map((days) => new Date(Date.now() - days * 24 * 3600_000).toISOString())
    for (const week of weeks)
      await world.sql.unsafe(
        `create table ${week} partition of ${week.replace('_long_ago', '')} for values from ('${from}') to ('${to}')`,
      )
    const [unsequenced] = await world.sql<{ id: string }[]>`
      insert into events (tenant_id, type, subject_id, data, created_at)
      select tenant_id, 'payment.capture_expiring', id, '{}', now() - interval '50 days' from payments limit 1
      returning id`
    expect(await dropNextPartition(worker, 'events', 31)).toBeNull()
    expect(await findEvent(world.sql, world.tenant_id, unsequenced!.id)).toMatchObject({ sequence: null })
    await world.sql`delete from event_outbox where event_id = ${unsequenced!.id}`
    await world.sql`delete from events where id = ${unsequenced!.id}`
    await sequencer`rollback`
    expect((await dropNextPartition(worker, 'events', 31))?.split(', ').toSorted()).toEqual(weeks)
    expect(await dropNextPartition(worker, 'events', 31)).toBeNull()
  })

  test('a partition is not dropped while a transaction reads it', async ({ world }) => {
    await agePartition(world, 'notification_history', 40)
    const reader = await world.sql.reserve()
    onTestFinished(() => reader.release())
    await reader`begin`
    await reader`select from notification_history`
    expect(await dropNextPartition(worker, 'notifications', 31)).toBeNull()
    await reader`rollback`
    expect(await dropNextPartition(worker, 'notifications', 31)).toBe('notification_history_before')
  })

  test('partitions cannot be dropped before their retention ends, by other users or by other statements', async ({
    world,
  }) => {
    await expect(dropNextPartition(worker, 'events', 30)).rejects.toMatchObject({ code: '22023' })
    await expect(worker`select drop_next_partition('payments', 400)`).rejects.toMatchObject({ code: '22023' })
    for (const role of ['api', 'webhooks', 'reader'] as const) {
      const other = connectDatabase(urlAs(role, world.config.DATABASE_URL!), {
        max: 1,
        application_name: 'test',
      })
      onTestFinished(() => other.end())
      await expect(dropNextPartition(other, 'events', 31)).rejects.toMatchObject({ code: '42501' })
      await expect(moveFinishedJobs(other, HISTORY_START, 1)).rejects.toMatchObject({ code: '42501' })
      await expect(other`select from events_default`).rejects.toMatchObject({ code: '42501' })
    }
    await expect(worker`delete from job_history`).rejects.toMatchObject({ code: '42501' })
  })
})

test('workers delete many old idempotency keys within seconds', async ({ world }) => {
  await world.sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, created_at)
    select ${world.tenant_id}, 'old-' || n, 'x', 'x', 'customer', gen_random_uuid(), now() - interval '31 days'
    from generate_series(1, 25000) n`
  await eventually(async () =>
    expect(await world.sql`select from idempotency_keys where key like 'old-%' limit 1`).toHaveLength(0),
  )
})

test('a payment that waits too long for an action of its buyer is canceled at the processor as abandoned', async ({
  world,
}) => {
  const createWaiting = async () => {
    const { body } = await createPayment(world.client, { payment_method: undefined })
    expect(body).toMatchObject({ status: 'requires_action' })
    return body
  }
  const [fresh, touched, abandoned] = [await createWaiting(), await createWaiting(), await createWaiting()]
  await world.sql`
    update payments set created_at = created_at - interval '25 hours',
      updated_at = updated_at - case when id = ${touched.id} then interval '1 hour' else interval '25 hours' end
    where id in (${touched.id}, ${abandoned.id})`
  expect(await paymentIn(world.client, abandoned.id, 'canceled')).toMatchObject({
    cancellation_reason: 'abandoned',
  })
  const { body: timeline } = await world.client.get(`/v1/payments/${abandoned.id}/timeline`)
  expect(timeline).toContainEqual(
    expect.objectContaining({ kind: 'provider_call', name: 'cancel', outcome: 'done' }),
  )
  expect(await findAbandonedPayments(world.sql, 24 * 3600, 10)).toEqual([])
  for (const { id } of [fresh, touched])
    expect((await world.client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'requires_action' })
})

test('sweeps and lists of rare rows read only the matching rows of large tables', async () => {
  const large = await createWorld({ parts: [] })
  onTestFinished(() => large.close())
  const { sql, tenant_id } = large
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    select gen_random_uuid(), ${tenant_id}, 'payments', 'payment.capture', '{}', 25 from generate_series(1, 20000)`
  await sql`
    insert into payments (tenant_id, id, idempotency_key, status, amount_minor, currency, method, processor, capture_before, capture_expiry_warned_at, created_at)
    select ${tenant_id}, gen_random_uuid(), 'k' || n, 'authorized', 1000, 'USD', 'card', 'stripe', now() + interval '1 hour', now(),
      now() - n * interval '1 minute'
    from generate_series(1, 20000) n`
  await sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id)
    select ${tenant_id}, 'new-' || n, 'x', 'x', 'customer', gen_random_uuid() from generate_series(1, 20000) n`
  await sql`
    insert into verifications (tenant_id, id, idempotency_key, subject_type, subject_id, provider, status, decision,
      decided_by, decided_at)
    select ${tenant_id}, gen_random_uuid(), 'k' || status || n, 'customer', gen_random_uuid(), 'stripe', status, decision,
      by, at
    from generate_series(1, 10000) n cross join (
      values ('requires_input', null, null, null), ('approved', 'approved', 'provider', now())
    ) as one(status, decision, by, at)`
  await sql`
    insert into ai_tasks (tenant_id, id, idempotency_key, kind, status, output, finished_at)
    select ${tenant_id}, gen_random_uuid(), 'k' || n, 'generate', 'succeeded', '{}', now() from generate_series(1, 20000) n`
  const { deleteOldKeys } = await import('#domain/idempotency.ts')
  const sweeps: Record<string, () => Promise<unknown>> = {
    countUnknown: () => countUnknown(sql),
    warnOfExpiry: () => warnOfExpiry(sql, 100),
    findExpiredHolds: () => findExpiredHolds(sql, 100),
    findAbandonedPayments: () => findAbandonedPayments(sql, 3600, 100),
    deleteOldKeys: () => deleteOldKeys(sql, 1000),
    cancelAbandonedVerifications: () => cancelAbandonedVerifications(sql, 30, 100),
    rejectedVerifications: () => listVerifications(sql, tenant_id, { status: 'rejected', limit: 20 }),
    failedAiTasks: () => listAiTasks(sql, tenant_id, { status: 'failed', limit: 20 }),
  }
  const server = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  onTestFinished(() => server.end())
  const database = new URL(large.config.DATABASE_URL!).pathname.slice(1)
  const blocks = async () => {
    const [row] = await server<{ blocks: number }[]>`
      select sum(shared_blks_hit + shared_blks_read)::bigint as blocks from pg_stat_statements s
      where dbid = (select oid from pg_database where datname = ${database})`
    return row!.blocks
  }
  for (const [name, sweep] of Object.entries(sweeps)) {
    await sweep()
    const before = await blocks()
    await sweep()
    expect([name, (await blocks()) - before < 40]).toEqual([name, true])
  }
})
