// Tenants and their twins where no provider is configured: what works, keys, and how a process remembers modes.
import { expect } from 'vitest'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { keysCommand } from '#commands/keys.ts'
import { queuesCommand } from '#commands/queues.ts'
import { findPauses } from '#domain/jobs/pauses.ts'
import { createModeCache } from '#domain/modes.ts'
import { ensureTenant, ensureTwin, findTenant, listTenants } from '#domain/tenants.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { eventually } from '#test/payments.ts'
import { testIn } from '#test/world.ts'

const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'

const test = testIn({
  parts: ['api', 'worker'],
  notifications: false,
  env: { SMTP_URL: '', EMAIL_FROM: '', TWILIO_AUTH_TOKEN: '', TWILIO_FROM: '' },
})

test('a live tenant sends no messages, and a twin sends them to its inbox', async ({ world }) => {
  const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
  const email = { to: ['ada@example.com'], subject: 'Hello', text: 'Hello' }
  const sms = { to: '+4915112345678', body: 'Hello' }
  for (const [channel, body] of [
    ['email', email],
    ['sms', sms],
  ] as const) {
    const send = (client: Client) =>
      client.post(`/v1/messages/${channel}`, { idempotency_key: freshKey(), ...body })
    const refused = await send(world.client)
    expect([refused.status, refused.body.error]).toMatchObject([500, { code: 'misconfigured_gateway' }])
    const sent = await send(twin)
    expect(sent.body).toMatchObject({ livemode: false })
    await eventually(async () =>
      expect((await twin.get(`/v1/messages/${sent.body.id}`)).body.status).toMatch(/^(?:sent|delivered)$/),
    )
  }
})

test('a key of test mode is created by the command, for a twin that its first key creates', async ({
  world,
}) => {
  const run = (...args: string[]) => runHere(keysCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
  await ensureTenant(world.sql, 'shop')
  const missing = await run('list', '--tenant', 'shop', '--mode', 'test')
  expect([missing.code, missing.stderr]).toEqual([1, 'The tenant "shop" has no key of test mode yet.\n'])
  const created = await run('create', '--tenant', 'shop', '--mode', 'test', '--scopes', 'all')
  const [secret] = /sk_test_shop_[0-9A-Za-z]{32}/.exec(created.stdout)!
  const { body } = await createClient(world.client.url, secret).post('/v1/customers', {
    idempotency_key: freshKey(),
  })
  const twin = (await findTenant(world.sql, 'shop', 'test'))!
  expect(body).toMatchObject({ tenant_id: twin.id, livemode: false })
  const listed = await run('list', '--tenant', 'shop', '--mode', 'test')
  expect(listed.stdout).toContain(`Contact of shop/test: none\nId of shop/test: ${twin.id}\n`)
  expect((await run('list', '--tenant', 'shop')).stdout).toContain('shop has no keys.')
  const [, id] = /([0-9a-f-]{36}) {2}\.\.\./.exec(listed.stdout)!
  const rotated = await run('rotate', '--tenant', 'shop/test', '--id', id!)
  expect(rotated.stdout).toContain('sk_test_shop_')
  const mistyped = await run('create', '--tenant', 'shpo', '--mode', 'test', '--scopes', 'all')
  expect([mistyped.code, await findTenant(world.sql, 'shpo', 'live')]).toEqual([1, undefined])
  expect(mistyped.stderr).toBe('There is no tenant "shpo". Its first key of live mode creates it.\n')
  const unknown = await run('list', '--tenant', 'shop', '--mode', 'demo')
  expect([unknown.code, unknown.stderr]).toEqual([1, '--mode must be live or test.\n'])
})

test('commands name a twin by the slug of its tenant and "/test"', async ({ world }) => {
  const { sql } = world
  const tenant = await ensureTenant(sql, 'paused')
  const twin = await ensureTwin(sql, tenant)
  const run = (...args: string[]) => runHere(queuesCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
  const pausedIds = async () => (await findPauses(sql)).map(({ tenant_id }) => tenant_id)
  for (const name of ['paused', 'paused/test'])
    expect((await run('pause', '--tenant', name, '--reason', 'checks')).code).toBe(0)
  expect(await pausedIds()).toEqual([tenant.id, twin.id])
  const { stdout } = await run('list')
  expect(stdout.match(/PAUSED {2}tenant \S+/g)).toEqual([
    'PAUSED  tenant paused',
    'PAUSED  tenant paused/test',
  ])
  await run('resume', '--tenant', 'paused')
  expect(await pausedIds()).toEqual([twin.id])
  await run('resume', '--tenant', twin.id)
  expect(await pausedIds()).toEqual([])
  const missing = await run('pause', '--tenant', 'paused/tset', '--reason', 'checks')
  expect(missing.stderr).toBe('There is no tenant "paused/tset".\n')
})

test('a tenant has one twin, which has none, and lists of tenants leave twins out', async ({ world }) => {
  const { sql } = world
  const live = await ensureTenant(sql, 'twice')
  const twins = await Promise.all(Array.from({ length: 5 }, () => ensureTwin(sql, live)))
  expect(new Set(twins.map(({ id }) => id)).size).toBe(1)
  const [twin] = twins
  expect(twin).toEqual({ ...live, id: twin!.id, mode: 'test' })
  expect(await findTenant(sql, 'twice', 'live')).toEqual(live)
  expect(await listTenants(sql, 'twice', 10)).toEqual([{ id: live.id, slug: 'twice', name: 'twice' }])
  await expect(ensureTwin(sql, twin!)).rejects.toThrow('the tenant twice can have no twin')
  const system = { id: SYSTEM_TENANT_ID, slug: 'system' }
  await expect(ensureTwin(sql, system)).rejects.toThrow('the tenant system can have no twin')
})

test('a process remembers the modes of the tenants that it used last', async ({ world }) => {
  const { sql } = world
  const live = await ensureTenant(sql, 'remembered')
  const twin = await ensureTwin(sql, live)
  const modes = createModeCache(sql, 2)
  const modeOf = (id: string) => modes.modeOf(id)
  expect(modeOf(SYSTEM_TENANT_ID)).toBe('live')
  expect(await Promise.all([modeOf(live.id), modeOf(twin.id)])).toEqual(['live', 'test'])
  expect([modeOf(live.id), modeOf(twin.id)]).toEqual(['live', 'test'])
  // The tenant that was used longest ago is forgotten.
  expect(await modeOf(world.tenant_id)).toBe('live')
  expect(modeOf(twin.id)).toBe('test')
  expect(modeOf(live.id)).toBeInstanceOf(Promise)
  expect(await modeOf(UNKNOWN_ID)).toBe('live')
  expect(modeOf(UNKNOWN_ID)).toBeInstanceOf(Promise)
})
