// Structured logs, without secrets.
import { chmodSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import pino, { type Logger } from 'pino'

export type Log = Logger

/** Lines wait for others, this long at most: one write for each would cost more than the line itself. Ending writes them. */
const WRITING = { sync: false, minLength: 4096, periodicFlush: 50 }

/**
 * A logger that writes JSON lines to standard output, or all of them to `file`, which only this user may read, and warnings to
 * both; what could be a credential is cut out.
 */
export function createLog(level: string, name: string, file?: string): Log {
  const output = pino.destination(WRITING)
  const destination =
    file === undefined
      ? output
      : pino.multistream([
          { level: 'trace', stream: privateFile(file) },
          { level: 'warn', stream: output },
        ])
  return pino(
    {
      level,
      name,
      base: { pid: process.pid, name },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: [
          'authorization',
          '*.authorization',
          'headers.authorization',
          '*.client_secret',
          '*.payment_method',
          '*.api_key',
        ],
        censor: '[redacted]',
      },
      serializers: { err: plainError },
    },
    destination,
  )
}

/** The same log for lines of nothing but our own ids and numbers: looking for secrets in them would take twice the time. */
export function withoutRedaction(log: Log): Log {
  return log.child({}, { redact: [] })
}

/** Whether what belongs to this id is logged: `part` of all ids are, and one id always alike, so that a story is told whole. */
export function createSampler(part: number): (id: string) => boolean {
  const limit = part * 2 ** 32
  return (id) => part === 1 || crc32(id) < limit
}

function privateFile(path: string) {
  const stream = pino.destination({ ...WRITING, dest: path, mode: 0o600 })
  // One of an earlier version was made for all to read.
  stream.once('ready', () => chmodSync(path, 0o600))
  return stream
}

// An error of the database or the processor carries the query's parameters or the request: name it, do not copy it.
function plainError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const code = 'code' in error ? error.code : undefined
  return {
    type: error.name,
    message: error.message,
    code,
    stack: error.stack,
    cause: plainError(error.cause),
  }
}
