// Connects to receivers of tenants: the addresses are checked at every connect.
import { isIP, type BlockList, type LookupFunction, type Socket } from 'node:net'
import { callbackify } from 'node:util'
import type * as undici from 'undici'
import { lookupWithin, type Lookup } from '#core/lookup.ts'
import { isReachable } from '#core/public-addresses.ts'
import { buildConnector } from '../dispatchers.ts'
import { createInterimFilter } from './interim.ts'

/** The time for DNS lookup, connection and TLS handshake. */
const CONNECT_TIMEOUT_MS = 5_000
const LOOKUP_TIMEOUT_MS = 4_000
/** The time after which the next address of the name is tried in parallel. */
const ATTEMPT_TIMEOUT_MS = 1_000
/** The limit of all bytes of one answer: informational responses, headers, body, chunk lengths and trailers. */
const MAX_RECEIVED_BYTES = 64 * 1024

/**
 * The name does not resolve, or an address is not public. Both have the same error, so that tenants cannot probe
 * internal names.
 */
export class AddressRefused extends Error {}

/** An answer exceeds MAX_RECEIVED_BYTES. */
export class AnswerTooLong extends Error {}

/**
 * A connector for undici. It refuses a name if any of its addresses is neither public nor allowed. It closes a
 * connection with AnswerTooLong if an answer has more than 64 kB.
 */
export function createConnector(lookup: Lookup, allowed: BlockList): undici.buildConnector.connector {
  const connect = buildConnector({
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_TIMEOUT_MS,
    // The socket connects to exactly the checked addresses, without another lookup.
    lookup: checkedLookup(lookup, allowed),
  })
  return (options, callback) => {
    // A literal address is checked here, because it is never looked up.
    if (isIP(options.hostname) !== 0 && !isReachable(options.hostname, allowed))
      return queueMicrotask(() => callback(new AddressRefused(), null))
    connect(options, (...connected) => {
      if (connected[0] === null) limitResponses(connected[1])
      callback(...connected)
    })
  }
}

/**
 * Limits each answer on a connection. A connection carries one request at a time, and a request is written at once, so
 * newly written bytes mean a new request.
 */
function limitResponses(socket: Socket): void {
  let bytes_written = 0
  let bytes_before = 0
  const interim = createInterimFilter()
  // The parser reads the socket through `read`.
  const read = socket.read.bind(socket)
  socket.read = (size?: number) => {
    const bytes: unknown = read(size)
    if (Buffer.isBuffer(bytes)) interim.pass(bytes)
    return bytes
  }
  socket.on('readable', () => {
    if (socket.bytesWritten !== bytes_written) {
      bytes_written = socket.bytesWritten
      bytes_before = socket.bytesRead - socket.readableLength
      interim.restart()
    }
    // The limit is checked after the parser has run, so that a received status counts.
    queueMicrotask(() => {
      if (socket.bytesRead - bytes_before > MAX_RECEIVED_BYTES) socket.destroy(new AnswerTooLong())
    })
  })
}

function checkedLookup(lookup: Lookup, allowed: BlockList): LookupFunction {
  const find = callbackify(async (name: string) => {
    const addresses = await lookupWithin(lookup, name, LOOKUP_TIMEOUT_MS).catch((): string[] => [])
    if (addresses.length === 0 || !addresses.every((address) => isReachable(address, allowed)))
      throw new AddressRefused()
    return addresses.map((address) => ({ address, family: isIP(address) }))
  })
  return (name, _options, callback) => find(name, (error, found) => callback(error, found ?? []))
}
