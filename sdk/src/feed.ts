// The feed of events, read to its end or followed for ever.
import type { FeedEvent } from './generated/events.ts'
import { EventsResource, type ListEventsQuery } from './generated/resources/events.ts'
import { nextQuery } from './pages.ts'

/** Less than the longest wait and than `timeout_ms`. */
const WAIT_S = 25

export type FollowOptions = ListEventsQuery & {
  /** Ends the loop. */
  signal?: AbortSignal | undefined
}

export class Feed extends EventsResource {
  /**
   * The events after `after`, those to come too: the loop waits for them, and ends only by `break` or the signal. What may
   * pass is tried again for as long as it takes; another error is thrown. Keep the `sequence` of the last event that
   * you have dealt with, and begin there the next time.
   *
   *     for await (const event of sluice.events.follow({ after, signal })) await handle(event)
   */
  async *follow({ signal, ...parameters }: FollowOptions = {}): AsyncGenerator<FeedEvent, void> {
    const isAborted = () => signal?.aborted === true
    const options = { signal, wait_s: WAIT_S, max_retries: Infinity }
    let query: object = { limit: 100, ...parameters }
    while (!isAborted()) {
      const received = await this.client<FeedEvent[]>('GET', '/v1/events', { query }, options).catch(
        (error: unknown) => {
          if (isAborted()) return null
          throw error
        },
      )
      if (received === null) return
      for (const event of received.data) {
        yield event
        if (isAborted()) return
      }
      query = nextQuery(received.response.headers.get('link')) ?? query
    }
  }
}
