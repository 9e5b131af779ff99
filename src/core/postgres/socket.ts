// Connects to one PostgreSQL server, with TLS as the address demands. Both drivers get sockets that are ready for
// PostgreSQL's startup message, so that hosts, TLS and errors are the same for both.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, isIP, type Socket } from 'node:net'
import {
  connect as connectTls,
  getCACertificates,
  type ConnectionOptions,
  type PeerCertificate,
} from 'node:tls'
import type { DatabaseAddress, DatabaseServer } from './address.ts'

/**
 * A server that answers and cannot be used; the message says why. The codes begin like those of connections that fail,
 * so such a server counts as unavailable.
 */
export class UnusableServerError extends Error {
  override name = 'UnusableServerError'
  readonly code: 'CONNECT_TLS' | 'CONNECT_CERTIFICATE' | 'CONNECT_SESSION'

  constructor(code: UnusableServerError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The request for TLS: its length, and a number in place of a version of the protocol. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const [YES, NO] = ['S', 'N'].map((letter) => letter.charCodeAt(0))
/** OpenSSL's codes for certificates that are not trusted. */
const CERTIFICATE_CODES =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CRL_|ERROR_IN_C|INVALID_|PATH_LENGTH_|HOSTNAME_)/

/**
 * Opens a connection to a server. Errors: those of the socket (`code`), CONNECT_TIMEOUT after the limit of the address,
 * and UnusableServerError.
 */
export async function openSocket(server: DatabaseServer, address: DatabaseAddress): Promise<Socket> {
  const { host, port } = server
  const limit = AbortSignal.timeout(address.connect_timeout_ms)
  const is_local = host.startsWith('/')
  const socket = connect(is_local ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
  socket.setNoDelay(true)
  try {
    await nextEvent(socket, 'connect', limit)
    const has_tls = !is_local && address.tls.mode !== 'disable'
    const opened = has_tls ? await startTls(socket, server, address, limit) : socket
    // postgres.js writes the server into its errors.
    return Object.assign(opened, { host, port })
  } catch (error) {
    socket.on('error', () => {}).destroy()
    if (limit.aborted) throw timeoutError(server)
    // Without TLS the server may say what is wrong.
    if (error instanceof UnansweredRequestError && address.tls.mode === 'prefer')
      return await openSocket(server, { ...address, tls: { mode: 'disable' } })
    throw error
  }
}

/** The server answered the request for TLS neither yes nor no: for example, it has too many connections. */
class UnansweredRequestError extends UnusableServerError {
  constructor() {
    super('CONNECT_TLS', 'it answered the request for TLS with an error')
  }
}

async function startTls(
  socket: Socket,
  server: DatabaseServer,
  { tls }: DatabaseAddress,
  limit: AbortSignal,
): Promise<Socket> {
  socket.write(SSL_REQUEST)
  const [answer] = (await nextEvent(socket, 'data', limit)) as [Buffer]
  // The answer is one byte: an attacker could inject further bytes into the protected connection.
  if (answer.length !== 1 || (answer[0] !== YES && answer[0] !== NO)) throw new UnansweredRequestError()
  if (answer[0] === NO) {
    if (tls.mode === 'prefer') return socket
    throw new UnusableServerError(
      'CONNECT_TLS',
      'server does not support SSL, but SSL was required. Turn TLS on there, or remove sslmode from the address',
    )
  }
  const protectedSocket = connectTls({ socket, ...tlsOptions(server, tls) })
  try {
    await nextEvent(protectedSocket, 'secureConnect', limit)
    return protectedSocket
  } catch (error) {
    // The underlying socket then closes with another error.
    protectedSocket.on('error', () => {}).destroy()
    throw tlsError(error, server, tls)
  }
}

function tlsOptions({ host }: DatabaseServer, tls: DatabaseAddress['tls']): ConnectionOptions {
  const { mode, sslrootcert, sslcert, sslkey } = tls
  // libpq verifies with sslmode=require too if there is a CA.
  const verifies = mode.startsWith('verify-') || (mode === 'require' && sslrootcert !== undefined)
  const ca = sslrootcert === 'system' ? getCACertificates('system') : sslrootcert && readFileSync(sslrootcert)
  return {
    host,
    ...(isIP(host) === 0 && { servername: host }),
    rejectUnauthorized: verifies,
    ...(ca && { ca }),
    ...(sslcert !== undefined && { cert: readFileSync(sslcert) }),
    ...(sslkey !== undefined && { key: readFileSync(sslkey) }),
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
  }
}

function tlsError(error: unknown, { host }: DatabaseServer, tls: DatabaseAddress['tls']): unknown {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return error
  const code = error.code
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const { cert } = error as Error & { cert?: PeerCertificate }
    const names = cert?.subjectaltname ?? cert?.subject.CN?.toString() ?? 'no name'
    const text = `its certificate is for ${names}, not for ${host}`
    return new UnusableServerError('CONNECT_CERTIFICATE', text, { cause: error })
  }
  if (CERTIFICATE_CODES.test(code)) {
    const by = tls.sslrootcert === undefined ? "Node's CAs, because sslrootcert is not set" : tls.sslrootcert
    const text = `its certificate is not trusted by ${by}: ${error.message} (${code})`
    return new UnusableServerError('CONNECT_CERTIFICATE', text, { cause: error })
  }
  return new UnusableServerError('CONNECT_TLS', `TLS failed: ${error.message}`, { cause: error })
}

/** Resolves with the next event. Rejects if the socket fails or closes first, or at the limit. */
async function nextEvent(socket: Socket, event: string, limit: AbortSignal): Promise<unknown[]> {
  const closed = new AbortController()
  const close = () =>
    closed.abort(
      Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET', syscall: 'read' }),
    )
  socket.once('close', close)
  const signal = AbortSignal.any([limit, closed.signal])
  try {
    return await once(socket, event, { signal })
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  } finally {
    socket.off('close', close)
  }
}

function timeoutError(server: DatabaseServer): Error {
  const { host, port } = server
  return Object.assign(new Error(`connect CONNECT_TIMEOUT ${host}:${port}`), {
    code: 'CONNECT_TIMEOUT',
    ...server,
  })
}
