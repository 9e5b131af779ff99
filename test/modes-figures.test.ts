// Test mode counts neither in the figures of operators nor in alerts, and what is kept for a provider is kept for each
// of its modes.
import { describe, expect } from 'vitest'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { newId, SYSTEM_TENANT_ID, SYSTEM_TWIN_ID } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { findDueDeliveries } from '#domain/deliveries/late.ts'
import { countJobs, searchJobs } from '#domain/job-acts/search.ts'
import { findOldestDue } from '#domain/jobs/claimable.ts'
import { findFailingRuns } from '#domain/jobs/recurring.ts'
import { findRetrying } from '#domain/jobs/retrying.ts'
import { countOpenJobs, countUnknown } from '#domain/jobs/states.ts'
import { findSmsToSameNumber, findTextingTenants } from '#domain/messages/find-reported.ts'
import { claimUnreportedSms } from '#domain/messages/unreported.ts'
import { countParked } from '#domain/notifications/notification.ts'
import { findOldestDueAges } from '#domain/operations/oldest-due.ts'
import { findOverview } from '#domain/operations/overview.ts'
import { findOutages, findOutagesOfQueues, writeOutages } from '#domain/operations/provider-outages.ts'
import { findAllDrifts, findParkedNotifications } from '#domain/operations/unresolved.ts'
import { failUncoveredPayouts } from '#domain/payouts/uncovered.ts'
import { countDrifts } from '#domain/reconciliation/drift.ts'
import { openOrphan } from '#domain/reconciliation/orphans.ts'
import { findUnreadSwitches } from '#domain/reconciliation/unread-switches.ts'
import { findOldestUnsequencedAge } from '#domain/sequencing.ts'
import { ensureTwin } from '#domain/tenants.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { rollUpOnce } from '#workers/recurring/rollups.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

/** `twin_id`: the twin of the world's first tenant. Nothing runs, so the rows stay as the tests write them. */
type ModesWorld = World & { twin_id: string }

async function createModesWorld(): Promise<ModesWorld> {
  const world = await createWorld({ parts: [] })
  const twin = await ensureTwin(world.sql, { id: world.tenant_id, slug: 'acme' })
  return { ...world, twin_id: twin.id }
}

const test = testIn(createModesWorld)

type InsertedJob = { tenant_id: string; name?: string; queue?: string; id?: string }

/** Inserts a job that has been due, and failing, for an hour. */
async function insertJob(
  sql: Sql,
  { tenant_id, name = 'payment.capture', queue = 'payments', id = newId() }: InsertedJob,
): Promise<string> {
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, created_at, failing_since)
    values (${id}, ${tenant_id}, ${queue}, ${name}, '{}', 25, now() - interval '1 hour', now() - interval '2 hours',
      now() - interval '1 hour')`
  return id
}

async function insertNotification(sql: Sql, livemode: boolean): Promise<string> {
  const id = newId()
  await sql`
    insert into notifications (id, provider, event_id, livemode, kind, object_id, payload, state, reason, parked_at)
    values (${id}, 'stripe', ${id}, ${livemode}, 'payout.paid', 'po_1', '{}', 'parked', 'poison', now())`
  return id
}

describe('figures', () => {
  test('count the jobs of live tenants only', async ({ world }) => {
    const { sql, tenant_id, twin_id } = world
    const figures = async () => ({
      retrying: (await findRetrying(sql)).get('payment.capture')?.retrying ?? 0,
      applied: (await findRetrying(sql)).get('notification.apply')?.retrying ?? 0,
      unknown: await countUnknown(sql),
      shown: (await findOldestDueAges(sql, ['payments'])).has('payments'),
      gauge: (await findOldestDue(sql, ['payments'], JOB_NAMES)).map(({ age_s }) => age_s > 3000),
      due: (await countOpenJobs(sql)).find(({ queue }) => queue === 'payments')?.due ?? 0,
      searched: (await countJobs(sql, { state: 'open' })).count,
    })
    const none = {
      retrying: 0,
      applied: 0,
      unknown: 0,
      shown: false,
      gauge: [] as boolean[],
      due: 0,
      searched: 0,
    }
    expect(await figures()).toEqual(none)

    const of_twin = await insertJob(sql, { tenant_id: twin_id })
    const id = await insertNotification(sql, false)
    await insertJob(sql, {
      tenant_id: SYSTEM_TWIN_ID,
      name: 'notification.apply',
      queue: 'notifications',
      id,
    })
    const unknown = await insertJob(sql, { tenant_id: twin_id, name: 'refund.create' })
    await sql`update jobs set state = 'unknown', unknown_since = now(), failing_since = null where id = ${unknown}`
    expect(await figures()).toEqual(none)

    const live = await insertJob(sql, { tenant_id })
    const live_id = await insertNotification(sql, true)
    await insertJob(sql, {
      tenant_id: SYSTEM_TENANT_ID,
      name: 'notification.apply',
      queue: 'notifications',
      id: live_id,
    })
    const live_unknown = await insertJob(sql, { tenant_id, name: 'refund.create' })
    await sql`update jobs set state = 'unknown', unknown_since = now() where id = ${live_unknown}`
    expect(await figures()).toEqual({
      retrying: 1,
      applied: 1,
      unknown: 1,
      shown: true,
      gauge: [true],
      due: 1,
      searched: 3,
    })

    // An operator finds the others by their tenant, and by their ids.
    const found = async (filters: object) =>
      (await searchJobs(sql, { state: 'open', ...filters }, { limit: 10 })).items.map((job) => job.id)
    expect(new Set(await found({ tenant: twin_id }))).toEqual(new Set([of_twin, unknown]))
    expect(await found({ search: of_twin })).toEqual([of_twin])
    expect(await found({})).not.toContain(of_twin)
    expect(await found({})).toContain(live)
    await sql`delete from jobs`
    await sql`delete from notifications`
  })

  test('that are rolled up have no job of test mode, however many of them finish at once', async ({
    world,
  }) => {
    const { sql, tenant_id, twin_id } = world
    const finish = async (tenant: string, count: number) =>
      await sql`
        insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, attempt, outcome, started_at,
          finished_at)
        select gen_random_uuid(), ${tenant}, 'ai', 'ai_task.run', '{}', 1, 'succeeded', 1, 'done', now(),
          now() - n * interval '1 millisecond'
        from generate_series(1, ${count}::integer) n`
    await finish(twin_id, 20)
    await finish(tenant_id, 2)
    await finish(twin_id, 20)
    await insertJob(sql, { tenant_id: twin_id, queue: 'ai', name: 'ai_task.run' })
    const [now] = await sql<{ at: string }[]>`select clock_timestamp() as at`
    for (let reached = ''; reached <= now!.at;) {
      await sql`update recurring_work set due_at = now() where name = 'roll-ups'`
      await rollUpOnce(sql, { jobs_at_once: 5 })
      const [row] = await sql<{ after: string }[]>`
        select position ->> 'after' as after from recurring_work where name = 'roll-ups'`
      reached = row!.after
    }
    const [counted] = await sql`
      select sum(succeeded)::integer as succeeded, sum(arrived)::integer as arrived, max(due) as due from job_rollups
      where resolution = 60 and queue = 'ai' and name = ''`
    expect(counted).toMatchObject({ succeeded: 2, due: 0 })
    const tenants = await sql`select distinct tenant_id from tenant_rollups`
    expect(tenants.map((row) => row['tenant_id'])).toEqual([tenant_id])
    expect(QUEUES).toContain('ai')
    await sql`delete from jobs`
  })

  test('count the drifts, notifications, events and deliveries of live mode only', async ({ world }) => {
    const { sql, tenant_id, twin_id } = world
    const figures = async () => ({
      drifts: (await countDrifts(sql)).reduce((sum, { count }) => sum + count, 0),
      listed: (await findAllDrifts(sql, { limit: 10 })).length,
      parked: (await countParked(sql, 10)).find(({ reason }) => reason === 'poison')?.count,
      notifications: (await findParkedNotifications(sql, { limit: 10 })).length,
      unsequenced: (await findOldestUnsequencedAge(sql)) > 3000,
      late: (await findDueDeliveries(sql, 10)).late,
    })
    const insertAll = async (tenant: string, livemode: boolean) => {
      const orphan = {
        tenant_id: tenant,
        resource: 'payout',
        theirs: { status: 'paid' },
        detail: 'no row',
      } as const
      const object = { provider: 'stripe', livemode, reference: 'po_same' }
      expect(await openOrphan(sql, object, orphan)).toBe(true)
      await insertNotification(sql, livemode)
      await sql`
        insert into event_outbox (tenant_id, created_at, event_id, type)
        values (${tenant}, now() - interval '1 hour', gen_random_uuid(), 'customer.created')`
      await sql`
        insert into webhook_due (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at, queued_at)
        select ${tenant}, gen_random_uuid(), 1, gen_random_uuid(), t, t, t from (select now() - interval '1 hour' as t) t`
    }
    await insertAll(twin_id, false)
    expect(await figures()).toEqual({
      drifts: 0,
      listed: 0,
      parked: 0,
      notifications: 0,
      unsequenced: false,
      late: 0,
    })
    await insertAll(tenant_id, true)
    expect(await figures()).toEqual({
      drifts: 1,
      listed: 1,
      parked: 1,
      notifications: 1,
      unsequenced: true,
      late: 1,
    })
    for (const table of ['drifts', 'notifications', 'event_outbox', 'webhook_due'])
      await sql`delete from ${sql(table)}`
  })

  test('of recurring work have no failures of the readers of test mode', async ({ world }) => {
    const { sql, tenant_id } = world
    await sql`
      insert into recurring_work (name, due_at, failing_since, failed_runs)
      select name, now(), now() - interval '1 hour', 3
      from unnest(array['events of stripe', 'events of stripe test', 'objects of stripe test']) name`
    expect((await findFailingRuns(sql)).map(({ name }) => name)).toEqual(['events of stripe'])
    const { attention } = await findOverview(sql, tenant_id, { for_operator: true })
    expect(attention.find(({ kind }) => kind === 'schedule_failing')).toMatchObject({ count: 1 })
    await sql`delete from recurring_work`
  })
})

test('the audit reports no problem of a twin', async ({ world }) => {
  const { sql, tenant_id, twin_id } = world
  const problems = async () => {
    const since = new Date(Date.now() - 60_000).toISOString()
    const reports = [await auditEverything(sql), await auditChanges(sql, since, [])]
    return reports.map((report) => new Set(report.problems.map(({ tenant_id: of }) => of)))
  }
  const insertProblems = async (tenant: string) => {
    await insertJob(sql, { tenant_id: tenant })
    await sql`
      insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id)
      values (${tenant}, 'k', 'POST /v1/customers', 'f', 'customer', gen_random_uuid())`
  }
  await insertProblems(twin_id)
  expect(await problems()).toEqual([new Set(), new Set()])
  await insertProblems(tenant_id)
  expect(await problems()).toEqual([new Set([tenant_id]), new Set([tenant_id])])
  await sql`delete from jobs`
  await sql`delete from idempotency_keys`
})

describe('an outage', () => {
  test('belongs to one mode of a provider: neither mode shows that of the other', async ({ world }) => {
    const { sql, tenant_id, twin_id } = world
    const report = async (provider: string) =>
      await writeOutages(sql, 'a worker', {
        failed: [],
        outages: [
          {
            provider,
            operation: null,
            outcome: 'ambiguous',
            lasts_ms: 60_000,
            failed_ms: 0,
            is_partial: false,
          },
        ],
      })
    const shown = async () => ({
      live: (await findOutages(sql)).map(({ title }) => title),
      test: (await findOutages(sql, false)).map(({ title }) => title),
      listed: (await findOutagesOfQueues(sql)).get('payments'),
      waiting: await Promise.all(
        [tenant_id, twin_id].map(async (id) =>
          (await findOverview(sql, id)).attention.flatMap(({ outage }) => outage?.text ?? []),
        ),
      ),
    })
    await report('stripe test')
    // Only a job of the mode that waits for the provider makes failed calls an outage.
    const live = await insertJob(sql, { tenant_id })
    expect(await shown()).toEqual({ live: [], test: [], listed: [], waiting: [[], []] })
    await sql`delete from jobs where id = ${live}`
    await insertJob(sql, { tenant_id: twin_id })
    expect(await shown()).toEqual({
      live: [],
      test: ['Stripe in test mode'],
      listed: ['Stripe in test mode does not answer'],
      waiting: [[], ['Stripe in test mode does not answer']],
    })
    await report('stripe')
    expect(await shown()).toEqual({ live: [], test: [], listed: [], waiting: [[], []] })
    await insertJob(sql, { tenant_id })
    expect(await shown()).toEqual({
      live: ['Stripe'],
      test: [],
      listed: ['Stripe does not answer'],
      waiting: [['Stripe does not answer'], []],
    })
    await sql`delete from jobs`
    await writeOutages(sql, 'a worker', { failed: [], outages: [] })
  })
})

describe('after a switch of the database', () => {
  test('the readers of test mode read what those of live mode have read already', async ({ world }) => {
    const { sql } = world
    await sql`
      insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
        to_timeline, newest_at, switched_at, recorded_at, lists_read_at, released_at, released_by, messages)
      values (7, 'failover', 'lineage', 'a', 1, 'a', 2, now() - interval '1 hour', now() - interval '50 minutes',
        now() - interval '50 minutes', now(), now(), 'ada', 'send')`
    const unread = async (livemode: boolean) =>
      (await findUnreadSwitches(sql, { reader: 'events of stripe test', livemode, after_s: 1 }))?.number
    expect([await unread(true), await unread(false)]).toEqual([undefined, 7])
    await sql`
      insert into recurring_work (name, due_at, position) values ('events of stripe test', now(), '{"read_for": 7}')`
    expect([await unread(true), await unread(false)]).toEqual([undefined, undefined])
    await sql`delete from recurring_work`
    await sql`delete from database_switches`
  })

  test('only payouts of live tenants are judged again', async ({ world }) => {
    const { sql, twin_id } = world
    await sql`
      insert into ledger_accounts (tenant_id, currency, name, balance_minor, reserved_minor)
      values (${twin_id}, 'USD', 'available', 0, 100)`
    await sql`
      insert into recipients (tenant_id, id, idempotency_key, name, type, currency, country, destination)
      values (${twin_id}, ${newId()}, 'r', 'Ada', 'bank_account', 'usd', 'US', 'ba_1a')`
    await sql`
      insert into payouts (tenant_id, id, idempotency_key, amount_minor, currency, recipient_id, processor)
      select tenant_id, gen_random_uuid(), 'p', 100, 'usd', id, 'stripe' from recipients`
    expect(await failUncoveredPayouts(sql)).toBe(0)
    // The same account of a live tenant.
    await sql`update tenants set mode = 'live', twin_id = null, slug = 'was-a-twin' where id = ${twin_id}`
    expect(await failUncoveredPayouts(sql)).toBe(1)
    await sql`
      update tenants set mode = 'test', twin_id = ${world.tenant_id}, slug = 'acme' where id = ${twin_id}`
  })
})

describe('SMS', () => {
  async function insertSms(sql: Sql, tenant_id: string, reference: string): Promise<void> {
    await sql`
      insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
        provider, provider_reference, segments, encoding, sent_at, lookup_at)
      values (${tenant_id}, ${newId()}, ${reference}, 'sms', 'sent', 'sealed', 'sealed', 'from',
        ${sql.json([{ address: 'number' }])}, 'twilio', ${reference}, 1, 'GSM-7', now() - interval '1 minute', now())`
  }

  test('of one mode are no answer to, and no copy of, those of the other', async ({ world }) => {
    const { sql, tenant_id, twin_id } = world
    await insertSms(sql, tenant_id, 'SM1')
    // The twin wrote to the number last.
    await insertSms(sql, twin_id, 'SM2')
    const inbound = { from: 'number', received_by: ['from'], received_at: new Date().toISOString() }
    const other = { message_id: newId(), number: 'number', since_s: 0 }
    for (const [livemode, owner, reference] of [
      [true, tenant_id, 'SM1'],
      [false, twin_id, 'SM2'],
    ] as const) {
      const of = { livemode, sandbox_of: null }
      expect(await findTextingTenants(sql, of, inbound)).toMatchObject([
        { tenant_id: owner, is_reply_target: true },
      ])
      expect(await findSmsToSameNumber(sql, of, other)).toMatchObject([{ tenant_id: owner, reference }])
    }
    // A sandbox knows one tenant only.
    const of_sandbox = { livemode: false, sandbox_of: newId() }
    expect(await findTextingTenants(sql, of_sandbox, inbound)).toEqual([])
  })

  test('of test mode are never looked up at the live provider', async ({ world }) => {
    const { sql } = world
    const { claimed, to_look_up } = await claimUnreportedSms(sql, 10)
    expect([claimed, to_look_up.map(({ provider_reference }) => provider_reference)]).toEqual([2, ['SM1']])
    const left = await sql`select provider_reference from messages where lookup_at is not null`
    expect(left.map((row) => row['provider_reference'])).toEqual(['SM1'])
  })
})
