// A TCP receiver of HTTP requests with scripted answers, written byte by byte.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export type TestReceiver = {
  port: number
  /** The requests so far as bytes, with head and body. */
  requests: string[]
  /** The connections so far, including closed connections. */
  sockets: Socket[]
  close(): Promise<void>
}

/** Calls `answer` with the socket for each complete request. Listens on 127.0.0.1. */
export async function openReceiver(answer: (socket: Socket, request: string) => void): Promise<TestReceiver> {
  const requests: string[] = []
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const head = text.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      if (head === -1 || text.length < head + 4 + length) return
      const request = text
      text = ''
      requests.push(request)
      answer(socket, request)
    })
  })
  return { port: await listening(server), requests, sockets, close: () => closed(server, sockets) }
}

/** Listens on a free port of this machine and returns the port. */
export async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Resolves when all of these sockets are closed. */
export async function untilClosed(sockets: readonly Socket[]): Promise<void> {
  const open = sockets.filter((socket) => !socket.closed)
  await Promise.all(open.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
}

async function closed(server: Server, sockets: Socket[]): Promise<void> {
  const end = once(server, 'close')
  server.close()
  for (const socket of sockets) socket.destroy()
  await end
}

/** A response with a content length. The connection stays open. */
export function httpAnswer(status: number, body = '', headers: Record<string, string> = {}): string {
  const all = { 'content-length': String(Buffer.byteLength(body)), ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n${body}`
}
