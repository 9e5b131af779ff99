// Reads Stripe's lists of objects by creation time.
import type { Stripe } from 'stripe'
import type { ListedObject, ObjectLists } from '../objects.ts'
import { assertAnswer } from './answers.ts'
import type { StripeClient } from './client.ts'
import { eventTargetOf, reportedBy } from './events.ts'

type Range = { created: Stripe.RangeQueryParam; limit: number; starting_after?: string }
type Listed = { id: string; object: string; metadata?: Stripe.Metadata | null }
/** Requests a page of a list of Stripe. */
type RequestPage = (range: Range) => Promise<Stripe.ApiList<Listed>>

/** The lists of the objects that `requests` reads, by the name of the list. */
export function objectLists({ call }: StripeClient, requests: Record<string, RequestPage>): ObjectLists {
  const lists = Object.entries(requests).map(([name, request]): [string, ObjectLists[string]] => [
    name,
    ({ from_s, to_s, after }) =>
      call('list_objects', async () => {
        const page = await request({
          created: { gte: from_s, lte: to_s },
          limit: 100,
          ...(after !== null && { starting_after: after }),
        })
        assertAnswer(page.object === 'list' && Array.isArray(page.data), 'not a list')
        assertAnswer(!page.has_more || page.data.length > 0, 'an empty page that is not the last')
        return { objects: page.data.flatMap(toObject), last: page.has_more ? page.data.at(-1)!.id : null }
      }),
  ])
  return Object.fromEntries(lists)
}

/** A listed object; none if it is not tracked. */
function toObject(listed: Listed): ListedObject[] {
  const target = eventTargetOf({ data: { object: listed } })
  if (target === null) return []
  const { resource, reference, parent_reference } = target
  const installation = listed.metadata?.['sluice_installation'] ?? null
  return [{ resource, reference, parent_reference, installation, reported: reportedBy(null, listed) }]
}
