// Tests the database roles: each process has only the rights of its role, and readers see one tenant.
import { MIGRATION_ADVISORY_LOCK_KEY } from 'bullmq'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { warnOfRights } from '#core/process-pool.ts'
import type { Fragment, Sql } from '#core/db.ts'
import { migrate } from '#core/migrate.ts'
import { connectDatabase } from '#core/pool.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findProcesses } from '#domain/operations/processes.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import { migrateQueue } from '#queue/queue.ts'
import { startPostgres } from '#start/postgres.ts'
import { checkInvariants } from '#test/books.ts'
import { createDatabase } from '#test/databases.ts'
import { freshKey } from '#test/client.ts'
import { runCommand } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { decide, verificationIn, verificationOf, settleSession } from '#test/verifications.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { capturedPayment, createPayment, eventually, authorizedPayment, refund } from '#test/payments.ts'
import { invite } from '#domain/people/invitations.ts'
import { disputeIn } from '#test/disputes.ts'
import { payOut, payoutIn, recipient } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { createPerson } from '#test/people.ts'
import { urlAs, type ProcessRole } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

const DENIED = '42501'
const TWO_TRIES = { max_tries: 2, first_wait_ms: 400, max_wait_ms: 400 }

let other: Awaited<ReturnType<World['clientOf']>>
const connections: Record<string, postgres.Sql> = {}

// With the queue on PostgreSQL, the tests include the rights on BullMQ's tables.
const test = testIn({
  queue: 'postgres',
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  providers: { stripe: { late_return_ms: 50 } },
})
test.beforeAll(async ({ world }) => {
  other = await world.clientOf()
  for (const role of ['api', 'webhooks', 'worker', 'dashboard', 'reader'] as const)
    connections[role] = postgres(urlAs(role, world.config.DATABASE_URL!), { max: 1, onnotice: () => {} })
})
afterAll(async () => {
  for (const sql of Object.values(connections)) await sql.end()
})

async function openConnection({ config }: World, role: ProcessRole) {
  const sql = postgres(urlAs(role, config.DATABASE_URL!), { max: 1, onnotice: () => {} })
  return { sql, [Symbol.asyncDispose]: async () => await sql.end() }
}

const runAs = async (role: string, statement: string) => [...(await connections[role]!.unsafe(statement))]

/** Sends messages with templates and attachments, cancels one, and receives an opt-out. */
async function sendMessages({ client, provider }: World): Promise<void> {
  const send = async (path: string, body: object) =>
    (await client.post(`/v1/messages/${path}`, { idempotency_key: freshKey(), ...body })).body
  const number = '+4915112345678'
  const template = await send('templates', { name: 'greeting', channel: 'sms', body: 'Hello {{ name }}' })
  const sms = await send('sms', { to: number, template: 'greeting', variables: { name: 'Ada' } })
  expect(sms).toMatchObject({ status: 'sent', body: 'Hello Ada' })
  const text = { to: ['ada@example.com'], subject: 'Hello', text: 'Hello' }
  const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'aGVsbG8=' }]
  expect(await send('email', { ...text, attachments })).toMatchObject({ status: 'sent' })
  const later = await send('email', { ...text, send_at: new Date(Date.now() + 3_600_000) })
  expect((await client.post(`/v1/messages/${later.id}/cancel`)).status).toBe(200)
  expect((await client.delete(`/v1/messages/templates/${template.id}`)).status).toBe(200)
  await provider('twilio').control('POST', '/inbound', { from: number, to: sms.from, body: 'STOP' })
  await eventually(async () =>
    expect((await client.get('/v1/messages/suppressions')).body).toMatchObject([{ reason: 'opt_out' }]),
  )
}

/** Creates, changes, recovers and deletes an endpoint. */
async function manageEndpoint({ client }: World): Promise<void> {
  const created = await client.post('/v1/webhook_endpoints', {
    url: 'https://shop.example/webhooks',
    types: ['payout.canceled'],
    headers: { 'x-shop': '17' },
  })
  const path = `/v1/webhook_endpoints/${created.body.id}`
  expect((await client.patch(path, { ordered: true })).status).toBe(200)
  expect((await client.post(`${path}/rotate_secret`)).status).toBe(200)
  expect((await client.post(`${path}/recover`, { since: '2026-01-01T00:00:00Z' })).status).toBe(202)
  expect((await client.delete(path)).status).toBe(200)
}

test('each process performs all of its work with its own database user', async ({ world }) => {
  const { client } = world
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
  expect((await client.delete(`/v1/customers/${customer.body.id}`)).status).toBe(200)
  for (const [path, body] of [
    ['/v1/recipients', RECIPIENT],
    ['/v1/merchants', MERCHANT],
  ] as const) {
    const { id } = (await client.post(path, { idempotency_key: freshKey(), ...body })).body
    expect((await client.patch(`${path}/${id}`, { metadata: null })).status).toBe(200)
    expect((await client.delete(`${path}/${id}`)).status).toBe(200)
  }
  // The processor opens an inquiry after the capture.
  const payment = await capturedPayment(client, { payment_method: 'pm_card_createDisputeInquiry' })
  expect((await refund(client, payment.id, { amount_minor: 300 })).body).toMatchObject({
    status: 'succeeded',
  })
  const top_up = (await topUp(client)).body
  await eventually(async () =>
    expect((await client.get(`/v1/wallet/top_ups/${top_up.id}`)).body).toMatchObject({
      status: 'succeeded',
    }),
  )
  expect((await client.get('/v1/wallet/balances')).body).toMatchObject([{ balance_minor: 1200 }])
  expect((await client.get('/v1/wallet/transactions')).body).toHaveLength(3)
  await disputeIn(client, payment.id, 'warning')
  const { id } = await authorizedPayment(client)
  expect((await client.post(`/v1/payments/${id}/cancel`)).body).toMatchObject({ status: 'canceled' })
  const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'A haiku.' } }
  expect((await client.post('/v1/ai/tasks', task, { prefer: 'wait=30' })).body.status).toBe('succeeded')
  const slow_task = { ...task, idempotency_key: freshKey(), input: { prompt: '[[slow]]' } }
  const started = (await client.post('/v1/ai/tasks', slow_task)).body
  expect((await client.post(`/v1/ai/tasks/${started.id}/cancel`)).body.status).toBe('canceled')
  await sendMessages(world)
  await manageEndpoint(world)
  await createPayment(client, { payment_method: 'pm_card_chargeDeclined' })
  const payout = await payOut(client, await recipient(client, 'ba_lateReturn'))
  await payoutIn(client, payout.body.id, 'failed')
  const { body } = await payOut(client, await recipient(client, 'ba_pending'), {}, { prefer: 'wait=20' })
  expect((await client.post(`/v1/payouts/${body.id}/cancel`)).body).toMatchObject({ status: 'canceled' })
  const manual = await payOut(client, await recipient(client, 'ba_manual'))
  const failing = await client.post(`/v1/payouts/${manual.body.id}/fail`, { reason: 'by hand' })
  expect(failing.status).toBeLessThan(300)
  const verification = await verificationOf(client, 'recipient')
  expect((await client.post(`/v1/compliance/kyc/${verification.id}/link`)).status).toBe(200)
  await settleSession(world, verification.provider_reference, 'verified')
  await verificationIn(client, verification.id, 'approved')
  expect((await decide(client, verification.id, 'rejected')).status).toBe(200)
  const timeline = await client.get(`/v1/payments/${payment.id}/timeline`)
  await eventually(async () =>
    expect((await client.get(`/v1/payments/${payment.id}/timeline`)).text).toContain('notification'),
  )
  expect(timeline.text).toContain('posting')
  // The tests of readers need rows of a second tenant.
  await capturedPayment(other)
  await world.drain()
  await checkInvariants(world)
})

test.for(['api', 'webhooks', 'worker', 'dashboard'])(
  'the queue accepts wake-ups that the role %s sends',
  async (role, { world }) => {
    const wakeups = [{ id: '', name: 'job', data: '{}', timestamp: '1' }]
    const addWakeups = (queue: string) =>
      `select count(*)::int as wakeups from bullmq.add_jobs_bulk('${queue}', '${JSON.stringify(wakeups)}')`
    expect(await runAs(role, addWakeups('ai'))).toEqual([{ wakeups: 1 }])
    // A new queue would create a sequence. No role may create queues, so the sequences stay the same.
    const sequences = () => world.sql`select relname from pg_class where relkind = 'S' order by 1`
    const before = await sequences()
    await expect(runAs(role, addWakeups(`new_${role}`))).rejects.toMatchObject({ code: '23514' })
    expect(await sequences()).toEqual(before)
  },
)

test('the webhooks host stores notifications of both modes with their jobs', async ({ world }) => {
  const sql = connectDatabase(urlAs('webhooks', world.config.DATABASE_URL!), {
    max: 1,
    application_name: 'test-webhooks',
  })
  onTestFinished(() => sql.end())
  const arrivals = [true, false].map((livemode) => ({
    ...notificationOf(
      { provider: 'stripe', livemode },
      { account: '', event_id: 'evt_both', kind: 'payout.paid', object_id: 'po_both', payload: {} },
    ),
    is_relevant: true,
    reported: null,
    will_wake: false,
    request_id: null,
  }))
  const states: string[] = []
  const storing = sql.begin(async (tx) => {
    states.push(...(await storeNotifications(tx, arrivals)).map(({ state }) => state))
    // No worker applies them.
    throw new Error('undone')
  })
  await expect(storing).rejects.toThrow('undone')
  expect(states).toEqual(['received', 'received'])
})

describe('no role has more rights than its process needs', () => {
  const JOB = `(id, tenant_id, queue, name, payload, max_attempts)`
  const VALUES = `'0198e1f0-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000000'`
  const LOCK_MIGRATIONS = `do $$ begin lock table schema_migrations in access share mode; end $$`
  const REFUSED: Record<ProcessRole, string[]> = {
    dashboard: [
      `create temporary table example (id int)`,
      `update jobs set state = 'succeeded'`,
      `update payments set amount_captured_minor = amount_minor`,
      `update ledger_accounts set balance_minor = 0`,
      `update api_keys set scopes = '{}'`,
      `update users set is_operator = true`,
      `update users set email = 'other@people.example'`,
      `insert into users (id, name, email, is_operator) select gen_random_uuid(), name, 'new@people.example', true from users`,
      `delete from users`,
      `update invitations set role = 'owner'`,
      `update invitations set email = 'other@people.example'`,
      `update audit_entries set actor = 'somebody'`,
      `delete from audit_entries`,
      `insert into audit_entries select * from audit_entries`,
      `update audit_head set seq = 0`,
      `truncate user_accounts`,
      `update jobs set run_at = now()`,
      `select request from jobs`,
      `select lease_token from jobs`,
      `select payload from notifications`,
      `delete from jobs`,
      `update operator_acts set state = 'done'`,
      `insert into operator_acts (id, state) select id, 'done' from operator_acts`,
      `delete from operator_acts`,
      `insert into operator_act_items select * from operator_act_items`,
      `update operator_act_items set after = 'ready'`,
      `insert into job_acts select * from job_acts`,
      `update pauses set reason = null`,
      `update recurring_work set due_at = now()`,
      `insert into database_switches select * from database_switches`,
      `update database_switches set newest_at = now()`,
      `update database_switches set lists_read_at = now()`,
      `delete from database_switches`,
      `update lineage set hold = null`,
      `update installation set drawn_at = now()`,
      `insert into tenants select * from tenants`,
      `insert into tenants (id, slug, name) select gen_random_uuid(), slug, name from tenants`,
      `update tenants set contact_email = null`,
    ],
    api: [
      `create temporary table example (id int)`,
      `update payments set amount_captured_minor = amount_minor`,
      `update payments set client_secret = null`,
      `update payments set processor_reference = 'pi_other'`,
      `insert into payments (tenant_id, id, status) select tenant_id, id, 'captured' from payments`,
      `insert into refunds (tenant_id, id, status) select tenant_id, id, 'succeeded' from refunds`,
      `update ledger_transfers set amount_minor = 1`,
      `insert into ledger_transfers select * from ledger_transfers`,
      `update ledger_accounts set balance_minor = 0`,
      `insert into disputes select * from disputes`,
      `update disputes set status = 'won'`,
      `update payments set dispute = null`,
      `update payouts set amount_minor = 1`,
      ...['customers', 'merchants', 'recipients'].flatMap((table) => [
        `update ${table} set kyc_status = 'approved'`,
        `update ${table} set kyc_id = id`,
        `insert into ${table} (tenant_id, id, kyc_status) select tenant_id, id, 'approved' from ${table}`,
      ]),
      `update verifications set provider_reference = 'vs_1'`,
      `update verifications set subject_id = id`,
      `insert into verifications (tenant_id, id, status) select tenant_id, id, 'approved' from verifications`,
      `update payouts set call_started_at = null`,
      `update payouts set processor_status = 'paid'`,
      `insert into payouts (tenant_id, id, status) select tenant_id, id, 'paid' from payouts`,
      `insert into ledger_accounts (tenant_id, currency, name, balance_minor) select tenant_id, 'EUR', name, 1 from ledger_accounts`,
      `update jobs set state = 'succeeded'`,
      `delete from payments`,
      `select request from jobs`,
      `select request from job_history`,
      `update jobs set key = 'x'`,
      `select payload from notifications`,
      `update api_keys set hash = '\\x00'`,
      `insert into api_keys select * from api_keys`,
      `insert into tenants select * from tenants`,
      `update tenants set contact_email = null`,
      `update notifications set state = 'applied'`,
      `select checksum from schema_migrations`,
      `select from payment_days`,
      `select from job_rollups`,
      `drop table payments`,
      `alter table payments disable row level security`,
      `truncate events`,
      `update events set data = '{}'`,
      `insert into events (tenant_id, type, subject_id, data, sequence) select tenant_id, type, subject_id, data, 1 from events`,
      `insert into events (tenant_id, type, subject_id, data, sequenced) select tenant_id, type, subject_id, data, true from events`,
      `insert into jobs ${JOB} values (${VALUES}, 'deliveries', 'webhook_endpoint.deliver', '{}', 1)`,
      `insert into jobs ${JOB} values (${VALUES}, 'payments', 'webhook_endpoint.deliver', '{}', 1)`,
      `insert into jobs ${JOB} values (${VALUES}, 'deliveries', 'webhook_endpoint.test', '{}', 26)`,
      `delete from webhook_endpoints`,
      `delete from erasures`,
      `create table example (id int)`,
      `set role sluice_worker`,
      LOCK_MIGRATIONS,
      `insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state) select id, tenant_id, queue, name, payload, 1, state from jobs`,
    ],
    webhooks: [
      `create temporary table example (id int)`,
      `select id from installation`,
      `select seal from lineage`,
      `select witness from database_switches`,
      `select released_by from database_switches`,
      `delete from processes`,
      `insert into processes (id, name, version, host, pid) values (gen_random_uuid(), 'worker', '1', 'host', 1)`,
      `insert into jobs ${JOB} values (${VALUES}, 'payments', 'payment.capture', '{}', 1)`,
      `insert into jobs ${JOB} values (${VALUES}, 'notifications', 'refund.create', '{}', 1)`,
      `insert into jobs ${JOB} values (${VALUES}, 'notifications', 'notification.apply', '{"notification_id":"0198e1f0-0000-7000-8000-000000000002"}', 1)`,
      `insert into jobs ${JOB} values ('0198e1f0-0000-7000-8000-000000000001', '0198e1f0-0000-7000-8000-000000000001', 'notifications',
        'notification.apply', '{"notification_id":"0198e1f0-0000-7000-8000-000000000001"}', 1)`,
      `insert into notifications (id, provider, event_id, kind, payload, state)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'applied')`,
      ...['attempt', 'priority', 'run_at', 'unknown_since', 'created_at', 'request'].map(
        (column) =>
          `insert into jobs (id, tenant_id, queue, name, payload, max_attempts, ${column})
            values (${VALUES}, 'notifications', 'notification.apply', '{"notification_id":"0198e1f0-0000-7000-8000-000000000001"}', 1, default)`,
      ),
      `insert into jobs ${JOB} values (${VALUES}, 'notifications', 'notification.apply',
        jsonb_build_object('notification_id', '0198e1f0-0000-7000-8000-000000000001', 'more', repeat('x', 1000)), 1)`,
      `insert into notifications (id, provider, event_id, kind, payload)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', to_jsonb(repeat('x', 9 * 1024 * 1024)))`,
      ...['provider', 'account', 'event_id', 'kind', 'object_id'].map((column) => {
        const texts = {
          provider: `'stripe'`,
          account: `''`,
          event_id: `'evt_1'`,
          kind: `'x'`,
          object_id: `'y'`,
        }
        return `insert into notifications (id, payload, ${Object.keys(texts).join()}) values ('0198e1f0-0000-7000-8000-000000000001', '{}',
          ${Object.values({ ...texts, [column]: `repeat('x', 256)` }).join()})`
      }),
      `insert into notifications (id, provider, event_id, kind, payload, received_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', now())`,
      `select client_secret from payments`,
      `select metadata from payments`,
      `select metadata from refunds`,
      `select status from disputes`,
      `select ours from drifts`,
      `select from api_keys`,
      `select payload from notifications`,
      `update notifications set state = 'applied'`,
      `select request from jobs`,
      `select payload from jobs`,
      `insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'waiting', '{}', now() + interval '1 day')`,
      `insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'waiting', jsonb_build_object('x', repeat('x', 1024 * 1024)), now())`,
      `insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'waiting', '[]', now())`,
      // A kilobyte in storage, which becomes megabytes in the text format.
      `insert into notifications (id, provider, event_id, kind, payload)
        select '0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', jsonb_agg(1e-16383::numeric) from generate_series(1, 200)`,
      `insert into notifications (id, provider, event_id, kind, payload, state, reported, due_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'waiting', jsonb_build_object('x', 1e-16383::numeric), now())`,
      `insert into notifications (id, provider, event_id, kind, payload, state)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'ignored')`,
      `insert into notifications (id, provider, event_id, kind, payload, state, applied_at)
        values ('0198e1f0-0000-7000-8000-000000000001', 'stripe', 'evt_1', 'x', '{}', 'ignored', '2020-01-01')`,
      `select from job_attempts`,
      `insert into events select * from events`,
      `drop table notifications`,
    ],
    worker: [
      `create temporary table example (id int)`,
      `select from api_keys`,
      `insert into tenants select * from tenants`,
      `update tenants set contact_email = null`,
      `insert into messages (tenant_id, id, delivered_at) select tenant_id, id, now() from messages`,
      `update message_attachments set content = ''`,
      `update message_limits set scope = ''`,
      `select email from customers`,
      `insert into payments (tenant_id, metadata) select tenant_id, metadata from payments`,
      `delete from jobs`,
      `update job_attempts set outcome = 'done'`,
      `update ledger_transfers set amount_minor = 1`,
      `delete from ledger_transfers`,
      `update ledger_accounts set currency = 'EUR'`,
      `insert into ledger_accounts select * from ledger_accounts`,
      `delete from ledger_accounts`,
      `insert into top_ups select * from top_ups`,
      `update events set data = '{}'`,
      `insert into events (tenant_id, type, subject_id, data, sequence) select tenant_id, type, subject_id, data, 1 from events`,
      `insert into events (tenant_id, type, subject_id, data, sequenced) select tenant_id, type, subject_id, data, true from events`,
      `insert into erasures (tenant_id, customer_id) select tenant_id, id from customers`,
      `drop table jobs`,
    ],
    reader: [
      `create temporary table example (id int)`,
      `select from operator_acts`,
      `select from processes`,
      `create table example (id int)`,
      `select unique_now()`,
      `select hash from api_keys`,
      `select client_secret from payments`,
      `select request from jobs`,
      `select lease_token from jobs`,
      `select payload from notifications`,
      `select payload from notification_history`,
      `select output from ai_tasks`,
      `select * from payments`,
      `insert into pauses (queue) values ('payments')`,
      `update payments set status = 'captured'`,
      `delete from events`,
      `select from schema_migrations`,
      LOCK_MIGRATIONS,
      `select lo_from_bytea(0, 'x')`,
      `select lo_create(0)`,
      `select lo_put(1, 0, 'x')`,
      `select pg_logical_emit_message(false, 'a', 'x')`,
      `select pg_logical_emit_message(false, 'a', 'x'::bytea)`,
    ],
  }
  test.each(
    Object.entries(REFUSED).flatMap(([role, statements]) => statements.map((statement) => [role, statement])),
  )('%s: %s', async (role, statement) => {
    await expect(runAs(role, statement)).rejects.toMatchObject({ code: DENIED })
  })

  test('PUBLIC may execute no function, and functions with the rights of the owner have a fixed search_path', async ({
    world,
  }) => {
    const functions = await world.sql<
      { name: string; open: boolean; definer: boolean; path: string | null }[]
    >`
      select p.oid::regprocedure::text as name, has_function_privilege('public', p.oid, 'execute') as open, p.prosecdef as definer,
        (select option from unnest(p.proconfig) option where option like 'search_path=%') as path
      from pg_proc p where p.pronamespace in ('public'::regnamespace, 'bullmq'::regnamespace)`
    expect(functions.length).toBeGreaterThan(50)
    expect(functions.filter(({ open }) => open).map(({ name }) => name)).toEqual([])
    const owners = functions.filter(({ definer }) => definer)
    expect(owners.map(({ name }) => name)).toEqual([
      'bullmq.add_jobs_bulk(text,jsonb)',
      'add_to_outbox()',
      'append_audit_entry(jsonb)',
      'check_recovered_verification()',
      'check_server(jsonb,boolean)',
      'check_server(jsonb,boolean,boolean,timestamp with time zone,boolean)',
      'complete_recipient(uuid,uuid,text,text,text)',
      'count_strays()',
      'drop_next_partition(text,integer)',
      'drop_test_history(uuid,integer)',
      'drop_test_notifications(integer)',
      'drop_test_rows(text,uuid,integer)',
      'erase_next_events(integer)',
      'fill_party(text,uuid,uuid,jsonb)',
      'follow_verification()',
      'hold_jobs()',
      'limit_processes()',
      'make_next_partition()',
      'move_finished_jobs(timestamp with time zone,uuid,integer)',
      'move_notifications(timestamp with time zone,uuid,integer)',
      'move_unsequenced_events(integer)',
      'pause_twin()',
      'refuse_live_clock()',
      'sequence_events(integer)',
      'sequence_events(integer,timestamp with time zone)',
      'write_subscription()',
    ])
    for (const { name, path } of owners)
      expect([name, path]).toEqual([
        name,
        `search_path=${name.startsWith('bullmq.') ? 'bullmq' : 'public'}, pg_temp`,
      ])
  })

  test('a migration removes rights and policies that it does not grant', async ({ world }) => {
    const { sql } = world
    await sql.unsafe(`
      create policy webhooks_see on jobs to sluice_webhooks using (true) with check (true);
      create policy everything on schema_migrations to sluice_service using (true);
      grant execute on function append_audit_entry(jsonb) to sluice_api;
      grant update on sequence created_at_microseconds to sluice_reader`)
    await migrate(world.config.DATABASE_URL!)
    const policies = await sql`
      select policyname from pg_policies where schemaname = 'public' and policyname in ('webhooks_see', 'everything')`
    expect(policies).toEqual([])
    expect([
      ...(await sql`
        select has_function_privilege('sluice_api', 'append_audit_entry(jsonb)', 'execute') as execute,
          has_sequence_privilege('sluice_reader', 'created_at_microseconds', 'update') as update`),
    ]).toEqual([{ execute: false, update: false }])
  })

  test('a worker cannot have the owner run a trigger of its own table', async ({ world }) => {
    const { sql } = world
    const twin = await world.clientOf({ tenant: 'triggers', mode: 'test' })
    const [database] = await sql<{ name: string }[]>`select current_database() as name`
    const name = sql(database!.name)
    await sql`grant temporary on database ${name} to sluice_worker`
    onTestFinished(async () => void (await sql`revoke temporary on database ${name} from sluice_worker`))
    await using worker = await openConnection(world, 'worker')
    await worker.sql.unsafe(`
      create temporary table own (tenant_id uuid, id uuid, created_at timestamptz, updated_at timestamptz);
      insert into own values ('${twin.tenant_id}', gen_random_uuid(), '-infinity', now());
      create function pg_temp.run() returns trigger language plpgsql as $$
      begin raise exception 'run by %', current_user using errcode = 'YY001'; end $$;
      create trigger on_delete before delete on own for each row execute function pg_temp.run()`)
    await expect(worker.sql`select drop_test_rows('own', ${twin.tenant_id}, 10)`).rejects.toMatchObject({
      code: DENIED,
    })
  })

  test('a migration without changes keeps all rights and policies', async ({ world }) => {
    const { sql } = world
    const readRights = async () => [
      ...(await sql`
        select 'function' as kind, oid::regprocedure::text as name, array(select unnest(proacl)::text order by 1) as rights
        from pg_proc where pronamespace in ('public'::regnamespace, 'bullmq'::regnamespace)
        union all
        select 'relation', oid::regclass::text, array(select unnest(relacl)::text order by 1) from pg_class
        where relnamespace in ('public'::regnamespace, 'bullmq'::regnamespace)
        union all
        select 'policy', tablename || ' ' || policyname, roles::text[] from pg_policies
        order by 1, 2`),
    ]
    // The worker may have created partitions since the last migration.
    await migrate(world.config.DATABASE_URL!)
    const before = await readRights()
    await migrate(world.config.DATABASE_URL!)
    expect(await readRights()).toEqual(before)
  })

  test('no role owns a table, can log in, or has an attribute such as CREATEROLE or BYPASSRLS', async ({
    world,
  }) => {
    const roles = await world.sql`
      select rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication from pg_roles
      where rolname in ('sluice_api', 'sluice_webhooks', 'sluice_worker', 'sluice_dashboard', 'sluice_service',
        'sluice_reader')`
    expect(roles).toHaveLength(6)
    for (const { rolname, ...rights } of roles)
      expect([rolname, Object.values(rights).filter(Boolean)]).toEqual([rolname, []])
    const owned =
      await world.sql`select relname from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname like 'sluice%'`
    expect([...owned]).toEqual([])
  })
})

describe('readers', () => {
  /** Every table of the catalog, with its tenant column. The query includes tables that are added later. */
  async function tables(
    world: World,
  ): Promise<{ name: string; tenant: string | null; row_security: boolean; policies: string[] }[]> {
    return await world.sql`
      select c.relname as name, c.relrowsecurity as row_security,
        case when c.relname = 'tenants' then 'id'
          when exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id') then 'tenant_id' end as tenant,
        array(select p.polname::text || ' ' || array_to_string(p.polroles::regrole[], ' ') from pg_policy p
          where p.polrelid = c.oid order by p.polname) as policies
      from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname not in ('schema_migrations', 'recurring_work') and c.relname <> all(${TABLES_WITHOUT_TENANT}::text[])
      order by c.relname`
  }

  /** Tables without a tenant. A person can belong to several tenants, and readers cannot see people. */
  const TABLES_WITHOUT_TENANT = [
    'users',
    'user_accounts',
    'user_sessions',
    'user_challenges',
    'user_two_factors',
    'user_passkeys',
    'sign_in_failures',
    'audit_head',
    // The rows of these tables belong to the installation and not to a tenant.
    'installation',
    'lineage',
    'database_heartbeat',
    'database_switches',
    'failing_lists',
    'job_rollups',
    'provider_accounts',
    'provider_failures',
    'provider_outages',
    'operation_outages',
    'processes',
    'operator_acts',
    'operator_act_items',
    'operator_act_cancellations',
  ]

  /** Policies of tables that restrict the webhooks host or the API more than other services. */
  const POLICIES: Record<string, string[]> = {
    jobs: [
      'api_requests sluice_api',
      'readers sluice_reader',
      'services sluice_api sluice_worker',
      'webhooks_read sluice_webhooks',
      'webhooks_request sluice_webhooks',
    ],
    notifications: [
      'readers sluice_reader',
      'services sluice_api sluice_worker',
      'webhooks_read sluice_webhooks',
      'webhooks_store sluice_webhooks',
    ],
    tenants: ['dashboard_twins sluice_dashboard', 'readers sluice_reader', 'services sluice_service'],
  }

  test('each process writes only rows of its own kind, and the number of rows is limited', async ({
    world,
  }) => {
    const insertProcesses = (role: string, count: number, name = role) =>
      runAs(
        role,
        `insert into processes (id, name, version, host, pid)
          select gen_random_uuid(), '${name}', '1', repeat('x', 255), n from generate_series(1, ${count}) n`,
      )
    for (const role of ['api', 'webhooks', 'worker', 'dashboard']) await insertProcesses(role, 1)
    const processesOf = (name: string) => world.sql`select from processes where name = ${name}`
    const workers = (await processesOf('worker')).length
    await insertProcesses('webhooks', 3_000)
    expect(await processesOf('webhooks')).toHaveLength(200)
    expect(await processesOf('worker')).toHaveLength(workers)
    const updated = await runAs('webhooks', `update processes set ended_at = now() returning name`)
    expect(new Set(updated.map(({ name }) => name))).toEqual(new Set(['webhooks']))
    // Ended processes are deleted first.
    await insertProcesses('webhooks', 150)
    // The webhooks host of this test writes its row again every second.
    const others = () => world.sql`
      select from processes where name = 'webhooks' and host = repeat('x', 255) and ended_at is null`
    expect(await others()).toHaveLength(150)
    expect((await findProcesses(world.sql)).length).toBeLessThan(200)
    await runAs('worker', 'delete from processes where ended_at is not null')
    expect(await others()).toHaveLength(150)
    expect((await processesOf('webhooks')).length).toBeLessThan(152)
  })

  test('every table has a tenant column and row-level security', async ({ world }) => {
    const all = await tables(world)
    expect(all.length).toBeGreaterThanOrEqual(15)
    for (const { name, tenant, row_security, policies } of all)
      expect({ name, has_tenant: tenant !== null, row_security, policies }).toEqual({
        name,
        has_tenant: true,
        row_security: true,
        policies: POLICIES[name] ?? ['readers sluice_reader', 'services sluice_service'],
      })
  })

  test('a reader sees no rows without a tenant, and only the rows of its tenant', async ({ world }) => {
    await world.sql`insert into pauses (queue, tenant_id) values ('none', ${world.tenant_id}), ('none', ${other.tenant_id})`
    // Each job has a lost attempt.
    await world.sql`
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at)
      select tenant_id, id, 0, 'dead worker', now() from jobs where tenant_id in (${world.tenant_id}, ${other.tenant_id})`
    // Jobs that finished hours ago move to the history, for both tenants.
    const old = `update jobs set finished_at = finished_at - interval '2 hours' where id in (
      select id from jobs where tenant_id = $1 and finished_at is not null limit 1)`
    for (const { tenant_id } of [world, other]) await world.sql.unsafe(old, [tenant_id])
    await runAs('worker', `select move_finished_jobs('-infinity', '${world.tenant_id}', 1000)`)
    await world.sql`
      insert into job_acts (tenant_id, id, job_id, actor, act, reason, before, after)
      select tenant_id, gen_random_uuid(), gen_random_uuid(), 'ada', 'retry', 'a test', 'unknown', 'ready'
      from unnest(${[world.tenant_id, other.tenant_id]}::uuid[]) tenant_id`
    // No roll-up runs during this test.
    await world.sql`update recurring_work set due_at = 'infinity' where name = 'roll-ups'`
    for (const { tenant_id } of [world, other]) {
      await world.sql`insert into tenant_rollups values (3600, now(), 'none', ${tenant_id}, 1, 1)`
      await world.sql`insert into payment_days values (${tenant_id}, now(), 'XXX', 'created', 1, 1)`
      await world.sql`insert into payment_cursors values (${tenant_id}, 0) on conflict do nothing`
    }
    for (const tenant_id of [world.tenant_id, other.tenant_id]) {
      const { user_id } = await createPerson(world, { role: 'owner', tenant_id })
      const by = { tenant_id, actor_id: user_id, request_id: null, address: null }
      await invite(
        world.sql,
        { tenant_id, email: 'ada@people.example', role: 'support', by, mailed: false },
        async () => {},
      )
    }
    await eventually(async () => expect(await world.sql`select from erasures`).toHaveLength(0))
    const reader = connections.reader!
    const empty = new Set<string>()
    for (const { name, tenant } of (await tables(world)).filter((each) => each.name !== 'proposals')) {
      const count = async (tenant_id: string | null) =>
        await reader.begin(async (tx) => {
          if (tenant_id !== null) await tx`select set_config('sluice.tenant_id', ${tenant_id}, true)`
          const [row] = await tx.unsafe<{ count: string }[]>(`select count(*) from ${name}`)
          return Number(row!.count)
        })
      const rows = await world.sql.unsafe<{ tenant: string; count: number }[]>(
        `select ${tenant} as tenant, count(*)::int as count from ${name} where ${tenant} is not null group by 1`,
      )
      const counts = new Map(rows.map((row) => [row.tenant, row.count]))
      if (!counts.has(world.tenant_id)) empty.add(name)
      expect([name, await count(null)]).toEqual([name, 0])
      expect([name, await count('')]).toEqual([name, 0])
      for (const tenant_id of [world.tenant_id, other.tenant_id]) {
        expect([name, await count(tenant_id)]).toEqual([name, counts.get(tenant_id) ?? 0])
      }
    }
    // These tables have no rows of the tenants: no drifts and no deliveries to endpoints exist, the erasures of deleted
    // customers are complete, no feed was restarted, no request is lost, no notification of a payment has moved to the
    // history, no tenant is in test mode, and live tenants have no sandboxes and no test clocks.
    expect([...empty]).toEqual([
      'drifts',
      'erasures',
      'event_outbox',
      'feed_restarts',
      'lost_requests',
      'notification_history',
      'sandbox_acts',
      'sandbox_messages',
      'sandbox_records',
      'sandboxes',
      'test_clock_steps',
      'test_clocks',
      'twin_pauses',
      'webhook_backlogs',
      'webhook_deliveries',
      'webhook_due',
      'webhook_stats',
    ])
  })

  test('views show a reader the rows of its tenant, and no role of Sluice has rights on partitions', async ({
    world,
  }) => {
    const reader = connections.reader!
    const views = ['all_jobs', 'all_job_attempts', 'all_provider_calls', 'all_notifications']
    for (const name of views) {
      const rows = await reader.begin(async (tx) => {
        await tx`select set_config('sluice.tenant_id', ${world.tenant_id}, true)`
        return await tx.unsafe<{ tenant_id: string }[]>(`select distinct tenant_id from ${name}`)
      })
      expect([name, rows.map(({ tenant_id }) => tenant_id)]).toEqual([name, [world.tenant_id]])
      expect([name, [...(await reader.unsafe(`select from ${name}`))]]).toEqual([name, []])
    }
    const open = await world.sql`
      select c.relname, r.rolname from pg_class c cross join pg_roles r
      where c.relispartition and c.relnamespace = 'public'::regnamespace and r.rolname like 'sluice%'
        and (has_table_privilege(r.oid, c.oid, 'select, insert, update, delete') or has_any_column_privilege(r.oid, c.oid, 'select'))`
    expect([...open]).toEqual([])
  })

  test('no column with the name of a secret is readable', async ({ world }) => {
    const columns = await world.sql<{ name: string }[]>`
      select c.relname || '.' || a.attname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not a.attisdropped
        and has_column_privilege('sluice_reader', c.oid, a.attnum, 'select')`
    expect(columns.length).toBeGreaterThan(100)
    const secret = columns.filter(({ name }) =>
      /\.(.*(secret|hash|(?<!max_output_)token|password|sealed|fingerprint).*|request)$/.test(name),
    )
    expect(secret.map(({ name }) => name)).toEqual([])
    // Columns with internal notes or names of operators.
    const internal = columns.filter(({ name }) =>
      /^(proposals|pauses|job_acts)\.(reason|actor|.*_by)$/.test(name),
    )
    expect(internal.map(({ name }) => name)).toEqual([])
  })

  test('the row-level security policy of services does not change query plans', async ({ world }) => {
    const statement = `select id from payments where tenant_id = '${world.tenant_id}' and id = '${world.tenant_id}'`
    const plan = async (sql: postgres.Sql) =>
      await sql.begin(async (tx) => {
        await tx`set local enable_seqscan = off`
        return [...(await tx.unsafe(`explain (costs off) ${statement}`))].map((row) => row['QUERY PLAN'])
      })
    const owner = postgres(world.config.DATABASE_URL!, { max: 1 })
    onTestFinished(() => owner.end())
    expect(await plan(connections.api!)).toEqual(await plan(owner))
  })
})

test('a row cannot reference a row of another tenant', async ({ world }) => {
  const payment = await capturedPayment(world.client)
  const { body: customer } = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
  const { tenant_id } = other
  const fields = { tenant_id, idempotency_key: 'x', amount_minor: 1, currency: 'USD', processor: 'x' }
  const id = payment.id
  await expect(
    world.sql`insert into payments ${world.sql({ ...fields, id, method: 'card', customer_id: customer.id })}`,
  ).rejects.toMatchObject({ code: '23503' })
  await expect(
    world.sql`insert into refunds ${world.sql({ ...fields, id, payment_id: payment.id })}`,
  ).rejects.toMatchObject({ code: '23503' })
})

test.for(['notifications', 'job_attempts', 'idempotency_keys', 'jobs', 'events', 'ledger_transfers'])(
  'the audit finds a row that was moved to another tenant in a table without a foreign key: %s',
  async (table, { world }) => {
    await world.drain()
    expect((await auditEverything(world.sql)).problems).toEqual([])
    // The ledger is append-only, even for the owner of the table.
    const move = (from: string, to: string, where: Fragment) =>
      world.sql.begin(async (tx) => {
        await tx`set local session_replication_role = replica`
        return await tx<{ place: string }[]>`
        update ${tx(table)} set tenant_id = ${to}
        where ctid = (select ctid from ${tx(table)} where tenant_id = ${from} and ${where} limit 1) returning ctid::text as place`
      })
    // The sequence number of the moved transfer must not exist in the other tenant's ledger.
    const movable =
      table === 'ledger_transfers'
        ? world.sql`seq > (select max(seq) from ledger_transfers where tenant_id = ${other.tenant_id})`
        : world.sql`true`
    const [moved] = await move(world.tenant_id, other.tenant_id, movable)
    const reports = await Promise.all([
      auditEverything(world.sql),
      auditChanges(world.sql, new Date(Date.now() - 3_600_000).toISOString(), []),
    ])
    await move(other.tenant_id, world.tenant_id, world.sql`ctid = ${moved!.place}::tid`)
    const check = table === 'idempotency_keys' ? 'keys' : 'tenants'
    for (const { problems } of reports) {
      const problems_found = problems.filter(
        (each) => each.check === check && each.tenant_id === other.tenant_id,
      )
      expect(problems_found.map(({ what }) => what).join()).toContain(
        table === 'idempotency_keys' ? '' : table,
      )
      expect(problems_found).not.toEqual([])
    }
    expect((await auditEverything(world.sql)).problems).toEqual([])
  },
)

test('each connection has the user of its process', async ({ world }) => {
  // Recurring work starts some seconds after its worker.
  await eventually(async () => {
    const sessions = await world.sql<{ session: string }[]>`
      select distinct application_name || ' ' || usename as session from pg_stat_activity
      where datname = current_database() and application_name like 'sluice-%' order by 1`
    expect(sessions.map(({ session }) => session)).toEqual([
      'sluice-api sluice_test_api',
      'sluice-api-checks sluice_test_api',
      'sluice-api-lists sluice_test_api',
      'sluice-dashboard sluice_test_dashboard',
      'sluice-dashboard-checks sluice_test_dashboard',
      'sluice-dashboard-lists sluice_test_dashboard',
      'sluice-dashboard-operators sluice_test_dashboard',
      'sluice-sign-in sluice_test_dashboard',
      'sluice-webhooks sluice_test_webhooks',
      'sluice-webhooks-checks sluice_test_webhooks',
      'sluice-worker sluice_test_worker',
      'sluice-worker-leases sluice_test_worker',
      'sluice-worker-recurring sluice_test_worker',
    ])
  })
})

test('a connection with the owner of the tables causes a warning, and a connection with a role does not', async ({
  world,
}) => {
  const warnings: string[] = []
  const log = { warn: (message: string) => void warnings.push(message) }
  await warnOfRights(connections.api as unknown as Sql, log)
  await warnOfRights(connections.reader as unknown as Sql, log)
  expect(warnings).toEqual([])
  await warnOfRights(world.sql, log)
  expect(warnings).toEqual([expect.stringContaining('owner of the tables')])
})

test('a user without CREATEROLE can migrate, gets a warning, and uses the roles that another user has created', async () => {
  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const server = await startPostgres({ data_dir: join(folder.path, 'postgres') })
  onTestFinished(server.stop)
  const admin = postgres(server.url, { max: 1, onnotice: () => {} })
  onTestFinished(() => admin.end())
  await admin`create role plain login password 'plain'`
  const databaseOf = async (name: string, owner: string) => {
    await admin.unsafe(`create database ${name} owner ${owner}`)
    const url = Object.assign(new URL(server.url), { pathname: `/${name}` })
    return owner === 'plain' ? Object.assign(url, { username: 'plain', password: 'plain' }).href : url.href
  }
  const first = await databaseOf('first', 'plain')
  const runMigration = () =>
    runCommand('src/commands/migrate.ts', [], {
      DATABASE_URL: first,
      REDIS_URL: 'redis://127.0.0.1:6379',
    })
  const canCreateTables = async (url: string) => {
    const sql = postgres(url, { max: 1 })
    const [row] = await sql`
      select has_database_privilege('sluice_reader', current_database(), 'temporary') or has_schema_privilege('sluice_reader', 'public', 'create') as may`
    await sql.end()
    return row?.may
  }
  const hasRowSecurity = async () => {
    const sql = postgres(first, { max: 1 })
    const [row] = await sql`select relrowsecurity as enabled from pg_class where relname = 'payments'`
    await sql.end()
    return row?.enabled
  }
  const without_roles = await runMigration()
  expect([without_roles.code, without_roles.stdout]).toEqual([
    0,
    expect.stringMatching(/plain may not create roles.*sluice_api.*\n.*Applied 0001/),
  ])
  expect(await hasRowSecurity()).toBe(false)

  // Databases of one server can be migrated concurrently, although they share the roles.
  const others = await Promise.all(['a', 'b', 'c', 'd'].map((name) => databaseOf(name, 'postgres')))
  const reported: string[] = []
  await Promise.all(others.map((url) => migrate(url, (text) => reported.push(text))))
  const warnings = reported.filter((text) => !text.startsWith('roles.sql: try '))
  expect(warnings).toEqual([])
  const with_roles = await runMigration()
  // The user gets no warning about rights that only a superuser can revoke.
  expect([with_roles.code, with_roles.stdout]).toEqual([0, 'The database is up to date.\n'])
  expect(await hasRowSecurity()).toBe(true)
  expect(await canCreateTables(first)).toBe(false)
  expect(await Promise.all(others.map(canCreateTables))).toEqual(others.map(() => false))

  await admin`create role plain_api login in role sluice_api`
  expect(await runMigration()).toMatchObject({ code: 0, stdout: 'The database is up to date.\n' })
  // Settings of another release: processes of this user are behind PgBouncer.
  await admin.unsafe(`alter role plain_api in database ${new URL(first).pathname.slice(1)} set jit = 'off'`)
  expect(await runMigration()).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^New session settings of plain_api were not written.*superuser/),
  })
})

test('advisory locks do not block a migration, and a lock on a table of the migration is reported', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(() => admin.end())
  const reader = postgres(urlAs('reader', url), { max: 1 })
  onTestFinished(() => reader.end())
  await reader`select pg_advisory_lock(7583240117)`
  expect(await migrate(url)).toEqual([])
  const holder = await admin.reserve()
  await holder`begin`
  await holder`lock table migration_lock in access exclusive mode`
  const [session] = await holder<{ pid: number }[]>`select pg_backend_pid() as pid`
  await expect(migrate(url, () => {}, TWO_TRIES)).rejects.toThrow(
    new RegExp(
      `^migration_lock: not applied in 2 tries, because another session locks .+: pid ${session!.pid} \\(.+pg_stat_activity`,
    ),
  )
  await holder`rollback`
  holder.release()
})

test('the migration of the queue takes an advisory lock only if it changes tables, and reports an advisory lock of another session', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(() => admin.end())
  const reader = postgres(urlAs('reader', url), { max: 1 })
  onTestFinished(() => reader.end())
  const queue = { redis_url: null, database_url: url }
  const lock = () => reader`select pg_advisory_lock(${MIGRATION_ADVISORY_LOCK_KEY}::int, hashtext('bullmq'))`
  await lock()
  await expect(migrateQueue(queue, () => {}, TWO_TRIES)).rejects.toThrow(
    /another session locks what must be changed: pid \d+ \(sluice_test_reader.+pg_stat_activity/,
  )
  await reader`select pg_advisory_unlock_all()`
  await migrateQueue(queue)
  await lock()
  await migrateQueue(queue)
})

test('a user who owns the tables but not the database gets no warning about rights that only the owner of the database can revoke', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const name = new URL(url).pathname.slice(1)
  const admin = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(() => admin.end())
  await admin.unsafe(`
    create role table_owner_${name} login password 'table_owner';
    create schema own_schema authorization table_owner_${name};
    alter role table_owner_${name} set search_path = own_schema;
    grant temporary on database ${name} to public`)
  onTestFinished(async () => {
    await admin.unsafe(`drop owned by table_owner_${name}; drop role table_owner_${name}`)
  })
  const table_owner = Object.assign(new URL(url), {
    username: `table_owner_${name}`,
    password: 'table_owner',
  }).href
  const warnings: string[] = []
  await migrate(table_owner, (text) => warnings.push(text))
  expect(warnings).toEqual([])
})
