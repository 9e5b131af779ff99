// Limits the connections of a listener: idle connections are closed in favour of new ones.
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { ERRORS, type ErrorCode } from './errors.ts'
import { metrics } from './metrics.ts'
import { newId } from './ids.ts'
import { networkOf } from './network.ts'

/** The maximum numbers of connections: of a listener, and of one network. */
export type ConnectionLimits = { total: number; per_network: number }

/** Creates the body of an error response. */
export type ErrorBody = (code: ErrorCode, message: string, request_id: string) => unknown

/** The time that a refused client has to read the response. */
const REFUSAL_TIMEOUT_MS = 1_000

type Network = { name: string; open: number; idle: Set<Socket> }
type OpenConnection = { network: Network; requests: number }

/**
 * Limits the connections of `server`. At the limit, the connection that has been idle for longest is closed: if the
 * newest were refused, a client with many connections would lock out all others. If each connection has a request in
 * progress, the new one is answered 503, and its bytes are not read as a request.
 */
export function limitConnections(server: Server, limits: ConnectionLimits, errorBody: ErrorBody): void {
  const connections = new Map<Socket, OpenConnection>()
  const networks = new Map<string, Network>()
  /** Connections without a request, the longest idle first. */
  const idle = new Set<Socket>()

  function setIdle(socket: Socket, { idle: network_idle }: Network, is_idle: boolean): void {
    for (const sockets of [idle, network_idle])
      if (is_idle) sockets.add(socket)
      else sockets.delete(socket)
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

  /**
   * Makes room for one more connection of this network, if necessary by closing an idle one. False if no connection
   * is idle.
   */
  function makeRoom({ open, idle: network_idle }: Network): boolean {
    const full = open >= limits.per_network ? network_idle : connections.size >= limits.total ? idle : null
    if (full === null) return true
    const [oldest] = full
    if (oldest === undefined) return false
    forget(oldest)
    oldest.destroy()
    return true
  }

  // Node's own listeners read requests: they get a connection only after it was admitted.
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

/** Answers 503 on a connection without reading it. */
function refuseConnection(socket: Socket, errorBody: ErrorBody): void {
  metrics.requestsLimited.inc({ reason: 'connections' })
  socket.on('error', () => {})
  // Unread bytes would reset the connection, and the client would lose the answer.
  socket.resume()
  writeErrorResponse(socket, 'overloaded', 'Too many connections.', errorBody)
  setTimeout(() => socket.destroy(), REFUSAL_TIMEOUT_MS).unref()
}

const UNREADABLE: Record<string, ErrorCode> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
}

/** Answers with an error on a connection where no request was parsed, and closes it. */
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
