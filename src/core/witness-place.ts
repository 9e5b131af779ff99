// A place outside of the database that remembers one text: a file on another volume, or an https address.
import { randomUUID } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { throttle } from './seldom.ts'
import type { Log } from './log.ts'
import { signWitness, verifyWitness } from './witness-signature.ts'

const TIMEOUT_MS = 1_000
const MAX_LENGTH = 10_000
const WARN_INTERVAL_MS = 60_000

/** Remembers texts outside of the database. */
export type Witness = {
  /**
   * Stores `text` under `name` unless a greater text, by its characters, is stored (`unreadable` is replaced by any
   * text), and returns the one that is stored; null: none is. Rejects if the witness cannot be used.
   */
  keepNewest(name: string, text: string | null, unreadable?: string): Promise<string | null>
}

type Place = { read(): Promise<string>; write(text: string): Promise<void> }

/**
 * Opens the place at a `file:` or `https:` URL. An https address is read with GET and written with PUT; user and
 * password of the URL are sent as Basic credentials. A process that writes at the same time may win with an older text;
 * the next call replaces it. The key of `findKey` signs the text. A text that another key has signed is kept and makes
 * the place unusable; one without a signature counts as silence until it is replaced.
 */
export function openWitnessPlace(
  url: string,
  findKey: () => Promise<Buffer>,
  log: Pick<Log, 'warn'>,
): Witness {
  const place = url.startsWith('file:') ? fileAt(fileURLToPath(url)) : addressAt(new URL(url))
  const warn = throttle(
    (suppressed, problem: string) => log.warn({ suppressed }, `WITNESS_URL: ${problem}`),
    WARN_INTERVAL_MS,
  )
  return {
    async keepNewest(name, text, unreadable) {
      try {
        const [line = ''] = (await place.read()).slice(0, MAX_LENGTH).split('\n')
        if (line !== '' && !line.startsWith(`${name} `)) throw new Error('it belongs to another installation')
        const key = await findKey()
        const stored = line === '' ? null : verifyWitness(key, name, line.slice(name.length + 1))
        if (line !== '' && stored === null) {
          if (text === null) throw new Error('its text has no signature')
          warn('its text has no signature and is replaced')
        }
        if (text === null || (stored !== null && stored >= text && stored !== unreadable)) return stored
        await place.write(`${name} ${signWitness(key, name, text)}\n`)
        return text
      } catch (error) {
        warn(`the place cannot be used: ${error instanceof Error ? error.message : String(error)}`)
        throw error
      }
    },
  }
}

function fileAt(path: string): Place {
  return {
    read: () =>
      readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return ''
        throw error
      }),
    // A reader never sees a half-written file. Processes of other users may read it: it holds no secret.
    async write(text) {
      const written = `${path}.${randomUUID()}`
      try {
        await writeFile(written, text, { mode: 0o644, flush: true })
        await rename(written, path)
      } catch (error) {
        await rm(written, { force: true }).catch(() => {})
        throw error
      }
    },
  }
}

function addressAt(url: URL): Place {
  const headers = credentialsOf(url)
  url.username = ''
  url.password = ''
  const options = () => ({ headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  return {
    async read() {
      const answer = await fetch(url, options())
      if (answer.ok) return await answer.text()
      if (answer.status === 404) return ''
      throw new Error(`GET was answered ${answer.status}`)
    },
    async write(body) {
      const answer = await fetch(url, { ...options(), method: 'PUT', body })
      await answer.body?.cancel()
      if (!answer.ok) throw new Error(`PUT was answered ${answer.status}`)
    },
  }
}

/** The Basic credentials of user and password, in UTF-8. */
function credentialsOf({ username, password }: URL): { authorization?: string } {
  if (username === '' && password === '') return {}
  const credentials = Buffer.from(`${decoded(username)}:${decoded(password)}`)
  return { authorization: `Basic ${credentials.toString('base64')}` }
}

/** A part of a URL without its percent-encoding; a percent sign that encodes nothing stands for itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
