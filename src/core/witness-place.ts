// A place outside of the database that remembers one text: a file on another volume, or an https address.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { throttle } from './seldom.ts'
import type { Log } from './log.ts'
import type { Witness } from './witness.ts'

const TIMEOUT_MS = 1_000
const MAX_BYTES = 10_000
const WARN_INTERVAL_MS = 60_000
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** The line of an installation begins with a name as `findWitnessName` makes it. */
const OTHER_INSTALLATION = /^sluice:server:[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12} /

/** Does not end by itself, unlike an outage of the place. */
class OtherInstallationError extends Error {}

/** `read` returns at most `MAX_BYTES`. */
type Place = { read(): Promise<string>; write(text: string): Promise<void> }

/**
 * Opens the place at a `file:` or `https:` URL. An https address is read with GET and written with PUT; user and
 * password of the URL are sent as Basic credentials. A process that writes at the same time may win with an older text;
 * the next call replaces it.
 */
export function openWitnessPlace(url: string, log: Pick<Log, 'warn' | 'error'>): Witness {
  const place = url.startsWith('file:') ? fileAt(fileURLToPath(url)) : addressAt(new URL(url))
  const warn = throttle((suppressed, error: unknown) => {
    const problem = error instanceof Error ? error.message : String(error)
    const text = `WITNESS_URL: the place cannot be used: ${problem}`
    if (error instanceof OtherInstallationError) log.error({ suppressed }, text)
    else log.warn({ suppressed }, text)
  }, WARN_INTERVAL_MS)
  let is_busy = false

  async function keep(name: string, text: string | null, invalid: string | undefined) {
    const [line = ''] = (await place.read()).split('\n')
    const is_own = line.startsWith(`${name} `)
    if (!is_own && OTHER_INSTALLATION.test(line))
      throw new OtherInstallationError('it belongs to another installation')
    // Any other line is garbage, which the caller finds invalid.
    const stored = line === '' ? null : is_own ? line.slice(name.length + 1) : line
    if (text === null || (stored !== null && stored >= text && stored !== invalid)) return stored
    await place.write(`${name} ${text}\n`)
    return text
  }

  return {
    async keepNewest(name, text, invalid) {
      try {
        // An operation on a file system that hangs blocks one of the few threads of this process.
        if (is_busy) throw new Error('it has not answered the previous request yet')
        is_busy = true
        return await keep(name, text, invalid).finally(() => (is_busy = false))
      } catch (error) {
        warn(error)
        throw error
      }
    },
  }
}

function fileAt(path: string): Place {
  return {
    async read() {
      try {
        await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        // Reading a pipe would wait for its writer.
        if (!(await file.stat()).isFile()) throw new Error('it is not a regular file')
        const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0)
        return buffer.toString('utf8', 0, bytesRead)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        const has_folder = await access(dirname(path)).then(
          () => true,
          () => false,
        )
        if (has_folder) return ''
        throw new Error(`the folder ${dirname(path)} does not exist, or cannot be read`, { cause: error })
      }
    },
    // A reader never sees a half-written file. Processes of other users may read it: it holds no secret.
    async write(text) {
      const written = `${path}.${randomUUID()}`
      try {
        await using file = await open(written, 'wx')
        // The umask of a service may keep other users from reading.
        await file.chmod(0o644)
        await file.writeFile(text)
        await file.sync()
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
  // The signal also ends the reading of the body. A redirect could lead into the internal network.
  const options = () => ({ headers, redirect: 'error' as const, signal: AbortSignal.timeout(TIMEOUT_MS) })
  return {
    async read() {
      const answer = await fetch(url, options())
      if (answer.ok) return await readBody(answer)
      await answer.body?.cancel()
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

/** The body of an answer up to `MAX_BYTES`: the rest is not received. */
async function readBody({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= MAX_BYTES) break
  }
  return Buffer.concat(chunks).toString('utf8', 0, MAX_BYTES)
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
