// Answers with events: their data is completed from the rows that they are about.
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
  /** Events of a list: a value that is too long for one is null. */
  list(sql: Sql, events: FeedRow[]): Promise<FeedEvent[]>
  /** An event by itself. */
  one(sql: Sql, event: FeedRow): Promise<FeedEvent>
  complete: EventCompleter
}

export function createEventViews({ vault, log }: Pick<ApiContext, 'vault' | 'log'>): EventViews {
  // One event that cannot be opened must not hide the others of its feed.
  const complete: EventCompleter = (event, row) => {
    try {
      return completeEventData(event, row, vault)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      log.error(
        { err: error, tenant_id: event.tenant_id, type: event.type },
        'the data of an event is incomplete',
      )
      return completeEventData(event, null, vault)
    }
  }

  async function shown(sql: Sql, events: FeedRow[], max_bytes: number | null): Promise<FeedEvent[]> {
    const rows = await findCompletionRows(sql, events, max_bytes)
    return events.map((event, nth) => {
      const { stored: _stored, tenant_id: _tenant, ...shown } = event
      return { ...shown, data: eventDataView(event.type, complete(event, rows[nth]!)) as FeedEvent['data'] }
    })
  }

  return {
    list: (sql, events) => shown(sql, events, MAX_LISTED_VALUE_BYTES),
    one: async (sql, event) => (await shown(sql, [event], null))[0]!,
    complete,
  }
}
