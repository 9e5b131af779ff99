// The log of requests to the API: how many to which path, and the latest of them one by one.

export type LoggedRequest = {
  /** ISO 8601, of the real clock, when it had arrived. */
  at: string
  at_ms: number
  method: string
  path: string
  idempotency_key: string | null
  request_id: string
  /** 0 while it is unanswered or when its connection was cut. */
  status: number
  /** Answered from the key's stored answer. */
  replayed: boolean
  /** Why it was refused: the reason of the bank, else the code, else the message. */
  refusal: string | null
  /** The id of the fault that it met. */
  fault: string | null
}

export type RequestLog = {
  recording: boolean
  total: number
  /** `POST /v1/payment_intents/:id/capture` -> how many. */
  counts: Map<string, number>
  /** A ring of the latest. */
  ring: LoggedRequest[]
  next: number
}

const RING_SIZE = 20_000
/** Beyond them, requests that nobody made before are counted together. */
const MAX_COUNTED_PATHS = 1_000
const OTHER_PATHS = 'others'
/** The ids of objects at the providers: `pi_...`, `SM...`. */
const ID = /\/(?:[a-z]+_[0-9A-Za-z]{16,}|[A-Z]{2}[0-9a-f]{32})/g

export function emptyRequestLog(recording: boolean): RequestLog {
  return { recording, total: 0, counts: new Map(), ring: [], next: 0 }
}

/** Null when nothing is recorded. */
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

/** The latest, the newest first; of all, or of those that `wanted` says. */
export function latestRequests(
  { ring, next }: RequestLog,
  count: number,
  wanted: (entry: LoggedRequest) => boolean = () => true,
): LoggedRequest[] {
  const found: LoggedRequest[] = []
  for (let back = 1; back <= ring.length && found.length < count; back++) {
    const entry = ring[(next - back + ring.length) % ring.length]!
    if (wanted(entry)) found.push(entry)
  }
  return found
}

/** Oldest first. */
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
