// A wire between two processes, to be held or cut at the moment a test chooses.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export type Proxy = {
  /** `url` with this proxy in the place of its server. */
  url: string
  /**
   * From the first request that holds `text` on, its connection carries no answers: what was asked is done and nobody
   * hears of it.
   */
  withholdAnswersTo(text: string): void
  /** The connections of this moment stay open and carry nothing any more, as when a machine vanishes; new ones work. */
  freeze(): void
  /** Ends all connections; new ones are made. */
  cut(): void
  close(): Promise<void>
}

/** Listens on a free port and passes everything on to the server that `url` names. */
export async function startProxy(url: string): Promise<Proxy> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const freezers = new Set<() => void>()
  let needle: string | null = null

  const server = createServer((client) => {
    const upstream = connect({ host: target.hostname, port: Number(target.port) })
    let withheld = false
    let frozen = false
    freezers.add(() => (frozen = true))
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
      if (needle !== null && data.includes(needle)) withheld = true
      if (!frozen) upstream.write(data)
    })
    upstream.on('data', (data) => {
      if (!withheld && !frozen) client.write(data)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const through = new URL(url)
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    withholdAnswersTo(text) {
      needle = text
    },
    freeze() {
      for (const freeze of freezers) freeze()
    },
    cut,
    async close() {
      server.close()
      cut()
      await once(server, 'close')
    },
  }
}
