// Outcomes of acts whose response was lost, and the idempotency keys of their retries.
import { randomId } from '#sdk/client.ts'
import { SluiceError, type AcceptedRequest } from '#sdk/index.ts'

/** The header in which a page names its tenant. */
export const TENANT_HEADER = 'x-sluice-tenant'
/** Server errors that are outcomes: the provider was called and failed. */
const PROVIDER_FAILURES = new Set<string>(['email_send_failed', 'sms_send_failed', 'processor_error'])

/** Whether the outcome of the act is unknown after this error. */
export function isOutcomeUnknown(error: Error): boolean {
  if (!(error instanceof SluiceError)) return false
  // The key was reused with a different body, so the first request has arrived.
  return error.code === 'idempotency_key_reused' || (error.maybe_done && !isFinalResponse(error))
}

/** Whether the API returned this error after it had checked the key. Such an error is the outcome of the act. */
function isFinalResponse({ code, status, param }: SluiceError): boolean {
  if (status === null || ![402, 404, 409, 422].includes(status)) return PROVIDER_FAILURES.has(code)
  if (code === 'conflict') return param !== TENANT_HEADER
  return !['unreadable_answer', 'route_not_found', 'idempotency_key_reused'].includes(code)
}

/** A new idempotency key for one act. A dialog creates it and reuses it for retries. */
export function newIdempotencyKey(): string {
  return `dashboard-${randomId()}`
}

/**
 * Request options for a POST with a key. Routes of /v1 store the key, so the SDK may retry them. Other routes would
 * repeat the effect, so they are not retried.
 */
export function keyOptions(
  path: string,
  idempotency_key: string | undefined,
): { content: { key?: 'header' }; options: { idempotency_key?: string } } {
  if (idempotency_key === undefined || !path.startsWith('/v1/')) return { content: {}, options: {} }
  return { content: { key: 'header' }, options: { idempotency_key } }
}

/** A key, and the titles of the acts that were requested with it. */
type StoredAct = { key: string; titles: string[] }
const STORAGE_KEY = 'sluice.open-acts'
const stored_acts = new Map<string, StoredAct>(loadStoredActs())

/** The stored key of an `operation` with an unknown outcome. Undefined: there is none. */
export const storedKeyOf = (operation: string): string | undefined => stored_acts.get(operation)?.key

/** The titles of the acts that were requested with that key. */
export const storedTitlesOf = (operation: string): readonly string[] =>
  stored_acts.get(operation)?.titles ?? []

/**
 * Requests an act, and stores its key in the session storage until the outcome is known, even if the dialog is closed
 * or the page reloaded. A retry may be refused before its key is checked. Then the key stays stored, because the
 * outcome of the earlier request is still unknown.
 */
export async function runWithStoredKey<T>(
  { operation, key, title }: { operation: string; key: string; title: string },
  act: (idempotency_key: string) => Promise<T>,
): Promise<T> {
  const before = stored_acts.get(operation)
  const is_retry = before?.key === key
  storeAct(operation, { key, titles: [...new Set([...(is_retry ? before.titles : []), title])] })
  try {
    const done = await act(key)
    deleteStoredKey(operation, key)
    return done
  } catch (error) {
    if (error instanceof SluiceError) {
      if (isFinalResponse(error) || (!is_retry && !isOutcomeUnknown(error))) deleteStoredKey(operation, key)
      // This request was not accepted, so its title is removed from the stored act.
      else if (is_retry && (!error.maybe_done || error.code === 'idempotency_key_reused'))
        storeAct(operation, before)
    }
    throw error
  }
}

/** Deletes the stored key: the outcome is known. */
export function deleteStoredKey(operation: string, key: string): void {
  if (storedKeyOf(operation) !== key) return
  stored_acts.delete(operation)
  saveStoredActs()
}

function storeAct(operation: string, act: StoredAct): void {
  stored_acts.set(operation, act)
  saveStoredActs()
}

// Session storage may be unavailable. Then the keys last as long as the page.
function loadStoredActs(): [string, StoredAct][] {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? '[]') as [string, StoredAct][]
  } catch {
    return []
  }
}

function saveStoredActs(): void {
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...stored_acts]))
  } catch {}
}

/** The outcome of an act. `missing`: the request never arrived. `unknown`: its effect is being looked up. */
export type FoundOutcome = { state: AcceptedRequest['status'] | 'missing'; request?: AcceptedRequest }

/** Looks up the outcome of the act with this key. Throws if the lookup fails. */
export async function findOutcome(
  list: (key: string) => PromiseLike<readonly AcceptedRequest[]>,
  key: string,
): Promise<FoundOutcome> {
  try {
    const [request] = await list(key)
    return request === undefined ? { state: 'missing' } : { state: request.status, request }
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'idempotency_key_not_found')
      return { state: 'missing' }
    throw error
  }
}

/** The outcome as text. `titles`: the requested acts, with recipient and amount. */
export function outcomeText({ state, request }: FoundOutcome, titles: readonly string[] = []): string {
  const resource = `${request?.resource.replaceAll('_', ' ') ?? 'the resource'} ${request?.resource_id ?? ''}`
  const what = titles.length === 0 ? resource : `${resource} (${titles.join(', or ')})`
  return {
    finished: `It was done: ${what}.`,
    under_way: `It was received and is in progress: ${what}.`,
    failed: `It was received and failed: ${what}.`,
    unknown: `It was received, but its effect at the provider is not known yet: ${what}.`,
    missing: 'It was never received. Try again.',
  }[state]
}
