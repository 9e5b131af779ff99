// Presents events: their data is completed from the rows of their resources.
import type { Sql } from '#core/db.ts'
import { SealError } from '#core/secrets.ts'
import {
  completeEventData,
  findCompletionRows,
  MAX_LISTED_VALUE_BYTES,
  type EventCompleter,
} from '#domain/event-data.ts'
import { eventDataView } from '#domain/events.ts'
import type { FeedEvent, FeedRow } from '#domain/feed.ts'
import type { ApiContext } from './context.ts'

export type EventViews = {
  /** The events of a list. A value that is too long for a list is null. `livemode`: that of the tenant. */
  list(sql: Sql, events: FeedRow[], livemode: boolean): Promise<FeedEvent[]>
  /** A single event. */
  one(sql: Sql, event: FeedRow, livemode: boolean): Promise<FeedEvent>
  complete: EventCompleter
}

export function createEventViews({ vault, log }: Pick<ApiContext, 'vault' | 'log'>): EventViews {
  // One event that cannot be decrypted must not fail the answer with the other events.
  const complete: EventCompleter = (event, row) => {
    try {
      return completeEventData(event, row, vault)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      log.error(
        { err: error, tenant_id: event.tenant_id, type: event.type },
        'the data of an event cannot be decrypted: the event is returned without it. Check ENCRYPTION_KEY',
      )
      return completeEventData(event, null, vault)
    }
  }

  async function viewsOf(
    sql: Sql,
    events: FeedRow[],
    { max_bytes, livemode }: { max_bytes: number | null; livemode: boolean },
  ): Promise<FeedEvent[]> {
    const rows = await findCompletionRows(sql, events, max_bytes)
    return events.map((event, nth) => {
      const { stored: _stored, tenant_id: _tenant, ...fields } = event
      const data = complete(event, rows[nth]!)
      return { ...fields, data: eventDataView(event.type, data, livemode) as FeedEvent['data'] }
    })
  }

  return {
    list: (sql, events, livemode) => viewsOf(sql, events, { max_bytes: MAX_LISTED_VALUE_BYTES, livemode }),
    one: async (sql, event, livemode) => (await viewsOf(sql, [event], { max_bytes: null, livemode }))[0]!,
    complete,
  }
}
