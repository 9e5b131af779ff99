// Rows that the database lost are made again from the processor's objects: with their ids, keys and postings.
import { expect, test } from 'vitest'
import { loadConfig } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { discardJob, retryJob } from '#domain/job-acts/act.ts'
import { recoverParty } from '#domain/recovered/parties.ts'
import {
  closingOrphan,
  dismissingOrphan,
  openOrphan,
  type ParkedOrphan,
} from '#domain/reconciliation/orphans.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import { findAllDrifts } from '#domain/operations/unresolved.ts'
import { countDrifts } from '#domain/reconciliation/drift.ts'
import { startWorker } from '#workers/main.ts'
import { checkInvariants } from '#test/books.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { loseEverythingOf, recordSwitch } from '#test/lost-rows.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import {
  authorizedPayment,
  capturedPayment,
  createPayment,
  eventually,
  fault,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { accountOf, payOut, payoutIn, recipient } from '#test/payouts.ts'
import { startProcess } from '#test/process.ts'
import { refundInDashboard } from '#test/stripe-events.ts'
import { marksOf, settleTopUp, topUp, topUpAtProcessor } from '#test/top-ups.ts'
import {
  callProvider,
  decide,
  getVerification,
  settleSession,
  startVerification,
  verificationIn,
} from '#test/verifications.ts'
import { createWorld, describeIn, type World } from '#test/world.ts'

const EAGER = { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '0' }
const WAIT = { prefer: 'wait=20' }

/** Waits until everything that the processor lists has been recovered. */
async function untilListsRead(world: World): Promise<void> {
  await eventually(async () => {
    const unread = await world.sql`select from database_switches where lists_read_at is null`
    expect(unread.count).toBe(0)
  })
  await world.drain()
}

/** The fields that the processor holds, or that follow from what it holds. */
const KEPT_FIELDS = [
  'id',
  'idempotency_key',
  'status',
  'amount_minor',
  'amount_capturable_minor',
  'amount_captured_minor',
  'amount_refunded_minor',
  'currency',
  'customer_id',
  'merchant_id',
  'payment_id',
  'recipient_id',
  'subject_type',
  'subject_id',
  'description',
  'reason',
  'imported',
  'processor_reference',
  'provider_reference',
  'arrival_date',
  'cancellation_reason',
]
function kept(resource: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    KEPT_FIELDS.filter((name) => name in resource).map((name) => [name, resource[name]]),
  )
}

async function read(client: Client, paths: string[]): Promise<Record<string, unknown>> {
  const answers = await Promise.all(paths.map(async (path) => [path, kept((await client.get(path)).body)]))
  return Object.fromEntries(answers)
}

/** Creates a recipient and its verification, in this status at the provider. Returns what was sent and answered. */
async function verifiedRecipient(world: World, client: Client, fields: object, status = 'verified') {
  const body = { ...RECIPIENT, ...fields, idempotency_key: freshKey() }
  const { id } = (await client.post('/v1/recipients', body)).body
  const verification_body = { subject_type: 'recipient', subject_id: id, idempotency_key: freshKey() }
  const { body: verification } = await startVerification(client, verification_body, WAIT)
  if (status !== 'requires_input') {
    await settleSession(world, verification.provider_reference, status)
    await verificationIn(client, verification.id, status === 'verified' ? 'approved' : status)
  }
  return { id: id as string, body, verification, verification_body }
}

async function recipientsOf(client: Client, ids: string[]): Promise<any[]> {
  return await Promise.all(ids.map(async (id) => (await client.get(`/v1/recipients/${id}`)).body))
}

/** Waits until a verification has ended because it does not count for the present content of its party. */
async function outdatedIn(client: Client, id: string): Promise<void> {
  await eventually(async () =>
    expect(await getVerification(client, id)).toMatchObject({
      status: 'rejected',
      decision: null,
      failure: { code: 'outdated' },
    }),
  )
}

/** Calls the processor as another program does. */
async function callStripe({ provider }: World, path: string, body?: Record<string, string>): Promise<any> {
  const { url, api_key } = provider('stripe')
  const answer = await fetch(`${url}/v1/${path}`, {
    headers: { authorization: `Bearer ${api_key}` },
    ...(body && { method: 'POST', body: new URLSearchParams(body) }),
  })
  return await answer.json()
}

/** Creates objects of each kind and in each state. Returns their paths. */
async function createAll(world: World): Promise<{ customer_id: string; paths: string[] }> {
  const { client } = world
  const customer_id = (await client.post('/v1/customers', { name: 'Ada', idempotency_key: freshKey() })).body
    .id
  const merchant_id = (await client.post('/v1/merchants', { ...MERCHANT, idempotency_key: freshKey() })).body
    .id
  const captured = await capturedPayment(client, {
    amount_minor: 10_000,
    customer_id,
    merchant_id,
    description: 'Order 17',
  })
  const refunded = (await refund(client, captured.id, { amount_minor: 300, reason: 'duplicate' }, WAIT)).body
  const late = await capturedPayment(client, { payment_method: 'pm_card_pendingRefund' })
  const pending = (await refund(client, late.id, { amount_minor: 400 }, WAIT)).body
  const held = await authorizedPayment(client, { customer_id })
  const canceled = await authorizedPayment(client)
  await client.post(`/v1/payments/${canceled.id}/cancel`, {})
  const waiting = (await createPayment(client, { payment_method: 'pm_card_authenticationRequired' })).body
  const topped_up = (await topUp(client, { source: 'src_manual', description: 'Float' }, WAIT)).body
  await settleTopUp(world, topped_up.processor_reference, 'succeeded')
  const open_top_up = (await topUp(client, { source: 'src_manual' }, WAIT)).body
  const payouts = []
  for (const [destination, status] of [
    ['acct_success', 'paid'],
    ['ba_success', 'paid'],
    ['ba_manual', 'processing'],
    ['ba_noAccount', 'failed'],
  ] as const) {
    const { body } = await payOut(client, await recipient(client, destination), { description: 'May' }, WAIT)
    payouts.push(await payoutIn(client, body.id, status))
  }
  const party = { subject_type: 'customer', subject_id: customer_id }
  const verification = (await startVerification(client, party, WAIT)).body
  const paths = [
    ...[captured, late, held, canceled, waiting].map(({ id }) => `/v1/payments/${id}`),
    ...[refunded, pending].map(({ id }) => `/v1/refunds/${id}`),
    ...[topped_up, open_top_up].map(({ id }) => `/v1/wallet/top_ups/${id}`),
    ...payouts.map(({ id }) => `/v1/payouts/${id}`),
    `/v1/compliance/kyc/${verification.id}`,
  ]
  return { customer_id, paths }
}

describeIn('after everything of a tenant was lost', { env: EAGER }, (test) => {
  test('each object of the processor has its row again, and the books are as before', async ({ world }) => {
    const { client, sql, tenant_id } = world
    const { customer_id, paths } = await createAll(world)
    await world.drain()
    const before = await read(client, paths)
    const account = await accountOf(world, tenant_id)
    expect(account.reserved).toBe(100)
    await checkInvariants(world)

    await loseEverythingOf(world, tenant_id)
    expect((await client.get(paths[0]!)).status).toBe(404)
    await untilListsRead(world)

    await eventually(async () => expect(await read(client, paths)).toEqual(before))
    expect(await accountOf(world, tenant_id)).toEqual(account)
    await checkInvariants(world)
    const drifts = await sql`select subject, state, detail from drifts where resolved_at is null`
    expect([...drifts]).toEqual([])
    const events = await sql<{ type: string; count: number }[]>`
      select type, count(*)::integer as count from events
      where tenant_id = ${tenant_id} and type like '%.recovered' group by type order by type`
    expect(events.map(({ type, count }) => [type, count])).toEqual([
      ['kyc.recovered', 1],
      ['payment.recovered', 5],
      ['payout.recovered', 4],
      ['refund.recovered', 2],
      ['top_up.recovered', 2],
    ])
    expect((await client.get(`/v1/customers/${customer_id}`)).body).toMatchObject({
      id: customer_id,
      name: null,
    })
  })
})

describeIn('the books after a loss', { env: EAGER }, (test) => {
  test('a payout that is still out is reserved, even if the balance becomes negative', async ({ world }) => {
    const client = await world.clientOf()
    const { tenant_id } = client
    const payment = await capturedPayment(client, { amount_minor: 1000 })
    const { body: payout } = await payOut(
      client,
      await recipient(client, 'ba_manual'),
      { amount_minor: 800 },
      WAIT,
    )
    await payoutIn(client, payout.id, 'processing')
    await world.drain()
    await loseEverythingOf(world, tenant_id)
    await refundInDashboard(world, payment.processor_reference, 900)
    await untilListsRead(world)
    await eventually(async () =>
      expect(await accountOf(world, tenant_id)).toEqual({ balance: 100, reserved: 800 }),
    )
    const refunds = (await client.get(`/v1/payments/${payment.id}/refunds`)).body
    expect(refunds).toMatchObject([{ imported: true, amount_minor: 900, status: 'succeeded' }])
    await checkInvariants(world)
    await world
      .provider('stripe')
      .control('POST', `/payouts/${payout.processor_reference}/settle`, { status: 'paid' })
    await payoutIn(client, payout.id, 'paid')
    expect(await accountOf(world, tenant_id)).toEqual({ balance: -700, reserved: 0 })
    await checkInvariants(world)
  })

  test('a payout and a refund are posted, even if the tenant has used their keys for other rows meanwhile', async ({
    world,
  }) => {
    const client = await world.clientOf()
    const { tenant_id } = client
    const payment = await capturedPayment(client, { amount_minor: 1000 })
    await capturedPayment(client, { amount_minor: 500 })
    const paid_to = await recipient(client, 'ba_success')
    const { body: payout } = await payOut(client, paid_to, { amount_minor: 500 }, WAIT)
    await payoutIn(client, payout.id, 'paid')
    const refund_key = { idempotency_key: freshKey() }
    const refunded = await refund(client, payment.id, { amount_minor: 1000, ...refund_key }, WAIT)
    await world.drain()
    const before = await accountOf(world, tenant_id)
    await loseEverythingOf(world, tenant_id, { switched: false })
    const other = {
      name: 'x',
      type: 'bank_account',
      currency: 'usd',
      country: 'US',
      destination: 'ba_success',
      idempotency_key: `recovered:${paid_to}`,
    }
    expect((await client.post('/v1/recipients', other)).status).toBe(201)
    const spaced = { ...other, idempotency_key: `recovered ${paid_to}` }
    expect((await client.post('/v1/recipients', spaced)).status).toBe(400)
    const other_payment = await capturedPayment(client, { amount_minor: 100 })
    expect((await refund(client, other_payment.id, { amount_minor: 1, ...refund_key }, WAIT)).status).toBe(
      201,
    )
    await recordSwitch(world.sql)
    await untilListsRead(world)
    await eventually(async () => {
      expect((await client.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({ status: 'paid' })
      expect((await client.get(`/v1/refunds/${refunded.body.id}`)).body).toMatchObject({ amount_minor: 1000 })
    })
    await world.drain()
    expect(await accountOf(world, tenant_id)).toEqual({ ...before, balance: before.balance + 99 })
    expect((await auditEverything(world.sql)).problems).toEqual([])
  })

  test('objects of another installation, and copies of our ids, are ignored', async ({ world }) => {
    const { sql, tenant_id } = world
    const id = newId()
    const other = { 'metadata[sluice_installation]': newId() }
    const foreign = [
      await topUpAtProcessor(world, { ...marksOf(id, tenant_id), ...other }),
      await topUpAtProcessor(world, marksOf(id, tenant_id)),
      await topUpAtProcessor(world, {}),
    ]
    await recordSwitch(sql)
    await untilListsRead(world)
    expect((await world.client.get(`/v1/wallet/top_ups/${id}`)).status).toBe(404)
    const drifts = await sql`select from drifts where resolved_at is null`
    expect(drifts.count).toBe(0)
    const [work] = await sql`select result -> 'lists' -> 'top_ups' as top_ups from recurring_work
      where name = 'objects of stripe'`
    expect(work!.top_ups.foreign).toBeGreaterThanOrEqual(foreign.length)
  })

  test('objects of a tenant that does not exist are orphans until they are dismissed or the tenant exists again', async ({
    world,
  }) => {
    const { sql } = world
    const client = await world.clientOf()
    const { tenant_id } = client
    const payment = await capturedPayment(client)
    const refunded = (await refund(client, payment.id, { amount_minor: 300 }, WAIT)).body
    const topped_up = (await topUp(client, { source: 'src_manual' }, WAIT)).body
    await world.drain()
    await loseEverythingOf(world, tenant_id, { tenant: true })
    await untilListsRead(world)
    const orphans = async () =>
      (await findAllDrifts(sql, { state: 'orphan', limit: 10 })).map(
        ({ subject, theirs, tenant: of, ours }) => ({
          subject,
          reference: theirs!['processor_reference'],
          of,
          ours,
        }),
      )
    const orphan = (
      subject: string,
      { processor_reference: reference }: { processor_reference: string },
    ) => ({
      subject,
      reference,
      of: 'system',
      ours: null,
    })
    const all = [orphan('payment', payment), orphan('payment', refunded), orphan('top_up', topped_up)]
    await eventually(async () => expect(await orphans()).toEqual(expect.arrayContaining(all)))
    expect(await countDrifts(sql)).toMatchObject([{ state: 'orphan', count: 3 }])

    // Dismissed, it is not reported again, however often the lists are read.
    const jobOf = async ({ processor_reference }: { processor_reference: string }) => {
      const [parked] = await sql<{ id: string }[]>`
        select id from notifications where object_id = ${processor_reference} and reason = 'orphan' and state = 'parked'`
      return { job_id: parked!.id, actor: 'ada', reason: 'the tenant has left' }
    }
    const dismissed = await jobOf(topped_up)
    const [other] = await sql<ParkedOrphan[]>`
      insert into notifications (id, provider, event_id, kind, object_id, payload, state, reason, parked_at)
      select gen_random_uuid(), provider, event_id || '-2', kind, object_id, payload, state, reason, parked_at
      from notifications where id = ${dismissed.job_id}
      returning id as notification_id, provider, livemode, object_id as reference`
    await discardJob(sql, dismissed)
    // Another notification of the same object is parked.
    expect(await countDrifts(sql)).toMatchObject([{ state: 'orphan', count: 3 }])
    await dismissingOrphan(sql, other!)
    await sql`delete from notifications where id = ${other!.notification_id}`
    expect(await countDrifts(sql)).toMatchObject([{ state: 'orphan', count: 2 }])
    await recordSwitch(sql)
    await untilListsRead(world)
    expect(await countDrifts(sql)).toMatchObject([{ state: 'orphan', count: 2 }])

    // Two notifications that arrived at once were both parked. The first that is applied closes the drift.
    const [twin] = await sql<{ id: string }[]>`
      insert into notifications (id, provider, event_id, kind, object_id, payload, state, reason, parked_at)
      select gen_random_uuid(), provider, event_id || '-2', kind, object_id, payload, state, reason, parked_at
      from notifications where id = ${(await jobOf(refunded)).job_id}
      returning id`

    // Once the tenant exists again, the operator retries the job.
    await sql`insert into tenants (id, slug, name) values (${tenant_id}, 'again', 'Again')`
    await retryJob(sql, await jobOf(payment))
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${payment.id}`)).body).toMatchObject({
        status: 'captured',
        amount_refunded_minor: 300,
      }),
    )
    await world.drain()
    expect((await client.get(`/v1/refunds/${refunded.id}`)).body).toMatchObject({ status: 'succeeded' })
    await eventually(async () => expect(await countDrifts(sql)).toEqual([]))
    await sql`delete from notifications where id = ${twin!.id}`
    // Only a dismissal keeps an orphan from being reported again.
    const reported = {
      tenant_id: null,
      theirs: { status: 'succeeded' },
      detail: 'it was created here and has no row',
    }
    const report = (resource: ProviderResourceName, { processor_reference: reference }: any) =>
      openOrphan(sql, { provider: 'stripe', livemode: true, reference }, { ...reported, resource })
    expect(await report('payment', payment)).toBe(true)
    expect(await report('top_up', topped_up)).toBe(false)
    const { processor_reference: reference } = payment
    await closingOrphan(sql, { provider: 'stripe', livemode: true, reference })
    await checkInvariants(world)
  })

  // The last test of this world: the copy is a second refund for all checks of the books.
  test('a refund with the copied metadata of another refund is an orphan', async ({ world }) => {
    const { sql } = world
    const client = await world.clientOf()
    const payments = [await capturedPayment(client), await capturedPayment(client)]
    const { body: own } = await refund(client, payments[0]!.id, { amount_minor: 300 }, WAIT)
    const { metadata } = await callStripe(world, `refunds/${own.processor_reference}`)
    expect(metadata).toMatchObject({ sluice_refund_id: own.id })
    const marks = Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, String(value)])
    const copies = await Promise.all(
      payments.map(({ processor_reference: payment_intent }) =>
        callStripe(world, 'refunds', { payment_intent, amount: '200', ...Object.fromEntries(marks) }),
      ),
    )
    await eventually(async () => {
      const orphans = await sql<{ reference: string }[]>`
        select theirs ->> 'processor_reference' as reference from drifts
        where tenant_id = ${client.tenant_id} and subject = 'refund' and state = 'orphan'`
      expect(new Set(orphans.map(({ reference }) => reference))).toEqual(new Set(copies.map(({ id }) => id)))
    })
    expect((await client.get(`/v1/refunds/${own.id}`)).body).toEqual(own)
    const after = await Promise.all(payments.map(({ id }) => client.get(`/v1/payments/${id}`)))
    expect(after.map(({ body }) => body.amount_refunded_minor)).toEqual([300, 0])
  })
})

test('a reader that is killed halfway is continued by others, and nothing is made twice', async () => {
  await using cleanup = new AsyncDisposableStack()
  const world = await createWorld({ parts: ['api', 'webhooks'], env: EAGER })
  cleanup.defer(() => world.close())
  const { client, sql, tenant_id, env } = world
  const first = await startProcess('src/workers/main.ts', {
    env: { ...process.env, ...env, METRICS_PORT: '0', LOG_LEVEL: 'info' },
    ready: 'worker',
  })
  cleanup.defer(async () => void (await first.end()))
  const { paths } = await createAll(world)
  await world.drain()
  const before = await read(client, paths)
  const held = await fault(world, {
    match: { method: 'GET', path: '^/v1/payouts$' },
    times: 1,
    fault: { hold: 'before' },
  })
  await loseEverythingOf(world, tenant_id)
  await held.hit()
  await first.end()
  await held.release()
  const [work] = await sql`
    update recurring_work set lease_until = now() where lease_until > now() and name = 'objects of stripe'
    returning position -> 'range' -> 'lists' -> 0 ->> 'name' as list`
  expect(work).toEqual({ list: 'payouts' })
  for (let workers = 0; workers < 2; workers++) {
    const worker = await startWorker(loadConfig(env), createLog('silent', 'test'))
    cleanup.defer(() => worker.close())
  }
  await untilListsRead(world)
  await eventually(async () => expect(await read(client, paths)).toEqual(before))
  await checkInvariants(world)
})

describeIn('a request that is repeated after its row was lost and made again', { env: EAGER }, (test) => {
  test('is a replay, and fills in what the processor does not hold; with other content it is refused', async ({
    world,
  }) => {
    const { client, tenant_id, provider } = world
    const sent: { path: string; body: Record<string, unknown>; resource: any }[] = []
    const send = async (path: string, fields: object) => {
      const body = { ...fields, metadata: { order: '17' }, idempotency_key: freshKey() }
      const answer = await client.post(path, body, WAIT)
      expect([path, answer.status], answer.text).toEqual([path, 201])
      sent.push({ path, body, resource: answer.body })
      return answer.body
    }
    const customer = await send('/v1/customers', { name: 'Ada', email: 'ada@example.com' })
    const merchant = await send('/v1/merchants', MERCHANT)
    const to = await send('/v1/recipients', RECIPIENT)
    const parties = { customer_id: customer.id, merchant_id: merchant.id }
    const payment = await send('/v1/payments', { ...BY_CARD, amount_minor: 5000, ...parties })
    await client.post(`/v1/payments/${payment.id}/capture`)
    await send(`/v1/payments/${payment.id}/refunds`, { amount_minor: 300 })
    await send('/v1/payouts', { amount_minor: 700, currency: 'usd', recipient_id: to.id })
    await send('/v1/wallet/top_ups', { amount_minor: 500, currency: 'usd' })
    await send('/v1/compliance/kyc', { subject_type: 'customer', subject_id: customer.id })
    await world.drain()
    await loseEverythingOf(world, tenant_id)
    await untilListsRead(world)
    expect((await client.get(`/v1/recipients/${to.id}`)).body).toMatchObject({
      name: 'Not known',
      destination: RECIPIENT.destination,
    })
    const before = await provider('stripe').effects({})

    const parties_first = 3
    for (const { path, body, resource } of sent.slice(parties_first)) {
      const other = await client.post(path, { ...body, metadata: { order: '18' } })
      expect([path, other.status, other.body.error]).toMatchObject([
        path,
        422,
        { code: 'idempotency_key_reused', context: { resource_id: resource.id } },
      ])
      const again = await client.post(path, body, WAIT)
      expect([path, again.status, again.headers.get('idempotent-replayed')]).toEqual([path, 201, 'true'])
      const { id, idempotency_key, metadata, amount_minor, currency } = resource
      expect(again.body).toMatchObject({ id, idempotency_key, metadata })
      expect([again.body.amount_minor, again.body.currency]).toEqual([amount_minor, currency])
    }
    expect(await provider('stripe').effects({})).toEqual(before)
    await checkInvariants(world)
  })

  test('fills in a customer, merchant or recipient of which only the id was known', async ({ world }) => {
    const client = await world.clientOf()
    const create = async (path: string, fields: object) => {
      const body = { ...fields, metadata: { order: '17' }, idempotency_key: freshKey() }
      return { path, body, resource: (await client.post(path, body)).body }
    }
    const customer = await create('/v1/customers', { name: 'Ada', email: 'ada@example.com' })
    const merchant = await create('/v1/merchants', MERCHANT)
    const to = await create('/v1/recipients', RECIPIENT)
    await capturedPayment(client, { customer_id: customer.resource.id, merchant_id: merchant.resource.id })
    await payOut(client, to.resource.id, {}, WAIT)
    await world.drain()
    await loseEverythingOf(world, client.tenant_id)
    await untilListsRead(world)
    const changes = [
      { email: 'ada@example.org' },
      { support_email: 'help@example.org' },
      { metadata: { n: '1' } },
    ]
    for (const [nth, { path, body, resource }] of [customer, merchant, to].entries()) {
      // A later change is not overwritten.
      expect((await client.patch(`${path}/${resource.id}`, changes[nth]!)).status).toBe(200)
      const again = await client.post(path, body)
      expect([path, again.status, again.headers.get('idempotent-replayed')]).toEqual([path, 201, 'true'])
      const { created_at: _created, updated_at: _updated, ...fields } = resource
      expect(again.body).toMatchObject({ ...fields, ...changes[nth] })
      const other = await client.post(path, { ...body, metadata: {} })
      expect([path, other.status, other.body.error.context]).toEqual([
        path,
        422,
        { resource_id: resource.id },
      ])
      expect((await client.post(path, body)).body).toEqual(again.body)
    }
    await checkInvariants(world)
  })

  test('fills in no other destination than that of its payouts, and keeps an approval of the same content only', async ({
    world,
  }) => {
    const { sql, tenant_id, ...client } = { sql: world.sql, ...(await world.clientOf()) }
    await capturedPayment(client)
    const sent = await Promise.all([
      verifiedRecipient(world, client, { type: 'account', destination: 'acct_success' }),
      ...['verified', 'verified', 'processing', 'requires_input'].map((status) =>
        verifiedRecipient(world, client, {}, status),
      ),
    ])
    const [paid, unpaid, approved, processing, open] = sent.map(({ id }) => id)
    await payOut(client, paid!, {}, WAIT)
    await world.drain()
    await loseEverythingOf(world, tenant_id)
    await untilListsRead(world)
    expect(await recipientsOf(client, [paid!, unpaid!, processing!])).toMatchObject([
      { destination: 'acct_success', kyc_status: 'approved' },
      { destination: 'ba_unknown', kyc_status: 'approved' },
      { destination: 'ba_unknown', kyc_status: 'processing' },
    ])
    await eventually(async () =>
      expect((await payOut(client, unpaid!)).body.error).toMatchObject({
        code: 'payout_invalid',
        param: 'recipient_id',
      }),
    )
    const other = await client.post('/v1/recipients', { ...sent[0].body, destination: 'acct_other' })
    expect([other.status, other.body.error]).toMatchObject([
      422,
      { code: 'idempotency_key_reused', context: { resource_id: paid } },
    ])
    const others = [{}, {}, { destination: 'acct_other' }, { name: 'Bob' }, { email: 'bob@example.com' }]
    const again = await Promise.all(
      sent.map(async ({ body }, nth) => await client.post('/v1/recipients', { ...body, ...others[nth] })),
    )
    expect(again.map(({ status, body }) => [status, body.id, body.destination, body.kyc_status])).toEqual([
      [201, paid, 'acct_success', 'approved'],
      [201, unpaid, RECIPIENT.destination, 'approved'],
      [201, approved, 'acct_other', 'none'],
      [201, processing, RECIPIENT.destination, 'none'],
      [201, open, RECIPIENT.destination, 'none'],
    ])
    expect((await payOut(client, unpaid!, {}, WAIT)).status).toBe(201)
    await settleSession(world, sent[3]!.verification.provider_reference, 'verified')
    for (const { verification } of sent.slice(3)) await outdatedIn(client, verification.id)
    const outdated = await getVerification(client, sent[2]!.verification.id)
    expect(outdated).toMatchObject({ status: 'approved', outdated: true })
    const decided = await decide(client, outdated.id, 'approved')
    expect([decided.status, decided.body.error?.code]).toEqual([409, 'kyc_outdated'])
    expect(
      (await recipientsOf(client, [approved!, processing!, open!])).map(({ kyc_status }) => kyc_status),
    ).toEqual(['none', 'none', 'none'])
    const anew = await startVerification(client, { subject_type: 'recipient', subject_id: open }, WAIT)
    await settleSession(world, anew.body.provider_reference, 'verified')
    await verificationIn(client, anew.body.id, 'approved')
    expect(await recipientsOf(client, [open!])).toMatchObject([{ kyc_status: 'approved' }])

    // A verification was recovered before the payout.
    const id = newId()
    await sql.begin((tx) => recoverParty(tx, 'recipient', { tenant_id, id }))
    await sql.begin((tx) =>
      recoverParty(tx, 'recipient', { tenant_id, id }, { destination: 'card_1a', currency: 'eur' }),
    )
    expect((await client.get(`/v1/recipients/${id}`)).body).toMatchObject({
      type: 'card',
      currency: 'eur',
      destination: 'card_1a',
    })
    await checkInvariants(world)
  })

  test('gets no approval that was for another person or destination, and none that is older than a later decision', async ({
    world,
  }) => {
    const client = await world.clientOf()
    const sent = await Promise.all(
      ['verified', 'processing', 'requires_input', 'verified', 'verified'].map((status) =>
        verifiedRecipient(world, client, {}, status),
      ),
    )
    const ids = sent.map(({ id }) => id)
    const [, processing, open, , later] = sent.map((each) => ({
      ...each,
      kyc: each.verification.id as string,
    }))
    await world.drain()
    await loseEverythingOf(world, client.tenant_id, { switched: false })

    const others = [{ destination: 'acct_other' }, { name: 'Bob' }, { name: 'Bob' }, {}, {}]
    for (const [nth, { body }] of sent.entries())
      expect((await client.post('/v1/recipients', { ...body, ...others[nth] })).status).toBe(201)
    const repeated = await startVerification(client, open!.verification_body, WAIT)
    expect(repeated.body).toMatchObject({ id: open!.kyc })
    const { body: new_one } = await startVerification(client, {
      subject_type: 'recipient',
      subject_id: later!.id,
    })
    expect((await decide(client, new_one.id, 'rejected')).status).toBe(200)
    await recordSwitch(world.sql)
    await untilListsRead(world)
    await settleSession(world, processing!.verification.provider_reference, 'verified')
    for (const { verification } of sent.slice(0, 3)) await outdatedIn(client, verification.id)
    await outdatedIn(client, later!.kyc)
    await verificationIn(client, sent[3]!.verification.id, 'approved')
    expect((await recipientsOf(client, ids)).map(({ kyc_status }) => kyc_status)).toEqual([
      'none',
      'none',
      'none',
      'approved',
      'rejected',
    ])
    const session = await callProvider(world, 'GET', `/${open!.verification.provider_reference}`)
    expect(session.status).toBe('canceled')
    await world.drain()
    const drifts = await world.sql`select subject, detail from drifts where resolved_at is null`
    expect([...drifts]).toEqual([])
    await checkInvariants(world)
  })

  test('is fulfilled if it captured or canceled the payment; a request with another key is refused', async ({
    world,
  }) => {
    const client = await world.clientOf()
    const [whole, part, voided] = await Promise.all(
      Array.from({ length: 3 }, async () => (await authorizedPayment(client)).id as string),
    )
    const of_capture = { refusal: 'payment_not_capturable', other: { amount_minor: 399 } }
    const of_cancel = { refusal: 'payment_not_cancelable', other: { idempotency_key: freshKey() } }
    const sent = [
      { path: `/v1/payments/${whole}/capture`, fields: {}, ...of_capture },
      { path: `/v1/payments/${part}/capture`, fields: { amount_minor: 400 }, ...of_capture },
      { path: `/v1/payments/${voided}/cancel`, fields: {}, ...of_cancel },
    ].map(({ fields, ...request }) => ({ ...request, body: { ...fields, idempotency_key: freshKey() } }))
    for (const { path, body } of sent) expect((await client.post(path, body, WAIT)).status).toBe(200)
    await world.drain()
    await loseEverythingOf(world, client.tenant_id)
    await untilListsRead(world)
    await Promise.all([paymentIn(client, part!, 'captured'), paymentIn(client, voided!, 'canceled')])
    const before = await world.provider('stripe').effects({})

    const repeated = sent.map(({ path, body, ...rest }) => ({
      ...rest,
      done: path.endsWith('cancel') ? 'canceled' : 'captured',
      post: async (changes: object, wait = WAIT) => {
        const { status, body: answer } = await client.post(path, { ...body, ...changes }, wait)
        return [status, answer.error?.code ?? answer.status]
      },
    }))
    for (const { post, refusal, other } of repeated) {
      expect(await post({ idempotency_key: freshKey() })).toEqual([409, refusal])
      expect(await post(other)).toEqual([409, refusal])
    }
    // Until the jobs decide, a replay is not answered as done either.
    const payments = { tenant_id: client.tenant_id, queue: 'payments' } as const
    await pauseJobs(world.sql, payments)
    const accepted = repeated.map(async ({ post, done }) => {
      for (let n = 0; n < 2; n++) expect(await post({}, { prefer: 'wait=1' })).toEqual([202, done])
    })
    await Promise.all(accepted)
    await resumeJobs(world.sql, payments)
    for (const { post, refusal, done } of repeated) {
      expect(await post({})).toEqual([200, done])
      expect(await post({ idempotency_key: freshKey() })).toEqual([409, refusal])
      expect(await post({})).toEqual([200, done])
    }
    // A worker of an older version leaves these jobs alone: it refuses fields of a request that it does not know.
    const confirming = await world.sql<{ request: Record<string, unknown> }[]>`
      select request from (table jobs union all table job_history) j
      where tenant_id = ${client.tenant_id} and payload ? 'confirms'`
    expect(confirming.length).toBeGreaterThanOrEqual(sent.length)
    expect(confirming.filter(({ request }) => request['confirms'] !== true)).toEqual([])
    expect(await world.provider('stripe').effects({})).toEqual(before)
    await checkInvariants(world)
  })
})
