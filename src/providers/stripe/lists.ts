// Searches Stripe's lists, page by page.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import { believe } from './answers.ts'

/**
 * The first record of a list whose metadata say `name: id`, but for the one of `except`; or null; all pages together take `deadline_ms` at most. Only
 * that record is read: what else the account has may be of any kind.
 */
export async function findInList<Listed extends { id: string; metadata?: Stripe.Metadata | null }, Found>(
  deadline_ms: number,
  list: (
    page: { limit: number; starting_after?: string },
    options: { timeout: number },
  ) => Promise<Pick<Stripe.ApiList<Listed>, 'object' | 'data' | 'has_more'>>,
  { name, id, except }: { name: string; id: string; except?: string | undefined },
  read: (listed: Listed) => Found,
): Promise<Found | null> {
  for await (const page of pagesOf(deadline_ms, list)) {
    const found = page.find((each) => each.metadata?.[name] === id && each.id !== except)
    if (found !== undefined) return read(found)
  }
  return null
}

/** Of 100 objects each. */
const MOST_PAGES = 500

/** The pages of a list, from the first to the last, `MOST_PAGES` at most; all of them together take `deadline_ms` at most. */
export async function* pagesOf<Listed extends { id: string }>(
  deadline_ms: number,
  list: (
    page: { limit: number; starting_after?: string },
    options: { timeout: number },
  ) => Promise<Pick<Stripe.ApiList<Listed>, 'object' | 'data' | 'has_more'>>,
): AsyncGenerator<Listed[]> {
  const until = performance.now() + deadline_ms
  let starting_after: string | undefined
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const timeout = Math.ceil(until - performance.now())
    if (timeout <= 0) throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true })
    const page = await list({ limit: 100, starting_after }, { timeout })
    believe(page.object === 'list' && Array.isArray(page.data), 'not a list')
    yield page.data
    if (!page.has_more) return
    starting_after = page.data.at(-1)?.id
    believe(typeof starting_after === 'string', 'more to come after an empty page')
  }
  throw new NoAnswer(`the list has more than ${MOST_PAGES} pages`, { sent: true })
}
