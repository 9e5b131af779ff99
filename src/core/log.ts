// Structured logs without secrets.
import { crc32 } from 'node:zlib'
import pino, { type Logger } from 'pino'
import { createLineWriter, type LineWriter } from './line-writer.ts'
import { metrics } from './metrics.ts'
import { currentSpan, traceLabels } from './tracing.ts'

export type Log = Logger

const STANDARD_OUTPUT = 1
/** The limit for an error message: some messages contain a long list. */
const MAX_MESSAGE_LENGTH = 2_000

/**
 * A logger that writes JSON lines to standard output. With `file`, the descriptor of an open file, all lines go
 * there, and warnings also to standard output. Lines that cannot be written are lost and counted; logging never
 * blocks. Fields that may hold credentials are redacted. A line of a traced request or job has its `trace_id`.
 */
export function createLog(level: string, name: string, file?: number): Log {
  const output = writerOf(STANDARD_OUTPUT, name)
  const destination =
    file === undefined
      ? output
      : pino.multistream([
          { level: 'trace', stream: writerOf(file, name) },
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
      serializers: { err: serializeError },
      mixin: () => traceLabels(currentSpan()),
    },
    destination,
  )
}

/**
 * The same log without redaction, for lines that contain only our own ids and numbers: redaction would double their
 * cost.
 */
export function withoutRedaction(log: Log): Log {
  return log.child({}, { redact: [] })
}

/**
 * Decides by the id of a request whether its lines are logged. The share `rate` of all ids is logged. The decision
 * for an id is always the same: all lines of a request are logged, or none.
 */
export function createSampler(rate: number): (id: string) => boolean {
  const limit = rate * 2 ** 32
  return (id) => rate === 1 || crc32(id) < limit
}

/** Characters that JSON does not escape and that may end a line or control a terminal. */
const TERMINAL_CONTROL = /[\u007f-\u009f\u2028\u2029]/g

function escapeControls(line: string): string {
  return line.replace(TERMINAL_CONTROL, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const writers = new Map<number, LineWriter>()

/** One writer for each file, so that lost lines are reported once. */
function writerOf(fd: number, name: string): LineWriter {
  const existing = writers.get(fd)
  if (existing !== undefined) return existing
  const lines = createLineWriter(fd, {
    count: (lines, reason) => metrics.logLinesLost.inc({ reason }, lines),
    formatNotice(lines, reason) {
      const facts = { level: 40, time: new Date().toISOString(), pid: process.pid, name, lines, reason }
      return `${JSON.stringify({ ...facts, msg: 'log lines were lost' })}\n`
    },
  })
  const writer = { ...lines, write: (line: string) => lines.write(escapeControls(line)) }
  writers.set(fd, writer)
  process.once('exit', () => writer.flushSync())
  return writer
}

// The fields of an error that are logged. All other fields are omitted: errors of the database and the processor have
// fields with query parameters or the request.
function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const code = 'code' in error ? error.code : undefined
  const { message: full_message, stack } = error
  const message =
    full_message.length > MAX_MESSAGE_LENGTH
      ? `${full_message.slice(0, MAX_MESSAGE_LENGTH)}...`
      : full_message
  return {
    type: error.name,
    message,
    code,
    stack: stack?.replace(full_message, () => message),
    cause: serializeError(error.cause),
  }
}
