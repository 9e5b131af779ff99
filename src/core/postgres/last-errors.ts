// Fault of postgres.js (3.0.0 to 3.4.9): a server that ends a connection says why and closes it. While a statement
// runs, the driver drops this message, and the statement fails with CONNECTION_CLOSED. PgBouncer refuses statements
// like that. Workaround: at the end of a connection, the socket fails with the server's last message. Patch for
// upstream: upstream/last-errors.patch.
import type { Socket } from 'node:net'
import postgres from 'postgres'
import { endsConnection } from './connection-errors.ts'

const ERROR = 'E'.charCodeAt(0)
/** The fields of an error that are read, by their type in the protocol. */
const FIELDS: Readonly<Record<string, string>> = {
  S: 'severity_local',
  V: 'severity',
  C: 'code',
  M: 'message',
  R: 'routine',
}
/** A message begins with its type and its length, which includes the four bytes of the length. */
const HEADER_BYTES = 5

type PostgresErrorConstructor = new (fields: Record<string, string>) => postgres.PostgresError

/** Makes the socket emit the error that the server sent last, if the server ends the connection after it. */
export function reportLastError(socket: Socket): Socket {
  let last: Buffer | undefined
  socket.on('data', (data: Buffer) => (last = data))
  socket.once('end', () => {
    const error = last === undefined ? undefined : errorAtEnd(last)
    if (error !== undefined && socket.listenerCount('error') > 0) socket.emit('error', error)
  })
  return socket
}

/**
 * The error in the last message of the data, if it ended the connection; otherwise undefined. Another error belongs to
 * one statement, but the driver rejects all statements of the connection. The data begins with a message.
 */
function errorAtEnd(data: Buffer): postgres.PostgresError | undefined {
  let start = 0
  let end = 0
  while (end + HEADER_BYTES <= data.length) {
    start = end
    end = start + 1 + data.readUInt32BE(start + 1)
  }
  if (end !== data.length || data[start] !== ERROR) return undefined
  const fields: Record<string, string> = {}
  for (const text of data.toString('utf8', start + HEADER_BYTES, end).split('\0')) {
    const name = FIELDS[text[0] ?? '']
    if (name !== undefined) fields[name] = text.slice(1)
  }
  const error = new (postgres.PostgresError as unknown as PostgresErrorConstructor)(fields)
  return endsConnection(error) ? error : undefined
}
