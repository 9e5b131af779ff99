// A JSONL file that only grows, written in batches.
import { open } from 'node:fs/promises'

export type AppendFile = {
  append(value: unknown): void
  /** Resolves when everything appended so far is in the file. */
  flush(): Promise<void>
  close(): Promise<void>
}

const BATCH_MS = 5
const NEWLINE = 10

/** Opens or creates the file, which only this user may read, after handing each line that it holds to `read`. A last line that a crash has cut off is dropped. */
export async function openAppendFile(path: string, read: (value: unknown) => void): Promise<AppendFile> {
  const handle = await open(path, 'a+', 0o600)
  // Earlier versions made the file readable by everybody.
  await handle.chmod(0o600)
  let rest: Buffer = Buffer.alloc(0)
  let whole = 0
  for await (const chunk of handle.createReadStream({ start: 0, autoClose: false, highWaterMark: 1 << 20 })) {
    const bytes = Buffer.concat([rest, chunk as Buffer])
    const end = bytes.lastIndexOf(NEWLINE) + 1
    for (const line of bytes.toString('utf8', 0, end).split('\n')) if (line !== '') read(JSON.parse(line))
    rest = bytes.subarray(end)
    whole += end
  }
  if (rest.length > 0) await handle.truncate(whole)

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

  return {
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
}
