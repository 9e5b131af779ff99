// Adding a resource: a copy of the sources receives a resource with every feature, and the checks name each omitted
// part.
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { startCarrier } from '#test/carrier.ts'
import { createClient, freshKey } from '#test/client.ts'
import { runCommand, type CommandResult } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createKey } from '#test/environment.ts'
import { PARTS, type PartName } from '#test/parts.ts'
import { authorizedPayment } from '#test/payments.ts'
import { startProcess, until, urlIn } from '#test/process.ts'
import { deliver, listEvents } from '#test/stripe-events.ts'
import { asUser } from '#test/users.ts'
import { testIn } from '#test/world.ts'
import { patchedCopy, type Patch } from '../torture/copy.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
/** The resource's own files: migration, job, rows, provider, handler and routes. */
const RESOURCE_FILES = join(ROOT, 'test/support/resource')

/** Inserts a line after a line that the file contains once. */
const insertAfter = (file: string, line: string, added: string): Patch => ({
  file,
  from: `${line}\n`,
  to: `${line}\n${added}\n`,
})

/** The changes that a resource needs in existing files. */
const ENTRIES = {
  'the index of jobs': [
    insertAfter(
      'src/jobs/index.ts',
      "import { refundJobs } from './refunds.ts'",
      "import { parcelJobs } from './parcels.ts'",
    ),
    { file: 'src/jobs/index.ts', from: '...refundJobs,', to: '...refundJobs, ...parcelJobs,' },
  ],
  'the index of handlers': [
    insertAfter(
      'src/workers/handlers/index.ts',
      "import { refundHandlers } from './refunds/jobs.ts'",
      "import { parcelHandlers } from './parcels/jobs.ts'",
    ),
    insertAfter('src/workers/handlers/index.ts', '  ...refundHandlers,', '  ...parcelHandlers,'),
  ],
  'the index of routes': [
    insertAfter(
      'src/api/routes/index.ts',
      "import { refundRoutes } from './refunds.ts'",
      "import { parcelRoutes } from './parcels.ts'",
    ),
    insertAfter('src/api/routes/index.ts', '  refundRoutes,', '  parcelRoutes,'),
  ],
  'its settling as failed': [
    insertAfter(
      'src/domain/job-acts/settle-as-failed.ts',
      "import { settleRefundAsFailed } from '../refunds/settle.ts'",
      "import { settleParcelAsFailed } from '../parcels/settle.ts'",
    ),
    insertAfter(
      'src/domain/job-acts/settle-as-failed.ts',
      '  refund: settleRefundAsFailed,',
      '  parcel: settleParcelAsFailed,',
    ),
  ],
  'its resource definition, with view and events': [
    insertAfter(
      'src/domain/resources.ts',
      "import { MERCHANT_EVENTS, merchantSchema } from './merchants/merchant.ts'",
      "import { parcelResource } from './parcels/resource.ts'",
    ),
    insertAfter('src/domain/resources.ts', '  refund: refundResource,', '  parcel: parcelResource,'),
  ],
  'the handler of its provider events': [
    insertAfter(
      'src/workers/handlers/notifications/jobs.ts',
      "import { notificationEffects, finish, retryQuery } from './parked.ts'",
      "import { parcelEvent } from '../parcels/events.ts'",
    ),
    {
      file: 'src/workers/handlers/notifications/jobs.ts',
      from: '  refund: refundEvent,\n',
      to: '  refund: refundEvent,\n  parcel: parcelEvent,\n',
    },
  ],
  'its refusals': [
    insertAfter(
      'src/core/errors.ts',
      "  refund_not_found: [404, 'Refund not found.'],",
      "  parcel_not_found: [404, 'Parcel not found.'],\n  parcel_refused: [422, 'The carrier refused the parcel.'],",
    ),
  ],
  "its provider's refusal": [
    insertAfter('src/core/outcome.ts', "    | 'payout_refused'", "    | 'parcel_refused'"),
  ],
  'the rights on its table': [
    insertAfter(
      'migrations/roles.sql',
      "    ('sluice_api', 'erasures', 'insert (tenant_id, customer_id)'),",
      "    ('sluice_api', 'parcels', 'select, insert (tenant_id, id, idempotency_key, address)'),\n    ('sluice_worker', 'parcels', 'select, update (status, tracking, updated_at)'),",
    ),
  ],
  'the rights of the webhooks host': [
    insertAfter(
      'migrations/roles.sql',
      '    -- To recognize redundant notifications.',
      "    ('sluice_webhooks', 'parcels', 'select (tenant_id, id, carrier, tracking, status)'),",
    ),
  ],
  'a new area': [
    insertAfter(
      'src/domain/areas.ts',
      'const DEFINITIONS = {',
      `  parcels: {
    paths: ['/v1/parcels'],
    tags: { parcels: 'Parcels to customers.' },
    scopes: { 'parcels:read': 'read parcels', 'parcels:write': 'send parcels' },
  },`,
    ),
  ],
  'a new provider': [
    insertAfter(
      'src/providers/configured.ts',
      "import { stripeProcessor } from './stripe/payments.ts'",
      "import { openCarrier } from './carrier.ts'",
    ),
    insertAfter(
      'src/providers/configured.ts',
      'const PROVIDERS = {',
      `  carrier: {
    provider: 'carrier',
    queues: ['payments', 'notifications'],
    open: (config: Config, onCall: OnCall) => openCarrier({ url: requireVariable(config, 'CARRIER_URL'), onCall }),
    open_test: noTestProvider,
  },`,
    ),
  ],
  "the titles of its provider's operations": [
    insertAfter(
      'src/core/config/providers.ts',
      'const OPERATION_TITLES = {',
      `  ship: 'parcels',
  find_parcel: 'lookups of parcels',
  search_parcel: 'searches for parcels',`,
    ),
  ],
  'the variables of the new provider': [
    insertAfter(
      'src/core/config/variables.ts',
      'export const VARIABLES = {',
      "  CARRIER_URL: [baseUrl.optional(), 'https://carrier.example.com', 'the carrier', ['worker'], ['worker']],",
    ),
  ],
} satisfies Record<string, Patch[]>
type Entry = keyof typeof ENTRIES

/** A copy of the sources with the resource, except the omitted entries. */
async function copyWithout(...omitted: Entry[]): Promise<string> {
  const entries = Object.entries(ENTRIES).filter(([name]) => !omitted.includes(name as Entry))
  const { path, remove } = await patchedCopy(
    ROOT,
    entries.flatMap(([, patches]) => patches),
  )
  onTestFinished(remove)
  await cp(RESOURCE_FILES, path, { recursive: true })
  for (const file of ['tsconfig.json', 'knip.json']) await cp(join(ROOT, file), join(path, file))
  return path
}

/** Runs a program of node_modules in the folder. */
const check = async (path: string, program: string, ...args: string[]): Promise<CommandResult> =>
  await runCommand(join(path, 'node_modules', program), args, {}, path)
const typecheck = (path: string) => check(path, 'typescript/bin/tsc', '--noEmit', '--singleThreaded')

const test = testIn({ parts: [] })

test('a resource needs only its own files and the listed changes in existing files', async ({ world }) => {
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
  const url = urlIn(api.ready)
  const scopes = [...SCOPES, 'parcels:read', 'parcels:write'] as Scope[]
  const client = createClient(url, (await createKey(world.sql, 'acme', scopes)).secret)
  const body = { idempotency_key: freshKey(), address: '12 St James Square' }
  const anotherBody = () => ({ ...body, idempotency_key: freshKey() })

  // The request waits for its outcome only with a Prefer header.
  const created = await client.post('/v1/parcels', body)
  expect([created.status, created.body.status]).toEqual([201, 'pending'])
  const path_of_parcel = `/v1/parcels/${created.body.id}`
  const shipped = await until('the parcel is shipped', async () => {
    const parcel = (await client.get(path_of_parcel)).body
    return parcel.status === 'shipped' && parcel
  })
  const [key] = carrier.keys
  expect([carrier.keys, shipped.tracking]).toEqual([[key, key], `T-${key}`])
  const waited = await client.post('/v1/parcels', anotherBody(), { prefer: 'wait=30' })
  expect([waited.status, waited.body.status]).toEqual([201, 'shipped'])

  const replayed = await client.post('/v1/parcels', body)
  expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
  expect(replayed.body).toEqual(shipped)
  expect((await client.get(`/v1/idempotency_keys/${body.idempotency_key}`)).body).toMatchObject([
    { resource: 'parcel', resource_id: shipped.id, status: 'finished' },
  ])
  const timeline = (await client.get(`${path_of_parcel}/timeline`)).body as Record<string, unknown>[]
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

  // The new resource's event handler ignores events of payments.
  const { processor_reference } = await authorizedPayment(client)
  const patched_world = { ...world, config: { ...world.config, WEBHOOKS_URL: urlIn(host.ready) } }
  const payment_events = await listEvents(world, processor_reference)
  expect(payment_events.length).toBeGreaterThan(0)
  for (const event of payment_events) expect((await deliver(patched_world, event)).status).toBe(200)

  // The audit finds a parcel without a job, and the reconciler looks it up.
  const [stalled] = await world.sql<{ id: string }[]>`
      insert into parcels (tenant_id, id, idempotency_key, address, tracking, updated_at)
      values (${world.tenant_id}, gen_random_uuid(), 'stalled', 'nowhere', 'T-0', now() - interval '1 hour')
      returning id`
  const audit = await run('src/commands/audit.ts', '--json')
  expect(JSON.parse(audit.stdout)).toMatchObject({
    problems: [
      { check: 'in_flight', problem: 'a parcel is in progress without an open job', id: stalled!.id },
    ],
  })
  const drifts = async () => (await client.get('/v1/reconciliation?subject=parcel')).body as unknown[]
  expect(
    await until('the drift is open', async () => ((await drifts()).length > 0 ? drifts() : false)),
  ).toMatchObject([
    {
      subject_id: stalled!.id,
      payment_id: null,
      state: 'stale',
      ours: { status: 'pending', tracking: 'T-0' },
      theirs: null,
      detail: 'the carrier has no record of the parcel',
    },
  ])

  // The first attempt is in doubt and its repeat is declined. The refusal does not settle the parcel: the carrier's
  // list decides whether it was shipped.
  carrier.behavior = 'refuses_repeats'
  carrier.hides_parcels = true
  const in_doubt = (await client.post('/v1/parcels', anotherBody())).body
  const attemptsOf = (id: string) => world.sql`
      select j.id, j.state, a.outcome, a.error ->> 'message' as error from jobs j
      join job_attempts a on a.tenant_id = j.tenant_id and a.job_id = j.id
      where j.tenant_id = ${world.tenant_id} and j.resource_id = ${id} order by a.attempt`
  const path_in_doubt = `/v1/parcels/${in_doubt.id}`
  const declined = await until('the repeat is declined', async () => {
    const attempts = await attemptsOf(in_doubt.id)
    const { status } = (await client.get(path_in_doubt)).body
    return (attempts.length >= 2 || status !== 'pending') && { attempts, status }
  })
  expect(declined.status).toBe('pending')
  expect(declined.attempts).toMatchObject([
    { state: 'ready', outcome: 'ambiguous' },
    { outcome: 'retry', error: 'The carrier does not go there.' },
  ])
  carrier.hides_parcels = false
  const settled = await until('the parcel is found', async () => {
    const parcel = (await client.get(path_in_doubt)).body
    return parcel.status !== 'pending' && parcel
  })
  expect([settled.status, settled.tracking]).toEqual(['shipped', `T-${carrier.keys.at(-1)}`])

  // A carrier without idempotency keys is called once. The call ends at the deadline that the job defines.
  await worker.end()
  const definition = join(path, 'src/jobs/parcels.ts')
  const keyless = (await readFile(definition, 'utf8'))
    .replace("on_ambiguous: 'resend_same_key'", "on_ambiguous: 'lookup'")
    .replace('deadline_ms: 15_000', 'deadline_ms: 300')
  await writeFile(definition, keyless)
  await start('worker')
  carrier.behavior = 'silent'
  const calls_before = carrier.keys.length
  const lost = (await client.post('/v1/parcels', anotherBody())).body
  const attempts = await until('the outcome of the parcel is unknown', async () => {
    const rows = await attemptsOf(lost.id)
    return rows.length >= 2 && rows
  })
  expect(attempts).toMatchObject([
    { state: 'unknown', outcome: 'ambiguous', error: 'no answer within 300 ms' },
    { outcome: 'unknown', error: 'the provider does not list the object yet' },
  ])
  expect(carrier.keys).toHaveLength(calls_before + 1)
  // An operator resolves the job.
  await until('the second drift is open', async () => (await drifts()).length === 2)
  const job_id = attempts[0]!['id'] as string
  expect(
    await run('src/commands/jobs.ts', 'resolve', job_id, '--as', 'failed', '--reason', 'they said so'),
  ).toMatchObject({ code: 0 })
  expect((await client.get(`/v1/parcels/${lost.id}`)).body.status).toBe('refused')

  // A migration of the original sources removes the rights on the new table.
  expect(await runCommand('src/commands/migrate.ts', [], world.env)).toMatchObject({ code: 0 })
  expect((await client.post('/v1/parcels', anotherBody())).status).toBe(500)
  await api.waitForLine('permission denied for table parcels')
  await host.end()
  const refused = await startProcess(PARTS.webhooks.file, { root: path, env: asUser('webhooks', env) })
  expect(await refused.ended).toMatchObject({ code: 1 })
  expect(refused.output()).toContain('permission denied for table parcels')
})

test('docs/architecture.md names each file that a resource adds or changes', async () => {
  const text = await readFile(join(ROOT, 'docs/architecture.md'), 'utf8')
  const resource_files = (await readdir(RESOURCE_FILES, { recursive: true })).filter((file) =>
    /\.(?:ts|sql)$/.test(file),
  )
  const files = [
    ...resource_files
      .filter((file) => file !== 'src/providers/carrier.ts')
      .map((file) => file.replace('0900', 'NNNN')),
    ...Object.values(ENTRIES).flatMap((patches) => patches.map(({ file }) => file)),
  ]
  expect(files.filter((file) => !text.includes(`\`${file}\``))).toEqual([])
})

test('the checks name each omitted part', async () => {
  const [first_copy, second_copy] = await Promise.all([
    copyWithout(
      'the index of jobs',
      'the index of routes',
      'its resource definition, with view and events',
      'its refusals',
      "its provider's refusal",
      'a new area',
      'a new provider',
    ),
    copyWithout(
      'the index of handlers',
      'its settling as failed',
      'the handler of its provider events',
      'the variables of the new provider',
    ),
  ])
  await rm(join(first_copy, 'migrations/0900_parcels.sql'))
  await rm(join(first_copy, 'src/domain/parcels/find.ts'))
  const definition = join(second_copy, 'src/domain/parcels/resource.ts')
  await writeFile(definition, (await readFile(definition, 'utf8')).replace(/^ {2}under_way: .*\n/m, ''))
  const database = await createDatabase()
  onTestFinished(database.drop)
  // This part is omitted in a copy of its own, because its type errors hide those of other parts. Only the two files
  // that use the titles are checked.
  const third_copy = await copyWithout("the titles of its provider's operations")
  const tsconfig = join(third_copy, 'tsconfig.json')
  const { compilerOptions } = JSON.parse(await readFile(tsconfig, 'utf8')) as { compilerOptions: object }
  const files = ['src/jobs/parcels.ts', 'src/providers/carrier.ts']
  await writeFile(tsconfig, JSON.stringify({ compilerOptions, files }))
  const types_of_third = await typecheck(third_copy)
  const [types, types_of_second, unused, migration] = await Promise.all([
    typecheck(first_copy),
    typecheck(second_copy),
    check(first_copy, 'knip/bin/knip.js', '--no-config-hints'),
    runCommand(
      join(first_copy, 'src/commands/migrate.ts'),
      [],
      { DATABASE_URL: database.url, QUEUE: 'redis' },
      first_copy,
    ),
  ])
  for (const [omitted, { code, stdout, stderr }, report] of [
    ['the index of jobs', types, /handlers\/parcels\/jobs\.ts.*"parcel\.ship"/],
    ['the index of handlers', types_of_second, /handlers\/index\.ts.*'"parcel\.ship"' is missing/],
    ['its settling as failed', types_of_second, /job-acts\/settle-as-failed\.ts.*'parcel'/],
    ['its statuses in progress', types_of_second, /parcels\/resource\.ts[^]*'under_way' is missing/],
    ['the handler of its provider events', types_of_second, /handlers\/notifications\/jobs\.ts.*'parcel'/],
    ['the index of routes', unused, /api\/routes\/parcels\.ts/],
    ['its resource definition', types, /parcels\/request\.ts.*'"parcel"'/],
    ['its events', types, /parcels\/settle\.ts.*'"parcel\.shipped"'/],
    ['its refusals', types, /routes\/parcels\/read\.ts.*'"parcel_not_found"'/],
    ["its provider's refusal", types, /providers\/carrier\.ts[^]*'"parcel_refused"'/],
    ['a new area', types, /routes\/parcels\/create\.ts.*'"parcels"'/],
    ['a new provider', types, /handlers\/parcels\/\w+\.ts.*'carrier'/],
    ['the variables of the new provider', types_of_second, /providers\/configured\.ts.*'"CARRIER_URL"'/],
    ["the title of its call's operation", types_of_third, /jobs\/parcels\.ts.*'"ship"'/],
    ["the titles of its provider's lookups", types_of_third, /providers\/carrier\.ts.*'"find_parcel"'/],
    ['one of its files', types, /routes\/parcels\.ts.*domain\/parcels\/find\.ts/],
    ['its migration', migration, /relation "\w+\.parcels" does not exist/],
  ] as [string, CommandResult, RegExp][]) {
    expect([omitted, code]).not.toEqual([omitted, 0])
    expect(stdout + stderr, omitted).toMatch(report)
  }
  // No other file has an error, so nothing else is missing.
  const files_with_errors = Array.from(
    types_of_second.stdout.matchAll(/^(\S+)\(.*error TS/gm),
    ([, file]) => file,
  )
  expect(new Set(files_with_errors)).toEqual(
    new Set([
      'src/domain/job-acts/settle-as-failed.ts',
      'src/domain/parcels/resource.ts',
      'src/domain/resources.ts',
      'src/providers/configured.ts',
      'src/workers/handlers/index.ts',
      'src/workers/handlers/notifications/jobs.ts',
    ]),
  )
})
