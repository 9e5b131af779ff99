// Searches Stripe's lists, page by page.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import { assertAnswer } from './answers.ts'

/** Asks for a page of a list. */
export type Pages<Listed> = (
  page: { limit: number; starting_after?: string },
  options: { timeout: number },
) => Promise<Pick<Stripe.Response<Stripe.ApiList<Listed>>, 'object' | 'data' | 'has_more' | 'lastResponse'>>

/** With a clock that differs by more, nobody knows whether the right time was listed. */
const MAX_CLOCK_SKEW_S = 30

/**
 * The first record of a list whose metadata say `name: id`, or null; all pages together take
 * `deadline_ms` at most. Only that record is read: what else the account has may be of any kind. `now_s`: as `pagesOf`.
 */
export async function findInList<Listed extends { id: string; metadata?: Stripe.Metadata | null }, Found>(
  deadline_ms: number,
  list: Pages<Listed>,
  { name, id, now_s }: { name: string; id: string; now_s?: number },
  read: (listed: Listed) => Found,
): Promise<Found | null> {
  let skew_s = 0
  for await (const { data, clock_skew_s } of pagesOf(deadline_ms, list, now_s)) {
    const found = data.find((each) => each.metadata?.[name] === id)
    if (found !== undefined) return read(found)
    skew_s = clock_skew_s
  }
  assertClockInSync(skew_s)
  return null
}

/** Of 100 objects each. */
const MAX_PAGES = 500

/** Rejects an absence where the provider's clock differs from ours: nobody knows whether the right time was listed. */
export function assertClockInSync(clock_skew_s: number): void {
  if (Math.abs(clock_skew_s) <= MAX_CLOCK_SKEW_S) return
  const reason = Number.isNaN(clock_skew_s)
    ? 'the provider does not say its time'
    : `the clocks of the provider and of the database differ by ${Math.round(Math.abs(clock_skew_s))} s`
  throw new NoAnswer(`${reason}, so what is not listed proves nothing`, { sent: true })
}

/**
 * The pages of a list, from the first to the last, `MOST_PAGES` at most; all of them together take `deadline_ms` at most. `now_s`: where the list
 * is of a time, the present by the clock that this time was taken from (Unix time); `apart_s`: by how much the provider's
 * clock is ahead of it, as its answer says.
 */
export async function* pagesOf<Listed extends { id: string }>(
  deadline_ms: number,
  list: Pages<Listed>,
  now_s?: number,
): AsyncGenerator<{ data: Listed[]; clock_skew_s: number }> {
  const started_at = performance.now()
  let starting_after: string | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const timeout = Math.ceil(started_at + deadline_ms - performance.now())
    if (timeout <= 0) throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true })
    const page = await list({ limit: 100, starting_after }, { timeout })
    assertAnswer(page.object === 'list' && Array.isArray(page.data), 'not a list')
    const elapsed_s = (performance.now() - started_at) / 1000
    const provider_now_s = Date.parse(page.lastResponse.headers['date'] ?? '') / 1000
    yield { data: page.data, clock_skew_s: now_s === undefined ? 0 : provider_now_s - now_s - elapsed_s }
    if (!page.has_more) return
    starting_after = page.data.at(-1)?.id
    assertAnswer(typeof starting_after === 'string', 'more to come after an empty page')
  }
  throw new NoAnswer(`the list has more than ${MAX_PAGES} pages`, { sent: true })
}
