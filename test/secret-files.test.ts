// Secrets in files: `<NAME>_FILE` names a file, and SIGHUP makes running processes read it again.
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ConfigError, loadConfig } from '#core/config.ts'
import { rereadSecrets } from '#core/config/reread.ts'
import type { VariableName } from '#core/config/variables.ts'
import { createVault } from '#core/secrets.ts'
import { signStripe } from '#emulators/stripe/main.ts'
import { clientSecretContext } from '#domain/payments/sealed.ts'
import { emulatorAddresses } from '#start/emulators.ts'
import { programsOf } from '#start/programs.ts'
import { BY_CARD, freshKey } from '#test/client.ts'
import { runCommand } from '#test/commands.ts'
import { createDeployment } from '#test/deployment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startLoad } from '#test/load.ts'
import { PARTS } from '#test/parts.ts'
import { startProcess, urlIn, type Process } from '#test/process.ts'
import { asUser } from '#test/users.ts'

const KEY = 'sk_test_emulator'
const REREAD = '"new secrets are in use"'

/** A folder that is removed when the test has finished. */
async function createFolder(): Promise<string> {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  return path
}

/** Sends SIGHUP, and resolves with the next log line that contains `text`. */
async function hangUp(process: Process, text: string): Promise<string> {
  const before = process.output().split('\n').length
  process.signal('SIGHUP')
  await expect.poll(() => process.output().split('\n').slice(before).join('\n')).toContain(text)
  return process.output().split('\n').slice(before).join('\n')
}

test('a secret in a file has the value of the file without one line break at its end', async () => {
  const file = join(await createFolder(), 'key')
  for (const [content, value] of [
    ['sk_test_of_file', 'sk_test_of_file'],
    ['sk_test_of_file\n', 'sk_test_of_file'],
    ['sk_test_of_file\r\n', 'sk_test_of_file'],
  ] as const) {
    await writeFile(file, content)
    const config = loadConfig({ STRIPE_SECRET_KEY_FILE: file })
    expect([config.STRIPE_SECRET_KEY, config.secret_files]).toEqual([value, { STRIPE_SECRET_KEY: file }])
  }
  expect(loadConfig({ STRIPE_SECRET_KEY_FILE: '' }).secret_files).toEqual({})
})

test('a file that cannot be used is refused with its variable, its path and the remedy, and without its content', async () => {
  const folder = await createFolder()
  const fileWith = async (name: string, content: string) => {
    await writeFile(join(folder, name), content)
    return join(folder, name)
  }
  await mkdir(join(folder, 'folder'))
  const refusalOf = (env: Record<string, string>) => {
    try {
      loadConfig(env)
    } catch (error) {
      if (error instanceof ConfigError) return error.message
    }
    throw new Error('nothing was refused')
  }
  const cases: [path: string, problem: RegExp][] = [
    [join(folder, 'missing'), / cannot be read \(ENOENT\)\. Create it, or correct the path\.$/],
    [join(folder, 'folder'), / is a folder\. Name the file with the value\.$/],
    ['/dev/null', / is not a file\. Name the file with the value\.$/],
    [await fileWith('empty', ''), / is empty\. Write the value into it\.$/],
    [await fileWith('line', '\n'), / is empty\. Write the value into it\.$/],
    [await fileWith('large', `sk_test_${'x'.repeat(70_000)}`), / is larger than 64 KiB\. Name the file/],
    [
      await fileWith('spaces', ' pk_test_visible'),
      /: the content of \S+ begins or ends with white space\. Example/,
    ],
    [await fileWith('wrong', 'pk_test_visible'), /: the content of \S+ must be a secret or restricted key/],
  ]
  for (const [path, problem] of cases) {
    const refusal = refusalOf({ STRIPE_SECRET_KEY_FILE: path })
    expect(refusal).toMatch(/^The configuration is invalid:\n {2}STRIPE_SECRET_KEY_FILE: /)
    expect([path, refusal]).toEqual([path, expect.stringMatching(problem)])
    expect(refusal).toContain(path)
    expect(refusal).not.toContain('pk_test_visible')
  }
  for (const value of [KEY, 'pk_test_visible'])
    expect(refusalOf({ STRIPE_SECRET_KEY: value, STRIPE_SECRET_KEY_FILE: join(folder, 'missing') })).toBe(
      'The configuration is invalid:\n  STRIPE_SECRET_KEY and STRIPE_SECRET_KEY_FILE are both set. Unset one of them.',
    )
})

test('a list of keys without the key that encrypts now is refused, and texts can still be decrypted', async () => {
  const file = join(await createFolder(), 'keys')
  const [present, next, older] = Array.from({ length: 3 }, () => randomBytes(32).toString('base64'))
  await writeFile(file, `${present},${older}`)
  const config = loadConfig({ ENCRYPTION_KEY_FILE: file })
  const reread = async (keys: string) => {
    await writeFile(file, keys)
    return await rereadSecrets(config, async () => null)
  }
  for (const keys of [next!, `${next},${older}`])
    expect(await reread(keys)).toEqual({
      changed: [],
      need_restart: [],
      problems: [expect.stringMatching(/^ENCRYPTION_KEY_FILE: the new list lacks the key that is first now/)],
    })
  expect(config.ENCRYPTION_KEY).toBe(`${present},${older}`)
  for (const keys of [`${next}, ${present}`, `${next}`])
    expect(await reread(keys)).toMatchObject({ changed: ['ENCRYPTION_KEY'], problems: [] })
})

test('an error of the check of one secret is reported without its value, and the other secrets are read', async () => {
  const folder = await createFolder()
  const files = { STRIPE_SECRET_KEY_FILE: join(folder, 'stripe'), AI_API_KEY_FILE: join(folder, 'ai') }
  await writeFile(files.STRIPE_SECRET_KEY_FILE, KEY)
  await writeFile(files.AI_API_KEY_FILE, 'sk-first')
  const config = loadConfig(files)
  await writeFile(files.STRIPE_SECRET_KEY_FILE, 'sk_test_second')
  await writeFile(files.AI_API_KEY_FILE, 'sk-second')
  const report = await rereadSecrets(config, async (name, value) => {
    if (name === 'STRIPE_SECRET_KEY') throw new Error(`no connection for ${value}`)
    return null
  })
  expect(report).toEqual({
    changed: ['AI_API_KEY'],
    need_restart: [],
    problems: [
      'STRIPE_SECRET_KEY_FILE: the new value could not be checked (no connection for ...). Send SIGHUP again when the cause is removed.',
    ],
  })
  expect([config.STRIPE_SECRET_KEY, config.AI_API_KEY]).toEqual([KEY, 'sk-second'])
})

test('no secret has changed if its file has the same values', async () => {
  const folder = await createFolder()
  const contents: Partial<Record<VariableName, string>> = {
    STRIPE_WEBHOOK_SECRET: 'whsec_first, whsec_second',
    EMAIL_WEBHOOK_SECRET: `whsec_${randomBytes(24).toString('base64')}`,
    DATABASE_URL: 'postgres://127.0.0.1/sluice',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=first,tenant=acme',
  }
  const env: Record<string, string> = {}
  for (const [name, content] of Object.entries(contents)) {
    env[`${name}_FILE`] = join(folder, name)
    await writeFile(join(folder, name), content)
  }
  const report = await rereadSecrets(loadConfig(env), async () => null)
  expect(report).toEqual({ changed: [], need_restart: [], problems: [] })
})

test('npm start gives each part the names of the files that the part reads, and the values of none', async () => {
  const folder = await createFolder()
  const files = { STRIPE_SECRET_KEY: join(folder, 'stripe'), AI_API_KEY: join(folder, 'ai') }
  await writeFile(files.STRIPE_SECRET_KEY, KEY)
  await writeFile(files.AI_API_KEY, 'sk-ai')
  const config = loadConfig({
    DATABASE_URL: 'postgres://127.0.0.1/sluice',
    AI_BASE_URL: 'http://127.0.0.1:1',
    STRIPE_SECRET_KEY_FILE: files.STRIPE_SECRET_KEY,
    AI_API_KEY_FILE: files.AI_API_KEY,
  })
  const place = { port: 1, url: 'http://127.0.0.1:1' }
  const emulators = new Map(emulatorAddresses(config).map(([name]) => [name, place]))
  const programs = programsOf(config, { api: place, webhooks: place, dashboard: place, emulators }, '/data')
  const secretsOf = ({ env }: { env: Record<string, string> }) => [
    env['STRIPE_SECRET_KEY'],
    env['STRIPE_SECRET_KEY_FILE'],
    env['AI_API_KEY'],
    env['AI_API_KEY_FILE'],
  ]
  const by_name = Object.fromEntries(programs.flat().map((program) => [program.name, secretsOf(program)]))
  expect(by_name).toMatchObject({
    worker: ['', files.STRIPE_SECRET_KEY, '', files.AI_API_KEY],
    // The API needs to know only that there is a key.
    api: ['', '', 'set', ''],
    dashboard: ['', '', 'set', ''],
    'webhooks host': ['', '', '', ''],
  })
})

test('a command reads DATABASE_URL from a file', async () => {
  const file = join(await createFolder(), 'url')
  await writeFile(file, 'postgres://127.0.0.1:1/sluice\n')
  const { code, stderr } = await runCommand('src/commands/migrate.ts', [], { DATABASE_URL_FILE: file })
  expect([code, stderr]).toEqual([1, expect.stringContaining('no PostgreSQL answers at 127.0.0.1:1')])
})

test('the Stripe key rotates under load: no call fails, and a key of another account is not used', async () => {
  const file = join(await createFolder(), 'key')
  await writeFile(file, `${KEY}\n`)
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  const stripe = deployment.provider('stripe')
  await deployment.startApi()
  const worker = await deployment.startWorker({ STRIPE_SECRET_KEY: '', STRIPE_SECRET_KEY_FILE: file })
  await expect
    .poll(() => deployment.sql`select from provider_accounts where provider = 'stripe'`)
    .toHaveLength(1)
  const load = startLoad(deployment.client, { clients: 8, pause_ms: 50 })
  await load.untilPaid(8)
  // Stripe accepts both keys until the old one is revoked.
  await stripe.control('POST', '/account', { api_key: `${KEY},sk_test_rolled` })
  await writeFile(file, 'sk_test_rolled\n')
  const log = await hangUp(worker, REREAD)
  expect(log).toContain('"changed":["STRIPE_SECRET_KEY"]')
  await load.untilPaid(8)
  await stripe.control('POST', '/account', { api_key: 'sk_test_rolled' })
  await load.untilPaid(16)

  for (const [content, reason] of [
    ['pk_test_wrong', 'must be a secret or restricted key'],
    ['sk_test_revoked', 'the account of the new key is unknown'],
  ] as const) {
    await writeFile(file, content)
    // This line is the last one of a SIGHUP.
    const refusal = await hangUp(worker, '"no secret has a new value to use; 1 was refused"')
    expect(refusal).toContain(reason)
    expect(refusal).toContain('The previous value stays in use.')
  }
  await stripe.control('POST', '/account', { api_key: 'sk_test_rolled,sk_live_other' })
  await writeFile(file, 'sk_live_other')
  expect(await hangUp(worker, 'The previous value stays in use.')).toContain(
    'the new key is not known to belong to the account and mode of the present one',
  )
  await load.untilPaid(8)
  await load.stop()
  const failed = await deployment.sql`
    select j.name, a.outcome, a.error from all_job_attempts a join jobs j on j.id = a.job_id
    where a.outcome not in ('done', 'returned') and j.name like 'payment%'`
  expect(failed).toEqual([])
  for (const key of ['sk_test_rolled', 'sk_test_revoked', 'sk_live_other', 'pk_test_wrong'])
    expect(deployment.output()).not.toContain(key)
})

test('the webhook secret rotates: no notification is refused', async () => {
  const file = join(await createFolder(), 'secret')
  await writeFile(file, 'whsec_first')
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  const env = { ...deployment.env, STRIPE_WEBHOOK_SECRET: '', STRIPE_WEBHOOK_SECRET_FILE: file }
  const host = await startProcess(PARTS.webhooks.file, {
    env: asUser('webhooks', env),
    ready: PARTS.webhooks.ready,
  })
  onTestFinished(async () => void (await host.end()))
  const url = urlIn(host.ready)

  let secret = 'whsec_first'
  const statuses: number[] = []
  const sender = new AbortController()
  async function sendNotifications(): Promise<void> {
    for (let count = 0; !sender.signal.aborted; count++) {
      const object = { id: 'cus_1', object: 'customer' }
      const event = { id: `evt_${freshKey()}`, object: 'event', type: 'customer.created', data: { object } }
      const body = JSON.stringify({ ...event, created: Math.floor(Date.now() / 1000), count })
      const headers = { 'content-type': 'application/json', 'stripe-signature': signStripe(body, secret) }
      statuses.push((await fetch(`${url}/stripe`, { method: 'POST', body, headers })).status)
    }
  }
  const sending = Promise.all([sendNotifications(), sendNotifications()])
  const untilSent = async (more: number) => {
    const until = statuses.length + more
    await expect.poll(() => statuses.length).toBeGreaterThanOrEqual(until)
  }
  await untilSent(10)
  await writeFile(file, 'whsec_second, whsec_first\n')
  await hangUp(host, REREAD)
  await untilSent(10)
  secret = 'whsec_second'
  await untilSent(10)
  await writeFile(file, 'whsec_second\n')
  await hangUp(host, REREAD)
  await untilSent(10)
  sender.abort()
  await sending
  expect(new Set(statuses)).toEqual(new Set([200]))
  // The first secret is not accepted any more.
  const headers = { 'content-type': 'application/json', 'stripe-signature': signStripe('{}', 'whsec_first') }
  expect((await fetch(`${url}/stripe`, { method: 'POST', body: '{}', headers })).status).toBe(400)

  await writeFile(file, 'secret')
  expect(await hangUp(host, 'The previous value stays in use.')).toContain('must be a signing secret')
  expect(host.output()).not.toMatch(/whsec_(?:first|second)/)
})

test('a new ENCRYPTION_KEY seals after SIGHUP, and the log names a secret that needs a restart', async () => {
  const folder = await createFolder()
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  const old_key = deployment.env['ENCRYPTION_KEY']!
  const new_key = Buffer.alloc(32, 7).toString('base64')
  const files = { ENCRYPTION_KEY: join(folder, 'encryption'), ADDRESS_KEY: join(folder, 'address') }
  await writeFile(files.ENCRYPTION_KEY, old_key)
  await writeFile(files.ADDRESS_KEY, deployment.env['ADDRESS_KEY']!)
  const from_files = {
    ENCRYPTION_KEY: '',
    ADDRESS_KEY: '',
    ENCRYPTION_KEY_FILE: files.ENCRYPTION_KEY,
    ADDRESS_KEY_FILE: files.ADDRESS_KEY,
  }
  const api = await deployment.startApi(from_files)
  const worker = await deployment.startWorker(from_files)
  await writeFile(files.ENCRYPTION_KEY, `${new_key},${old_key}`)
  await writeFile(files.ADDRESS_KEY, new_key)
  for (const process of [api, worker]) {
    const log = await hangUp(process, REREAD)
    expect(log).toContain('"changed":["ENCRYPTION_KEY"]')
    expect(log).toContain('"secrets":["ADDRESS_KEY"]')
    expect(log).not.toContain(new_key)
  }
  const { body } = await deployment.client.post('/v1/payments', {
    ...BY_CARD,
    payment_method: 'pm_card_authenticationRequired',
    return_url: 'https://shop.example.com/back',
    idempotency_key: freshKey(),
    amount_minor: 1200,
  })
  const [row] = await deployment.sql<{ client_secret: string }[]>`
    select client_secret from payments where id = ${body.id}`
  const context = clientSecretContext(deployment.tenant_id, body.id)
  expect(createVault(new_key).open(row!.client_secret, context)).toBe(body.client_secret)
})

test('SIGHUP to a process without secrets in files is logged and changes nothing', async () => {
  const deployment = await createDeployment({ queue: 'redis' })
  onTestFinished(() => deployment.close())
  const api = await deployment.startApi()
  await hangUp(api, 'no secret is in a file, so there is nothing to read again')
  expect((await deployment.client.get('/healthz')).status).toBe(200)
})
