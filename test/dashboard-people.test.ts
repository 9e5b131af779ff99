// Permissions in the dashboard: roles, members, API keys, operators, and their audit log.
import { expect } from 'vitest'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { SCOPES } from '#domain/areas.ts'
import { ROLES, type MemberRole } from '#domain/people/role.ts'
import { createClient, freshKey, BY_CARD, type Answer } from '#test/client.ts'
import { authorizedPayment } from '#test/payments.ts'
import { startInThisProcess } from '#test/parts.ts'
import { until } from '#test/process.ts'
import {
  createBrowser,
  createPerson,
  entriesOf,
  PASSWORD,
  signedInAs,
  signIn,
  tryPassword,
  type Browser,
  type Person,
} from '#test/people.ts'
import { testIn, type World } from '#test/world.ts'

const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'

let url: string
const by = {} as Record<MemberRole, Browser & Person>

const test = testIn({
  parts: ['api', 'webhooks', 'worker', 'dashboard'],
  env: { TRUSTED_PROXIES: '127.0.0.1/32' },
})
test.beforeAll(async ({ world }) => {
  url = world.dashboard_url
  for (const role of ROLES) by[role] = await signedInAs(world, { role })
})

/**
 * Acts, and the roles that may do each act in addition to owner and admin. No act succeeds: the ids are unknown, and
 * the bodies are empty.
 */
const ACTS: [act: string, method: string, path: string, ...MemberRole[]][] = [
  ['createPayment', 'POST', '/api/v1/payments'],
  ['capturePayment', 'POST', `/api/v1/payments/${UNKNOWN_ID}/capture`, 'support'],
  ['cancelPayment', 'POST', `/api/v1/payments/${UNKNOWN_ID}/cancel`, 'support'],
  ['createRefund', 'POST', `/api/v1/payments/${UNKNOWN_ID}/refunds`, 'support'],
  ['createPayout', 'POST', '/api/v1/payouts'],
  ['cancelPayout', 'POST', `/api/v1/payouts/${UNKNOWN_ID}/cancel`],
  ['decideKyc', 'POST', `/api/v1/compliance/kyc/${UNKNOWN_ID}/decide`, 'support'],
  ['linkKyc', 'POST', `/api/v1/compliance/kyc/${UNKNOWN_ID}/link`, 'support'],
  ['createCustomer', 'POST', '/api/v1/customers'],
  ['deleteCustomer', 'DELETE', `/api/v1/customers/${UNKNOWN_ID}`],
  ['cancelMessage', 'POST', `/api/v1/messages/${UNKNOWN_ID}/cancel`, 'support'],
  ['createWebhookEndpoint', 'POST', '/api/v1/webhook_endpoints', 'developer'],
  ['deleteWebhookEndpoint', 'DELETE', `/api/v1/webhook_endpoints/${UNKNOWN_ID}`, 'developer'],
  ['rotateWebhookSecret', 'POST', `/api/v1/webhook_endpoints/${UNKNOWN_ID}/rotate_secret`, 'developer'],
  [
    'replayWebhookDelivery',
    'POST',
    `/api/v1/webhook_deliveries/${UNKNOWN_ID}/replay`,
    'developer',
    'support',
  ],
  ['createMessageTemplate', 'POST', '/api/v1/messages/templates', 'developer'],
  [
    'previewMessageTemplate',
    'POST',
    '/api/v1/messages/templates/x/preview',
    'developer',
    'support',
    'read-only',
  ],
  ['keys.manage', 'POST', '/api/keys', 'developer'],
  ['keys.manage', 'POST', `/api/keys/${UNKNOWN_ID}/rotate`, 'developer'],
  ['keys.manage', 'POST', `/api/keys/${UNKNOWN_ID}/revoke`, 'developer'],
  ['members.manage', 'POST', '/api/members/invitations'],
  ['members.manage', 'POST', `/api/members/invitations/${UNKNOWN_ID}/revoke`],
  ['members.manage', 'PATCH', `/api/members/${UNKNOWN_ID}`],
  ['members.manage', 'DELETE', `/api/members/${UNKNOWN_ID}`],
]

test('each role may do exactly its acts, and a refusal names the roles that may do the act', async () => {
  // These paths require a body; the other paths accept an empty body.
  const bodies: Record<string, object> = {
    '/api/keys': { name: '' },
    [`/api/members/${UNKNOWN_ID}`]: { role: 'support' },
    '/api/members/invitations': { email: 'a@people.example', role: 'nothing' },
  }
  const seen: unknown[] = []
  const expected: unknown[] = []
  for (const role of ROLES) {
    const { may, who_may, roles_to_give } = (await by[role].get('/api/session')).body
    seen.push([role, roles_to_give])
    expected.push([role, role === 'owner' ? ROLES : role === 'admin' ? ROLES.slice(1) : []])
    for (const [act, method, path, ...others] of ACTS) {
      const roles = [...ROLES.slice(0, 2), ...others]
      const allowed = roles.includes(role)
      const valid = path === '/api/keys' ? { name: 'x', scopes: ['events:read'] } : undefined
      const invitation = path.endsWith('/invitations')
        ? { email: 'a@people.example', role: 'support' }
        : undefined
      const body = allowed ? (bodies[path] ?? {}) : (valid ?? invitation ?? bodies[path] ?? {})
      const response = await by[role].send(method, path, method === 'DELETE' ? undefined : body)
      const { error } = response.body
      const refusal = response.status === 403 ? error.context.roles : 'allowed'
      seen.push([role, act, path, refusal, may.includes(act), who_may[act]])
      expected.push([role, act, path, allowed ? 'allowed' : roles, allowed, roles])
    }
    for (const path of [
      'payments',
      'customers',
      'payouts',
      'events',
      'webhook_endpoints',
      'messages',
      'wallet/balances',
    ])
      seen.push([role, path, (await by[role].get(`/api/v1/${path}`)).status])
    for (const path of [
      'payments',
      'customers',
      'payouts',
      'events',
      'webhook_endpoints',
      'messages',
      'wallet/balances',
    ])
      expected.push([role, path, 200])
    for (const path of ['/api/keys', '/api/members', '/api/audit'])
      seen.push([role, path, (await by[role].get(path)).status])
    for (const path of ['/api/keys', '/api/members', '/api/audit']) expected.push([role, path, 200])
    seen.push((await by[role].get('/api/ops/audit')).body.error.context.roles)
    expected.push(['operator'])
  }
  expect(seen).toEqual(expected)
  // Only the request log contains refused and invalid requests, because they change nothing.
  const { body } = await by.owner.get(`/api/audit?actor=${by['read-only'].email}`)
  expect(body.map(({ action }: { action: string }) => action)).toEqual(['sign_in'])
})

test('an act is in the audit log before it runs, later with its outcome, and without private data', async ({
  world,
}) => {
  const payment = await authorizedPayment(world.client)
  const captured = await by.support.post(`/api/v1/payments/${payment.id}/capture`, { amount_minor: 400 })
  expect(captured.body).toMatchObject({ status: 'captured' })
  const seq = Number(captured.headers.get('x-audit-entry'))
  const find = async (of: number) => (await by.owner.get(`/api/audit?seq=${of}`)).body
  expect(await find(seq)).toMatchObject([
    {
      seq,
      tenant: 'acme',
      actor: by.support.email,
      action: 'capturePayment',
      subject: 'payment',
      subject_id: payment.id,
      details: { amount_minor: '400' },
      request_id: captured.headers.get('x-request-id'),
      address: expect.stringMatching(/^203\.0\.113\./),
      outcome: { status: 200 },
      expects_outcome: true,
    },
  ])
  const repeated = await by.support.post(`/api/v1/payments/${payment.id}/capture`)
  expect(repeated.status).toBe(409)
  expect(await find(Number(repeated.headers.get('x-audit-entry')))).toMatchObject([
    { outcome: { status: 409 } },
  ])

  const key = freshKey()
  const request = { ...BY_CARD, amount_minor: 700, idempotency_key: key, description: 'private words' }
  const made = await by.owner.post('/api/v1/payments', request)
  expect(made.body).toMatchObject({ amount_minor: 700, status: 'authorized' })
  expect(await find(Number(made.headers.get('x-audit-entry')))).toMatchObject([
    {
      action: 'createPayment',
      details: { amount_minor: '700', idempotency_key: key },
      outcome: { status: 201, id: made.body.id },
    },
  ])
  const mail = {
    idempotency_key: freshKey(),
    to: 'secret-person@shop.example',
    subject: 'private words',
    text: 'private words',
  }
  await by.owner.post('/api/v1/messages/email', mail)
  const all = JSON.stringify(await world.sql`select * from audit_entries`)
  for (const secret of ['private words', 'secret-person', PASSWORD, 'pm_card_visa'])
    expect(all).not.toContain(secret)
})

test('the audit log has the reason of a decision about a verification only if the reason is a code', async () => {
  const reasonOf = async (path: string, body: object) => {
    const { headers } = await by.owner.post(`/api/v1/${path}`, { ...body, idempotency_key: freshKey() })
    const { body: entries } = await by.owner.get(`/api/audit?seq=${headers.get('x-audit-entry')}`)
    return entries[0].details.reason
  }
  const decision = `compliance/kyc/${UNKNOWN_ID}/decide`
  expect(await reasonOf(decision, { decision: 'rejected', reason: 'Ada, born 1815' })).toBeUndefined()
  expect(await reasonOf(decision, { decision: 'rejected', reason: 'document_expired' })).toBe(
    'document_expired',
  )
  const failure = `payouts/${UNKNOWN_ID}/fail`
  expect(await reasonOf(failure, { reason: 'The bank says no.' })).toBe('The bank says no.')
})

test('tenants are isolated from each other', async ({ world }) => {
  const other = await world.clientOf({ tenant: 'other' })
  const other_payment = await authorizedPayment(other)
  const other_owner = await signedInAs(world, { role: 'owner', tenant_id: other.tenant_id })
  for (const path of [
    `payments/${other_payment.id}`,
    `payments/${other_payment.id}/timeline`,
    `payments/${other_payment.id}/events`,
  ])
    expect((await by.owner.get(`/api/v1/${path}`)).status).toBe(404)
  expect((await by.owner.post(`/api/v1/payments/${other_payment.id}/cancel`)).body.error.code).toBe(
    'payment_not_found',
  )
  expect((await by.owner.get('/api/v1/payments')).text).not.toContain(other_payment.id)
  const selectTenant = (browser: Browser, tenant_id: string) =>
    browser.post('/api/session/tenant', { tenant_id })
  expect((await selectTenant(by.owner, other.tenant_id)).body.error.code).toBe('not_found')
  expect((await selectTenant(by.owner, UNKNOWN_ID)).status).toBe(404)
  expect((await by.owner.get('/api/session')).body.tenant.slug).toBe('acme')
  expect((await by.owner.post(`/api/keys/${other.key_id}/revoke`)).status).toBe(404)
  expect((await by.owner.post(`/api/keys/${other.key_id}/rotate`, {})).status).toBe(404)
  expect((await by.owner.get('/api/keys')).text).not.toContain(other.key_id)
  expect((await by.owner.send('DELETE', `/api/members/${other_owner.user_id}`)).status).toBe(404)
  expect((await by.owner.get('/api/audit?limit=100')).text).not.toContain(other_owner.email)
  expect((await other.get(`/v1/payments/${other_payment.id}`)).body.status).toBe('authorized')

  // A member of two tenants, with a different role in each.
  await world.sql`insert into members (tenant_id, user_id, role) values (${world.tenant_id}, ${other_owner.user_id}, 'read-only')`
  expect((await selectTenant(other_owner, world.tenant_id)).status).toBe(200)
  expect((await other_owner.get('/api/session')).body).toMatchObject({
    tenant: { slug: 'acme' },
    role: 'read-only',
  })
  const here = { 'x-sluice-tenant': world.tenant_id }
  expect((await other_owner.post('/api/v1/payments', {}, here)).body.error.code).toBe('forbidden')
  expect((await other_owner.get(`/api/v1/payments/${other_payment.id}`)).status).toBe(404)
})

test('the audit log records what an operator reads of a tenant, and an operator cannot change anything', async ({
  world,
}) => {
  const operator = await signedInAs(world, { is_operator: true })
  expect((await operator.get('/api/session')).body).toMatchObject({
    is_operator: true,
    tenant: null,
    role: null,
  })
  expect((await operator.get('/api/v1/payments')).body.error.code).toBe('forbidden')
  expect((await operator.post('/api/session/tenant', { tenant_id: world.tenant_id })).status).toBe(200)
  expect((await operator.get('/api/session')).body).toMatchObject({
    role: 'operator',
    may: ['previewMessageTemplate'],
    tenants: [],
  })
  const payment = await authorizedPayment(world.client)
  for (const path of ['payments?limit=5', `payments/${payment.id}`, `payments/${payment.id}`])
    expect((await operator.get(`/api/v1/${path}`)).status).toBe(200)
  await operator.get('/api/v1/messages/suppressions?address=private-person@shop.example')
  for (const path of [`v1/payments/${payment.id}/cancel`, 'v1/customers', 'keys', 'members/invitations']) {
    const body =
      path === 'keys' ? { name: 'x', scopes: ['events:read'] } : { email: 'a@b.example', role: 'owner' }
    const response = await operator.post(`/api/${path}`, body, { 'x-sluice-tenant': world.tenant_id })
    expect([path, response.status, response.body.error.code]).toEqual([path, 403, 'forbidden'])
  }
  expect((await operator.get('/api/ops/audit')).status).toBe(200)
  const entries = await entriesOf(world, operator)
  expect(entries.map(({ action }) => action)).toEqual([
    'sign_in',
    'show_tenant',
    'listPayments',
    'getPayment',
    expect.stringContaining('uppression'),
  ])
  expect(JSON.stringify(entries)).not.toContain('private-person')
  // The tenant sees the operator's access.
  expect((await by.owner.get(`/api/audit?actor=${operator.email}&action=getPayment`)).body).toHaveLength(1)
  // The filter also matches the label that the pages show for the action.
  expect((await by.owner.get(`/api/audit?actor=${operator.email}&action=Get%20pay`)).body).toHaveLength(1)
  await world.sql`update users set is_operator = false where id = ${operator.user_id}`
  expect((await operator.get('/api/v1/payments')).status).toBe(403)
})

test('a key from the dashboard works at once, can be rotated with a grace period, and is refused within a second after its revocation', async ({
  world,
}) => {
  const dev = by.developer
  const bad = await dev.post('/api/keys', { name: 'x', scopes: ['payments:all'] })
  expect(bad.body.error).toMatchObject({ code: 'invalid_request', param: 'scopes.0' })
  const expired = await dev.post('/api/keys', {
    name: 'x',
    scopes: ['events:read'],
    expires_at: '2020-01-01T00:00:00Z',
  })
  expect(expired.body.error).toMatchObject({ code: 'invalid_request', param: 'expires_at' })
  const made = await dev.post('/api/keys', { name: 'Shop', scopes: ['payments:read'], expires_at: null })
  expect([made.status, made.headers.get('cache-control')]).toEqual([201, 'no-store'])
  const statusOf = async (secret: string) =>
    (await createClient(world.client.url, secret).get('/v1/payments')).status
  expect(await statusOf(made.body.secret)).toBe(200)
  expect((await createClient(world.client.url, made.body.secret).post('/v1/payments', {})).status).toBe(403)
  const listed = await by['read-only'].get('/api/keys')
  expect(listed.body).toContainEqual(
    expect.objectContaining({ id: made.body.id, name: 'Shop', revoked_at: null }),
  )
  expect(listed.text).not.toContain(made.body.secret)

  const rotated = await dev.post(`/api/keys/${made.body.id}/rotate`, { grace_s: 60 })
  expect([await statusOf(made.body.secret), await statusOf(rotated.body.secret)]).toEqual([200, 200])
  expect((await dev.post(`/api/keys/${made.body.id}/revoke`)).status).toBe(204)
  const revoked_at = performance.now()
  await until('the key is refused', async () => (await statusOf(made.body.secret)) === 401)
  expect(performance.now() - revoked_at).toBeLessThan(1_500)
  expect(await statusOf(rotated.body.secret)).toBe(200)
  expect((await dev.post(`/api/keys/${made.body.id}/revoke`)).status).toBe(404)

  const entries = (await entriesOf(world, dev)).filter(({ action }) => action.startsWith('keys.'))
  expect(entries.slice(-3).map(({ action }) => action)).toEqual(['keys.create', 'keys.rotate', 'keys.revoke'])
  const serialized = JSON.stringify(entries)
  for (const { body } of [made, rotated]) expect(serialized).not.toContain(body.secret.split('_').at(-1))
  // A key can have all scopes.
  const all = await by.owner.post('/api/keys', { name: 'All', scopes: SCOPES })
  expect(all.status).toBe(201)

  // A role may create and rotate only keys whose scopes do not exceed its own permissions.
  const document = (await createClient(world.client.url, all.body.secret).get('/openapi.json')).body
  const needed = new Map<string, string[]>()
  for (const item of Object.values<object>(document.paths))
    for (const [method, { operationId, security }] of Object.entries<any>(item))
      for (const scope of security?.[0]?.api_key ?? [])
        needed.set(scope, [...(needed.get(scope) ?? []), ...(method === 'get' ? [] : [operationId])])
  const { may, key_scopes } = (await dev.get('/api/session')).body
  const own = SCOPES.filter((scope) => needed.get(scope)!.every((operation) => may.includes(operation)))
  expect([own.includes('webhooks:write'), key_scopes]).toEqual([true, own])
  const beyond = await dev.post('/api/keys', { name: 'x', scopes: ['payments:read', 'payouts:write'] })
  expect([beyond.status, beyond.body.error.context.scopes]).toEqual([403, ['payouts:write']])
  expect((await dev.post(`/api/keys/${all.body.id}/rotate`)).status).toBe(403)
  expect(await statusOf(all.body.secret)).toBe(200)
})

async function inbox(world: World, address: string): Promise<unknown[]> {
  return await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(address)}`)
}

/** The token of the link in the email to this address. */
async function linkTo(world: World, address: string): Promise<string> {
  return await until(`the email to ${address}`, async () => {
    return /\/invitation\/([\w-]{43})/.exec(JSON.stringify(await inbox(world, address)))?.[1]
  })
}

test('a new person is invited by email and accepts once', async ({ world }) => {
  const email = 'new.person@people.example'
  const invited = await by.admin.post('/api/members/invitations', {
    email: 'New.Person@people.example',
    role: 'support',
  })
  expect(invited.body).toMatchObject({ email, role: 'support', link: null, sent: true })
  const token = await linkTo(world, email)
  const guest = createBrowser(url)
  expect((await guest.get(`/api/invitations/${token}`)).body).toEqual({
    tenant: 'acme',
    email,
    role: 'support',
    has_user: false,
  })
  const accept = (body: object) => guest.post(`/api/invitations/${token}/accept`, body)
  expect((await accept({ name: 'New', password: 'short' })).body.error.param).toBe('password')
  const acceptances = await Promise.all([1, 2].map(() => accept({ name: 'New', password: PASSWORD })))
  expect(acceptances.map(({ status }) => String(status)).toSorted()).toEqual(['200', '404'])
  const browser = await signIn(url, { email })
  expect((await browser.get('/api/session')).body).toMatchObject({
    tenant: { slug: 'acme' },
    role: 'support',
  })
  for (const answer of [
    await guest.get(`/api/invitations/${token}`),
    await accept({ name: 'X', password: PASSWORD }),
  ])
    expect(answer.status).toBe(404)
  const twice = await by.admin.post('/api/members/invitations', { email, role: 'support' })
  expect(twice.body.error).toMatchObject({ code: 'conflict', param: 'email' })
  expect(JSON.stringify(await world.sql`select * from audit_entries`)).not.toContain(token)
})

test('only the recipient can read the link of an invitation', async ({ world }) => {
  const { sql } = world
  const [operator, member] = [
    await signedInAs(world, { is_operator: true }),
    await signedInAs(world, { role: 'read-only', tenant_id: SYSTEM_TENANT_ID }),
  ]
  const choose = async () =>
    (await operator.post('/api/session/tenant', { tenant_id: SYSTEM_TENANT_ID })).status
  expect(await choose()).toBe(404)
  // No request can select the system tenant, so the test writes the selection into the row.
  await sql`update user_sessions set selected_tenant_id = ${SYSTEM_TENANT_ID} where user_id = ${operator.user_id}`
  expect((await operator.get('/api/session')).body).toMatchObject({ tenant: null, role: null })
  expect((await operator.get('/api/v1/messages')).status).toBe(403)
  const key = await world.clientOf({ tenant: 'system' })

  await sql`insert into pauses (queue, tenant_id) values ('messages', ${SYSTEM_TENANT_ID})`
  const email = 'an-owner@people.example'
  const { body: invitation } = await by.owner.post('/api/members/invitations', { email, role: 'owner' })
  const [message] = await sql<{ id: string; job_id: string }[]>`
    select m.id, j.id as job_id from messages m join jobs j on j.resource_id = m.id
    where m.idempotency_key = ${`invitation ${invitation.id}`}`
  const { id, job_id } = message!
  const read = async () => {
    const v1 = ['', `/${id}`, `/${id}/timeline`].map((path) => `/v1/messages${path}`)
    v1.push('/v1/events', `/v1/idempotency_keys/${encodeURIComponent(`invitation ${invitation.id}`)}`)
    const dashboard_paths = [
      `/api/timelines/${id}`,
      `/api/find?q=${id}`,
      `/api/find?q=${encodeURIComponent(email)}`,
    ]
    return [
      ...(await Promise.all(v1.map((path) => key.get(path)))),
      ...(await Promise.all(
        [...v1.map((path) => `/api${path}`), ...dashboard_paths].map((path) => member.get(path)),
      )),
      ...(await Promise.all(
        [`/api/ops/jobs/${job_id}`, '/api/ops/jobs?state=all', '/api/ops/audit'].map((path) =>
          operator.get(path),
        ),
      )),
    ]
  }
  const waiting = await read()
  expect((await key.get(`/v1/messages/${id}`)).body).toMatchObject({
    status: 'queued',
    to: [email],
    text: null,
  })
  await sql`delete from pauses where queue = 'messages'`
  const token = await linkTo(world, email)
  await world.drain()
  const sent = await read()
  for (const { status, text } of [...waiting, ...sent]) {
    expect(status).toBeLessThan(500)
    expect(text).not.toContain(token)
  }
  expect(sent.filter(({ status }) => status === 200).length).toBeGreaterThan(10)
  // The content of the sent email, which has the link, is erased.
  expect(
    await sql`select status, content, redacted_at is not null as redacted from messages where id = ${id}`,
  ).toEqual([{ status: 'sent', content: null, redacted: true }])
  expect((await by.owner.post(`/api/members/invitations/${invitation.id}/revoke`)).status).toBe(204)
})

test('an expired or revoked invitation grants no access', async ({ world }) => {
  const invite = async (email: string, role = 'support') => {
    const { body } = await by.owner.post('/api/members/invitations', { email, role })
    return { id: body.id as string, token: await linkTo(world, email) }
  }
  const opens = async (token: string) => {
    const answers = [
      await createBrowser(url).get(`/api/invitations/${token}`),
      await createBrowser(url).post(`/api/invitations/${token}/accept`, { name: 'X', password: PASSWORD }),
    ]
    return answers.map(({ status }) => status)
  }
  const expired = await invite('expired@people.example')
  await world.sql`update invitations set expires_at = now() where id = ${expired.id}`
  expect(await opens(expired.token)).toEqual([404, 404])
  const revoked = await invite('revoked@people.example')
  expect((await by.admin.get('/api/members')).body.invitations).toMatchObject([
    { id: revoked.id, role: 'support' },
  ])
  expect((await by.admin.post(`/api/members/invitations/${revoked.id}/revoke`)).status).toBe(204)
  expect(await opens(revoked.token)).toEqual([404, 404])
  expect(await opens('A'.repeat(43))).toEqual([404, 404])
  const owners = await invite('owner-to-be@people.example', 'owner')
  const forbidden = await by.admin.post(`/api/members/invitations/${owners.id}/revoke`)
  expect([forbidden.status, forbidden.body.error.context.roles]).toEqual([403, ['owner']])
  expect((await by.admin.post(`/api/members/invitations/${revoked.id}/revoke`)).status).toBe(404)
  expect(
    (await by.admin.post('/api/members/invitations', { email: 'x@people.example', role: 'owner' })).status,
  ).toBe(403)
  // The removal of a member revokes the invitations that the member sent.
  const leaver = await signedInAs(world, { role: 'owner' })
  await leaver.post('/api/members/invitations', { email: 'way-back@people.example', role: 'owner' })
  const token = await linkTo(world, 'way-back@people.example')
  expect((await by.owner.send('DELETE', `/api/members/${leaver.user_id}`)).status).toBe(204)
  expect(await opens(token)).toEqual([404, 404])
})

test("a demotion of a member revokes the member's earlier invitations to higher roles", async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'demoted' })
  const kind = { role: 'owner', tenant_id } as const
  const [owner, other, third] = [
    await signedInAs(world, kind),
    await signedInAs(world, kind),
    await signedInAs(world, kind),
  ]
  const [first, second, kept] = [
    await signedInAs(world, {}),
    await signedInAs(world, {}),
    await signedInAs(world, {}),
  ]
  const send = (inviter: Browser, { email }: Person, role: MemberRole) =>
    inviter.post('/api/members/invitations', { email, role })
  const accept = async (person: Browser & Person) =>
    (await person.post(`/api/invitations/${await linkTo(world, person.email)}/accept`)).status
  await send(other, first, 'owner')
  await send(other, kept, 'developer')
  await owner.send('PATCH', `/api/members/${other.user_id}`, { role: 'admin' })
  expect(await accept(first)).toBe(404)
  // An invitation to a role that the member may still grant stays open.
  expect(await accept(kept)).toBe(200)
  await send(third, second, 'admin')
  await world.sql`update members set role = 'support' where user_id = ${third.user_id}`
  expect(await accept(second)).toBe(404)
})

test('invitations are limited, and their emails contain no text and no links that the inviter can choose', async ({
  world,
}) => {
  const { tenant_id } = await world.clientOf({ tenant: 'spam' })
  await world.sql`update tenants set name = 'Spam Ltd' where id = ${tenant_id}`
  const admin = await signedInAs(world, { role: 'admin', tenant_id })
  await admin.post('/api/auth/update-user', { name: 'Win $1M: https://evil.example/now' })
  const send = (email: string) =>
    admin.post(
      '/api/members/invitations',
      { email, role: 'read-only' },
      { 'x-forwarded-host': 'evil.example' },
    )
  const all = await Promise.all(Array.from({ length: 8 }, () => send('victim@elsewhere.example')))
  expect(
    all
      .map(({ status }) => String(status))
      .toSorted()
      .join(' '),
  ).toBe('201 201 201 201 201 429 429 429')
  await linkTo(world, 'victim@elsewhere.example')
  await world.drain()
  const mail = JSON.stringify(await inbox(world, 'victim@elsewhere.example'))
  expect(mail).toContain('You are invited to spam on Sluice')
  expect(mail).toContain('Spam Ltd (spam) on Sluice')
  expect(mail).toContain('Win 1M https evil example now invites you')
  expect(mail).not.toContain('evil.example')
  // The limit of emails to an address counts the emails of all tenants. Another tenant can still invite with a link.
  const elsewhere = { email: 'victim@elsewhere.example', role: 'support' }
  const link_only = await by.admin.post('/api/members/invitations', elsewhere)
  expect(link_only).toMatchObject({ status: 201, body: { sent: false, link: expect.any(String) } })
  expect(await inbox(world, 'victim@elsewhere.example')).toHaveLength(5)
  const { pathname } = new URL(link_only.body.link)
  // A link that the inviter can see proves no email address.
  expect(
    (await createBrowser(url).get(`/api${pathname.replace('invitation', 'invitations')}`)).body,
  ).toMatchObject({
    tenant: 'acme',
    has_user: null,
  })
  // A link without an email does not count against the limit of emails.
  await world.sql`update invitations set mailed = false where email = ${elsewhere.email} and tenant_id = ${tenant_id}`
  expect((await by.admin.post('/api/members/invitations', elsewhere)).body.sent).toBe(true)
  await world.sql`
    insert into invitations (tenant_id, id, email, role, token_hash, mailed, expires_at)
    select ${tenant_id}, gen_random_uuid(), n || '@many.example', 'support', sha256(n::text::bytea), true, now()
    from generate_series(1, 45) n`
  const refused = await send('another@elsewhere.example')
  expect([refused.status, Number(refused.headers.get('retry-after')) > 3600]).toEqual([429, true])
})

test('a link that the inviter sees neither proves an address nor reveals existing accounts', async ({
  world,
}) => {
  const existing = await createPerson(world, {})
  const { EMAIL_FROM, ...silent } = world.env
  expect(EMAIL_FROM).toBeDefined()
  const here = await startInThisProcess('dashboard', silent, createLog('silent', 'test'))
  try {
    const owner = await signIn(here.url!, by.owner)
    const guest = createBrowser(here.url!)
    const answers: unknown[] = []
    for (const email of [existing.email, 'cto@bigcorp.example']) {
      const { body } = await owner.post('/api/members/invitations', { email, role: 'developer' })
      expect(body).toMatchObject({ sent: false, link: expect.stringContaining(`${here.url!}/invitation/`) })
      const path = `/api/invitations/${body.link.split('/').at(-1)}`
      const [shown, refused] = [(await guest.get(path)).body, await guest.post(`${path}/accept`)]
      const accepted = await guest.post(`${path}/accept`, { name: 'CTO', password: PASSWORD })
      answers.push([shown.has_user, refused.status, accepted.status])
    }
    expect(answers).toEqual([
      [null, 401, 401],
      [null, 401, 200],
    ])
    await signIn(here.url!, { email: 'cto@bigcorp.example' })
    const entries = await entriesOf(world, { email: 'cto@bigcorp.example (not verified)' })
    expect(entries.map(({ action }) => action)).toEqual(['members.join', 'sign_in'])
    expect(await entriesOf(world, { email: 'cto@bigcorp.example' })).toEqual([])
    const { members } = (await by.owner.get('/api/members')).body
    const unverified = members.filter((member: { email_verified: boolean }) => !member.email_verified)
    expect(unverified.map(({ email }: Person) => email)).toEqual(['cto@bigcorp.example'])
  } finally {
    await here.close()
  }
})

test('a user of another tenant accepts an invitation only while signed in with the invited address', async ({
  world,
}) => {
  const guest = await signedInAs(world, {})
  await by.owner.post('/api/members/invitations', { email: guest.email, role: 'developer' })
  const token = await linkTo(world, guest.email)
  const accept = (browser: Browser) =>
    browser.post(`/api/invitations/${token}/accept`, { name: 'Taken over', password: 'a new long password' })
  expect((await accept(createBrowser(url))).body.error.code).toBe('unauthorized')
  expect((await accept(by.admin)).body.error.code).toBe('unauthorized')
  expect((await accept(guest)).status).toBe(200)
  expect((await guest.get('/api/session')).body).toMatchObject({
    role: 'developer',
    user: { name: /^Person/ },
  })
  expect((await tryPassword(createBrowser(url), guest.email, 'a new long password')).status).toBe(401)
})

test('admins cannot change owners, and the last owner cannot be removed', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ tenant: 'pair' })
  const [first, second, admin, member] = [
    await signedInAs(world, { role: 'owner', tenant_id }),
    await signedInAs(world, { role: 'owner', tenant_id }),
    await signedInAs(world, { role: 'admin', tenant_id }),
    await signedInAs(world, { role: 'support', tenant_id }),
  ]
  const remove = (browser: Browser, { user_id }: Person) => browser.send('DELETE', `/api/members/${user_id}`)
  const give = (browser: Browser, { user_id }: Person, role: MemberRole) =>
    browser.send('PATCH', `/api/members/${user_id}`, { role })
  const codes = async (...answers: Promise<Answer>[]) =>
    (await Promise.all(answers)).map(({ status, body }) => body?.error.code ?? status)
  expect(
    await codes(remove(admin, first), give(admin, first, 'support'), give(admin, member, 'owner')),
  ).toEqual(Array.from({ length: 3 }, () => 'forbidden'))
  expect(await codes(give(admin, admin, 'owner'))).toEqual(['forbidden'])
  expect(await codes(give(admin, member, 'developer'))).toEqual([204])
  expect((await member.get('/api/session')).body.role).toBe('developer')
  expect(await codes(remove(admin, member))).toEqual([204])
  // The removal takes effect at the next request.
  expect((await member.get('/api/v1/payments')).body.error.code).toBe('forbidden')
  expect((await member.get('/api/session')).body).toMatchObject({ tenant: null, may: [] })

  const race = await codes(remove(first, second), remove(second, first))
  expect(race.map(String).toSorted()).toEqual(['204', 'forbidden'])
  const left = await world.sql`select user_id from members where tenant_id = ${tenant_id} and role = 'owner'`
  expect(left).toHaveLength(1)
  const last = left[0]!['user_id'] === first.user_id ? first : second
  expect(await codes(remove(last, last), give(last, last, 'admin'))).toEqual(['conflict', 'conflict'])
  const entries = await world.sql`
    select action, details - 'expects_outcome' as details from audit_entries
    where tenant_id = ${tenant_id} and action like 'members.%' order by seq`
  expect(entries).toEqual([
    { action: 'members.change_role', details: { role: 'developer', was: 'support', email: member.email } },
    { action: 'members.remove', details: { was: 'developer', email: member.email } },
    { action: 'members.remove', details: { was: 'owner', email: expect.any(String) } },
  ])
})

test('an expired session is refused, and is deleted when the dashboard starts', async ({ world }) => {
  const person = await createPerson(world, { role: 'support' })
  const [expired, open] = [await signIn(url, person), await signIn(url, person)]
  const { sql } = world
  await sql`
    update user_sessions set expires_at = now() - interval '1 s'
    where id = (select min(id::text)::uuid from user_sessions where user_id = ${person.user_id})`
  await sql`update sign_in_failures set window_start = now() - interval '1 hour'`
  expect((await expired.get('/api/session')).status).toBe(401)
  const countSessions = async () =>
    Number((await sql`select count(*) from user_sessions where user_id = ${person.user_id}`)[0]!['count'])
  const restarted = await startInThisProcess('dashboard', world.env, createLog('silent', 'test'))
  try {
    await until('the expired session is deleted', async () => (await countSessions()) === 1)
    await until(
      'the counts of failed sign-ins are deleted',
      async () => (await sql`select from sign_in_failures`).length === 0,
    )
  } finally {
    await restarted.close()
  }
  expect((await open.get('/api/session')).status).toBe(200)
})
