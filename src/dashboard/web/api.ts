// What the pages ask of the server: one function for an answer, one for a page of a list, and the error that both throw.

/** An address below /api, e.g. `/v1/customers` or `/keys`. */
type ApiPath = `/${string}`

export type ApiQuery = Record<string, string | number | boolean | undefined | null>

/** A refusal, in the API's own words. `status` 0 and code `unreachable`: there was no answer. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly param: string | undefined
  readonly request_id: string | undefined
  /** What the server asks to wait. */
  readonly retry_after_s: number | undefined
  /** The whole `error` of the answer: what its code adds, e.g. `decline_code`. */
  readonly facts: Record<string, unknown>

  constructor(
    status: number,
    facts: Record<string, unknown>,
    headers: { request_id?: string | undefined; retry_after_s?: number | undefined } = {},
  ) {
    super(text(facts['message']) ?? `The server answered ${status}.`)
    this.name = 'ApiError'
    this.status = status
    this.facts = facts
    this.code = text(facts['code']) ?? 'unknown'
    this.param = text(facts['param'])
    this.request_id = text(facts['request_id']) ?? headers.request_id
    this.retry_after_s = headers.retry_after_s
  }
}

type Asked = {
  query?: ApiQuery | undefined
  /** Sent as JSON. Of a POST without one nothing is sent. */
  body?: unknown
  idempotency_key?: string | undefined
  signal?: AbortSignal | undefined
}

/** Asks and returns what the answer holds; undefined for 204. Throws `ApiError`. */
export async function ask<T>(method: string, path: ApiPath, asked: Asked = {}): Promise<T> {
  const { body } = await answered(method, path, asked)
  return body as T
}

/** Reads one resource. */
export const read = <T>(path: ApiPath, query?: ApiQuery, signal?: AbortSignal): Promise<T> =>
  ask<T>('GET', path, { query, signal })

/** Posts `body`; an act on money takes the `idempotency_key` of its dialog. */
export const post = <T>(path: ApiPath, body?: unknown, idempotency_key?: string): Promise<T> =>
  ask<T>('POST', path, { body, idempotency_key })

/** A page of a list, and the query parameters that lead to the next one; `next` null: there is none. */
export type ListPage<T> = { rows: T[]; next: Record<string, string> | null }

/** Reads one page of a list. The answer is an array, with the next page as its `Link`, or `{ data, next }`. */
export async function readPage<T>(
  path: ApiPath,
  query?: ApiQuery,
  signal?: AbortSignal,
): Promise<ListPage<T>> {
  const { body, headers } = await answered('GET', path, { query, signal })
  const found = body as T[] | { data: T[] }
  const link = /<([^>]*)>;\s*rel="?next"?/.exec(headers.get('link') ?? '')?.[1]
  return {
    rows: Array.isArray(found) ? found : found.data,
    next: link === undefined ? null : changed(new URL(link, location.origin).searchParams, query ?? {}),
  }
}

/** All rows of a list, page by page, for as long as somebody takes them. */
export async function* readAll<T>(path: ApiPath, query: ApiQuery, signal: AbortSignal): AsyncGenerator<T[]> {
  let next: ApiQuery | null = { ...query, limit: 100 }
  while (next !== null) {
    const page: ListPage<T> = await readPage<T>(path, next, signal)
    yield page.rows
    next = page.next && { ...next, ...page.next }
  }
}

/** A key for one act: made when its dialog opens, kept while it is asked again. */
export const newIdempotencyKey = (): string => `dashboard-${crypto.randomUUID()}`

async function answered(
  method: string,
  path: ApiPath,
  { query, body, idempotency_key, signal }: Asked,
): Promise<{ body: unknown; headers: Headers }> {
  const headers: Record<string, string> = { accept: 'application/json' }
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (idempotency_key !== undefined) headers['idempotency-key'] = idempotency_key
  let response: Response
  try {
    response = await fetch(`/api${path}${queryString(query)}`, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new ApiError(0, { code: 'unreachable', message: 'The server cannot be reached.' })
  }
  const found: unknown = await response.json().catch(() => undefined)
  if (!response.ok) throw refusal(response, found)
  return { body: found, headers: response.headers }
}

/** The API puts its error into `error`; what signs people in answers with the error itself. */
function refusal(response: Response, found: unknown): ApiError {
  const outer = record(found)
  const retry_after_s = Number(response.headers.get('retry-after') ?? Number.NaN)
  return new ApiError(response.status, 'error' in outer ? record(outer['error']) : outer, {
    request_id: response.headers.get('x-request-id') ?? undefined,
    retry_after_s: Number.isFinite(retry_after_s) ? retry_after_s : undefined,
  })
}

function queryString(query: ApiQuery = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== '') parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

/** The parameters of a link that differ from what was asked. */
function changed(link: URLSearchParams, asked: ApiQuery): Record<string, string> {
  return Object.fromEntries([...link].filter(([name, value]) => String(asked[name] ?? '') !== value))
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
