// Requests to the server. Typed calls go through `sluice`; `read` and `readPage` read by path.
import { Sluice, SluiceError } from '#sdk/index.ts'
import { nextQuery } from '#sdk/pages.ts'
import type { Answers } from './generated/answers.ts'
import { formatMoney } from './kit/amounts.ts'
import { MODE, MODE_HEADER } from './mode.ts'
import { keyOptions, TENANT_HEADER } from './outcomes.ts'

let tenant_id: string | null = null
const mismatch_listeners = new Set<() => void>()

/** A path below /api, e.g. `/v1/customers` or `/keys`. */
type ApiPath = `/${string}`

type FilledPath<Path extends string> = Path extends `${infer Start}{${string}}${infer Rest}`
  ? `${Start}${string}${FilledPath<Rest>}`
  : Path
type PathOf<Route> = Route extends `GET ${infer Path extends ApiPath}` ? FilledPath<Path> : never
/** The paths whose response has type `T`, and all paths of sign-in, whose responses have no schema. */
export type PathTo<T> =
  | { [Route in keyof Answers]: Answers[Route] extends T ? PathOf<Route> : never }[keyof Answers]
  | `/auth/${string}`

export type ApiQuery = Record<string, string | number | boolean | undefined | null>

/**
 * The SDK client of the page. It uses the session cookie, names the mode and the tenant of the page, and has retries,
 * request ids and typed errors.
 */
export const sluice: Sluice = new Sluice({
  base_url: '/api',
  get headers(): Record<string, string> {
    return {
      ...(MODE === 'test' && { [MODE_HEADER]: MODE }),
      ...(tenant_id !== null && { [TENANT_HEADER]: tenant_id }),
    }
  },
  async fetch(url, init) {
    const pending = fetch(url, init)
    if (init.method !== 'GET') trackChange(pending)
    const response = await pending
    if (response.status === 409 && (await isTenantMismatch(response.clone())))
      mismatch_listeners.forEach((listener) => listener())
    return response
  },
})

/**
 * Sets the id of the tenant, which every request sends in a header. The server refuses these requests while the session
 * has selected another tenant.
 */
export function setRequestTenant(id: string | null): void {
  tenant_id = id
}

/**
 * Calls `listener` when a request was refused because the session has another tenant. Returns the function that
 * unsubscribes.
 */
export function onTenantMismatch(listener: () => void): () => void {
  mismatch_listeners.add(listener)
  return () => mismatch_listeners.delete(listener)
}

const pending_changes = new Set<Promise<unknown>>()

function trackChange(response: Promise<Response>): void {
  const settled = response.catch(() => {}).finally(() => pending_changes.delete(settled))
  pending_changes.add(settled)
}

/** Waits for the responses of all pending requests that may change the session: all except reads. */
export async function waitForChanges(): Promise<void> {
  await Promise.all(pending_changes)
}

/** The API's error message, with amounts in the reader's locale. */
export function errorMessage(error: Error): string {
  if (!(error instanceof SluiceError)) return error.message
  const context: Record<string, unknown> = { ...error.context }
  const { currency } = context
  if (typeof currency !== 'string') return error.text
  const amounts = Object.entries(context).flatMap(([name, value]) =>
    name.endsWith('_minor') && typeof value === 'number' ? [value] : [],
  )
  return error.text.replaceAll(new RegExp(`\\d+\\b( ${currency}\\b)?`, 'gi'), (found) => {
    const minor = parseInt(found, 10)
    return amounts.includes(minor) ? formatMoney(minor, currency) : found
  })
}

type RequestContent = {
  query?: ApiQuery | undefined
  /** The body, which is sent as JSON. Undefined: no body. */
  body?: unknown
  idempotency_key?: string | undefined
  signal?: AbortSignal | undefined
}

/** Sends a request and returns the parsed body; undefined for 204. Throws `SluiceError`. */
async function request<T>(method: string, path: ApiPath, content: RequestContent = {}): Promise<T> {
  const { body } = await requestWithHeaders(method, path, content)
  return body as T
}

/** Reads one resource. */
export const read = <T>(path: PathTo<T>, query?: ApiQuery, signal?: AbortSignal): Promise<T> =>
  request<T>('GET', path, { query, signal })

/** Posts `body`. Acts of /v1 are retried with the dialog's `idempotency_key`; other routes are not retried. */
export const post = <T>(path: ApiPath, body?: unknown, idempotency_key?: string): Promise<T> =>
  request<T>('POST', path, { body, idempotency_key })

/**
 * A page of a list. `next`: query parameters of the next page; null: there is none. `scanned_until`: the page is not
 * full because its scan stopped at this time.
 */
export type PageOfRows<T> = { rows: T[]; next: Record<string, string> | null; scanned_until?: string | null }

/** Reads one page of a list. The response is an array with a `Link` to the next page, or `{ data, next }`. */
export async function readPage<T>(
  path: PathTo<T[]>,
  query?: ApiQuery,
  signal?: AbortSignal,
): Promise<PageOfRows<T>> {
  const { body, headers } = await requestWithHeaders('GET', path, { query, signal })
  const list = body as T[] | { data: T[] }
  const next = nextQuery(headers.get('link'))
  return {
    rows: Array.isArray(list) ? list : list.data,
    next: next && changedParameters(next, query ?? {}),
    scanned_until: headers.get('x-scanned-until'),
  }
}

/** Reads all rows of a list, page by page, until the consumer stops. */
export async function* readAll<T>(
  path: PathTo<T[]>,
  query: ApiQuery,
  signal: AbortSignal,
): AsyncGenerator<T[]> {
  let next: ApiQuery | null = { ...query, limit: 100 }
  while (next !== null) {
    const page: PageOfRows<T> = await readPage<T>(path, next, signal)
    yield page.rows
    next = page.next && { ...next, ...page.next }
  }
}

async function requestWithHeaders(
  method: string,
  path: ApiPath,
  { query, body, idempotency_key, signal }: RequestContent,
): Promise<{ body: unknown; headers: Headers }> {
  const parameters = Object.fromEntries(Object.entries(query ?? {}).filter(([, value]) => value !== ''))
  const key = keyOptions(path, idempotency_key)
  const answer = sluice.request(
    method,
    path,
    { query: parameters, body, ...key.content },
    { ...key.options, signal },
  )
  const { data, response } = await answer.withResponse()
  return { body: data, headers: response.headers }
}

async function isTenantMismatch(response: Response): Promise<boolean> {
  const body: unknown = await response.json().catch(() => null)
  const { error } = Object(body) as { error?: { code?: string; param?: string } }
  return error?.code === 'conflict' && error.param === TENANT_HEADER
}

/** The parameters of a link that differ from the request's. */
function changedParameters(link: Record<string, string>, requested: ApiQuery): Record<string, string> {
  return Object.fromEntries(
    Object.entries(link).filter(([name, value]) => String(requested[name] ?? '') !== value),
  )
}
