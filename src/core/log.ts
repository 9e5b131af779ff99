// Structured logs, without secrets.
import pino, { type Logger } from 'pino'

export type Log = Logger

/** A logger that writes JSON lines to standard output, or all of them to `file` and warnings to both; what could be a credential is cut out. */
export function createLog(level: string, name: string, file?: string): Log {
  const output = pino.destination({ sync: false })
  const destination =
    file === undefined
      ? output
      : pino.multistream([
          { level: 'trace', stream: pino.destination({ dest: file, sync: true }) },
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
