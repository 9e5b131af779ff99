// A TCP proxy between two processes. A test can delay, freeze or cut its connections.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export type Proxy = {
  /** `url` of the server, with the proxy's address in place of the server's. */
  url: string
  /**
   * Withholds the answers on each connection from the first request that contains one of `texts`: the server processes
   * this request and later ones, and the client gets no response. Without texts: ends the connections whose
   * answers are withheld, and passes answers again.
   */
  withholdAnswersTo(...texts: string[]): void
  /** Open connections stay open and pass no data, as if a machine had vanished. New connections work. */
  freeze(): void
  /** Number of frozen connections that are still open. */
  frozen(): number
  /**
   * Drops requests that contain `text`, with everything that follows on their connections. Null: ends those connections
   * and drops nothing more.
   */
  swallow(text: string | null): void
  /** Delays all traffic by this time; 0: no delay. */
  delay(ms: number): void
  /** Answers all later requests instead of the server; null: the server answers. Ends all open connections. */
  answerWith(answer: ((request: Buffer) => string) | null): void
  /** Replaces `text` in answers by a text of the same length; null: no replacement. */
  replaceInAnswers(text: string | null, by?: string): void
  /** Ends all connections. New connections work. */
  cut(): void
  /** Forwards to the server of this URL from now on. Open connections stay at the previous server. */
  forwardTo(url: string): void
  /** Ends all connections, and each new one at once, as if the server were down; false: new connections work. */
  refuse(refuses: boolean): void
  /** The number of connections that clients have opened, including refused ones. */
  opened(): number
  /** Keeps all data, also on connections that are opened meanwhile; false: passes the data on. */
  pause(pauses: boolean): void
  close(): Promise<void>
}

/** Listens on a free port and forwards to the server of `url`. */
export async function startProxy(url: string): Promise<Proxy> {
  let target = new URL(url)
  const sockets = new Set<Socket>()
  const freezers = new Set<() => void>()
  const silent = new Set<Socket>()
  let withheld_texts: string[] = []
  let swallowed: string | null = null
  /** Connections whose withheld data never arrives. */
  const stalled = new Set<Socket>()
  let delay_ms = 0
  let [refuses, pauses] = [false, false]
  let opened = 0
  const delayMs = () => delay_ms
  let answerer: ((request: Buffer) => string) | null = null
  let replaced: [text: string, by: string] | null = null

  const server = createServer((client) => {
    opened += 1
    if (refuses) client.destroy()
    const answer = answerer
    if (answer !== null) return answerAll(client, answer, sockets)
    const upstream = connect({ host: target.hostname, port: Number(target.port) })
    let withheld = false
    let frozen = false
    const freeze = () => {
      frozen = true
      silent.add(client)
    }
    const [forwardRequest, forwardAnswer] = [carrier(upstream, delayMs), carrier(client, delayMs)]
    freezers.add(freeze)
    client.on('close', () => {
      freezers.delete(freeze)
      silent.delete(client)
      stalled.delete(client)
    })
    join(client, upstream, sockets)
    client.on('data', (data) => {
      if (withheld_texts.some((text) => data.includes(text))) {
        withheld = true
        stalled.add(client)
      }
      if (swallowed !== null && data.includes(swallowed)) {
        frozen = true
        stalled.add(client)
      }
      if (!frozen) forwardRequest(data)
    })
    upstream.on('data', (data: Buffer) => {
      const answer =
        replaced === null ? data : Buffer.from(data.toString('latin1').replaceAll(...replaced), 'latin1')
      if (!withheld && !frozen) forwardAnswer(answer)
    })
    if (pauses) pauseAll([client, upstream], true)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const cut = () => sockets.forEach((socket) => void socket.destroy())
  const endStalled = () => stalled.forEach((socket) => void socket.destroy())
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    withholdAnswersTo(...texts) {
      withheld_texts = texts
      if (texts.length === 0) endStalled()
    },
    freeze() {
      for (const freeze of freezers) freeze()
    },
    frozen: () => silent.size,
    swallow(text) {
      swallowed = text
      if (text === null) endStalled()
    },
    delay(ms) {
      delay_ms = ms
    },
    answerWith(answer) {
      answerer = answer
      cut()
    },
    replaceInAnswers(text, by = '') {
      replaced = text === null ? null : [text, by]
    },
    cut,
    forwardTo: (other_url) => void (target = new URL(other_url)),
    refuse(now_refuses) {
      refuses = now_refuses
      if (refuses) cut()
    },
    opened: () => opened,
    pause: (now_pauses) => pauseAll(sockets, (pauses = now_pauses)),
    async close() {
      server.close()
      cut()
      await once(server, 'close')
    },
  }
}

function pauseAll(sockets: Iterable<Socket>, pauses: boolean): void {
  for (const socket of sockets) void (pauses ? socket.pause() : socket.resume())
}

/** Answers all requests of a client in place of the server. */
function answerAll(client: Socket, answer: (request: Buffer) => string, sockets: Set<Socket>): void {
  sockets.add(client)
  client.on('error', () => {})
  client.on('close', () => sockets.delete(client))
  client.on('data', (data: Buffer) => client.write(answer(data)))
}

/** Ends each socket when the other ends, and keeps the open ones in `sockets`. */
function join(client: Socket, upstream: Socket, sockets: Set<Socket>): void {
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    sockets.add(one)
    one.setNoDelay(true)
    one.on('error', () => {})
    one.on('close', () => {
      sockets.delete(one)
      other.destroy()
    })
  }
}

/** Forwards the data of one direction of a connection, in order, each part delayed by `delayMs()` from its arrival. */
function carrier(to: Socket, delayMs: () => number): (data: string | Buffer) => void {
  const waiting: { data: string | Buffer; due: number }[] = []
  function pump(): void {
    while (waiting.length > 0) {
      const left_ms = waiting[0]!.due - performance.now()
      if (left_ms > 0) return void setTimeout(pump, left_ms)
      to.write(waiting.shift()!.data)
    }
  }
  return (data) => {
    waiting.push({ data, due: performance.now() + delayMs() })
    if (waiting.length === 1) pump()
  }
}
