// The feed of events as a client of the API reads it: which is the newest, and all that come after one.
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { ConfigError } from '#core/config.ts'
import { matchEventTypes } from '#domain/events.ts'
import { terminalText, fetchErrorText } from './answers.ts'

const PAGE_SIZE = 100
const WAIT_S = 30
/** How much longer than it was asked to wait an API may take to answer. */
const TIMEOUT_MARGIN_MS = 15_000
const RETRY_MS = { first: 500, most: 10_000 } as const
/** An API that does not wait is not asked more often than this. */
const MIN_POLL_INTERVAL_MS = 1_000

const feedEvent = z.looseObject({
  id: z.string(),
  sequence: z.int().min(1),
  type: z.string(),
  data: z.record(z.string(), z.unknown()),
  created_at: z.string(),
})
export type FollowedEvent = z.output<typeof feedEvent>

const refusal = z.object({ error: z.object({ code: z.string(), message: z.string() }) })

/**
 * Whose feed it is. `url`: of the API. `key_from`: where its key was found, for messages. `signal`: ends everything.
 * `notice` is called when the API goes away and when it is back.
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

/** The API refuses what was asked for. */
export class InvalidOption extends ConfigError {}

/** Whoever asks again later may be answered. */
class ApiUnavailable extends Error {
  readonly retry_after_ms: number
  constructor(message: string, retry_after_ms = 0) {
    super(message)
    this.retry_after_ms = retry_after_ms
  }
}

/**
 * The sequence of the newest event; 0 where there is none. The sequence has no gaps, so whether anything comes after a
 * number tells on which side of it the newest is. Throws as `followFeed`.
 */
export async function findNewest(feed: Feed): Promise<number> {
  const firstAfter = async (after: number) =>
    (await fetchPageWithRetry(feed, { after, limit: 1 }, 0)).events[0]?.sequence
  let known = await firstAfter(0)
  if (known === undefined) return 0
  let end: number | undefined
  while (end === undefined || known < end) {
    const probe: number = end === undefined ? known * 2 : Math.floor((known + end) / 2)
    const found = await firstAfter(probe)
    if (found === undefined) end = probe
    else known = found
  }
  // What was made meanwhile is not passed over.
  return Math.min(known, end)
}

/**
 * All events after a sequence, in order, each once, as they are made. `types`: `*`, `payment.*` or `payment.captured`,
 * any number. While the API is away it is asked again and again. Throws ConfigError when that would not help, and when
 * `signal` is aborted.
 */
export async function* followFeed(
  feed: Feed,
  { after, types }: { after: number; types: readonly string[] },
): AsyncGenerator<FollowedEvent, never> {
  // A request names one type at most. What it leaves to the API may be of types that are not known here.
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
  let reported = ''
  for (let pause_ms: number = RETRY_MS.first; ; pause_ms = Math.min(2 * pause_ms, RETRY_MS.most)) {
    try {
      const page = await fetchPage(feed, query, wait_s)
      if (reported !== '') feed.notice(`${feed.url} answers again.`)
      return page
    } catch (error) {
      if (feed.signal.aborted || !(error instanceof ApiUnavailable)) throw error
      if (error.message !== reported) feed.notice(`${error.message}; trying again.`)
      reported = error.message
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
  if (!events.success) throw new ConfigError(`${url} answers, but not as the API of Sluice does. See --url.`)
  return { events: events.data, next: nextOf(response.headers.get('link')) }
}

/** What follows from an answer that is no page. */
function refusalOf({ url, key_from }: Feed, { status, headers }: Response, text: string): Error {
  const body = refusal.safeParse(jsonOf(text)).data?.error
  const detail = `${status}${body === undefined ? '' : ` ${terminalText(`${body.code}: ${body.message}`)}`}`
  if (status === 400 && body !== undefined)
    return new InvalidOption(`${url} refuses what was asked for (${detail}). See --help.`)
  if (status === 401) return new ConfigError(`${url} does not know the key of ${key_from} (${detail})`)
  if (status === 403)
    return new ConfigError(
      `The key of ${key_from} may not read events (${detail}). Make one that may: npm run keys -- create --tenant <tenant> --scopes events:read`,
    )
  if (body?.code === 'misconfigured_gateway')
    return new ConfigError(`${url} has no events: the area is switched off there (${detail})`)
  if (status === 408 || status === 429 || status >= 500)
    return new ApiUnavailable(`${url} cannot answer (${detail})`, retryAfterMs(headers))
  return new ConfigError(`${url} does not answer as the API of Sluice does (${detail}). See --url.`)
}

function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? 0)
  return Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 0
}

/** Only the number is taken: the key goes nowhere else. */
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
