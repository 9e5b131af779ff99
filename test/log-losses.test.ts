// Lost log lines: work continues, lost lines are counted and logged, and processes stop on SIGTERM.
import { execFileSync, spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { open, readFile, truncate, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '#start/ports.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { HOST } from '#test/environment.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { eventually } from '#test/payments.ts'
import { COMPILE_CACHE } from '#test/process.ts'

const ROOT = resolve(import.meta.dirname, '..')
/** Logs one line of a few hundred characters for each request. */
const REQUEST_LOGGING = { LOG_LEVEL: 'info', LOG_REQUESTS: '1' }

let deployment: Deployment
beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis' })
})
afterAll(async () => await deployment?.close())

type RunningApi = { child: ChildProcess; client: Client; metrics: () => Promise<string> }

/**
 * Starts the API with this standard output, and waits for the API's health check, because the output may be unreadable.
 */
async function startApi(stdio: StdioOptions, shell?: string): Promise<RunningApi> {
  const [api, metrics] = [await freePort(HOST), await freePort(HOST)]
  const env = {
    PATH: process.env.PATH,
    ...COMPILE_CACHE,
    ...deployment.env,
    ...REQUEST_LOGGING,
    API_PORT: String(api),
    METRICS_PORT: String(metrics),
  }
  const program = [process.execPath, 'src/api/main.ts']
  const [command, ...args] = shell === undefined ? program : ['bash', '-c', shell, 'bash', ...program]
  const child = spawn(command!, args, { cwd: ROOT, env, stdio })
  onTestFinished(() => void child.kill('SIGKILL'))
  const client = createClient(`http://${HOST}:${api}`, deployment.client.key)
  await eventually(async () => expect((await client.get('/healthz')).status).toBe(200))
  return { child, client, metrics: async () => (await fetch(`http://${HOST}:${metrics}/metrics`)).text() }
}

/** Sends so many requests that their log lines exceed the buffer of a pipe. */
async function sendRequests({ client }: RunningApi, requests = 600): Promise<void> {
  for (let batch = 0; batch < requests / 50; batch++) {
    const responses = Array.from({ length: 50 }, () =>
      client.get('/v1/customers/none', { 'x-request-id': freshKey() }),
    )
    for (const { status } of await Promise.all(responses)) expect(status).toBe(400)
  }
}

async function expectCleanExit({ child }: Pick<RunningApi, 'child'>): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
}

const lossMetric = (reason: string) =>
  new RegExp(`^sluice_log_lines_lost_total\\{reason="${reason}"\\} [1-9]`, 'm')

describe('lost log lines never stop work', () => {
  test('on a full disk', async () => {
    const full = await open('/dev/full', 'w')
    const api = await startApi(['ignore', full.fd, full.fd])
    await full.close()
    await sendRequests(api)
    expect(await api.metrics()).toMatch(lossMetric('ENOSPC'))
    await expectCleanExit(api)
  })

  test('on a disk that is full for a while, and the next written line has the count of lost lines', async () => {
    const folder = await createTemporaryFolder()
    onTestFinished(() => folder.remove())
    const path = join(folder.path, 'api.log')
    await writeFile(path, '')
    const api = await startApi(['ignore', 'ignore', 'ignore'], `ulimit -f 64; exec "$@" >> ${path}`)
    await sendRequests(api)
    expect(await api.metrics()).toMatch(lossMetric('EFBIG'))
    await truncate(path)
    await eventually(async () => {
      await sendRequests(api, 50)
      const lines = (await readFile(path, 'utf8')).split('\n').slice(0, -1)
      const loss_lines = lines
        .filter((line) => line.includes('log lines were lost'))
        .map((line) => JSON.parse(line))
      expect(loss_lines[0]).toMatchObject({
        level: 40,
        name: 'api',
        reason: 'EFBIG',
        lines: expect.any(Number),
      })
      // Only the first line may be incomplete.
      for (const line of lines.slice(1)) JSON.parse(line)
    })
    await expectCleanExit(api)
  })

  test('while the reader of a pipe does not read, and after it has closed the pipe', async () => {
    const folder = await createTemporaryFolder()
    onTestFinished(() => folder.remove())
    const path = join(folder.path, 'pipe')
    await once(spawn('mkfifo', [path]), 'exit')
    const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const writer = await open(path, 'w')
    const api = await startApi(['ignore', writer.fd, 'ignore'])
    const stopped = await startApi(['ignore', writer.fd, 'ignore'])
    await writer.close()
    await Promise.all([sendRequests(api), sendRequests(stopped)])
    // The pipe is still full of unread lines.
    await expectCleanExit(stopped)
    await reader.close()
    await sendRequests(api)
    expect(await api.metrics()).toMatch(lossMetric('EPIPE'))
    await expectCleanExit(api)
  })

  test('in the common log of the processes of `npm start`', async () => {
    const full = await open('/dev/full', 'w')
    const metrics_port = await freePort(HOST)
    const child = spawn(process.execPath, ['src/workers/main.ts'], {
      cwd: ROOT,
      env: {
        PATH: process.env.PATH,
        ...COMPILE_CACHE,
        ...deployment.env,
        METRICS_PORT: String(metrics_port),
        SLUICE_LOG_DESCRIPTOR: '4',
      },
      stdio: ['ignore', full.fd, full.fd, 'ipc', full.fd],
    })
    await full.close()
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child, 'message')
    const { client } = await startApi(['ignore', 'ignore', 'ignore'])
    const paid = await client.post('/v1/payments', {
      idempotency_key: freshKey(),
      amount_minor: 1000,
      currency: 'USD',
      method: 'card',
      payment_method: 'pm_card_visa',
    })
    expect(paid.status).toBe(201)
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })
})

test('an emulator continues on a full disk and writes its journal when the disk has space again', async () => {
  const folder = await createTemporaryFolder()
  onTestFinished(() => folder.remove())
  async function startEmulator(limit: string) {
    const program = [
      process.execPath,
      'src/emulators/stripe/main.ts',
      '--port=0',
      `--data-dir=${folder.path}`,
    ]
    const child = spawn('bash', ['-c', `${limit} exec "$@"`, 'bash', ...program], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, ...COMPILE_CACHE },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const reported: string[] = []
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => void reported.push(line))
    const waitForLine = async (text: string) =>
      await eventually(async () => expect(reported.join('\n')).toContain(text))
    await waitForLine('stripe_url')
    const { stripe_url } = JSON.parse(reported.find((line) => line.includes('stripe_url'))!)
    return { child, waitForLine, client: createClient(stripe_url, 'sk_test_emulator') }
  }

  const full = await startEmulator('ulimit -S -f 16;')
  const ids: string[] = []
  const pay = async () => {
    for (let n = 0; n < 20; n++) {
      const response = await fetch(`${full.client.url}/v1/payment_intents`, {
        method: 'POST',
        headers: { authorization: 'Bearer sk_test_emulator' },
        body: new URLSearchParams({ amount: '1000', currency: 'usd' }),
      })
      expect(response.status).toBe(200)
      ids.push(((await response.json()) as { id: string }).id)
    }
  }
  await pay()
  await full.waitForLine('cannot be written (Error: EFBIG')
  await pay()
  execFileSync('prlimit', ['--pid', String(full.child.pid), '--fsize=unlimited:'])
  await full.waitForLine('stripe-journal.jsonl can be written again')
  await expectCleanExit(full)
  const restarted = await startEmulator('')
  for (const id of ids)
    expect((await restarted.client.get(`/v1/payment_intents/${id}`)).body).toMatchObject({ id, amount: 1000 })
  await expectCleanExit(restarted)
})
