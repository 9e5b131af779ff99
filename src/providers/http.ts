// The HTTP client for providers: one request per call, with a deadline for the whole call. A request is sent only while
// the permit of its job is valid.
import type { Dispatcher } from 'undici'
import type { ProviderOperation } from '#core/config/providers.ts'
import { createGate, type Gate } from '#core/gate.ts'
import { toStorableJson } from '#core/json.ts'
import type { Outcome, UnsuccessfulOutcome } from '#core/outcome.ts'
import { Pool } from './dispatchers.ts'
import { awaitPermit, currentPermit, NotStarted, type Permit } from './permit.ts'

/** Most answers have a few kB; a page of 100 refunds has about 150 kB. */
export const MAX_RESPONSE_BYTES = 8 * 1024 * 1024
const MAYBE_UNSTORABLE = /\\u(?:0000|d[89a-f])/i
const NO_SECRETS: ReadonlySet<string> = new Set()
/**
 * The number of sockets per lane. Calls that wait for a socket are rejected if too many wait, or if they wait too long.
 */
const CONNECTIONS = 256
const QUEUE = {
  waiting: 5_000,
  wait_ms: 60_000,
  refuse: () => new NotStarted('too many calls wait for a connection to the provider'),
}
const CONNECT_TIMEOUT_MS = 5_000
const KEEP_ALIVE_MS = 15_000
/** Cap for `Retry-After`. */
const MAX_RETRY_AFTER_MS = 60 * 60 * 1000

/**
 * No valid answer was received. `sent` false: no byte of the request was sent, so the request certainly had no effect.
 */
export class NoAnswer extends Error {
  sent: boolean
  /** Whether the answer has the provider's header `idempotent-replayed`. */
  replayed: boolean
  /** The status of an unreadable answer; null if there was no answer. */
  status: number | null
  /** Whether the deadline passed. */
  late: boolean

  constructor(
    reason: string,
    {
      sent,
      replayed = false,
      status = null,
      late = false,
    }: { sent: boolean; replayed?: boolean; status?: number | null; late?: boolean },
  ) {
    super(reason)
    this.sent = sent
    this.replayed = replayed
    this.status = status
    this.late = late
  }

  /** The outcome of the call. */
  get outcome(): Exclude<UnsuccessfulOutcome, { kind: 'declined' }> {
    const { message: reason, replayed, late } = this
    return this.sent
      ? { kind: 'ambiguous', reason, replayed, ...(late && { late }) }
      : { kind: 'retry', reason }
  }
}

/**
 * A finished call to a provider, for metrics and logs. `reported`: a text for operators only. `health`: what the call
 * shows about the provider, if its outcome does not show it. `answers`: the provider answered. `unknown`: the caller
 * did not wait for the answer. `late`: the deadline passed, which counts as a failure of the provider only if the
 * provider has answered no call since this call began.
 */
export type FinishedCall = {
  operation: ProviderOperation
  outcome: Outcome<unknown>['kind']
  duration_ms: number
  reported?: string
  health?: 'answers' | 'unknown' | 'late'
}

/** `path` starts with a slash and is appended to the path of the base. */
type HttpRequest = Pick<Dispatcher.DispatchOptions, 'path' | 'method' | 'headers' | 'body'>
/** An answer of any status. Header names are in lower case. */
export type HttpAnswer = { status: number; headers: Record<string, string>; body: Record<string, unknown> }

export type HttpClient = {
  /**
   * Sends a request once. `deadline_ms`, or the permit's deadline if it is shorter, limits the time from a free socket
   * in the lane until the answer is read. Rejects with `NoAnswer` if no JSON object was received in time. The permit of
   * the job is checked when a socket is free: if the permit is invalid, the request is not sent, and `send` rejects
   * with `NotStarted`. When the signal of the permit or the given signal aborts, the connection is closed without
   * waiting for the answer.
   */
  send(request: HttpRequest, deadline_ms: number, signal?: AbortSignal): Promise<HttpAnswer>
  close(): Promise<void>
}

/**
 * A client that sends to `base` only (scheme, host, port and optionally a path). A longer answer than
 * `max_response_bytes` is aborted.
 */
export function openHttp(base: string, { max_response_bytes = MAX_RESPONSE_BYTES } = {}): HttpClient {
  const { origin, pathname } = new URL(base)
  const prefix = pathname.replace(/\/+$/, '')
  const lanes = new Map<string, Lane>()
  const laneOf = (name: string): Lane => {
    const lane = lanes.get(name) ?? openLane(origin)
    lanes.set(name, lane)
    return lane
  }
  return {
    async send(request, deadline_ms, signal) {
      const permit = withSignal(currentPermit(), signal)
      const prefixed = { ...request, path: prefix + request.path }
      const limits = {
        max_response_bytes,
        deadline_ms: Math.min(deadline_ms, permit.deadline_ms ?? deadline_ms),
      }
      const { pool, gate } = laneOf(permit.lane)
      try {
        return await gate(() => send(pool, prefixed, limits, permit), permit)
      } catch (error) {
        // The signal aborted while the call waited for a socket.
        if (permit.signal.aborted && error === permit.signal.reason) throw new NotStarted()
        throw error
      }
    },
    close: async () => void (await Promise.all(Array.from(lanes.values(), ({ pool }) => pool.close()))),
  }
}

/** The permit with a signal that also aborts with `signal`. */
function withSignal(permit: Permit, signal: AbortSignal | undefined): Permit {
  return signal === undefined ? permit : { ...permit, signal: AbortSignal.any([permit.signal, signal]) }
}

type Lane = { pool: Dispatcher; gate: Gate }
type CallLimits = { deadline_ms: number; max_response_bytes: number }

function openLane(origin: string): Lane {
  const pool = new Pool(origin, {
    connections: CONNECTIONS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    allowH2: false,
    // The timeouts of undici are off: the deadline of the call limits both the headers and the body.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return { pool, gate: createGate({ running: CONNECTIONS, queue: QUEUE }) }
}

/** Sends once with a valid permit. A permit that lapses before the connection is open is renewed. */
async function send(
  pool: Dispatcher,
  request: HttpRequest,
  limits: CallLimits,
  permit: Permit,
): Promise<HttpAnswer> {
  for (;;) {
    await awaitPermit(permit)
    const answer = await exchange(pool, request, limits, permit)
    if (answer !== 'lapsed') return answer
  }
}

/**
 * Sends once and reads the answer, or rejects with `NoAnswer`. `lapsed`: nothing was sent, because the permit lapsed.
 */
function exchange(
  pool: Dispatcher,
  request: HttpRequest,
  { deadline_ms, max_response_bytes }: CallLimits,
  permit: Permit,
): Promise<HttpAnswer | 'lapsed'> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null
    let finished = false
    let status = 0
    let headers: Record<string, string> = {}
    let size = 0
    const chunks: Buffer[] = []

    const deadline = setTimeout(() => {
      fail(`no answer within ${deadline_ms} ms`, { late: true })
      controller?.abort(new Error('deadline'))
    }, deadline_ms)
    permit.signal.addEventListener('abort', onAbort)

    function end(): void {
      finished = true
      clearTimeout(deadline)
      permit.signal.removeEventListener('abort', onAbort)
    }

    function fail(reason: string, details: { late?: boolean; status?: number } = {}): void {
      if (finished) return
      end()
      reject(new NoAnswer(reason, { sent: controller !== null, replayed: isReplayed(headers), ...details }))
    }

    function onAbort(): void {
      if (controller !== null) {
        fail('the call was aborted before its answer arrived')
        return controller.abort(new Error('aborted'))
      }
      end()
      reject(new NotStarted())
    }

    const handler: Dispatcher.DispatchHandler = {
      // Called when a connection is open, before the first byte is written.
      onRequestStart(started) {
        // Nothing is sent if the call was aborted while it waited for a connection, or if undici tries to send again.
        if (finished || controller) return started.abort(new Error('not sent'))
        if (!permit.valid()) {
          end()
          started.abort(new Error('not sent'))
          return resolve('lapsed')
        }
        controller = started
        permit.used()
      },
      onResponseStart(_controller, code, received) {
        status = code
        headers = stringEntries(received)
      },
      onResponseData(receiving, chunk) {
        size += chunk.length
        chunks.push(chunk)
        if (size <= max_response_bytes) return
        fail(`the answer is longer than ${max_response_bytes} bytes`, { status })
        receiving.abort(new Error('too long'))
      },
      onResponseEnd() {
        if (finished) return
        const body = parseJsonBody(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
        if (!body) return fail(`unreadable answer: ${status} without a JSON object`, { status })
        end()
        resolve({ status, headers, body })
      },
      onResponseError(_controller, error) {
        fail(`${controller ? 'connection lost' : 'not sent'}: ${codeOf(error)}`)
      },
    }
    try {
      pool.dispatch(request, handler)
    } catch (error) {
      fail(`not sent: ${codeOf(error)}`)
    }
  })
}

/** Whether the provider replayed a stored answer. */
export function isReplayed(headers: Record<string, string> | undefined): boolean {
  return headers?.['idempotent-replayed'] === 'true'
}

/**
 * The delay of `Retry-After` (seconds or a date), at most an hour; an empty object if the header is missing or invalid.
 */
export function parseRetryAfter(value: string | null | undefined): { after_ms?: number } {
  const text = value ?? ''
  const after_ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isFinite(after_ms) ? { after_ms: Math.min(Math.max(0, after_ms), MAX_RETRY_AFTER_MS) } : {}
}

/** The entries that have a value. Values are converted to strings. */
export function stringEntries(headers: object): Record<string, string> {
  const flattened: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && value !== null) flattened[name] = String(value)
  }
  return flattened
}

/**
 * The JSON object in a body; null if the body contains anything else. Characters that PostgreSQL cannot store are
 * removed, because texts of the answer may be stored.
 */
export function parseJsonBody(bytes: Buffer): Record<string, unknown> | null {
  try {
    const text = bytes.toString('utf8')
    const parsed: unknown = JSON.parse(text)
    const body = MAYBE_UNSTORABLE.test(text) ? toStorableJson(parsed, NO_SECRETS) : parsed
    return isObject(body) ? body : null
  } catch {
    return null
  }
}

/** Whether the value is a JSON object: neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `ECONNREFUSED`, `ENOTFOUND`, ...; the message of the error if it has no code. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error && typeof error.code === 'string' ? error.code : error.message
}
