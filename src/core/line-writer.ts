// Writes lines to an open file, pipe or terminal without blocking: lines that cannot be written are lost and counted.
import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'

/** How a writer reports lost lines. */
export type LossHandlers = {
  /** Counts lost lines. `reason`: the error code, or `slow` if the reader did not keep up. */
  count: (lines: number, reason: string) => void
  /** The notice of lost lines, written before the next line. */
  formatNotice: (lines: number, reason: string) => string
}

export type LineWriter = {
  write(line: string): void
  /** Writes the buffered lines, as far as the reader accepts them within a second. */
  flushSync(): void
}

/** The delay of a write: lines are written in batches, because a write costs more than the formatting of a line. */
const FLUSH_DELAY_MS = 50
const FLUSH_CHARACTERS = 4096
/** The maximum size of the buffer for a slow reader; further lines are lost. */
const MAX_BUFFERED_CHARACTERS = 4 * 1024 * 1024
/** The retry interval for a reader that accepts no data at the moment. */
const RETRY_DELAY_MS = 50
/** The time limit of the last write at exit. */
const EXIT_TIMEOUT_MS = 1_000
const NEWLINE = 10

type Batch = { bytes: Buffer; at: number; characters: number; noticed_lines: number }

export function createLineWriter(descriptor: number, losses: LossHandlers): LineWriter {
  const { fd, is_file } = openNonBlocking(descriptor)
  let lines: string[] = []
  let characters = 0
  const lost = createLossCounter(losses)
  /** The number of lost lines whose notice is in the buffer. */
  let noticed_lines = 0
  let batch: Batch | null = null
  let timer: NodeJS.Timeout | undefined
  /** Whether the last line was written only partly. */
  let ends_mid_line = false

  function add(line: string): void {
    lines.push(line)
    characters += line.length
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (batch !== null || lines.length === 0) return
    const text = lines.join('')
    batch = {
      bytes: Buffer.from(ends_mid_line ? `\n${text}` : text),
      at: 0,
      characters: text.length,
      noticed_lines,
    }
    lines = []
    noticed_lines = 0
    writeBatch(batch)
  }

  function writeBatch(pending: Batch): void {
    if (is_file) write(fd, pending.bytes, pending.at, (error, written) => onWritten(pending, error, written))
    else onWritten(pending, ...tryWrite(fd, pending))
  }

  function onWritten(pending: Batch, error: NodeJS.ErrnoException | null, written: number): void {
    pending.at += written
    if (error?.code === 'EAGAIN') return void setTimeout(() => writeBatch(pending), RETRY_DELAY_MS).unref()
    if (error === null && pending.at < pending.bytes.length) return writeBatch(pending)
    finishBatch(pending, error)
    if (characters >= FLUSH_CHARACTERS) flush()
    else if (characters > 0) timer ??= setTimeout(flush, FLUSH_DELAY_MS).unref()
  }

  function finishBatch(pending: Batch, error: NodeJS.ErrnoException | null): void {
    batch = null
    characters -= pending.characters
    if (pending.at > 0) ends_mid_line = pending.bytes[pending.at - 1] !== NEWLINE
    if (error === null) return
    const rest = pending.bytes.subarray(pending.at).toString('utf8').split('\n').length - 1
    lost.add(rest - (pending.noticed_lines > 0 ? 1 : 0), error.code ?? 'unknown', pending.noticed_lines)
  }

  return {
    write(line) {
      if (characters >= MAX_BUFFERED_CHARACTERS) return lost.add(1, 'slow')
      const notice = lost.takeNotice()
      if (notice !== null) {
        add(notice.line)
        noticed_lines += notice.lines
      }
      add(line)
      if (characters >= FLUSH_CHARACTERS) flush()
      else timer ??= setTimeout(flush, FLUSH_DELAY_MS).unref()
    },
    flushSync() {
      const until = performance.now() + EXIT_TIMEOUT_MS
      // A running write to a file is not repeated: another thread completes it before the process ends.
      const unwritten = Buffer.concat([
        ...(batch === null || is_file ? [] : [batch.bytes.subarray(batch.at)]),
        Buffer.from(lines.join('')),
      ])
      lines = []
      writeUntil(fd, unwritten, until)
    },
  }
}

/** Counts lost lines until a notice reports them. */
function createLossCounter({ count, formatNotice }: LossHandlers) {
  let lost = { lines: 0, reason: '' }
  return {
    /**
     * Adds `more` lost lines. `from_lost_notice`: if a notice is lost too, the number of lines that it reported; the
     * next notice reports these lines again, but they are not counted twice.
     */
    add(more: number, reason: string, from_lost_notice = 0): void {
      lost = { lines: lost.lines + more + from_lost_notice, reason }
      count(more, reason)
    },
    /** The notice of all lines lost since the last notice; null if no line was lost. */
    takeNotice(): { line: string; lines: number } | null {
      const { lines, reason } = lost
      if (lines === 0) return null
      lost = { lines: 0, reason: '' }
      return { line: formatNotice(lines, reason), lines }
    },
  }
}

function tryWrite(
  fd: number,
  { bytes, at }: Pick<Batch, 'bytes' | 'at'>,
): [NodeJS.ErrnoException | null, number] {
  try {
    return [null, writeSync(fd, bytes, at)]
  } catch (error) {
    return [error as NodeJS.ErrnoException, 0]
  }
}

/** Writes as much as the reader accepts before the time `until`. */
function writeUntil(fd: number, bytes: Buffer, until: number): void {
  let at = 0
  while (at < bytes.length) {
    const [error, written] = tryWrite(fd, { bytes, at })
    at += written
    if (error === null) continue
    if (error.code !== 'EAGAIN' || performance.now() > until) return
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_DELAY_MS)
  }
}

/**
 * A write to a pipe or terminal without a reader would block for ever, and the process could not end. So the pipe or
 * terminal is opened again in non-blocking mode for this process only: all processes that share a descriptor share
 * its mode.
 */
function openNonBlocking(fd: number): { fd: number; is_file: boolean } {
  try {
    if (fstatSync(fd).isFile()) return { fd, is_file: true }
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants
    return { fd: openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY), is_file: false }
  } catch {
    // The descriptor is a socket, or the system has no /proc. Node's own standard output does not block.
    if (fd === process.stdout.fd) return { fd, is_file: false }
    return { fd, is_file: true }
  }
}
