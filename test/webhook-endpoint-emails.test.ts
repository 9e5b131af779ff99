// Tests that the contact of a tenant receives one email each time Sluice disables an endpoint automatically.
import { openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished } from 'vitest'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { ensureTenant, setTenantContact } from '#domain/tenants.ts'
import { testActor } from '#test/environment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { hashOf } from '#test/messages.ts'
import { startInThisProcess } from '#test/parts.ts'
import { eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

/** The log of all workers. */
let log_file: string
let folder: Awaited<ReturnType<typeof createTemporaryFolder>> | undefined
const workers: Awaited<ReturnType<typeof startInThisProcess>>[] = []
const test = testIn({ parts: ['api'] })
test.beforeAll(async ({ world }) => {
  folder = await createTemporaryFolder()
  log_file = join(folder.path, 'log')
  const log = createLog('info', 'test', openSync(log_file, 'a'))
  workers.push(
    await startInThisProcess('worker', world.env, log),
    await startInThisProcess('worker', world.env, log),
  )
})
afterAll(async () => {
  for (const worker of workers) await worker.close()
  await folder?.remove()
})

const [WARN, ERROR] = [40, 50]
let tenants = 0
/** Creates a tenant. `contact` null: without a contact. */
async function createTenant(
  world: World,
  contact: string | null,
  slug = `told-${(tenants += 1)}`,
): Promise<string> {
  const { id } = await ensureTenant(world.sql, slug)
  await setTenantContact(world.sql, id, contact, testActor(id))
  return id
}

type DisabledEndpoint = {
  url?: string
  description?: string
  reason?: string
  deleted?: boolean
  failing_since?: string
}

/**
 * Creates endpoints in the state after their last attempt, all of them disabled at the same time. Returns their ids.
 */
async function createDisabledEndpoints(
  world: World,
  tenant_id: string,
  disabled: DisabledEndpoint[],
): Promise<string[]> {
  const rows = disabled.map((endpoint, nth) => ({
    id: newId(),
    slot: nth + 1,
    url: endpoint.url ?? 'https://shop.example/hooks',
    description: endpoint.description ?? null,
    reason: endpoint.reason ?? 'gone',
    failing_since: endpoint.failing_since ?? null,
    deleted_at: endpoint.deleted === true ? new Date().toISOString() : null,
  }))
  await world.sql`
    insert into webhook_endpoints (tenant_id, id, slot, url, types, description, secrets, ordered, max_in_flight,
      status, disabled_reason, failing_since, deleted_at)
    select ${tenant_id}, id, slot, url, '{*}', description, '[]', false, 10, 'disabled', reason, failing_since, deleted_at
    from jsonb_to_recordset(${world.sql.json(rows)}) as r(
      id uuid, slot smallint, url text, description text, reason text, failing_since timestamptz, deleted_at timestamptz)`
  return rows.map(({ id }) => id)
}

async function awaitNotices(world: World, ids: string[]): Promise<void> {
  await eventually(async () => {
    const [row] = await world.sql<{ unnotified: number }[]>`
      select count(*) as unnotified from webhook_endpoints where id = any(${ids}::uuid[]) and notified_at is null`
    expect(row!.unnotified).toBe(0)
  })
  await world.drain()
}

const inboxOf = async (world: World, address: string): Promise<any[]> => {
  const query = `/messages?to=${encodeURIComponent(address)}`
  const emails: any[] = await world.provider('smtp').control('GET', query)
  return emails.map((email) => ({ ...email, text: email.text.replaceAll('\r\n', '\n') }))
}

/** Waits for log lines about any of these endpoints. A line is written after the notice of its endpoint. */
async function logOf(...ids: string[]) {
  return await eventually(async () => {
    const log = await readFile(log_file, 'utf8')
    const lines = log.split('\n').filter((line) => ids.some((id) => line.includes(id)))
    expect(lines).not.toEqual([])
    return lines.map((line) => JSON.parse(line) as { level: number; msg: string; tenant_id: string })
  })
}

// The tests run concurrently: each test waits for the scan for disabled endpoints, which runs every few seconds.
test.concurrent('the email names the endpoint, its tenant and the reason', async ({ world }) => {
  const tenant_id = await createTenant(world, 'ops@told.example', 'bakery')
  const [gone, failing] = await createDisabledEndpoints(world, tenant_id, [
    { url: 'https://user:hidden@shop.example:8443/hooks/orders?token=hidden#hidden', description: 'Orders' },
    { reason: 'failing', failing_since: '2026-11-02T03:04:05.678Z' },
  ])
  await awaitNotices(world, [gone!, failing!])
  const emails = await inboxOf(world, 'ops@told.example')
  expect(emails).toHaveLength(2)
  const [gone_email, failing_email] = [gone!, failing!].map((id) =>
    emails.find(({ text }) => text.includes(id)),
  )
  expect(gone_email).toMatchObject({
    to: ['ops@told.example'],
    from: 'Sluice <system@sluice.example>',
    html: null,
  })
  expect(gone_email.subject).toBe('Webhook endpoint of bakery disabled: shop.example:8443')
  expect(gone_email.text).toContain('Host:        shop.example:8443\n')
  // The path of a receiver can contain a token.
  expect(gone_email.raw).not.toContain('/hooks')
  expect(gone_email.text).toContain('Orders')
  expect(gone_email.text).toContain(`bakery (${tenant_id})`)
  expect(gone_email.text).toContain('410 Gone')
  expect(gone_email.text).toContain(`PATCH /v1/webhook_endpoints/${gone}`)
  expect(gone_email.text).toContain(`POST /v1/webhook_endpoints/${gone}/recover`)
  expect(gone_email.raw).not.toContain('hidden')
  expect(gone_email.headers).toMatchObject({ 'auto-submitted': 'auto-generated' })
  expect(failing_email.text).toContain('have failed since 2026-11-02T03:04:05Z')
  expect(failing_email.text).toContain('{ "since": "2026-11-02T02:04:05Z" }')
  expect(failing_email.text).not.toContain('410 Gone')
})

test.concurrent('the url and the description of an endpoint cannot add a header or a line to the email', async ({
  world,
}) => {
  const tenant_id = await createTenant(world, 'ops@lines.example', 'florist')
  const [id] = await createDisabledEndpoints(world, tenant_id, [
    {
      url: 'https://shop.example/%0d%0aBcc:eve@lines.example',
      description: 'Orders\r\nBcc: eve@lines.example\u2028\n\nPay here: https://eve.example\u202e',
    },
  ])
  await awaitNotices(world, [id!])
  const [email] = await inboxOf(world, 'ops@lines.example')
  expect(email.subject).toBe('Webhook endpoint of florist disabled: shop.example')
  expect(email.to).toEqual(['ops@lines.example'])
  expect(Object.keys(email.headers)).not.toContain('bcc')
  expect(
    email.text.split('\n').filter((line: string) => line.includes('eve@') || line.includes('eve.')),
  ).toEqual(['Description: Orders Bcc: eve@lines.example Pay here: https://eve.example'])
})

test.concurrent('two concurrent workers send one email for each endpoint', async ({ world }) => {
  const tenant_ids = await Promise.all([1, 2, 3].map(() => createTenant(world, 'ops@many.example')))
  const many = Array.from({ length: 18 }, () => ({}))
  const ids = (
    await Promise.all(tenant_ids.map((tenant_id) => createDisabledEndpoints(world, tenant_id, many)))
  ).flat()
  await awaitNotices(world, ids)
  const texts = (await inboxOf(world, 'ops@many.example')).map(({ text }) => text as string)
  const endpoints = texts.map((text) => ids.find((id) => text.includes(id)))
  expect(new Set(endpoints)).toEqual(new Set(ids))
  expect(endpoints).toHaveLength(ids.length)
})

test.concurrent('an email is not repeated for the same event, and is sent again after the endpoint was enabled and disabled again', async ({
  world,
}) => {
  const tenant_id = await createTenant(world, 'ops@again.example')
  const [id] = await createDisabledEndpoints(world, tenant_id, [{}])
  await awaitNotices(world, [id!])
  // Simulates a worker that dies after it has written the message and before it records the notice.
  await world.sql`update webhook_endpoints set notified_at = null, updated_at = clock_timestamp() where id = ${id!}`
  await awaitNotices(world, [id!])
  expect(await inboxOf(world, 'ops@again.example')).toHaveLength(1)
  await world.sql`update webhook_endpoints set notified_at = null, enabled_at = clock_timestamp() where id = ${id!}`
  await awaitNotices(world, [id!])
  expect(await inboxOf(world, 'ops@again.example')).toHaveLength(2)
})

test.concurrent('a missing or suppressed contact is logged once per endpoint', async ({ world }) => {
  const [without_contact, suppressed] = [
    await createTenant(world, null),
    await createTenant(world, 'ops@suppressed.example'),
  ]
  await world.sql`
    insert into suppressions (tenant_id, id, channel, address, sealed, reason)
    values (${SYSTEM_TENANT_ID}, ${newId()}, 'email', ${hashOf(world)('email', 'ops@suppressed.example')}, '', 'hard_bounce')`
  const [without_contact_endpoint] = await createDisabledEndpoints(world, without_contact, [{}])
  const [suppressed_endpoint] = await createDisabledEndpoints(world, suppressed, [{}])
  await awaitNotices(world, [without_contact_endpoint!, suppressed_endpoint!])
  expect(await logOf(without_contact_endpoint!)).toMatchObject([
    { level: WARN, tenant_id: without_contact, msg: expect.stringContaining('npm run keys -- contact') },
  ])
  expect(await logOf(suppressed_endpoint!)).toMatchObject([
    { level: WARN, tenant_id: suppressed, msg: expect.stringContaining('is suppressed') },
  ])
  expect(await inboxOf(world, 'ops@suppressed.example')).toEqual([])
})

// This test is not concurrent: its failure makes the workers write the notices one by one. In that mode they do not log
// tenants above their limit, but another test expects this log line.
test('an endpoint whose email cannot be written does not delay other endpoints, and is logged once', async ({
  world,
}) => {
  const [refused, tenant_id] = [
    await createTenant(world, 'ops@bad.example'),
    await createTenant(world, 'ops@bad.example'),
  ]
  await world.sql.unsafe(
    `alter table messages add constraint refused check (metadata ->> 'tenant_id' is distinct from '${refused}')`,
  )
  onTestFinished(async () => void (await world.sql`alter table messages drop constraint refused`))
  const [bad] = await createDisabledEndpoints(world, refused, [{}])
  const [good] = await createDisabledEndpoints(world, tenant_id, [{}])
  await awaitNotices(world, [bad!, good!])
  const emails = await inboxOf(world, 'ops@bad.example')
  expect(emails.map(({ text }) => text.includes(good))).toEqual([true])
  expect(await logOf(bad!)).toMatchObject([{ level: ERROR, tenant_id: refused }])
})

const WORK = 'notices of disabled endpoints'
const countFailures = async () =>
  (await metrics.recurringFailures.get()).values.find(({ labels }) => labels['work'] === WORK)?.value ?? 0
const findUnnotified = async (world: World, ids: string[]) =>
  (
    await world.sql`select id from webhook_endpoints where id = any(${ids}::uuid[]) and notified_at is null`
  ).map(({ id }) => id)

test("an exception for one endpoint does not delay other endpoints, and the endpoint's email is sent after the correction", async ({
  world,
}) => {
  const tenant_id = await createTenant(world, 'ops@exception.example')
  const before = await countFailures()
  const [bad, good] = await createDisabledEndpoints(world, tenant_id, [
    { reason: 'failing', failing_since: '290000-01-01T00:00:00Z' },
    { reason: 'failing' },
  ])
  await awaitNotices(world, [good!])
  await eventually(async () => expect(await countFailures()).toBeGreaterThan(before))
  expect(await findUnnotified(world, [bad!])).toEqual([bad])
  expect((await logOf(bad!))[0]).toMatchObject({ level: WARN, msg: expect.stringContaining(WORK) })
  await world.sql`update webhook_endpoints set failing_since = now() where id = ${bad!}`
  await awaitNotices(world, [bad!])
  expect(await inboxOf(world, 'ops@exception.example')).toHaveLength(2)
})

test("a missing right of the worker's role fails the run, and no endpoint counts as notified", async ({
  world,
}) => {
  const tenant_id = await createTenant(world, 'ops@right.example')
  await world.sql`revoke insert on jobs from sluice_worker`
  const grant = async () => void (await world.sql`grant insert on jobs to sluice_worker`)
  onTestFinished(grant)
  const before = await countFailures()
  const ids = await createDisabledEndpoints(world, tenant_id, [{}, {}])
  // Both workers have run at least once in the meantime.
  await eventually(async () => expect(await countFailures()).toBeGreaterThan(before + 2))
  expect(new Set(await findUnnotified(world, ids))).toEqual(new Set(ids))
  await grant()
  await awaitNotices(world, ids)
  expect(await inboxOf(world, 'ops@right.example')).toHaveLength(2)
})

test.concurrent('a tenant receives at most sixty emails in an hour and the others later, and does not delay another tenant with the same contact', async ({
  world,
}) => {
  const contact = 'ops@busy.example'
  const [busy, other] = [await createTenant(world, contact), await createTenant(world, contact)]
  const setUsed = async (count: number) =>
    await world.sql`
      insert into message_limits (tenant_id, scope, window_start, used)
      values (${busy}, 'contact', date_trunc('hour', now()) + interval '1 hour', ${count})
      on conflict (tenant_id, scope) do update set used = excluded.used`
  await setUsed(58)
  const many = await createDisabledEndpoints(
    world,
    busy,
    Array.from({ length: 20 }, () => ({})),
  )
  await awaitNotices(world, await createDisabledEndpoints(world, other, [{}]))
  const findRemaining = async () =>
    await world.sql<{ id: string }[]>`
      select id from webhook_endpoints where id = any(${many}::uuid[]) and notified_at is null`
  await eventually(async () => expect(await findRemaining()).toHaveLength(18))
  // Any of these endpoints may be the one that is logged: a batch may begin with an endpoint of another test.
  const deferred = (await findRemaining()).map(({ id }) => id)
  expect((await logOf(...deferred))[0]).toMatchObject({
    level: WARN,
    msg: expect.stringContaining('follows later'),
  })
  await world.drain()
  expect(await inboxOf(world, contact)).toHaveLength(3)
  await setUsed(1)
  await awaitNotices(world, many)
  expect(await inboxOf(world, contact)).toHaveLength(21)
})

test.concurrent('an endpoint that was disabled manually or deleted causes no email', async ({ world }) => {
  const tenant_id = await createTenant(world, 'ops@quiet.example')
  const ids = await createDisabledEndpoints(world, tenant_id, [{ reason: 'manual' }, { deleted: true }, {}])
  // Notices are written in the order of disabling, so notices of the other endpoints would be written before this
  // notice.
  await awaitNotices(world, [ids[2]!])
  const emails = await inboxOf(world, 'ops@quiet.example')
  expect(emails.map(({ text }) => ids.filter((id) => text.includes(id)))).toEqual([[ids[2]]])
})

test('the audit finds no problems in messages of the system, and their events are only in the feed of the system tenant', async ({
  world,
}) => {
  await world.drain()
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems.filter(({ tenant_id }) => tenant_id === SYSTEM_TENANT_ID)).toEqual([])
  const owners = await world.sql`select distinct tenant_id from events where type like 'message.%'`
  expect(owners).toEqual([{ tenant_id: SYSTEM_TENANT_ID }])
})
