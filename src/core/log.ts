// Structured logs, without secrets.
import { chmodSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import pino, { type Logger } from 'pino'

export type Log = Logger

/**
 * Lines are written together, after 50 ms at most: one write for each would cost more than the line itself. Exiting
 * flushes them.
 */
const WRITING = { sync: false, minLength: 4096, periodicFlush: 50 }

/**
 * A logger that writes JSON lines to standard output. With `file` all lines go to that file, which only this user may
 * read, and only warnings to standard output as well. Fields that could hold credentials are redacted.
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

/**
 * The same log for lines that hold only ids and numbers of ours: looking for secrets in them would double their cost.
 */
export function withoutRedaction(log: Log): Log {
  return log.child({}, { redact: [] })
}

/**
 * Decides by its id whether a request is logged: a `part` of all ids is, and one id always alike, so that its lines
 * stay together.
 */
export function createSampler(part: number): (id: string) => boolean {
  const limit = part * 2 ** 32
  return (id) => part === 1 || crc32(id) < limit
}

function privateFile(path: string) {
  const stream = pino.destination({ ...WRITING, dest: path, mode: 0o600 })
  // Earlier versions made the file readable by everybody.
  stream.once('ready', () => chmodSync(path, 0o600))
  return stream
}

// Errors of the database and the processor carry query parameters or the request, so only these fields are logged.
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
