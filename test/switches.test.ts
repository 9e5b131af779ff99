// Tests switches of the database: a restore or a failover is noticed, and what it may have undone is not done twice.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test as anyTest, vi } from 'vitest'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { connectDatabase } from '#core/pool.ts'
import { openWitnessPlace } from '#core/witness-place.ts'
import { signWitness, verifyWitness, witnessKeys } from '#core/witness-signature.ts'
import { jobs as auditJobs } from '#domain/audit/jobs.ts'
import { fullScope } from '#domain/audit/scope.ts'
import { findDue, findOldestDue } from '#domain/jobs/claimable.ts'
import { countOpenJobs } from '#domain/jobs/states.ts'
import { findOldestDueAges } from '#domain/operations/oldest-due.ts'
import { findOverview } from '#domain/operations/overview.ts'
import { failUncoveredPayouts } from '#domain/payouts/uncovered.ts'
import { decodeFacts, encodeFacts } from '#domain/switches/facts.ts'
import { findWitnessName } from '#domain/switches/kept-facts.ts'
import { COMMAND_SUFFIX } from '#domain/switches/find.ts'
import type { CheckedServer, ServerFacts } from '#domain/switches/server.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { keysCommand } from '#commands/keys.ts'
import { recoverCommand } from '#commands/recover.ts'
import { freshKey } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { keepNewest } from '#queue/witness.ts'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { suppressionsOf } from '#test/messages.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, capturedPayment, createPayment, eventually, refund } from '#test/payments.ts'
import { clientWithBalance, payOut, payoutIn, recipient } from '#test/payouts.ts'
import { createRedis } from '#test/redis.ts'
import { promote } from '#test/switches.ts'
import { describeIn, testIn, type World } from '#test/world.ts'

const test = testIn()

const FACTS: ServerFacts = {
  system_identifier: '7713151949102442985',
  timeline: 3,
  lsn: '00000001AB000028',
  clock: '2026-11-28T09:28:53.000001Z',
  heartbeat: { number: 3, at: '2026-11-28T09:28:52.500001Z' },
  audit: { seq: 17, hash: '0'.repeat(64) },
  seal: null,
  switch: 9,
}

anyTest('of two texts of facts, the greater one has the newer facts', () => {
  const newer = [
    FACTS,
    { ...FACTS, lsn: '00000001AB000030' },
    { ...FACTS, lsn: '000000A000000000' },
    { ...FACTS, heartbeat: { ...FACTS.heartbeat, number: 4 } },
    { ...FACTS, switch: 10, timeline: 2, lsn: '0000000000000001' },
  ]
  const texts = newer.map(encodeFacts)
  expect(texts.toSorted()).toEqual(texts)
  expect(texts.map(decodeFacts)).toEqual(newer)
  expect(['', 'x', '{}'].map(decodeFacts)).toEqual([null, null, null])
})

/** Keeps the worker from reading the lists of the processor, as if another worker read them. */
async function blockReaders({ sql }: World): Promise<() => Promise<void>> {
  await sql`
    insert into recurring_work (name, due_at, lease_until)
    select name, now(), 'infinity' from unnest(array['objects of stripe', 'events of stripe']) name
    on conflict (name) do update set lease_until = 'infinity'`
  const readLists = async () => {
    await sql`update recurring_work set lease_until = null where lease_until = 'infinity'`
  }
  onTestFinished(readLists)
  return readLists
}

/** The last switch, once it has been recorded. */
async function switchOf({ sql }: World, number: number): Promise<any> {
  return await eventually(async () => {
    const [found] = await sql`
      select * from database_switches, lineage where number = ${number} and recorded_at is not null`
    expect(found).toBeDefined()
    return found!
  })
}

/** A job of each kind that waits, because its queue is paused: a payout, a refund, emails and a payment. */
async function openWork(world: World) {
  const { client, sql } = world
  const recipient_id = await recipient(client)
  const { id: payment_id } = await capturedPayment(client)
  const queues = ['payments', 'payouts', 'messages']
  for (const queue of queues) await pauseJobs(sql, { queue })
  const payout = await payOut(client, recipient_id, {}, ASYNC)
  const to_cancel = await payOut(client, recipient_id, {}, ASYNC)
  const refunded = await refund(client, payment_id, { amount_minor: 100 }, ASYNC)
  const payment = await createPayment(client, {}, ASYNC)
  const email = (body: object = {}) =>
    client.post(
      '/v1/messages/email',
      { idempotency_key: freshKey(), to: ['ada@example.com'], subject: 'Hello', text: 'Hello', ...body },
      ASYNC,
    )
  const send_at = inSeconds(3600)
  const [due, soon, later] = [await email(), await email({ send_at }), await email({ send_at })]
  await sql`update jobs set run_at = now() + interval '20 seconds' where resource_id = ${soon.body.id}`
  const ids = {
    payout: payout.body.id,
    to_cancel: to_cancel.body.id,
    refund: refunded.body.id,
    payment: payment.body.id,
  }
  const resume = async () => {
    for (const queue of queues) await resumeJobs(sql, { queue })
  }
  // A test that fails must not keep the others waiting.
  onTestFinished(resume)
  return { ...ids, due: due.body.id, soon: soon.body.id, later: later.body.id, payment_id, resume }
}

/** For how many seconds the oldest due job has been claimable, as the dashboard and `npm run queues` show it. */
async function oldestShown(sql: Sql, tenant_id: string, queues: string[]): Promise<number> {
  const ages = await findOldestDueAges(sql, queues)
  const counted = await countOpenJobs(sql)
  const { oldest_due_s } = await findOverview(sql, tenant_id)
  return Math.max(oldest_due_s, ...ages.values(), ...counted.map((of_queue) => of_queue.oldest_due_s))
}

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()

test('after a failover, open work counts as sent, and payouts, refunds and messages wait for the lists of the providers', async ({
  world,
}) => {
  const { client, sql } = world
  const work = await openWork(world)
  const readLists = await blockReaders(world)
  await promote(world)
  const noticed = await switchOf(world, 1)
  expect(noticed).toMatchObject({
    kind: 'failover',
    sign: 'lineage',
    jobs_in_doubt: 6,
    hold: 'payouts',
    last_switch: 1,
  })
  expect(await sql`select from database_switches`).toHaveLength(1)

  // Nobody knows whether the payout was sent, so it is neither failed nor canceled at once.
  const canceled = await client.post(
    `/v1/payouts/${work.to_cancel}/cancel`,
    { idempotency_key: freshKey() },
    ASYNC,
  )
  expect([canceled.status, canceled.body.status]).toEqual([202, 'pending'])
  const not_canceled = await client.post(`/v1/messages/${work.due}/cancel`, { idempotency_key: freshKey() })
  expect(not_canceled.body.error.code).toBe('message_not_cancelable')
  const ids = [work.payout, work.payment_id, work.payment, work.due, work.soon, work.later]
  const sent = await sql`
    select name, in_doubt, first_sent_at = created_at as since_creation, sent_with from jobs
    where finished_at is null and resource_id = any(${ids}::uuid[]) order by name, in_doubt desc`
  expect(sent).toEqual([
    // One was due, the other fell due while processes may still have worked with the previous primary.
    { name: 'message.send_email', in_doubt: true, since_creation: true, sent_with: '*' },
    { name: 'message.send_email', in_doubt: true, since_creation: true, sent_with: '*' },
    { name: 'message.send_email', in_doubt: false, since_creation: null, sent_with: null },
    { name: 'payment.authorize', in_doubt: true, since_creation: true, sent_with: '*' },
    { name: 'payout.create', in_doubt: true, since_creation: true, sent_with: '*' },
    { name: 'refund.create', in_doubt: true, since_creation: true, sent_with: '*' },
  ])

  await work.resume()
  await eventually(async () => {
    expect((await client.get(`/v1/payments/${work.payment}`)).body.status).toBe('authorized')
  })
  const { stdout } = await runHere(recoverCommand, ['--json'], world.env)
  expect(JSON.parse(stdout)).toMatchObject({
    hold: 'payouts',
    held: [
      { queue: 'messages', jobs: 3 },
      { queue: 'payments', jobs: 1 },
      { queue: 'payouts', jobs: 2 },
    ],
  })
  // Nothing is late, so no consumer is restarted.
  const queues = ['messages', 'payments', 'payouts']
  expect(await findOldestDue(sql, queues, JOB_NAMES)).toEqual([])
  // Nor is it when the wait ends.
  const releasing = await sql.reserve()
  try {
    await releasing`begin`
    await releasing`
      update jobs set run_at = now() - interval '1 hour', wakeup_sent_at = now() - interval '1 hour'
      where finished_at is null`
    const limits = { since: new Date().toISOString(), until: null, stuck_after_s: 60 }
    const unclaimed = async () => await releasing`${auditJobs(releasing, fullScope(releasing), limits)}`
    // Jobs of other queues were claimable at the switch.
    const shown = async () => await oldestShown(releasing, world.tenant_id, queues)
    expect(await unclaimed()).toEqual([])
    expect(await findOldestDueAges(releasing, queues)).toEqual(new Map())
    expect(await shown()).toBeLessThan(3600)
    await releasing`update database_switches set lists_read_at = now()`
    expect(await unclaimed()).toEqual([])
    expect(await shown()).toBeLessThan(3600)
    const oldest = await findOldestDue(releasing, queues, JOB_NAMES)
    expect(oldest.toSorted((one, other) => one.queue.localeCompare(other.queue))).toEqual(
      queues.map((queue) => ({ queue, age_s: 0 })),
    )
    const scans = queues.map((queue) => ({ queue, room: 10, after: null }))
    for (const { ids, overdue } of await findDue(releasing, scans, { names: JOB_NAMES, grace_ms: 1000 }))
      expect([ids.length > 0, overdue]).toEqual([true, 0])
  } finally {
    await releasing`rollback`
    releasing.release()
  }

  await readLists()
  await eventually(async () =>
    expect(await switchOf(world, 1)).toMatchObject({ hold: null, released_by: 'system', messages: 'send' }),
  )
  await sql`update jobs set run_at = least(run_at, now()) where resource_id = ${work.soon}`
  // The payout is looked up. An hour later, the processor still does not list it: it was never sent.
  await eventually(async () => {
    const passed = await sql`
      update jobs set last_sent_at = last_sent_at - interval '1 hour', run_at = now(),
        absent_since = now() - interval '10 minutes'
      where resource_id = ${work.payout} and state = 'unknown'`
    expect(passed.count).toBe(1)
  })
  await payoutIn(client, work.payout, 'paid')
  await eventually(async () => {
    expect((await client.get(`/v1/payments/${work.payment_id}`)).body.amount_refunded_minor).toBe(100)
    // It is canceled once the processor does not list it for a while.
    expect((await client.get(`/v1/payouts/${work.to_cancel}`)).body.status).toBe('pending')
    // Nobody can be asked whether the email was sent.
    expect((await client.get(`/v1/messages/${work.due}`)).body.status).toBe('unknown')
    expect((await client.get(`/v1/messages/${work.soon}`)).body.status).toBe('unknown')
    expect((await client.get(`/v1/messages/${work.later}`)).body.status).toBe('scheduled')
  })
})

test('after a restore all jobs wait until an operator releases them, and are looked up before they are sent', async ({
  world,
}) => {
  const { client, sql } = world
  const work = await openWork(world)
  await promote(world, 10)
  expect(await switchOf(world, 2)).toMatchObject({ kind: 'restore', hold: 'all', last_switch: 2 })
  await work.resume()
  const accepted = await createPayment(client, {}, ASYNC)
  expect(accepted.status).toBe(202)

  const release = (...more: string[]) =>
    runHere(recoverCommand, ['release', '--reason', 'checked', ...more], world.env)
  expect(await release()).toMatchObject({ code: 1, stderr: expect.stringContaining('--messages') })
  await eventually(async () => expect((await switchOf(world, 2)).lists_read_at).not.toBeNull())
  expect(await switchOf(world, 2)).toMatchObject({ hold: 'all', released_at: null })
  expect(
    await sql`select from jobs where state = 'running' and queue <> 'notifications' and finished_at is null`,
  ).toHaveLength(0)
  expect(await release('--messages', 'discard')).toMatchObject({ stdout: 'Released: switch 2.\n' })
  expect(await switchOf(world, 2)).toMatchObject({ hold: null, messages: 'discard' })
  expect(await release('--messages', 'send')).toMatchObject({
    code: 1,
    stderr: 'There is no switch to release.\n',
  })

  await eventually(async () => {
    const { body } = await client.get(`/v1/payments/${accepted.body.id}`)
    expect(body.status).toBe('authorized')
    // The scheduled email was discarded; the one that was due may have been sent.
    expect((await client.get(`/v1/messages/${work.later}`)).body.status).toBe('canceled')
    expect((await client.get(`/v1/messages/${work.due}`)).body.status).toBe('unknown')
    const [job] = await sql`select state, last_error from jobs where resource_id = ${work.payout}`
    expect(job).toMatchObject({ state: 'unknown' })
  })
  expect((await switchOf(world, 2)).holds_messages_before).toBeNull()
})

test('an SMS that is requested after a switch is first searched for in the list of the provider', async ({
  world,
}) => {
  const { client, sql, provider } = world
  const sms = { idempotency_key: freshKey(), to: '+15005550123', body: 'Your parcel has arrived.' }
  const send = async (body: object) =>
    (await client.post('/v1/messages/sms', body, { prefer: 'wait=20' })).body
  const first = await send(sms)
  expect(first.status).toBe('sent')
  // The database loses the message.
  const triggers = async (state: 'disable' | 'enable') =>
    await sql.unsafe(`alter table messages ${state} trigger all`)
  await triggers('disable')
  await sql`delete from messages where id = ${first.id}`
  await sql`delete from idempotency_keys where resource_id = ${first.id}`
  await sql`delete from jobs where resource_id = ${first.id}`
  await triggers('enable')
  await sql`update database_switches set newest_at = now() - interval '1 minute', switched_at = now()`
  await eventually(async () => {
    const again = await send({ ...sms, idempotency_key: freshKey() })
    expect(again.provider_reference).toBe(first.provider_reference)
  })
  const other = await send({ ...sms, idempotency_key: freshKey(), body: 'Your parcel is lost.' })
  expect(other.provider_reference).not.toBe(first.provider_reference)

  // While the list cannot be read, nothing is sent, and the SMS does not count as one that may have been sent.
  const refused = await provider('twilio').fault({
    match: { method: 'GET' },
    times: 1000,
    fault: 'error_500_before',
  })
  const unsent = { ...sms, idempotency_key: freshKey(), body: 'Your parcel is back.' }
  expect((await send(unsent)).error).toMatchObject({ code: 'sms_send_failed' })
  await refused.remove()
  const [row] = await sql`select failure from messages where idempotency_key = ${unsent.idempotency_key}`
  expect(row!['failure']).toMatchObject({ code: 'connection_failed' })
})

test('payouts that are not covered any more after others were recovered fail, the newest first, without a call', async ({
  world,
}) => {
  const { sql } = world
  const client = await clientWithBalance(world, 1000)
  const to = await recipient(client)
  await pauseJobs(sql, { queue: 'payouts' })
  const [first, second, third] = [
    await payOut(client, to, { amount_minor: 500 }, ASYNC),
    await payOut(client, to, { amount_minor: 200 }, ASYNC),
    await payOut(client, to, { amount_minor: 300 }, ASYNC),
  ].map(({ body }) => body.id as string)
  // A payout of 400 was recovered.
  await sql`
    update ledger_accounts set balance_minor = balance_minor - 400
    where tenant_id = ${client.tenant_id} and name = 'available'`
  expect(await failUncoveredPayouts(sql, 1)).toBe(2)
  const [steps] = await sql`
    select count(distinct xmin::text)::integer as transactions from payouts where id = any(${[second!, third!]}::uuid[])`
  expect(steps).toEqual({ transactions: 2 })
  expect(await failUncoveredPayouts(sql)).toBe(0)
  await sql`
    update ledger_accounts set balance_minor = balance_minor + 400
    where tenant_id = ${client.tenant_id} and name = 'available'`
  await resumeJobs(sql, { queue: 'payouts' })
  await payoutIn(client, first!, 'paid')
  for (const id of [second!, third!]) {
    const { failure } = await payoutIn(client, id, 'failed')
    expect(failure).toMatchObject({ code: 'insufficient_balance', manual: false })
  }
  await eventually(async () => {
    const ended = await sql`
      select c.first_sent_at from all_provider_calls c join all_jobs j on j.id = c.job_id
      where j.resource_id = any(${[second!, third!]}::uuid[]) and j.finished_at is not null`
    expect(ended).toEqual([{ first_sent_at: null }, { first_sent_at: null }])
  })
})

/** Runs `check` in a transaction that is rolled back, with so many jobs that are due since an hour. */
async function withDueJobs(
  { sql, tenant_id }: World,
  jobs: number,
  check: (session: Sql) => Promise<void>,
): Promise<void> {
  const session = await sql.reserve()
  try {
    await session`begin`
    await session`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
      select gen_random_uuid(), ${tenant_id}, 'compliance', 'kyc.create', '{}', 1, now() - interval '1 hour'
      from generate_series(1, ${jobs})`
    await check(session)
  } finally {
    await session`rollback`
    session.release()
  }
}

/** Expects that scans do not read the jobs that wait for an operator: any number of requests is accepted meanwhile. */
async function expectHeldUnread(world: World): Promise<void> {
  await withDueJobs(world, 1000, async (held) => {
    await held`update lineage set seal = null, hold = 'all'`
    const scan = { queue: 'compliance', room: 10, after: null }
    const [found] = await findDue(held, [scan], { names: JOB_NAMES, grace_ms: 0 })
    expect(found?.ids ?? []).toEqual([])
    expect(await findOldestDue(held, ['compliance'], JOB_NAMES)).toEqual([])
    expect(await findOldestDueAges(held, ['compliance'])).toEqual(new Map())
    const [read] = await held<{ jobs: number }[]>`
      select idx_tup_fetch::integer as jobs from pg_stat_xact_user_tables where relname = 'jobs'`
    expect(read!.jobs).toBeLessThan(500)
  })
}

/** Expects that a job that was due before a seal ends is not late, neither before nor after the end. */
async function expectNotLate(world: World): Promise<void> {
  await withDueJobs(world, 1, async (sealed) => {
    const late = async () => {
      const limits = { since: new Date().toISOString(), until: null, stuck_after_s: 60 }
      return {
        claimable: await findOldestDue(sealed, ['compliance'], JOB_NAMES),
        unclaimed: await sealed`${auditJobs(sealed, fullScope(sealed), limits)}`,
        shown: await oldestShown(sealed, world.tenant_id, ['compliance']),
      }
    }
    expect(await late()).toEqual({ claimable: [], unclaimed: [], shown: 0 })
    await sealed`update lineage set seal = null, unsealed_at = now()`
    expect(await late()).toEqual({
      claimable: [{ queue: 'compliance', age_s: 0 }],
      unclaimed: [],
      shown: 0,
    })
  })
}

describeIn('while another server is in use', {}, (test) => {
  test('a seal waits for the requests that were admitted before, and names the processes that do not answer', async ({
    world,
  }) => {
    const { client, sql } = world
    // A process names its host and its time itself.
    const host = 'hung\nNothing is written any more.\u001b[2J'
    const hung = { id: randomUUID(), name: 'worker', version: '1', host, pid: 7, seen_at: 'infinity' }
    await sql`insert into processes ${sql(hung)}`
    const seal = async (...more: string[]) => await runHere(recoverCommand, ['seal', ...more], world.env)
    let answered = 0
    const { early, requests } = await sql.begin(async (tx) => {
      await tx`lock table payments in access exclusive mode`
      const sent = Array.from({ length: 5 }, async () => {
        const { status } = await createPayment(client, {}, ASYNC)
        answered += 1
        return status
      })
      await eventually(async () => {
        const waiting = await sql`select from pg_locks where not granted and relation = 'payments'::regclass`
        expect(waiting.length).toBeGreaterThan(0)
      })
      return { early: await seal('--yes', '--wait', '4'), requests: sent }
    })
    expect(early).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /write: api \(.*worker \(hung Nothing is written any more\. *\[2J\/7, seen \d+ s ago\)/,
      ),
    })
    expect(early.stdout).not.toMatch(/^Nothing is written/m)
    await sql`update processes set ended_at = now() where id = ${hung.id}`
    expect(await seal('--yes')).toMatchObject({ code: 0 })
    expect(answered).toBe(5)
    expect(await Promise.all(requests)).toEqual([202, 202, 202, 202, 202])
    expect((await runHere(recoverCommand, [], world.env)).stdout).toContain('the database may be moved')
    // A command that began before the seal may write once more.
    const { DATABASE_URL } = world.env
    const command = connectDatabase(DATABASE_URL!, {
      max: 1,
      application_name: `sluice-jobs${COMMAND_SUFFIX}`,
    })
    onTestFinished(() => command.end())
    await command`select 1`
    await eventually(async () =>
      expect((await runHere(recoverCommand, [], world.env)).stdout).toContain(
        'the command sluice-jobs-command',
      ),
    )
    await command.end()
    // Other commands can only read.
    const [tenant] = await sql<{ slug: string }[]>`select slug from tenants where id = ${world.tenant_id}`
    const keys = async (...args: string[]) =>
      await runHere(keysCommand, [...args, '--tenant', tenant!.slug], world.env)
    expect(await keys('list')).toMatchObject({ code: 0 })
    expect(await keys('create', '--scopes', 'all')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^The database is sealed/),
    })
    await seal('--undo')
    await eventually(async () => expect((await createPayment(client, {}, ASYNC)).status).toBe(202))
  })

  test('nothing is accepted or done, until an operator says that this server is in use', async ({
    world,
  }) => {
    const { client, sql } = world
    const [server] = await sql<{ facts: ServerFacts }[]>`select server_facts() as facts`
    const { audit, ...facts } = server!.facts
    const seen = { ...audit!, seq: audit!.seq + 1 }
    const other = { ...facts, audit: seen, seal: null, switch: 7, system_identifier: '1' }
    const name = await findWitnessName(sql)
    const keys = witnessKeys(world.env['ENCRYPTION_KEY']!, name)
    const redis = new Redis(world.env['REDIS_URL']!)
    onTestFinished(() => redis.disconnect())
    // Without a signature, this is not believed.
    await redis.set(name, encodeFacts(other))
    await eventually(async () => expect(await redis.get(name)).not.toBe(encodeFacts(other)))
    expect((await createPayment(client, {}, ASYNC)).status).toBe(202)
    await redis.set(name, signWitness(keys, name, encodeFacts(other)))
    const refused = await eventually(async () => {
      const answer = await createPayment(client, {}, ASYNC)
      expect(answer.status).toBe(503)
      return answer
    })
    expect(refused.body.error).toMatchObject({ code: 'database_unavailable' })
    expect(refused.headers.get('retry-after')).not.toBeNull()

    const status = async () => (await runHere(recoverCommand, [], world.env)).stdout
    expect(await status()).toMatch(
      /^newest {6}20.*Z: BEHIND the witness, which saw the database \d+ s later$/m,
    )
    const [newest] = await sql<{ at: string }[]>`select newest_change('infinity') as at`
    const no_time = await runHere(recoverCommand, ['switched', '--to', '5', '--reason', 'x'], world.env)
    expect(no_time).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^--to must be a time with its zone/),
    })
    const args = ['switched', '--to', newest!.at, '--reason', 'the other server is gone']
    expect(await runHere(recoverCommand, args, world.env)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /^audit log {7}20.* before the witness: entry \d+; the witness has seen 1 later one\nwitness/m,
      ),
      stderr: expect.stringContaining('[y/N] The answer was not yes: nothing was done.'),
    })
    expect(await runHere(recoverCommand, args, world.env, 'yes\n')).toMatchObject({ code: 0 })
    const [entry] = await sql<{ is_atomic: boolean }[]>`
      select e.xmin = f.xmin as is_atomic from audit_entries e, feed_restarts f
      where e.action = 'switches.declare' and f.switch_number = 8`
    expect(entry).toEqual({ is_atomic: true })
    // The mark of the other server has a lower number from now on.
    expect(await switchOf(world, 8)).toMatchObject({ kind: 'restore', sign: 'operator', hold: 'all' })
    await eventually(async () => expect((await createPayment(client, {}, ASYNC)).status).toBe(202))
    expect(await status()).not.toContain('BEHIND')
    await eventually(async () =>
      expect((await metrics.databaseSwitches.get()).values).toContainEqual(
        expect.objectContaining({ labels: { kind: 'restore' }, value: 1 }),
      ),
    )
    const kept = verifyWitness(keys, name, (await redis.get(name))!)
    expect(decodeFacts(kept!)).toMatchObject({ switch: 8, system_identifier: facts.system_identifier })
  })

  test('a database that is behind its witness has gone back in time, on the same timeline too', async ({
    world,
  }) => {
    const { sql } = world
    const [before] = await sql<{ last: number }[]>`select last_switch as last from lineage`
    const [server] = await sql<{ facts: ServerFacts }[]>`select server_facts() as facts`
    const witness = { ...server!.facts, lsn: 'FF00000000000000', switch: before!.last }
    // A copy of the files has another start of the server than the one on record.
    await sql`update lineage set server_started_at = server_started_at - interval '1 minute'`
    const [checked] = await sql<{ server: CheckedServer }[]>`
      select check_server(${sql.json(witness)}::jsonb, true) as server`
    expect(checked!.server).toMatchObject({ state: 'current', recorded: true })
    expect(await switchOf(world, before!.last + 1)).toMatchObject({ sign: 'witness', kind: 'restore' })
  })

  test('a sealed database refuses requests, and is taken over by its new server without a wait', async ({
    world,
  }) => {
    const { client, sql } = world
    const [before] = await sql<{ last: number }[]>`select last_switch as last from lineage`
    await sql`update database_switches set lists_read_at = now() where lists_read_at is null`
    await sql`
      update database_switches set released_at = now(), released_by = 'me', messages = 'send' where released_at is null`
    const run = async (...more: string[]) => await runHere(recoverCommand, ['seal', ...more], world.env)
    const seal = async (...more: string[]) => expect(await run(...more)).toMatchObject({ code: 0 })
    const accepts = async (status: number) =>
      await eventually(async () => expect((await createPayment(client, {}, ASYNC)).status).toBe(status))
    expect(await run()).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was done') })
    await accepts(202)
    await seal('--yes')
    expect((await createPayment(client, {}, ASYNC)).status).toBe(503)
    await expectNotLate(world)
    await expectHeldUnread(world)
    await seal('--undo')
    const again = await run('--undo', '--json')
    expect(again).toMatchObject({ code: 1, stderr: 'The database was not sealed.\n' })
    expect(JSON.parse(again.stdout)).toMatchObject({ changed: false })
    await accepts(202)
    await seal('--yes')
    await sql`update lineage set system_identifier = '2'`
    expect(await switchOf(world, before!.last + 1)).toMatchObject({ kind: 'planned', hold: null, seal: null })
    await accepts(202)
  })
})

test('an opt-out that the database has lost is read again before an SMS that was accepted before is sent', async ({
  world,
}) => {
  const { client, sql, provider } = world
  const twilio = provider('twilio')
  const number = '+491701234999'
  const send = async (body: object = {}) =>
    (
      await client.post(
        '/v1/messages/sms',
        { idempotency_key: freshKey(), to: number, body: 'Hi', ...body },
        ASYNC,
      )
    ).body.id as string
  const stateOf = async (id: string) => (await client.get(`/v1/messages/${id}`)).body.status as string
  const first = await send()
  await eventually(async () => expect(await stateOf(first)).toBe('delivered'))
  const later = await send({ send_at: inSeconds(3600) })
  const other = await send({ to: '+491701234998', send_at: inSeconds(3600) })
  await pauseJobs(sql, { queue: 'messages' })
  const in_doubt = await send({ to: '+491701234997' })
  const inbound = { from: number, to: world.env['TWILIO_FROM'], body: 'Stop' }
  await twilio.control('POST', '/inbound', inbound)
  await eventually(async () => expect(await suppressionsOf(world, 'sms', number)).toHaveLength(1))
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`
    for (const table of ['suppressions', 'latest_opt_outs', 'notifications', 'notification_history'])
      await tx`delete from ${tx(table)}`
    await tx`delete from messages where status = 'received'`
    await tx`delete from jobs where queue = 'notifications'`
    await tx`delete from job_history where queue = 'notifications'`
  })

  // The list of received SMS has pages of 1,000; the lookup of an SMS has smaller ones.
  const refused = await twilio.fault({
    match: { method: 'GET', contains: '\n1000' },
    times: 1000,
    fault: 'refuse_401',
  })
  const [before] = await sql<{ last: number }[]>`select last_switch as last from lineage`
  await promote(world)
  expect(await switchOf(world, before!.last + 1)).toMatchObject({ kind: 'failover', opt_outs_read_at: null })
  await resumeJobs(sql, { queue: 'messages' })
  // What may have been sent is looked up, and not sent.
  await eventually(async () => expect(await stateOf(in_doubt)).toBe('unknown'))
  await sql`update jobs set run_at = now() where resource_id = ${other}`
  await eventually(async () => {
    const [job] = await sql`select last_error, failures from jobs where resource_id = ${other}`
    expect(JSON.stringify(job)).toContain('opt-outs since the switch of the database have not been read yet')
    // However long it waits, the retries after a refusal of the provider are left.
    expect(job).toMatchObject({ failures: 0 })
  })
  expect(await stateOf(other)).toBe('scheduled')
  const status = async () => (await runHere(recoverCommand, [], world.env)).stdout
  await eventually(async () =>
    expect(await status()).toContain('the list received SMS of twilio cannot be read since 20'),
  )
  expect(await status()).toContain('release --without-lists')
  await sql`update database_switches set lists_read_at = now() where lists_read_at is null`
  expect(await status()).toMatch(
    /^waiting {5}SMS that were accepted before the switch, until the received SMS have been read\n {12}2 jobs in messages$/m,
  )
  // An operator takes on that a lost opt-out is overruled.
  const release = ['release', '--without-lists', '--reason', 'no SMS received: asked Twilio']
  expect((await runHere(recoverCommand, release, world.env)).stdout).toContain('Nothing waits for the lists')
  await eventually(async () => expect(await stateOf(other)).toBe('delivered'))
  expect(await status()).toMatch(
    /^ {12}received SMS: being read, but nothing waits for them: decided at 20[^]*^waiting {5}nothing$/m,
  )

  await refused.remove()
  await eventually(async () => {
    const [read] =
      await sql`select opt_outs_read_at from database_switches where number = ${before!.last + 1}`
    expect(read!['opt_outs_read_at']).not.toBeNull()
  })
  expect(await suppressionsOf(world, 'sms', number)).toMatchObject([{ reason: 'opt_out', lifted: false }])
  expect(await status()).toContain('            received SMS: read at 20')
  await sql`update jobs set run_at = now() where resource_id = ${later}`
  await eventually(async () => expect(await stateOf(later)).toBe('suppressed'))
})

describeIn('with a synchronous standby', { env: { SYNCHRONOUS_STANDBY: 'true' } }, (test) => {
  test('its promotion loses nothing: nothing waits, and no call is in doubt', async ({ world }) => {
    const { client, sql } = world
    await pauseJobs(sql, { queue: 'payments' })
    const { body: payment } = await createPayment(client, {}, ASYNC)
    // The server of the tests has no standby.
    await sql`create or replace function raise_heartbeat() returns boolean return false`
    await sql`update database_heartbeat set is_synchronous = true`
    await promote(world)
    expect(await switchOf(world, 1)).toMatchObject({ kind: 'failover', jobs_in_doubt: 0, hold: null })
    await resumeJobs(sql, { queue: 'payments' })
    await eventually(async () => {
      expect((await client.get(`/v1/payments/${payment.id}`)).body.status).toBe('authorized')
    })
    expect(await sql`select from all_job_attempts where in_doubt`).toHaveLength(0)
  })
})

const SILENT = createLog('silent', 'test')

anyTest('a file remembers the newest text of one installation', async () => {
  const { path: folder, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const open = (path: string) => openWitnessPlace(`file://${folder}/${path}`, SILENT)
  const place = open('witness')
  expect(await place.keepNewest('one', null)).toBeNull()
  // Processes of other users read the file, whatever the umask of a service is.
  const umask = process.umask(0o077)
  onTestFinished(() => void process.umask(umask))
  expect(await place.keepNewest('one', 'b')).toBe('b')
  expect((await stat(`${folder}/witness`)).mode & 0o777).toBe(0o644)
  expect(await place.keepNewest('one', 'a')).toBe('b')
  expect(await place.keepNewest('one', 'c')).toBe('c')
  expect(await place.keepNewest('one', 'a', 'x')).toBe('c')
  expect(await place.keepNewest('one', 'a', 'c')).toBe('a')
  const other = `sluice:server:${randomUUID()} z\n`
  await writeFile(`${folder}/witness`, other)
  await expect(place.keepNewest('one', 'd')).rejects.toThrow('another installation')
  expect(await readFile(`${folder}/witness`, 'utf8')).toBe(other)
  for (const garbage of ['garbage\n', 'x', '\n\n', Buffer.from([0xff, 0xfe])]) {
    await writeFile(`${folder}/witness`, garbage)
    const invalid = await place.keepNewest('one', 'a')
    expect(await place.keepNewest('one', 'a', invalid!)).toBe('a')
    expect(await readFile(`${folder}/witness`, 'utf8')).toBe('one a\n')
  }
  await writeFile(`${folder}/witness`, `one ${'z'.repeat(20_000)}`)
  expect(await place.keepNewest('one', null)).toHaveLength(10_000 - 'one '.length)
  await expect(open('no/witness').keepNewest('one', 'a')).rejects.toThrow('does not exist')
  // A folder with this name cannot be replaced.
  await mkdir(`${folder}/folder`)
  await expect(open('folder').keepNewest('one', 'a')).rejects.toThrow('not a regular file')
  await symlink(`${folder}/witness`, `${folder}/link`)
  await expect(open('link').keepNewest('one', null)).rejects.toThrow('ELOOP')
  // A pipe that nobody writes to does not answer.
  await promisify(execFile)('mkfifo', [`${folder}/pipe`])
  await expect(open('pipe').keepNewest('one', 'a')).rejects.toThrow('not a regular file')
  const [first, second] = [place.keepNewest('one', null), place.keepNewest('one', null)]
  await expect(second).rejects.toThrow('has not answered the previous request')
  await first
  expect(await readdir(folder)).toEqual(['folder', 'link', 'pipe', 'witness'])
})

anyTest(
  'Redis remembers the newest text, and replaces one that is invalid whatever its bytes are',
  async () => {
    const redis = await createRedis()
    const client = new Redis(redis.url)
    onTestFinished(async () => {
      client.disconnect()
      await redis.kill()
    })
    const planted = [Buffer.from('zz'), Buffer.from([0xff, 0xfe]), Buffer.from(`z${'é'.repeat(6000)}`)]
    for (const bytes of planted) {
      await client.set('one', bytes)
      const invalid = await keepNewest(client, 'one', 'a')
      expect(invalid).toHaveLength(Math.min(bytes.length, 10_000))
      expect(await keepNewest(client, 'one', 'a', 'x')).toBe(invalid)
      expect(await keepNewest(client, 'one', 'a', invalid!)).toBe('a')
      expect(await keepNewest(client, 'one', null)).toBe('a')
    }
  },
)

anyTest('a signature covers the text and its name, and is valid while its key is in the list', () => {
  const keysOf = (keys: string, name = 'one') => witnessKeys(keys, name)
  const signed = signWitness(keysOf('old'), 'one', 'c')
  expect(signed).toMatch(/^c [0-9a-f]{64}$/)
  for (const keys of ['old', 'old, new', 'new,old'])
    expect(verifyWitness(keysOf(keys), 'one', signed)).toBe('c')
  expect(verifyWitness(keysOf('new'), 'one', signWitness(keysOf('new,old'), 'one', 'c'))).toBe('c')
  for (const [keys, name, text] of [
    [keysOf('new'), 'one', signed],
    [keysOf('old', 'two'), 'one', signed],
    [keysOf('old'), 'two', signed],
    [keysOf('old'), 'one', signed.replace('c', 'd')],
    [keysOf('old'), 'one', 'c'],
  ] as const)
    expect(verifyWitness(keys, name, text)).toBeNull()
})

anyTest('an https address gets user and password as UTF-8, and no redirect is followed', async () => {
  const sent = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response(''))
  onTestFinished(() => sent.mockRestore())
  for (const user of ['ada:p%40ss%E2%82%AC', 'ada:100%', ':token', '']) {
    const place = openWitnessPlace(`https://${user}@places.example/one`, SILENT)
    expect(await place.keepNewest('one', null)).toBeNull()
  }
  const credentials = sent.mock.calls.map(([, init]) => {
    const { authorization } = init!.headers as { authorization?: string }
    return authorization && Buffer.from(authorization.replace('Basic ', ''), 'base64').toString()
  })
  expect(credentials).toEqual(['ada:p@ss€', 'ada:100%', ':token', undefined])
  expect(sent.mock.calls.map(([, init]) => init!.redirect)).toEqual(Array(4).fill('error'))
})

anyTest('at most 10,000 bytes of the answer of an https address are read', async () => {
  let chunks = 0
  const endless = new ReadableStream({
    pull(controller) {
      chunks += 1
      controller.enqueue(Buffer.alloc(1000, chunks === 1 ? 'one z' : 'z'))
    },
  })
  const sent = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response(endless))
  onTestFinished(() => sent.mockRestore())
  const place = openWitnessPlace('https://places.example/one', SILENT)
  expect(await place.keepNewest('one', null)).toMatch(/^z/)
  expect(chunks).toBeLessThan(20)
})

anyTest('a copy that nothing uses becomes another installation, whose jobs wait', async () => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  const sql = connectDatabase(url, { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const read = async () => {
    const [row] = await sql`select i.id, l.hold from installation i, lineage l`
    return row!
  }
  const draw = (meanwhile = async () => {}) => {
    const args = ['new-installation', '--reason', 'the copy for staging']
    const answers = async function* () {
      await meanwhile()
      yield 'yes\n'
    }
    return runHere(recoverCommand, args, { DATABASE_URL: url }, answers())
  }
  // Whether the database was restored is not known before a process has checked its server.
  await sql`update lineage set server_started_at = server_started_at - interval '1 minute'`
  const { stdout } = await runHere(recoverCommand, [], { DATABASE_URL: url })
  expect(stdout).toContain('No witness remembers it. If it was restored, run npm run recover -- switched')
  const before = await read()
  const startWorker = async () => {
    await sql`
      insert into processes (id, name, version, host, pid) values (gen_random_uuid(), 'worker', '1', 'host', 17)`
  }
  const endWorker = async () => {
    await sql`update processes set seen_at = now() - interval '2 minutes'`
  }
  const in_use = { code: 1, stderr: expect.stringMatching(/worker \(host\/17\)\. Nothing was done/) }
  expect(await draw(startWorker)).toMatchObject(in_use)
  expect(await draw()).toMatchObject(in_use)
  const changed = {
    code: 1,
    stderr: expect.stringContaining('changed since the question: nothing was done.'),
  }
  await endWorker()
  const beat = async () => {
    await sql`update database_heartbeat set number = number + 1, at = clock_timestamp()`
  }
  expect(await draw(beat)).toMatchObject(changed)
  expect(await read()).toEqual(before)
  expect(await draw()).toMatchObject({ code: 0, stdout: expect.stringContaining(before['id']) })
  const after = await read()
  expect(after['hold']).toBe('all')
  expect(after['id']).not.toBe(before['id'])
  const acts = await sql`select action, details ->> 'to' as to from audit_entries order by seq desc limit 2`
  expect(acts).toEqual([
    { action: 'installation.draw', to: after['id'] },
    { action: 'switches.declare', to: null },
  ])
  // A change that does not say so is a mistake.
  await expect(sql`update installation set id = ${before['id']}`.execute()).rejects.toThrow('append-only')
})
