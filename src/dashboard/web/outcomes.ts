// What became of an act whose answer was lost, and the keys under which acts are asked again.
import { randomId } from '#sdk/client.ts'
import { SluiceError, type RememberedRequest } from '#sdk/index.ts'

/** In which a page names the tenant that it shows. */
export const TENANT_HEADER = 'x-sluice-tenant'
/** Server errors that are outcomes: it was tried, and failed. */
const TRIED = new Set<string>(['email_send_failed', 'sms_send_failed', 'processor_error'])

/** Whether nobody knows, after this error, if the act was done. */
export function isUnknown(error: Error): boolean {
  if (!(error instanceof SluiceError)) return false
  // It was asked again with other words: what was asked first has arrived.
  return error.code === 'idempotency_key_reused' || (error.maybe_done && !isJudged(error))
}

/** Whether the API has looked the key up before it said this: then it knows of no other outcome. */
function isJudged({ code, status, param }: SluiceError): boolean {
  if (status === null || ![402, 404, 409, 422].includes(status)) return TRIED.has(code)
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
export function keyOf(
  path: string,
  idempotency_key: string | undefined,
): { content: { key?: 'header' }; options: { idempotency_key?: string } } {
  if (idempotency_key === undefined || !path.startsWith('/v1/')) return { content: {}, options: {} }
  return { content: { key: 'header' }, options: { idempotency_key } }
}

/** A key, and what was asked under it, in words: more than one thing when it was asked again otherwise. */
type OpenAct = { key: string; words: string[] }
const STORE = 'sluice.open-acts'
const open = new Map<string, OpenAct>(readOpen())

/** The key of an act about `subject` whose outcome is not known; undefined: there is none. */
export const openKeyOf = (subject: string): string | undefined => open.get(subject)?.key

/** What was asked under that key. */
export const openWordsOf = (subject: string): readonly string[] => open.get(subject)?.words ?? []

/**
 * Asks for an act, and keeps its key from then on until it is known what became of it: also when its dialog is closed or
 * the page is loaded again. A refusal from before the key was looked up says nothing of what was asked before.
 */
export async function askKeeping<T>(
  { subject, key, words }: { subject: string; key: string; words: string },
  act: (idempotency_key: string) => Promise<T>,
): Promise<T> {
  const before = open.get(subject)
  const again = before?.key === key
  keep(subject, { key, words: [...new Set([...(again ? before.words : []), words])] })
  try {
    const done = await act(key)
    forgetKey(subject, key)
    return done
  } catch (error) {
    if (error instanceof SluiceError) {
      if (isJudged(error) || (!again && !isUnknown(error))) forgetKey(subject, key)
      // It was not taken with these words.
      else if (again && (!error.maybe_done || error.code === 'idempotency_key_reused')) keep(subject, before)
    }
    throw error
  }
}

/** It is known what became of it. */
export function forgetKey(subject: string, key: string): void {
  if (openKeyOf(subject) !== key) return
  open.delete(subject)
  writeOpen()
}

function keep(subject: string, act: OpenAct): void {
  open.set(subject, act)
  writeOpen()
}

// A browser may keep nothing for us: then the keys last as long as the page.
function readOpen(): [string, OpenAct][] {
  try {
    return JSON.parse(sessionStorage.getItem(STORE) ?? '[]') as [string, OpenAct][]
  } catch {
    return []
  }
}

function writeOpen(): void {
  try {
    sessionStorage.setItem(STORE, JSON.stringify([...open]))
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
export function outcomeWords({ state, request }: FoundOutcome, asked: readonly string[] = []): string {
  const resource = `${request?.resource.replaceAll('_', ' ') ?? 'what it is about'} ${request?.resource_id ?? ''}`
  const what = asked.length === 0 ? resource : `${resource} (${asked.join(', or ')})`
  return {
    finished: `It was done: ${what}.`,
    under_way: `It was received and is under way: ${what}.`,
    failed: `It was received and failed: ${what}.`,
    unknown: `It was received, but whether it took effect at the provider is not known yet: ${what}.`,
    missing: 'It was never received. Try again.',
  }[state]
}
