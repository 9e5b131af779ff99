// Tenants: what is another's does not exist, on every route of the document.
import { readFile } from 'node:fs/promises'
import { expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { RESOURCES } from '#domain/resources.ts'
import { readDocument, routesOf, type DocumentedRoute } from '#test/documentation.ts'
import { disputeIn } from '#test/disputes.ts'
import { createPayment, drift, eventually } from '#test/payments.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { payOut } from '#test/payouts.ts'
import { until } from '#test/process.ts'
import { deliveryTo } from '#test/webhook-deliveries.ts'
import { testIn, type World } from '#test/world.ts'

const RANDOM_ID = '0198f6f0-1234-7000-8000-123456789abc'

let stranger: Client
let routes: DocumentedRoute[]
/** What the first tenant has, by the last word of the path before its id. */
let owned: Record<string, string>

const test = testIn()
test.beforeAll(async ({ world }) => {
  stranger = await world.clientOf()
  routes = routesOf(await readDocument(world.client))
  const customer = await made(world, '/v1/customers', {
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'x-1',
  })
  const recipient = await made(world, '/v1/recipients', { ...RECIPIENT, email: 'ada@example.com' })
  const merchant = await made(world, '/v1/merchants', MERCHANT)
  const payment = await made(world, '/v1/payments', {
    amount_minor: 1000,
    currency: 'USD',
    method: 'card',
    // An inquiry follows the capture.
    payment_method: 'pm_card_createDisputeInquiry',
    customer_id: customer.id,
    merchant_id: merchant.id,
    metadata: { order: 'A-17' },
  })
  await world.client.post(`/v1/payments/${payment.id}/capture`)
  const refund = await made(world, `/v1/payments/${payment.id}/refunds`, { amount_minor: 100 })
  const disputed = await disputeIn(world.client, payment.id, 'warning')
  const payout = await made(world, '/v1/payouts', {
    amount_minor: 100,
    currency: 'usd',
    recipient_id: recipient.id,
  })
  const verification = await made(world, '/v1/compliance/kyc', {
    subject_type: 'customer',
    subject_id: customer.id,
  })
  const top_up = await made(world, '/v1/wallet/top_ups', { amount_minor: 1000, currency: 'usd' })
  await drift(world, payment.id)
  const task = await made(world, '/v1/ai/tasks', { kind: 'generate', input: { prompt: 'A haiku.' } })
  const template = await made(world, '/v1/messages/templates', {
    name: 'greeting',
    channel: 'sms',
    body: 'Hello',
  })
  const suppressed = { channel: 'email', address: 'grace@example.com' }
  const suppression = await made(world, '/v1/messages/suppressions', suppressed)
  const endpoint = await made(world, '/v1/webhook_endpoints', {
    url: 'https://shop.example/webhooks',
    types: ['payout.canceled'],
  })
  const delivery = await deliveryTo(world.sql, endpoint, { status: 'delivered' })
  const recovery = (
    await world.client.post(`/v1/webhook_endpoints/${endpoint.id}/recover`, { since: '2026-01-01T00:00:00Z' })
  ).body
  const recovered = async () => (await world.client.get(`/v1/webhook_recoveries/${recovery.id}`)).body.status
  await until('it is recovered', async () => (await recovered()) === 'completed')
  const message = await made(world, '/v1/messages/email', {
    to: ['ada@example.com'],
    subject: 'Shipped',
    text: 'It is on its way.',
    tags: ['shipping'],
    send_at: new Date(Date.now() + 86_400_000),
  })
  const [event] = (await world.client.get(`/v1/payments/${payment.id}/events`)).body
  owned = {
    events: event.id,
    webhook_endpoints: endpoint.id,
    webhook_deliveries: delivery.id,
    webhook_recoveries: recovery.id,
    templates: template.id,
    suppressions: suppression.id,
    tasks: task.id,
    customers: customer.id,
    recipients: recipient.id,
    merchants: merchant.id,
    payments: payment.id,
    refunds: refund.id,
    payouts: payout.id,
    kyc: verification.id,
    top_ups: top_up.id,
    disputes: disputed.dispute.id,
    messages: message.id,
    idempotency_keys: customer.idempotency_key,
  }
  await world.drain()
  await eventually(async () => {
    const { body } = await world.client.get(`/v1/wallet/top_ups/${top_up.id}`)
    if (body.status !== 'succeeded') throw new Error('the money has not come yet')
  })
  await world.drain()
})

async function made(world: World, path: string, body: object): Promise<any> {
  const answer = await world.client.post(path, { ...body, idempotency_key: freshKey() })
  expect(answer.status).toBe(201)
  return answer.body
}

/** Bodies that would be accepted, were the path one's own. */
const BODIES: Record<string, object> = {
  'PATCH /v1/customers/{id}': { name: 'Eve' },
  'PATCH /v1/recipients/{id}': { name: 'Eve' },
  'PATCH /v1/merchants/{id}': { display_name: 'Eve' },
  'PATCH /v1/messages/templates/{id}': { name: 'mine' },
  'PATCH /v1/webhook_endpoints/{id}': { ordered: true },
  'POST /v1/webhook_endpoints/{id}/recover': { since: '2026-01-01T00:00:00Z' },
  'POST /v1/messages/templates/{id}/preview': { idempotency_key: undefined },
  'POST /v1/payments/{id}/refunds': { amount_minor: 1 },
  'POST /v1/payouts/{id}/fail': { reason: 'mine' },
  'POST /v1/compliance/kyc/{id}/decide': { decision: 'approved', reason: 'mine' },
}

/** What a clock counts, whoever asks for what. */
const COUNTED = ['payment_cursors', 'payment_days', 'tenant_rollups']

/** Everything that belongs to the first tenant, as it stands. */
async function holdings(world: World): Promise<unknown> {
  const { sql, tenant_id } = world
  const tables = await sql<{ name: string }[]>`
    select c.table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where c.column_name = 'tenant_id' and c.table_schema = 'public' and t.table_type = 'BASE TABLE'
      and c.table_name not in ${sql(['api_keys', ...COUNTED])} order by 1`
  const rows: Record<string, unknown> = {}
  for (const { name } of tables) {
    rows[name] =
      await sql`select to_jsonb(t) as row from ${sql(name)} t where tenant_id = ${tenant_id} order by to_jsonb(t)::text`
  }
  return rows
}

function comparable({ status, text }: { status: number; text: string }, id: string): string {
  return `${status} ${text.replace(/"request_id":"[^"]*"/, '').replaceAll(id, '{id}')}`
}

test('with an id of another tenant every route answers as for a random id, and changes nothing', async ({
  world,
}) => {
  const before = await holdings(world)
  const withId = routes.filter(({ path }) => path.includes('{'))
  expect(withId.length).toBeGreaterThanOrEqual(10)
  for (const { method, path } of withId) {
    const [resource] = path.split('/{')[0]!.split('/').slice(-1) as [string]
    const theirs = owned[resource]
    if (theirs === undefined) throw new Error(`This test has nothing of ${resource}: make one in beforeAll.`)
    const answers: string[] = []
    for (const id of [theirs, resource === 'idempotency_keys' ? 'nobody-sent-this' : RANDOM_ID]) {
      const body = ['POST', 'PATCH', 'PUT'].includes(method)
        ? { ...(method === 'POST' && { idempotency_key: freshKey() }), ...BODIES[`${method} ${path}`] }
        : undefined
      const answer = await stranger.send(method, path.replace(/\{\w+\}/, id), {
        headers: { 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      expect([method, path, answer.status]).toEqual([method, path, 404])
      answers.push(comparable(answer, id))
    }
    expect([method, path, answers[0]]).toEqual([method, path, answers[1]])
  }
  expect(await holdings(world)).toEqual(before)
})

/** Tables with a `tenant_id` that are no noun's, and why. */
const NO_RESOURCE: Record<string, string> = {
  api_keys: 'say who the tenant is',
  audit_entries: 'are about acts of people on anything',
  drifts: 'are about rows of any noun',
  erasures: 'are what is left to do about a deleted customer',
  event_sequences: 'number the events of a tenant',
  events: 'are about rows of any noun',
  idempotency_keys: 'protect rows of any noun',
  invitations: 'are about people',
  job_attempts: 'belong to jobs',
  job_interventions: 'belong to jobs',
  jobs: 'work on rows of any noun',
  ledger_accounts: 'the ledger has rules of its own',
  ledger_transfers: 'the ledger has rules of its own',
  members: 'are people',
  message_attachments: 'belong to messages',
  message_limits: 'count messages',
  latest_opt_outs: 'order opt-out words',
  notifications: 'are about rows of any noun',
  pauses: 'stop the work of a tenant',
  payment_cursors: 'say up to where events are counted',
  payment_days: 'count payments',
  proposals: 'are of operators',
  tenant_rollups: 'count jobs',
  webhook_due: 'are deliveries that wait',
  webhook_backlogs: 'are of endpoints',
  webhook_stats: 'count deliveries',
  webhook_subscriptions: 'say which endpoint wanted what until when',
}

test("each table with tenants' rows belongs to a noun, so that the audit and the reconciler know it", async ({
  world,
}) => {
  const tables = await world.sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      -- The history of a table is the table's.
      and c.relname not like '%\\_history' order by 1`
  const resources = Object.values(RESOURCES).map(({ table }) => table)
  expect(tables.map(({ name }) => name)).toEqual([...Object.keys(NO_RESOURCE), ...resources].toSorted())
})

test('each column that names a row has a foreign key, or the documentation says what keeps it true', async ({
  world,
}) => {
  const columns = await world.sql<{ name: string }[]>`
    select c.relname || '.' || a.attname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname not like '%\\_history' and a.attnum > 0 and a.atttypid = 'uuid'::regtype
      and a.attname like '%\\_id' and a.attname <> 'tenant_id'
      and not exists (
        select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f' and a.attnum = any(k.conkey))`
  const page = await readFile(new URL('../docs/architecture.md', import.meta.url), 'utf8')
  const [, section = ''] = /## References without a foreign key\n(.*?)\n## /s.exec(page) ?? []
  const listed = [...section.matchAll(/`(\w+\.\w+_id)`/g)].map(([, name]) => name!)
  expect(listed.toSorted()).toEqual(columns.map(({ name }) => name).toSorted())
})

test('lists show nothing of another tenant, whatever they filter by', async ({ world }) => {
  const lists = routes.filter(({ method, path }) => method === 'GET' && !path.includes('{'))
  expect(lists.length).toBeGreaterThanOrEqual(2)
  for (const { path } of lists) {
    expect((await world.client.get(path)).body.length).toBeGreaterThan(0)
    expect([path, (await stranger.get(path)).body]).toEqual([path, []])
  }
  for (const path of [
    '/v1/customers?email=ada@example.com',
    '/v1/customers?external_id=x-1',
    '/v1/customers?deleted=true',
    '/v1/recipients?email=ada@example.com',
    '/v1/recipients?type=account&currency=usd',
    '/v1/merchants?archived=false',
    `/v1/payments?customer_id=${owned.customers}`,
    `/v1/payments?merchant_id=${owned.merchants}`,
    '/v1/payments?metadata[order]=A-17',
    '/v1/payments?status=captured',
    '/v1/refunds?currency=usd',
    `/v1/payouts?recipient_id=${owned.recipients}`,
    '/v1/payouts?currency=usd',
    `/v1/compliance/kyc?subject_id=${owned.customers}`,
    '/v1/compliance/kyc?subject_type=customer',
    `/v1/wallet/transactions?subject_id=${owned.top_ups}`,
    '/v1/wallet/transactions?currency=usd&kind=capture',
    '/v1/wallet/balances?currency=usd',
    '/v1/wallet/top_ups?status=succeeded',
    '/v1/disputes?status=warning',
    `/v1/disputes?payment_id=${owned.payments}`,
    `/v1/reconciliation?payment_id=${owned.payments}`,
    '/v1/messages/templates?name=greeting&channel=sms',
    '/v1/messages/suppressions?address=grace@example.com',
    '/v1/messages/suppressions?channel=email&reason=manual',
    '/v1/messages?to=ada@example.com',
    '/v1/messages?tag=shipping&status=scheduled',
  ]) {
    expect([path, (await world.client.get(path)).body.length, (await stranger.get(path)).body]).toEqual([
      path,
      1,
      [],
    ])
  }
})

test("a body cannot point at another tenant's customer, merchant or recipient, and says no more than for a random one", async ({
  world,
}) => {
  const before = await holdings(world)
  for (const resource of ['customer', 'merchant']) {
    const answers: string[] = []
    for (const id of [owned[`${resource}s`]!, RANDOM_ID]) {
      const answer = await createPayment(stranger, { [`${resource}_id`]: id })
      answers.push(comparable(answer, id))
    }
    expect(answers[0]).toBe(answers[1])
    expect(answers[0]).toContain(`${resource}_not_found`)
  }
  const payouts: string[] = []
  for (const id of [owned.recipients!, RANDOM_ID]) payouts.push(comparable(await payOut(stranger, id), id))
  expect(payouts[0]).toBe(payouts[1])
  expect(payouts[0]).toContain('recipient_not_found')
  expect(await holdings(world)).toEqual(before)
})

test('two tenants may use the same key, e-mail address and external id', async ({ world }) => {
  const body = {
    idempotency_key: owned.idempotency_keys,
    email: 'ada@example.com',
    external_id: 'x-1',
    name: 'Other',
  }
  const other = await world.clientOf()
  const answer = await other.post('/v1/customers', body)
  expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([201, null])
  expect(answer.body.id).not.toBe(owned.customers)
  expect((await other.get('/v1/customers?email=ada@example.com')).body).toEqual([answer.body])
})

test('the tenant of a record is that of the key, whatever the body says', async ({ world }) => {
  const refused = await stranger.post('/v1/customers', {
    idempotency_key: freshKey(),
    tenant_id: world.tenant_id,
  })
  expect([refused.status, refused.body.error.param]).toEqual([400, 'tenant_id'])
  const header = await stranger.post(
    '/v1/customers',
    { idempotency_key: freshKey() },
    { 'x-tenant-id': world.tenant_id },
  )
  expect(header.body.tenant_id).not.toBe(world.tenant_id)
})
