// Connects to receivers of tenants: the addresses are checked at every connect.
import { isIP, type BlockList, type LookupFunction, type Socket } from 'node:net'
import { callbackify } from 'node:util'
import { buildConnector } from 'undici'
import { lookupWithin, type Lookup } from '#core/lookup.ts'
import { isReachable } from '#core/public-addresses.ts'
import { createInterimFilter } from './interim.ts'

/** DNS lookup, connection and TLS handshake. */
const CONNECT_TIMEOUT_MS = 5_000
const LOOKUP_TIMEOUT_MS = 4_000
/** After this long the next address of the name is tried in parallel. */
const ATTEMPT_TIMEOUT_MS = 1_000
/** Limit of all bytes of one answer: informational responses, headers, body, chunk lengths and trailers. */
const MAX_RECEIVED_BYTES = 64 * 1024

/** The name does not resolve, or not to a public address. One error for both: tenants must not probe internal names. */
export class AddressRefused extends Error {}

/** An answer exceeds MAX_RECEIVED_BYTES. */
export class AnswerTooLong extends Error {}

/**
 * A connector for undici that refuses a name if any of its addresses is not public or allowed. Closes a connection with
 * AnswerTooLong if it receives more than 64 kB for one request.
 */
export function createConnector(lookup: Lookup, allowed: BlockList): buildConnector.connector {
  const connect = buildConnector({
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_TIMEOUT_MS,
    // The socket connects to exactly these addresses, without another lookup.
    lookup: checkedLookup(lookup, allowed),
  })
  return (options, callback) => {
    // A literal address is never looked up.
    if (isIP(options.hostname) !== 0 && !isReachable(options.hostname, allowed))
      return queueMicrotask(() => callback(new AddressRefused(), null))
    connect(options, (...connected) => {
      if (connected[0] === null) limitResponses(connected[1])
      callback(...connected)
    })
  }
}

/** A connection carries one request at a time, written at once: newly written bytes mean a new request. */
function limitResponses(socket: Socket): void {
  let bytes_written = 0
  let bytes_before = 0
  const interim = createInterimFilter()
  // The parser reads the socket by this method.
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
    // After the parser, so that a received status counts.
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
