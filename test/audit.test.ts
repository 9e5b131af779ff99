// Tests the audit: it finds no problem in consistent books, and reports the row and the amount of each discrepancy.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished } from 'vitest'
import { auditCommand } from '#commands/audit.ts'
import { recoverCommand } from '#commands/recover.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { connectDatabase } from '#core/pool.ts'
import {
  auditChanges,
  auditEverything,
  AuditStopped,
  CHECK_NAMES,
  type AuditReport,
} from '#domain/audit/audit.ts'
import { notifications } from '#domain/audit/notifications.ts'
import { fullScope } from '#domain/audit/scope.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { freshKey } from '#test/client.ts'
import { runCommand, runHere } from '#test/commands.ts'
import { capturedPayment, eventually, authorizedPayment, refund } from '#test/payments.ts'
import { payOut, recipient, clientWithBalance } from '#test/payouts.ts'
import { deliver, fabricatedEvent } from '#test/stripe-events.ts'
import { createWorld, testIn, type World } from '#test/world.ts'
import { startWorker } from '#workers/main.ts'

/** A payment of which 1000 is captured and 300 is refunded. */
let payment: any
let refunded: any
let authorized: any
/** A top-up of 500 that the processor has accepted and not settled. */
let top_up: any
/** A paid payout of 100, of another tenant. */
let payout: any

const test = testIn({ notifications: false, env: { AUDIT_EVERY_S: '1' } })
test.beforeAll(async ({ world }) => {
  await world.client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
  payment = await capturedPayment(world.client)
  refunded = (await refund(world.client, payment.id, { amount_minor: 300 })).body
  authorized = await authorizedPayment(world.client)
  top_up = (
    await world.client.post(
      '/v1/wallet/top_ups',
      { idempotency_key: freshKey(), amount_minor: 500, currency: 'usd', source: 'src_manual' },
      { prefer: 'wait=20' },
    )
  ).body
  const shop = await clientWithBalance(world, 1000)
  payout = (await payOut(shop, await recipient(shop, 'acct_success'), {}, { prefer: 'wait=20' })).body
  await deliver(
    world,
    fabricatedEvent('payment_intent.succeeded', { id: 'pi_nobody', object: 'payment_intent' }),
  )
  await world.drain()
})

const LONG_AGO = '2020-01-01T00:00:00Z'
/** A time before the creation of every row. */
const SINCE = new Date(Date.now() - 2 * 3_600_000).toISOString()

const audit = (world: World, args: string[] = [], env = {}) =>
  runHere(auditCommand, args, { DATABASE_URL: world.config.DATABASE_URL, ...env })

/** Executes a statement without triggers and foreign keys; requires a superuser. */
async function tamper(world: World, statement: string): Promise<void> {
  await world.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`
    await tx.unsafe(statement)
  })
}

test('an audit of consistent books lists every check, finds no problem and exits with 0', async ({
  world,
}) => {
  const { code, stdout } = await audit(world)
  expect(stdout).toContain('No problem was found.')
  for (const check of CHECK_NAMES) expect(stdout).toMatch(new RegExp(`^${check} +holds`, 'm'))
  expect(code).toBe(0)
  const json = await audit(world, ['--json'])
  expect(JSON.parse(json.stdout)).toMatchObject({ holds: true, problems: [] })
  expect(json.code).toBe(0)
})

test('an audit of changes finds parked and waiting notifications by index', async ({ world }) => {
  const { sql } = world
  const limits = { since: new Date().toISOString(), until: null, stuck_after_s: 60 }
  const plan = await sql`explain (costs off) ${notifications(sql, fullScope(sql), limits)}`
  const lines = plan.map((row) => String(row['QUERY PLAN'])).join('\n')
  expect(lines).toMatch(/Index Scan.* on notifications_parked/)
  expect(lines).toMatch(/Index Scan.* on notifications_waiting/)
})

type Case = [
  name: string,
  check: string,
  damage: (world: World) => string,
  repair: () => string,
  found: (world: World) => object,
]

describe('the audit reports a damaged row until its correction', () => {
  const setRunningBalance = (balance_after_minor: number) =>
    `update ledger_transfers set balance_after_minor = ${balance_after_minor} where subject_id = '${payment.id}'`
  const set = (table: string, id: string, values: string) =>
    `update ${table} set ${values} where id = '${id}'`
  const cases: Case[] = [
    [
      'a changed running balance',
      'transfers',
      () => setRunningBalance(1007),
      () => setRunningBalance(1000),
      () => ({
        problem: 'a running balance does not follow from the previous one',
        resource: 'payment',
        resource_id: payment.id,
        what: 'capture USD',
        off_by: 7,
      }),
    ],
    [
      'a changed reserved amount',
      'balances',
      () => `update ledger_accounts set reserved_minor = 5 where name = 'available'`,
      () => `update ledger_accounts set reserved_minor = 0 where name = 'available'`,
      () => ({
        problem: 'a reserved amount is not the sum of its reservations',
        what: 'USD available',
        off_by: 5,
      }),
    ],
    [
      'a changed balance',
      'balances',
      () => `update ledger_accounts set balance_minor = balance_minor + 5 where name = 'available'`,
      () => `update ledger_accounts set balance_minor = balance_minor - 5 where name = 'available'`,
      () => ({
        problem: 'a balance is not the sum of its transfers',
        what: 'USD available',
        expected: 700,
        found: 705,
        off_by: 5,
      }),
    ],
    [
      'a refunded amount above the sum of the refunds',
      'payments',
      () => set('payments', payment.id, 'amount_refunded_minor = 301, amount_refund_reserved_minor = 301'),
      () => set('payments', payment.id, 'amount_refunded_minor = 300, amount_refund_reserved_minor = 300'),
      () => ({
        problem: 'the refunded amount is not the sum of the refunds',
        id: payment.id,
        expected: 300,
        found: 301,
        off_by: 1,
      }),
    ],
    [
      'a captured amount that differs from its posting',
      'payments',
      () => set('payments', payment.id, 'amount_captured_minor = 999'),
      () => set('payments', payment.id, 'amount_captured_minor = 1000'),
      () => ({
        problem: 'the captured amount differs from its postings',
        expected: 999,
        found: 1000,
        off_by: 1,
      }),
    ],
    [
      'a failed refund with a posting that was not reversed',
      'refunds',
      () => set('refunds', refunded.id, `status = 'failed', out_minor = 0`),
      () => set('refunds', refunded.id, `status = 'succeeded', out_minor = amount_minor`),
      () => ({
        problem: 'the refunded amount differs from its postings',
        id: refunded.id,
        resource: 'payment',
        resource_id: payment.id,
        off_by: -300,
      }),
    ],
    [
      'a succeeded top-up without a posting',
      'top_ups',
      () => set('top_ups', top_up.id, `status = 'succeeded', succeeded_at = now(), received_minor = 500`),
      () => set('top_ups', top_up.id, `status = 'pending', succeeded_at = null, received_minor = 0`),
      (world) => ({
        problem: 'the received amount differs from its postings',
        tenant_id: world.tenant_id,
        resource: 'top_up',
        resource_id: top_up.id,
        id: top_up.id,
        expected: 500,
        found: 0,
      }),
    ],
    [
      'a posted top-up that is pending at its processor',
      'top_ups',
      () => set('top_ups', top_up.id, `status = 'succeeded', succeeded_at = now(), received_minor = 500`),
      () => set('top_ups', top_up.id, `status = 'pending', succeeded_at = null, received_minor = 0`),
      () => ({
        problem: 'a top-up is posted and did not succeed at the processor',
        resource: 'top_up',
        resource_id: top_up.id,
        expected: 0,
        found: 500,
      }),
    ],
    [
      'a failed top-up that succeeded at its processor, without a drift',
      'top_ups',
      () =>
        set(
          'top_ups',
          top_up.id,
          `status = 'failed', failure = '{}', failed_at = now(), received_minor = 500, updated_at = now() - interval '1 hour'`,
        ),
      () =>
        set(
          'top_ups',
          top_up.id,
          `status = 'pending', failure = null, failed_at = null, received_minor = 0, updated_at = now()`,
        ),
      () => ({
        problem: 'a top-up has ended here and its money arrived, without a drift',
        resource: 'top_up',
        resource_id: top_up.id,
        off_by: 500,
      }),
    ],
    [
      'a failed top-up without its event',
      'top_ups',
      () => set('top_ups', top_up.id, `status = 'failed', failure = '{"code": "gone"}', failed_at = now()`),
      () => set('top_ups', top_up.id, `status = 'pending', failure = null, failed_at = null`),
      () => ({
        problem: 'an event is missing or was written twice',
        id: top_up.id,
        what: 'top_up.failed',
        expected: 1,
        found: 0,
      }),
    ],
    [
      'a top-up without its created event',
      'top_ups',
      () => `update events set type = 'top_up.reported' where type = 'top_up.created'`,
      () => `update events set type = 'top_up.created' where type = 'top_up.reported'`,
      () => ({
        problem: 'an event reports a change that did not happen',
        id: top_up.id,
        what: 'top_up.reported',
      }),
    ],
    [
      'a payment with a dispute that does not exist',
      'payments',
      () => set('payments', payment.id, `dispute = '{"id": "${authorized.id}", "status": "lost"}'`),
      () => set('payments', payment.id, 'dispute = null'),
      () => ({ problem: 'a payment shows a missing dispute', id: payment.id }),
    ],
    [
      'a payout posted as a top-up',
      'tenants',
      () => `update ledger_transfers set kind = 'top_up' where subject_id = '${payout.id}'`,
      () => `update ledger_transfers set kind = 'payout_paid' where subject_id = '${payout.id}'`,
      () => ({
        problem: 'a row references a missing row of its tenant',
        id: payout.id,
        what: 'ledger_transfers of kind top_up',
      }),
    ],
    [
      'a paid payout without a reference',
      'payouts',
      () => set('payouts', payout.id, 'processor_reference = null'),
      () => set('payouts', payout.id, `processor_reference = '${payout.processor_reference}'`),
      () => ({ problem: 'a payout is paid here and not at the processor', id: payout.id }),
    ],
    [
      'a paid payout that is not paid at the processor',
      'payouts',
      () => set('payouts', payout.id, 'processor_status = null'),
      () => set('payouts', payout.id, `processor_status = 'paid'`),
      () => ({ problem: 'a payout is paid here and not at the processor', id: payout.id }),
    ],
    [
      'a failed payout that is paid at the processor, without a drift',
      'payouts',
      () =>
        set(
          'payouts',
          payout.id,
          `status = 'failed', failure = '{}', failed_at = now(), updated_at = now() - interval '1 hour'`,
        ),
      () =>
        set(
          'payouts',
          payout.id,
          `status = 'paid', failure = null, failed_at = null, updated_at = '${payout.updated_at}'`,
        ),
      () => ({
        problem: 'a payout has ended here and not at the processor, without a drift',
        resource: 'payout',
        resource_id: payout.id,
        off_by: 100,
      }),
    ],
    [
      'a succeeded job without a provider call',
      'calls',
      () => `update jobs set first_sent_at = null where operation = 'capture'`,
      () => `update jobs set first_sent_at = last_sent_at where operation = 'capture'`,
      () => ({ problem: 'a job succeeded without its provider call', resource_id: payment.id }),
    ],
    [
      'a state change without its event',
      'events',
      () => `update events set type = 'payment.reported' where type = 'payment.captured'`,
      () => `update events set type = 'payment.captured' where type = 'payment.reported'`,
      () => ({
        problem: 'an event is missing or was written twice',
        id: payment.id,
        what: 'payment.captured',
        expected: 1,
        found: 0,
      }),
    ],
    [
      'an event without its state change',
      'events',
      () =>
        `update events set type = 'payment.canceled' where type = 'payment.authorized' and subject_id = '${authorized.id}'`,
      () =>
        `update events set type = 'payment.authorized' where type = 'payment.canceled' and subject_id = '${authorized.id}'`,
      () => ({
        problem: 'an event reports a change that did not happen',
        id: authorized.id,
        what: 'payment.canceled',
      }),
    ],
    [
      'a payment in progress without a job',
      'in_flight',
      () => set('payments', authorized.id, `status = 'capturing'`),
      () => set('payments', authorized.id, `status = 'authorized'`),
      () => ({ problem: 'a payment is in progress without an open job', id: authorized.id }),
    ],
    [
      'a due job that no worker claims',
      'jobs',
      (world) => `
        insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
        values ('${world.tenant_id}', '${world.tenant_id}', 'nobody', 'nothing', '{}', 1, now() - interval '1 hour')`,
      () => `delete from jobs where queue = 'nobody'`,
      (world) => ({ problem: 'a due job is not claimed', tenant_id: world.tenant_id }),
    ],
    [
      'an idempotency key without its resource',
      'keys',
      () => `update idempotency_keys set resource = 'customer' where resource = 'refund'`,
      () => `update idempotency_keys set resource = 'refund' where resource_id = '${refunded.id}'`,
      () => ({ problem: 'an idempotency key has no row or no job', id: refunded.id }),
    ],
    [
      'an idempotency key of an unknown resource',
      'keys',
      () => `update idempotency_keys set resource = 'parcel' where resource = 'refund'`,
      () => `update idempotency_keys set resource = 'refund' where resource = 'parcel'`,
      () => ({
        problem: 'an idempotency key has no row or no job',
        what: expect.stringMatching(/, a parcel$/),
      }),
    ],
    [
      'events of an unknown resource',
      'tenants',
      () => `update events set type = 'parcel.paid' where type = 'payment.authorized'`,
      () => `update events set type = 'payment.authorized' where type = 'parcel.paid'`,
      () => ({ what: 'events of a parcel, an unknown resource' }),
    ],
    [
      'a notification without a job',
      'notifications',
      () => `update notifications set id = gen_random_uuid() where state = 'parked'`,
      () =>
        `update notifications n set id = j.id from jobs j where n.state = 'parked' and j.name = 'notification.apply'`,
      () => ({ problem: 'a notification has no job' }),
    ],
    [
      'a notification with a discarded job',
      'notifications',
      () =>
        `update jobs set state = 'discarded', finished_at = now() where name = 'notification.apply' and finished_at is null`,
      () =>
        `update jobs set state = 'ready', finished_at = null where name = 'notification.apply' and state = 'discarded'`,
      () => ({ problem: 'a notification whose job ended was neither applied nor ignored' }),
    ],
    [
      'an applied notification with an open job',
      'notifications',
      () => `update notifications set state = 'applied' where state = 'parked'`,
      () => `update notifications set state = 'parked' where state = 'applied'`,
      () => ({ problem: 'a final notification has an open job' }),
    ],
  ]

  test.for(cases)('%s', async ([_name, check, damage, repair, found], { world }) => {
    await tamper(world, damage(world))
    const report = await auditEverything(world.sql)
    const changes = await auditChanges(world.sql, SINCE, [])
    await tamper(world, repair())
    expect(report.problems).toContainEqual(expect.objectContaining({ check, ...found(world) }))
    expect(changes.problems).toContainEqual(expect.objectContaining({ check, ...found(world) }))
    expect((await auditEverything(world.sql)).problems).toEqual([])
  })

  test('a lost payment that has just been made again needs no open job', async ({ world }) => {
    await tamper(
      world,
      set('payments', authorized.id, `status = 'capturing', recovered_at = clock_timestamp()`),
    )
    const { problems } = await auditEverything(world.sql)
    await tamper(world, set('payments', authorized.id, `status = 'authorized', recovered_at = null`))
    expect(problems).not.toContainEqual(expect.objectContaining({ check: 'in_flight' }))
  })

  test('an audit of changes finds no problem after the corrections', async ({ world }) => {
    expect((await auditChanges(world.sql, LONG_AGO, [])).problems).toEqual([])
  })
})

test('an audit ends before its next step when it must stop', async ({ world }) => {
  const mustStop = () => true
  await expect(auditEverything(world.sql, { mustStop })).rejects.toThrow(AuditStopped)
  await expect(auditChanges(world.sql, SINCE, [], { mustStop })).rejects.toThrow(AuditStopped)
})

test('an audit of changes checks an unchanged payment again only if the payment had a problem', async ({
  world,
}) => {
  await tamper(world, `update payments set amount_captured_minor = 998 where id = '${payment.id}'`)
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  expect((await auditChanges(world.sql, tomorrow, [])).problems).toEqual([])
  const recheck = [{ tenant_id: world.tenant_id, resource: 'payment' as const, resource_id: payment.id }]
  expect((await auditChanges(world.sql, tomorrow, recheck)).problems).toMatchObject([{ off_by: 2 }])
  // A changed payment that already had a problem is reported once.
  expect((await auditChanges(world.sql, LONG_AGO, recheck)).problems).toMatchObject([{ off_by: 2 }])
  await tamper(world, `update payments set amount_captured_minor = 1000 where id = '${payment.id}'`)
})

test('a worker audits regularly, sets the gauge, and reports a problem until the problem is corrected', async ({
  world,
}) => {
  const gauge = async () => {
    const { values } = await metrics.auditProblems.get()
    return values.find(({ labels }) => labels.check === 'payments')?.value
  }
  const lastEnd = async () =>
    (await world.sql<{ ended_at: string }[]>`select ended_at from recurring_work where name = 'audit'`)[0]!
      .ended_at
  await eventually(async () => expect(await gauge()).toBe(0))
  await tamper(world, `update payments set amount_captured_minor = 998 where id = '${payment.id}'`)
  await eventually(async () => expect(await gauge()).toBe(1))
  const [row] = await world.sql<{ rows: unknown; position: { again: unknown } }[]>`
    select result -> 'rows' as rows, position from recurring_work where name = 'audit'`
  expect(row!.rows).toMatchObject([{ check: 'payments', id: payment.id, off_by: 2 }])
  expect(row!.position.again).toEqual([
    { tenant_id: world.tenant_id, resource: 'payment', resource_id: payment.id },
  ])

  // The problem is reported even long after the last change of the row.
  await world.sql`
    update recurring_work set position = jsonb_set(position, '{since}', to_jsonb(now() + interval '1 day')) where name = 'audit'`
  const before = await lastEnd()
  await eventually(async () => expect(await lastEnd()).not.toBe(before))
  expect(await gauge()).toBe(1)
  await tamper(world, `update payments set amount_captured_minor = 1000 where id = '${payment.id}'`)
  await eventually(async () => expect(await gauge()).toBe(0))
  expect((await metrics.auditAge.get()).values[0]!.value).toBeLessThan(60)
})

test('every audit finds a poison notification, even though each audit begins at a later time', async ({
  world,
}) => {
  const lastAudit = async () => {
    const [row] = await world.sql<{ ended_at: string; since: string; found: number }[]>`
      select ended_at, position ->> 'since' as since, (result #> '{problems,notifications}')::integer as found
      from recurring_work where name = 'audit'`
    return row!
  }
  await world.sql`update notifications set reason = 'poison' where state = 'parked'`
  const first = await eventually(async () => {
    const audited = await lastAudit()
    expect(audited.found).toBe(1)
    return audited
  })
  await eventually(async () => expect((await lastAudit()).ended_at > first.ended_at).toBe(true))
  const second = await lastAudit()
  expect(second.found).toBe(1)
  expect(Date.parse(second.since)).toBeGreaterThan(Date.parse(first.since))
  await world.sql`update notifications set reason = 'not_ours' where state = 'parked'`
  await eventually(async () => expect((await lastAudit()).found).toBe(0))
})

test('the audit command reports a wrong row, exits with 1, and changes nothing', async ({ world }) => {
  await tamper(world, `update payments set amount_captured_minor = 998 where id = '${payment.id}'`)
  const { code, stdout } = await runCommand('src/commands/audit.ts', [], {
    DATABASE_URL: world.config.DATABASE_URL,
  })
  expect(code).toBe(1)
  expect(stdout).toMatch(/^payments +1 PROBLEMS/m)
  const facts = `tenant_id=${world.tenant_id} id=${payment.id} expected=USD 9.98 found=USD 10.00 off_by=USD 0.02`
  expect(stdout).toContain(`payments: the captured amount differs from its postings (captured) ${facts}`)
  const json = await audit(world, ['--json'])
  expect(json.code).toBe(1)
  expect(JSON.parse(json.stdout)).toMatchObject({ holds: false, problems: [{ id: payment.id, off_by: 2 }] })
  const variables = { ...world.env, RESTORED_DATABASE_URL: world.env['DATABASE_URL'] }
  const rehearsal = await runHere(recoverCommand, ['rehearse', '--json'], variables)
  expect([rehearsal.code, JSON.parse(rehearsal.stdout)]).toMatchObject([
    1,
    {
      audit: { holds: false, problems: [{ id: payment.id }] },
      newest: { payment: { id: expect.any(String) } },
    },
  ])
  await tamper(world, `update payments set amount_captured_minor = 1000 where id = '${payment.id}'`)
  expect((await audit(world)).code).toBe(0)
  // Without credentials, the lists of the processor cannot be compared.
  const unable = { ...variables, STRIPE_SECRET_KEY: '' }
  expect(await runHere(recoverCommand, ['rehearse', '--yes'], unable)).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(/^NOT CHECKED: the lists of the providers\.$/m),
  })
})

test('a check that exceeds its timeout is reported as unfinished', async ({ world }) => {
  const blocker = await world.sql.reserve()
  await blocker`begin`
  await blocker`lock table idempotency_keys in access exclusive mode`
  const { code, stdout } = await audit(world, ['--timeout', '1'])
  await blocker`rollback`
  blocker.release()
  expect(code).toBe(2)
  expect(stdout).toMatch(/^keys +NOT FINISHED/m)
  expect(stdout).toMatch(/^notifications +holds/m)
})

test('a check of the audit may take longer than a transaction of a process', async ({ world }) => {
  const options = { max: 2, application_name: 'test', transaction_timeout_ms: 100 }
  const sql = connectDatabase(world.config.DATABASE_URL!, options)
  onTestFinished(() => sql.end())
  const blocker = await world.sql.reserve()
  await blocker`begin`
  await blocker`lock table idempotency_keys in access exclusive mode`
  const audited = await Promise.allSettled([auditEverything(sql, { timeout_ms: 1_000 })])
  await blocker`rollback`
  blocker.release()
  expect(audited).toMatchObject([{ status: 'fulfilled' }])
  const { checks } = (audited[0] as PromiseFulfilledResult<AuditReport>).value
  expect(checks.filter(({ unfinished }) => unfinished).map(({ check }) => check)).toContain('keys')
})

test('the audit command finds the database of `npm start`, and reports a missing database', async ({
  world,
}) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-audit-'))
  try {
    const without_database = await audit(world, [], { DATABASE_URL: '', DATA_DIR: folder })
    expect([without_database.code, without_database.stderr]).toEqual([
      2,
      expect.stringContaining('No Sluice runs in'),
    ])
    await writeFile(join(folder, 'dev.json'), JSON.stringify({ database_url: world.config.DATABASE_URL }))
    expect((await audit(world, [], { DATABASE_URL: '', DATA_DIR: folder })).code).toBe(0)
  } finally {
    await rm(folder, { recursive: true })
  }
  const help = await audit(world, ['--help'])
  expect([help.code, help.stdout]).toEqual([0, expect.stringContaining('--json')])
  expect(await audit(world, ['--stuck-after', 'soon'])).toMatchObject({
    code: 2,
    stderr: '--stuck-after must be a whole number of seconds\n',
  })
})

test('a worker stops without waiting for its audit', async () => {
  const other = await createWorld({ parts: [], env: { AUDIT_EVERY_S: '1' } })
  const blocker = await other.sql.reserve()
  try {
    await blocker`begin`
    await blocker`lock table ledger_accounts in access exclusive mode`
    const worker = await startWorker(other.config, createLog('silent', 'test'))
    await eventually(async () =>
      expect(
        await other.sql`select from recurring_work where name = 'audit' and lease_token is not null`,
      ).toHaveLength(1),
    )
    await worker.close()
    // The unfinished audit still has its lease.
    expect(
      await other.sql`select from recurring_work where lease_token is not null and ended_at is null`,
    ).toHaveLength(1)
  } finally {
    await blocker`rollback`
    blocker.release()
    await other.close()
  }
})

test('the audit reports changed, missing and truncated entries of the audit log', async ({ world }) => {
  const by = { tenant_id: world.tenant_id, actor: 'ada', request_id: null, address: null }
  const seqs: number[] = []
  for (const amount of [1, 2, 3, 4])
    seqs.push(await appendAuditEntry(world.sql, by, { action: 'capturePayment', details: { amount } }))
  const [, second, third, last] = seqs
  const [head] = await world.sql`select seq, encode(hash, 'hex') as hash from audit_head`
  const intact = await audit(world)
  expect(intact.stdout).toMatch(/^people +holds/m)
  expect(intact.stdout).toContain(`ends with entry ${head!['seq']}, ${head!['hash']}.`)
  expect(JSON.parse((await audit(world, ['--json'])).stdout).audit_log).toEqual(head)

  const findProblems = async () => {
    const { problems } = await auditEverything(world.sql)
    return problems.filter(({ check }) => check === 'people').map(({ problem, id }) => [problem, Number(id)])
  }
  // The owner of the table may disable its triggers. All changes are reverted.
  const problemsAfter = async (statement: string) => {
    await world.sql`create table kept as select * from audit_entries`
    const [before] = await world.sql`select seq, hash from audit_head`
    await tamper(world, statement)
    const problems = await findProblems()
    await tamper(
      world,
      'delete from audit_entries; insert into audit_entries select * from kept; drop table kept',
    )
    await world.sql`update audit_head set seq = ${before!['seq']}, hash = ${before!['hash']}`
    return problems
  }
  const BROKEN_CHAIN = 'an entry does not follow from the previous one'
  const TRUNCATED = 'the end of the audit log was cut off or rewritten'
  const change = `update audit_entries set details = '{"amount": 9}' where seq = ${second}`
  expect(await problemsAfter(change)).toEqual([['an entry was changed', second]])
  const rehash = 'update audit_entries e set hash = audit_hash(e) where seq ='
  expect(await problemsAfter(`${change}; ${rehash} ${second}`)).toEqual([[BROKEN_CHAIN, third]])
  expect(await problemsAfter(`delete from audit_entries where seq = ${second}`)).toEqual([
    ['an entry is missing before this one', third],
  ])
  expect(await problemsAfter(`delete from audit_entries where seq = ${last}`)).toEqual([[TRUNCATED, last]])
  expect(
    await problemsAfter(`update audit_entries set actor = 'eve' where seq = ${last}; ${rehash} ${last}`),
  ).toEqual([[TRUNCATED, last]])
  expect(await problemsAfter('delete from audit_entries')).toEqual([[TRUNCATED, last]])
  expect(await findProblems()).toEqual([])
  // An audit of changes reports the truncation once.
  await tamper(world, `delete from audit_entries where seq = ${last}`)
  const { problems } = await auditChanges(world.sql, SINCE, [])
  expect(problems.map(({ problem }) => problem)).toEqual([TRUNCATED])
})
