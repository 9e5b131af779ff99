// HTTP as bytes, for requests that no correct client sends.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export type RawAnswer = { status: number; headers: Map<string, string>; text: string; body: any }

/**
 * Sends one request. Returns the first response when the server closes the connection; status 0: there is no response.
 */
export async function sendBytes(
  url: string,
  bytes: string | Buffer,
  meanwhile?: (socket: Socket) => () => void,
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const chunks: Buffer[] = []
  await new Promise<void>((resolve) => {
    const socket = connect(Number(port), hostname)
    const stop = meanwhile?.(socket)
    socket.on('data', (chunk) => chunks.push(Buffer.from(chunk)))
    // If the connection is reset after the response, the response counts as complete.
    socket.on('error', () => {})
    socket.on('close', () => {
      stop?.()
      resolve()
    })
    socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  })
  return parse(Buffer.concat(chunks).toString('utf8'))
}

/**
 * Opens this many connections, sends the bytes on each connection, and keeps the connections open. `statuses`: the
 * statuses of the responses so far.
 */
export function openUnfinished(
  url: string,
  count: number,
  bytes: Buffer,
): { statuses: number[]; reset(): Promise<void> } {
  const { hostname, port } = new URL(url)
  const statuses: number[] = []
  const sockets = Array.from({ length: count }, () => {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    socket.once('data', (chunk) => statuses.push(parse(chunk.toString('latin1')).status))
    socket.write(bytes)
    return socket
  })
  return {
    statuses,
    async reset() {
      const open = sockets.filter(({ closed }) => !closed)
      // If the server ends a connection while it is being reset, Node cannot reset the connection any more: the socket
      // emits `error` and never `close`.
      const ended = (socket: Socket) =>
        new Promise<void>((resolve) => socket.once('close', resolve).once('error', () => resolve()))
      const all = Promise.all(open.map(ended))
      for (const socket of open) {
        // A connecting socket would be reset only after the connection is open, which may never happen.
        if (socket.connecting) socket.destroy()
        else resetConnection(socket)
      }
      await all
    },
  }
}

/**
 * Resets the connection. If Node can no longer reset the connection, it drops the handle without closing it, and the
 * process would not end. This function then closes the handle.
 */
function resetConnection(socket: Socket): void {
  const handle = Reflect.get(socket, '_handle') as { close(): void } | null | undefined
  if (handle === undefined) throw new Error('this version of Node has no socket._handle')
  socket.once('error', () => handle?.close())
  socket.resetAndDestroy()
}

/** Sends these bytes and resets the connection before the server can read the bytes. */
export async function sendAndReset(url: string, bytes: string): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(bytes)
  const ended = new Promise<void>((resolve) => socket.once('close', resolve).once('error', () => resolve()))
  resetConnection(socket)
  await ended
}

/** The memory of this process in bytes, after garbage collection. */
export function memoryInUse(): NodeJS.MemoryUsage {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage()
}

/** The bytes of a request with a body and the header `connection: close`. */
export function requestBytes(
  method: string,
  target: string,
  headers: Record<string, string>,
  body: string | Buffer = '',
): Buffer {
  const bytes = Buffer.from(body)
  const all = { host: 'sluice.test', connection: 'close', 'content-length': String(bytes.length), ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([
    Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'),
    bytes,
  ])
}

function parse(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n')
  const [first = '', ...lines] = text.slice(0, Math.max(end, 0)).split('\r\n')
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const body = text.slice(end + 4)
  const isJson = headers.get('content-type')?.startsWith('application/json') === true && body !== ''
  return {
    status: Number(first.split(' ')[1] ?? 0),
    headers,
    text: body,
    body: isJson ? JSON.parse(body) : undefined,
  }
}
