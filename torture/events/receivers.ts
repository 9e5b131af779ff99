// Receivers of events on real sockets: one that takes everything, and one that fails now and then in every way. They write
// down what came, when, and what they answered.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import type { Problem } from '#test/invariants.ts'
import { HOST } from '#test/environment.ts'
import type { Random } from '../random.ts'
import { misbehave, RESET_UNREAD, BEHAVIOR_PROBABILITIES, type Behavior } from './receiver-behavior.ts'

/** An endpoint as a receiver knows it; its name is the path of its URL. */
export type ReceiverEndpoint = {
  name: string
  id: string
  tenant_id: string
  types: string[]
  ordered: boolean
  /** Any of them may sign. */
  secrets: string[]
  /** From then on, on the clock of `performance.now()`, all that arrives is signed by its secrets. */
  verified_from: number
}

/** A request that was read. Clock: `performance.now()`. */
export type Arrival = {
  /** The name of its endpoint. */
  endpoint: string
  event_id: string
  /** When its head was there. */
  at: number
  /** When it was answered 2xx; null: it was not. */
  accepted_at: number | null
}

export type Receivers = {
  url: Record<'good' | 'bad', string>
  endpoints: Map<string, ReceiverEndpoint>
  arrivals: Arrival[]
  /** The first body that came of each event. */
  bodies: Map<string, string>
  problems: Problem[]
  /** Resolves with the id of the next event for this endpoint when it has come; it is not answered. */
  withholdAnswer(endpoint: string): Promise<string>
  /** The good one refuses connections while this is done. */
  whileDown(work: () => Promise<unknown>): Promise<void>
  /** From now on the bad one takes everything, too. */
  acceptAll(): void
  close(): Promise<void>
}

const REDIRECT_PATH = '/redirected'

/** Starts both. */
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
    // It broke off, as whoever sent it was killed.
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
      response.end('{"taken":true}')
    } else await misbehave(behavior, { response, accept, redirect_url: `${url.good}${REDIRECT_PATH}` })
  }

  function check(arrival: Arrival, { headers, method }: IncomingMessage, body: string): void {
    const { endpoint, event_id } = arrival
    const known = endpoints.get(endpoint)
    // The secret of an answer that was lost is known to nobody, and may still sign what is on its way.
    const judged = known !== undefined && performance.now() >= known.verified_from
    const signed = known?.secrets.some((secret) => verifies(secret, headers, body)) === true
    if ((judged && !signed) || method !== 'POST')
      problems.push({ problem: 'an event arrived that is not signed by us', endpoint, event_id, headers })
    const before = bodies.get(event_id)
    if (before === undefined) bodies.set(event_id, body)
    else if (before !== body)
      problems.push({ problem: 'an event arrived again with another body', endpoint, event_id, before, body })
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

/** Answers the port. Somebody may have the port for a moment. */
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

/** Null when it breaks off. */
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
  for (const [behavior, part] of Object.entries(BEHAVIOR_PROBABILITIES) as [Behavior, number][]) {
    sum += part
    if (chance < sum) return behavior
  }
  return 'accept'
}
