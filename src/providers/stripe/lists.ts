// Searches Stripe's lists, page by page.
import type { Stripe } from 'stripe'
import { NoAnswer } from '../http.ts'
import { believe } from './answers.ts'

/** The first record of a list that is `wanted`, or null; all pages together take `deadline_ms` at most. */
export async function findInList<Listed, Found extends { reference: string }>(
  deadline_ms: number,
  list: (
    page: { limit: number; starting_after?: string },
    options: { timeout: number },
  ) => Promise<Pick<Stripe.ApiList<Listed>, 'object' | 'data' | 'has_more'>>,
  read: (listed: Listed) => Found,
  wanted: (found: Found) => boolean,
): Promise<Found | null> {
  const until = performance.now() + deadline_ms
  let starting_after: string | undefined
  for (;;) {
    const timeout = Math.ceil(until - performance.now())
    if (timeout <= 0) throw new NoAnswer(`no answer within ${deadline_ms} ms`, { sent: true })
    const page = await list({ limit: 100, starting_after }, { timeout })
    believe(page.object === 'list' && Array.isArray(page.data), 'not a list')
    const records = page.data.map(read)
    const found = records.find(wanted)
    if (found || !page.has_more) return found ?? null
    starting_after = records.at(-1)?.reference
    believe(starting_after !== undefined, 'more to come after an empty page')
  }
}
