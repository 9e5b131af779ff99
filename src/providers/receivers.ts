// Posts webhooks to URLs of tenants: only to public addresses, without redirects or a proxy, with a total deadline.
import { Agent, type Dispatcher } from 'undici'
import { problemOfUrlForm, type TenantUrlRules } from '#core/tenant-urls.ts'
import { stringEntries } from './http.ts'
import { excerptOf, retryAfterMs } from './receivers/answer.ts'
import { createConnector } from './receivers/connect.ts'
import { failureOf, RECEIVER_ERROR_TEXTS, type ReceiverError } from './receivers/failure.ts'

const DEFAULT_DEADLINE_MS = 15_000
/** Time for the body after the headers. */
const BODY_TIMEOUT_MS = 1_000
/** A longer body is cut. */
const MAX_BODY_BYTES = 16 * 1024
/** Informational responses, such as 103. */
const MAX_INFORMATIONAL = 8
/** For idle connections without `Keep-Alive: timeout`: many receivers close them after 5 s. */
const KEEP_ALIVE_MS = 4_000
const MAX_KEEP_ALIVE_MS = 30_000

export type ReceiverPost = {
  url: string
  /** In addition to accept-encoding, content-type and user-agent. */
  headers: Record<string, string>
  /** JSON. */
  body: string | Buffer
  /** Called right before the first byte is sent; false: nothing is sent. */
  valid: () => boolean
}

/** The receiver answered. `excerpt`: the start of the body, storable, at most 1,000 bytes, 200 for a success. */
export type ReceiverAnswer = {
  status: number
  retry_after_ms: number | null
  excerpt: string
  /** Time until the headers. */
  duration_ms: number
}

/** The receiver did not answer. `message` is for the tenant. */
export type ReceiverFailure = { error: ReceiverError; message: string; duration_ms: number }

export type Receivers = {
  /**
   * Sends once and never rejects. Every status is an answer, including redirects. After the headers the status counts, even
   * if the body fails. When `signal` aborts, the result is returned at once.
   */
  post(request: ReceiverPost, signal: AbortSignal): Promise<ReceiverAnswer | ReceiverFailure>
  /** Resolves when requests in progress have finished. */
  close(): Promise<void>
}

export type ReceiverOptions = TenantUrlRules & {
  /** Total limit: DNS lookup, connection, request and answer. */
  deadline_ms?: number
}

/** One client for all receivers. Idle connections stay open for seconds; an idle origin keeps no state. */
export function openReceivers(options: ReceiverOptions): Receivers {
  const { allowed, production, lookup, deadline_ms = DEFAULT_DEADLINE_MS } = options
  // Connections per origin are unlimited: an origin may belong to several tenants, and the caller limits each endpoint.
  // The agent closes the pool of an origin with its last connection.
  const agent = new Agent({
    connect: createConnector(lookup, allowed),
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
    // The deadline is stricter than both.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return {
    async post(request, signal) {
      // Checked again: the URL may have been accepted before production mode.
      if (problemOfUrlForm(request.url, { production }) !== null) return failed('address_refused', 0)
      return await exchange(agent, request, deadline_ms, signal)
    },
    close: () => agent.close(),
  }
}

function exchange(
  agent: Agent,
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

    /** As `end`, and closes the connection. */
    function stop(error: ReceiverError): void {
      end(error)
      controller?.abort(new Error('the response is no longer awaited'))
    }

    function onAbort(): void {
      stop(controller === null ? 'not_sent' : 'abandoned')
    }

    const handler: Dispatcher.DispatchHandler = {
      // Called when a connection is there, before the first byte is written.
      onRequestStart(started) {
        // Finished while it waited for a connection, or a second send by undici: do not send.
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
