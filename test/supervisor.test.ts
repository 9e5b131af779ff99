// Tests the processes of `npm start`: each process is restarted after it dies, and all processes stop when `npm start`
// stops.
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '#core/config.ts'
import { variables } from '#core/config/help.ts'
import { isReadBy } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import { createServerFolder } from '#start/folders.ts'
import { freePort } from '#start/ports.ts'
import { commandOfOwnProcess, processStarted } from '#start/processes.ts'
import { emulatorAddresses } from '#start/emulators.ts'
import { isProgram, networkNotes, programsOf } from '#start/programs.ts'
import { QUEUES } from '#core/config/queues.ts'
import { createClient, freshKey } from '#test/client.ts'
import { runCommand } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startedProcesses, PORTS, type PartProcess } from '#test/start.ts'
import { startProcess, until, type Process } from '#test/process.ts'
import { createWorld } from '#test/world.ts'

const START = 'src/start/main.ts'
const PAYMENT = { amount_minor: 1700, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
const PARTS = [
  'api',
  'webhooks host',
  'worker',
  'dashboard',
  'Stripe emulator',
  'Twilio emulator',
  'Email emulator',
  'AI emulator',
]

type Dev = {
  api_url: string
  webhooks_url: string
  metrics_url: string
  dashboard: { url: string }
  api_key: string
  test_api_key: string
  redis_url: string
}

describe('a running system', () => {
  let folder: Awaited<ReturnType<typeof createTemporaryFolder>>
  let running: Process
  let dev: Dev
  beforeAll(async () => {
    folder = await createTemporaryFolder()
    running = await startProcess(START, {
      env: { ...PORTS, DATA_DIR: folder.path },
      ready: 'Ctrl-C stops everything.',
    })
    dev = JSON.parse(await readFile(join(folder.path, 'dev.json'), 'utf8')) as Dev
  })
  afterAll(async () => {
    await running?.end()
    await folder?.remove()
  })

  const parts = () => startedProcesses(folder.path)
  const logLines = async () =>
    (await readFile(join(folder.path, 'sluice.log'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { name: string; msg: string })

  async function readiness(): Promise<{ status: number; body: Record<string, unknown> }> {
    const answer = await fetch(`${dev.metrics_url}/readyz`)
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }

  /** Creates a payment through the API, the worker and the emulator, and waits for the payment's notification. */
  async function pay(): Promise<void> {
    const client = createClient(dev.api_url, dev.api_key)
    const key = freshKey()
    const id = await until('the payment is authorized', async () => {
      const created = await client
        .post('/v1/payments', { idempotency_key: key, ...PAYMENT })
        .catch(() => null)
      return created?.status === 201 && created.body.status === 'authorized' && (created.body.id as string)
    })
    await until('the notification is applied', async () => {
      const timeline = await client.get(`/v1/payments/${id}/timeline`)
      return (
        timeline.status === 200 &&
        timeline.body.some((each: { kind: string }) => each.kind === 'notification')
      )
    })
    await until('the webhooks host answers', async () => {
      const answer = await fetch(`${dev.webhooks_url}/stripe`, { method: 'POST', body: '{}' }).catch(
        () => null,
      )
      return answer?.status === 400
    })
  }

  test('has each part as a separate process, in a process group that Ctrl-C does not reach', async () => {
    const all = await parts()
    expect(Object.keys(all).toSorted()).toEqual(PARTS.toSorted())
    expect(new Set(Object.values(all).map(({ pid }) => pid)).size).toBe(PARTS.length)
    for (const { pid } of Object.values(all)) expect(process.kill(-pid, 0)).toBe(true)
    // The next start can recognize these processes.
    for (const { pid } of Object.values(all)) expect(isProgram(commandOfOwnProcess(pid)!)).toBe(true)
    expect(isProgram(commandOfOwnProcess(process.pid)!)).toBe(false)
  })

  /** The error output of commands that search for a running start in this folder. */
  const readCommandErrors = async () => {
    const commands: [string, string[]][] = [
      ['src/commands/audit.ts', []],
      ['src/commands/keys.ts', ['list', '--tenant', 'demo']],
      ['src/commands/migrate.ts', []],
    ]
    const ran = commands.map(([file, args]) => runCommand(file, args, { DATA_DIR: folder.path }))
    return (await Promise.all(ran)).map(({ stderr }) => stderr)
  }

  test('refuses a second start in its folder, with an error that names the process and the address of the first start, which commands find', async () => {
    expect(running.output()).toContain(
      'Events       sent to public addresses, and to 127.0.0.0/8, ::1/128 (WEBHOOKS_ALLOW_CIDRS)',
    )
    const second = await runCommand(START, [], { ...PORTS, DATA_DIR: folder.path })
    expect(second).toMatchObject({ code: 1, stdout: '' })
    expect(second.stderr).toMatch(
      new RegExp(
        `^Sluice is already running in ${folder.path}: process ${running.pid}, its API at http://\\S+\\. Stop it .+\n$`,
      ),
    )
    expect(await readCommandErrors()).toEqual(['', '', ''])
  })

  test('prints a key of each mode, and each reaches records of its mode only', async () => {
    expect(running.output()).toContain(`API key      ${dev.api_key}`)
    expect(running.output()).toContain(`Test mode    ${dev.test_api_key}`)
    const [live, of_twin] = [dev.api_key, dev.test_api_key].map((key) => createClient(dev.api_url, key))
    const created = await of_twin!.post('/v1/customers', { idempotency_key: freshKey() })
    expect(created.body).toMatchObject({ livemode: false })
    expect((await live!.get(`/v1/customers/${created.body.id}`)).status).toBe(404)
    expect((await live!.post('/v1/customers', { idempotency_key: freshKey() })).body).toMatchObject({
      livemode: true,
    })
  })

  test('has a dashboard address whose host name is valid for passkeys', async () => {
    expect(dev.dashboard.url).toMatch(/^http:\/\/localhost:\d+$/)
    const page = await fetch(dev.dashboard.url)
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<!doctype html>')])
  })

  test('has an API reference that can be read, and can send requests, under any name of the host', async () => {
    const document = (await createClient(dev.api_url, '').get('/openapi.json')).body
    // The page may connect only to its own origin.
    expect(document.servers).toMatchObject([{ url: '/' }])
    const refused = await createClient(dev.api_url, '').get('/v1/customers')
    expect(refused.body.error.doc_url).toBe(`${dev.api_url}/docs/guides/errors#unauthorized`)
  })

  test.for(PARTS)('restarts the %s after a kill, and requests are answered again', async (name) => {
    await pay()
    const before = (await parts())[name]!
    process.kill(before.pid, 'SIGKILL')
    expect(await running.waitForLine(`The ${name} ended (SIGKILL). Restart in 0.2 s.`)).not.toContain('{')
    const after = await until('another process runs', async () => {
      const current = (await parts())[name]
      return current?.pid !== before.pid && current
    })
    await pay()
    await running.waitForLine(`The ${name} is back.`)
    expect(processStarted(after.pid)).toBe(after.started)
  })

  test.for([
    ['PostgreSQL', 'postgres'],
    ['Redis', 'redis'],
  ] as const)(
    'restarts the embedded %s after a kill, and requests are answered again',
    async ([name, server_folder]) => {
      const pid = async () => {
        const text = await readFile(join(folder.path, server_folder, 'server.json'), 'utf8')
        return (JSON.parse(text) as { pid: number }).pid
      }
      const before = await pid()
      process.kill(before, 'SIGKILL')
      await running.waitForLine(`${name} ended (SIGKILL). Restart in 0.2 s.`)
      await until('another process runs', async () => (await pid().catch(() => before)) !== before)
      await pay()
      await running.waitForLine(`${name} is back.`)
      await until('all parts are ready', async () => (await readiness()).status === 200)
      const redis = new Redis(dev.redis_url)
      onTestFinished(() => redis.disconnect())
      expect(await redis.ping()).toBe('PONG')
    },
  )

  test('has one address for the readiness and the metrics of all parts', async () => {
    await until('all parts are ready', async () => (await readiness()).status === 200)
    expect(await readiness()).toMatchObject({
      status: 200,
      body: { status: 'ready', areas: { deployed: expect.arrayContaining(['payments']) } },
    })
    const metrics = await (await fetch(`${dev.metrics_url}/metrics`)).text()
    expect(metrics).toContain('\nsluice_area_deployed{part="api",area="payments"} 1\n')
    for (const part of ['api', 'webhooks', 'worker'])
      expect(metrics).toMatch(new RegExp(`^process_cpu_seconds_total\\{part="${part}"\\} [\\d.]+$`, 'm'))
    // Prometheus refuses a text with two headers of one metric.
    const heads = metrics.split('\n').filter((line) => line.startsWith('# TYPE '))
    expect(heads.length).toBeGreaterThan(20)
    expect(new Set(heads).size).toBe(heads.length)

    const { worker } = await parts()
    process.kill(worker!.pid, 'SIGKILL')
    await until('the worker is reported as missing', async () => {
      const { status, body } = await readiness()
      return status === 503 && body['reason'] === 'the worker does not answer'
    })
    await until('all parts are ready again', async () => (await readiness()).status === 200)
  })

  test('has one log with the lines of all parts, which only its owner can read', async () => {
    const names = new Set((await logLines()).map(({ name }) => name))
    expect([...names].toSorted()).toEqual(['api', 'dashboard', 'start', 'webhooks', 'worker'])
    expect((await stat(join(folder.path, 'sluice.log'))).mode & 0o777).toBe(0o600)
  })

  test('continues while its log is full, and reports the lost lines as soon as there is space', async () => {
    const limitFileSize = (max_bytes: string, pids: number[]) =>
      pids.forEach((pid) => execFileSync('prlimit', ['--pid', `${pid}`, `--fsize=${max_bytes}:`]))
    const pids = [running.pid, ...Object.values(await parts()).map(({ pid }) => pid)]
    limitFileSize('1', pids)
    await until('lines are lost', async () => {
      await pay()
      const metrics = await (await fetch(`${dev.metrics_url}/metrics`)).text()
      return ['api', 'worker'].every((part) =>
        new RegExp(`^sluice_log_lines_lost_total\\{part="${part}",reason="EFBIG"\\} [1-9]`, 'm').test(
          metrics,
        ),
      )
    })
    process.kill((await parts())['Stripe emulator']!.pid, 'SIGKILL')
    await pay()
    expect(processStarted(running.pid)).not.toBeNull()
    limitFileSize('unlimited', [running.pid, ...pids.filter((pid) => processStarted(pid) !== null)])
    await until('the lost lines are reported', async () => {
      await pay()
      return (await logLines()).some(({ name, msg }) => name === 'api' && msg === 'log lines were lost')
    })
    await until('all parts are ready', async () => (await readiness()).status === 200)
  })

  test('continues after its output is closed', async () => {
    running.closeOutput()
    const before = (await parts())['webhooks host']!
    process.kill(before.pid, 'SIGKILL')
    await until(
      'another webhooks host runs',
      async () => (await parts())['webhooks host']!.pid !== before.pid,
    )
    // The new webhooks host logs a warning about the first notification that it refuses.
    await pay()
    await until('all parts are ready', async () => (await readiness()).status === 200)
    expect(processStarted(running.pid)).not.toBeNull()
  })

  test('ends all parts at once after a second signal, even a process that is stopped by SIGSTOP', async () => {
    const all = Object.values(await parts())
    const { worker } = await parts()
    process.kill(worker!.pid, 'SIGSTOP')
    running.signal('SIGINT')
    await until('the start is stopping', async () =>
      (await logLines()).some(({ name, msg }) => name === 'start' && msg.startsWith('stopping')),
    )
    const repeated_signals = setInterval(() => running.signal('SIGINT'), 100)
    onTestFinished(() => clearInterval(repeated_signals))
    expect(await running.ended).toEqual({ code: 130, signal: null })
    await awaitEndOf(all)
    const not_running = `No Sluice runs in ${folder.path}. Start one with npm start, or set DATABASE_URL, e.g. DATABASE_URL=postgres://sluice:secret@127.0.0.1:5432/sluice\n`
    expect(await readCommandErrors()).toEqual([not_running, not_running, not_running])
  })
})

test('each part receives the variables that the part reads, and no secrets of other parts', () => {
  const base_env = {
    DATABASE_URL: 'postgres://127.0.0.1/sluice',
    REDIS_URL: 'redis://127.0.0.1',
    ENCRYPTION_KEY: `${'A'.repeat(43)}=`,
    STRIPE_WEBHOOK_SECRET: 'whsec_given',
    ADDRESS_KEY: `${'B'.repeat(43)}=`,
    EMAIL_WEBHOOK_SECRET: `whsec_${'C'.repeat(43)}=`,
  }
  const place = { port: 1, url: 'http://127.0.0.1:1' }
  const secretsOf = (more: Record<string, string>) => {
    const config = loadConfig({ ...base_env, ...more }, () => {})
    const emulators = new Map(emulatorAddresses(config).map(([name]) => [name, place]))
    const programs = programsOf(
      config,
      { api: place, webhooks: place, dashboard: place, emulators },
      '/data',
    ).flat()
    for (const { name, env } of programs) {
      const process = name === 'webhooks host' ? 'webhooks' : name
      // The emulators are not in the table of processes.
      const others = variables().filter((variable) => !isReadBy(variable.name, process as ProcessName))
      const unset = others.filter((variable) => env[variable.name] === '')
      expect([name, unset.length]).toEqual([
        name,
        others.length - (['Stripe emulator', 'Twilio emulator'].includes(name) ? 1 : 0),
      ])
    }
    const secrets = [
      'DATABASE_URL',
      'ENCRYPTION_KEY',
      'STRIPE_SECRET_KEY',
      'STRIPE_WEBHOOK_SECRET',
      'AI_API_KEY',
      'SMTP_URL',
      'TWILIO_AUTH_TOKEN',
      'ADDRESS_KEY',
      'EMAIL_WEBHOOK_SECRET',
    ]
    const isSecret = (text = '') => !['', 'set', 'smtp://set'].includes(text)
    return Object.fromEntries(
      programs.map(({ name, env }) => [name, secrets.filter((each) => isSecret(env[each]))]),
    )
  }
  const parts = {
    api: ['DATABASE_URL', 'ENCRYPTION_KEY', 'ADDRESS_KEY'],
    dashboard: ['DATABASE_URL', 'ENCRYPTION_KEY', 'ADDRESS_KEY'],
    'webhooks host': [
      'DATABASE_URL',
      'STRIPE_WEBHOOK_SECRET',
      'TWILIO_AUTH_TOKEN',
      'ADDRESS_KEY',
      'EMAIL_WEBHOOK_SECRET',
    ],
    worker: [
      'DATABASE_URL',
      'ENCRYPTION_KEY',
      'STRIPE_SECRET_KEY',
      'AI_API_KEY',
      'SMTP_URL',
      'TWILIO_AUTH_TOKEN',
      'ADDRESS_KEY',
    ],
  }
  const ai = { AI_BASE_URL: 'https://ai.example/v1', AI_API_KEY: 'sk-given' }
  const smtp = { SMTP_URL: 'smtps://us:given@smtp.example' }
  const twilio = { TWILIO_ACCOUNT_SID: `AC${'1'.repeat(32)}`, TWILIO_AUTH_TOKEN: 'given' }
  expect(secretsOf({ STRIPE_SECRET_KEY: 'sk_test_given', ...ai, ...smtp, ...twilio })).toEqual(parts)
  expect(secretsOf({})).toEqual({
    ...parts,
    'Stripe emulator': ['STRIPE_WEBHOOK_SECRET'],
    'Twilio emulator': ['TWILIO_AUTH_TOKEN'],
    'Email emulator': [],
    'AI emulator': [],
  })
})

test('events may be sent to this machine, except in production or if other networks are configured', () => {
  const networksFor = (env: Record<string, string>) => {
    const config = loadConfig({ DATABASE_URL: 'postgres://127.0.0.1/sluice', ...env }, () => {})
    const place = { port: 1, url: 'http://127.0.0.1:1' }
    const emulators = new Map(emulatorAddresses(config).map(([name]) => [name, place]))
    const programs = programsOf(
      config,
      { api: place, webhooks: place, dashboard: place, emulators },
      '/data',
    ).flat()
    const envs = programs.filter(({ name }) => ['api', 'worker'].includes(name)).map(({ env }) => env)
    return [...envs.map(({ WEBHOOKS_ALLOW_CIDRS }) => WEBHOOKS_ALLOW_CIDRS), ...networkNotes(config)]
  }
  const note = (networks: string) =>
    `Events       sent to public addresses, and to ${networks} (WEBHOOKS_ALLOW_CIDRS)`
  const here = ['127.0.0.0/8,::1/128', '127.0.0.0/8,::1/128', note('127.0.0.0/8, ::1/128')]
  expect(networksFor({})).toEqual(here)
  expect(networksFor({ NODE_ENV: 'production', ALLOW_EMULATORS: 'true' })).toEqual(here)
  expect(networksFor({ NODE_ENV: 'production' })).toEqual(['', ''])
  for (const NODE_ENV of ['development', 'production'])
    expect(networksFor({ NODE_ENV, WEBHOOKS_ALLOW_CIDRS: ' 10.1.0.0/16 ,fd00::/16' })).toEqual([
      '10.1.0.0/16,fd00::/16',
      '10.1.0.0/16,fd00::/16',
      note('10.1.0.0/16, fd00::/16'),
    ])
})

test.concurrent('a part that cannot start ends all parts, and the output shows the error of that part', async ({
  onTestFinished,
}) => {
  const world = await createWorld({ parts: [], notifications: false })
  onTestFinished(() => world.close())
  const { path: DATA_DIR, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const API_PORT = String(await freePort('127.0.0.1'))
  const env = { ...world.env, ...PORTS, API_PORT, DATA_DIR, QUEUES: 'payments,paymens' }
  const { code, stdout, stderr } = await runCommand(START, [], env)
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: `QUEUES: there is no queue "paymens". The queues are ${QUEUES.join(', ')}.\n`,
  })
  // The output has each step with its duration, up to the failed step.
  expect(stdout).toMatch(
    /^Starting Sluice in \S+\n {2}Migrations \.+ [\d.]+ s\n {2}Demo .+ \.+ [\d.]+ s\n {2}API, .+ \.+ failed\n$/,
  )
  await expect(fetch(`http://127.0.0.1:${API_PORT}/healthz`)).rejects.toThrow('fetch failed')
  await expect(stat(join(DATA_DIR, 'running.json'))).rejects.toThrow('ENOENT')
})

test.concurrent('missing secrets are not replaced while a database still needs them', async ({
  onTestFinished,
}) => {
  const { path: DATA_DIR, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  // If the test runs as root, the database is stored outside this private folder, and is removed separately.
  await chmod(DATA_DIR, 0o700)
  const { folder, data } = await createServerFolder(join(DATA_DIR, 'postgres'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await mkdir(data)
  for (const attempt of ['first', 'second']) {
    const { code, stderr } = await runCommand(START, [], { ...PORTS, DATA_DIR })
    expect([attempt, code, stderr]).toEqual([
      attempt,
      1,
      `DATA_DIR: ${join(DATA_DIR, 'secrets.json')} is missing, and the database of an earlier start in ${folder} needs it. Restore the file, or remove the database too: rm -r ${folder}\n`,
    ])
  }
})

async function awaitEndOf(parts: PartProcess[]): Promise<void> {
  await until('all parts are gone', () => parts.every(({ pid, started }) => processStarted(pid) !== started))
}
