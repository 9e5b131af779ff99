// A JSONL file that only grows, written in batches.
import { open } from 'node:fs/promises'

export type AppendFile = {
  append(value: unknown): void
  /** Resolves when everything appended so far is in the file. */
  flush(): Promise<void>
  close(): Promise<void>
}

const BATCH_MS = 5

/** Opens or creates the file and hands back what it holds. A last line that was cut off by a crash is dropped. */
export async function openAppendFile(path: string): Promise<{ file: AppendFile; values: unknown[] }> {
  const handle = await open(path, 'a+')
  const text = await handle.readFile('utf8')
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  if (whole.length !== text.length) await handle.truncate(Buffer.byteLength(whole))
  const values = whole
    .split('\n')
    .slice(0, -1)
    .map((line): unknown => JSON.parse(line))

  let waiting: string[] = []
  let written: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | null = null

  function flush(): Promise<void> {
    if (timer) clearTimeout(timer)
    timer = null
    if (waiting.length === 0) return written
    const batch = `${waiting.join('\n')}\n`
    waiting = []
    written = written.then(() => handle.appendFile(batch))
    return written
  }

  const file: AppendFile = {
    append(value) {
      waiting.push(JSON.stringify(value))
      timer ??= setTimeout(() => void flush(), BATCH_MS)
    },
    flush,
    async close() {
      await flush()
      await handle.close()
    },
  }
  return { file, values }
}
