// The log of requests to the API: counts by path, and the newest requests.

export type LoggedRequest = {
  /** Time of arrival: ISO 8601, of the real clock. */
  at: string
  at_ms: number
  method: string
  path: string
  idempotency_key: string | null
  request_id: string
  /** The status of the answer; 0 while there is none, or if the connection was cut. */
  status: number
  /** Whether the request got the stored answer of its idempotency key. */
  replayed: boolean
  /** Reason of the refusal: the bank's decline code; without one, the error code; without both, the message. */
  refusal: string | null
  /** The id of the fault that was applied. */
  fault: string | null
}

export type RequestLog = {
  recording: boolean
  total: number
  /** Number of requests by path, e.g. `POST /v1/payment_intents/:id/capture`. */
  counts: Map<string, number>
  /** Ring buffer of the newest requests. */
  ring: LoggedRequest[]
  next: number
}

const RING_SIZE = 20_000
/** Maximum number of paths that are counted separately. Further paths are counted together. */
const MAX_COUNTED_PATHS = 1_000
const OTHER_PATHS = 'others'
/** The ids of objects at the providers: `pi_...`, `SM...`. */
const ID = /\/(?:[a-z]+_[0-9A-Za-z]{16,}|[A-Z]{2}[0-9a-f]{32})/g

export function emptyRequestLog(recording: boolean): RequestLog {
  return { recording, total: 0, counts: new Map(), ring: [], next: 0 }
}

/** Counts a request and adds it to the log. Returns null if requests are counted only. */
export function logRequest(
  log: RequestLog,
  arrived: Pick<LoggedRequest, 'method' | 'path' | 'idempotency_key' | 'request_id'>,
): LoggedRequest | null {
  log.total++
  if (!log.recording) return null
  const at_ms = Date.now()
  const entry: LoggedRequest = {
    at: new Date(at_ms).toISOString(),
    at_ms,
    ...arrived,
    status: 0,
    replayed: false,
    refusal: null,
    fault: null,
  }
  const path = `${arrived.method} ${arrived.path.replaceAll(ID, '/:id')}`
  const name = log.counts.has(path) || log.counts.size < MAX_COUNTED_PATHS ? path : OTHER_PATHS
  log.counts.set(name, (log.counts.get(name) ?? 0) + 1)
  log.ring[log.next] = entry
  log.next = (log.next + 1) % RING_SIZE
  return entry
}

/** The newest requests for which `matches` returns true, newest first. */
export function latestRequests(
  { ring, next }: RequestLog,
  count: number,
  matches: (entry: LoggedRequest) => boolean = () => true,
): LoggedRequest[] {
  const found: LoggedRequest[] = []
  for (let back = 1; back <= ring.length && found.length < count; back++) {
    const entry = ring[(next - back + ring.length) % ring.length]!
    if (matches(entry)) found.push(entry)
  }
  return found
}

/** Matching requests, oldest first. */
export function findRequests(
  log: RequestLog,
  filter: { method?: string; path: RegExp | null; idempotency_key?: string; since_ms?: number },
): LoggedRequest[] {
  const ordered =
    log.ring.length < RING_SIZE ? log.ring : [...log.ring.slice(log.next), ...log.ring.slice(0, log.next)]
  return ordered.filter(
    (entry) =>
      (filter.method === undefined || entry.method === filter.method) &&
      (filter.path === null || filter.path.test(entry.path)) &&
      (filter.idempotency_key === undefined || entry.idempotency_key === filter.idempotency_key) &&
      (filter.since_ms === undefined || entry.at_ms >= filter.since_ms),
  )
}
