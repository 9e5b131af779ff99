// The configuration of a process: an invalid variable is reported by name, with an example.
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { auditCommand } from '#commands/audit.ts'
import { jobsCommand } from '#commands/jobs.ts'
import { keysCommand } from '#commands/keys.ts'
import { loadConfig, requireVariables } from '#core/config.ts'
import { variables } from '#core/config/help.ts'
import { QUEUES } from '#core/config/queues.ts'
import { isReadBy } from '#core/config/readers.ts'
import { SECRET_NAMES } from '#core/config/secret-files.ts'
import { VARIABLES } from '#core/config/variables.ts'
import { createLog } from '#core/log.ts'
import { runCommand, runHere } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startErrorOf, type PartName } from '#test/parts.ts'
import { testIn } from '#test/world.ts'
import { buildWebhooks } from '#webhooks/app.ts'
import type { WebhooksContext } from '#webhooks/context.ts'

/** The environment variables of a process. */
let env: Record<string, string>

const test = testIn({ parts: [] })
test.beforeAll(async ({ world }) => {
  env = { ...world.env, WEBHOOKS_PORT: '0', LOG_LEVEL: 'silent' }
})

test('the worker and the API read the same variables about senders of email', () => {
  for (const name of ['EMAIL_FROM', 'EMAIL_FROM_DOMAINS', 'SYSTEM_EMAIL_FROM'] as const)
    for (const process of ['api', 'worker'] as const)
      expect([name, process, isReadBy(name, process)]).toEqual([name, process, true])
})

test('the system sends email from its own address', () => {
  const systemFrom = (changes: Record<string, string>) =>
    loadConfig({ ...env, EMAIL_FROM: '', ...changes }).SYSTEM_EMAIL_FROM
  expect(systemFrom({})).toBe(undefined)
  for (const [from, system] of [
    ['mail@shop.example', 'system@shop.example'],
    ['Shop <mail@shop.example>', 'Shop <system@shop.example>'],
    ['mail@shop.example <mail@shop.example>', 'mail@shop.example <system@shop.example>'],
  ] as const)
    expect(systemFrom({ EMAIL_FROM: from })).toBe(system)
  expect(systemFrom({ EMAIL_FROM: 'System <system@a.example>', SYSTEM_EMAIL_FROM: 'us@b.example' })).toBe(
    'us@b.example',
  )
  for (const [from, system] of [
    ['mail@shop.example', 'Us <MAIL@shop.example>'],
    ['mail+a@shop.example', 'mail@shop.example'],
  ] as const)
    expect(() => systemFrom({ EMAIL_FROM: from, SYSTEM_EMAIL_FROM: system })).toThrow(
      /SYSTEM_EMAIL_FROM: must differ from EMAIL_FROM/,
    )
  // SYSTEM_EMAIL_FROM is not set, so the error is about EMAIL_FROM.
  for (const from of ['System <system@shop.example>', 'System@Shop.example'])
    expect(() => systemFrom({ EMAIL_FROM: from })).toThrow(
      /^ {2}EMAIL_FROM: must not be system@\S+, .* unless SYSTEM_EMAIL_FROM names another address\. Example: EMAIL_FROM=/im,
    )
})

test('the refusal of an invalid value names the variable and an example', () => {
  for (const [name, value] of [
    ['NODE_ENV', 'staging'],
    ['API_PORT', 'http'],
    ['API_PORT', '65536'],
    ['WEBHOOKS_PORT', '-1'],
    ['METRICS_PORT', '3000.5'],
    ['API_URL', 'api.example.com'],
    ['API_URL', 'ftp://api.example.com'],
    ['WEBHOOKS_URL', 'https://my_hooks.example.com'],
    ['DATABASE_URL', 'mysql://localhost/sluice'],
    ['DATABASE_URL', 'postgres:bad@127.0.0.1:27534/sluice'],
    ['DATABASE_POOL', '0'],
    ['REDIS_URL', 'localhost:6379'],
    ['QUEUE', 'rabbit'],
    ['STRIPE_SECRET_KEY', 'pk_test_51Habcdefgh'],
    ['STRIPE_SECRET_KEY', 'rk_'],
    ['STRIPE_SECRET_KEY', 'sk_live_...'],
    ['STRIPE_WEBHOOK_SECRET', 'secret'],
    ['STRIPE_WEBHOOK_SECRET', 'whsec_abc'],
    ['STRIPE_WEBHOOK_SECRET', 'whsec_...'],
    ['STRIPE_WEBHOOK_SECRET', 'whsec_...,whsec_current'],
    ['STRIPE_WEBHOOK_SECRET', 'whsec_current,old'],
    ['STRIPE_WEBHOOK_SECRET', 'whsec_current,whsec_'],
    ['TRUSTED_PROXIES', 'proxy.example.com'],
    ['TRUSTED_PROXIES', '10.0.0.0/33'],
    ['TRUSTED_PROXIES', '10.0.0.1,0.0.0.0/0'],
    ['WEBHOOKS_ALLOW_CIDRS', '10.0.0.1'],
    ['WEBHOOKS_ALLOW_CIDRS', '10.0.0.0/33'],
    ['WEBHOOKS_ALLOW_CIDRS', '10.0.0.0/8,fd00::/129'],
    ['WEBHOOKS_ALLOW_CIDRS', 'hooks.example.com/8'],
    ['STRIPE_API_BASE', 'not a url'],
    ['ENCRYPTION_KEY', 'too short'],
    ['ENCRYPTION_KEY', 'A'.repeat(44)],
    ['RATE_LIMIT_RPS', '0'],
    ['RATE_LIMIT_BURST', 'many'],
    ['REQUEST_TIMEOUT_MS', '-5'],
    ['AUDIT_EVERY_S', '0'],
    ['RECONCILE_EVERY_S', '0'],
    ['RECONCILE_AFTER_S', '-1'],
    ['RETENTION_DAYS', 'jobs:30'],
    ['RETENTION_DAYS', 'ai_tasks:30'],
    ['RETENTION_DAYS', 'ledger:400'],
    ['RETENTION_DAYS', 'ai_tasks:90,jobs'],
    ['RETENTION_DAYS', 'jobs:90,events:400'],
    ['EVENT_RETENTION_DAYS', '30'],
    ['WEBHOOK_RETRY_SCHEDULE_S', '5,300'],
    ['WEBHOOK_RETRY_SCHEDULE_S', '0,5,soon'],
    ['REQUIRES_ACTION_TTL_S', '5'],
    ['KYC_TTL_DAYS', '366'],
    ['EMAIL_WEBHOOK_SECRET', `whsec_${'='.repeat(32)}`],
    ['EMAIL_WEBHOOK_SECRET', `whsec_AA==${'A'.repeat(32)}`],
    ['ALLOW_EMULATORS', 'perhaps'],
    ['LOG_LEVEL', 'loud'],
  ] as const) {
    const refusal = refusalOf({ [name]: value })
    expect(refusal).toMatch(
      new RegExp(`^The configuration is invalid:\\n  ${name}: .+\\. Example: ${name}=.+$`),
    )
    expect(refusal).not.toMatch(/Invalid|expected|received|NaN/)
    // The error must not repeat the value, which may be a secret.
    expect(refusal).not.toContain(`${name}=${value}`)
  }
})

test.for([
  ['STRIPE_SECRET_KEY', 'sk_live_...', 'sk_live_51AbCdEf'],
  ['STRIPE_WEBHOOK_SECRET', 'whsec_current,whsec_...', 'whsec_current,whsec_former'],
  ['TWILIO_AUTH_TOKEN', '...', '0123456789abcdef'],
  ['TWILIO_AUTH_TOKEN', '0123456789abcdef,<older>', '0123456789abcdef,...a'],
  ['SMTP_URL', 'smtps://user:...@smtp.example.com:465', 'smtps://user:a...b@smtp.example.com:465'],
  ['SMTP_URL', 'smtp://user:<password>@smtp.example.com', 'smtp://smtp.example.com'],
  ['AI_API_KEY', 'sk-...', 'sk-proj-AbCdEf'],
  ['AI_API_KEY', 'sk-proj\u2026', 'none'],
  ['EMAIL_WEBHOOK_SECRET', 'whsec_...', `whsec_${'A'.repeat(32)}`],
  ['DATABASE_URL', 'postgres://sluice:...@127.0.0.1/sluice', 'postgres://sluice:secret@127.0.0.1/sluice'],
  [
    'DATABASE_URL',
    'postgres://sluice:%3Cpassword%3E@127.0.0.1/sluice',
    'postgres://sluice:%3C@127.0.0.1/sluice',
  ],
  [
    'DATABASE_URL',
    'postgres://127.0.0.1/sluice?user=sluice&password=...&sslmode=prefer',
    'postgres://127.0.0.1/sluice',
  ],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'authorization=Bearer%20...', 'authorization=Bearer%20abc'],
] as const)('%s refuses the placeholder %s', ([name, placeholder, value]) => {
  expect(refusalOf({ [name]: placeholder })).toContain(
    `  ${name}: must be the real value, and no placeholder that ends in dots or angle brackets. Example: `,
  )
  expect(loadConfig({ ...env, [name]: value })).toHaveProperty(name)
})

const SECRETS_WITHOUT_URL: string[] = SECRET_NAMES.filter((name) => !/^[a-z]+:/.test(VARIABLES[name][1]))

test.each(SECRETS_WITHOUT_URL)('%s refuses its example, which everybody knows', (name) => {
  expect(refusalOf({ [name]: VARIABLES[name as keyof typeof VARIABLES][1] })).toContain(
    `  ${name}: must be the real value, and no`,
  )
})

test('in production WEBHOOKS_ALLOW_CIDRS refuses wide networks and metadata addresses', () => {
  const refusalOfNetworks = (networks: string) =>
    refusalOf({ NODE_ENV: 'production', WEBHOOKS_ALLOW_CIDRS: networks })
  for (const network of ['0.0.0.0/0', '10.0.0.0/7', '::/0', 'fd00::/15', '::ffff:0:0/103'])
    expect(refusalOfNetworks(network)).toContain(
      `  WEBHOOKS_ALLOW_CIDRS: in production ${network} is too wide: `,
    )
  for (const network of [
    '169.254.169.254/32',
    '169.254.0.0/16',
    '169.0.0.0/8',
    '::ffff:169.254.169.254/128',
    '::/16',
    'fe80::/16',
    'febf::1/128',
    '100.100.100.200/32',
    '::ffff:192.0.0.192/128',
    '64:ff9b::168.63.129.16/128',
    '2002:a9fe:a9fe::/48',
    'fd00:ec2::254/128',
  ])
    expect(refusalOfNetworks(`10.0.0.0/8,${network}`)).toContain(
      `  WEBHOOKS_ALLOW_CIDRS: in production ${network} may not be allowed: `,
    )
  expect(refusalOfNetworks('0.0.0.0/0')).toContain(
    'Example: WEBHOOKS_ALLOW_CIDRS=10.1.0.0/16,fd12:3456:789a::/48',
  )
  const allowed = [
    '10.0.0.0/8',
    '127.0.0.0/8',
    '::1/128',
    'fd00::/16',
    '::ffff:10.0.0.0/104',
    '100.100.100.200/31',
  ]
  expect(
    loadConfig({ NODE_ENV: 'production', WEBHOOKS_ALLOW_CIDRS: allowed.join() }).WEBHOOKS_ALLOW_CIDRS,
  ).toEqual(allowed)
  expect(loadConfig({ WEBHOOKS_ALLOW_CIDRS: '0.0.0.0/0' }).WEBHOOKS_ALLOW_CIDRS).toEqual(['0.0.0.0/0'])
})

test('RETENTION_DAYS for events is refused, and the error names EVENT_RETENTION_DAYS', () => {
  expect(refusalOf({ RETENTION_DAYS: 'jobs:90,events:400' })).toContain('EVENT_RETENTION_DAYS')
})

test('the example of each variable is a valid value, or a command that generates a valid value', () => {
  const generated = ['ENCRYPTION_KEY', 'ADDRESS_KEY', 'EMAIL_WEBHOOK_SECRET', 'DKIM_PRIVATE_KEY']
  for (const { name, example } of variables().filter(({ name }) => !generated.includes(name))) {
    // The example of a secret is refused, so each of its values is changed.
    const value = SECRETS_WITHOUT_URL.includes(name) ? example.replaceAll(/[^,](?=,|$)/g, '0') : example
    expect(loadConfig({ [name]: value })[name], name).toBeDefined()
  }
  for (const name of ['ENCRYPTION_KEY', 'ADDRESS_KEY'])
    expect(refusalOf({ [name]: '$(openssl rand -base64 32)' })).toContain(
      `Example: ${name}=<what openssl rand -base64 32 prints>`,
    )
})

test('all invalid variables are reported at once, and an empty variable counts as unset', () => {
  const refusal = refusalOf({ API_PORT: 'x', LOG_LEVEL: 'x' })
  expect(refusal.split('\n')).toHaveLength(3)
  expect(loadConfig({ API_PORT: '', REDIS_URL: '' })).toMatchObject({ API_PORT: 3000, REDIS_URL: undefined })
})

test('a misspelt name in .env or in the environment causes a warning; names of other programs cause none', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  await writeFile(
    join(path, '.env'),
    [
      'APIPORT=3',
      'REDIS_URI=x',
      'log_level=info',
      'API_PORT=0',
      'PGHOST=x',
      'PORT=3',
      'HOSTNAME=x',
      'DEBUG=1',
      'STRIPE_KEY=sk_test_hidden',
      'STRIPE_SECRET_KEY_FLIE=x',
      'API_URL_FILE=x',
      'HOST: hidden',
      '# HOST 0.0.0.0',
      'DKIM_PRIVATE_KEY="-----BEGIN',
      'hidden',
      '-----END"',
      'QUEUE postgres',
    ].join('\n'),
  )
  const { stderr } = await runCommand(
    'src/commands/keys.ts',
    ['list', '--tenant', 'x'],
    { METRIC_PORT: '1', DATABASE_URI: 'x', DATABASE_URL: 'x', HOME: '/', API_KEY: 'x', LOG_FILE: 'x' },
    path,
  )
  const warnings = stderr.split('\n').filter((line) => /^(?:\.env|The environment): /.test(line))
  expect(warnings).toEqual([
    '.env: line 12 has no "=" and is ignored.',
    '.env: line 17 has no "=" and is ignored.',
    '.env: there is no variable APIPORT: did you mean API_PORT?',
    '.env: there is no variable API_URL_FILE: only secrets can be in files. Set API_URL.',
    '.env: there is no variable REDIS_URI: did you mean REDIS_URL?',
    '.env: there is no variable STRIPE_KEY: did you mean STRIPE_SECRET_KEY?',
    '.env: there is no variable STRIPE_SECRET_KEY_FLIE: did you mean STRIPE_SECRET_KEY_FILE?',
    '.env: there is no variable log_level: did you mean LOG_LEVEL?',
    'The environment: there is no variable METRIC_PORT: did you mean METRICS_PORT?',
  ])
  expect(stderr).not.toContain('hidden')
})

test('every command refuses an unknown option', async () => {
  const files = ['api/main', 'webhooks/main', 'workers/main', 'start/main']
  const results = await Promise.all([
    ...[...files, 'commands/migrate'].map((file) => runCommand(`src/${file}.ts`, ['--x', '-y'], env)),
    ...[keysCommand, jobsCommand, auditCommand].map((command) => runHere(command, ['--x', '-y'], env)),
  ])
  for (const { code, stderr } of results) {
    expect(stderr).toBe('There is no option --x. See --help.\n')
    expect(code).toBeGreaterThan(0)
  }
})

test('a process with an invalid variable does not start, and its error has no stack', async () => {
  const files = ['src/api/main.ts', 'src/start/main.ts', 'src/commands/migrate.ts']
  for (const { code, stderr } of await Promise.all(
    files.map((file) => runCommand(file, [], { ...env, DATABASE_POOL: 'ten' })),
  )) {
    expect(code).toBe(1)
    expect(stderr).toContain('DATABASE_POOL: ')
    expect(stderr).toContain('Example: DATABASE_POOL=10')
    expect(stderr).not.toContain('    at ')
  }
})

test('a process reports a required variable that is missing', async () => {
  const processes: [string, Record<string, string>, string][] = [
    ['src/api/main.ts', { DATABASE_URL: '' }, 'DATABASE_URL is not set. Example: DATABASE_URL=postgres://'],
    [
      'src/start/main.ts',
      { NODE_ENV: 'production', STRIPE_SECRET_KEY: '', REDIS_URL: '' },
      'In production these must be set: STRIPE_SECRET_KEY, REDIS_URL. To run embedded servers and emulators nevertheless: ALLOW_EMULATORS=true',
    ],
  ]
  const parts: [PartName, Record<string, string>, string][] = [
    ['api', { ENCRYPTION_KEY: '' }, 'ENCRYPTION_KEY is not set. Example: '],
    ['webhooks', { STRIPE_WEBHOOK_SECRET: '' }, 'STRIPE_WEBHOOK_SECRET is not set. Example: '],
    ['worker', { STRIPE_SECRET_KEY: '' }, 'STRIPE_SECRET_KEY is not set. Example: '],
    [
      'api',
      { DISABLED_AREAS: 'customers,custommers' },
      'DISABLED_AREAS: no area is called "custommers"; the areas are customers, payments',
    ],
    ['worker', { QUEUES: 'payments,paymens' }, 'QUEUES: there is no queue "paymens"'],
    ['api', { NODE_ENV: 'production', REDIS_URL: '' }, 'REDIS_URL is not set'],
  ]
  await Promise.all(
    processes.map(async ([file, changes, message]) => {
      const { code, stderr } = await runCommand(file, [], { ...env, ...changes })
      expect([file, code]).toEqual([file, 1])
      expect(stderr).toContain(message)
      expect(stderr).not.toContain('    at ')
    }),
  )
  for (const [name, changes, message] of parts) {
    const error = await startErrorOf(name, { ...env, ...changes })
    expect(error).toContain(message)
    expect(error).not.toContain('    at ')
  }
})

test('the webhooks host refuses a short TWILIO_AUTH_TOKEN that the API accepts', async ({ world }) => {
  for (const TWILIO_AUTH_TOKEN of ['set', `${'a'.repeat(32)},set`])
    await expect(
      buildWebhooks({
        config: { ...world.config, TWILIO_AUTH_TOKEN },
        log: createLog('silent', 'test'),
      } as WebhooksContext),
    ).rejects.toThrow('TWILIO_AUTH_TOKEN is shorter')
})

test('a worker whose queues have no jobs that call Stripe needs no credentials of Stripe', () => {
  const withoutKey = (queue: string) =>
    requireVariables(loadConfig({ ...env, QUEUES: queue, STRIPE_SECRET_KEY: '' }), 'worker')
  const others = ['ai', 'deliveries', 'messages']
  for (const queue of others) expect(() => withoutKey(queue), queue).not.toThrow()
  for (const queue of QUEUES.filter((each) => !others.includes(each)))
    expect(() => withoutKey(queue), queue).toThrow('STRIPE_SECRET_KEY is not set')
})

test('the error of a port in use names another port', async () => {
  const holder = createServer().listen(0, '127.0.0.1')
  await once(holder, 'listening')
  const port = String((holder.address() as AddressInfo).port)
  try {
    const message = (name: string) =>
      `${name}: port ${port} is in use. Choose another, or 0 for a free one: ${name}=0`
    const listeners: [PartName, string][] = [
      ['webhooks', 'WEBHOOKS_PORT'],
      ['worker', 'METRICS_PORT'],
    ]
    for (const [part, name] of listeners)
      expect(await startErrorOf(part, { ...env, [name]: port })).toBe(message(name))
    const { code, stderr } = await runCommand('src/api/main.ts', [], { ...env, API_PORT: port })
    expect([code, stderr]).toEqual([1, `${message('API_PORT')}\n`])
  } finally {
    holder.close()
  }
})

test('a repeated migration changes nothing', async () => {
  const { code, stdout } = await runCommand('src/commands/migrate.ts', [], env)
  expect([code, stdout]).toEqual([0, 'The database is up to date.\n'])
})

function refusalOf(variables: Record<string, string>): string {
  try {
    loadConfig(variables)
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('nothing was refused')
}

test('in production DASHBOARD_URL must use https or name this machine', () => {
  const load = (DASHBOARD_URL: string, NODE_ENV = 'production') =>
    loadConfig({ ...env, NODE_ENV, DASHBOARD_URL }).DASHBOARD_URL
  for (const url of [
    'http://dashboard.example.com',
    'http://10.0.0.5:3002',
    'http://localhost.example.com',
    'http://127.0.0.1.example.com',
    'http://[::2]:3002',
  ]) {
    expect(() => load(url)).toThrow(
      /DASHBOARD_URL: must begin with https:\/\/ in production.*Example: DASHBOARD_URL=https:\/\/dashboard\.example\.com/,
    )
    expect(load(url, 'development')).toBe(url)
  }
  for (const url of [
    'https://dashboard.example.com',
    'http://localhost:3002',
    'http://pay.localhost:3002',
    'http://127.0.0.1:3002',
    'http://127.1.2.3',
    'http://[::1]:3002',
  ])
    expect(load(url)).toBe(url)
})
