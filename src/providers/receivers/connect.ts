// Connects to tenants' receivers: only to addresses that were checked, at every connect.
import { isIP, type BlockList, type LookupFunction, type Socket } from 'node:net'
import { callbackify } from 'node:util'
import { buildConnector } from 'undici'
import { lookupWithin, type Lookup } from '#core/lookup.ts'
import { isReachable } from '#core/public-addresses.ts'
import { createInterimFilter } from './interim.ts'

/** From the question for the address until the connection is there, with TLS. */
const CONNECT_TIMEOUT_MS = 5_000
const LOOKUP_TIMEOUT_MS = 4_000
/** Then the next address of the name is tried too. */
const ATTEMPT_TIMEOUT_MS = 1_000
/** What one answer may bring in all, with what comes before it, its headers, the lengths of its chunks and trailers. */
const MAX_RECEIVED_BYTES = 64 * 1024

/** The address is not public or not known: which of the two is not told, or tenants could ask about our own names. */
export class AddressRefused extends Error {}

/** More was received for one request than any answer may bring. */
export class AnswerTooLong extends Error {}

/**
 * undici's connector that refuses an address that is not reachable, and a name of which any address is not. It closes a
 * connection with AnswerTooLong that brings more than 64 kB for one request, whatever it is.
 */
export function createConnector(lookup: Lookup, allowed: BlockList): buildConnector.connector {
  const connect = buildConnector({
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_TIMEOUT_MS,
    // The socket connects to what this answers and asks nobody again.
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

/** One request at a time is under way, and it is written at once: new bytes written are a new request. */
function limitResponses(socket: Socket): void {
  let bytes_written = 0
  let bytes_before = 0
  const interim = createInterimFilter()
  // The parser takes what has come by this.
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
    // After the parser, so that a status that is there is known.
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
