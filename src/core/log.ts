// Structured logs, without secrets.
import { writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import pino, { type Logger } from 'pino'

export type Log = Logger

/**
 * Lines are written together, after 50 ms at most: one write for each would cost more than the line itself. Exiting
 * flushes them.
 */
const WRITING = { sync: false, minLength: 4096 }
const WRITTEN_AFTER_MS = 50
const ROUNDS = 20
/** At exit a reader that takes nothing more for now is tried again so often. */
const AGAIN_MS = 100
/** The message of an error can be a list as long as an answer. */
const LONGEST_MESSAGE = 2_000

/**
 * A logger that writes JSON lines to standard output. With `file`, the descriptor of an open file, all lines go there,
 * and only warnings to standard output as well. Fields that could hold credentials are redacted.
 */
export function createLog(level: string, name: string, file?: number): Log {
  const output = destinationOf({})
  const destination =
    file === undefined
      ? output
      : pino.multistream([
          { level: 'trace', stream: destinationOf({ dest: file }) },
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

/** What may end a line or steer a terminal, and JSON leaves as it is. */
const STEERING = /[\u007f-\u009f\u2028\u2029]/g

function escaped(line: string): string {
  return line.replace(STEERING, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Writes while there are lines: pino's own `periodicFlush` would wake an idle process twenty times a second. */
function destinationOf(options: { dest?: number }) {
  const stream = pino.destination({ ...WRITING, ...options })
  const write = stream.write.bind(stream)
  let timer: NodeJS.Timeout | undefined
  let rounds_left = 0
  function flush(): void {
    try {
      // Nothing happens while an earlier write is under way, hence several rounds.
      stream.flush()
    } catch {
      // Its reader is gone.
      rounds_left = 0
    }
    if (rounds_left-- > 0) return
    clearInterval(timer)
    timer = undefined
  }
  stream.write = (line) => {
    rounds_left = ROUNDS
    timer ??= setInterval(flush, WRITTEN_AFTER_MS).unref()
    return write(escaped(line))
  }
  const flushSync = stream.flushSync.bind(stream)
  stream.flushSync = () => {
    // At exit, and only then: its own would try for ever to write to a reader that is gone. What waits is a field that the
    // library does not publish; without it, its own does it.
    const { fd, _bufs: lines = [] } = stream as unknown as { fd: number; _bufs?: string[] }
    for (; lines[0] !== undefined; lines.shift()) if (!writeWhole(fd, lines[0])) return
    flushSync()
  }
  return stream
}

/** Waits for a reader that is slow; returns false when it is gone. */
function writeWhole(fd: number, text: string): boolean {
  const bytes = Buffer.from(text)
  for (let written = 0; written < bytes.length;) {
    try {
      written += writeSync(fd, bytes, written)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) return false
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS)
    }
  }
  return true
}

// Errors of the database and the processor carry query parameters or the request, so only these fields are logged.
function plainError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const code = 'code' in error ? error.code : undefined
  const { message: whole, stack } = error
  const message = whole.length > LONGEST_MESSAGE ? `${whole.slice(0, LONGEST_MESSAGE)}...` : whole
  return {
    type: error.name,
    message,
    code,
    stack: stack?.replace(whole, () => message),
    cause: plainError(error.cause),
  }
}
