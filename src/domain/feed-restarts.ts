// Restarts of feeds: after a switch of the database, a feed goes on with a higher sequence, and consumers are told.
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { announcedTimes } from './audit/events.ts'
import type { AuditScope } from './audit/checks.ts'
import { idFields } from './fields.ts'
import type { Resource } from './resource.ts'

const feedRestartSchema = z
  .object({
    ...idFields('restart', '0198f6fa-52c0-7000-8000-123456789abc'),
    last_sequence_before: z.int().min(0).meta({
      description:
        'The last sequence before the restart; 0 if there was none. Higher sequences below `next_sequence` name events that no longer exist.',
      example: 1289,
    }),
    next_sequence: z.int().min(1).meta({
      description: 'The sequence of this event, with which the feed continues.',
      example: 28_721_843_120_573,
    }),
    created_at: timestamp.meta({ description: 'When the feed was restarted.' }),
  })
  .meta({ id: 'FeedRestart', description: 'A restart of the feed.' })

export const feedResource = {
  table: 'feed_restarts',
  view: feedRestartSchema,
  events: {
    restarted:
      'The database lost its latest changes, and the feed continues with a higher sequence. [What to do](/docs/guides/events#restarts).',
  },
  checks: { feed_restarts: feedRestartEvents },
} as const satisfies Resource

/** The audit check that each restart has its event. */
function feedRestartEvents(sql: Sql | Tx, scope: AuditScope): Fragment {
  return announcedTimes(sql, scope, 'feed', sql`values ('feed.restarted', 1::bigint, 1::bigint)`)
}

type FeedGap = { last_sequence_before: number; next_sequence: number }

/**
 * The gap that contains the position of a consumer: that of a restart, or everything beyond the end of the feed.
 * Undefined for the sequence of an event, also if the retention of the event has ended.
 */
export async function findFeedGap(sql: Sql, tenant_id: string, after: number): Promise<FeedGap | undefined> {
  if (after === 0) return undefined
  const rows = await sql<FeedGap[]>`
    select r.last_sequence_before, r.next_sequence from feed_restarts r
    where r.tenant_id = ${tenant_id} and r.last_sequence_before < ${after} and r.next_sequence > ${after}
    union all
    select t.last_sequence, t.last_sequence + 1 from (
      select coalesce(max(s.last_sequence), 0) as last_sequence from event_sequences s where s.tenant_id = ${tenant_id}
    ) t where t.last_sequence < ${after}
    limit 1`
  return rows[0]
}

/** The error for a consumer that has read events which no longer exist. */
export function feedRestarted(after: number, gap: FeedGap): AppError {
  const { last_sequence_before, next_sequence } = gap
  return new AppError('feed_restarted', {
    param: 'after',
    message: `There is no event with the sequence ${after}: the feed has none above ${last_sequence_before} and below ${next_sequence}. If you have read such events, they no longer exist. Continue after ${last_sequence_before}.`,
    context: gap,
  })
}
