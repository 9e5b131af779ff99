// Judges deliveries: each subscribed endpoint has accepted each event, ordered endpoints have accepted them in order,
// and nothing else was sent.
import type { Problem } from '#test/invariants.ts'
import type { Arrival, ReceiverEndpoint } from '../events/receivers.ts'
import type { Switch } from '../record.ts'
import type { FeedEvent } from './feeds.ts'

export const EVENT_LOST = 'an event was lost'
export const OVERTAKEN = 'an ordered endpoint was sent a later event first'

/** A row of `webhook_deliveries`. */
export type Delivery = {
  endpoint_id: string
  event_id: string
  status: string
  attempts: number
  last_error: string | null
}

/** Events that may precede the endpoints of a tenant. Each is sent only to endpoints that existed at that time. */
const EARLY_EVENTS = /^webhook_endpoint\.|^feed\./

/**
 * Compares the arrivals with the events. All endpoints of a tenant are created before its first event that is not about
 * an endpoint or a restart of the feed.
 */
export function judgeDeliveries({
  events,
  endpoints,
  deliveries,
  arrivals,
  switches = [],
}: {
  events: FeedEvent[]
  endpoints: ReceiverEndpoint[]
  deliveries: Delivery[]
  arrivals: Arrival[]
  /** Events that arrived during these times may be lost, or had another sequence. */
  switches?: Switch[]
}): Problem[] {
  const feeds = Map.groupBy(events, ({ tenant_id }) => tenant_id)
  const of = Map.groupBy(deliveries, ({ endpoint_id }) => endpoint_id)
  const at = Map.groupBy(arrivals, ({ endpoint }) => endpoint)
  const names = new Set(endpoints.map(({ name }) => name))
  const unknown = arrivals.filter(({ endpoint }) => !names.has(endpoint))
  return [
    ...unknown.map((arrival) => ({ problem: 'an event arrived at an unknown endpoint', ...arrival })),
    ...endpoints.flatMap((endpoint) => {
      const sent = new Set((of.get(endpoint.id) ?? []).map(({ event_id }) => event_id))
      const expected = (feeds.get(endpoint.tenant_id) ?? []).filter(
        ({ id, type }) => subscribesTo(endpoint, type) && (!EARLY_EVENTS.test(type) || sent.has(id)),
      )
      const received = at.get(endpoint.name) ?? []
      return [
        ...notAccepted(endpoint, expected, of.get(endpoint.id) ?? [], received),
        ...unrequested(endpoint, expected, received, switches),
        ...(endpoint.ordered ? outOfOrderArrivals(endpoint, expected, received, switches) : []),
      ]
    }),
  ]
}

function subscribesTo({ types }: ReceiverEndpoint, type: string): boolean {
  return types.some((one) => one === '*' || one === type || one === `${type.split('.')[0]}.*`)
}

/** Reports pending and failed deliveries, and delivered deliveries that no receiver has accepted. */
function notAccepted(
  { name }: ReceiverEndpoint,
  expected: FeedEvent[],
  deliveries: Delivery[],
  received: Arrival[],
): Problem[] {
  const byEvent = Map.groupBy(deliveries, ({ event_id }) => event_id)
  const accepted = new Set(
    received.filter(({ accepted_at }) => accepted_at !== null).map(({ event_id }) => event_id),
  )
  return expected.flatMap(({ id, sequence, type, subject_id }) => {
    const [delivery, ...more] = byEvent.get(id) ?? []
    const facts = { endpoint: name, event_id: id, sequence, type, subject_id, delivery }
    if (more.length > 0) return [{ problem: 'an event has two deliveries to one endpoint', ...facts, more }]
    if (delivery?.status === 'pending') return [{ problem: 'a delivery is still pending', ...facts }]
    if (delivery !== undefined && delivery.status !== 'delivered')
      return [{ problem: 'a delivery has failed', ...facts }]
    return accepted.has(id) ? [] : [{ problem: EVENT_LOST, ...facts }]
  })
}

function unrequested(
  { name }: ReceiverEndpoint,
  expected: FeedEvent[],
  received: Arrival[],
  switches: Switch[],
): Problem[] {
  const ids = new Set(expected.map(({ id }) => id))
  return received
    .filter(({ event_id, at }) => !ids.has(event_id) && !mayBeLost(at, switches))
    .map(({ event_id }) => ({ problem: 'an event arrived without a subscription', endpoint: name, event_id }))
}

/** A request for an event starts only after the previous event was accepted. An earlier event may be repeated. */
function outOfOrderArrivals(
  { name }: ReceiverEndpoint,
  expected: FeedEvent[],
  received: Arrival[],
  switches: Switch[],
): Problem[] {
  const sequences = new Map(expected.map(({ id, sequence }) => [id, sequence]))
  const before = new Map(expected.map(({ id }, index) => [id, expected[index - 1]?.id]))
  const accepted = new Map<string, number>()
  for (const { event_id, accepted_at } of received)
    if (accepted_at !== null)
      accepted.set(event_id, Math.min(accepted_at, accepted.get(event_id) ?? Infinity))
  return received.flatMap(({ event_id, at }) => {
    const earlier = before.get(event_id)
    if (earlier === undefined || (accepted.get(earlier) ?? Infinity) <= at || mayBeLost(at, switches))
      return []
    const facts = { earlier, earlier_sequence: sequences.get(earlier), sequence: sequences.get(event_id) }
    const late_ms = (accepted.get(earlier) ?? Infinity) - at
    return [{ problem: OVERTAKEN, endpoint: name, event_id, ...facts, late_ms }]
  })
}

function mayBeLost(at: number, switches: Switch[]): boolean {
  return switches.some(({ since, until }) => at >= since && at <= until)
}
