// API keys are created with a command, rotated with a grace period, and revoked in all processes within a second.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect } from 'vitest'
import { keysCommand } from '#commands/keys.ts'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '#domain/api-keys.ts'
import { findAuditEntries } from '#domain/people/audit-log.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { createClient, freshKey } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { testActor } from '#test/environment.ts'
import { testIn, type World } from '#test/world.ts'

const SECRET = /sk_live_[a-z0-9-]+_[0-9A-Za-z]{32}/
const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/

let second_api: Awaited<ReturnType<typeof startApi>>

const test = testIn({ parts: ['api'] })
test.beforeAll(async ({ world }) => {
  second_api = await startApi(world.config, createLog('silent', 'test'))
})
afterAll(async () => {
  await second_api?.close()
})

function runKeys(world: World, ...args: string[]) {
  return runHere(keysCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
}

async function statusOf(world: World, secret: string, url = world.client.url): Promise<number> {
  return (await createClient(url, secret).get('/v1/customers')).status
}

async function createKey(
  world: World,
  scopes = 'customer:write',
  tenant = 'shop',
): Promise<{ id: string; secret: string }> {
  const { code, stdout } = await runKeys(world, 'create', '--tenant', tenant, '--scopes', scopes)
  expect(code).toBe(0)
  return parseKey({ stdout })
}

function parseKey({ stdout }: { stdout: string }): { id: string; secret: string } {
  return { id: ID.exec(stdout)![0], secret: SECRET.exec(stdout)![0] }
}

test('a revoked key is refused by every process within a second', async ({ world }) => {
  const client = await world.clientOf()
  const urls = [world.client.url, second_api.url]
  for (const url of urls) expect(await statusOf(world, client.key, url)).toBe(200)
  const lastAccepted = urls.map(async (url) => {
    for (let accepted_at = 0; ; await sleep(5)) {
      const requested_at = performance.now()
      if ((await statusOf(world, client.key, url)) === 401) return accepted_at
      accepted_at = requested_at
    }
  })
  await sleep(50)
  expect(
    await revokeApiKey(world.sql, client.tenant_id, client.key_id, testActor(client.tenant_id)),
  ).toBeDefined()
  const revoked_at = performance.now()
  for (const accepted_at of await Promise.all(lastAccepted)) {
    expect(accepted_at).toBeGreaterThan(0)
    expect(accepted_at - revoked_at).toBeLessThan(1000)
  }
  for (const url of urls) expect(await statusOf(world, client.key, url)).toBe(401)
})

test('an expired key is refused, even while it is in use', async ({ world }) => {
  const tenant = await ensureTenant(world.sql, 'expiring')
  const by = testActor(tenant.id)
  const expired_key = { name: 'x', scopes: [], expires_at: '2020-01-01T00:00:00Z' }
  const past = await createApiKey(world.sql, tenant, expired_key, by)
  expect(await statusOf(world, past.secret)).toBe(401)
  // The lookup is so close to the expiry that a cache with a fixed lifetime would accept the key for too long.
  let soon: { secret: string; ends: number }
  do {
    const ends = Date.now() + 700
    const { secret } = await createApiKey(
      world.sql,
      tenant,
      { ...expired_key, expires_at: new Date(ends).toISOString() },
      by,
    )
    soon = { secret, ends }
    await sleep(ends - 400 - Date.now())
    // On a busy machine the key may already be expired: retry with a new key.
  } while ((await statusOf(world, soon.secret)) !== 200)
  await sleep(soon.ends + 200 - Date.now())
  expect(await statusOf(world, soon.secret)).toBe(401)
})

test('a rotated key works until the end of its grace period, and the new key has the scopes of the rotated key', async ({
  world,
}) => {
  const tenant = await ensureTenant(world.sql, 'rotating')
  const by = testActor(tenant.id)
  const properties = { name: 'shop', scopes: ['customer:write' as const], expires_at: null }
  const old = await createApiKey(world.sql, tenant, properties, by)
  const fresh = (await rotateApiKey(world.sql, tenant, old.id, 3600, by))!
  expect(fresh).toMatchObject(properties)
  for (const { secret } of [old, fresh]) {
    const response = await createClient(world.client.url, secret).post('/v1/customers', {
      idempotency_key: freshKey(),
    })
    expect([response.status, response.body.tenant_id]).toEqual([201, tenant.id])
  }
  await rotateApiKey(world.sql, tenant, fresh.id, 0, by)
  for (let status = 200; status === 200; await sleep(20)) status = await statusOf(world, fresh.secret)
  expect(await statusOf(world, old.secret)).toBe(200)
})

test('the successor of a rotated key has the same expiry, and an expired key cannot be rotated', async ({
  world,
}) => {
  const tenant = await ensureTenant(world.sql, 'ending')
  const by = testActor(tenant.id)
  const expires_at = '2099-01-01T00:00:00Z'
  const ending = { name: 'x', scopes: [], expires_at }
  const old = await createApiKey(world.sql, tenant, ending, by)
  const fresh = (await rotateApiKey(world.sql, tenant, old.id, 60, by))!
  expect(fresh.expires_at).toBe(old.expires_at)
  const left = (await listApiKeys(world.sql, tenant.id)).find(({ id }) => id === old.id)
  expect(Date.parse(left!.expires_at!)).toBeLessThan(Date.now() + 120_000)
  const expired_key = await createApiKey(
    world.sql,
    tenant,
    { ...ending, expires_at: '2020-01-01T00:00:00Z' },
    by,
  )
  const refused = await runKeys(world, 'rotate', '--tenant', 'ending', '--id', expired_key.id)
  expect([refused.code, refused.stderr]).toEqual([
    1,
    'There is no such key, or the key is revoked or expired.\n',
  ])
  expect(await listApiKeys(world.sql, tenant.id)).toHaveLength(3)
})

test('the command creates a key that works at once, and shows the key once', async ({ world }) => {
  const { id, secret } = await createKey(world, 'customer:write,payments:read', 'front-shop')
  expect(secret.startsWith('sk_live_front-shop_')).toBe(true)
  const client = createClient(world.client.url, secret)
  expect((await client.post('/v1/customers', { idempotency_key: freshKey() })).status).toBe(201)
  expect((await client.get('/v1/payments')).status).toBe(200)
  expect((await client.post('/v1/payments', {})).body.error.message).toBe('Missing scope: payments:write')

  const listed = await runKeys(world, 'list', '--tenant', 'front-shop')
  expect(listed.stdout).toContain(id)
  expect(listed.stdout).toContain(`...${secret.slice(-4)}`)
  expect(listed.stdout).toContain('valid')
  expect(listed.stdout).toContain('[customer:write payments:read]')
  expect(listed.stdout).not.toMatch(SECRET)
  // As versions before could store it.
  await world.sql`update api_keys set name = ${'Shop\u001b[2J\nx'} where id = ${id}`
  expect((await runKeys(world, 'list', '--tenant', 'front-shop')).stdout).toContain('  Shop [2J x  [customer')
  const [row] = await world.sql`select to_jsonb(k)::text as row from api_keys k where id = ${id}`
  expect(row!.row).not.toContain(secret.slice(19))
})

test('the command creates keys with an expiry and keys with all scopes', async ({ world }) => {
  const command = ['create', '--tenant', 'expiries', '--scopes', 'all', '--expires']
  const { id, secret: ending } = parseKey(await runKeys(world, ...command, '2099-01-01T00:00:00Z'))
  expect(await statusOf(world, ending)).toBe(200)
  for (const given of ['2098-02-03', '2098-02-03T02:00:00+02:00']) {
    const key = parseKey(await runKeys(world, ...command, given))
    const { stdout } = await runKeys(world, 'list', '--tenant', 'expiries')
    expect(stdout).toContain(`${key.id}  ...${key.secret.slice(-4)}  expires 2098-02-03T00:00:00`)
  }
  const tenant = await ensureTenant(world.sql, 'expiries')
  const by = testActor(tenant.id)
  const expired_key = { name: 'x', scopes: [], expires_at: '2020-01-01T00:00:00Z' }
  const { id: expired } = await createApiKey(world.sql, tenant, expired_key, by)
  const { stdout } = await runKeys(world, 'list', '--tenant', 'expiries')
  expect(stdout).toMatch(new RegExp(`${id}  \\S+  expires 2099`))
  expect(stdout).toMatch(new RegExp(`${expired}  \\S+  expired 2020`))
  const { secret } = await createKey(world, 'all')
  expect((await createClient(world.client.url, secret).get('/v1/payments')).status).toBe(200)
})

test('the command rotates and revokes keys', async ({ world }) => {
  const first = await createKey(world)
  const rotated = await runKeys(world, 'rotate', '--tenant', 'shop', '--id', first.id, '--grace', '60')
  expect(rotated.code).toBe(0)
  const next = { id: ID.exec(rotated.stdout)![0], secret: SECRET.exec(rotated.stdout)![0] }
  expect(next.secret).not.toBe(first.secret)
  expect([await statusOf(world, first.secret), await statusOf(world, next.secret)]).toEqual([200, 200])
  expect((await runKeys(world, 'list', '--tenant', 'shop')).stdout).toMatch(
    new RegExp(`${first.id}.*expires`),
  )

  const revoked = await runKeys(world, 'revoke', '--tenant', 'shop', '--id', first.id)
  expect([revoked.code, revoked.stdout]).toEqual([0, 'Revoked.\n'])
  for (let status = 200; status === 200; await sleep(20)) status = await statusOf(world, first.secret)
  expect(await statusOf(world, next.secret)).toBe(200)
  const repeated = await runKeys(world, 'revoke', '--tenant', 'shop', '--id', first.id)
  expect([repeated.code, repeated.stderr]).toEqual([
    1,
    'There is no such key, or the key is already revoked.\n',
  ])
  expect((await runKeys(world, 'rotate', '--tenant', 'shop', '--id', first.id)).code).toBe(1)
})

test('the audit log of a tenant has the changes that the command makes, and omits refused changes', async ({
  world,
}) => {
  const { id } = await createKey(world, 'customer:write', 'audited')
  const fresh = parseKey(await runKeys(world, 'rotate', '--tenant', 'audited', '--id', id, '--grace', '0'))
  for (const code of [0, 1])
    expect((await runKeys(world, 'revoke', '--tenant', 'audited', '--id', fresh.id)).code).toBe(code)
  await runKeys(world, 'contact', '--tenant', 'audited', '--email', 'ops@audited.example')
  const tenant_id = (await ensureTenant(world.sql, 'audited')).id
  const { entries } = await findAuditEntries(world.sql, { tenant_id, limit: 10 })
  expect(entries).toMatchObject([
    { action: 'tenants.set_contact', subject: 'tenant', subject_id: tenant_id },
    { action: 'keys.revoke', subject: 'key', subject_id: fresh.id },
    { action: 'keys.rotate', subject: 'key', subject_id: id, details: { grace_s: 0, new_key: fresh.id } },
    { action: 'keys.create', subject: 'key', subject_id: id, details: { scopes: ['customer:write'] } },
  ])
  for (const { actor } of entries) expect(actor).toMatch(/^\S+@\S+ \(npm run keys\)$/)
  expect(JSON.stringify(entries)).not.toMatch(SECRET)
})

test("the command does not touch another tenant's key", async ({ world }) => {
  const { id, secret } = await createKey(world, 'customer:write', 'mine')
  await createKey(world, 'customer:write', 'theirs')
  for (const command of ['revoke', 'rotate']) {
    const { code, stderr } = await runKeys(world, command, '--tenant', 'theirs', '--id', id)
    expect([code, stderr]).toEqual([1, expect.stringContaining('There is no such key')])
  }
  expect(await statusOf(world, secret)).toBe(200)
})

test('the command sets and shows the email domains of a tenant', async ({ world }) => {
  await ensureTenant(world.sql, 'writes')
  const set = async (...args: string[]) => await runKeys(world, 'domains', '--tenant', 'writes', ...args)
  const domains = async (...args: string[]) => {
    const { code, stdout } = await set(...args)
    const [row] = await world.sql`select email_domains from tenants where slug = 'writes'`
    return [code, stdout.trim(), row!['email_domains']]
  }
  const standard =
    "Domains of writes: no list of its own. EMAIL_FROM_DOMAINS is not set here: any domain except the system's own address"
  expect(await domains()).toEqual([0, standard, null])
  expect(await domains('--only', 'Shop.example, münchen.example,shop.example')).toEqual([
    0,
    'Domains of writes: shop.example, xn--mnchen-3ya.example',
    ['shop.example', 'xn--mnchen-3ya.example'],
  ])
  expect(await domains('--none')).toEqual([0, 'Domains of writes: none', []])
  for (const wrong of ['', 'shop', 'shop.example.', '*.example', 'a@b.example'])
    expect((await domains('--only', wrong)).slice(0, 1)).toEqual([1])
  expect((await set('--only', 'a.example,shop')).stderr).toContain('"shop" is not one')
  expect((await domains('--none', '--default'))[0]).toBe(1)
  expect(await domains('--default')).toEqual([0, standard, null])
  const limited = await runHere(keysCommand, ['domains', '--tenant', 'writes'], {
    DATABASE_URL: world.config.DATABASE_URL,
    EMAIL_FROM_DOMAINS: 'a.example,b.example',
  })
  expect(limited.stdout).toContain(
    'Domains of writes: no list of its own. The domains of EMAIL_FROM_DOMAINS: a.example, b.example',
  )
  const [entry] =
    await world.sql`select details from audit_entries where action = 'tenants.set_email_domains' limit 1`
  expect(entry!['details']).toMatchObject({ email_domains: ['shop.example', 'xn--mnchen-3ya.example'] })
})

test('the command sets and shows the SMS senders of a tenant', async ({ world }) => {
  await ensureTenant(world.sql, 'texts')
  const senders = async (...args: string[]) => {
    const { code, stdout } = await runKeys(world, 'senders', '--tenant', 'texts', ...args)
    const [row] = await world.sql`select sms_senders from tenants where slug = 'texts'`
    return [code, stdout.trim(), row!['sms_senders']]
  }
  expect(await senders()).toEqual([0, 'Senders of SMS of texts: any', null])
  const given = ['+4915112345678', 'Shop']
  expect(await senders('--only', '+4915112345678, Shop,Shop')).toEqual([
    0,
    'Senders of SMS of texts: +4915112345678, Shop',
    given,
  ])
  expect((await senders('--only', '15112345678'))[0]).toBe(1)
  expect(await senders('--none')).toEqual([0, 'Senders of SMS of texts: none of its own', []])
  expect(await senders('--default')).toEqual([0, 'Senders of SMS of texts: any', null])
  const [entry] =
    await world.sql`select details from audit_entries where action = 'tenants.set_sms_senders' order by seq limit 1`
  expect(entry!['details']).toMatchObject({ sms_senders: given })
})

test('the command sets and removes the contact of a tenant', async ({ world }) => {
  await createKey(world, 'customer:write', 'reached')
  const contact = async (...args: string[]) => {
    const { code, stdout } = await runKeys(world, 'contact', '--tenant', 'reached', ...args)
    const [row] = await world.sql`select contact_email from tenants where slug = 'reached'`
    const listed = await runKeys(world, 'list', '--tenant', 'reached')
    return [code, stdout, row!['contact_email'], listed.stdout.split('\n')[0]]
  }
  const [set, none] = ['Contact of reached: ops@reached.example', 'Contact of reached: none']
  expect((await runKeys(world, 'list', '--tenant', 'reached')).stdout).toContain(`${none}\n`)
  for (const removal of [['--none'], ['--email', '']]) {
    expect(await contact('--email', 'ops@reached.example')).toEqual([
      0,
      `${set}\n`,
      'ops@reached.example',
      set,
    ])
    expect(await contact(...removal)).toEqual([0, `${none}\n`, null, none])
  }
})

test('the help describes the resources of each scope', async ({ world }) => {
  const { stdout } = await runKeys(world, '--help')
  const helpOf = (scope: string) => stdout.split('\n').find((line) => line.trim().startsWith(`${scope} `))
  const terms: Record<string, string> = {
    timeline: 'timelines',
    reconciliation: 'drifts',
    transactions: 'transactions',
    top_ups: 'top-ups',
    kyc: 'verifications',
    tasks: 'AI tasks',
    fail: 'fail',
    link: 'links',
    decide: 'decide',
    sms: 'SMS',
    webhook_endpoints: 'webhook endpoints',
    webhook_deliveries: 'deliveries',
    webhook_recoveries: 'recoveries',
    rotate_secret: 'secrets',
    stats: 'statistics',
    test_clock: 'test clock',
  }
  const missing = routesOf(await readDocument(world.client)).flatMap(({ path, operation }) => {
    const scope = /Needs the scope `([^`]+)`/.exec(operation.description)?.[1]
    const last = path.split('/').findLast((part) => !part.startsWith('{'))!
    const word = (terms[last] ?? last).replace(/s$/, '')
    return scope === undefined || helpOf(scope)?.includes(word) === true ? [] : [`${scope}: ${word}`]
  })
  expect(missing).toEqual([])
})

test('the command names missing and invalid options', async ({ world }) => {
  await ensureTenant(world.sql, 'mistaken')
  for (const args of [['--help'], ['-h'], [], ['create', '--help']]) {
    const { code, stdout } = await runKeys(world, ...args)
    expect(code).toBe(0)
    expect(stdout).toContain('npm run keys -- create')
    expect(stdout).toContain('customer:write')
  }
  const mistakes: [string[], string][] = [
    [['create'], '--tenant is missing'],
    [['create', '--tenant', 'shop'], '--scopes is missing'],
    [
      ['create', '--tenant', 'Not A Slug', '--scopes', 'all'],
      '--tenant must be 1 to 40 characters: a-z, 0-9 and -',
    ],
    [['create', '--tenant', 'shop', '--scopes', 'customer:wirte'], 'there is no scope "customer:wirte"'],
    [['create', '--tenant', 'shop', '--scopes', ''], '--scopes: name at least one'],
    [['create', '--tenant', 'shop', '--scopes', 'all', '--name', 'x\u001b[2J'], '--name must be one line'],
    ...['soon', '2027', '2099-02-30', '2099-01-01T00:00'].map((expires): [string[], string] => [
      ['create', '--tenant', 'shop', '--scopes', 'all', '--expires', expires],
      '--expires must be a date like 2027-01-01, or a time like 2027-01-01T00:00:00Z',
    ]),
    [
      ['create', '--tenant', 'shop', '--scopes', 'all', '--expires', '2020-01-01'],
      '--expires is in the past',
    ],
    [['rotate', '--tenant', 'shop'], '--id is missing'],
    [['rotate', '--tenant', 'shop', '--id', 'nonsense'], 'There is no such key'],
    [['revoke', '--tenant', 'shop', '--id', 'nonsense'], 'There is no such key'],
    [['rotate', '--tenant', 'shop', '--id', 'x', '--grace', 'soon'], '--grace must be a number of seconds'],
    [['contact', '--tenant', 'mistaken'], 'Give --email or --none'],
    [['contact', '--tenant', 'mistaken', '--none', '--email', 'a@shop.example'], 'exclude each other'],
    ...['ops', 'ops@localhost', 'Ops <ops@shop.example>', ' ops@shop.example', 'ops@shop.example\n'].map(
      (email): [string[], string] => [
        ['contact', '--tenant', 'mistaken', '--email', email],
        '--email must be an email address, without a name',
      ],
    ),
    [['contact', '--tenant', 'nobody', '--none'], 'There is no tenant "nobody"'],
    [['list', '--tenant', 'nobody'], 'There is no tenant "nobody"'],
    [['destroy', '--tenant', 'shop'], 'There is no command "destroy"'],
    [['list', '--tennant', 'shop'], 'There is no option --tennant. See --help.'],
  ]
  await Promise.all(
    mistakes.map(async ([args, message]) => {
      const { code, stdout, stderr } = await runKeys(world, ...args)
      expect([args, code, stdout]).toEqual([args, 1, ''])
      expect(stderr).toContain(message)
      expect(stderr).not.toContain('    at ')
    }),
  )
  const unset = await runHere(keysCommand, ['list', '--tenant', 'shop'])
  expect([unset.code, unset.stderr]).toEqual([
    1,
    expect.stringContaining('No Sluice runs in .data. Start one with npm start, or set DATABASE_URL'),
  ])
  const production = await runHere(keysCommand, ['list', '--tenant', 'shop'], {
    NODE_ENV: 'production',
  })
  expect([production.code, production.stderr]).toEqual([
    1,
    expect.stringMatching(/^DATABASE_URL is not set\. Set it, or DATABASE_URL_FILE, (?!.*npm start)/),
  ])
})
