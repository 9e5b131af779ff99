// The stream of accepted requests in Redis: what clients were promised, kept outside of the database. After a restore
// or a failover that lost commits, it shows which requests are missing.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { signWitness, verifyWitness } from '#core/witness-signature.ts'
import { APPEND, COMPLETE_SINCE, READ } from './accepted-scripts.ts'
import type { RedisClient } from './connection.ts'
import type { FindAcceptedKeys } from './settings.ts'

/** An accepted request, without its content. */
export type AcceptedRequest = {
  tenant_id: string
  /** The route with its path parameters, as the scope of idempotency keys. */
  route: string
  /** The idempotency key; null if the caller sent none. */
  key: string | null
  /** The resource that the request created or changed. */
  resource_id: string
  /** Whether the request created the resource. */
  is_created: boolean
  /** The job that the request created; null if it created none. */
  job_id: string | null
}

/**
 * An accepted request in the stream. `entry`: names what was signed, and is the same for a copy. `accepted_at`: when it
 * was signed, in ISO 8601.
 */
export type RecordedRequest = AcceptedRequest & { entry: string; accepted_at: string }

/**
 * `since`: since when the stream has all requests that clients were promised, and all can be read, in ISO 8601; null:
 * it has none. `unverified`: how many entries no process of this database has signed with one of the present keys.
 * Those with a removed key may be requests, so the stream is complete only since the last of them.
 */
type Completeness = { since: string | null; unverified: number }

export type AcceptedStream = {
  /** `is_incomplete`: whether requests before these were not recorded. */
  append(requests: AcceptedRequest[], is_incomplete: boolean): Promise<void>
  /**
   * The requests of at most `most` entries after the one with the id `after`, or since Redis's clock showed this time
   * in ms. An entry has up to `max_batch` requests. `last`: the id of the last entry that was read; null at the end of
   * the stream. `malformed`: how many requests and entries were skipped, because no process of this database has signed
   * them or this program did not write them.
   */
  read(
    after: string | number,
    most: number,
  ): Promise<{ requests: RecordedRequest[]; malformed: number; last: string | null }>
  /** Reads the whole stream, which takes seconds if it is long. */
  completeness(): Promise<Completeness>
}

const STREAM = '{sluice}:accepted'
/** The number of requests in the stream; a long one counts as several. */
const LENGTH = '{sluice}:accepted:length'
/** The bytes of the requests in the stream are at most this many for each one that is configured. */
const BYTES_PER_REQUEST = 256
/** Until when requests are missing. */
const INCOMPLETE_UNTIL = '{sluice}:accepted:incomplete-until'

/** What the signatures are for: the keys sign other texts too. */
const SIGNED_NAME = 'sluice:accepted'
/** The text of an entry is not longer. A hundred requests have about 20,000 bytes, and 150,000 if all are long. */
const MAX_ENTRY_BYTES = 256_000

/**
 * An id may be ahead of Redis's clock by this much: the clock was set back, or somebody else has written an entry.
 */
const MAX_ID_AHEAD_MS = 300_000

/** The entries of one step when the whole stream is read. */
const STEP_SIZE = 200

/** Other texts would make the database refuse all requests that are compared at once. */
const storable = (max: number) =>
  z
    .string()
    .max(max, { abort: true })
    .refine((text) => text.isWellFormed() && !text.includes('\0'))
const recorded = z.tuple([
  z.uuid(),
  storable(1_000),
  storable(255).min(1).nullable(),
  z.uuid(),
  z.boolean(),
  z.uuid().nullable(),
])

/** `text`: null if it is too long or missing. */
type Entry = [id: string, text: string | null]

/** When the entry was written, by the clock of its process, and its requests. */
const entrySchema = z.tuple([z.int(), z.array(z.unknown())])

/**
 * `tried`: resolves when the first connection is open or has failed. `most`: the number of requests in the stream, or
 * fewer if they are long; the oldest are removed. `warn` is called with a problem that an operator should know.
 */
export function createAcceptedStream(
  client: RedisClient,
  tried: Promise<void>,
  { most, findKeys, warn }: { most: number; findKeys: FindAcceptedKeys; warn: (problem: string) => void },
): AcceptedStream {
  async function append(requests: AcceptedRequest[], is_incomplete: boolean): Promise<void> {
    const items = requests.map(({ tenant_id, route, key, resource_id, is_created, job_id }) => [
      tenant_id,
      route,
      key,
      resource_id,
      is_created,
      job_id,
    ])
    const text = JSON.stringify([Date.now(), items])
    const bytes = Buffer.byteLength(text)
    const signed = signWitness(await findKeys(), SIGNED_NAME, text)
    if (bytes + signed.length - text.length > MAX_ENTRY_BYTES) {
      if (requests.length === 1) throw new Error('an accepted request is too long to be recorded')
      const half = Math.ceil(requests.length / 2)
      await append(requests.slice(0, half), is_incomplete)
      return await append(requests.slice(half), false)
    }
    const keys = [STREAM, LENGTH, INCOMPLETE_UNTIL]
    const size = Math.max(requests.length, Math.ceil(bytes / BYTES_PER_REQUEST))
    const args = [most, is_incomplete ? 1 : 0, size, signed, MAX_ID_AHEAD_MS]
    if ((await client.eval(APPEND, keys.length, ...keys, ...args)) === 1)
      warn(
        `REDIS_URL: the stream of accepted requests (${STREAM}) was damaged or ahead of Redis's clock, and begins anew. Requests that were accepted before are no longer found if a switch loses them`,
      )
  }

  async function readEntries(start: string, count: number): Promise<Entry[]> {
    return (await client.eval(READ, 1, STREAM, start, count, MAX_ENTRY_BYTES)) as Entry[]
  }

  return {
    async append(requests, is_incomplete) {
      await tried
      await append(requests, is_incomplete)
    },
    async read(after, count) {
      await tried
      const entries = await readEntries(typeof after === 'number' ? String(after) : `(${after}`, count)
      const keys = await findKeys()
      const decoded = entries.map(([, text]) => decode(keys, text ?? ''))
      const requests = decoded.flatMap((each) => each.filter((request) => request !== null))
      const malformed = decoded.flat().length - requests.length
      return { requests, malformed, last: entries.at(-1)?.[0] ?? null }
    },
    async completeness() {
      await tried
      const keys = await findKeys()
      let [verified, unverified, unverified_until] = [0, 0, 0]
      for (let start: string | undefined = '-'; start !== undefined;) {
        const entries: Entry[] = await readEntries(start, STEP_SIZE)
        for (const [id, text] of entries) {
          if (text !== null && verifyWitness(keys, SIGNED_NAME, text) !== null) verified += 1
          else [unverified, unverified_until] = [unverified + 1, timeOf(id)]
        }
        const last = entries.at(-1)
        start = last && `(${last[0]}`
      }
      const answer = await client.eval(COMPLETE_SINCE, 2, STREAM, INCOMPLETE_UNTIL)
      const [first, incomplete_until] = answer as [string | null, string]
      if (first === null || verified === 0) return { since: null, unverified }
      const since = Math.max(timeOf(first), Number(incomplete_until) || 0, unverified_until)
      // Somebody else may have written a time of the future.
      return { since: isoTime(Math.min(since, Date.now())), unverified }
    },
  }
}

/** The requests of an entry with this text; null for each one that is malformed. */
function decode(keys: readonly Buffer[], signed: string): (RecordedRequest | null)[] {
  const text = verifyWitness(keys, SIGNED_NAME, signed)
  const { data } = entrySchema.safeParse(text === null ? undefined : parsed(text))
  if (data === undefined) return [null]
  const [at, items] = data
  const signature = signed.slice(text!.length)
  return items.map((item, nth) => {
    const { data: request } = recorded.safeParse(item)
    if (request === undefined) return null
    const [tenant_id, route, key, resource_id, is_created, job_id] = request
    return {
      entry: hash('sha256', `${signature} ${nth}`),
      accepted_at: isoTime(at),
      tenant_id,
      route,
      key,
      resource_id,
      is_created,
      job_id,
    }
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The id of an entry begins with the time in ms. */
const timeOf = (id: string): number => Number(id.split('-')[0])
const isoTime = (ms: number): string => new Date(ms).toISOString()
