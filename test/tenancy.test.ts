// Tests that no route in the document exposes or changes rows of another tenant.
import { readFile } from 'node:fs/promises'
import { expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { RESOURCES } from '#domain/resources.ts'
import { readDocument, routesOf, type DocumentedRoute } from '#test/documentation.ts'
import { createEveryResource } from '#test/every-resource.ts'
import { createPayment } from '#test/payments.ts'
import { payOut } from '#test/payouts.ts'
import { testIn, type World } from '#test/world.ts'

const RANDOM_ID = '0198f6f0-1234-7000-8000-123456789abc'

let other_tenant: Client
let routes: DocumentedRoute[]
/** Ids of resources of the first tenant, by the last segment of the path before the id. */
let owned: Record<string, string>

const test = testIn()
test.beforeAll(async ({ world }) => {
  other_tenant = await world.clientOf()
  routes = routesOf(await readDocument(world.client))
  owned = await createEveryResource(world)
})

/** Bodies that would be valid if the owner of the id sent them. */
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

/** Tables that roll-ups write independently of requests. */
const ROLL_UP_TABLES = ['payment_cursors', 'payment_days', 'tenant_rollups']

/** All rows of the first tenant. */
async function rowsOfTenant(world: World): Promise<unknown> {
  const { sql, tenant_id } = world
  const tables = await sql<{ name: string }[]>`
    select c.table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where c.column_name = 'tenant_id' and c.table_schema = 'public' and t.table_type = 'BASE TABLE'
      and c.table_name not in ${sql(['api_keys', ...ROLL_UP_TABLES])} order by 1`
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

test('every route responds to an id of another tenant as to a random id, and changes nothing', async ({
  world,
}) => {
  const before = await rowsOfTenant(world)
  const routes_with_id = routes.filter(({ path }) => path.includes('{'))
  expect(routes_with_id.length).toBeGreaterThanOrEqual(10)
  for (const { method, path } of routes_with_id) {
    const [resource] = path.split('/{')[0]!.split('/').slice(-1) as [string]
    const owned_id = owned[resource]
    if (owned_id === undefined)
      throw new Error(`This test has no row of ${resource}: create one in beforeAll.`)
    const responses: string[] = []
    for (const id of [owned_id, resource === 'idempotency_keys' ? 'nobody-sent-this' : RANDOM_ID]) {
      const body = ['POST', 'PATCH', 'PUT'].includes(method)
        ? { ...(method === 'POST' && { idempotency_key: freshKey() }), ...BODIES[`${method} ${path}`] }
        : undefined
      const response = await other_tenant.send(method, path.replace(/\{\w+\}/, id), {
        headers: { 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      expect([method, path, response.status]).toEqual([method, path, 404])
      responses.push(comparable(response, id))
    }
    expect([method, path, responses[0]]).toEqual([method, path, responses[1]])
  }
  expect(await rowsOfTenant(world)).toEqual(before)
})

/** Tables with a `tenant_id` and without a resource, each with the reason. */
const TABLES_WITHOUT_RESOURCE: Record<string, string> = {
  api_keys: 'identify the tenant',
  audit_entries: 'record actions of people on any resource',
  drifts: 'reference rows of any resource',
  erasures: 'are pending erasures of deleted customers',
  event_outbox: 'waits for positions of events',
  event_sequences: 'number the events of a tenant',
  feed_entries: 'order the events of a tenant',
  events: 'reference rows of any resource',
  idempotency_keys: 'protect rows of any resource',
  invitations: 'invite people',
  job_attempts: 'belong to jobs',
  job_acts: 'belong to jobs',
  jobs: 'process rows of any resource',
  ledger_accounts: 'follows the rules of the ledger',
  ledger_transfers: 'follows the rules of the ledger',
  members: 'are people',
  message_attachments: 'belong to messages',
  message_limits: 'count messages',
  latest_opt_outs: 'order opt-out words',
  notifications: 'reference rows of any resource',
  pauses: 'stop the jobs of a tenant',
  payment_cursors: 'are positions in the counted events',
  payment_days: 'count payments',
  proposals: 'belong to operators',
  sandbox_acts: 'are what people do in a sandbox',
  sandbox_messages: 'are the inbox of a tenant in test mode',
  sandbox_records: 'are what a sandbox contains',
  sandboxes: 'are the providers of a tenant in test mode',
  tenant_rollups: 'count jobs',
  test_clock_steps: 'are the history of test clocks',
  test_clocks: 'have no id and no events',
  twin_pauses: 'stop the jobs of tenants in test mode in releases without it',
  webhook_due: 'are waiting deliveries',
  webhook_backlogs: 'belong to endpoints',
  webhook_stats: 'count deliveries',
  webhook_subscriptions: 'are the history of the types of endpoints',
}

test('each table with rows of tenants belongs to a resource or is listed with a reason', async ({
  world,
}) => {
  const tables = await world.sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      -- The history of a table belongs to the table.
      and c.relname not like '%\\_history' order by 1`
  const resources = Object.values(RESOURCES).map(({ table }) => table)
  expect(tables.map(({ name }) => name)).toEqual(
    [...Object.keys(TABLES_WITHOUT_RESOURCE), ...resources].toSorted(),
  )
})

test('each column that references a row has a foreign key or is listed in the documentation', async ({
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

test('lists contain no row of another tenant, whatever the filter', async ({ world }) => {
  const lists = routes.filter(
    // The clock of a tenant is no list.
    ({ method, path }) => method === 'GET' && !path.includes('{') && path !== '/v1/test_clock',
  )
  expect(lists.length).toBeGreaterThanOrEqual(2)
  for (const { path } of lists) {
    expect((await world.client.get(path)).body.length).toBeGreaterThan(0)
    expect([path, (await other_tenant.get(path)).body]).toEqual([path, []])
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
    expect([path, (await world.client.get(path)).body.length, (await other_tenant.get(path)).body]).toEqual([
      path,
      1,
      [],
    ])
  }
})

test("a reference to another tenant's customer, merchant or recipient gets the same response as a reference to a random id", async ({
  world,
}) => {
  const before = await rowsOfTenant(world)
  for (const resource of ['customer', 'merchant']) {
    const responses: string[] = []
    for (const id of [owned[`${resource}s`]!, RANDOM_ID]) {
      const response = await createPayment(other_tenant, { [`${resource}_id`]: id })
      responses.push(comparable(response, id))
    }
    expect(responses[0]).toBe(responses[1])
    expect(responses[0]).toContain(`${resource}_not_found`)
  }
  const payouts: string[] = []
  for (const id of [owned.recipients!, RANDOM_ID])
    payouts.push(comparable(await payOut(other_tenant, id), id))
  expect(payouts[0]).toBe(payouts[1])
  expect(payouts[0]).toContain('recipient_not_found')
  expect(await rowsOfTenant(world)).toEqual(before)
})

test('two tenants may use the same idempotency key, e-mail address and external id', async ({ world }) => {
  const body = {
    idempotency_key: owned.idempotency_keys,
    email: 'ada@example.com',
    external_id: 'x-1',
    name: 'Other',
  }
  const other = await world.clientOf()
  const response = await other.post('/v1/customers', body)
  expect([response.status, response.headers.get('idempotent-replayed')]).toEqual([201, null])
  expect(response.body.id).not.toBe(owned.customers)
  expect((await other.get('/v1/customers?email=ada@example.com')).body).toEqual([response.body])
})

test('the tenant of a row is the tenant of the API key, and a body cannot change it', async ({ world }) => {
  const refused = await other_tenant.post('/v1/customers', {
    idempotency_key: freshKey(),
    tenant_id: world.tenant_id,
  })
  expect([refused.status, refused.body.error.param]).toEqual([400, 'tenant_id'])
  const header = await other_tenant.post(
    '/v1/customers',
    { idempotency_key: freshKey() },
    { 'x-tenant-id': world.tenant_id },
  )
  expect(header.body.tenant_id).not.toBe(world.tenant_id)
})
