// The contact of a tenant is told by email of an endpoint that was disabled by itself, once for each time.
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
import { makeFolder } from '#test/folders.ts'
import { hashOf } from '#test/messages.ts'
import { startHere } from '#test/parts.ts'
import { eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

/** Of all workers. */
let log_file: string
let folder: Awaited<ReturnType<typeof makeFolder>> | undefined
const workers: Awaited<ReturnType<typeof startHere>>[] = []
const test = testIn({ parts: ['api'] })
test.beforeAll(async ({ world }) => {
  folder = await makeFolder()
  log_file = join(folder.path, 'log')
  const log = createLog('info', 'test', openSync(log_file, 'a'))
  workers.push(await startHere('worker', world.env, log), await startHere('worker', world.env, log))
})
afterAll(async () => {
  for (const worker of workers) await worker.close()
  await folder?.remove()
})

const [WARN, ERROR] = [40, 50]
let tenants = 0
/** A new tenant. `contact` null: it has none. */
async function tenantWith(
  world: World,
  contact: string | null,
  slug = `told-${(tenants += 1)}`,
): Promise<string> {
  const { id } = await ensureTenant(world.sql, slug)
  await setTenantContact(world.sql, id, contact, testActor(id))
  return id
}

type Disabled = {
  url?: string
  description?: string
  reason?: string
  deleted?: boolean
  failing_since?: string
}

/** Endpoints as the settling of their last attempt leaves them, disabled at one moment. Answers their ids. */
async function disabledEndpoints(world: World, tenant_id: string, disabled: Disabled[]): Promise<string[]> {
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

async function told(world: World, ids: string[]): Promise<void> {
  await eventually(async () => {
    const [row] = await world.sql<{ untold: number }[]>`
      select count(*) as untold from webhook_endpoints where id = any(${ids}::uuid[]) and notified_at is null`
    expect(row!.untold).toBe(0)
  })
  await world.drain()
}

const inboxOf = async (world: World, address: string): Promise<any[]> => {
  const query = `/messages?to=${encodeURIComponent(address)}`
  const emails: any[] = await world.provider('smtp').control('GET', query)
  return emails.map((email) => ({ ...email, text: email.text.replaceAll('\r\n', '\n') }))
}

/** The lines about an endpoint; the first comes after the endpoint is told of. */
async function logOf(id: string) {
  return await eventually(async () => {
    const lines = (await readFile(log_file, 'utf8')).split('\n').filter((line) => line.includes(id))
    expect(lines).not.toEqual([])
    return lines.map((line) => JSON.parse(line) as { level: number; msg: string; tenant_id: string })
  })
}

// Side by side: each waits until the workers look for disabled endpoints, which they do every few seconds.
test.concurrent('the email names the endpoint, its tenant and why it was disabled', async ({ world }) => {
  const tenant_id = await tenantWith(world, 'ops@told.example', 'bakery')
  const [gone, failing] = await disabledEndpoints(world, tenant_id, [
    { url: 'https://user:hidden@shop.example:8443/hooks/orders?token=hidden#hidden', description: 'Orders' },
    { reason: 'failing', failing_since: '2026-11-02T03:04:05.678Z' },
  ])
  await told(world, [gone!, failing!])
  const emails = await inboxOf(world, 'ops@told.example')
  expect(emails).toHaveLength(2)
  const [of_gone, of_failing] = [gone!, failing!].map((id) => emails.find(({ text }) => text.includes(id)))
  expect(of_gone).toMatchObject({
    to: ['ops@told.example'],
    from: 'Sluice <system@sluice.example>',
    html: null,
  })
  expect(of_gone.subject).toBe('Webhook endpoint of bakery disabled: shop.example:8443')
  expect(of_gone.text).toContain('Host:        shop.example:8443\n')
  // Many receivers carry their token in the path.
  expect(of_gone.raw).not.toContain('/hooks')
  expect(of_gone.text).toContain('Orders')
  expect(of_gone.text).toContain(`bakery (${tenant_id})`)
  expect(of_gone.text).toContain('410 Gone')
  expect(of_gone.text).toContain(`PATCH /v1/webhook_endpoints/${gone}`)
  expect(of_gone.text).toContain(`POST /v1/webhook_endpoints/${gone}/recover`)
  expect(of_gone.raw).not.toContain('hidden')
  expect(of_gone.headers).toMatchObject({ 'auto-submitted': 'auto-generated' })
  expect(of_failing.text).toContain('have failed since 2026-11-02T03:04:05Z')
  expect(of_failing.text).toContain('{ "since": "2026-11-02T02:04:05Z" }')
  expect(of_failing.text).not.toContain('410 Gone')
})

test.concurrent('what a tenant writes of its endpoint makes no header and no line of its own', async ({
  world,
}) => {
  const tenant_id = await tenantWith(world, 'ops@lines.example', 'florist')
  const [id] = await disabledEndpoints(world, tenant_id, [
    {
      url: 'https://shop.example/%0d%0aBcc:eve@lines.example',
      description: 'Orders\r\nBcc: eve@lines.example\u2028\n\nPay here: https://eve.example\u202e',
    },
  ])
  await told(world, [id!])
  const [email] = await inboxOf(world, 'ops@lines.example')
  expect(email.subject).toBe('Webhook endpoint of florist disabled: shop.example')
  expect(email.to).toEqual(['ops@lines.example'])
  expect(Object.keys(email.headers)).not.toContain('bcc')
  expect(
    email.text.split('\n').filter((line: string) => line.includes('eve@') || line.includes('eve.')),
  ).toEqual(['Description: Orders Bcc: eve@lines.example Pay here: https://eve.example'])
})

test.concurrent('two workers at once send one email for each endpoint', async ({ world }) => {
  const tenant_ids = await Promise.all([1, 2, 3].map(() => tenantWith(world, 'ops@many.example')))
  const many = Array.from({ length: 18 }, () => ({}))
  const ids = (
    await Promise.all(tenant_ids.map((tenant_id) => disabledEndpoints(world, tenant_id, many)))
  ).flat()
  await told(world, ids)
  const texts = (await inboxOf(world, 'ops@many.example')).map(({ text }) => text as string)
  const endpoints = texts.map((text) => ids.find((id) => text.includes(id)))
  expect(new Set(endpoints)).toEqual(new Set(ids))
  expect(endpoints).toHaveLength(ids.length)
})

test.concurrent('an email that is written already is not written again, one about the next time is', async ({
  world,
}) => {
  const tenant_id = await tenantWith(world, 'ops@again.example')
  const [id] = await disabledEndpoints(world, tenant_id, [{}])
  await told(world, [id!])
  // As if its worker had died between the two.
  await world.sql`update webhook_endpoints set notified_at = null, updated_at = clock_timestamp() where id = ${id!}`
  await told(world, [id!])
  expect(await inboxOf(world, 'ops@again.example')).toHaveLength(1)
  await world.sql`update webhook_endpoints set notified_at = null, enabled_at = clock_timestamp() where id = ${id!}`
  await told(world, [id!])
  expect(await inboxOf(world, 'ops@again.example')).toHaveLength(2)
})

test.concurrent('where the tenant has no contact, or its address takes no email, the log says so, once', async ({
  world,
}) => {
  const [alone, suppressed] = [
    await tenantWith(world, null),
    await tenantWith(world, 'ops@suppressed.example'),
  ]
  await world.sql`
    insert into suppressions (tenant_id, id, channel, address, sealed, reason)
    values (${SYSTEM_TENANT_ID}, ${newId()}, 'email', ${hashOf(world)('email', 'ops@suppressed.example')}, '', 'hard_bounce')`
  const [of_alone] = await disabledEndpoints(world, alone, [{}])
  const [of_suppressed] = await disabledEndpoints(world, suppressed, [{}])
  await told(world, [of_alone!, of_suppressed!])
  expect(await logOf(of_alone!)).toMatchObject([
    { level: WARN, tenant_id: alone, msg: expect.stringContaining('npm run keys -- contact') },
  ])
  expect(await logOf(of_suppressed!)).toMatchObject([
    { level: WARN, tenant_id: suppressed, msg: expect.stringContaining('is suppressed') },
  ])
  expect(await inboxOf(world, 'ops@suppressed.example')).toEqual([])
})

// By itself: then each is told of alone, and whoever has been told too often is left out without a word.
test('one of which no email can be written holds up no others, and the log says so, once', async ({
  world,
}) => {
  const [refused, tenant_id] = [
    await tenantWith(world, 'ops@bad.example'),
    await tenantWith(world, 'ops@bad.example'),
  ]
  await world.sql.unsafe(
    `alter table messages add constraint refused check (metadata ->> 'tenant_id' is distinct from '${refused}')`,
  )
  onTestFinished(async () => void (await world.sql`alter table messages drop constraint refused`))
  const [bad] = await disabledEndpoints(world, refused, [{}])
  const [good] = await disabledEndpoints(world, tenant_id, [{}])
  await told(world, [bad!, good!])
  const emails = await inboxOf(world, 'ops@bad.example')
  expect(emails.map(({ text }) => text.includes(good))).toEqual([true])
  expect(await logOf(bad!)).toMatchObject([{ level: ERROR, tenant_id: refused }])
})

const WORK = 'notices of disabled endpoints'
const failures = async () =>
  (await metrics.recurringFailures.get()).values.find(({ labels }) => labels['work'] === WORK)?.value ?? 0
const stillUntold = async (world: World, ids: string[]) =>
  (
    await world.sql`select id from webhook_endpoints where id = any(${ids}::uuid[]) and notified_at is null`
  ).map(({ id }) => id)

test('an exception of our own holds up no others, and its endpoint is told of once that is corrected', async ({
  world,
}) => {
  const tenant_id = await tenantWith(world, 'ops@exception.example')
  const before = await failures()
  const [bad, good] = await disabledEndpoints(world, tenant_id, [
    { reason: 'failing', failing_since: '290000-01-01T00:00:00Z' },
    { reason: 'failing' },
  ])
  await told(world, [good!])
  await eventually(async () => expect(await failures()).toBeGreaterThan(before))
  expect(await stillUntold(world, [bad!])).toEqual([bad])
  expect((await logOf(bad!))[0]).toMatchObject({ level: WARN, msg: expect.stringContaining(WORK) })
  await world.sql`update webhook_endpoints set failing_since = now() where id = ${bad!}`
  await told(world, [bad!])
  expect(await inboxOf(world, 'ops@exception.example')).toHaveLength(2)
})

test('while the worker lacks a right, the work fails and nobody counts as told', async ({ world }) => {
  const tenant_id = await tenantWith(world, 'ops@right.example')
  await world.sql`revoke insert on jobs from sluice_worker`
  const grant = async () => void (await world.sql`grant insert on jobs to sluice_worker`)
  onTestFinished(grant)
  const before = await failures()
  const ids = await disabledEndpoints(world, tenant_id, [{}, {}])
  // Runs of both workers have begun since.
  await eventually(async () => expect(await failures()).toBeGreaterThan(before + 2))
  expect(new Set(await stillUntold(world, ids))).toEqual(new Set(ids))
  await grant()
  await told(world, ids)
  expect(await inboxOf(world, 'ops@right.example')).toHaveLength(2)
})

test.concurrent('a tenant is told sixty times in an hour and of the rest later; who shares its contact is told', async ({
  world,
}) => {
  const contact = 'ops@busy.example'
  const [busy, other] = [await tenantWith(world, contact), await tenantWith(world, contact)]
  const used = async (count: number) =>
    await world.sql`
      insert into message_limits (tenant_id, scope, window_start, used)
      values (${busy}, 'contact', date_trunc('hour', now()) + interval '1 hour', ${count})
      on conflict (tenant_id, scope) do update set used = excluded.used`
  await used(58)
  const many = await disabledEndpoints(
    world,
    busy,
    Array.from({ length: 20 }, () => ({})),
  )
  await told(world, await disabledEndpoints(world, other, [{}]))
  const untold = async () =>
    await world.sql<{ id: string }[]>`
      select id from webhook_endpoints where id = any(${many}::uuid[]) and notified_at is null`
  await eventually(async () => expect(await untold()).toHaveLength(18))
  const [left_out] = await untold()
  expect(await logOf(left_out!.id)).toMatchObject([
    { level: WARN, msg: expect.stringContaining('follows later') },
  ])
  await world.drain()
  expect(await inboxOf(world, contact)).toHaveLength(3)
  await used(1)
  await told(world, many)
  expect(await inboxOf(world, contact)).toHaveLength(21)
})

test.concurrent('one that somebody disabled or deleted is told of to nobody', async ({ world }) => {
  const tenant_id = await tenantWith(world, 'ops@quiet.example')
  const ids = await disabledEndpoints(world, tenant_id, [{ reason: 'manual' }, { deleted: true }, {}])
  // The last to be disabled is the last to be told of.
  await told(world, [ids[2]!])
  const emails = await inboxOf(world, 'ops@quiet.example')
  expect(emails.map(({ text }) => ids.filter((id) => text.includes(id)))).toEqual([[ids[2]]])
})

test('messages of the system itself are in order, and its events are in its own feed only', async ({
  world,
}) => {
  await world.drain()
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems.filter(({ tenant_id }) => tenant_id === SYSTEM_TENANT_ID)).toEqual([])
  const owners = await world.sql`select distinct tenant_id from events where type like 'message.%'`
  expect(owners).toEqual([{ tenant_id: SYSTEM_TENANT_ID }])
})
