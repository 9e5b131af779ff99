// What adding a noun costs: one is added to a copy of the sources and does all that a noun does; whatever of it is left out is named.
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { createClient, freshKey } from '#test/client.ts'
import { runCommand, type CommandResult } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createKey } from '#test/environment.ts'
import { PARTS, type PartName } from '#test/parts.ts'
import { heldPayment } from '#test/payments.ts'
import { startProcess, until } from '#test/process.ts'
import { deliver, listEvents } from '#test/stripe-events.ts'
import { asUser } from '#test/users.ts'
import { testIn } from '#test/world.ts'
import { patchedCopy, type Patch } from '../torture/copy.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
/** The noun's own files: its migration, job, rows, provider, handler and routes. */
const OWN = join(ROOT, 'test/support/resource')

/** A line after another one, which the file has once. */
const after = (file: string, line: string, added: string): Patch => ({
  file,
  from: `${line}\n`,
  to: `${line}\n${added}\n`,
})

/** All that a noun changes in files that are there. */
const ENTRIES = {
  'the index of jobs': [
    after(
      'src/jobs/index.ts',
      "import { refundJobs } from './refunds.ts'",
      "import { parcelJobs } from './parcels.ts'",
    ),
    { file: 'src/jobs/index.ts', from: '...refundJobs,', to: '...refundJobs, ...parcelJobs,' },
  ],
  'the index of handlers': [
    after(
      'src/workers/handlers/index.ts',
      "import { refundHandlers } from './refunds/jobs.ts'",
      "import { parcelHandlers } from './parcels/jobs.ts'",
    ),
    after('src/workers/handlers/index.ts', '  ...refundHandlers,', '  ...parcelHandlers,'),
  ],
  'the index of routes': [
    after(
      'src/api/routes/index.ts',
      "import { refundRoutes } from './refunds.ts'",
      "import { parcelRoutes } from './parcels.ts'",
    ),
    after('src/api/routes/index.ts', '  refundRoutes,', '  parcelRoutes,'),
  ],
  'what settles it as failed': [
    after(
      'src/domain/interventions/index.ts',
      "import { settleRefundAsFailed } from '../refunds/settle.ts'",
      "import { settleParcelAsFailed } from '../parcels/settle.ts'",
    ),
    after(
      'src/domain/interventions/index.ts',
      '  refund: settleRefundAsFailed,',
      '  parcel: settleParcelAsFailed,',
    ),
  ],
  'its subject, with its view and events': [
    after(
      'src/domain/resources.ts',
      "import { MERCHANT_EVENTS, merchantSchema } from './merchants/merchant.ts'",
      "import { parcelResource } from './parcels/resource.ts'",
    ),
    after('src/domain/resources.ts', '  refund: refundResource,', '  parcel: parcelResource,'),
  ],
  'the handler of its provider events': [
    after(
      'src/workers/handlers/notifications/jobs.ts',
      "import { notificationEffects, finish } from './parked.ts'",
      "import { parcelEvent } from '../parcels/events.ts'",
    ),
    {
      file: 'src/workers/handlers/notifications/jobs.ts',
      from: '  refund: refundEvent,\n',
      to: '  refund: refundEvent,\n  parcel: parcelEvent,\n',
    },
  ],
  'its refusals': [
    after(
      'src/core/errors.ts',
      "  refund_not_found: [404, 'Refund not found.'],",
      "  parcel_not_found: [404, 'Parcel not found.'],",
    ),
  ],
  'the rights on its table': [
    after(
      'migrations/roles.sql',
      "    ('sluice_api', 'erasures', 'insert (tenant_id, customer_id)'),",
      "    ('sluice_api', 'parcels', 'select, insert (tenant_id, id, idempotency_key, address)'),\n    ('sluice_worker', 'parcels', 'select, update (status, tracking, updated_at)'),",
    ),
  ],
  'what the webhooks host may read of it': [
    after(
      'migrations/roles.sql',
      '    -- To recognize redundant notifications.',
      "    ('sluice_webhooks', 'parcels', 'select (tenant_id, id, carrier, tracking, status)'),",
    ),
  ],
  'an area that is new': [
    after(
      'src/domain/areas.ts',
      'const DEFINITIONS = {',
      `  parcels: {
    paths: ['/v1/parcels'],
    tags: { parcels: 'What is sent.' },
    scopes: { 'parcels:read': 'read parcels', 'parcels:write': 'send parcels' },
  },`,
    ),
  ],
  'a provider that is new': [
    after(
      'src/providers/configured.ts',
      "import { stripeProcessor } from './stripe/payments.ts'",
      "import { openCarrier } from './carrier.ts'",
    ),
    after(
      'src/providers/configured.ts',
      'const PROVIDERS = {',
      `  carrier: {
    provider: 'carrier',
    queues: ['payments', 'notifications'],
    open: (config: Config, onCall: OnCall) => openCarrier({ url: requireVariable(config, 'CARRIER_URL'), onCall }),
  },`,
    ),
  ],
  'the variables of that': [
    after(
      'src/core/config/variables.ts',
      'export const VARIABLES = {',
      "  CARRIER_URL: [baseUrl.optional(), 'https://carrier.example.com', 'the carrier', ['worker'], ['worker']],",
    ),
  ],
} satisfies Record<string, Patch[]>
type Entry = keyof typeof ENTRIES

/** The sources with the noun, but for some of what it needs. */
async function copyWithout(...left_out: Entry[]): Promise<string> {
  const entries = Object.entries(ENTRIES).filter(([name]) => !left_out.includes(name as Entry))
  const { path, remove } = await patchedCopy(
    ROOT,
    entries.flatMap(([, patches]) => patches),
  )
  onTestFinished(remove)
  await cp(OWN, path, { recursive: true })
  for (const file of ['tsconfig.json', 'knip.json']) await cp(join(ROOT, file), join(path, file))
  return path
}

/** Runs a program of node_modules there. */
const check = async (path: string, program: string, ...args: string[]): Promise<CommandResult> =>
  await runCommand(join(path, 'node_modules', program), args, {}, path)
const typecheck = (path: string) => check(path, 'typescript/bin/tsc', '--noEmit', '--singleThreaded')

const test = testIn({ parts: [] })

/** A carrier that hangs up on the first call under each key, after it took the parcel; `silent`, it answers no call. It shows nothing. */
async function startCarrier(): Promise<{ url: string; keys: string[]; silent: boolean }> {
  const keys: string[] = []
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key'])
    if (request.method === 'GET') response.writeHead(404).end('{}')
    else keys.push(key)
    if (request.method === 'GET' || carrier.silent) return
    if (keys.filter((each) => each === key).length === 1) request.socket.destroy()
    else response.writeHead(200, { 'content-type': 'application/json' }).end(`{"tracking":"T-${key}"}`)
  })
  server.listen(0, '127.0.0.1')
  await until('the carrier listens', () => server.listening)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const carrier = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys, silent: false }
  return carrier
}

test(
  'its own files, a line in each of five indexes and its entries are enough',
  { timeout: 180_000 },
  async ({ world }) => {
    const path = await copyWithout()
    const carrier = await startCarrier()
    const run = (file: string, ...args: string[]) => runCommand(join(path, file), args, world.env, path)
    expect(await run('src/commands/migrate.ts')).toMatchObject({
      code: 0,
      stdout: 'Applied 0900_parcels.sql.\n',
    })
    const env = { ...world.env, LOG_LEVEL: 'info', RECONCILE_EVERY_S: '1', CARRIER_URL: carrier.url }
    const start = async (name: PartName) => {
      const { file, ready } = PARTS[name]
      const process = await startProcess(file, { root: path, env: asUser(name, env), ready })
      onTestFinished(async () => void (await process.end()))
      return process
    }
    const [api, worker, host] = await Promise.all([start('api'), start('worker'), start('webhooks')])
    const { url } = JSON.parse(api.ready) as { url: string }
    const scopes = [...SCOPES, 'parcels:read', 'parcels:write'] as Scope[]
    const client = createClient(url, (await createKey(world.sql, 'acme', scopes)).secret)
    const body = { idempotency_key: freshKey(), address: '12 St James Square' }
    const another = () => ({ ...body, idempotency_key: freshKey() })

    // It waits only if it is asked to.
    const created = await client.post('/v1/parcels', body)
    expect([created.status, created.body.status]).toEqual([201, 'pending'])
    const place = `/v1/parcels/${created.body.id}`
    const shipped = await until('it is shipped', async () => {
      const parcel = (await client.get(place)).body
      return parcel.status === 'shipped' && parcel
    })
    const [key] = carrier.keys
    expect([carrier.keys, shipped.tracking]).toEqual([[key, key], `T-${key}`])
    const waited = await client.post('/v1/parcels', another(), { prefer: 'wait=30' })
    expect([waited.status, waited.body.status]).toEqual([201, 'shipped'])

    const replayed = await client.post('/v1/parcels', body)
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(replayed.body).toEqual(shipped)
    expect((await client.get(`/v1/idempotency_keys/${body.idempotency_key}`)).body).toMatchObject([
      { resource: 'parcel', resource_id: shipped.id, status: 'finished' },
    ])
    const timeline = (await client.get(`${place}/timeline`)).body as Record<string, unknown>[]
    expect(timeline.map(({ kind, name, outcome }) => [kind, name, outcome])).toEqual([
      ['attempt', 'parcel.ship', 'ambiguous'],
      ['provider_call', 'ship', 'done'],
      ['attempt', 'parcel.ship', 'done'],
      ['event', 'parcel.shipped', null],
    ])
    const events = await world.sql`select type, data from events where subject_id = ${shipped.id}`
    expect(events).toMatchObject([{ type: 'parcel.shipped', data: { id: shipped.id, status: 'shipped' } }])
    const { webhooks, paths } = (await client.get('/openapi.json')).body
    expect(webhooks['parcel.shipped'].post.tags).toEqual(['parcels'])
    expect(paths['/v1/parcels'].post.description).toContain('does not wait')
    const missing = await client.get(`/v1/parcels/${world.tenant_id}`)
    expect([missing.status, missing.body.error.code]).toEqual([404, 'parcel_not_found'])

    // What it compares with events of its own is none of the payments' business.
    const { processor_reference } = await heldPayment(client)
    const there = { ...world, config: { ...world.config, WEBHOOKS_URL: JSON.parse(host.ready).url } }
    const told = await listEvents(world, processor_reference)
    expect(told.length).toBeGreaterThan(0)
    for (const event of told) expect((await deliver(there, event)).status).toBe(200)

    // One that nothing works on is found by the audit, and looked up by the reconciler.
    const [forgotten] = await world.sql<{ id: string }[]>`
      insert into parcels (tenant_id, id, idempotency_key, address, tracking, updated_at)
      values (${world.tenant_id}, gen_random_uuid(), 'forgotten', 'nowhere', 'T-0', now() - interval '1 hour')
      returning id`
    const audit = await run('src/commands/audit.ts', '--json')
    expect(JSON.parse(audit.stdout)).toMatchObject({
      problems: [
        { check: 'in_flight', problem: 'a parcel is in progress without an open job', id: forgotten!.id },
      ],
    })
    const drifts = async () => (await client.get('/v1/reconciliation?subject=parcel')).body as unknown[]
    expect(
      await until('its drift is open', async () => ((await drifts()).length > 0 ? drifts() : false)),
    ).toMatchObject([
      {
        subject_id: forgotten!.id,
        payment_id: null,
        state: 'stale',
        ours: { status: 'pending', tracking: 'T-0' },
        theirs: null,
        detail: 'the carrier has no record of the parcel',
      },
    ])

    // A carrier that keeps no keys is never called twice, and is given up after the job's own deadline.
    await worker.end()
    const definition = join(path, 'src/jobs/parcels.ts')
    const keyless = (await readFile(definition, 'utf8'))
      .replace("on_ambiguous: 'resend_same_key'", "on_ambiguous: 'lookup'")
      .replace('deadline_ms: 15_000', 'deadline_ms: 300')
    await writeFile(definition, keyless)
    await start('worker')
    carrier.silent = true
    const lost = (await client.post('/v1/parcels', another())).body
    const attempts = await until('nobody knows whether it was shipped', async () => {
      const rows = await world.sql`
        select j.id, j.state, a.outcome, a.error ->> 'message' as error from jobs j
        join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id
        where j.tenant_id = ${world.tenant_id} and j.subject_id = ${lost.id} order by a.attempt`
      return rows.length >= 2 && rows
    })
    expect(attempts).toMatchObject([
      { state: 'unknown', outcome: 'ambiguous', error: 'no answer within 300 ms' },
      { outcome: 'unknown', error: 'the carrier cannot be queried for the parcel' },
    ])
    expect(carrier.keys).toHaveLength(5)
    // An operator knows.
    await until('that is a drift', async () => (await drifts()).length === 2)
    const job_id = attempts[0]!['id'] as string
    expect(
      await run('src/commands/jobs.ts', 'resolve', job_id, '--as', 'failed', '--reason', 'they said so'),
    ).toMatchObject({ code: 0 })
    expect((await client.get(`/v1/parcels/${lost.id}`)).body.status).toBe('refused')

    // Without the rights on its table, as a migration leaves it that does not know them.
    expect(await runCommand('src/commands/migrate.ts', [], world.env)).toMatchObject({ code: 0 })
    expect((await client.post('/v1/parcels', another())).status).toBe(500)
    await api.waitForLine('permission denied for table parcels')
    await host.end()
    const refused = await startProcess(PARTS.webhooks.file, { root: path, env: asUser('webhooks', env) })
    expect(await refused.ended).toMatchObject({ code: 1 })
    expect(refused.output()).toContain('permission denied for table parcels')
  },
)

test('docs/architecture.md names each file that a noun adds or changes', async () => {
  const text = await readFile(join(ROOT, 'docs/architecture.md'), 'utf8')
  const own = (await readdir(OWN, { recursive: true })).filter((file) => /\.(?:ts|sql)$/.test(file))
  const files = [
    ...own.filter((file) => file !== 'src/providers/carrier.ts').map((file) => file.replace('0900', 'NNNN')),
    ...Object.values(ENTRIES).flatMap((patches) => patches.map(({ file }) => file)),
  ]
  expect(files.filter((file) => !text.includes(`\`${file}\``))).toEqual([])
})

test('whatever is left out is named', { timeout: 180_000 }, async () => {
  const [most, rest] = await Promise.all([
    copyWithout(
      'the index of jobs',
      'the index of routes',
      'its subject, with its view and events',
      'its refusals',
      'an area that is new',
      'a provider that is new',
    ),
    copyWithout(
      'the index of handlers',
      'what settles it as failed',
      'the handler of its provider events',
      'the variables of that',
    ),
  ])
  await rm(join(most, 'migrations/0900_parcels.sql'))
  await rm(join(most, 'src/domain/parcels/find.ts'))
  const subject = join(rest, 'src/domain/parcels/resource.ts')
  await writeFile(subject, (await readFile(subject, 'utf8')).replace(/^ {2}under_way: .*\n/m, ''))
  const database = await createDatabase()
  onTestFinished(database.drop)
  const [types, rest_of_types, unused, migrated] = await Promise.all([
    typecheck(most),
    typecheck(rest),
    check(most, 'knip/bin/knip.js', '--no-config-hints'),
    runCommand(
      join(most, 'src/commands/migrate.ts'),
      [],
      { DATABASE_URL: database.url, QUEUE: 'redis' },
      most,
    ),
  ])
  for (const [left_out, { code, stdout, stderr }, named] of [
    ['the index of jobs', types, /handlers\/parcels\/jobs\.ts.*"parcel\.ship"/],
    ['the index of handlers', rest_of_types, /handlers\/index\.ts.*'"parcel\.ship"' is missing/],
    ['what settles it as failed', rest_of_types, /interventions\/index\.ts.*'parcel'/],
    ['which of its rows are under way', rest_of_types, /parcels\/resource\.ts[^]*'under_way' is missing/],
    ['the handler of its provider events', rest_of_types, /handlers\/notifications\/jobs\.ts.*'parcel'/],
    ['the index of routes', unused, /api\/routes\/parcels\.ts/],
    ['its subject', types, /parcels\/request\.ts.*'"parcel"'/],
    ['its events', types, /parcels\/settle\.ts.*'"parcel\.shipped"'/],
    ['its refusals', types, /routes\/parcels\/read\.ts.*'"parcel_not_found"'/],
    ['an area that is new', types, /routes\/parcels\/create\.ts.*'"parcels"'/],
    ['a provider that is new', types, /handlers\/parcels\/\w+\.ts.*'carrier'/],
    ['the variables of that', rest_of_types, /providers\/configured\.ts.*'"CARRIER_URL"'/],
    ['one of its files', types, /routes\/parcels\.ts.*domain\/parcels\/find\.ts/],
    ['its migration', migrated, /relation "\w+\.parcels" does not exist/],
  ] as [string, CommandResult, RegExp][]) {
    expect([left_out, code]).not.toEqual([left_out, 0])
    expect(stdout + stderr, left_out).toMatch(named)
  }
  // With those it compiles: nothing else is needed.
  const wrong = Array.from(rest_of_types.stdout.matchAll(/^(\S+)\(.*error TS/gm), ([, file]) => file)
  expect(new Set(wrong)).toEqual(
    new Set([
      'src/domain/interventions/index.ts',
      'src/domain/parcels/resource.ts',
      'src/domain/resources.ts',
      'src/providers/configured.ts',
      'src/workers/handlers/index.ts',
      'src/workers/handlers/notifications/jobs.ts',
    ]),
  )
})
