// Webhook endpoints of tests, and receivers with scripted answers.
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { freshKey, type Client } from './client.ts'
import { httpAnswer, openReceiver, type TestReceiver } from './receiver.ts'
import type { World } from './world.ts'

/** Permits deliveries to the loopback address, on which the receivers of tests listen. */
export const LOOPBACK = { WEBHOOKS_ALLOW_CIDRS: '127.0.0.0/8' }

export type ReceivedRequest = {
  headers: Record<string, string>
  text: string
  body: { id: string; type: string; sequence: number | null; tenant_id: string; timestamp: string; data: any }
}

/** A status, a status with headers, or `hold`: the receiver does not answer until `release` is called. */
type Reply = number | { status: number; headers?: Record<string, string> } | 'hold'

export type TestHook = {
  url: string
  /** The requests in the order of their arrival. */
  arrived: ReceivedRequest[]
  /** The count of unanswered requests: at this moment, and the maximum so far. */
  open: { now: number; most: number }
  /** Answers the held requests with this status. */
  release(status: number): void
  close: TestReceiver['close']
}

/** Opens a receiver. `reply` is called for each request. `nth` counts the requests of the same event from 0. */
export async function openHook(
  reply: (nth: number, arrived: ReceivedRequest) => Reply = () => 204,
): Promise<TestHook> {
  const arrived: ReceivedRequest[] = []
  const open = { now: 0, most: 0 }
  const blocked: ((status: number) => void)[] = []
  const receiver = await openReceiver((socket, request) => {
    const one = parsed(request)
    const nth = arrived.filter(({ headers }) => headers['webhook-id'] === one.headers['webhook-id']).length
    arrived.push(one)
    open.now += 1
    open.most = Math.max(open.most, open.now)
    const answer = (status: number, headers: Record<string, string> = {}) => {
      open.now -= 1
      socket.write(httpAnswer(status, `answer of ${status}`, headers))
    }
    const scripted = reply(nth, one)
    if (scripted === 'hold') blocked.push(answer)
    else if (typeof scripted === 'number') answer(scripted)
    else answer(scripted.status, scripted.headers)
  })
  return {
    url: `http://127.0.0.1:${receiver.port}/hook`,
    arrived,
    open,
    release: (status) => blocked.splice(0).forEach((answer) => answer(status)),
    close: () => receiver.close(),
  }
}

function parsed(request: string): ReceivedRequest {
  const end = request.indexOf('\r\n\r\n')
  const [, ...lines] = request.slice(0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
  )
  const text = Buffer.from(request.slice(end + 4), 'latin1').toString('utf8')
  return { headers, text, body: JSON.parse(text) as ReceivedRequest['body'] }
}

/** Creates an endpoint. Returns the endpoint as in the response, with its secret. */
export async function registerEndpoint(client: Client, fields: object): Promise<any> {
  const { status, body, text } = await client.post('/v1/webhook_endpoints', {
    idempotency_key: freshKey(),
    types: ['*'],
    ...fields,
  })
  if (status !== 201) throw new Error(`the endpoint was not created: ${text}`)
  return body
}

/** Throws unless both libraries accept the signature. */
export function verifyWithBothLibraries({ text, headers }: ReceivedRequest, secret: string): void {
  new Webhook(secret).verify(text, headers)
  new SvixWebhook(secret).verify(text, headers)
}

/** Makes all scheduled deliveries due. */
export async function makeDeliveriesDue({ sql }: World): Promise<void> {
  await sql`update webhook_due set due_at = now() where due_at > now()`
}

/** Makes scheduled deliveries due every 20 ms, until the condition is true. */
export async function makeDeliveriesDueUntil(world: World, holds: () => boolean): Promise<void> {
  while (!holds()) {
    await makeDeliveriesDue(world)
    await sleep(20)
  }
}

/** Resolves when this many requests have arrived. */
export async function untilArrived(hook: TestHook, count: number): Promise<void> {
  while (hook.arrived.length < count) await sleep(10)
}

/** The deliveries of an endpoint, oldest first, each with its attempts. */
export async function deliveriesOf(client: Client, endpoint_id: string): Promise<any[]> {
  const { body } = await client.get(`/v1/webhook_endpoints/${endpoint_id}/deliveries?limit=100`)
  const answers = await Promise.all(
    body.map(({ id }: { id: string }) => client.get(`/v1/webhook_deliveries/${id}`)),
  )
  return answers.map((answer) => answer.body).toReversed()
}

/** Creates a customer, which creates one event. Returns its id. */
export async function createEvent(client: Client, fields: object = {}): Promise<string> {
  const { body } = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada', ...fields })
  return body.id as string
}
