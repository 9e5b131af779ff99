// The stream of accepted requests in Redis: what clients were promised, kept outside of the database. After a restore
// or a failover that lost commits, it shows which requests are missing.
import { z } from 'zod'
import type { RedisClient } from './connection.ts'

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

/** An accepted request in the stream. `entry`: its position. `accepted_at`: when Redis received it, in ISO 8601. */
export type RecordedRequest = AcceptedRequest & { entry: string; accepted_at: string }

export type AcceptedStream = {
  /** `is_incomplete`: whether requests before these were not recorded. */
  append(requests: AcceptedRequest[], is_incomplete: boolean): Promise<void>
  /**
   * The requests of at most `most` entries after an entry, or since a time in ms. An entry has up to `max_batch`
   * requests. `last`: the last entry that was read; null at the end of the stream. `malformed`: how many requests and
   * entries were skipped, because this program did not write them.
   */
  read(
    after: string | number,
    most: number,
  ): Promise<{ requests: RecordedRequest[]; malformed: number; last: string | null }>
  /** Since when the stream has all requests that clients were promised, in ISO 8601; null if it is empty. */
  completeSince(): Promise<string | null>
}

const STREAM = '{sluice}:accepted'
/** The number of requests in the stream; a long one counts as several. */
const LENGTH = '{sluice}:accepted:length'
/** The bytes of the requests in the stream are at most this many for each one that is configured. */
const BYTES_PER_REQUEST = 256
/** Until when requests are missing. */
const INCOMPLETE_UNTIL = '{sluice}:accepted:incomplete-until'

/** Appends one entry for a batch, because each entry costs as much as the rest of a request, and removes the oldest. */
const APPEND = `
redis.call('XADD', KEYS[1], '*', 'requests', ARGV[4], 'count', ARGV[3])
local length = redis.call('INCRBY', KEYS[2], ARGV[3])
for _ = 1, 100 do
  if length <= tonumber(ARGV[1]) then break end
  local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not first then redis.call('SET', KEYS[2], 0) break end
  redis.call('XDEL', KEYS[1], first[1])
  length = redis.call('DECRBY', KEYS[2], tonumber(first[2][4]) or 0)
end
if ARGV[2] == '1' then
  local now = redis.call('TIME')
  redis.call('SET', KEYS[3], now[1] * 1000 + math.ceil(now[2] / 1000))
end`

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

/**
 * `tried`: resolves when the first connection is open or has failed. `most`: the number of requests in the stream, or
 * fewer if they are long; the oldest are removed.
 */
export function createAcceptedStream(
  client: RedisClient,
  tried: Promise<void>,
  most: number,
): AcceptedStream {
  return {
    async append(requests, is_incomplete) {
      await tried
      const text = JSON.stringify(
        requests.map(({ tenant_id, route, key, resource_id, is_created, job_id }) => [
          tenant_id,
          route,
          key,
          resource_id,
          is_created,
          job_id,
        ]),
      )
      const keys = [STREAM, LENGTH, INCOMPLETE_UNTIL]
      const size = Math.max(requests.length, Math.ceil(Buffer.byteLength(text) / BYTES_PER_REQUEST))
      await client.eval(APPEND, keys.length, ...keys, most, is_incomplete ? 1 : 0, size, text)
    },
    async read(after, count) {
      await tried
      const start = typeof after === 'number' ? String(after) : `(${after}`
      const entries = await client.xrange(STREAM, start, '+', 'COUNT', count)
      const decoded = entries.map(([entry, [, text = '']]) => decode(entry, text))
      const requests = decoded.flatMap((each) => each.filter((request) => request !== null))
      const malformed = decoded.flat().length - requests.length
      return { requests, malformed, last: entries.at(-1)?.[0] ?? null }
    },
    async completeSince() {
      await tried
      const [first] = await client.xrange(STREAM, '-', '+', 'COUNT', 1)
      const incomplete_until = Number((await client.get(INCOMPLETE_UNTIL)) ?? 0)
      return first === undefined ? null : isoTime(Math.max(timeOf(first[0]), incomplete_until))
    },
  }
}

/** The requests of an entry; null for each one that is malformed. */
function decode(entry: string, text: string): (RecordedRequest | null)[] {
  const accepted_at = isoTime(timeOf(entry))
  const items = parsed(text)
  if (!Array.isArray(items)) return [null]
  return items.map((item, nth) => {
    const { data } = recorded.safeParse(item)
    if (data === undefined) return null
    const [tenant_id, route, key, resource_id, is_created, job_id] = data
    return { entry: `${entry} ${nth}`, accepted_at, tenant_id, route, key, resource_id, is_created, job_id }
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The latest time of a `Date`; an entry of another program may have a later one. */
const MAX_TIME_MS = 8.64e15
/** The id of an entry begins with the time in ms. */
const timeOf = (entry: string): number => Number(entry.split('-')[0])
const isoTime = (ms: number): string => new Date(Math.min(ms, MAX_TIME_MS)).toISOString()
