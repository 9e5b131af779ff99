// What became of an act whose answer was lost, and the keys under which acts are asked again.
import { isFinal, randomId } from '#sdk/client.ts'
import { SluiceError, type RememberedRequest } from '#sdk/index.ts'

/** Whether nobody knows, after this error, if the act was done. */
export function isUnknown(error: Error): boolean {
  if (!(error instanceof SluiceError)) return false
  // It was asked again with other words: what was asked first has arrived.
  if (error.code === 'idempotency_key_reused') return true
  return (error.status === null || error.status >= 500) && !isFinal(error.code)
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

const open = new Map<string, string>()

/** The key of an act about `subject` whose outcome is not known; undefined: there is none. */
export const openKeyOf = (subject: string): string | undefined => open.get(subject)

/** Keeps the key of an act for as long as its outcome is unknown, also when its dialog is closed. */
export function keepKey(subject: string, key: string, error: Error | null): void {
  if (error !== null && isUnknown(error)) open.set(subject, key)
  else if (open.get(subject) === key) open.delete(subject)
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

/** The outcome in words. */
export function outcomeWords({ state, request }: FoundOutcome): string {
  const what = `${request?.resource.replaceAll('_', ' ') ?? 'what it is about'} ${request?.resource_id ?? ''}`
  return {
    finished: `It was done: ${what}.`,
    under_way: `It has arrived and is under way: ${what}.`,
    failed: `It has arrived and failed: ${what}.`,
    unknown: `It has arrived; whether the provider did it is being found out: ${what}.`,
    missing: 'It never arrived: try again.',
  }[state]
}
