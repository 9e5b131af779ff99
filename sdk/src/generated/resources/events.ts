// `sluice.events`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { pathSegment, Resource } from '../../resource.ts'
import type { FeedEvent } from '../events.ts'
import type { EventTypes } from '../schemas.ts'

/** Query parameters of `events.list`. */
export interface ListEventsQuery {
  /**
   * Only events with a higher `sequence`. Pass the `sequence` of the last event that you have processed.
   *
   * `Default: `0`.
   */
  after?: number
  /**
   * Page size.
   *
   * `Default: `25`.
   */
  limit?: number
  /** Filter by type, or by all types of a resource: `payment.*`. */
  type?: EventTypes
  /** Filter by resource. */
  subject_id?: string
  /** Created at or after. */
  created_from?: string
  /** Created before. */
  created_to?: string
}

/** Everything that happened to your resources, in one order. */
export class EventsResource extends Resource {
  /**
   * List events, oldest first.
   *
   * The feed of events. Every event has a `sequence`, from 1 and without gaps except restarts, and an
   * event that enters the feed later has a higher `sequence`. So you miss no event if you always request
   * the events after the last event that you have. `Link` always points to the next page. An event
   * enters the feed a moment after it happened. It is retained for 90 days, or as long as your operator
   * has configured. `created_from` and `created_to` filter by the time of the event; the order is still
   * that of the sequences. A request that waits is answered with the first event that matches all
   * filters.
   *
   * If there are no events, `Prefer: wait=N` (at most 30 seconds) waits: the answer comes with the first
   * event, or is empty after N seconds. At most 20 requests of a key may wait at once.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/events`
   */
  list(query?: ListEventsQuery, options?: RequestOptions): Pages<FeedEvent> {
    return this.pages('/v1/events', query, options)
  }

  /**
   * Retrieve an event.
   *
   * Also returns an event that is not in the feed yet: its `sequence` is null.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/events/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<FeedEvent> {
    return this.send('GET', `/v1/events/${pathSegment(id)}`, {}, options)
  }
}
