// `sluice.events`.

import type { Answer } from '../../answer.ts'
import type { RequestOptions } from '../../client.ts'
import type { Pages } from '../../pages.ts'
import { part, Resource } from '../../resource.ts'
import type { FeedEvent } from '../events.ts'
import type { EventTypes } from '../schemas.ts'

/** What `events.list` can be asked for. */
export interface ListEventsQuery {
  /**
   * Only events with a higher `sequence`: that of the last one that you have.
   *
   * `0` unless said otherwise.
   */
  after?: number
  /**
   * Page size.
   *
   * `25` unless said otherwise.
   */
  limit?: number
  /** Only those of this type, or of all types of a resource: `payment.*`. */
  type?: EventTypes
  /** Only those of this resource. */
  subject_id?: string
}

/** What happened to your resources, in one order. */
export class EventsResource extends Resource {
  /**
   * List events, oldest first.
   *
   * The feed: every event has its `sequence`, from 1 and without a gap, and one that shows up later
   * never has a lower one. So whoever asks for what comes after the last that they have misses nothing.
   * `Link` always leads to what comes next. An event joins the feed a moment after it happened, and is
   * kept for 90 days unless your operator says otherwise.
   *
   * Where there is nothing to list, `Prefer: wait=N` (at most 30 seconds) waits for it: the answer comes
   * with the first, and is empty at the end. At most 100 requests of a key wait at once.
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
   * Also one that is not in the feed yet: its `sequence` is null.
   *
   * Needs the scope `events:read`.
   *
   * `GET /v1/events/{id}`
   */
  retrieve(id: string, options?: RequestOptions): Answer<FeedEvent> {
    return this.send('GET', `/v1/events/${part(id)}`, {}, options)
  }
}
