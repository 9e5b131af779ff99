// Searches Stripe's lists page by page.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import { assertAnswer } from './answers.ts'

/** Requests one page of a list. */
export type Pages<Listed> = (
  page: { limit: number; starting_after?: string },
  options: { timeout: number },
) => Promise<Pick<Stripe.Response<Stripe.ApiList<Listed>>, 'object' | 'data' | 'has_more' | 'lastResponse'>>

/** The maximum difference of the clocks. With a larger difference, a list of a time range may miss objects. */
const MAX_CLOCK_SKEW_S = 30

/**
 * Searches a list for the first record with `name: id` in its metadata; null if there is none. All pages together take
 * at most `deadline_ms`. Only the found record is converted, because other records of the account may have any form.
 * `now_s`: as in `pagesOf`.
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

/** The maximum number of pages, with 100 objects each. */
const MAX_PAGES = 500

/** Throws NoAnswer if the provider's clock differs too much: then an empty list of a time range proves nothing. */
export function assertClockInSync(clock_skew_s: number): void {
  if (Math.abs(clock_skew_s) <= MAX_CLOCK_SKEW_S) return
  const reason = Number.isNaN(clock_skew_s)
    ? 'the provider reports no time'
    : `the clocks of the provider and of the database differ by ${Math.round(Math.abs(clock_skew_s))} s`
  throw new NoAnswer(`${reason}, so a missing entry proves nothing`, { sent: true })
}

/**
 * Yields the pages of a list: at most `MAX_PAGES`, within `deadline_ms` in total. `now_s`: for a list of a time range,
 * the current time (unix seconds) by the clock of the range. `clock_skew_s`: how far the provider's clock is ahead of
 * that clock, by the date header of the answer.
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
    assertAnswer(typeof starting_after === 'string', 'an empty page that is not the last')
  }
  throw new NoAnswer(`the list has more than ${MAX_PAGES} pages`, { sent: true })
}
