// Reads the event feed of the API: finds the newest event, and follows all events after a sequence.
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { ConfigError } from '#core/config.ts'
import { matchEventTypes } from '#domain/events.ts'
import { terminalText } from '../print.ts'
import { fetchErrorText } from './texts.ts'

const PAGE_SIZE = 100
const WAIT_S = 30
/** The time that a request may take in addition to the requested wait of a long poll. */
const TIMEOUT_MARGIN_MS = 15_000
const RETRY_MS = { first: 500, max: 10_000 } as const
/** The minimum interval between requests to an API that does not support long polling. */
const MIN_POLL_INTERVAL_MS = 1_000

const feedEvent = z.looseObject({
  id: z.string(),
  sequence: z.int().min(1),
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
  created_at: z.string(),
  livemode: z.boolean().default(true),
})
export type FollowedEvent = z.output<typeof feedEvent>

const refusal = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    context: z.record(z.string(), z.unknown()).optional(),
  }),
})
const restartContext = z.object({ last_sequence_before: z.int().min(0) })

/**
 * `url`: base URL of the API. `key_from`: the source of the key, for messages. `signal` stops all requests. `notice` is
 * called when the API becomes unavailable and when it answers again.
 */
export type Feed = {
  url: string
  key: string
  key_from: string
  signal: AbortSignal
  notice: (text: string) => void
}

type FollowQuery = { after: number; limit: number; type?: string | undefined }
type FeedPage = { events: FollowedEvent[]; next: number | undefined }

/** The API rejects the query, e.g. because of an unknown type. */
export class InvalidOption extends ConfigError {}

/** The feed has no event with this sequence; it has events up to `last_sequence`. */
class NoSuchPosition extends ConfigError {
  readonly last_sequence: number
  constructor(message: string, last_sequence: number) {
    super(message)
    this.last_sequence = last_sequence
  }
}

/** A temporary failure: the request is retried. */
class ApiUnavailable extends Error {
  readonly retry_after_ms: number
  constructor(message: string, retry_after_ms = 0) {
    super(message)
    this.retry_after_ms = retry_after_ms
  }
}

/**
 * The sequence of the newest event; 0 if there is none. The answer to a request beyond the end names it. Throws like
 * `followFeed`.
 */
export async function findNewest(feed: Feed): Promise<number> {
  try {
    await fetchPageWithRetry(feed, { after: Number.MAX_SAFE_INTEGER, limit: 1 }, 0)
  } catch (error) {
    if (error instanceof NoSuchPosition) return error.last_sequence
    throw error
  }
  throw new ConfigError(
    `${feed.url} is an earlier version, which does not tell where its feed ends. Use --after.`,
  )
}

/**
 * Yields all events after a sequence, in order and each once: first the existing events, then each new event. `types`:
 * patterns such as `*`, `payment.*` or `payment.captured`. Retries while the API is unavailable. Throws ConfigError on
 * a permanent failure, and throws when `signal` is aborted.
 */
export async function* followFeed(
  feed: Feed,
  { after, types }: { after: number; types: readonly string[] },
): AsyncGenerator<FollowedEvent, never> {
  // A request can have only one pattern: events of several patterns are filtered here. A single pattern is left to the
  // API, which may know event types that this version does not know.
  const filter = types.includes('*') ? '*' : types.length === 1 ? types[0] : undefined
  const type = filter === '*' ? undefined : filter
  const wanted_types = filter === undefined ? new Set<string>(types.flatMap(matchEventTypes)) : undefined
  let cursor = after
  for (;;) {
    const requested_at = performance.now()
    const { events, next } = await fetchPageWithRetry(feed, { after: cursor, limit: PAGE_SIZE, type }, WAIT_S)
    for (const event of events) if (wanted_types?.has(event.type) ?? true) yield event
    const reached = Math.max(cursor, next ?? events.at(-1)?.sequence ?? cursor)
    if (reached === cursor && performance.now() - requested_at < MIN_POLL_INTERVAL_MS)
      await sleep(MIN_POLL_INTERVAL_MS, undefined, { signal: feed.signal })
    cursor = reached
  }
}

async function fetchPageWithRetry(feed: Feed, query: FollowQuery, wait_s: number): Promise<FeedPage> {
  let last_problem = ''
  for (let pause_ms: number = RETRY_MS.first; ; pause_ms = Math.min(2 * pause_ms, RETRY_MS.max)) {
    try {
      const page = await fetchPage(feed, query, wait_s)
      if (last_problem !== '') feed.notice(`${feed.url} answers again.`)
      return page
    } catch (error) {
      if (feed.signal.aborted || !(error instanceof ApiUnavailable)) throw error
      if (error.message !== last_problem) feed.notice(`${error.message}; trying again.`)
      last_problem = error.message
      await sleep(Math.max(pause_ms, error.retry_after_ms), undefined, { signal: feed.signal })
    }
  }
}

async function fetchPage(feed: Feed, { after, limit, type }: FollowQuery, wait_s: number): Promise<FeedPage> {
  const { url, key, signal } = feed
  const query = new URLSearchParams({ after: String(after), limit: String(limit), ...(type && { type }) })
  const limit_ms = wait_s * 1000 + TIMEOUT_MARGIN_MS
  let response, text
  try {
    response = await fetch(`${url}/v1/events?${query.toString()}`, {
      headers: { authorization: `Bearer ${key}`, prefer: `wait=${wait_s}` },
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(limit_ms)]),
    })
    text = await response.text()
  } catch (error) {
    throw new ApiUnavailable(`${url} does not answer (${fetchErrorText(error, limit_ms)})`)
  }
  if (response.status !== 200) throw refusalOf(feed, response, text)
  const events = z.array(feedEvent).safeParse(jsonOf(text))
  if (!events.success) throw new ConfigError(`${url} answers, but is not the API of Sluice. See --url.`)
  return { events: events.data, next: nextOf(response.headers.get('link')) }
}

/** The error for a response other than 200. */
function refusalOf({ url, key_from }: Feed, { status, headers }: Response, text: string): Error {
  const body = refusal.safeParse(jsonOf(text)).data?.error
  const detail = `${status}${body === undefined ? '' : ` ${terminalText(`${body.code}: ${body.message}`)}`}`
  if (status === 400 && body !== undefined)
    return new InvalidOption(`${url} rejects the query (${detail}). See --help.`)
  if (status === 401) return new ConfigError(`${url} refuses the key of ${key_from} (${detail})`)
  if (status === 403)
    return new ConfigError(
      `The key of ${key_from} may not read events (${detail}). Create one that may: npm run keys -- create --tenant <tenant> --scopes events:read`,
    )
  const restart = restartContext.safeParse(body?.context).data
  if (body?.code === 'feed_restarted' && restart !== undefined)
    return new NoSuchPosition(
      `${url} has no such event (${detail}) Use --after ${restart.last_sequence_before}, or no --after.`,
      restart.last_sequence_before,
    )
  if (body?.code === 'misconfigured_gateway')
    return new ConfigError(`${url} has no events: the area is not deployed there (${detail})`)
  if (status === 408 || status === 429 || status >= 500)
    return new ApiUnavailable(`${url} cannot answer (${detail})`, retryAfterMs(headers))
  return new ConfigError(`${url} is not the API of Sluice (${detail}). See --url.`)
}

function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 0)
  return Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 0
}

/** Only the sequence is read from the link: the key is never sent to another URL. */
function nextOf(link: string | null): number | undefined {
  const [, after] = /<[^>]*[?&]after=(\d+)[^>]*>;\s*rel="?next\b/.exec(link ?? '') ?? []
  return after === undefined ? undefined : Number(after)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
