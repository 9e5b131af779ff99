// A DNS server on this machine for the names of a test.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIP } from 'node:net'

const TYPES = { 1: 4, 28: 6 } as Record<number, number>

export type NameServer = {
  /** The address as `address:port`. */
  address: string
  /** The requested names, one entry for each question. */
  asked: string[]
  close(): void
}

/**
 * Starts the server. `addressesOf` returns the addresses of a name; undefined: the name does not exist; null: the
 * server does not answer.
 */
export async function openNameServer(
  addressesOf: (name: string) => string[] | undefined | null,
): Promise<NameServer> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (message, from) => {
    const { name, type, end } = question(message)
    asked.push(name)
    const addresses = addressesOf(name)
    if (addresses === null) return
    const records = (addresses ?? [])
      .filter((address) => isIP(address) === TYPES[type])
      .map((address) => record(type, address))
    const head = Buffer.alloc(12)
    message.copy(head, 0, 0, 2)
    head.writeUInt16BE(addresses === undefined ? 0x8183 : 0x8180, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    socket.send(Buffer.concat([head, message.subarray(12, end), ...records]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { address: `127.0.0.1:${socket.address().port}`, asked, close: () => void socket.close() }
}

/** The first question of a message, and the position after the question. */
function question(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  while (message[at]! > 0) {
    const next = at + 1 + message[at]!
    labels.push(message.toString('latin1', at + 1, next))
    at = next
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 }
}

/** A record of the name in the question, with a TTL of 0. */
function record(type: number, address: string): Buffer {
  const data = isIP(address) === 4 ? Buffer.from(address.split('.').map(Number)) : bytesOfV6(address)
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

function bytesOfV6(address: string): Buffer {
  const [left = '', right] = address.split('::')
  const [before, after] = [left, right ?? ''].map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: 8 - before!.length - after!.length }, () => '0')
  const groups = [...before!, ...zeros, ...after!].map((group) => group.padStart(4, '0'))
  return Buffer.from(groups.join(''), 'hex')
}
