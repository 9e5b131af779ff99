// Floods: one key fills each queue that a caller can fill. Excess requests must be refused with the name of the full
// queue, another tenant must be answered, and requests of disconnected callers must not fill the queue.
import { setTimeout as sleep } from 'node:timers/promises'
import { freshKey, type Answer, type Client } from '#test/client.ts'
import { openUnfinished, type RawAnswer } from '#test/raw.ts'
import type { ScenarioResult } from './scenarios/recording-client.ts'
import type { Target } from './target.ts'
import { inAnHour, UNREACHABLE_URL } from './fixtures.ts'
import { asCommand, binary, bytesOf, send, type Sent } from './wire.ts'

export type Flood = {
  name: string
  /** Number of concurrent requests. */
  requests: number
  /** Matches the error texts of requests that are refused because the queue is full. */
  full: RegExp
  /** Other allowed statuses besides 2xx, 429 and 503. */
  ignored_statuses?: number[]
  /** The target URL. Default: the API. Null: it cannot be reached. */
  urlOf?: (target: Target) => string | null
  /** Creates what the requests need and returns the request with this index. */
  prepare: (client: Client) => Promise<(nth: number) => Sent>
  /** A concurrent request of another tenant. */
  neighbour?: (client: Client) => Promise<Answer>
}

/** Refusals that any request may get. */
const FULL_ANYWHERE = /process is too busy|statements wait|database is overloaded|Too many connections/
/** Node's heap has 512 MiB; the rest is for threads, buffers and code. */
const MAX_MEMORY_BYTES = 1024 ** 3
const POLL_INTERVAL_MS = 200
/** A repeated request must succeed within this time. */
const TIMEOUT_MS = 10_000
const RETRY_DELAY_MS = 250
const MAX_COMMAND_BODY_LENGTH = 10_000
const MEBIBYTE = 1024 * 1024

/** A template that takes some hundredths of a second to render. */
const SLOW = '{% for i in (1..50000) %}{% assign a = mark %}{% endfor %}x'
const slowTemplate = async (client: Client): Promise<string> => {
  const body = { name: freshKey(), channel: 'email', subject: 'x', text: SLOW, html: SLOW }
  return (await client.post('/v1/messages/templates', body)).body.id
}
const LISTS = ['customers', 'payments', 'payouts', 'messages', 'disputes', 'events']

export const FLOODS: Flood[] = [
  {
    name: 'previews',
    requests: 1_500,
    full: /templates wait|Templates cannot be rendered/,
    async prepare(client) {
      const id = await slowTemplate(client)
      const rest = 'x'.repeat(20_000)
      return (nth) => post(client, `/v1/messages/templates/${id}/preview`, { variables: { mark: nth, rest } })
    },
    async neighbour(client) {
      const body = { name: freshKey(), channel: 'sms', body: 'Hello {{ name }}' }
      const { id } = (await client.post('/v1/messages/templates', body)).body
      return await client.post(`/v1/messages/templates/${id}/preview`, { variables: { name: 'Ada' } })
    },
  },
  {
    name: 'batches',
    requests: 120,
    full: /templates|large messages|replayed batches/,
    async prepare(client) {
      const template = await slowTemplate(client)
      return (nth) => {
        const messages = Array.from({ length: 4 }, () => ({
          idempotency_key: freshKey(),
          template,
          variables: { mark: nth },
          to: ['flooded@example.com'],
          send_at: inAnHour(),
        }))
        return post(client, '/v1/messages/email/batch', { messages })
      }
    },
  },
  {
    name: 'large messages',
    requests: 40,
    full: /large/,
    ignored_statuses: [408],
    prepare: (client) => {
      const content = 'x'.repeat(2 * MEBIBYTE)
      const message = { to: ['flooded@example.com'], subject: 'Large', text: 'Large' }
      const attachments = [{ filename: 'x.txt', content_type: 'text/plain', content }]
      return Promise.resolve(() =>
        post(client, '/v1/messages/email', {
          idempotency_key: freshKey(),
          ...message,
          attachments,
          send_at: inAnHour(),
        }),
      )
    },
  },
  {
    name: 'lists',
    requests: 800,
    full: /lists/,
    prepare: (client) =>
      Promise.resolve((nth) => request(client, 'GET', `/v1/${LISTS[nth % LISTS.length]!}?limit=100`)),
    neighbour: (client) => client.get('/v1/customers?limit=1'),
  },
  {
    name: 'waits for events',
    requests: 80,
    full: /wait for events|lists/,
    async prepare(client) {
      let after = 0
      for (;;) {
        const events = (await client.get(`/v1/events?limit=100&after=${after}`)).body as {
          sequence: number
        }[]
        if (events.length === 0) break
        after = events.at(-1)!.sequence
      }
      return () => request(client, 'GET', `/v1/events?after=${after}`, { prefer: 'wait=2' })
    },
  },
  {
    name: 'bodies without an end',
    requests: 400,
    full: /bodies/,
    ignored_statuses: [408],
    prepare: (client) => {
      const body = JSON.stringify({ name: 'x'.repeat(220_000) }).slice(0, -1)
      const sent = request(client, 'POST', '/v1/customers', JSON_BODY, body)
      return Promise.resolve(() => ({ ...sent, framing: 'endless' as const }))
    },
  },
  {
    name: 'creates',
    requests: 1_000,
    full: /too many requests wait/,
    prepare: (client) => {
      const metadata = { rest: 'x'.repeat(8_000) }
      return Promise.resolve(() =>
        post(client, '/v1/customers', { idempotency_key: freshKey(), name: 'Ada', metadata }),
      )
    },
  },
  {
    name: 'changes of endpoints',
    requests: 500,
    full: /changes of webhook endpoints/,
    async prepare(client) {
      const body = { idempotency_key: freshKey(), url: UNREACHABLE_URL, types: ['payout.canceled'] }
      const created = await client.post('/v1/webhook_endpoints', body)
      const id = created.body.id ?? (await client.get('/v1/webhook_endpoints?limit=1')).body[0].id
      return (nth) =>
        request(client, 'PATCH', `/v1/webhook_endpoints/${id}`, JSON_BODY, `{"description":"${nth}"}`)
    },
  },
  {
    name: 'links to a verification',
    requests: 60,
    full: /links to this verification/,
    async prepare(client) {
      const person = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
      const subject = { subject_type: 'customer', subject_id: person.body.id }
      const pending = { idempotency_key: freshKey(), ...subject }
      const { id } = (await client.post('/v1/compliance/kyc', pending, { prefer: 'wait=10' })).body
      return () => post(client, `/v1/compliance/kyc/${id}/link`, { idempotency_key: freshKey() })
    },
  },
  {
    name: 'unknown keys',
    requests: 800,
    full: /keys/,
    ignored_statuses: [401],
    prepare: (client) =>
      Promise.resolve((nth) => {
        const key = client.key.slice(0, -6) + String(nth).padStart(6, '0')
        return request({ ...client, key }, 'GET', '/v1/customers')
      }),
  },
  {
    name: 'notifications',
    requests: 120,
    full: /bodies|notifications/,
    ignored_statuses: [400, 408],
    urlOf: ({ webhooks }) => webhooks?.url ?? null,
    prepare: (client) => Promise.resolve(() => post(client, '/stripe', { rest: 'x'.repeat(MEBIBYTE - 100) })),
  },
]

const JSON_BODY = { 'content-type': 'application/json' }

function request(
  { key }: Pick<Client, 'key'>,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body: string | null = null,
): Sent {
  return {
    operation: `${method} ${path}`,
    method,
    target: path,
    headers: Object.entries({ authorization: `Bearer ${key}`, ...headers }),
    body: body === null ? null : binary(body),
    framing: 'length',
  }
}

function post(client: Client, path: string, body: object): Sent {
  return request(client, 'POST', path, JSON_BODY, JSON.stringify(body))
}

/**
 * Runs this share of the flood's requests: first with clients that wait for their answers, then with clients that
 * disconnect.
 */
export async function flood(
  target: Target,
  of: Flood,
  share: number,
): Promise<ScenarioResult & { statuses: number[] }> {
  const url = of.urlOf === undefined ? target.url : of.urlOf(target)
  if (url === null) return { problems: [], commands: [], statuses: [] }
  const requests = Math.ceil(of.requests * share)
  const requestOf = await of.prepare(target.client)
  const problems = new Set<string>()
  const isGood = (status: number) =>
    (status >= 200 && status < 300) || of.ignored_statuses?.includes(status) === true

  const finished = new AbortController()
  const pending = Array.from({ length: requests }, (_, nth) => send(url, requestOf(nth)))
  const answered = Promise.all(pending).finally(() => finished.abort())
  const other_checks = (async () => {
    do await checkOtherTenant()
    while (!finished.signal.aborted)
  })()
  const memory = (async () => {
    do {
      // An ended process has no metrics.
      const bytes = await target.memory().catch(() => 0)
      if (bytes > MAX_MEMORY_BYTES) problems.add(`the API used ${Math.round(bytes / MEBIBYTE)} MiB of memory`)
      await sleep(POLL_INTERVAL_MS)
    } while (!finished.signal.aborted)
  })()
  const answers = await answered
  await Promise.all([other_checks, memory])
  for (const answer of answers) if (!isGood(answer.status)) judge(answer)

  const unfinished = openUnfinished(url, requests, bytesOf(url, requestOf(requests)))
  await checkOtherTenant()
  await unfinished.reset()
  await checkAnswered(
    'a request after the disconnected ones',
    async () => (await send(url, requestOf(requests + 1))).status,
    isGood,
  )
  return {
    problems: [...problems],
    commands:
      (requestOf(0).body?.length ?? 0) > MAX_COMMAND_BODY_LENGTH ? [] : [asCommand(url, requestOf(0))],
    statuses: answers.map(({ status }) => status),
  }

  function judge({ status, body, text, headers }: RawAnswer): void {
    if (status !== 429 && status !== 503)
      return void problems.add(`unexpected answer ${status} ${text.slice(0, 300)}`)
    const { code, message = '' }: { code?: string; message?: string } = body?.error ?? {}
    if (code !== 'timeout' && !of.full.test(message) && !FULL_ANYWHERE.test(message))
      problems.add(`a refusal does not name the full queue: ${status} ${message}`)
    if (!headers.has('retry-after')) problems.add(`a refusal has no retry-after: ${message}`)
  }

  async function checkOtherTenant(): Promise<void> {
    const { neighbour } = target
    if (neighbour === null) return
    const attempt = of.neighbour ?? ((client: Client) => client.get('/v1/customers?limit=1'))
    await checkAnswered(
      'another tenant',
      async () => (await attempt(neighbour)).status,
      (status) => status === 200,
    )
  }

  async function checkAnswered(
    caller: string,
    attempt: () => Promise<number>,
    isAnswered: (status: number) => boolean,
  ): Promise<void> {
    const late_at = performance.now() + TIMEOUT_MS
    for (;;) {
      const status = await attempt().catch(() => 0)
      if (isAnswered(status)) return
      if (performance.now() > late_at)
        return void problems.add(`${caller} is still answered with ${status} after ${TIMEOUT_MS / 1000} s`)
      await sleep(RETRY_DELAY_MS)
    }
  }
}
