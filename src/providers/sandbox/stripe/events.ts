// Events about changes of objects.
import { isLiveAccount } from './account.ts'
import type { Call } from './call.ts'
import { recordS, type Engine } from './engine.ts'
import { resourceMissing, parameterRefused } from './errors.ts'
import { appendEvent, type StoredEvent } from './event-log.ts'
import { stripeId } from './ids.ts'
import { page, rangeOf, type Page } from './lists.ts'
import { stringOf, stringsOf } from './params.ts'
import type { Params } from './parse.ts'
import { API_VERSION, render } from './render.ts'
import type { Rendered } from './rendered.ts'
import { exclusive } from './rules.ts'
import type { Version } from './versions.ts'

/** Creates the event and passes it to the host, unless the host omits it. */
export function emit(
  engine: Engine,
  call: Call,
  type: string,
  object: Version,
  previous: Version | null = null,
): void {
  const { hooks } = engine
  if (hooks.omitsEvent()) return
  const event: StoredEvent = {
    id: stripeId('evt_'),
    type,
    created: recordS(engine),
    object,
    previous,
    request_id: call.request_id,
    idempotency_key: call.idempotency_key,
    pending: hooks.isSubscribed(type),
  }
  appendEvent(engine.events, event)
  engine.journal?.append({
    event: { ...event, object: object.revision, previous: previous?.revision ?? null },
  })
  hooks.onEvent(event)
}

/** Records that the host has delivered the event. */
export function markDelivered({ journal }: Engine, event: StoredEvent): void {
  if (!event.pending) return
  event.pending = false
  journal?.append({ delivered: event.id })
}

/** An event in the format of Stripe's API. */
export function renderEvent(engine: Engine, event: StoredEvent): Rendered {
  const object = render(event.object, engine.pages_url)
  return {
    id: event.id,
    object: 'event',
    api_version: API_VERSION,
    created: event.created,
    data: {
      object,
      ...(event.previous && {
        previous_attributes: previousAttributes(render(event.previous, engine.pages_url), object),
      }),
    },
    livemode: isLiveAccount(engine),
    pending_webhooks: event.pending ? 1 : 0,
    request: { id: event.request_id, idempotency_key: event.idempotency_key },
    type: event.type,
  }
}

export function findEvent(engine: Engine, id: string): StoredEvent {
  const index = engine.events.indexOf.get(id)
  if (index === undefined) throw resourceMissing(404, 'event', id, 'id')
  return engine.events.list[index]!
}

/** Limit of `types` (stripe-node, `EventListParams`). */
const MAX_TYPES = 20

/** A page of events, newest first. Filters: `type` (may end with `*`) or `types[]`, `created[gte]`. */
export function listEvents(engine: Engine, params: Params): Page {
  const type = stringOf(params, 'type')
  const types = stringsOf(params, 'types')
  exclusive(params, 'type', 'types')
  if (types.length > MAX_TYPES)
    throw parameterRefused(`Array must contain at most ${MAX_TYPES} elements.`, 'types')
  const types_filter = type === null ? (types.length > 0 ? new Set(types) : null) : new Set([type])
  const created = rangeOf(params, 'created')
  return page(params, {
    url: '/v1/events',
    size: engine.events.list.length,
    at: (index) => engine.events.list[index]!,
    indexOf: (id) => engine.events.indexOf.get(id),
    matches: (event) => created(event.created) && (!types_filter || matchesType(types_filter, event.type)),
    show: (event) => renderEvent(engine, event),
  })
}

function matchesType(types_filter: Set<string>, type: string): boolean {
  if (types_filter.has(type)) return true
  for (const each of types_filter) if (each.endsWith('.*') && type.startsWith(each.slice(0, -1))) return true
  return false
}

function previousAttributes(before: Rendered, after: Rendered): Rendered {
  const changed: Rendered = {}
  for (const key in after) {
    const old = before[key] ?? null
    if (old !== after[key] && JSON.stringify(old) !== JSON.stringify(after[key])) changed[key] = old
  }
  return changed
}
