// What became of an act whose answer was lost, and the keys under which acts are asked again.
import { randomId } from '#sdk/client.ts'
import { SluiceError, type RememberedRequest } from '#sdk/index.ts'

/** In which a page names the tenant that it shows. */
export const TENANT_HEADER = 'x-sluice-tenant'
/** Server errors that are outcomes: it was tried, and failed. */
const PROVIDER_FAILURES = new Set<string>(['email_send_failed', 'sms_send_failed', 'processor_error'])

/** Whether nobody knows, after this error, if the act was done. */
export function isOutcomeUnknown(error: Error): boolean {
  if (!(error instanceof SluiceError)) return false
  // It was asked again with other words: what was asked first has arrived.
  return error.code === 'idempotency_key_reused' || (error.maybe_done && !isFinalResponse(error))
}

/** Whether the API has looked the key up before it said this: then it knows of no other outcome. */
function isFinalResponse({ code, status, param }: SluiceError): boolean {
  if (status === null || ![402, 404, 409, 422].includes(status)) return PROVIDER_FAILURES.has(code)
  if (code === 'conflict') return param !== TENANT_HEADER
  return !['unreadable_answer', 'route_not_found', 'idempotency_key_reused'].includes(code)
}

/** A key for one act: made when its dialog opens, kept while it is asked again. */
export function newIdempotencyKey(): string {
  return `dashboard-${randomId()}`
}

/**
 * How a key is sent with a POST: the routes of /v1 remember it, so that one whose answer was lost is sent again. All other
 * routes would do it twice, so those are asked once.
 */
export function keyOptions(
  path: string,
  idempotency_key: string | undefined,
): { content: { key?: 'header' }; options: { idempotency_key?: string } } {
  if (idempotency_key === undefined || !path.startsWith('/v1/')) return { content: {}, options: {} }
  return { content: { key: 'header' }, options: { idempotency_key } }
}

/** A key, and what was asked under it, in words: more than one thing when it was asked again otherwise. */
type StoredAct = { key: string; words: string[] }
const STORAGE_KEY = 'sluice.open-acts'
const stored_acts = new Map<string, StoredAct>(loadStoredActs())

/** The key of an act about `subject` whose outcome is not known; undefined: there is none. */
export const storedKeyOf = (subject: string): string | undefined => stored_acts.get(subject)?.key

/** What was asked under that key. */
export const storedTitlesOf = (subject: string): readonly string[] => stored_acts.get(subject)?.words ?? []

/**
 * Asks for an act, and keeps its key from then on until it is known what became of it: also when its dialog is closed or
 * the page is loaded again. A refusal from before the key was looked up says nothing of what was asked before.
 */
export async function runWithStoredKey<T>(
  { subject, key, words }: { subject: string; key: string; words: string },
  act: (idempotency_key: string) => Promise<T>,
): Promise<T> {
  const before = stored_acts.get(subject)
  const is_retry = before?.key === key
  storeAct(subject, { key, words: [...new Set([...(is_retry ? before.words : []), words])] })
  try {
    const done = await act(key)
    deleteStoredKey(subject, key)
    return done
  } catch (error) {
    if (error instanceof SluiceError) {
      if (isFinalResponse(error) || (!is_retry && !isOutcomeUnknown(error))) deleteStoredKey(subject, key)
      // It was not taken with these words.
      else if (is_retry && (!error.maybe_done || error.code === 'idempotency_key_reused'))
        storeAct(subject, before)
    }
    throw error
  }
}

/** It is known what became of it. */
export function deleteStoredKey(subject: string, key: string): void {
  if (storedKeyOf(subject) !== key) return
  stored_acts.delete(subject)
  saveStoredActs()
}

function storeAct(subject: string, act: StoredAct): void {
  stored_acts.set(subject, act)
  saveStoredActs()
}

// A browser may keep nothing for us: then the keys last as long as the page.
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

/** What became of an act; `missing`: it has not arrived; `unknown`: whether the provider did it is being found out. */
export type FoundOutcome = { state: RememberedRequest['status'] | 'missing'; request?: RememberedRequest }

/** Asks what became of the act with this key. Throws while that cannot be found out. */
export async function findOutcome(
  list: (key: string) => PromiseLike<readonly RememberedRequest[]>,
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

/** The outcome in words; `asked`: what was asked, so that it says whom and how much. */
export function outcomeText({ state, request }: FoundOutcome, titles: readonly string[] = []): string {
  const resource = `${request?.resource.replaceAll('_', ' ') ?? 'what it is about'} ${request?.resource_id ?? ''}`
  const what = titles.length === 0 ? resource : `${resource} (${titles.join(', or ')})`
  return {
    finished: `It was done: ${what}.`,
    under_way: `It was received and is under way: ${what}.`,
    failed: `It was received and failed: ${what}.`,
    unknown: `It was received, but whether it took effect at the provider is not known yet: ${what}.`,
    missing: 'It was never received. Try again.',
  }[state]
}
