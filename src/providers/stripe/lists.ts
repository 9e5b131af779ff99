// Searches Stripe's lists, page by page.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import { believe } from './answers.ts'

/**
 * The first record of a list whose metadata say `name: id`, or null; all pages together take `deadline_ms` at most. Only
 * that record is read: what else the account has may be of any kind.
 */
export async function findInList<Listed extends { id: string; metadata?: Stripe.Metadata | null }, Found>(
  deadline_ms: number,
  list: (
    page: { limit: number; starting_after?: string },
    options: { timeout: number },
  ) => Promise<Pick<Stripe.ApiList<Listed>, 'object' | 'data' | 'has_more'>>,
  { name, id }: { name: string; id: string },
  read: (listed: Listed) => Found,
): Promise<Found | null> {
  const until = performance.now() + deadline_ms
  let starting_after: string | undefined
  for (;;) {
    const timeout = Math.ceil(until - performance.now())
    if (timeout <= 0) throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true })
    const page = await list({ limit: 100, starting_after }, { timeout })
    believe(page.object === 'list' && Array.isArray(page.data), 'not a list')
    const found = page.data.find((each) => each.metadata?.[name] === id)
    if (found !== undefined) return read(found)
    if (!page.has_more) return null
    starting_after = page.data.at(-1)?.id
    believe(typeof starting_after === 'string', 'more to come after an empty page')
  }
}
