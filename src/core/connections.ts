// The connections of a listener, bounded: whoever leaves one idle loses it to those who come.
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { ERRORS, type ErrorCode } from './errors.ts'
import { newId } from './ids.ts'
import { networkOf } from './network.ts'

/** The connections that a listener has at once, and those of one network. */
export type ConnectionLimits = { total: number; per_network: number }

/** The body of a refusal. */
export type ErrorBody = (code: ErrorCode, message: string, request_id: string) => unknown

/** How long whoever is refused a connection has to read that. */
const REFUSAL_TIMEOUT_MS = 1_000

type Network = { name: string; open: number; idle: Set<Socket> }
type OpenConnection = { network: Network; requests: number }

/**
 * Bounds the connections of `server`. When there is no room for another, the one that has been idle for longest is closed:
 * refusing the newest would let whoever opens many keep out all others. Where each has a request under way, the new one is
 * answered 503, and nothing that comes over it is read as a request.
 */
export function limitConnections(server: Server, limits: ConnectionLimits, errorBody: ErrorBody): void {
  const connections = new Map<Socket, OpenConnection>()
  const networks = new Map<string, Network>()
  /** Without a request under way, the longest idle first. */
  const idle = new Set<Socket>()

  function setIdle(socket: Socket, { idle: network_idle }: Network, is_idle: boolean): void {
    for (const total of [idle, network_idle])
      if (is_idle) total.add(socket)
      else total.delete(socket)
  }

  function forget(socket: Socket): void {
    const connection = connections.get(socket)
    if (connection === undefined) return
    const { network } = connection
    connections.delete(socket)
    setIdle(socket, network, false)
    network.open -= 1
    if (network.open === 0) networks.delete(network.name)
  }

  /** Whether there is room for one more of this network; what has to be closed for it is. */
  function makeRoom({ open, idle: network_idle }: Network): boolean {
    const full = open >= limits.per_network ? network_idle : connections.size >= limits.total ? idle : null
    if (full === null) return true
    const [oldest] = full
    if (oldest === undefined) return false
    forget(oldest)
    oldest.destroy()
    return true
  }

  // Node would read the requests of each connection of which it hears.
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const name = networkOf(socket.remoteAddress ?? '')
    const network = networks.get(name) ?? { name, open: 0, idle: new Set() }
    if (!makeRoom(network)) return refuseConnection(socket, errorBody)
    networks.set(name, network)
    network.open += 1
    connections.set(socket, { network, requests: 0 })
    setIdle(socket, network, true)
    socket.once('close', () => forget(socket))
    for (const each of listeners) each.call(server, socket)
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(socket)
    if (connection === undefined) return
    connection.requests += 1
    setIdle(socket, connection.network, false)
    response.once('close', () => {
      connection.requests -= 1
      if (connection.requests === 0 && connections.has(socket)) setIdle(socket, connection.network, true)
    })
  })
}

/** Answers 503 on a connection of which nothing was read, and nothing is. */
function refuseConnection(socket: Socket, errorBody: ErrorBody): void {
  socket.on('error', () => {})
  // With bytes unread it would be reset, and the answer lost.
  socket.resume()
  writeErrorResponse(socket, 'overloaded', 'Too many connections.', errorBody)
  setTimeout(() => socket.destroy(), REFUSAL_TIMEOUT_MS).unref()
}

const UNREADABLE: Record<string, ErrorCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
}

/** Answers on a connection where no request was read, and closes it. */
function writeErrorResponse(socket: Socket, code: ErrorCode, message: string, errorBody: ErrorBody): void {
  const [status] = ERRORS[code]
  const request_id = newId()
  const body = JSON.stringify(errorBody(code, message, request_id))
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${request_id}`,
    ...(status === 503 ? ['retry-after: 1'] : []),
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/** Answers a request that cannot be parsed and so reaches no route; Node's own answer would have no body. */
export function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket, errorBody: ErrorBody): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return
  const code = UNREADABLE[error.code ?? ''] ?? 'invalid_request'
  const message = code === 'invalid_request' ? 'The request could not be read.' : ERRORS[code][1]
  writeErrorResponse(socket, code, message, errorBody)
}
