// Answers with events: their data is completed from the rows that they are about.
import type { Sql } from '#core/db.ts'
import { SealError } from '#core/secrets.ts'
import {
  completedData,
  findCompletingRows,
  MOST_BYTES_OF_MANY,
  type CompleteData,
} from '#domain/event-data.ts'
import { shownData } from '#domain/events.ts'
import type { FeedEvent, FeedRow } from '#domain/feed.ts'
import type { ApiContext } from './context.ts'

export type EventAnswers = {
  /** Events of a list: a value that is too long for one is null. */
  many(sql: Sql, events: FeedRow[]): Promise<FeedEvent[]>
  /** An event by itself. */
  one(sql: Sql, event: FeedRow): Promise<FeedEvent>
  complete: CompleteData
}

export function createEventAnswers({ vault, log }: Pick<ApiContext, 'vault' | 'log'>): EventAnswers {
  // One event that cannot be opened must not hide the others of its feed.
  const complete: CompleteData = (event, row) => {
    try {
      return completedData(event, row, vault)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      log.error(
        { err: error, tenant_id: event.tenant_id, type: event.type },
        'the data of an event is incomplete',
      )
      return completedData(event, null, vault)
    }
  }

  async function shown(sql: Sql, events: FeedRow[], most_bytes: number | null): Promise<FeedEvent[]> {
    const rows = await findCompletingRows(sql, events, most_bytes)
    return events.map((event, nth) => {
      const { stored: _stored, tenant_id: _tenant, ...shown } = event
      return { ...shown, data: shownData(event.type, complete(event, rows[nth]!)) as FeedEvent['data'] }
    })
  }

  return {
    many: (sql, events) => shown(sql, events, MOST_BYTES_OF_MANY),
    one: async (sql, event) => (await shown(sql, [event], null))[0]!,
    complete,
  }
}
