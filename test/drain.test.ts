// The end of a process: it is not ready first, goes on serving, and closes its connections at last.
import { request } from 'node:http'
import { Agent } from 'node:http'
import { once } from 'node:events'
import { createConnection } from 'node:net'
import type { TestContext } from 'vitest'
import { PARTS, type PartName } from '#test/parts.ts'
import { startProcess, urlIn, type Process } from '#test/process.ts'
import { OPERATIONS_READY } from '#test/served-metrics.ts'
import { asUser } from '#test/users.ts'
import { testIn } from '#test/world.ts'

const LISTENERS = ['api', 'webhooks', 'dashboard'] as const satisfies PartName[]

const test = testIn({ parts: [], notifications: false })

type Started = { process: Process; url: string; operations_url: string }

/** Starts a part as a process. `url`: its own address; the operations address if it has none. */
async function startPart(
  { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
  name: PartName,
  world_env: Record<string, string>,
  env: Record<string, string>,
): Promise<Started> {
  const { file, ready } = PARTS[name]
  const process = await startProcess(file, {
    env: asUser(name, { ...world_env, LOG_LEVEL: 'info', ...env }),
    ready: OPERATIONS_READY,
  })
  onTestFinished(async () => void (await process.end()))
  const operations_url = urlIn(process.ready)
  const url = name === 'worker' ? operations_url : urlIn(await process.waitForLine(ready))
  return { process, url, operations_url }
}

type HealthAnswer = { status: number; connection: string | undefined; body: string }

/** Sends a GET request. Rejects if the connection is refused or breaks. */
async function ask(url: string, { agent }: { agent?: Agent } = {}) {
  return await new Promise<HealthAnswer>((resolve, reject) => {
    request(url, { agent: agent ?? false }, (answer) => {
      let body = ''
      answer.setEncoding('utf8')
      answer.on('data', (chunk: string) => (body += chunk))
      answer.on('error', reject)
      answer.on('end', () =>
        resolve({ status: answer.statusCode!, connection: answer.headers.connection, body }),
      )
    })
      .on('error', reject)
      .end()
  })
}

// The tests run concurrently, because they mostly wait for the delays.
test.concurrent.for(LISTENERS)(
  '%s is not ready after SIGTERM, answers every request until the delay has passed, and then closes its connections',
  async (name, { world: { env }, expect, onTestFinished }) => {
    const { process, url, operations_url } = await startPart({ onTestFinished }, name, env, {
      SHUTDOWN_DELAY_S: '5',
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    onTestFinished(() => agent.destroy())
    expect(await ask(`${operations_url}/readyz`)).toMatchObject({ status: 200 })
    expect(await ask(`${url}/healthz`, { agent })).toMatchObject({ status: 200, connection: 'keep-alive' })
    const { hostname, port } = new URL(url)
    const idle = createConnection(Number(port), hostname)
    await once(idle, 'connect')
    const idle_closed = once(idle.resume(), 'close')

    process.signal('SIGTERM')
    await expect
      .poll(() => ask(`${operations_url}/readyz`))
      .toMatchObject({ status: 503, body: '{"status":"not ready","reason":"stopping"}\n' })
    // Connections that were open before the signal, and new ones.
    for (let count = 0; count < 25; count++)
      for (const how of [{ agent }, {}])
        expect(await ask(`${url}/healthz`, how)).toMatchObject({ status: 200, connection: 'close' })
    expect(await ask(`${operations_url}/readyz`)).toMatchObject({ status: 503 })
    expect(process.output()).not.toContain('stopping: finishing the work in progress')

    await process.waitForLine('stopping: finishing the work in progress')
    await idle_closed
    expect(await process.ended).toEqual({ code: 0, signal: null })
    await expect(ask(`${url}/healthz`)).rejects.toThrow('ECONNREFUSED')
  },
)

test.concurrent('Ctrl-C, and a second signal, end a process without the delay', async ({
  world,
  expect,
  onTestFinished,
}) => {
  const env = { SHUTDOWN_DELAY_S: '600' }
  const [interrupted, impatient] = await Promise.all([
    startPart({ onTestFinished }, 'api', world.env, env),
    startPart({ onTestFinished }, 'webhooks', world.env, env),
  ])
  expect(await interrupted.process.end('SIGINT')).toEqual({ code: 0, signal: null })
  const repeated = setInterval(() => impatient.process.signal('SIGTERM'), 200)
  onTestFinished(() => clearInterval(repeated))
  expect(await impatient.process.ended).toEqual({ code: 130, signal: null })
})

test.concurrent('the delay is five seconds in production, and a worker has none', async ({
  world,
  expect,
  onTestFinished,
}) => {
  const env = { NODE_ENV: 'production', QUEUE: 'redis' }
  const [webhooks, worker] = await Promise.all([
    startPart({ onTestFinished }, 'webhooks', world.env, env),
    startPart({ onTestFinished }, 'worker', world.env, { ...env, SHUTDOWN_DELAY_S: '600' }),
  ])
  expect(await worker.process.end('SIGTERM')).toEqual({ code: 0, signal: null })
  webhooks.process.signal('SIGTERM')
  expect(JSON.parse(await webhooks.process.waitForLine('not ready: serving until'))).toMatchObject({
    delay_s: 5,
  })
  expect(await webhooks.process.ended).toEqual({ code: 0, signal: null })
})
