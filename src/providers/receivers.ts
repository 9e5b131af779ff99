// Posts webhooks to URLs of tenants: only to public addresses, without redirects and proxies, with a deadline for the
// whole attempt.
import type { Dispatcher } from 'undici'
import { problemOfUrlForm, type TenantUrlRules } from '#core/tenant-urls.ts'
import { Agent } from './dispatchers.ts'
import { stringEntries } from './http.ts'
import { excerptOf, retryAfterMs } from './receivers/answer.ts'
import { createConnector } from './receivers/connect.ts'
import { failureOf, RECEIVER_ERROR_TEXTS, type ReceiverError } from './receivers/failure.ts'

const DEFAULT_DEADLINE_MS = 15_000
/** The maximum time for the body of an answer, after its headers. */
const BODY_TIMEOUT_MS = 1_000
/** The stored part of a body; the rest is not read. */
const MAX_BODY_BYTES = 16 * 1024
/** The maximum number of informational responses, such as 103, to one request. */
const MAX_INFORMATIONAL = 8
/**
 * How long an idle connection stays open if the receiver sends no `Keep-Alive: timeout`: many receivers close
 * connections after 5 s.
 */
const KEEP_ALIVE_MS = 4_000
const MAX_KEEP_ALIVE_MS = 30_000

export type ReceiverPost = {
  url: string
  /** Sent in addition to accept-encoding, content-type and user-agent. */
  headers: Record<string, string>
  /** JSON. */
  body: string | Buffer
  /** Called right before the first byte is sent. False: nothing is sent. */
  valid: () => boolean
}

/**
 * An answer of the receiver. `excerpt`: the start of the body, storable, at most 1,000 bytes; 200 bytes for a success.
 */
export type ReceiverAnswer = {
  status: number
  retry_after_ms: number | null
  excerpt: string
  /** The time until the headers of the answer. */
  duration_ms: number
}

/** The receiver did not answer. `message`: for the tenant. */
export type ReceiverFailure = { error: ReceiverError; message: string; duration_ms: number }

export type Receivers = {
  /**
   * Sends once and never rejects. A response with any status is an answer, also a redirect. Once the headers have
   * arrived, their status is the result, even if the body cannot be read. When `signal` aborts, resolves at once.
   */
  post(request: ReceiverPost, signal: AbortSignal): Promise<ReceiverAnswer | ReceiverFailure>
  /** Resolves when requests in progress have finished. */
  close(): Promise<void>
}

export type ReceiverOptions = TenantUrlRules & {
  /** The limit of the whole attempt: DNS lookup, connection, request and answer. */
  deadline_ms?: number
}

/** A client for all receivers. Idle connections stay open for seconds. An origin without connections uses no memory. */
export function openReceivers(options: ReceiverOptions): Receivers {
  const { allowed, production, lookup, deadline_ms = DEFAULT_DEADLINE_MS } = options
  // Connections per origin are unlimited: an origin may belong to several tenants, and the caller limits each endpoint.
  // The agent closes the pool of an origin with its last connection.
  const agent = new Agent({
    connect: createConnector(lookup, allowed),
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
    // The timeouts of undici are off: the deadline of the attempt limits both the headers and the body.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return {
    async post(request, signal) {
      // The URL is checked again, because it may have been accepted before production mode was switched on.
      if (problemOfUrlForm(request.url, { production }) !== null) return failed('address_refused', 0)
      return await exchange(agent, request, deadline_ms, signal)
    },
    close: () => agent.close(),
  }
}

function exchange(
  agent: Dispatcher,
  { url, headers, body, valid }: ReceiverPost,
  deadline_ms: number,
  signal: AbortSignal,
): Promise<ReceiverAnswer | ReceiverFailure> {
  return new Promise((resolve) => {
    const started_at = performance.now()
    const to = new URL(url)
    let controller: Dispatcher.DispatchController | null = null
    let finished = false
    let answer: ReceiverAnswer | null = null
    let informational = 0
    let size = 0
    const chunks: Buffer[] = []

    const deadline = setTimeout(() => stop('timeout'), deadline_ms)
    let body_deadline: NodeJS.Timeout | undefined
    signal.addEventListener('abort', onAbort)

    const elapsed = () => Math.round(performance.now() - started_at)

    /** Resolves with the answer if there is one, else with this failure. */
    function end(error: ReceiverError, code?: string): void {
      if (finished) return
      finished = true
      clearTimeout(deadline)
      clearTimeout(body_deadline)
      signal.removeEventListener('abort', onAbort)
      resolve(
        answer ? { ...answer, excerpt: excerptOf(answer.status, chunks) } : failed(error, elapsed(), code),
      )
    }

    /** Like `end`. Also closes the connection. */
    function stop(error: ReceiverError): void {
      end(error)
      controller?.abort(new Error('the response is no longer awaited'))
    }

    function onAbort(): void {
      stop(controller === null ? 'not_sent' : 'abandoned')
    }

    const handler: Dispatcher.DispatchHandler = {
      // Called when a connection is open, before the first byte is written.
      onRequestStart(started) {
        // Nothing is sent if the attempt ended while it waited for a connection, or if undici tries to send again.
        if (finished || controller) return started.abort(new Error('not sent'))
        if (!valid()) {
          end('not_sent')
          return started.abort(new Error('not sent'))
        }
        controller = started
      },
      onResponseStart(_controller, status, received) {
        if (finished) return
        if (status < 200) {
          informational += 1
          if (informational > MAX_INFORMATIONAL) stop('bad_answer')
          return
        }
        const retry_after_ms = retryAfterMs(stringEntries(received)['retry-after'])
        answer = { status, retry_after_ms, excerpt: '', duration_ms: elapsed() }
        body_deadline = setTimeout(() => stop('timeout'), BODY_TIMEOUT_MS)
      },
      onResponseData(_controller, chunk) {
        if (finished) return
        size += chunk.length
        chunks.push(chunk)
        if (size > MAX_BODY_BYTES) stop('connection_lost')
      },
      onResponseEnd: () => end('connection_lost'),
      onResponseError(_controller, error) {
        const { error: kind, code } = failureOf(error, { sent: controller !== null, protocol: to.protocol })
        end(kind, code)
      },
    }
    if (signal.aborted) return onAbort()
    agent.dispatch(requestTo(to, headers, body), handler)
  })
}

function requestTo(
  { origin, pathname, search }: URL,
  headers: ReceiverPost['headers'],
  body: ReceiverPost['body'],
): Dispatcher.DispatchOptions {
  return {
    origin,
    path: pathname + search,
    method: 'POST',
    headers: {
      ...headers,
      'accept-encoding': 'identity',
      'content-type': 'application/json',
      'user-agent': 'Sluice-Webhooks/1',
    },
    body,
  }
}

function failed(error: ReceiverError, duration_ms: number, code?: string): ReceiverFailure {
  return {
    error,
    message: RECEIVER_ERROR_TEXTS[error] + (code === undefined ? '' : ` (${code})`),
    duration_ms,
  }
}
