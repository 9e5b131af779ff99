// What the pages ask of the server: one function for an answer, and one for a page of a list. Typed calls are those of `sluice`.
import { Sluice, SluiceError } from '#sdk/index.ts'
import { nextQuery } from '#sdk/pages.ts'
import type { Answers } from './generated/answers.ts'
import { formatMoney } from './kit/amounts.ts'
import { keyOptions, TENANT_HEADER } from './outcomes.ts'

let tenant_id: string | null = null
const mismatch_listeners = new Set<() => void>()

/** An address below /api, e.g. `/v1/customers` or `/keys`. */
type ApiPath = `/${string}`

type FilledPath<Path extends string> = Path extends `${infer Start}{${string}}${infer Rest}`
  ? `${Start}${string}${FilledPath<Rest>}`
  : Path
type PathOf<Route> = Route extends `GET ${infer Path extends ApiPath}` ? FilledPath<Path> : never
/** The paths whose answer can be read as `T`. Of those of sign-in no schema is known. */
export type PathTo<T> =
  | { [Route in keyof Answers]: Answers[Route] extends T ? PathOf<Route> : never }[keyof Answers]
  | `/auth/${string}`

export type ApiQuery = Record<string, string | number | boolean | undefined | null>

/** Everything is asked through the SDK, in the session of whoever is signed in: it has the retries, ids and errors. */
export const sluice: Sluice = new Sluice({
  base_url: '/api',
  get headers(): Record<string, string> {
    return tenant_id === null ? {} : { [TENANT_HEADER]: tenant_id }
  },
  async fetch(url, init) {
    const asked = fetch(url, init)
    if (init.method !== 'GET') trackChange(asked)
    const answer = await asked
    if (answer.status === 409 && (await isTenantMismatch(answer.clone())))
      mismatch_listeners.forEach((each) => each())
    return answer
  },
})

/** Says which tenant the page shows: every request names it, and is refused while the session shows another one. */
export function setRequestTenant(id: string | null): void {
  tenant_id = id
}

/** Calls `hear` when a request was refused because the session shows another tenant; the answer ends that. */
export function onTenantMismatch(listener: () => void): () => void {
  mismatch_listeners.add(listener)
  return () => mismatch_listeners.delete(listener)
}

const pending_changes = new Set<Promise<unknown>>()

function trackChange(asked: Promise<Response>): void {
  const settled = asked.catch(() => {}).finally(() => pending_changes.delete(settled))
  pending_changes.add(settled)
}

/** Waits until whatever is under way and may change the session, as all but reads may, has its answer. */
export async function waitForChanges(): Promise<void> {
  await Promise.all(pending_changes)
}

/** What went wrong, in the API's own words; amounts as the reader's locale writes them. */
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
  /** Sent as JSON. Of a POST without one nothing is sent. */
  body?: unknown
  idempotency_key?: string | undefined
  signal?: AbortSignal | undefined
}

/** Asks and returns what the answer holds; undefined for 204. Throws `SluiceError`. */
async function ask<T>(method: string, path: ApiPath, asked: RequestContent = {}): Promise<T> {
  const { body } = await requestWithHeaders(method, path, asked)
  return body as T
}

/** Reads one resource. */
export const read = <T>(path: PathTo<T>, query?: ApiQuery, signal?: AbortSignal): Promise<T> =>
  ask<T>('GET', path, { query, signal })

/** Posts `body`; an act of /v1 takes the `idempotency_key` of its dialog, all others are asked once. */
export const post = <T>(path: ApiPath, body?: unknown, idempotency_key?: string): Promise<T> =>
  ask<T>('POST', path, { body, idempotency_key })

/**
 * A page of a list, and the query parameters that lead to the next one; `next` null: there is none. `scanned_until`: it is
 * not full because it stopped looking there.
 */
export type PageOfRows<T> = { rows: T[]; next: Record<string, string> | null; scanned_until?: string | null }

/** Reads one page of a list. The answer is an array, with the next page as its `Link`, or `{ data, next }`. */
export async function readPage<T>(
  path: PathTo<T[]>,
  query?: ApiQuery,
  signal?: AbortSignal,
): Promise<PageOfRows<T>> {
  const { body, headers } = await requestWithHeaders('GET', path, { query, signal })
  const found = body as T[] | { data: T[] }
  const next = nextQuery(headers.get('link'))
  return {
    rows: Array.isArray(found) ? found : found.data,
    next: next && changedParameters(next, query ?? {}),
    scanned_until: headers.get('x-scanned-until'),
  }
}

/** All rows of a list, page by page, for as long as somebody takes them. */
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
  const asked = Object.fromEntries(Object.entries(query ?? {}).filter(([, value]) => value !== ''))
  const key = keyOptions(path, idempotency_key)
  const answer = sluice.request(
    method,
    path,
    { query: asked, body, ...key.content },
    { ...key.options, signal },
  )
  const { data, response } = await answer.withResponse()
  return { body: data, headers: response.headers }
}

async function isTenantMismatch(answer: Response): Promise<boolean> {
  const body: unknown = await answer.json().catch(() => null)
  const { error } = Object(body) as { error?: { code?: string; param?: string } }
  return error?.code === 'conflict' && error.param === TENANT_HEADER
}

/** The parameters of a link that differ from what was asked. */
function changedParameters(link: Record<string, string>, asked: ApiQuery): Record<string, string> {
  return Object.fromEntries(
    Object.entries(link).filter(([name, value]) => String(asked[name] ?? '') !== value),
  )
}
