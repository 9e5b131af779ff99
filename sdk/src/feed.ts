// The event feed: read once to its end, or followed.
import type { FeedEvent } from './generated/events.ts'
import { EventsResource, type ListEventsQuery } from './generated/resources/events.ts'
import { nextQuery } from './pages.ts'

/** Less than the API's maximum wait, and less than the default `timeout_ms`. */
const WAIT_S = 25

export type FollowOptions = ListEventsQuery & {
  /** Ends the iteration. */
  signal?: AbortSignal | undefined
}

export class Feed extends EventsResource {
  /**
   * Iterates over the events after `after`, and waits for new ones. Ends only by `break` or the signal. Temporary
   * failures are retried without limit; other errors are thrown. Store the `sequence` of the last event that you have
   * processed, and pass it as `after` the next time.
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
