// A wire between two processes, to be held or cut at the moment a test chooses.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export type Proxy = {
  /** `url` with this proxy in the place of its server. */
  url: string
  /**
   * From the first request that holds one of `texts` on, its connection carries no answers: what was asked is done and nobody
   * hears of it. Without any text: no more, and those connections end.
   */
  withholdAnswersTo(...texts: string[]): void
  /** The connections of this moment stay open and carry nothing any more, as when a machine vanishes; new ones work. */
  freeze(): void
  /** How many of those are still there: nobody has given them up. */
  frozen(): number
  /**
   * From now on requests that hold `text` go nowhere, and nothing else on their connections; null: no more, and those connections
   * end.
   */
  swallow(text: string | null): void
  /** Passes everything on this much later; 0: at once. */
  delay(ms: number): void
  /** Answers in the server's place, from what a client has sent; null: the server answers. Ends all connections. */
  answerWith(answer: ((request: Buffer) => string) | null): void
  /** From now on `text` in answers is replaced by another of the same length; null: nothing is. */
  replaceInAnswers(text: string | null, by?: string): void
  /** Ends all connections; new ones are made. */
  cut(): void
  close(): Promise<void>
}

/** Listens on a free port and passes everything on to the server that `url` names. */
export async function startProxy(url: string): Promise<Proxy> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const freezers = new Set<() => void>()
  const silent = new Set<Socket>()
  let withheld_texts: string[] = []
  let swallowed: string | null = null
  /** What was held back on them never comes. */
  const stalled = new Set<Socket>()
  let delay_ms = 0
  let answerer: ((request: Buffer) => string) | null = null
  let replaced: [text: string, by: string] | null = null

  /** Carries one direction of a connection: late where it must be, and always in order. */
  function carrier(to: Socket): (data: string | Buffer) => void {
    const waiting: { data: string | Buffer; due: number }[] = []
    function pump(): void {
      while (waiting.length > 0) {
        const left_ms = waiting[0]!.due - performance.now()
        if (left_ms > 0) return void setTimeout(pump, left_ms)
        to.write(waiting.shift()!.data)
      }
    }
    return (data) => {
      waiting.push({ data, due: performance.now() + delay_ms })
      if (waiting.length === 1) pump()
    }
  }
  const server = createServer((client) => {
    const answer = answerer
    if (answer !== null) {
      sockets.add(client)
      client.on('error', () => {})
      client.on('close', () => sockets.delete(client))
      client.on('data', (data: Buffer) => client.write(answer(data)))
      return
    }
    const upstream = connect({ host: target.hostname, port: Number(target.port) })
    let withheld = false
    let frozen = false
    const freeze = () => {
      frozen = true
      silent.add(client)
    }
    const [ask, tell] = [carrier(upstream), carrier(client)]
    freezers.add(freeze)
    client.on('close', () => {
      freezers.delete(freeze)
      silent.delete(client)
      stalled.delete(client)
    })
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
    client.on('data', (data) => {
      if (withheld_texts.some((text) => data.includes(text))) {
        withheld = true
        stalled.add(client)
      }
      if (swallowed !== null && data.includes(swallowed)) {
        frozen = true
        stalled.add(client)
      }
      if (!frozen) ask(data)
    })
    upstream.on('data', (data: Buffer) => {
      const answer =
        replaced === null ? data : Buffer.from(data.toString('latin1').replaceAll(...replaced), 'latin1')
      if (!withheld && !frozen) tell(answer)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const endStalled = () => {
    for (const socket of stalled) socket.destroy()
  }
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
    async close() {
      server.close()
      cut()
      await once(server, 'close')
    },
  }
}
