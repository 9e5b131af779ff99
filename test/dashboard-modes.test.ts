// Test mode in the dashboard: a page of test mode reads and changes only the twin, and people have their roles in both
// modes.
import { expect } from 'vitest'
import { freshKey, createClient } from '#test/client.ts'
import { disputeIn } from '#test/disputes.ts'
import { createPayment, eventually, paymentIn } from '#test/payments.ts'
import { payOut, payoutIn, recipient } from '#test/payouts.ts'
import { createPerson, entriesOf, signedInAs, signIn, type Browser, type Person } from '#test/people.ts'
import { topUp } from '#test/top-ups.ts'
import { verificationIn, verificationOf } from '#test/verifications.ts'
import { testIn, type World } from '#test/world.ts'

const TEST = { 'x-sluice-mode': 'test' }
const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'

const test = testIn({
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  env: { TRUSTED_PROXIES: '127.0.0.1/32' },
})

/** Opens test mode as its pages do. Returns the id of the twin. */
async function openTestMode(browser: Browser, tenant_id: string): Promise<string> {
  const opened = await browser.post('/api/session/tenant', { tenant_id, mode: 'test' }, TEST)
  expect([opened.status, opened.body]).toEqual([200, { tenant_id: expect.any(String), mode: 'test' }])
  return opened.body.tenant_id
}

const twinsOf = (world: World, tenant_id: string) =>
  world.sql<{ id: string; slug: string }[]>`select id, slug from tenants where twin_id = ${tenant_id}`

test('the first page of test mode creates the twin, and later ones find it', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'first-visit' })
  const browser = await signedInAs(world, { role: 'read-only', tenant_id })
  expect(await twinsOf(world, tenant_id)).toEqual([])
  expect((await browser.get('/api/session', TEST)).body).toMatchObject({
    tenant: null,
    tenant_without_twin: tenant_id,
    role: null,
    may: [],
  })
  expect((await browser.get('/api/v1/payments', TEST)).body.error).toMatchObject({ code: 'forbidden' })
  expect(await twinsOf(world, tenant_id)).toEqual([])

  const twin_id = await openTestMode(browser, tenant_id)
  expect(await twinsOf(world, tenant_id)).toEqual([{ id: twin_id, slug: 'first-visit' }])
  expect(await openTestMode(browser, tenant_id)).toBe(twin_id)
  const session = (await browser.get('/api/session', TEST)).body
  expect(session).toMatchObject({
    tenant: { id: twin_id, live_id: tenant_id, slug: 'first-visit', mode: 'test' },
    tenant_without_twin: null,
    role: 'read-only',
    tenants: [{ id: tenant_id, twin_id, role: 'read-only' }],
  })
  // A request without a mode is of live mode, whatever mode was opened last.
  expect((await browser.get('/api/session')).body.tenant).toMatchObject({ id: tenant_id, mode: 'live' })
  const unknown_mode = await browser.get('/api/session', { 'x-sluice-mode': 'both' })
  expect([unknown_mode.status, unknown_mode.body.error.param]).toEqual([400, 'x-sluice-mode'])
})

test('a page of test mode reads and changes nothing of live mode, and the other way round', async ({
  world,
}) => {
  const { tenant_id, ...live_client } = await world.clientOf({ tenant: 'apart' })
  const browser = await signedInAs(world, { role: 'owner', tenant_id })
  const twin_id = await openTestMode(browser, tenant_id)
  const create = async (headers: Record<string, string>, name: string) => {
    const key = { 'idempotency-key': freshKey() }
    return (await browser.post('/api/v1/customers', { name }, { ...key, ...headers })).body
  }
  const ours = await create({}, 'Live')
  const theirs = await create(TEST, 'Test')
  expect([ours, theirs]).toMatchObject([
    { tenant_id, livemode: true },
    { tenant_id: twin_id, livemode: false },
  ])
  const names = async (headers?: Record<string, string>) =>
    (await browser.get('/api/v1/customers', headers)).body.map(({ name }: { name: string }) => name)
  expect([await names(), await names(TEST)]).toEqual([['Live'], ['Test']])
  expect((await browser.get(`/api/v1/customers/${ours.id}`, TEST)).status).toBe(404)
  expect((await browser.get(`/api/v1/customers/${theirs.id}`)).status).toBe(404)
  await eventually(async () => {
    const events = (await browser.get('/api/events', TEST)).body
    expect(events).toMatchObject([{ type: 'customer.created', data: { livemode: false } }])
    expect((await browser.get('/api/events')).body).toMatchObject([{ data: { livemode: true } }])
  })

  const created = await browser.post('/api/keys', { name: 'Tests', scopes: ['customer:write'] }, TEST)
  expect(created.body.secret).toMatch(/^sk_test_apart_/)
  const rotated = await browser.post(`/api/keys/${created.body.id}/rotate`, {}, TEST)
  expect(rotated.body.secret).toMatch(/^sk_test_apart_/)
  const client = createClient(live_client.url, rotated.body.secret)
  const by_key = await client.post('/v1/customers', { idempotency_key: freshKey() })
  expect(by_key.body).toMatchObject({ tenant_id: twin_id, livemode: false })
  expect((await browser.get('/api/keys')).text).not.toContain(created.body.id)
  expect((await browser.get('/api/keys', TEST)).body).toHaveLength(2)
  // The audit log of each mode has the acts in this mode.
  const actions = async (headers?: Record<string, string>) => {
    const { body } = await browser.get(`/api/audit?action=keys&actor=${browser.email}`, headers)
    return body.map(({ action }: { action: string }) => action)
  }
  expect([await actions(TEST), await actions()]).toEqual([['keys.rotate', 'keys.create'], []])
})

test('a request whose tenant does not belong to its mode is refused', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'mismatch' })
  const browser = await signedInAs(world, { role: 'owner', tenant_id })
  const twin_id = await openTestMode(browser, tenant_id)
  for (const headers of [{ 'x-sluice-tenant': twin_id }, { ...TEST, 'x-sluice-tenant': tenant_id }]) {
    const { status, body } = await browser.post('/api/v1/customers', { name: 'Ada' }, headers)
    expect([status, body.error.code, body.error.message]).toEqual([
      409,
      'conflict',
      'This page shows mismatch, but your session has selected another one. Reload the page.',
    ])
  }
  const matching = { ...TEST, 'x-sluice-tenant': twin_id, 'idempotency-key': freshKey() }
  expect((await browser.post('/api/v1/customers', { name: 'Ada' }, matching)).status).toBe(201)
  expect(await world.sql`select from customers where tenant_id = ${tenant_id}`).toEqual([])
})

test('members have their role in both modes, and are changed in live mode', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'roles' })
  const owner = await signedInAs(world, { role: 'owner', tenant_id })
  const support = await signedInAs(world, { role: 'support', tenant_id })
  const outsider = await signedInAs(world, { role: 'owner' })
  await openTestMode(owner, tenant_id)
  const emails = async (headers?: Record<string, string>) =>
    (await owner.get('/api/members', headers)).body.members.map(({ email }: Person) => email)
  expect(await emails(TEST)).toEqual([owner.email, support.email])
  expect(await emails()).toEqual([owner.email, support.email])

  const role = async () => (await support.get('/api/session', TEST)).body.role
  expect(await role()).toBe('support')
  expect((await support.post('/api/v1/payments', {}, TEST)).body.error.code).toBe('forbidden')
  expect((await support.post('/api/keys', { name: 'x', scopes: ['events:read'] }, TEST)).status).toBe(403)
  const path = `/api/members/${support.user_id}`
  const refused = await owner.send('PATCH', path, { role: 'admin' }, TEST)
  expect([refused.status, refused.body.error.message]).toEqual([
    403,
    'Members and roles are those of both modes: change them in live mode.',
  ])
  expect((await owner.get('/api/session', TEST)).body).toMatchObject({ role: 'owner', roles_to_give: [] })
  expect((await owner.get('/api/session', TEST)).body.may).not.toContain('members.manage')
  expect((await owner.send('PATCH', path, { role: 'developer' })).status).toBe(204)
  expect(await role()).toBe('developer')
  expect((await owner.send('DELETE', path)).status).toBe(204)
  expect((await support.get('/api/session', TEST)).body).toMatchObject({
    tenant: null,
    tenant_without_twin: null,
  })
  expect((await support.get('/api/v1/customers', TEST)).status).toBe(403)

  const twins = await twinsOf(world, tenant_id)
  for (const id of [tenant_id, twins[0]!.id])
    expect((await outsider.post('/api/session/tenant', { tenant_id: id, mode: 'test' })).status).toBe(404)
})

test("an operator reads a twin, which the twin's audit log records, and sees no problem of the installation there", async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'watched' })
  const operator = await signedInAs(world, { is_operator: true })
  const owner = await signedInAs(world, { role: 'owner', tenant_id })
  const twin_id = await openTestMode(owner, tenant_id)
  // A row of operations names the twin: its pages are those of test mode.
  const selected = await operator.post('/api/session/tenant', { tenant_id: twin_id })
  expect(selected.body).toEqual({ tenant_id: twin_id, mode: 'test' })
  expect((await operator.get('/api/session')).body.tenant).toMatchObject({ id: tenant_id })
  expect((await operator.get('/api/v1/customers', TEST)).status).toBe(200)
  const entries = await world.sql`
    select action from audit_entries where actor_id = ${operator.user_id} and tenant_id = ${twin_id} order by seq`
  expect(entries.map(({ action }) => action)).toEqual(['show_tenant', 'listCustomers'])
  const create = await operator.post('/api/v1/customers', {}, { ...TEST, 'x-sluice-tenant': twin_id })
  expect(create.body.error.code).toBe('forbidden')

  await world.sql`
    insert into recurring_work (name, due_at, failure, failing_since, failed_runs)
    values ('failing work', now() + interval '1 hour', 'refused', now(), 1)`
  const kinds = async (headers?: Record<string, string>) =>
    (await operator.get('/api/overview', headers)).body.attention.map(({ kind }: { kind: string }) => kind)
  expect(await kinds()).toContain('schedule_failing')
  expect(await kinds(TEST)).toEqual([])
  await world.sql`delete from recurring_work where name = 'failing work'`
})

test('the sandbox belongs to test mode, and each of its acts needs a role and is audited', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'sandbox' })
  const people = {
    developer: await signedInAs(world, { role: 'developer', tenant_id }),
    'read-only': await signedInAs(world, { role: 'read-only', tenant_id }),
  }
  await openTestMode(people.developer, tenant_id)
  const acts: [action: string, subject: string, path: string, code: string, body?: object][] = [
    ['sandbox.reply', 'message', `messages/${UNKNOWN_ID}/reply`, 'message_not_found', { text: 'STOP' }],
    [
      'sandbox.authenticate',
      'payment',
      `payments/${UNKNOWN_ID}/authenticate`,
      'payment_not_found',
      { outcome: 'succeeded' },
    ],
    ['sandbox.dispute', 'payment', `payments/${UNKNOWN_ID}/dispute`, 'payment_not_found'],
    ['sandbox.fail', 'payout', `payouts/${UNKNOWN_ID}/fail`, 'payout_not_found'],
    ['sandbox.complete', 'kyc', `kyc/${UNKNOWN_ID}/complete`, 'kyc_not_found', { outcome: 'succeeded' }],
  ]
  for (const [action, subject, path, code, body] of acts) {
    const by_reader = await people['read-only'].post(`/api/sandbox/${path}`, body, TEST)
    expect([path, by_reader.body.error]).toMatchObject([
      path,
      { code: 'forbidden', context: { roles: ['owner', 'admin', 'developer', 'support'] } },
    ])
    const in_live_mode = await people.developer.post(`/api/sandbox/${path}`, body)
    expect([path, in_live_mode.body.error]).toMatchObject([
      path,
      { code: 'test_mode_only', message: 'The sandbox belongs to test mode.' },
    ])
    const before = await entriesOf(world, people.developer)
    const answer = await people.developer.post(`/api/sandbox/${path}`, body, TEST)
    expect([path, answer.status, answer.body.error.code]).toEqual([path, 404, code])
    const [request, outcome] = (await entriesOf(world, people.developer)).slice(before.length)
    expect([request, outcome]).toMatchObject([{ action }, { action, details: { status: 404 } }])
    const subjects = await world.sql`
      select subject, subject_id from audit_entries
      where actor = ${people.developer.email} and action = ${action} and answers is null`
    expect([path, ...subjects]).toEqual([path, { subject, subject_id: UNKNOWN_ID }])
  }
  expect((await people.developer.get('/api/sandbox/messages')).status).toBe(403)
  const bad = await people.developer.post(`/api/sandbox/${acts[1]![2]}`, { outcome: 'maybe' }, TEST)
  expect(bad.status).toBe(400)
})

test('a person pays, disputes and answers as the buyer, the bank and the phone, and reads the inbox', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'acted' })
  const browser = await signedInAs(world, { role: 'support', tenant_id })
  await openTestMode(browser, tenant_id)
  const shop = await world.clientOf({ tenant: 'acted', mode: 'test' })
  const act = (path: string, body?: object) => browser.post(`/api/sandbox/${path}`, body, TEST)

  const { body: payment } = await createPayment(shop, { payment_method: undefined })
  const path = `payments/${payment.id}`
  const early = await act(`${path}/dispute`)
  expect([early.status, early.body.error.code]).toEqual([409, 'conflict'])
  expect(early.body.error.message).toContain('has no captured amount')
  const paid = await act(`${path}/authenticate`, { outcome: 'succeeded' })
  expect([paid.status, paid.body]).toEqual([200, { id: payment.id }])
  await paymentIn(shop, payment.id, 'authorized')
  await shop.post(`/v1/payments/${payment.id}/capture`)
  await paymentIn(shop, payment.id, 'captured')
  expect((await act(`${path}/dispute`)).status).toBe(200)
  await disputeIn(shop, payment.id, 'needs_response')

  const top_up = (await topUp(shop)).body
  await eventually(async () =>
    expect((await shop.get(`/v1/wallet/top_ups/${top_up.id}`)).body).toMatchObject({ status: 'succeeded' }),
  )
  const payout = await payOut(shop, await recipient(shop, 'ba_success'))
  await payoutIn(shop, payout.body.id, 'paid')
  expect((await act(`payouts/${payout.body.id}/fail`)).status).toBe(200)
  await payoutIn(shop, payout.body.id, 'failed')

  const verification = await verificationOf(shop)
  expect(new URL(verification.url).pathname).toMatch(/^\/test\/sandbox\/identity\//)
  const complete = (outcome: string) => act(`kyc/${verification.id}/complete`, { outcome })
  expect((await complete('failed')).status).toBe(200)
  await eventually(async () =>
    expect((await shop.get(`/v1/compliance/kyc/${verification.id}`)).body).toMatchObject({
      status: 'requires_input',
      failure: { code: 'document_unverified_other' },
    }),
  )
  expect((await complete('succeeded')).status).toBe(200)
  await verificationIn(shop, verification.id, 'approved')
  expect((await complete('failed')).body.error).toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('verified'),
  })

  const sms = { to: '+4915112345678', body: 'Shipped', idempotency_key: freshKey() }
  expect((await shop.post('/v1/messages/sms', sms)).status).toBe(201)
  const inbox = async () => (await browser.get('/api/sandbox/messages', TEST)).body
  const [sent, ...others] = await inbox()
  expect([sent, others]).toMatchObject([{ channel: 'sms', to: [sms.to], subject: null }, []])
  const message = await browser.get(`/api/sandbox/messages/${sent.id}`, TEST)
  expect(message.body).toEqual({ ...sent, text: 'Shipped', html: null, attachments: [] })
  expect((await act(`messages/${sent.id}/reply`, { text: 'STOP' })).status).toBe(200)
  expect(await inbox()).toMatchObject([{ status: 'received', from: sms.to }, { id: sent.id }])
  const filtered = await browser.get(`/api/sandbox/messages?to=${encodeURIComponent(sms.to)}`, TEST)
  expect(filtered.body).toEqual([sent])
  await eventually(async () =>
    expect((await shop.get('/v1/messages/suppressions')).body).toMatchObject([{ reason: 'opt_out' }]),
  )
  const other = await world.clientOf({ tenant: 'not-acted' })
  const stranger = await signedInAs(world, { role: 'owner', tenant_id: other.tenant_id })
  await openTestMode(stranger, other.tenant_id)
  expect((await stranger.get('/api/sandbox/messages', TEST)).body).toEqual([])
  expect((await stranger.get(`/api/sandbox/messages/${sent.id}`, TEST)).status).toBe(404)
})

test('a user of several tenants opens test mode of the selected one', async ({ world }) => {
  const [one, other] = [
    await world.clientOf({ tenant: 'several-1' }),
    await world.clientOf({ tenant: 'several-2' }),
  ]
  const person = await createPerson(world, { role: 'owner', tenant_id: one.tenant_id })
  await world.sql`insert into members (tenant_id, user_id, role) values (${other.tenant_id}, ${person.user_id}, 'read-only')`
  const browser = await signIn(world.dashboard_url, person)
  const twin_id = await openTestMode(browser, other.tenant_id)
  expect((await browser.get('/api/session', TEST)).body).toMatchObject({
    tenant: { id: twin_id, slug: 'several-2' },
    role: 'read-only',
  })
  // The link of a verification names no tenant: it is found in all tenants of the user, and in no others.
  const linkOf = async (tenant: string) => {
    const shop = await world.clientOf({ tenant, mode: 'test' })
    const { id, url } = await verificationOf(shop)
    const path = `/api/sandbox/kyc?session=${/\/(vs_\w+)\//.exec(url)![1]!}`
    return { path, linked: { id, tenant_id: shop.tenant_id, tenant_name: expect.any(String) } }
  }
  for (const { path, linked } of [await linkOf('several-1'), await linkOf('several-2')]) {
    expect((await browser.get(path, TEST)).body).toEqual(linked)
    expect((await browser.get(path)).body.error.code).toBe('test_mode_only')
  }
  const foreign = await browser.get((await linkOf('several-not')).path, TEST)
  expect([foreign.status, foreign.body.error.code]).toEqual([404, 'kyc_not_found'])
  // A write without the tenant header is ambiguous.
  const write = await browser.post('/api/v1/customers', { name: 'Ada' }, TEST)
  expect([write.status, write.body.error.param]).toEqual([400, 'x-sluice-tenant'])
})
