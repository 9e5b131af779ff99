// Sends requests: headers, idempotency keys, timeouts and retries.
import type { Received } from './answer.ts'
import { SluiceConnectionError, SluiceErrorOf, SluiceTimeoutError, type SluiceErrorCode } from './errors.ts'
import type { ErrorBody } from './generated/schemas.ts'

export type SluiceOptions = {
  /**
   * `sk_live_...` or `sk_test_...`. Without a key, no `Authorization` header is sent: for pages with a session cookie.
   */
  api_key?: string | undefined
  /** The URL of the API: `https://api.example.com`, or `/api` on the host of the page. */
  base_url: string
  /** How often a failed request is retried. Default: 2. */
  max_retries?: number | undefined
  /** Timeout of one attempt in milliseconds. Default: 60,000. */
  timeout_ms?: number | undefined
  /** Replaces the platform's `fetch`. */
  fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined
}

export type RequestOptions = {
  /**
   * Idempotency key, for requests without a key in the body. Default: a generated key. Your own key also survives a
   * crash of your process.
   */
  idempotency_key?: string | undefined
  /** Aborts the request and its retries. The returned promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** How many seconds the API may wait for the provider, 0 to 30. */
  wait_s?: number | undefined
  /** The `Prefer` header, instead of `wait_s`: `respond-async`. */
  prefer?: string | undefined
  headers?: Readonly<Record<string, string>> | undefined
  timeout_ms?: number | undefined
  max_retries?: number | undefined
}

type Filter = string | number | boolean | null | undefined
export type Query = Readonly<Record<string, Filter | Readonly<Record<string, string>>>>
/**
 * Query, body, and how a POST is made safe to retry. `key`: an idempotency key in the header or the body (`header`), a
 * key in each of the body's `messages` (`messages`), or no key because the POST changes nothing (`needless`). A POST
 * without `key` is not retried.
 */
export type Content = {
  query?: object | undefined
  body?: unknown
  key?: 'header' | 'messages' | 'needless' | undefined
}
export type Client = <T>(
  method: string,
  path: string,
  content?: Content,
  options?: RequestOptions,
) => Promise<Received<T>>

/** A request is not retried if its response demands a longer `Retry-After`. */
const MAX_RETRY_AFTER_S = 60
const BACKOFF_MS = { first: 500, max: 8000 } as const
/** Final server errors: a retry with the same key returns the same error. */
const FINAL_CODES = new Set<string>([
  'email_send_failed',
  'sms_send_failed',
  'processor_error',
  'misconfigured_gateway',
])

/** A client of the API at `base_url`. */
export function createClient(settings: SluiceOptions): Client {
  const { fetch: send = (url, init) => fetch(url, init), api_key } = settings
  const base = settings.base_url.replace(/\/+$/, '')
  // The message does not contain the key, because error messages are logged.
  if (api_key !== undefined && !/^[\x21-\x7e]+$/.test(api_key))
    throw new TypeError(
      'The api_key is empty or contains spaces, line breaks or other characters that are not allowed in a key',
    )

  return async <T>(
    method: string,
    path: string,
    { query, body, key }: Content = {},
    options: RequestOptions = {},
  ) => {
    // Any other path could send the key to another host.
    if (!/^\/(?!\/)/.test(path)) throw new TypeError(`The path must begin with exactly one slash: ${path}`)
    const headers = new Headers(settings.headers)
    if (api_key !== undefined) headers.set('authorization', `Bearer ${api_key}`)
    for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value)
    // All attempts share one request id, so that a request without a response can be found in the logs.
    if (!headers.has('x-request-id')) headers.set('x-request-id', randomId())
    const { wait_s, prefer = wait_s === undefined ? undefined : `wait=${wait_s}` } = options
    if (prefer !== undefined) headers.set('prefer', prefer)
    const content = key === 'messages' ? withKeys(body) : body
    if (key === 'header') setKey(headers, content, options.idempotency_key)
    if (content !== undefined) headers.set('content-type', 'application/json')
    const init = {
      method,
      headers,
      // A redirect could send the key and the body to another host.
      redirect: 'manual' as const,
      ...(content !== undefined && { body: JSON.stringify(content) }),
    }
    const url = `${base}${path}${queryString(query as Query | undefined)}`
    const timeout_ms = options.timeout_ms ?? settings.timeout_ms ?? 60_000
    const repeatable = method !== 'POST' || key !== undefined
    const retries = repeatable ? (options.max_retries ?? settings.max_retries ?? 2) : 0

    let outcome_unknown = false
    for (let attempt = 0; ; attempt += 1) {
      const received = await attemptOnce<T>(send, url, init, timeout_ms, options.signal)
      if (!(received instanceof Error)) return received
      const deleted =
        outcome_unknown && method === 'DELETE' && isNotFound(received)
          ? deletedBefore<T>(path, received)
          : undefined
      if (deleted !== undefined) return deleted
      outcome_unknown ||= mayHaveTakenEffect(received)
      if (attempt >= retries || !isRetryable(received))
        throw Object.assign(received, { maybe_done: outcome_unknown })
      await sleep(delayOf(attempt, received.retry_after_s), options.signal)
    }
  }
}

/** Whether the request may have taken effect: no response, or a response without an outcome. */
function mayHaveTakenEffect({ status, code }: SluiceErrorOf): boolean {
  if (status === null || (status < 300 && code === 'unreadable_answer')) return true
  return status >= 500 && !FINAL_CODES.has(code)
}

/** Whether the resource does not exist. `route_not_found` says nothing about the resource. */
function isNotFound({ status, code }: SluiceErrorOf): boolean {
  return status === 404 && /(^|_)not_found$/.test(code) && code !== 'route_not_found'
}

/** The response of a retried DELETE whose earlier attempt succeeded: only the id. */
function deletedBefore<T>(path: string, { request_id }: SluiceErrorOf): Received<T> {
  const id = decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
  const headers: Record<string, string> = request_id === null ? {} : { 'x-request-id': request_id }
  return { data: { id } as T, response: new Response(null, { status: 200, headers }) }
}

/** 128 random bits in hex. */
export function randomId(): string {
  // `crypto.randomUUID` is missing in pages that are served over plain HTTP.
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Waits. Rejects with the signal's reason when it aborts. */
async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal!.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}

/** Sends one request. Returns errors; throws only the reason of the caller's signal. */
async function attemptOnce<T>(
  send: NonNullable<SluiceOptions['fetch']>,
  url: string,
  init: RequestInit & { method: string; headers: Headers },
  timeout_ms: number,
  signal: AbortSignal | undefined,
): Promise<Received<T> | SluiceErrorOf> {
  signal?.throwIfAborted()
  // `AbortSignal.any` is missing in Node 20.0 and older browsers.
  const controller = new AbortController()
  const abort = () => controller.abort(signal!.reason)
  signal?.addEventListener('abort', abort, { once: true })
  let timed_out = false
  const timer = setTimeout(() => {
    timed_out = true
    controller.abort()
  }, timeout_ms)
  // Without the query: filters can contain personal data, and messages are logged.
  const request = `${init.method} ${url.split('?')[0]}`
  const request_id = init.headers.get('x-request-id')
  try {
    const response = await send(url, { ...init, signal: controller.signal })
    return read<T>(response, await response.text(), request_id)
  } catch (cause) {
    signal?.throwIfAborted()
    if (timed_out) {
      const message = `${request} was not answered within ${timeout_ms} ms`
      return new SluiceTimeoutError({ code: 'timed_out', message, request_id, cause })
    }
    const message = `${request} was not answered: ${reasonOf(cause)}`
    return new SluiceConnectionError({ code: 'connection_failed', message, request_id, cause })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

function read<T>(response: Response, text: string, sent_id: string | null): Received<T> | SluiceErrorOf {
  const { status, headers } = response
  const json = parse(text)
  if (response.ok && (json !== undefined || text === '')) return { data: json as T, response }
  const error_body = (json as { error?: Partial<ErrorBody> } | undefined)?.error
  const request_id = error_body?.request_id ?? headers.get('x-request-id') ?? sent_id
  const retry_after_s = secondsOf(headers.get('retry-after'))
  if (typeof error_body?.code !== 'string') {
    const is_redirect = response.type === 'opaqueredirect' || (status >= 300 && status < 400)
    const message = is_redirect
      ? `Redirects are not followed: ${headers.get('location') ?? 'the browser hides the location'}`
      : `The response is not from the API: ${text.slice(0, 100)}`
    return new SluiceErrorOf({ code: 'unreadable_answer', message, status, request_id, retry_after_s })
  }
  return new SluiceErrorOf<SluiceErrorCode>({
    ...error_body,
    code: error_body.code,
    message: error_body.message ?? '',
    status,
    request_id,
    retry_after_s,
  })
}

function isRetryable({ code, status, retry_after_s }: SluiceErrorOf): boolean {
  if (FINAL_CODES.has(code) || (retry_after_s ?? 0) > MAX_RETRY_AFTER_S) return false
  return status === null || status >= 500 || [408, 425, 429].includes(status)
}

/** Delay before the next attempt, in ms: the `Retry-After` plus jitter, or exponential backoff with full jitter. */
function delayOf(attempt: number, retry_after_s: number | null): number {
  if (retry_after_s !== null) return retry_after_s * 1000 + Math.random() * 250
  return Math.random() * Math.min(BACKOFF_MS.max, BACKOFF_MS.first * 2 ** attempt)
}

function setKey(headers: Headers, body: unknown, requested_key: string | undefined): void {
  const own = (body as { idempotency_key?: string } | undefined)?.idempotency_key
  if (requested_key !== undefined || (own === undefined && !headers.has('idempotency-key')))
    headers.set('idempotency-key', requested_key ?? `sdk-${randomId()}`)
}

function withKeys(body: unknown): unknown {
  const { messages } = body as { messages: object[] }
  return { messages: messages.map((each) => ({ idempotency_key: `sdk-${randomId()}`, ...each })) }
}

function queryString(query: Query = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (typeof value === 'object' && value !== null)
      for (const [key, each] of Object.entries(value)) parameters.set(`${name}[${key}]`, each)
    else if (value !== undefined && value !== null) parameters.set(name, String(value))
  // The API reads spaces only as `%20`.
  const text = parameters.toString().replaceAll('+', '%20')
  return text === '' ? '' : `?${text}`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function secondsOf(retry_after: string | null): number | null {
  if (retry_after === null) return null
  const seconds = Number(retry_after)
  if (!Number.isNaN(seconds)) return Math.max(0, seconds)
  const at_ms = Date.parse(retry_after)
  return Number.isNaN(at_ms) ? null : Math.max(0, (at_ms - Date.now()) / 1000)
}

/** Node's `fetch` has the reason in the cause: `connect ECONNREFUSED`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
