// The operations API of the dashboard: permissions, the responses of each route after work of all kinds, and the acts
// of operators.
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { QUEUES } from '#core/config/queues.ts'
import { newId, newIdsInOrder } from '#core/ids.ts'
import { metrics } from '#core/metrics.ts'
import { warnOfExpiry } from '#domain/payments/expiry.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { BUCKETS } from '#domain/webhook-endpoints/numbers.ts'
import { freshKey } from '#test/client.ts'
import { disputedPayment, disputeIn } from '#test/disputes.ts'
import { drift, eventually, fault, authorizedPayment, unknownRefund } from '#test/payments.ts'
import { signedInAs, type Browser, type Person } from '#test/people.ts'
import { until } from '#test/process.ts'
import { decide, verificationOf } from '#test/verifications.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

let operator: Browser & Person
const test = testIn({ parts: ['api', 'webhooks', 'worker', 'dashboard'] })
test.beforeAll(async ({ world }) => {
  operator = await signedInAs(world, { is_operator: true })
})

function cookieOf({ cookies }: Browser): string {
  return Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ')
}

/** Inserts parked jobs with an unknown name. */
async function parkJobs(world: World, count: number, name: string): Promise<string[]> {
  const ids = newIdsInOrder(count)
  await world.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    select id, ${world.tenant_id}, 'messages', ${name}, '{}', 1, 'infinity' from unnest(${ids}::uuid[]) id`
  return ids
}

const READS = [
  'queues',
  'queues/payments/names',
  `series?queue=payments&from=${new Date(Date.now() - 3600_000).toISOString()}&to=${new Date().toISOString()}`,
  'shares',
  'tenants?search=acme',
  'providers',
  'processes',
  'schedules',
  'drifts',
  'parked',
  'jobs?state=all',
  'jobs/count',
  'acts',
  'pauses',
  'recovery',
  'recovery/held',
  'recovery/recovered',
  'recovery/lost-requests',
  'switches',
  'audit',
]

test('only operators can read operations, and each route responds after work of all kinds', async ({
  world,
}) => {
  const owner = await signedInAs(world, { role: 'owner' })
  const { client, sql } = world
  const payment = await client.post('/v1/payments', {
    amount_minor: 4200,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_visa',
    idempotency_key: 'mixed-1',
  })
  await client.post('/v1/payments', {
    amount_minor: 100,
    currency: 'USD',
    method: 'card',
    payment_method: 'pm_card_chargeDeclined',
    idempotency_key: 'mixed-2',
  })
  await world.drain()
  const [parked] = await parkJobs(world, 1, 'mixed.parked')
  const captured = (await client.post(`/v1/payments/${payment.body.id}/capture`)).body

  for (const path of READS) {
    expect((await fetch(`${world.dashboard_url}/api/ops/${path}`)).status, path).toBe(401)
    expect((await owner.get(`/api/ops/${path}`)).status, path).toBe(403)
    const answer = await operator.get(`/api/ops/${path}`)
    expect([path, answer.status, answer.body?.error]).toEqual([path, 200, undefined])
  }
  expect((await owner.send('POST', '/api/ops/pauses', { queue: 'ai', reason: 'no' })).status).toBe(403)

  const [job] = await sql<{ id: string }[]>`
    select id from (
      select id, created_at from jobs where resource_id = ${payment.body.id} union all
      select id, created_at from job_history where resource_id = ${payment.body.id}) j order by created_at`
  const shown = (await operator.get(`/api/ops/jobs/${job!.id}`)).body
  expect(shown).toMatchObject({
    tenant: 'acme',
    state: 'succeeded',
    works_on: { resource: 'payment', id: payment.body.id, amount_minor: 4200, idempotency_key: 'mixed-1' },
  })
  expect(shown.attempts).toHaveLength(1)
  // The job shows the postings of its payment.
  expect([captured.status, shown.postings]).toEqual([
    'captured',
    [{ at: expect.any(String), kind: 'capture', added: true, amount_minor: 4200, currency: 'USD' }],
  ])
  expect(shown.calls[0].key).toContain(job!.id)
  const found = (await operator.get(`/api/ops/jobs?state=all&search=${payment.body.id}`)).body
  expect(found.items.map(({ id }: { id: string }) => id)).toContain(job!.id)
  const counted = (await operator.get('/api/ops/jobs/count?state=parked&tenant=acme&name=mixed.parked')).body
  expect(counted).toEqual({
    count: 1,
    more: false,
    filter: { state: 'parked', name: 'mixed.parked', tenant_id: world.tenant_id },
  })
  expect((await operator.get('/api/ops/jobs/count?search=mixed')).body.filter).toBeNull()
  expect((await operator.get(`/api/ops/jobs/${parked}`)).body).toMatchObject({ parked: true, run_at: null })
  expect((await operator.get(`/api/ops/jobs/${newId()}`)).status).toBe(404)
  const names = (await operator.get('/api/ops/processes')).body.map(({ name }: { name: string }) => name)
  expect(names).toEqual(expect.arrayContaining(['api', 'dashboard', 'worker']))
  const { queues } = (await operator.get('/api/ops/queues')).body
  expect(queues.map(({ queue }: { queue: string }) => queue)).toEqual([...QUEUES])
})

test("a pause of a tenant in a queue stops the tenant's jobs until the resume, and the audit log contains pause and resume", async ({
  world,
}) => {
  const { client, sql } = world
  const target = { queue: 'payments', tenant_id: world.tenant_id }
  const paused = await operator.send('POST', '/api/ops/pauses', { ...target, reason: 'bad keys' })
  expect(paused.status).toBe(204)
  expect((await operator.send('POST', '/api/ops/pauses', { ...target, reason: 'again' })).status).toBe(409)
  expect((await operator.get('/api/ops/pauses')).body).toMatchObject([
    {
      queue: 'payments',
      tenant: 'acme',
      tenant_id: world.tenant_id,
      reason: 'bad keys',
      actor: operator.email,
    },
  ])
  const seq = Number(paused.headers.get('x-audit-entry'))
  expect((await operator.get(`/api/ops/audit?seq=${seq}`)).body).toMatchObject([
    { seq, actor: operator.email, action: 'jobs.pause', tenant: 'acme', details: { reason: 'bad keys' } },
  ])
  // Workers read the pauses once a second, so jobs wait only after a read.
  await until('the workers apply the pause', async () => {
    const key = `held-${newId()}`
    await client.post(
      '/v1/payments',
      {
        amount_minor: 700,
        currency: 'USD',
        method: 'card',
        payment_method: 'pm_card_visa',
        idempotency_key: key,
      },
      { prefer: 'wait=1' },
    )
    const waiting =
      await sql`select from jobs where finished_at is null and attempt = 0 and queue = 'payments'`
    return waiting.length > 0
  })
  const { items } = (await operator.get('/api/ops/jobs?queue=payments')).body
  expect(items.filter(({ paused }: { paused: boolean }) => paused)).not.toEqual([])
  // Members see the pauses of their tenant without the pauses' authors and reasons.
  const member = await signedInAs(world, { role: 'support' })
  const shown = (await member.get('/api/session/pauses')).body
  expect(shown).toEqual([{ queue: 'payments', since: expect.any(String) }])
  const elsewhere = { queue: 'ai', tenant_id: (await ensureTenant(world.sql, 'elsewhere')).id }
  await operator.send('POST', '/api/ops/pauses', { ...elsewhere, reason: 'theirs' })
  expect((await member.get('/api/session/pauses')).body).toEqual(shown)
  await operator.send('POST', '/api/ops/pauses/resume', elsewhere)
  const resumed = await operator.send('POST', '/api/ops/pauses/resume', target)
  expect(resumed.status).toBe(204)
  await world.drain()
  expect((await operator.get('/api/ops/pauses')).body).toEqual([])
  const entry = resumed.headers.get('x-audit-entry')
  expect((await operator.get(`/api/ops/audit?seq=${entry}`)).body).toMatchObject([{ action: 'jobs.resume' }])
})

test('an act with a filter has a result for each job, and a finished act cannot be canceled', async ({
  world,
}) => {
  const ids = await parkJobs(world, 3, 'acts.parked')
  const act = await operator.send('POST', '/api/ops/acts', {
    act: 'discard',
    filter: { state: 'parked', name: 'acts.parked' },
    reason: 'nobody knows them',
  })
  expect([act.status, act.body.matched]).toEqual([202, 3])
  expect(Number(act.headers.get('x-audit-entry'))).toBeGreaterThan(0)
  const path = `/api/ops/acts/${act.body.id}`
  await until('the act is done', async () => (await operator.get(path)).body.state === 'done')
  expect((await operator.get(path)).body).toMatchObject({
    found: 3,
    done: 3,
    refused: 0,
    actor: operator.email,
  })
  const items = (await operator.get(`${path}/items`)).body
  expect(items.map(({ job_id, after }: any) => [job_id, after])).toEqual(ids.map((id) => [id, 'discarded']))
  expect((await operator.send('POST', `${path}/cancel`, {})).status).toBe(409)
  const job = (await operator.get(`/api/ops/jobs/${ids[0]}`)).body
  expect(job.acts).toMatchObject([{ actor: operator.email, act: 'discard', reason: 'nobody knows them' }])
})

test('the outcome of an act is in the audit log of operators and of the tenant', async ({ world }) => {
  const owner = await signedInAs(world, { role: 'owner' })
  const [job_id] = await parkJobs(world, 1, 'acts.audited')
  const act = await operator.send('POST', '/api/ops/acts', { act: 'discard', job_id, reason: 'wrong' })
  const path = `/api/ops/acts/${act.body.id}`
  await until('the act is done', async () => (await operator.get(path)).body.state === 'done')
  const seq = act.headers.get('x-audit-entry')
  for (const answer of [
    await operator.get(`/api/ops/audit?seq=${seq}`),
    await owner.get(`/api/audit?seq=${seq}`),
  ])
    expect(answer.body).toMatchObject([
      {
        subject_id: job_id,
        tenant: 'acme',
        outcome: { state: 'done', done: 1, refused: 0 },
        expects_outcome: true,
      },
    ])
})

test("an act on the jobs of one tenant is in the tenant's audit log if the filter of the act has a tenant or a resource", async ({
  world,
}) => {
  const { sql, tenant_id, client } = world
  const { id } = await authorizedPayment(client)
  const requestAct = async (filter: object) => {
    const act = await operator.send('POST', '/api/ops/acts', {
      act: 'retry',
      filter: { state: 'open', name: 'acts.none', ...filter },
      reason: 'seen',
    })
    expect(act.status).toBe(202)
    const [entry] = await sql`
      select tenant_id from audit_entries where seq = ${Number(act.headers.get('x-audit-entry'))}`
    return entry!['tenant_id']
  }
  expect(await requestAct({ tenant_id })).toBe(tenant_id)
  expect(await requestAct({ resource_id: id })).toBe(tenant_id)
  expect(await requestAct({})).toBeNull()
  expect(await requestAct({ tenant_id: newId() })).toBeNull()
})

test('a timeline has at most the latest 1,000 jobs of a resource', async ({ world }) => {
  const { sql, tenant_id } = world
  const [resource_id, ids] = [newId(), newIdsInOrder(1_100)]
  await sql`
    insert into jobs (id, tenant_id, queue, name, resource_id, payload, max_attempts, state, created_at, finished_at)
    select id, ${tenant_id}, 'deliveries', 'webhook_endpoint.deliver', ${resource_id}, '{}', 1, 'succeeded',
      now() + nth * interval '1 ms', now() + interval '1 minute'
    from unnest(${ids}::uuid[]) with ordinality as of(id, nth)`
  const member = await signedInAs(world, { role: 'read-only' })
  const { body } = await member.get(`/api/timelines/${resource_id}`)
  expect(body.jobs.map(({ id }: { id: string }) => id)).toEqual(ids.slice(100))
  await sql`delete from jobs where resource_id = ${resource_id}`
})

test('an operator resolves whether a call with an unknown outcome took effect, and invalid resolutions are refused', async ({
  world,
}) => {
  const { client, sql } = world
  const requestAct = async (job_id: string, more: object) =>
    await operator.send('POST', '/api/ops/acts', { act: 'resolve', job_id, reason: 'seen there', ...more })
  const resultOf = async (act: Awaited<ReturnType<typeof requestAct>>) => {
    const path = `/api/ops/acts/${act.body.id}`
    await until('the act is done', async () => (await operator.get(path)).body.state === 'done')
    return (await operator.get(`${path}/items`)).body[0]
  }
  const { refund_id, job_id } = await unknownRefund(world)
  expect((await operator.get(`/api/ops/jobs/${job_id}`)).body.call).toEqual({
    makes: expect.stringMatching(/^re_/),
    under_way: true,
  })
  for (const invalid of [
    {},
    { act: 'retry', took_effect: true },
    { took_effect: false, reference: 're_1' },
    { took_effect: true, job_id: undefined, filter: { state: 'ready' } },
  ])
    expect([invalid, (await requestAct(job_id, invalid)).status]).toEqual([invalid, 400])
  expect((await resultOf(await requestAct(job_id, { took_effect: true }))).refused).toMatch(
    /^The reference is required: .* like re_/,
  )
  expect(
    (await resultOf(await requestAct(job_id, { took_effect: true, reference: 'po_1' }))).refused,
  ).toMatch(/^The reference must be/)

  const act = await requestAct(job_id, { took_effect: true, reference: 're_mistyped' })
  expect(await resultOf(act)).toMatchObject({ before: 'unknown', lookup_only: true, refused: null })
  const entry = act.headers.get('x-audit-entry')
  expect((await operator.get(`/api/ops/audit?seq=${entry}`)).body).toMatchObject([
    {
      action: 'jobs.resolve',
      subject_id: job_id,
      details: { took_effect: true, reference: 're_mistyped', reason: 'seen there' },
    },
  ])

  // A call that the provider does not find stays unknown until an operator resolves the call as failed.
  const job = async () => (await operator.get(`/api/ops/jobs/${job_id}`)).body
  await until('the lookup of the reference has failed', async () =>
    /re_mistyped|refund/.test((await job()).error ?? ''),
  )
  await until('the job is unknown again', async () => (await job()).state === 'unknown')
  expect(await resultOf(await requestAct(job_id, { took_effect: false }))).toMatchObject({
    before: 'unknown',
    after: 'failed',
  })
  expect((await client.get(`/v1/refunds/${refund_id}`)).body.status).toBe('failed')
  expect((await job()).acts).toMatchObject([
    { act: 'resolve', actor: operator.email, after: 'unknown' },
    { act: 'resolve', actor: operator.email, after: 'failed' },
  ])
  expect((await resultOf(await requestAct(job_id, { took_effect: false }))).refused).toMatch(
    /^The job has finished/,
  )
  const [unrecognized] = await parkJobs(world, 1, 'acts.strange')
  expect((await resultOf(await requestAct(unrecognized!, { took_effect: false }))).refused).toBe(
    'The job has no call to a provider that this version knows.',
  )
  await sql`delete from jobs where id = ${unrecognized!}`
})

test('drifts and parked notifications of all tenants are listed in pages, with filters', async ({
  world,
}) => {
  const { sql, tenant_id } = world
  const shop = await world.clientOf({ tenant: 'shop' })
  const ids = async (path: string) =>
    (await operator.get(`/api/ops/${path}`)).body.map(({ id }: { id: string }) => id)
  // The reconciler would resolve these drifts, but runs only hourly.
  const [resolved, first, second, third] = newIdsInOrder(4)
  await sql`
    insert into drifts (id, tenant_id, subject, subject_id, state, ours, since, created_at, resolved_at)
    select id::uuid, tenant_id::uuid, subject, gen_random_uuid(), state, '{"status": "pending"}',
      now() - interval '1 hour', created_at::timestamptz, case when id::uuid = ${resolved!} then now() end
    from (values (${resolved!}, ${tenant_id}, 'refund', 'stale', '2026-01-04'),
      (${first!}, ${tenant_id}, 'payment', 'differs', '2026-01-01'),
      (${second!}, ${tenant_id}, 'refund', 'stale', '2026-01-02'),
      (${third!}, ${shop.tenant_id}, 'refund', 'differs', '2026-01-03')) d(id, tenant_id, subject, state, created_at)`
  onTestFinished(async () => void (await sql`delete from drifts where resolved_at is null`))
  expect(await ids('drifts')).toEqual([third, second, first])
  expect(await ids('drifts?limit=1')).toEqual([third])
  expect(await ids(`drifts?limit=1&before=${third}`)).toEqual([second])
  expect(await ids('drifts?state=differs')).toEqual([third, first])
  expect(await ids('drifts?subject=refund')).toEqual([third, second])
  expect(await ids(`drifts?tenant_id=${shop.tenant_id}`)).toEqual([third])
  // The tenant's audit log contains the operator's access to the tenant's drifts.
  const accesses = await sql`
    select actor, details ->> 'query' as query from audit_entries
    where tenant_id = ${shop.tenant_id} and action = 'listDrifts'`
  expect(accesses).toEqual([{ actor: operator.email, query: '{"tenant_id":"...","limit":50}' }])
  const { body: shown } = await operator.get('/api/ops/drifts?limit=1')
  expect(shown[0].age_s).toBeGreaterThanOrEqual(3600)
  expect(shown).toMatchObject([
    { tenant: 'shop', tenant_id: shop.tenant_id, ours: { status: 'pending' }, theirs: null },
  ])

  const [applied, older, newer] = newIdsInOrder(3)
  await sql`
    insert into notifications (id, provider, event_id, kind, object_id, payload, state, reason, waits_for,
      parked_at, tenant_id, resource, resource_id)
    select id::uuid, 'stripe', id, 'refund.updated', 're_1', '{}', state, reason, 'pi_1',
      parked_at::timestamptz, tenant::uuid, case when tenant is not null then 'refund' end, case when tenant is not null then gen_random_uuid() end
    from (values (${applied!}, 'applied', null, null, null), (${older!}, 'parked', 'not_known_here', '2026-01-01', null),
      (${newer!}, 'parked', 'not_at_processor', '2026-01-02', ${tenant_id})) n(id, state, reason, parked_at, tenant)`
  onTestFinished(async () => void (await sql`delete from notifications where object_id = 're_1'`))
  expect(await ids('parked')).toEqual([newer, older])
  expect(await ids('parked?limit=1')).toEqual([newer])
  expect(await ids(`parked?before=${newer}`)).toEqual([older])
  expect(await ids('parked?reason=not_known_here')).toEqual([older])
  expect((await operator.get('/api/ops/parked')).body).toMatchObject([
    { tenant: 'acme', reason: 'not_at_processor', resource: 'refund', waits_for: 'pi_1', event_id: newer },
    { tenant: null, reason: 'not_known_here', resource_id: null },
  ])
})

test('the overview has the balance at the end of each day after all kinds of transfers', async ({
  world,
}) => {
  const { sql } = world
  const { tenant_id } = await world.clientOf()
  const owner = await signedInAs(world, { role: 'owner', tenant_id })
  // A day includes its last microsecond and excludes the next midnight. The last transfer of a day determines its
  // balance.
  const moves = [
    ['9 days', 5000],
    ['5 days', 1000],
    ['5 days -1 microsecond', -300],
    ['4 days 1 microsecond', -200],
    ['4 days', 40],
    ['0 days', -6000],
  ] as const
  await sql`
    insert into ledger_accounts (tenant_id, currency, name, balance_minor, last_seq, last_at)
    select ${tenant_id}, 'EUR', name, sign * ${moves.reduce((sum, [, minor]) => sum + minor, 0)}::bigint, ${moves.length}, now()
    from (values ('available', 1), ('processor_clearing', -1)) a(name, sign)`
  await sql`
    insert into ledger_transfers (tenant_id, id, kind, subject_id, debit_account, credit_account, currency, amount_minor,
      seq, balance_after_minor, created_at)
    select ${tenant_id}, gen_random_uuid(), 'correction', gen_random_uuid(),
      case when minor < 0 then 'available' else 'processor_clearing' end,
      case when minor < 0 then 'processor_clearing' else 'available' end, 'EUR', abs(minor), nth, sum(minor) over (order by nth),
      date_trunc('day', now(), 'UTC') - ago::interval
    from jsonb_to_recordset(${sql.json(moves.map(([ago, minor], at) => ({ ago, minor, nth: at + 1 })))})
      as m(ago text, minor bigint, nth bigint)`
  const { balances } = (await owner.get('/api/overview')).body
  expect(balances).toMatchObject([
    { currency: 'eur', balance_minor: -460, days_minor: [5000, 5500, 5540, 5540, 5540, 5540, -460] },
  ])
})

test('the overview of a tenant lists each kind of problem that a person must solve', async ({ world }) => {
  const { sql } = world
  const shop = await world.clientOf()
  const { tenant_id } = shop
  const owner = await signedInAs(world, { role: 'owner', tenant_id })
  const attention = async () => (await owner.get('/api/overview')).body.attention
  const [expiring, later] = [await authorizedPayment(shop), await authorizedPayment(shop)]
  expect(await attention()).toEqual([])

  const { payment: disputed } = await disputedPayment(world, { client: shop })
  await sql`
    update payments set capture_before = now() + case when id = ${expiring.id} then 1 else 40 end * interval '1 hour'
    where tenant_id = ${tenant_id} and id in (${expiring.id}, ${later.id})`
  await warnOfExpiry(sql, 100)
  const { dispute } = await disputeIn(shop, disputed.id, 'needs_response')
  // The first verification waits for the person; the second waits for the tenant, because the check of the person has
  // failed.
  const [, open] = [await verificationOf(shop), await verificationOf(shop)]
  await sql`
    update verifications set failure = '{"code": "document_expired", "message": "The document has expired."}'
    where tenant_id = ${tenant_id} and id = ${open.id}`
  await decide(shop, (await verificationOf(shop)).id, 'approved')
  await drift({ ...world, tenant_id }, disputed.id)
  const [unknown] = newIdsInOrder(1)
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, run_at, unknown_since)
    values (${unknown!}, ${tenant_id}, 'messages', 'nobody.knows', '{}', 1, 'unknown', 'infinity', now())`
  const [failing, gone, off, silent] = await Promise.all(
    Array.from({ length: 4 }, async (_, nth) => {
      const url = `https://receiver-${nth}.invalid/hook`
      return (await shop.post('/v1/webhook_endpoints', { url, types: ['payout.*'] })).body.id
    }),
  )
  await sql`
    insert into webhook_stats (tenant_id, endpoint_id, hour, bucket, shard, count, last_at)
    select ${tenant_id}, ${failing}, now() - hours * interval '1 hour', bucket, 0, count, now()
    from (values (1, ${BUCKETS.undelivered}::integer, 1200), (2, ${BUCKETS.failed_attempt}, 5),
      (30, ${BUCKETS.undelivered}, 7))
      s(hours, bucket, count)`
  await sql`
    update webhook_endpoints set status = 'disabled',
      disabled_reason = case when id = ${gone} then 'gone' else 'manual' end
    where tenant_id = ${tenant_id} and id in (${gone}, ${off})`
  await sql`
    update webhook_endpoints set failing_since = now() where tenant_id = ${tenant_id} and id = ${silent}`
  const [differs] = await sql<{ id: string }[]>`select id from drifts where tenant_id = ${tenant_id}`

  const expected = {
    hold_lapses: expiring.id,
    effect_unknown: unknown,
    drift: differs!.id,
    deliveries_failed: failing,
    endpoint_disabled: gone,
    endpoint_failing: silent,
    verification_open: open.id,
    dispute_needs_response: dispute.id,
  }
  const entryOf = (kind: string, id: string) => ({ kind, count: 1, is_more: false, examples: [id] })
  await until('all eight kinds are listed', async () => (await attention()).length === 8)
  const listed = await attention()
  expect(listed.map(({ oldest_at: _at, outage: _outage, ...each }: any) => each)).toEqual(
    Object.entries(expected).map(([kind, id]) =>
      kind === 'deliveries_failed' ? { ...entryOf(kind, id), count: 1000, is_more: true } : entryOf(kind, id),
    ),
  )
  for (const { oldest_at } of listed) expect(Date.parse(oldest_at)).toBeGreaterThan(Date.now() - 7_200_000)

  // None of the problems is hidden by the many resources that wait for other people.
  await sql`
    insert into verifications (tenant_id, id, idempotency_key, subject_type, subject_id, status, provider)
    select ${tenant_id}, gen_random_uuid(), 'waits-' || n, 'customer', gen_random_uuid(), 'requires_input', 'stripe'
    from generate_series(1, 1001) n`
  await sql`
    insert into disputes (tenant_id, id, payment_id, processor, processor_reference, status, amount_minor, currency,
      opened_at, announced, created_at)
    select ${tenant_id}, gen_random_uuid(), ${disputed.id}, 'stripe', 'du_waits_' || n, 'under_review', 1, 'USD',
      now() - interval '3 days', array['disputed'], now() - interval '3 days' - n * interval '1 ms'
    from generate_series(1, 1001) n`
  expect(await attention()).toEqual(listed)
})

test("a search by id, reference or email finds a resource only in the user's own tenant", async ({
  world,
}) => {
  const shop = await world.clientOf()
  const member = await signedInAs(world, { role: 'support', tenant_id: shop.tenant_id })
  const other = await signedInAs(world, { role: 'owner' })
  const payment = await authorizedPayment(shop)
  const email = 'ada@find.example'
  const customer = (await shop.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada', email }))
    .body
  const found = async (browser: Browser, text: string) =>
    (await browser.get(`/api/find?q=${encodeURIComponent(text)}`)).body
  for (const [text, row] of [
    [payment.id, { resource: 'payment', id: payment.id, by: 'id' }],
    [payment.processor_reference, { resource: 'payment', id: payment.id, by: 'reference' }],
    [email, { resource: 'customer', id: customer.id, by: 'email' }],
  ] as const) {
    expect([text, await found(member, text)]).toEqual([text, [expect.objectContaining(row)]])
    expect([text, await found(other, text)]).toEqual([text, []])
  }
})

test('a stalled reader of the stream is disconnected and does not delay other readers', async ({ world }) => {
  const leaving = await signedInAs(world, { is_operator: true })
  const { hostname, port } = new URL(world.dashboard_url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  socket.write(
    `GET /api/ops/stream HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncookie: ${cookieOf(leaving)}\r\n\r\n`,
  )
  await once(socket, 'data')
  socket.pause()
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const reading = { headers: { cookie: cookieOf(operator) }, signal: stop.signal }
  const { body } = await fetch(`${world.dashboard_url}/api/ops/stream`, reading)
  const received = new Set<string>()
  void (async () => {
    for await (const chunk of body!)
      for (const [marker] of new TextDecoder().decode(chunk).matchAll(/round-\d+-end/g)) received.add(marker)
  })().catch(() => {})
  await world.sql`
    with made as (
      insert into tenants (id, slug, name) select gen_random_uuid(), 'stalled-' || n, 'n' from generate_series(1, 4000) n
      returning id
    ) insert into pauses (tenant_id, queue, reason) select id, 'ai', 'x' from made`
  onTestFinished(async () => void (await world.sql`delete from pauses`))
  // The updates exceed the socket buffers of the stalled reader; the other reader receives all updates.
  for (let nth = 0; nth < 5; nth++) {
    await world.sql`update pauses set reason = ${`round-${nth}-end`} || repeat('x', 900) where queue = 'ai'`
    await until(`update ${nth} is received`, async () => received.has(`round-${nth}-end`))
  }
  const closed = once(socket, 'close')
  socket.resume()
  await closed
  expect((await operator.get('/api/ops/pauses')).status).toBe(200)
})

test('the stream reports a pause at once, and ends when its reader loses the operator role', async ({
  world,
}) => {
  const other = await signedInAs(world, { is_operator: true })
  const response = await fetch(`${world.dashboard_url}/api/ops/stream`, {
    headers: { cookie: cookieOf(other) },
  })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  let received = ''
  const decoder = new TextDecoder()
  const ended = (async () => {
    for await (const chunk of response.body!) received += decoder.decode(chunk, { stream: true })
  })()
  await until('all topics are received', async () =>
    ['pauses', 'acts', 'queues'].every((name) => received.includes(`event: ${name}\n`)),
  )
  await operator.send('POST', '/api/ops/pauses', { queue: 'ai', reason: 'streamed' })
  await until('the pause is received', async () => received.includes('"reason":"streamed"'))
  await operator.send('POST', '/api/ops/pauses/resume', { queue: 'ai' })
  await world.sql`update users set is_operator = false where id = ${other.user_id}`
  await ended
  expect((await other.get('/api/ops/queues')).status).toBe(403)
})

test.for(['redis', 'postgres'] as const)(
  'bull-board shows the queues on %s to operators, and allows no changes',
  async (queue, { world }) => {
    const target = queue === 'redis' ? world : await createWorld({ queue, parts: ['worker', 'dashboard'] })
    if (target !== world) onTestFinished(() => target.close())
    const viewer = await signedInAs(target, { is_operator: true })
    const owner = await signedInAs(target, { role: 'owner' })
    expect((await owner.get('/ops/bull-board')).status).toBe(403)
    expect((await fetch(`${target.dashboard_url}/ops/bull-board/api/queues`)).status).toBe(401)

    const page = await viewer.get('/ops/bull-board')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self'(?!.*unsafe)/,
    )
    expect(page.headers.get('x-content-type-options')).toBe('nosniff')
    expect(page.headers.get('referrer-policy')).toBe('same-origin')
    expect(page.text).not.toMatch(/(?:src|href)="https?:|<style|style=/)
    const [script] = /static\/js\/main[^"]*/.exec(page.text)!
    expect((await viewer.get(`/ops/bull-board/${script}`)).status).toBe(200)
    const { queues } = (await viewer.get('/ops/bull-board/api/queues')).body
    expect(queues.map(({ name, readOnlyMode }: any) => [name, readOnlyMode])).toEqual(
      QUEUES.map((name) => [name, true]),
    )
    expect((await viewer.send('PUT', '/ops/bull-board/api/queues/payments/pause', {})).status).toBe(404)
  },
)

test('schedules, overview and metrics report recurring work that its provider refuses, until the work succeeds again', async () => {
  const env = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0' }
  const refusing = await createWorld({ parts: ['worker', 'dashboard'], env })
  onTestFinished(() => refusing.close())
  const person = await signedInAs(refusing, { is_operator: true })
  const events = async () =>
    (await person.get('/api/ops/schedules')).body.find(
      ({ name }: { name: string }) => name === 'events of stripe',
    )
  const failures = async () =>
    (await metrics.recurringFailures.get()).values.find(({ labels }) => labels['work'] === 'events of stripe')
      ?.value ?? 0
  const failing = async () =>
    (await metrics.recurringFailing.get()).values.find(({ labels }) => labels['work'] === 'events of stripe')
      ?.value
  expect((await person.post('/api/session/tenant', { tenant_id: refusing.tenant_id })).status).toBe(200)
  const member = await signedInAs(refusing, { role: 'owner' })
  const attention = async (browser = person) =>
    (await browser.get('/api/overview')).body.attention.filter(
      ({ kind }: { kind: string }) => kind === 'schedule_failing',
    )
  const before = await failures()
  const refusal = await fault(refusing, {
    match: { path: '^/v1/events' },
    times: 1000,
    fault: { refuse_400: true, code: 'parameter_invalid' },
  })
  await eventually(async () => {
    const row = await events()
    expect(row).toMatchObject({ failure: 'This request was refused.', failing_since: expect.any(String) })
    expect(row.failed_runs).toBeGreaterThan(1)
    expect(row.state).toBe('failed')
    expect(await attention()).toMatchObject([
      { count: 1, is_more: false, oldest_at: row.failing_since, examples: [], outage: null },
    ])
  })
  // The tenant cannot solve this problem.
  expect(await attention(member)).toEqual([])
  await eventually(async () => {
    expect((await failures()) - before).toBeGreaterThan(1)
    expect(await failing()).toBeGreaterThan(0)
  })
  await refusal.remove()
  await eventually(async () =>
    expect(await events()).toMatchObject({
      failure: null,
      failing_since: null,
      failed_runs: 0,
      ended_at: expect.any(String),
    }),
  )
  expect(await attention()).toEqual([])
})
