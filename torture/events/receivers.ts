// Two event receivers on real sockets: the good receiver accepts everything, the bad receiver fails at random in many
// ways. Both record arrivals and answers.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import type { Problem } from '#test/invariants.ts'
import { HOST } from '#test/environment.ts'
import type { Random } from '../random.ts'
import { misbehave, RESET_UNREAD, BEHAVIOR_PROBABILITIES, type Behavior } from './receiver-behavior.ts'

/** What a receiver stores about an endpoint. The path of the endpoint's URL is its name. */
export type ReceiverEndpoint = {
  name: string
  id: string
  tenant_id: string
  types: string[]
  ordered: boolean
  /** A signature with any of these secrets is valid. */
  secrets: string[]
  /** From this time on, requests must be signed with one of `secrets`. Clock: `performance.now()`. */
  verified_from: number
}

/** A request that was read completely. Clock: `performance.now()`. */
export type Arrival = {
  /** Name of the endpoint. */
  endpoint: string
  event_id: string
  /** When the head of the request arrived. */
  at: number
  /** When a 2xx answer was sent; null if none was sent. */
  accepted_at: number | null
}

export type Receivers = {
  url: Record<'good' | 'bad', string>
  endpoints: Map<string, ReceiverEndpoint>
  arrivals: Arrival[]
  /** The first body received for each event. */
  bodies: Map<string, string>
  problems: Problem[]
  /** Resolves with the id of the next event for this endpoint. The request with that event gets no answer. */
  withholdAnswer(endpoint: string): Promise<string>
  /** The good receiver refuses connections while `work` runs. */
  whileDown(work: () => Promise<unknown>): Promise<void>
  /** The bad receiver accepts everything from now on. */
  acceptAll(): void
  close(): Promise<void>
}

const REDIRECT_PATH = '/redirected'

/** Starts both receivers. */
export async function startReceivers(random: Random): Promise<Receivers> {
  const arrivals: Arrival[] = []
  const bodies = new Map<string, string>()
  const problems: Problem[] = []
  const endpoints = new Map<string, ReceiverEndpoint>()
  const withheld = new Map<string, (event_id: string) => void>()
  let accepts_all = false

  const good = createServer((request, response) => void receive(request, response, () => 'accept'))
  const bad = createServer(
    (request, response) =>
      void receive(request, response, () => (accepts_all ? 'accept' : pickBehavior(random))),
  )
  const port = { good: await listen(good, 0), bad: await listen(bad, 0) }
  const url = { good: `http://${HOST}:${port.good}`, bad: `http://${HOST}:${port.bad}` }

  async function receive(
    request: IncomingMessage,
    response: ServerResponse,
    chooseBehavior: () => Behavior,
  ): Promise<void> {
    const at = performance.now()
    const path = request.url ?? ''
    if (path === REDIRECT_PATH) problems.push({ problem: 'a redirect was followed' })
    const behavior = chooseBehavior()
    if (behavior === RESET_UNREAD) return void request.socket.resetAndDestroy()
    const body = await read(request)
    // The sender was killed while it sent the request.
    if (body === null) return
    const arrival: Arrival = {
      endpoint: path.slice(1),
      event_id: String(request.headers['webhook-id']),
      at,
      accepted_at: null,
    }
    arrivals.push(arrival)
    check(arrival, request, body)
    const withhold = withheld.get(arrival.endpoint)
    if (withhold !== undefined) {
      withheld.delete(arrival.endpoint)
      return withhold(arrival.event_id)
    }
    const accept = (status: number) => {
      arrival.accepted_at = performance.now()
      response.writeHead(status)
    }
    if (behavior === 'accept') {
      accept(200)
      response.end('{"accepted":true}')
    } else await misbehave(behavior, { response, accept, redirect_url: `${url.good}${REDIRECT_PATH}` })
  }

  function check(arrival: Arrival, { headers, method }: IncomingMessage, body: string): void {
    const { endpoint, event_id } = arrival
    const registered = endpoints.get(endpoint)
    // If the answer with a secret was lost, requests that were signed with that secret may still be in transit. Their
    // signatures are not checked.
    const judged = registered !== undefined && performance.now() >= registered.verified_from
    const signed = registered?.secrets.some((secret) => verifies(secret, headers, body)) === true
    if ((judged && !signed) || method !== 'POST')
      problems.push({ problem: 'an event arrived without a valid signature', endpoint, event_id, headers })
    const before = bodies.get(event_id)
    if (before === undefined) bodies.set(event_id, body)
    else if (before !== body)
      problems.push({ problem: 'a repeated event has another body', endpoint, event_id, before, body })
  }

  return {
    url,
    endpoints,
    arrivals,
    bodies,
    problems,
    withholdAnswer: (endpoint) => new Promise((resolve) => void withheld.set(endpoint, resolve)),
    async whileDown(work) {
      const closed = once(good, 'close')
      good.close()
      good.closeAllConnections()
      await closed
      try {
        await work()
      } finally {
        await listen(good, port.good)
      }
    },
    acceptAll: () => void (accepts_all = true),
    async close() {
      for (const server of [good, bad]) {
        server.close()
        server.closeAllConnections()
      }
      await Promise.resolve()
    },
  }
}

/** Returns the port. Retries while another process uses the port. */
async function listen(server: Server, port: number): Promise<number> {
  for (;;) {
    server.listen(port, HOST)
    const listening = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (listening) return (server.address() as AddressInfo).port
    await sleep(50)
  }
}

/** Returns null if the request breaks off. */
async function read(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer)
  } catch {
    return null
  }
  return Buffer.concat(chunks).toString()
}

function verifies(secret: string, headers: IncomingMessage['headers'], body: string): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>)
    return true
  } catch {
    return false
  }
}

function pickBehavior(random: Random): Behavior {
  const chance = random.next()
  let sum = 0
  for (const [behavior, probability] of Object.entries(BEHAVIOR_PROBABILITIES) as [Behavior, number][]) {
    sum += probability
    if (chance < sum) return behavior
  }
  return 'accept'
}
