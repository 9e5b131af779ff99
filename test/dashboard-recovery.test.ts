// Switches of the database on the dashboard: what operators read, acknowledge and release.
import { expect } from 'vitest'
import { recoverCommand } from '#commands/recover.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { sealDatabase } from '#domain/switches/release.ts'
import { objectsResult } from '#workers/recurring/objects-position.ts'
import { runHere } from '#test/commands.ts'
import { loseEverythingOf, recordSwitch } from '#test/lost-rows.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  eventually,
  fault,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { signedInAs } from '#test/people.ts'
import { refundInDashboard } from '#test/stripe-events.ts'
import { goBackInTime } from '#test/switches.ts'
import { describeIn, testIn, type World } from '#test/world.ts'

const PARTS = ['api', 'webhooks', 'worker', 'dashboard'] as const
// No regular file: the place cannot be used.
const test = testIn({ parts: [...PARTS], env: { WITNESS_URL: 'file:///dev/null' } })

const lastEntry = async ({ sql }: World) => {
  const [head] = await sql<{ seq: number }[]>`select seq from audit_head`
  return head!.seq
}

test('operators read a switch with what it has lost, and acknowledging it changes nothing else', async ({
  world,
}) => {
  const operator = await signedInAs(world, { is_operator: true })
  const owner = await signedInAs(world, { role: 'owner' })
  const recovery = async () => (await operator.get('/api/ops/recovery')).body
  expect(await recovery()).toMatchObject({ hold: null, unreleased: [], unacknowledged: [], lost_since: null })

  const seq = await lastEntry(world)
  await goBackInTime(world, { lost_audit_entries: 3 })
  await createPayment(world.client, {}, ASYNC)
  const lost = { first: seq + 1, last: seq + 3 }
  const noticed = { number: 1, kind: 'restore', sign: 'witness', lost_audit_entries: lost }
  const state = await recovery()
  expect(state).toMatchObject({
    hold: 'all',
    is_sealed: false,
    is_on_lineage: true,
    unreleased: [1],
    unacknowledged: [noticed],
    protections_off: [
      'a witness cannot be used: WITNESS_URL: it is not a regular file',
      expect.stringContaining('SYNCHRONOUS_STANDBY'),
    ],
  })
  expect([state.lost_since, state.lost_until]).toEqual([
    state.unacknowledged[0].newest_at,
    state.unacknowledged[0].switched_at,
  ])
  expect((await operator.get('/api/ops/recovery/held')).body).toEqual([{ queue: 'payments', jobs: 1 }])

  const release = { up_to: 1, messages: 'send', reason: 'checked' }
  expect((await owner.post('/api/ops/switches/release', release)).status).toBe(403)
  expect((await owner.post('/api/ops/switches/1/acknowledge')).status).toBe(403)
  const acknowledged = await operator.post('/api/ops/switches/1/acknowledge')
  expect(acknowledged.status).toBe(204)
  expect((await operator.post('/api/ops/switches/1/acknowledge')).status).toBe(409)
  expect((await operator.post('/api/ops/switches/2/acknowledge')).status).toBe(404)
  const entry = acknowledged.headers.get('x-audit-entry')
  expect((await operator.get(`/api/ops/audit?seq=${entry}`)).body).toMatchObject([
    { actor: operator.email, action: 'switches.acknowledge', subject: 'switch', subject_id: '1' },
  ])
  expect(await recovery()).toMatchObject({ hold: 'all', unreleased: [1], unacknowledged: [] })
  // The entries since the switch do not hide that others were lost.
  for (let pauses = 0; pauses < 2; pauses++) {
    await operator.post('/api/ops/pauses', { queue: 'ai', reason: 'to have entries' })
    await operator.post('/api/ops/pauses/resume', { queue: 'ai' })
  }
  expect(await lastEntry(world)).toBeGreaterThan(lost.last)
  expect((await operator.get('/api/ops/switches')).body).toMatchObject([
    { ...noticed, acknowledged_by: operator.email },
  ])
  await world.sql`
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, switched_at)
    values (2, 'restore', 'operator', '1', 1, '1', 2, now(), clock_timestamp())`
  expect((await recovery()).recording).toMatchObject({
    number: 2,
    jobs_left: 1,
    feeds_left: expect.any(Number),
  })
  await world.sql`delete from database_switches where number = 2`
  const { stdout } = await runHere(recoverCommand, [], world.env)
  expect(stdout).toContain(`of the audit log, the entries ${lost.first} to ${lost.last} were lost`)
})

test('an operator releases only the switches that they have seen, with a reason', async ({ world }) => {
  const operator = await signedInAs(world, { is_operator: true })
  const { client, sql } = world
  const { number: seen } = await goBackInTime(world)
  const { number: unseen } = await goBackInTime(world)
  const { body: payment } = await createPayment(client, {}, ASYNC)
  const release = (body: object) => operator.post('/api/ops/switches/release', body)
  for (const body of [
    { up_to: seen, messages: 'send' },
    { up_to: seen, messages: 'keep', reason: 'checked' },
    { messages: 'send', reason: 'checked' },
  ])
    expect((await release(body)).status).toBe(400)

  const released = await release({ up_to: seen, messages: 'send', reason: 'checked' })
  expect(released).toMatchObject({ status: 200, body: { released: expect.arrayContaining([seen]) } })
  expect(released.body.released).not.toContain(unseen)
  expect((await operator.get('/api/ops/recovery')).body).toMatchObject({ hold: 'all', unreleased: [unseen] })
  const [audited] = (await operator.get(`/api/ops/audit?seq=${released.headers.get('x-audit-entry')}`)).body
  expect(audited).toMatchObject({
    actor: operator.email,
    action: 'switches.release',
    details: { messages: 'send', reason: 'checked', switches: released.body.released },
  })

  const last = { up_to: unseen, messages: 'discard', reason: 'checked too' }
  expect((await release(last)).body).toEqual({ released: [unseen], waived: [] })
  expect((await release(last)).status).toBe(409)
  const listed = async (query: string) => (await operator.get(`/api/ops/switches?${query}`)).body
  expect(await listed('limit=1')).toMatchObject([
    { number: unseen, released_by: operator.email, messages: 'discard' },
  ])
  expect(await listed(`limit=1&before=${unseen}`)).toMatchObject([
    { number: seen, released_by: operator.email, messages: 'send' },
  ])
  await paymentIn(client, payment.id, 'authorized')
  // The decision is final, also for the role of the dashboard.
  const reset = sql`update database_switches set released_at = null, released_by = null, messages = null`
  await expect(reset).rejects.toThrow(/^released_at of switch \d+ is final$/)
  const entries = await sql`select from audit_entries where action = 'switches.release'`
  expect(entries).toHaveLength(2)
})

test('a sealed database is read, and neither a challenge nor a longer session is stored', async ({
  world,
}) => {
  const { sql } = world
  const operator = await signedInAs(world, { is_operator: true })
  const by = commandActor('test', null)
  const challenge = () => operator.get('/api/auth/passkey/generate-authenticate-options')
  const expiry = async () => {
    const [session] =
      await sql`select max(expires_at) as at from user_sessions where user_id = ${operator.user_id}`
    return Date.parse(session!['at'])
  }
  await sealDatabase(sql, true, by)
  await eventually(async () => expect((await challenge()).status).toBe(503))
  await sql`update user_sessions set expires_at = now() + interval '1 day' where user_id = ${operator.user_id}`
  const before = await expiry()
  const stored = await sql`select from user_challenges`
  expect((await operator.get('/api/session')).status).toBe(200)
  expect((await operator.get('/api/auth/list-sessions')).status).toBe(503)
  expect((await challenge()).status).toBe(503)
  expect(await expiry()).toBe(before)
  expect(await sql`select from user_challenges`).toHaveLength(stored.length)
  await sealDatabase(sql, false, by)
  await eventually(async () => expect((await challenge()).status).toBe(200))
  // The seal waits for the lock of a recording that has just begun, and is refused then.
  const sealing = await sql.begin(async (tx) => {
    await tx`select from lineage for update`
    const refused = sealDatabase(sql, true, by)
    await eventually(async () => {
      const waiting =
        await sql`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%lineage%'`
      expect(waiting.length).toBeGreaterThan(0)
    })
    await tx`
      insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
        to_timeline, newest_at, switched_at)
      values (99, 'restore', 'operator', '1', 1, '1', 2, now(), clock_timestamp())`
    return { refused }
  })
  expect(await sealing.refused).toBe(false)
  await sql`delete from database_switches where number = 99`
  await eventually(async () => {
    expect((await operator.get('/api/session')).status).toBe(200)
    expect(await expiry()).toBeGreaterThan(before)
  })
})

describeIn('a server of the database that nobody has checked', { parts: ['dashboard'] }, (test) => {
  test('lets operators sign in at the dashboard and decide about switches, and nothing else', async ({
    world,
  }) => {
    const { sql } = world
    const operator = await signedInAs(world, { is_operator: true })
    const owner = await signedInAs(world, { role: 'owner' })
    // An old primary that comes back.
    await sql`update lineage set server_started_at = now() - interval '1 day'`
    const createKey = async () =>
      (await owner.post('/api/keys', { name: 'k', scopes: ['payments:read'] })).status
    await eventually(async () => expect(await createKey()).toBe(503))
    const pause = { queue: 'payments', reason: 'checked' }
    expect((await operator.post('/api/ops/pauses', pause)).status).toBe(503)
    expect((await operator.post('/api/ops/switches/1/acknowledge')).status).toBe(404)
    const wrong = { email: operator.email, password: 'wrong password' }
    expect((await operator.post('/api/auth/sign-in/email', wrong)).status).toBe(401)
  })
})

const EAGER = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0', DISABLED_AREAS: 'compliance' }

describeIn('what was recovered', { parts: [...PARTS], env: EAGER }, (test) => {
  test('a list that cannot be read is named, and holds payouts only until an operator waives it; no area that is off waits', async ({
    world,
  }) => {
    const { client, sql } = world
    const operator = await signedInAs(world, { is_operator: true })
    const recovery = async () => (await operator.get('/api/ops/recovery')).body
    const refuse = (path: string) => fault(world, { match: { path }, times: 10_000, fault: 'refuse_401' })
    await refuse('^/v1/identity/verification_sessions')
    const unreadable = await refuse('^/v1/transfers')
    const payment = await capturedPayment(client)
    await refundInDashboard(world, payment.processor_reference, 350)
    const { number } = await goBackInTime(world)
    const listed = {
      provider: 'stripe',
      list: 'transfers',
      error: expect.stringMatching(/^401 /),
    }
    await eventually(async () =>
      expect(await recovery()).toMatchObject({ failing_lists: [listed], awaiting_lists: [number] }),
    )
    // The other lists have been read.
    await eventually(async () => {
      const [reader] = await sql`select result, failure from recurring_work where name = 'objects of stripe'`
      expect(reader!.failure).toMatch(/^transfers: /)
      expect(Object.keys(objectsResult.parse(reader!.result).lists)).toContain('top_ups')
    })

    const release = { up_to: number, reason: 'checked' }
    const act = (body: object) => operator.post('/api/ops/switches/release', { ...release, ...body })
    expect((await act({ messages: null })).status).toBe(400)
    expect((await act({ messages: 'send' })).body).toEqual({ released: [number], waived: [] })
    expect(await recovery()).toMatchObject({ hold: 'creations', unreleased: [] })
    const status = async () => (await runHere(recoverCommand, [], world.env)).stdout
    expect(await status()).toContain('the list transfers of stripe cannot be read since 20')
    expect(await status()).toContain('release --without-lists')

    const waived = await runHere(
      recoverCommand,
      ['release', '--without-lists', '--reason', 'no transfers here'],
      world.env,
    )
    expect(waived.stdout).toBe(`Nothing waits for the lists of the providers since switch ${number}.\n`)
    expect(await recovery()).toMatchObject({ hold: null, awaiting_lists: [], failing_lists: [listed] })
    expect((await act({ messages: null, without_lists: true })).status).toBe(409)
    const [entry] =
      await sql`select details from audit_entries where action = 'switches.release' order by seq desc`
    expect(entry!.details).toMatchObject({
      reason: 'no transfers here',
      switches: [],
      without_lists: [number],
      failing_lists: [expect.stringMatching(/^transfers of stripe: /)],
    })
    // The lists are still read, and what they show is recovered.
    expect((await operator.get('/api/ops/switches?limit=1')).body).toMatchObject([
      { number, lists_read_at: null, lists_waived_by: expect.stringContaining('npm run recover') },
    ])
    await unreadable.remove()
    await eventually(async () => {
      const [row] =
        await sql`select lists_read_at is not null as is_read from database_switches where number = ${number}`
      expect(row).toEqual({ is_read: true })
    })
    expect(await recovery()).toMatchObject({ failing_lists: [] })
    expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({
      amount_refunded_minor: 350,
    })
  })

  test('operators read which rows were made again since the last switch, and which requests were lost', async ({
    world,
  }) => {
    const operator = await signedInAs(world, { is_operator: true })
    const client = await world.clientOf({ tenant: 'bakery' })
    const { id } = await capturedPayment(client)
    const { body: refunded } = await refund(client, id, { amount_minor: 100 })
    await world.drain()
    const recovered = async () => (await operator.get('/api/ops/recovery/recovered')).body
    expect(await recovered()).toEqual({ counts: [], latest: [] })
    await loseEverythingOf(world, client.tenant_id)
    const row = { subject_id: id, tenant: 'bakery', recovered_at: expect.any(String) }
    await eventually(async () =>
      expect(await recovered()).toEqual({
        counts: expect.arrayContaining([
          { resource: 'payment', rows: 1 },
          { resource: 'refund', rows: 1 },
        ]),
        latest: expect.arrayContaining([
          { ...row, resource: 'payment', resource_id: id },
          { ...row, resource: 'refund', resource_id: refunded.id },
        ]),
      }),
    )
    const lost_requests = async () => (await operator.get('/api/ops/recovery/lost-requests')).body
    const path = 'POST /v1/customers'
    await world.sql`
      insert into lost_requests (tenant_id, id, entry, switch_number, idempotency_key, path, resource_id, accepted_at)
      values (${client.tenant_id}, ${id}, '1-0', 1, 'customer-17', ${path}, ${id}, now())`
    // The capture, which has no key, may be among them: Redis has recorded it.
    const lost = { tenant: 'bakery', idempotency_key: 'customer-17', path, resource_id: id }
    const { count, latest } = await lost_requests()
    expect(latest).toEqual(expect.arrayContaining([expect.objectContaining(lost)]))
    expect(count).toBe(latest.length)
    // After another switch, only what is recovered since then.
    await recordSwitch(world.sql)
    expect(await recovered()).toEqual({ counts: [], latest: [] })
  })
})
