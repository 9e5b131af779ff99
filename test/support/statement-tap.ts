// A proxy in front of PostgreSQL that records the sessions and the statements of processes, as they send them.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/**
 * `user` and `application`: the database user and the name of the session. `types`: the OIDs of the types that the
 * parameters are sent as, or 0.
 */
export type SentStatement = { user: string; application: string; text: string; types: number[] }

export type StatementTap = {
  /** The URL of the server through the tap. */
  url: string
  /** The parameters with which each session was started. */
  sessions: Record<string, string>[]
  /** Each statement once for each user and application. */
  statements: () => SentStatement[]
  close(): Promise<void>
}

/** Starts a tap in front of the server of `database_url`, which must not use TLS. */
export async function startStatementTap(database_url: string): Promise<StatementTap> {
  const target = new URL(database_url)
  const sockets = new Set<Socket>()
  const sessions: Record<string, string>[] = []
  const statements = new Map<string, SentStatement>()
  const server = createServer((client) => {
    const upstream = connect({ host: target.hostname, port: Number(target.port) })
    let session: Record<string, string> = {}
    const read = createReader({
      onStart(parameters) {
        session = parameters
        sessions.push(parameters)
      },
      onParse(text, types) {
        const user = session['user'] ?? ''
        // The queue's statements are those of BullMQ.
        const application = session['application_name']
        if (application !== undefined)
          statements.set(`${user} ${application} ${text}`, { user, application, text, types })
      },
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
      one.on('data', (data) => other.write(data))
    }
    client.on('data', read)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const through = new URL(database_url)
  through.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: through.href,
    sessions,
    statements: () => [...statements.values()],
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

/** Reads the messages of a client: https://www.postgresql.org/docs/18/protocol-message-formats.html */
function createReader(on: {
  onStart: (parameters: Record<string, string>) => void
  onParse: (text: string, types: number[]) => void
}): (data: Buffer) => void {
  let unread = Buffer.alloc(0)
  let is_started = false
  return (data) => {
    unread = Buffer.concat([unread, data])
    for (;;) {
      // The messages before the start have no type.
      const begin = is_started ? 1 : 0
      const end = unread.length < begin + 4 ? Infinity : begin + unread.readInt32BE(begin)
      if (unread.length < end) return
      const type = is_started ? unread.toString('latin1', 0, 1) : ''
      const body = unread.subarray(begin + 4, end)
      unread = unread.subarray(end)
      if (type === 'P') on.onParse(...readParse(body))
      // The start of a session has the version of the protocol: a request for TLS or to cancel has another number.
      if (is_started || body.readInt16BE(0) !== 3) continue
      is_started = true
      const texts = body.toString('utf8', 4).split('\0')
      on.onStart(
        Object.fromEntries(
          texts.flatMap((text, nth) => (nth % 2 === 0 && text !== '' ? [[text, texts[nth + 1]!]] : [])),
        ),
      )
    }
  }
}

function readParse(body: Buffer): [text: string, types: number[]] {
  const text_at = body.indexOf(0) + 1
  const types_at = body.indexOf(0, text_at) + 1
  const count = body.readInt16BE(types_at)
  const types = Array.from({ length: count }, (_, nth) => body.readInt32BE(types_at + 2 + 4 * nth))
  return [body.toString('utf8', text_at, types_at - 1), types]
}
