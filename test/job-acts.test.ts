// Operators list, retry, discard and resolve unknown and parked jobs with the command; each act has an author, a reason
// and an audit entry.
import { expect } from 'vitest'
import { jobsCommand } from '#commands/jobs.ts'
import { queuesCommand } from '#commands/queues.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { findJob, type ListedJob, type JobDetail } from '#domain/job-acts/find.ts'
import { requestedActSchema, requestAct, findAct } from '#domain/operator-acts/act.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findAuditEntries, type AuditEntry } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { WITHOUT_USER_NAME, runCommand, runHere } from '#test/commands.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { pay } from '#test/load.ts'
import {
  ASYNC,
  capturedPayment,
  effectsOf,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
  unknownRefund,
} from '#test/payments.ts'
import { accountOf } from '#test/payouts.ts'
import { deliver, listEvents } from '#test/stripe-events.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ notifications: false })

const BY = ['--by', 'ada', '--reason', 'as support told']

async function jobs(world: World, ...args: string[]) {
  return await runHere(jobsCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
}

/** The audit entries of a command, newest first. */
async function auditEntriesOf(world: World, command: string, limit: number): Promise<AuditEntry[]> {
  const { actor } = commandActor(command, null)
  return (await findAuditEntries(world.sql, { tenant_id: null, actor: actor!, limit })).entries
}

async function findDetail(world: World, id: string): Promise<JobDetail> {
  return (await findJob(world.sql, id))!
}

async function listJobs(world: World, ...args: string[]): Promise<ListedJob[]> {
  const { code, stdout, stderr } = await jobs(world, 'list', '--json', ...args)
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

async function awaitRefundStatus(client: Client, id: string, status: string): Promise<void> {
  await eventually(async () => expect((await client.get(`/v1/refunds/${id}`)).body).toMatchObject({ status }))
}

/** A parked capture of a payment. Its call was first sent the given number of hours ago; null: never. */
async function parkedCapture(world: World, sent_hours_ago: number | null = null) {
  const payment = await authorizedPayment(world.client)
  await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
  await world.client.post(`/v1/payments/${payment.id}/capture`, { amount_minor: 400 }, ASYNC)
  const [job] = await world.sql<{ id: string }[]>`
    update jobs set state = 'unknown', unknown_since = now(), run_at = 'infinity', attempt = 30,
      first_sent_at = now() - ${sent_hours_ago} * interval '1 hour'
    where resource_id = ${payment.id} and name = 'payment.capture' returning id`
  await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
  return { payment, job_id: job!.id }
}

test('a refund without an effect is resolved as failed, and its reserved amount is freed', async ({
  world,
  client,
}) => {
  const { payment, refund_id, job_id } = await unknownRefund(world)
  const of_payment = { name: 'refund.create', tenant: 'acme', resource: 'payment', resource_id: payment.id }
  expect(await listJobs(world, '--resource', payment.id, '--state', 'unknown')).toMatchObject([
    { id: job_id, ...of_payment },
  ])
  const done = await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
  expect([done.code, done.stderr]).toEqual([0, ''])
  await awaitRefundStatus(client, refund_id, 'failed')
  expect((await refund(client, payment.id, { amount_minor: 1000 })).status).toBe(201)
  expect(await findDetail(world, job_id)).toMatchObject({
    state: 'failed',
    calls: [{ outcome: 'declined' }],
    acts: [{ actor: 'ada', act: 'resolve', reason: 'as support told', before: 'unknown', after: 'failed' }],
  })
  const { stdout } = await jobs(world, 'show', job_id)
  expect(stdout).toMatch(/operator acts\n.* actor=ada {2}act=resolve {2}reason=as support told/)
  const repeated = await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
  expect([repeated.code, repeated.stderr]).toEqual([1, expect.stringContaining('failed')])
  await expect(world.sql`update job_acts set actor = 'nobody'`).rejects.toThrow('append-only')
})

/** A new tenant with two refunds with an unknown effect, and a capture that waits for the end of a pause. */
async function createUnknownRefunds(world: World) {
  const tenant = `unknown-${freshKey()}`
  const shop = await world.clientOf({ tenant })
  const shop_world = { ...world, client: shop }
  const refunds = [await unknownRefund(shop_world), await unknownRefund(shop_world)]
  const { id } = await authorizedPayment(shop)
  await world.sql`insert into pauses (tenant_id) values (${shop.tenant_id})`
  await shop.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
  const statuses = async () =>
    await Promise.all(
      refunds.map(async ({ refund_id }) => (await shop.get(`/v1/refunds/${refund_id}`)).body.status),
    )
  const capture = async () => (await shop.get(`/v1/payments/${id}`)).body.status
  const resume = async () => {
    await world.sql`delete from pauses where tenant_id = ${shop.tenant_id}`
    await paymentIn(shop, id, 'captured')
  }
  return { shop, tenant, refunds, statuses, capture, resume }
}

test('one command resolves all unknown jobs of a tenant and no other jobs, and records an act for each job', async ({
  world,
}) => {
  const { tenant, refunds, statuses, capture, resume } = await createUnknownRefunds(world)
  const other = await unknownRefund(world)
  const filter = ['--state', 'unknown', '--tenant', tenant]
  // Several jobs cannot be resolved as done at once, because each job needs its own reference.
  const done = await jobs(world, 'resolve', ...filter, '--as', 'done', ...BY)
  expect(done.stdout).toContain('0 jobs are resolved.')
  expect(done.stdout).toContain('The reference is required')
  expect(await statuses()).toEqual(['pending', 'pending'])
  const { code, stdout, stderr } = await jobs(world, 'resolve', ...filter, '--as', 'failed', ...BY)
  expect([code, stderr, stdout]).toEqual([0, '', '2 jobs are resolved.\n'])
  expect(await statuses()).toEqual(['failed', 'failed'])
  expect(await capture()).toBe('capturing')
  for (const { job_id } of refunds)
    expect(await findDetail(world, job_id)).toMatchObject({
      state: 'failed',
      acts: [{ actor: 'ada', act: 'resolve', before: 'unknown', after: 'failed' }],
    })
  expect(await findDetail(world, other.job_id)).toMatchObject({ state: 'unknown' })
  await jobs(world, 'resolve', other.job_id, '--as', 'failed', ...BY)
  await resume()
  expect((await jobs(world, 'resolve', '--as', 'failed', ...BY)).stderr).toContain('--state unknown')
  expect(
    (await jobs(world, 'resolve', ...filter, '--as', 'done', '--reference', 're_1', ...BY)).stderr,
  ).toContain('one job')
})

test('an act resolves the unknown jobs that match its filter, and no act can resolve jobs in other states', async ({
  world,
}) => {
  const { shop, refunds, statuses, capture, resume } = await createUnknownRefunds(world)
  const filter = { state: 'unknown', tenant_id: shop.tenant_id } as const
  const request = { act: 'resolve', filter, reason: 'the account was closed', took_effect: false } as const
  const id = await requestAct(world.sql, request, { actor: 'ada@example.com', matched: 2 })
  const act = await eventually(async () => {
    const now = await findAct(world.sql, id)
    expect(now).toMatchObject({ state: 'done' })
    return now!
  })
  expect(act).toMatchObject({ found: 2, done: 2, refused: 0 })
  expect(await statuses()).toEqual(['failed', 'failed'])
  expect(await capture()).toBe('capturing')
  expect(await findDetail(world, refunds[0]!.job_id)).toMatchObject({ state: 'failed' })
  const refused = [
    { ...request, filter: { ...filter, state: 'open' } },
    { ...request, filter: { ...filter, state: 'parked' } },
    { ...request, took_effect: true, reference: 're_1' },
    { ...request, took_effect: undefined },
  ]
  for (const body of refused) expect(requestedActSchema.safeParse(body).success).toBe(false)
  await resume()
})

/** Runs `work` while another refund reserves the amount. Afterwards the processor refuses that other refund. */
async function releaseAnotherRefund(world: World, payment: any, work: () => Promise<void>): Promise<void> {
  const match = { method: 'POST', contains: `payment_intent=${payment.processor_reference}` }
  const hold = await fault(world, { match, fault: { hold: 'before' } })
  const { body } = await refund(world.client, payment.id, {}, ASYNC)
  await hold.hit()
  await work()
  expect((await world.client.get(`/v1/payments/${payment.id}`)).body.amount_refunded_minor).toBe(0)
  await hold.release()
  await awaitRefundStatus(world.client, body.id, 'failed')
}

test.for([
  ['immediately', async (_world: World, _payment: any, work: () => Promise<void>) => await work()],
  ['after another refund releases the amount', releaseAnotherRefund],
] as const)(
  'a refund that is resolved as failed but exists at the processor is posted %s, and opens a drift',
  async ([_when, meanwhile], { world, client }) => {
    const { payment, refund_id, job_id } = await unknownRefund(world)
    const done = await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
    expect(done.code).toBe(0)
    await awaitRefundStatus(client, refund_id, 'failed')
    const amounts = async () => (await client.get(`/v1/payments/${payment.id}`)).body.amount_refunded_minor
    const account = async () => await accountOf(world, world.tenant_id)
    const before = await account()
    // The processor makes the refund nevertheless.
    const { url, api_key } = world.provider('stripe')
    const created = await fetch(`${url}/v1/refunds`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: `payment_intent=${payment.processor_reference}&amount=300&metadata[sluice_refund_id]=${refund_id}&metadata[sluice_payment_id]=${payment.id}&metadata[sluice_tenant_id]=${world.tenant_id}`,
    })
    const { id: reference, status } = (await created.json()) as { id: string; status: string }
    expect(status).toBe('succeeded')
    const drifts = async () => (await client.get(`/v1/reconciliation?payment_id=${payment.id}`)).body
    const deliverEvents = async () => {
      for (const event of await listEvents(world, payment.processor_reference)) await deliver(world, event)
    }
    // In one case a second refund, which the processor refuses, reserves the amount.
    await meanwhile(world, payment, async () => {
      await deliverEvents()
      await eventually(async () => expect(await drifts()).toMatchObject([{ subject_id: refund_id }]))
    })
    const lookup = requestLookup(
      { provider: 'stripe', livemode: true },
      { resource: 'refund', reference, tenant_id: null },
      'later',
    )
    await storeNotifications(world.sql, [lookup])
    await eventually(async () => expect(await amounts()).toBe(300))
    await awaitRefundStatus(client, refund_id, 'failed')
    const [row] = await world.sql`
    select r.processor_reference, r.out_minor, p.amount_refund_reserved_minor as reserved_minor
    from refunds r join payments p on p.id = r.payment_id where r.id = ${refund_id}`
    expect(row).toEqual({ processor_reference: reference, out_minor: 300, reserved_minor: 300 })
    expect((await account()).balance).toBe(before.balance - 300)
    await eventually(async () =>
      expect(await drifts()).toMatchObject([
        {
          subject: 'refund',
          subject_id: refund_id,
          detail: 'the refund has failed here, but the processor has made it',
        },
      ]),
    )
    expect((await refund(client, payment.id, { amount_minor: 701 })).body.error.code).toBe(
      'refund_exceeds_captured',
    )
    const { problems } = await auditEverything(world.sql)
    expect(problems.filter(({ resource_id }) => resource_id === payment.id)).toEqual([])

    // The refund fails at the processor later.
    await world.provider('stripe').control('POST', `/refunds/${reference}/settle`, { status: 'failed' })
    await deliverEvents()
    await eventually(async () => expect(await drifts()).toEqual([]))
    expect(await amounts()).toBe(0)
    expect((await account()).balance).toBe(before.balance)
  },
)

/** A refund that the processor has made, and whose response is lost until the fault is removed. */
async function unansweredRefund(world: World) {
  const payment = await capturedPayment(world.client)
  const match = { method: 'POST', contains: `payment_intent=${payment.processor_reference}` }
  const lost = await fault(world, { match, fault: 'drop_after' })
  const failing = await fault(world, { match, times: 1000, fault: 'error_500_unstored' })
  const { body } = await refund(world.client, payment.id, {}, ASYNC)
  await lost.hit()
  await failing.hit()
  const [job] = await listJobs(world, '--payment', payment.id, '--state', 'open')
  return { payment, refund_id: body.id as string, job_id: job!.id, failing }
}

test('a refund that a notification has settled cannot be resolved as failed', async ({ world, client }) => {
  const { payment, refund_id, job_id, failing } = await unansweredRefund(world)
  const events = await listEvents(world, payment.processor_reference)
  for (const event of events) await deliver(world, event)
  await awaitRefundStatus(client, refund_id, 'succeeded')
  const refused = await eventually(async () => {
    const answer = await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
    // While the job is running, the refusal has another reason, so the command is repeated.
    expect(answer.stderr).not.toContain('running')
    return answer
  })
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining('the refund has the status succeeded; there is nothing to resolve'),
  ])
  await awaitRefundStatus(client, refund_id, 'succeeded')
  expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({ amount_refunded_minor: 1000 })
  await failing.remove()
  await jobs(world, 'retry', job_id, ...BY)
  await eventually(async () =>
    expect(await findDetail(world, job_id)).toMatchObject({
      state: 'succeeded',
      calls: [{ outcome: 'done' }],
    }),
  )
})

test('a refund that was made manually can be resolved with its own reference, but not with that of another refund', async ({
  world,
  client,
}) => {
  const { payment, refund_id, job_id } = await unknownRefund(world)
  const { body: another } = await refund(client, (await capturedPayment(client)).id, { amount_minor: 300 })
  const right = await world.provider('stripe').control('POST', '/refunds', {
    payment_intent: payment.processor_reference,
    amount: 300,
  })
  expect((await jobs(world, 'resolve', job_id, '--as', 'done', ...BY)).stderr).toContain('--reference')
  await jobs(world, 'resolve', job_id, '--as', 'done', '--reference', another.processor_reference, ...BY)
  await eventually(async () => expect((await findDetail(world, job_id)).error).toContain('another refund'))
  await awaitRefundStatus(client, refund_id, 'pending')
  const { stdout } = await jobs(world, 'resolve', job_id, '--as', 'done', '--reference', right.id, ...BY)
  expect(stdout).toContain('looked up')
  await awaitRefundStatus(client, refund_id, 'succeeded')
  expect((await client.get(`/v1/refunds/${refund_id}`)).body).toMatchObject({ processor_reference: right.id })
  expect((await findDetail(world, job_id)).acts).toHaveLength(2)
})

test("a parked job is listed as parked, and a retry repeats the job's call with its old key", async ({
  world,
  client,
}) => {
  const { payment, job_id } = await parkedCapture(world)
  expect((await listJobs(world, '--state', 'parked', '--tenant', 'acme')).map(({ id }) => id)).toEqual([
    job_id,
  ])
  const done = await jobs(world, 'retry', job_id, ...BY)
  expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('due now')])
  expect(await paymentIn(client, payment.id, 'captured')).toMatchObject({ amount_captured_minor: 400 })
  expect((await findDetail(world, job_id)).calls).toMatchObject([{ key: `${job_id}:1`, outcome: 'done' }])
  const repeated = await jobs(world, 'retry', job_id, ...BY)
  expect([repeated.code, repeated.stderr]).toEqual([1, expect.stringContaining('succeeded')])
})

test('a retry of a call whose key has expired looks the call up and sends nothing', async ({
  world,
  client,
}) => {
  const { payment, refund_id, job_id } = await unknownRefund(world)
  await world.sql`update jobs set first_sent_at = now() - interval '24 hours' where id = ${job_id}`
  const { attempt } = await findDetail(world, job_id)
  const { stdout } = await jobs(world, 'retry', job_id, ...BY)
  expect(stdout).toContain('not sent')
  await eventually(async () =>
    expect(await findDetail(world, job_id)).toMatchObject({ state: 'unknown', attempt: attempt + 1 }),
  )
  expect((await effectsOf(world, payment.processor_reference)).map(({ effect }) => effect)).toEqual([
    'authorize',
    'capture',
  ])
  await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
  await awaitRefundStatus(client, refund_id, 'failed')
})

test('a capture without an effect is resolved as failed, and the payment can be captured again', async ({
  world,
  client,
}) => {
  const { payment, job_id } = await parkedCapture(world, 30)
  const refused = await jobs(world, 'discard', job_id, ...BY)
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(
      /^Not possible: the job is .+ unknown .+\nThe resource waits for the call of the job: resolve the call instead/,
    ),
  ])
  await world.sql`update jobs set request = '{}' where id = ${job_id}`
  expect((await jobs(world, 'resolve', job_id, '--as', 'done', ...BY)).stderr).toContain('cannot be read')
  await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)
  expect(await paymentIn(client, payment.id, 'authorized')).toMatchObject({
    amount_capturable_minor: 1000,
    capture_before: payment.capture_before,
    failure: { code: 'processor_error', message: 'The call did not take effect at the provider.' },
  })
  const [event] =
    await world.sql`select type from events where subject_id = ${payment.id} order by created_at desc limit 1`
  expect(event).toEqual({ type: 'payment.capture_failed' })
  expect((await client.post(`/v1/payments/${payment.id}/capture`)).body).toMatchObject({ status: 'captured' })
})

test('a job without a provider call can be discarded, and then retried', async ({ world }) => {
  const id = newId()
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    values (${id}, ${world.tenant_id}, 'maintenance', 'nobody.knows', '{}', 1, 'infinity')`
  for (const [act, state] of [
    ['discard', 'discarded'],
    ['retry', 'ready'],
    ['discard', 'discarded'],
  ] as const) {
    expect(await jobs(world, act, id, ...BY)).toMatchObject({ code: 0, stderr: '' })
    expect(await findDetail(world, id)).toMatchObject({ state })
  }
  expect((await findDetail(world, id)).acts.map(({ act }) => act)).toEqual(['discard', 'retry', 'discard'])
  const acts = ['jobs.discard', 'jobs.retry', 'jobs.discard']
  expect(await auditEntriesOf(world, 'npm run jobs', 3)).toMatchObject(
    acts.map((action) => ({
      action,
      subject: 'job',
      subject_id: id,
      details: { actor: 'ada', reason: BY[3] },
    })),
  )
})

test('an operator account without a name is recorded by its user id', async ({ world }) => {
  const id = newId()
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    values (${id}, ${world.tenant_id}, 'maintenance', 'nobody.knows', '{}', 1, 'infinity')`
  const done = await runCommand('src/commands/jobs.ts', ['discard', id, '--reason', 'by mistake'], {
    DATABASE_URL: world.config.DATABASE_URL,
    ...WITHOUT_USER_NAME,
  })
  expect(done).toMatchObject({ code: 0, stderr: '' })
  expect((await findDetail(world, id)).acts).toMatchObject([{ actor: `uid ${process.getuid!()}` }])
})

test('a notification whose job was discarded is ignored, and a job in the history can be found', async ({
  world,
}) => {
  const id = newId()
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    values (${id}, ${SYSTEM_TENANT_ID}, 'maintenance', 'nobody.knows', '{}', 1, 'infinity')`
  await world.sql`
    insert into notifications (id, provider, event_id, kind, payload, state, reason, waits_for, parked_at)
    values (${id}, 'stripe', ${id}, 'refund.updated', '{}', 'parked', 'poison', 're_1', now())`
  expect(await jobs(world, 'discard', id, ...BY)).toMatchObject({ code: 0, stderr: '' })
  const [notification] =
    await world.sql`select state, reason, waits_for, parked_at from notifications where id = ${id}`
  expect(notification).toEqual({ state: 'ignored', reason: 'poison', waits_for: null, parked_at: null })
  await world.sql`update jobs set finished_at = now() - interval '31 days' where id = ${id}`
  await world.sql`select move_finished_jobs('-infinity', ${id}, 1000)`
  expect([...(await world.sql`select from jobs where id = ${id}`)]).toEqual([])
  expect([...(await world.sql`select state from notification_history where id = ${id}`)]).toEqual([
    { state: 'ignored' },
  ])
  expect(await findDetail(world, id)).toMatchObject({
    state: 'discarded',
    acts: [{ act: 'discard' }],
  })
})

test('jobs of every state are listed newest first, whatever the order of their ids', async ({ world }) => {
  // The ids of notifications are not in the order of time. One of the two jobs moves to the history.
  const [older, newer] = ['ffffffff-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000001']
  for (const [id, hours] of [
    [older, 3],
    [newer, 2],
  ] as const)
    await world.sql`
      insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, created_at, finished_at)
      values (${id}, ${world.tenant_id}, 'compliance', 'nobody.knows', '{}', 1, 'succeeded',
        now() - ${hours} * interval '1 hour', now() - ${hours} * interval '1 hour')`
  for (const moved of [0, 1000]) {
    await world.sql`select move_finished_jobs('-infinity', ${older}, ${moved})`
    for (const state of ['all', 'succeeded'])
      expect((await listJobs(world, '--state', state, '--queue', 'compliance')).map(({ id }) => id)).toEqual([
        newer,
        older,
      ])
  }
})

test('a wrong command and an act without a reason are refused with a one-line error', async ({ world }) => {
  const commands: [args: string[], text: string][] = [
    [['--help'], '--queue: one of payments, payouts, compliance, messages, notifications, deliveries, ai.'],
    [['list', '--state', 'lost'], '--state must be one of'],
    [['list', '--queue', 'payment'], 'There is no queue "payment". Queues: payments, payouts, '],
    [['show', newId()], 'There is no such job.'],
    [['retry', newId()], '--reason is missing'],
    [['retry', '--state', 'parked'], '--reason is missing'],
    [['resolve', '--state', 'unknown', '--as', 'failed'], '--reason is missing'],
    [['retry', newId(), ...BY], 'There is no such job.'],
    [['resolve', newId(), ...BY], '--as must be one of done, failed'],
  ]
  const answers = await Promise.all(commands.map(async ([args]) => await jobs(world, ...args)))
  for (const [index, { stdout, stderr }] of answers.entries())
    expect(stdout + stderr).toContain(commands[index]![1])
})

test('after all scenarios the ledger balances and matches the processor', async ({ world }) => {
  await world.drain()
  expect(await findRemainingProblems(world)).toEqual([])
})

// This test leaves the ledger different from the processor, so it comes after the check.
test('a refund that is resolved as failed but exists at the processor is a drift', async ({
  world,
  client,
}) => {
  const { payment, refund_id, job_id } = await unansweredRefund(world)
  await eventually(async () =>
    expect(await jobs(world, 'resolve', job_id, '--as', 'failed', ...BY)).toMatchObject({
      code: 0,
      stderr: '',
    }),
  )
  await awaitRefundStatus(client, refund_id, 'failed')
  await eventually(async () =>
    expect((await client.get(`/v1/reconciliation?payment_id=${payment.id}`)).body).toMatchObject([
      { subject: 'payment', state: 'differs', theirs: { amount_refunded_minor: 1000 } },
    ]),
  )
})

test('a queue that is paused for a tenant continues after the resume', async ({ world, client }) => {
  const queues = async (...args: string[]) =>
    await runHere(queuesCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
  const other = await world.clientOf()
  const [tenant] = await world.sql`select slug from tenants where id = ${other.tenant_id}`
  const target = ['payments', '--tenant', tenant!.slug as string]
  expect(await queues('pause', ...target)).toMatchObject({ code: 1, stdout: '' })
  expect((await queues()).stdout).toMatch(/^payments +due /)
  expect((await queues('pause', '--reason', 'none is named')).stderr).toContain('Name a queue')
  expect((await queues('pause', 'payment', '--reason', 'misspelled')).stderr).toContain('payments, payouts')
  expect(await queues('pause', ...target, '--reason', 'they asked')).toMatchObject({
    code: 0,
    stdout: 'Paused.\n',
  })
  expect((await queues('pause', ...target, '--reason', 'again')).stdout).toContain('already paused')

  expect((await pay(client)).answers).toEqual([201, 200])
  const { body } = await other.post(
    '/v1/payments',
    { ...BY_CARD, idempotency_key: freshKey(), amount_minor: 500 },
    { prefer: 'wait=0' },
  )
  expect(body.status).toBe('pending')
  const overview = (await queues('list')).stdout
  expect(overview).toMatch(/^payments +due 1 /m)
  expect(overview).toContain(`PAUSED  queue payments, tenant ${tenant!.slug}  since `)
  await world.sql`update pauses set reason = ${'they\u009b2J\nasked'} where tenant_id = ${other.tenant_id}`
  expect((await queues('list')).stdout).toMatch(/: they 2J asked$/m)

  expect((await queues('resume', ...target)).stdout).toBe('Resumed.\n')
  await eventually(async () =>
    expect((await other.get(`/v1/payments/${body.id}`)).body.status).toBe('authorized'),
  )
  expect((await queues('resume', ...target)).stdout).toContain('no such pause')
  const entry = { tenant: tenant!.slug, subject: 'queue', subject_id: 'payments' }
  expect(await auditEntriesOf(world, 'npm run queues', 10)).toMatchObject([
    { ...entry, action: 'jobs.resume' },
    { ...entry, action: 'jobs.pause', details: { reason: 'they asked' } },
  ])
  expect(JSON.parse((await queues('list', '--json')).stdout).pauses).toEqual([])
})
