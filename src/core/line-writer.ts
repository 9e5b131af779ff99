// Writes lines to an open file, pipe or terminal and never waits for it: what cannot be written is lost, and counted.
import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'

/** What a writer does with lines that are lost. */
export type Losses = {
  /** Counts them. `reason`: the code of the error, or `slow` when the reader did not keep up. */
  count: (lines: number, reason: string) => void
  /** The line that tells of them, before the next line that can be written. */
  noticeOf: (lines: number, reason: string) => string
}

export type LineWriter = {
  write(line: string): void
  /** Writes what waits, as far as the reader takes it within a second. */
  flushSync(): void
}

/** Lines are written together: one write for each would cost more than the line itself. */
const WRITTEN_AFTER_MS = 50
const ENOUGH_CHARACTERS = 4096
/** What waits for a slow reader; further lines are lost. */
const MOST_CHARACTERS = 4 * 1024 * 1024
/** A reader that takes nothing more for now is tried again so often, and for so long at exit. */
const AGAIN_MS = 50
const EXIT_MS = 1_000
const NEWLINE = 10

type Batch = { bytes: Buffer; at: number; characters: number; noted: number }

export function createLineWriter(given: number, losses: Losses): LineWriter {
  const { fd, is_file } = openedWithoutBlocking(given)
  let lines: string[] = []
  let characters = 0
  const lost = countLosses(losses)
  /** Lost lines of which a notice waits. */
  let noted = 0
  let batch: Batch | null = null
  let timer: NodeJS.Timeout | undefined
  /** The last line that was written is not whole. */
  let torn = false

  function add(line: string): void {
    lines.push(line)
    characters += line.length
  }

  function begin(): void {
    clearTimeout(timer)
    timer = undefined
    if (batch !== null || lines.length === 0) return
    const text = lines.join('')
    batch = { bytes: Buffer.from(torn ? `\n${text}` : text), at: 0, characters: text.length, noted }
    lines = []
    noted = 0
    go(batch)
  }

  function go(one: Batch): void {
    if (is_file) write(fd, one.bytes, one.at, (error, written) => after(one, error, written))
    else after(one, ...writeNow(fd, one))
  }

  function after(one: Batch, error: NodeJS.ErrnoException | null, written: number): void {
    one.at += written
    if (error?.code === 'EAGAIN') return void setTimeout(() => go(one), AGAIN_MS).unref()
    if (error === null && one.at < one.bytes.length) return go(one)
    end(one, error)
    if (characters >= ENOUGH_CHARACTERS) begin()
    else if (characters > 0) timer ??= setTimeout(begin, WRITTEN_AFTER_MS).unref()
  }

  function end(one: Batch, error: NodeJS.ErrnoException | null): void {
    batch = null
    characters -= one.characters
    if (one.at > 0) torn = one.bytes[one.at - 1] !== NEWLINE
    if (error === null) return
    const rest = one.bytes.subarray(one.at).toString('utf8').split('\n').length - 1
    lost.add(rest - (one.noted > 0 ? 1 : 0), error.code ?? 'unknown', one.noted)
  }

  return {
    write(line) {
      if (characters >= MOST_CHARACTERS) return lost.add(1, 'slow')
      const notice = lost.takeNotice()
      if (notice !== null) {
        add(notice.line)
        noted += notice.lines
      }
      add(line)
      if (characters >= ENOUGH_CHARACTERS) begin()
      else timer ??= setTimeout(begin, WRITTEN_AFTER_MS).unref()
    },
    flushSync() {
      const until = performance.now() + EXIT_MS
      // What is being written to a file is written by another thread, which ends before the process does.
      const left = Buffer.concat([
        ...(batch === null || is_file ? [] : [batch.bytes.subarray(batch.at)]),
        Buffer.from(lines.join('')),
      ])
      lines = []
      writeUntil(fd, left, until)
    },
  }
}

/** Counts the lines that are lost until a notice tells of them. */
function countLosses({ count, noticeOf }: Losses) {
  let lost = { lines: 0, reason: '' }
  return {
    /** `again`: lines that were counted before, and whose notice is lost too. */
    add(more: number, reason: string, again = 0): void {
      lost = { lines: lost.lines + more + again, reason }
      count(more, reason)
    },
    /** Null if no line was lost since the last notice. */
    takeNotice(): { line: string; lines: number } | null {
      const { lines, reason } = lost
      if (lines === 0) return null
      lost = { lines: 0, reason: '' }
      return { line: noticeOf(lines, reason), lines }
    },
  }
}

function writeNow(
  fd: number,
  { bytes, at }: Pick<Batch, 'bytes' | 'at'>,
): [NodeJS.ErrnoException | null, number] {
  try {
    return [null, writeSync(fd, bytes, at)]
  } catch (error) {
    return [error as NodeJS.ErrnoException, 0]
  }
}

/** Writes as much as the reader takes until then. */
function writeUntil(fd: number, bytes: Buffer, until: number): void {
  let at = 0
  while (at < bytes.length) {
    const [error, written] = writeNow(fd, { bytes, at })
    at += written
    if (error === null) continue
    if (error.code !== 'EAGAIN' || performance.now() > until) return
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS)
  }
}

/**
 * A write to a pipe or a terminal that nobody reads would wait for ever, and the process could not even end. So it is opened
 * once more, for us alone: how a file is open is shared by all processes that have it.
 */
function openedWithoutBlocking(fd: number): { fd: number; is_file: boolean } {
  try {
    if (fstatSync(fd).isFile()) return { fd, is_file: true }
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants
    return { fd: openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY), is_file: false }
  } catch {
    // A socket, or a system without /proc: Node makes its standard output one that does not block.
    if (fd === process.stdout.fd) return { fd, is_file: false }
    return { fd, is_file: true }
  }
}
