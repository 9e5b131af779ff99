// An append-only JSONL file, written in batches. A full disk does not stop the emulator.
import { open, type FileHandle } from 'node:fs/promises'
import { printStatus } from '#core/run.ts'

export type AppendFile = {
  append(value: unknown): void
  /** Resolves when all appended values are written, or the write failed. */
  flush(): Promise<void>
  close(): Promise<void>
}

const BATCH_DELAY_MS = 5
/**
 * Interval of retries while the disk is full. Failed lines are buffered and written first, so that the file has no gap.
 */
const RETRY_DELAY_MS = 1_000
const MAX_BUFFERED_CHARACTERS = 64 * 1024 * 1024
const NEWLINE = 10

/**
 * Opens or creates the file, readable by this user only, and passes each existing line to `read`. If a crash has left
 * an incomplete last line, it is removed.
 */
export async function openAppendFile(path: string, read: (value: unknown) => void): Promise<AppendFile> {
  const handle = await open(path, 'a+', 0o600)
  let waiting: string[] = []
  let characters = 0
  let size = await readLines(handle, read)
  let is_torn = false
  let has_warned = false
  let is_stopped = false
  let written: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | null = null

  function flush(): Promise<void> {
    if (timer) clearTimeout(timer)
    timer = null
    written = written.then(writeWaiting)
    return written
  }

  async function writeWaiting(): Promise<void> {
    if (waiting.length === 0) return
    const batch = waiting
    waiting = []
    const bytes = Buffer.from(`${batch.join('\n')}\n`)
    try {
      // Removes the partial batch of a failed write.
      if (is_torn) await handle.truncate(size)
      is_torn = true
      await handle.appendFile(bytes)
      is_torn = false
      size += bytes.length
      for (const line of batch) characters -= line.length
      if (has_warned) printStatus(`${path} can be written again.`)
      has_warned = false
    } catch (error) {
      waiting = [...batch, ...waiting]
      timer ??= setTimeout(() => void flush(), RETRY_DELAY_MS)
      if (!has_warned)
        printStatus(`${path} cannot be written (${String(error)}). The write is retried every second.`)
      has_warned = true
    }
  }

  return {
    append(value) {
      if (is_stopped) return
      const line = JSON.stringify(value)
      if (characters + line.length > MAX_BUFFERED_CHARACTERS) {
        is_stopped = true
        printStatus(`${path} cannot be written, and the buffer is full: further entries are lost.`)
        return
      }
      waiting.push(line)
      characters += line.length
      timer ??= setTimeout(() => void flush(), BATCH_DELAY_MS)
    },
    flush,
    async close() {
      await flush()
      if (timer) clearTimeout(timer)
      await handle.close()
    },
  }
}

/** Reads each complete line, truncates the file after the last one and returns its length in bytes. */
async function readLines(handle: FileHandle, read: (value: unknown) => void): Promise<number> {
  let rest: Buffer = Buffer.alloc(0)
  let complete_bytes = 0
  for await (const chunk of handle.createReadStream({ start: 0, autoClose: false, highWaterMark: 1 << 20 })) {
    const bytes = Buffer.concat([rest, chunk as Buffer])
    const end = bytes.lastIndexOf(NEWLINE) + 1
    for (const line of bytes.toString('utf8', 0, end).split('\n')) if (line !== '') read(JSON.parse(line))
    rest = bytes.subarray(end)
    complete_bytes += end
  }
  if (rest.length > 0) await handle.truncate(complete_bytes)
  return complete_bytes
}
