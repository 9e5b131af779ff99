// `npm run listen` follows the feed of events and posts each event to a receiver, as a delivery does.
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { expect, test, type TestContext } from 'vitest'
import { listenCommand } from '#commands/listen.ts'
import { newWebhookSecret } from '#core/standard-webhooks.ts'
import { matchEventTypes } from '#domain/events.ts'
import { runHere } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startProcess, until } from '#test/process.ts'

const FILE = 'src/commands/listen.ts'
const KEY = 'sk_live_acme_0123456789abcdefghijABCDEFGHIJ01'
const TENANT = '0198f6f0-5a1c-7c3e-9d50-3f6f1c9d7a10'
const LONG_FEED_LENGTH = 1000

type Event = ReturnType<typeof eventOf>

function eventOf(sequence: number, type = 'payment.captured', more: object = {}) {
  const subject_id = `0198f6f1-0000-7000-8000-${String(sequence).padStart(12, '0')}`
  return {
    id: `0198f6f2-0000-7000-8000-${String(sequence).padStart(12, '0')}`,
    sequence,
    type,
    subject_type: type.split('.')[0]!,
    subject_id,
    data: { id: subject_id, tenant_id: TENANT, description: 'Café', ...more },
    created_at: '2026-11-20T10:15:30.123456Z',
  }
}

const eventsUpTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, at) => eventOf(first + at))

/** The context of a test, at the end of which the test's servers and processes are stopped. */
type TestEnd = Pick<TestContext, 'onTestFinished'>

/** A local HTTP server. Its handler receives the body of each request. */
async function serve(
  { onTestFinished }: TestEnd,
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
  port = 0,
) {
  const listener = async (request: IncomingMessage, response: ServerResponse) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk as string
    answer(request, response, body)
  }
  const server = createServer((request, response) => void listener(request, response))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const close = async () => {
    server.closeAllConnections()
    if (server.listening) await once(server.close(), 'close')
  }
  onTestFinished(close)
  const used_port = (server.address() as AddressInfo).port
  return { url: `http://127.0.0.1:${used_port}`, port: used_port, close }
}

/** A server that returns the feed of a tenant as the API does. */
async function serveFeed(test_end: TestEnd, first: Event[] = [], port = 0) {
  const events = [...first]
  const requests: { query: Record<string, string>; prefer: string | undefined; key: string | undefined }[] =
    []
  const added = new EventEmitter().setMaxListeners(0)
  const server = await serve(
    test_end,
    (request, response) => {
      const url = new URL(request.url!, 'http://api')
      const query = Object.fromEntries(url.searchParams)
      const { prefer, authorization } = request.headers as Record<string, string>
      requests.push({ query, prefer, key: authorization?.replace('Bearer ', '') })
      const found = () => {
        const pattern = query['type'] ?? '*'
        const matches = ({ type }: Event) =>
          pattern.endsWith('*') ? type.startsWith(pattern.slice(0, -1)) : type === pattern
        const after = events.filter((event) => event.sequence > Number(query['after']) && matches(event))
        return after.slice(0, Number(query['limit']))
      }
      const last = events.at(-1)?.sequence ?? 0
      if (Number(query['after']) > last) {
        const context = { last_sequence_before: last, next_sequence: last + 1 }
        const message = `There is no event above ${last} and below ${last + 1}.`
        response.writeHead(409).end(JSON.stringify({ error: { code: 'feed_restarted', message, context } }))
        return
      }
      const respond = () => {
        const page = found()
        const next = page.at(-1)?.sequence ?? query['after']
        response.writeHead(200, {
          'content-type': 'application/json',
          link: `</v1/events?limit=100&after=${next}>; rel="next"`,
        })
        response.end(JSON.stringify(page))
      }
      if (found().length > 0 || prefer === 'wait=0') return respond()
      added.once('event', respond)
    },
    port,
  )
  return {
    ...server,
    requests,
    add(...more: Event[]) {
      events.push(...more)
      added.emit('event')
    },
    /** Resolves when a request waits for the event after this sequence. */
    awaitRequestAfter: (sequence: number) =>
      until('a request waits for the next event', () =>
        requests.some(({ query, prefer }) => prefer === 'wait=30' && query['after'] === String(sequence)),
      ),
  }
}

/** A receiver. The response to an event has the status that `status` returns for the event's sequence. Default: 200. */
async function serveReceiver(test_end: TestEnd, status: (sequence: number) => number = () => 200) {
  const received: { body: string; headers: Record<string, string>; method: string | undefined }[] = []
  const server = await serve(test_end, (request, response, body) => {
    received.push({ body, headers: request.headers as Record<string, string>, method: request.method })
    response
      .writeHead(status((JSON.parse(body) as Event).sequence), { location: '/elsewhere' })
      .end('received')
  })
  const sequences = () => received.map(({ body }) => (JSON.parse(body) as Event).sequence)
  return { ...server, hook: `${server.url}/hook`, received, sequences }
}

async function listen({ onTestFinished }: TestEnd, args: string[], env: Record<string, string> = {}) {
  const running = await startProcess(FILE, {
    args,
    env: { SLUICE_API_KEY: KEY, DATA_DIR: '/nowhere', ...env },
    ready: 'Signing secret: ',
  })
  onTestFinished(async () => void (await running.end()))
  return { ...running, secret: running.ready.replace('Signing secret: ', '') }
}

// The tests run concurrently: each test has its own servers and processes.
test.concurrent('new events are posted with the signature of a delivery; Ctrl-C ends the command', async (test_end) => {
  const feed = await serveFeed(test_end, eventsUpTo(3))
  const receiver = await serveReceiver(test_end)
  const running = await listen(test_end, ['--forward-to', receiver.hook, '--url', feed.url])
  await feed.awaitRequestAfter(3)
  feed.add(eventOf(4, 'refund.succeeded'))
  const line = await running.waitForLine('refund.succeeded')
  expect(line).toMatch(/^\d\d:\d\d:\d\d {2}refund\.succeeded +4 {2}200 {2}\d+ ms$/)
  expect(receiver.received).toHaveLength(1)

  const [{ body, headers, method }] = receiver.received as [(typeof receiver.received)[0]]
  const { id, type, created_at: timestamp, sequence, data } = eventOf(4, 'refund.succeeded')
  expect(body).toBe(
    JSON.stringify({
      id,
      type,
      timestamp,
      sequence,
      tenant_id: TENANT,
      livemode: true,
      data: { ...data, livemode: true },
    }),
  )
  expect([method, headers['user-agent'], headers['content-type'], headers['webhook-id']]).toEqual([
    'POST',
    'Sluice-Webhooks/1',
    'application/json',
    id,
  ])
  expect(new Webhook(running.secret).verify(body, headers)).toMatchObject({ sequence: 4 })
  expect(new Set(feed.requests.map(({ key }) => key))).toEqual(new Set([KEY]))

  await feed.awaitRequestAfter(4)
  expect(await running.end('SIGINT')).toEqual({ code: 0, signal: null })
})

test.concurrent('with --after the command starts after the given event, and the command itself filters several types', async (test_end) => {
  const feed = await serveFeed(test_end, [
    eventOf(1, 'payment.created'),
    eventOf(2, 'payment.created'),
    eventOf(3, 'customer.created'),
    eventOf(4, 'refund.created'),
    eventOf(5, 'refund.failed'),
    eventOf(6, 'payment.failed'),
  ])
  const receiver = await serveReceiver(test_end)
  const types = ['--types', 'payment.*, refund.created']
  const running = await listen(test_end, [
    '--forward-to',
    receiver.hook,
    '--url',
    feed.url,
    '--after',
    '1',
    ...types,
  ])
  await feed.awaitRequestAfter(6)
  expect(receiver.sequences()).toEqual([2, 4, 6])
  expect(feed.requests.every(({ query }) => query['type'] === undefined)).toBe(true)
  await running.end('SIGTERM')
})

test.concurrent('the API applies the filter if the command filters a single type', async (test_end) => {
  const feed = await serveFeed(test_end, [eventOf(1, 'customer.created'), eventOf(2, 'payment.created')])
  const receiver = await serveReceiver(test_end)
  await listen(test_end, [
    '--forward-to',
    receiver.hook,
    '--url',
    feed.url,
    '--after',
    '0',
    '--types',
    'payment.*',
  ])
  await feed.awaitRequestAfter(2)
  expect(receiver.sequences()).toEqual([2])
  expect(feed.requests.map(({ query }) => query['type'])).toEqual(['payment.*', 'payment.*'])
})

test.concurrent.for<[string, number, Event[]]>([
  ['an empty feed', 0, []],
  ['a feed of one event', 1, eventsUpTo(1)],
  ['a long feed', LONG_FEED_LENGTH, eventsUpTo(LONG_FEED_LENGTH)],
  ['a feed whose old events are erased', 777, eventsUpTo(777, 300)],
])('the command finds the newest event of %s with one request', async ([_name, newest, events], test_end) => {
  const feed = await serveFeed(test_end, events)
  const running = await listen(test_end, ['--forward-to', 'http://127.0.0.1:9/hook', '--url', feed.url])
  expect(running.output()).toContain(
    `The events of ${feed.url} after sequence ${newest} are forwarded to http://127.0.0.1:9/hook`,
  )
  await feed.awaitRequestAfter(newest)
  expect(feed.requests).toHaveLength(2)
})

test.concurrent('a position after lost events ends the command with both sequences', async (test_end) => {
  const feed = await serveFeed(test_end, eventsUpTo(4))
  const args = ['--forward-to', 'http://127.0.0.1:9/hook', '--url', feed.url, '--after', '6']
  const { code, stderr } = await runHere(listenCommand, args, { SLUICE_API_KEY: KEY, DATA_DIR: '/nowhere' })
  expect([code, stderr]).toEqual([
    1,
    `${feed.url} has no such event (409 feed_restarted: There is no event above 4 and below 5.) Use --after 4, or no --after.\n`,
  ])
})

test.concurrent('the command posts all events of a long feed once and in order', async (test_end) => {
  const feed = await serveFeed(test_end, eventsUpTo(250))
  const receiver = await serveReceiver(test_end)
  const running = await listen(test_end, ['--forward-to', receiver.hook, '--url', feed.url, '--after', '0'])
  await feed.awaitRequestAfter(250)
  expect(running.output()).not.toContain('Warning')
  expect(receiver.sequences()).toEqual(eventsUpTo(250).map(({ sequence }) => sequence))
})

test.concurrent('a refused, redirected or unanswered event is shown and not sent again, and the next event follows', async (test_end) => {
  const feed = await serveFeed(test_end, eventsUpTo(3))
  const receiver = await serveReceiver(test_end, (sequence) => [500, 302, 200][sequence - 1]!)
  const running = await listen(test_end, ['--forward-to', receiver.hook, '--url', feed.url, '--after', '0'])
  expect(await running.waitForLine(' 1  500 ')).toMatch(/ms$/)
  expect(await running.waitForLine(' 2  302 ')).toMatch(/ms$/)
  expect(await running.waitForLine(' 3  200 ')).toMatch(/ms$/)
  expect(receiver.sequences()).toEqual([1, 2, 3])
  await receiver.close()
  feed.add(eventOf(4))
  expect(await running.waitForLine(' 4  no answer: ECONNREFUSED')).toMatch(/ms$/)
  await feed.awaitRequestAfter(4)
})

test.concurrent('the command requests again while the API is unavailable, and each event is posted once', async (test_end) => {
  const feed = await serveFeed(test_end, eventsUpTo(2))
  const receiver = await serveReceiver(test_end)
  const running = await listen(test_end, ['--forward-to', receiver.hook, '--url', feed.url, '--after', '0'])
  await feed.awaitRequestAfter(2)
  await feed.close()
  await running.waitForLine(`${feed.url} does not answer (`)
  const broken = await serve(test_end, (_request, response) => void response.writeHead(503).end(), feed.port)
  await running.waitForLine(`${feed.url} cannot answer (503); trying again.`)
  await broken.close()
  const back = await serveFeed(test_end, eventsUpTo(5), feed.port)
  await running.waitForLine(`${feed.url} answers again.`)
  await back.awaitRequestAfter(5)
  expect(receiver.sequences()).toEqual([1, 2, 3, 4, 5])
})

test.concurrent('an API that answers without waiting receives only a few requests', async (test_end) => {
  let request_count = 0
  const api = await serve(test_end, (_request, response) => {
    request_count += 1
    response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
  })
  await listen(test_end, ['--forward-to', 'http://127.0.0.1:9/hook', '--url', api.url, '--after', '0'])
  await until('the command repeats its request', () => request_count > 1)
  await sleep(500)
  expect(request_count).toBeLessThan(5)
})

test.concurrent('the command truncates a large event to its id', async (test_end) => {
  const large = eventOf(1, 'ai_task.succeeded', { output: 'é'.repeat(10_000) })
  const feed = await serveFeed(test_end, [large])
  const receiver = await serveReceiver(test_end)
  await listen(test_end, ['--forward-to', receiver.hook, '--url', feed.url, '--after', '0'])
  await feed.awaitRequestAfter(1)
  const { data, tenant_id } = JSON.parse(receiver.received[0]!.body) as Event & { tenant_id: string }
  expect([data, tenant_id]).toEqual([{ id: large.data.id, truncated: true }, TENANT])
})

test.concurrent('the signing secret is the value of --secret, or depends on the API key alone', async (test_end) => {
  const feed = await serveFeed(test_end)
  const args = ['--forward-to', 'http://127.0.0.1:9/hook', '--url', feed.url]
  const given = newWebhookSecret()
  const [first, same_key, other_key, with_secret] = await Promise.all([
    listen(test_end, args),
    listen(test_end, [...args, '--key', KEY], { SLUICE_API_KEY: 'not-this' }),
    listen(test_end, args, { SLUICE_API_KEY: `${KEY}2` }),
    listen(test_end, [...args, '--secret', given]),
  ])
  expect(first.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect([same_key.secret, with_secret.secret]).toEqual([first.secret, given])
  expect(other_key.secret).not.toBe(first.secret)
})

test.concurrent('--url and --key default to the values in the data folder of the local start', async (test_end) => {
  const folder = await createTemporaryFolder()
  test_end.onTestFinished(folder.remove)
  const feed = await serveFeed(test_end)
  await mkdir(join(folder.path, '.data'))
  const dev = JSON.stringify({ api_url: feed.url, api_key: 'sk_live_demo_key' })
  await writeFile(join(folder.path, '.data/dev.json'), dev)
  await listen(test_end, ['--forward-to', 'http://127.0.0.1:9/hook'], {
    SLUICE_API_KEY: '',
    DATA_DIR: join(folder.path, '.data'),
  })
  expect(feed.requests[0]!.key).toBe('sk_live_demo_key')
})

const TO = ['--forward-to', 'http://127.0.0.1:9/hook']

test.concurrent.each([
  [[], '--forward-to is missing. See --help.\n'],
  [['--forward-to', 'localhost:4000'], '--forward-to must be an http or https URL'],
  [['--forward-to', 'http://me:secret@localhost/'], '--forward-to must not contain a user or a password'],
  [[...TO, '--url', 'ftp://x'], '--url must be an http or https URL'],
  [
    [...TO, '--types', 'payment.paid'],
    '--types: `payment.paid` is not an event type. There are *, customer.*,',
  ],
  [
    [...TO, '--types', 'payment.capturd'],
    '--types: `payment.capturd` is not an event type; did you mean `payment.captured`? There are *, ',
  ],
  [[...TO, '--types', 'dispute.*'], '--types: `dispute.*` is not an event type'],
  [[...TO, '--types', ','], '--types: name at least one'],
  [[...TO, '--after', 'x'], '--after must be the sequence of an event, or 0'],
  [[...TO, '--secret', 'whsec_short'], '--secret must be whsec_ and 24 to 64 bytes in base64'],
  [[...TO, '--key', 'a b'], 'The value of --key is not an API key.'],
  [
    [...TO, '--after', '-1'],
    '--after needs a value. One that begins with a dash is written --after=-x. See --help.\n',
  ],
  [[...TO, '--after=-1'], '--after must be the sequence of an event, or 0'],
  [[...TO, '--after'], '--after needs a value. See --help.\n'],
  [[...TO, '--help=x'], '--help takes no value. See --help.\n'],
  [[...TO, '--retry'], 'There is no option --retry. See --help.'],
  [[...TO, 'more'], 'See --help.'],
] as const)('invalid arguments %j are refused with exit code 2', async (args, message) => {
  const result = await runHere(listenCommand, [...args], { SLUICE_API_KEY: KEY })
  expect(result).toEqual({ code: 2, stdout: '', stderr: expect.stringContaining(message) })
})

test.concurrent('a missing API key is refused, and the error names the places where a key can be set', async () => {
  const result = await runHere(listenCommand, TO, { DATA_DIR: '/nowhere' })
  expect([result.code, result.stderr]).toEqual([
    2,
    'There is no API key: no Sluice runs in /nowhere, and neither SLUICE_API_KEY nor --key is set. See --help.\n',
  ])
})

test.concurrent.for<[number, string, string]>([
  [401, 'unauthorized', 'refuses the key of SLUICE_API_KEY (401 unauthorized: '],
  [403, 'missing_scope', 'The key of SLUICE_API_KEY may not read events (403 missing_scope: '],
  [404, 'route_not_found', 'is not the API of Sluice (404 route_not_found: '],
  [
    500,
    'misconfigured_gateway',
    'has no events: the area is not deployed there (500 misconfigured_gateway: ',
  ],
])('the response %i %s ends the command with exit code 1', async ([status, code, message], test_end) => {
  const api = await serve(test_end, (_request, response) => {
    response.writeHead(status).end(JSON.stringify({ error: { code, message: 'Because.\u001B[2J' } }))
  })
  const result = await runHere(listenCommand, [...TO, '--url', api.url], { SLUICE_API_KEY: KEY })
  expect(result).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining(message) })
  expect(result.stderr).not.toContain('\u001B')
})

test.concurrent('each type in the list that the error about --types shows matches an event type', async () => {
  const { stderr } = await runHere(listenCommand, [...TO, '--types', 'nothing'], { SLUICE_API_KEY: KEY })
  const offered = stderr.split('There are ')[1]!.trim().split(', ')
  expect(offered.filter((type) => matchEventTypes(type).length === 0)).toEqual([])
  expect(offered.flatMap(matchEventTypes)).toContain('webhook_endpoint.disabled')
})

test.concurrent('a query that the API rejects ends the command with exit code 2', async (test_end) => {
  const api = await serve(test_end, (_request, response) => {
    const error = { code: 'invalid_request', message: 'type `payment.refined` is not an event type.' }
    response.writeHead(400).end(JSON.stringify({ error }))
  })
  const args = [...TO, '--url', api.url, '--after', '0', '--types', 'payment.captured']
  const result = await runHere(listenCommand, args, { SLUICE_API_KEY: KEY })
  expect([result.code, result.stderr]).toEqual([
    2,
    `${api.url} rejects the query (400 invalid_request: type \`payment.refined\` is not an event type.). See --help.\n`,
  ])
})

test.concurrent('a server that is not the API of Sluice is reported', async (test_end) => {
  const page = await serve(
    test_end,
    (_request, response) => void response.writeHead(200).end('<h1>It works!</h1>'),
  )
  const result = await runHere(listenCommand, [...TO, '--url', page.url], { SLUICE_API_KEY: KEY })
  expect([result.code, result.stderr]).toEqual([
    1,
    `${page.url} answers, but is not the API of Sluice. See --url.\n`,
  ])
})

test.concurrent('--help lists all options', async () => {
  const { code, stdout } = await runHere(listenCommand, ['--help'])
  expect(code).toBe(0)
  for (const option of ['forward-to', 'types', 'after', 'key', 'url', 'secret'])
    expect(stdout).toContain(`\n--${option} `)
})
