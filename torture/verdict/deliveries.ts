// The deliveries: each endpoint that asked for an event has taken it, nothing else came there, and in order where that is asked for.
import type { Problem } from '#test/invariants.ts'
import type { Arrival, KnownEndpoint } from '../events/receivers.ts'
import type { FeedEvent } from './feeds.ts'

export const EVENT_LOST = 'an event was lost'
export const OVERTAKEN = 'an ordered endpoint was sent a later event first'

/** As it is in the database. */
export type Delivery = {
  endpoint_id: string
  event_id: string
  status: string
  attempts: number
  last_error: string | null
}

/** Tells that the endpoints themselves were made, one after the other. */
const OF_ENDPOINTS = 'webhook_endpoint.'

/** What receivers saw against what happened. All endpoints were there before anything else happened to their tenants. */
export function judgeDeliveries({
  events,
  endpoints,
  deliveries,
  arrivals,
}: {
  events: FeedEvent[]
  endpoints: KnownEndpoint[]
  deliveries: Delivery[]
  arrivals: Arrival[]
}): Problem[] {
  const feeds = Map.groupBy(events, ({ tenant_id }) => tenant_id)
  const of = Map.groupBy(deliveries, ({ endpoint_id }) => endpoint_id)
  const at = Map.groupBy(arrivals, ({ endpoint }) => endpoint)
  const known = new Set(endpoints.map(({ name }) => name))
  const strange = arrivals.filter(({ endpoint }) => !known.has(endpoint))
  return [
    ...strange.map((arrival) => ({ problem: 'an event arrived where no endpoint is', ...arrival })),
    ...endpoints.flatMap((endpoint) => {
      const sent = new Set((of.get(endpoint.id) ?? []).map(({ event_id }) => event_id))
      const wanted = (feeds.get(endpoint.tenant_id) ?? []).filter(
        ({ id, type }) => asksFor(endpoint, type) && (!type.startsWith(OF_ENDPOINTS) || sent.has(id)),
      )
      const came = at.get(endpoint.name) ?? []
      return [
        ...notTaken(endpoint, wanted, of.get(endpoint.id) ?? [], came),
        ...invented(endpoint, wanted, came),
        ...(endpoint.ordered ? overtaken(endpoint, wanted, came) : []),
      ]
    }),
  ]
}

function asksFor({ types }: KnownEndpoint, type: string): boolean {
  return types.some((one) => one === '*' || one === type || one === `${type.split('.')[0]}.*`)
}

/** What is still to be sent, or was given up, is named so; what is said to be delivered was taken. */
function notTaken(
  { name }: KnownEndpoint,
  wanted: FeedEvent[],
  deliveries: Delivery[],
  came: Arrival[],
): Problem[] {
  const byEvent = Map.groupBy(deliveries, ({ event_id }) => event_id)
  const taken = new Set(came.filter(({ taken_at }) => taken_at !== null).map(({ event_id }) => event_id))
  return wanted.flatMap(({ id, sequence, type, subject_id }) => {
    const [delivery, ...more] = byEvent.get(id) ?? []
    const facts = { endpoint: name, event_id: id, sequence, type, subject_id, delivery }
    if (more.length > 0) return [{ problem: 'an event has two deliveries to one endpoint', ...facts, more }]
    if (delivery?.status === 'pending') return [{ problem: 'a delivery has not ended', ...facts }]
    if (delivery !== undefined && delivery.status !== 'delivered')
      return [{ problem: 'a delivery was given up', ...facts }]
    return taken.has(id) ? [] : [{ problem: EVENT_LOST, ...facts }]
  })
}

function invented({ name }: KnownEndpoint, wanted: FeedEvent[], came: Arrival[]): Problem[] {
  const ids = new Set(wanted.map(({ id }) => id))
  return came
    .filter(({ event_id }) => !ids.has(event_id))
    .map(({ event_id }) => ({ problem: 'an event arrived that was not asked for', endpoint: name, event_id }))
}

/** Before a request for an event begins, the one before it was taken: so all before it were. An earlier one may come again. */
function overtaken({ name }: KnownEndpoint, wanted: FeedEvent[], came: Arrival[]): Problem[] {
  const sequences = new Map(wanted.map(({ id, sequence }) => [id, sequence]))
  const before = new Map(wanted.map(({ id }, index) => [id, wanted[index - 1]?.id]))
  const taken = new Map<string, number>()
  for (const { event_id, taken_at } of came)
    if (taken_at !== null) taken.set(event_id, Math.min(taken_at, taken.get(event_id) ?? Infinity))
  return came.flatMap(({ event_id, at }) => {
    const earlier = before.get(event_id)
    if (earlier === undefined || (taken.get(earlier) ?? Infinity) <= at) return []
    const facts = { earlier, earlier_sequence: sequences.get(earlier), sequence: sequences.get(event_id) }
    const late_ms = (taken.get(earlier) ?? Infinity) - at
    return [{ problem: OVERTAKEN, endpoint: name, event_id, ...facts, late_ms }]
  })
}
