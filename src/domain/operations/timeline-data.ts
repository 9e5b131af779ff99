// Additional data for the timeline of a row: its jobs with their next step, the objects of its events, and
// their deliveries.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { deliverySchema } from '../deliveries/delivery.ts'

/** The maximum number of items of each kind. A section of a timeline has about 100 entries. */
const MAX_ITEMS = 1000

export const timelineDataSchema = z
  .object({
    jobs: z.array(
      z.object({
        id: z.uuid(),
        name: z.string().meta({ example: 'payment.capture' }),
        refund_id: z.uuid().nullable().meta({ description: 'The refund of the job; null if it has none.' }),
        state: z.string(),
        attempt: z.int().meta({ description: 'Attempts so far.', example: 1 }),
        created_at: timestamp,
        finished_at: timestamp.nullable(),
        run_at: timestamp.nullable().meta({ description: 'When it is due next; null once it has finished.' }),
        unknown_since: timestamp.nullable().meta({ description: 'Since when its effect is unknown.' }),
        in_doubt: z.boolean().meta({
          description: 'Whether an attempt may have taken effect although the job continues.',
        }),
      }),
    ),
    events: z.array(
      z.object({
        id: z.uuid(),
        about_id: z.string().meta({
          description: 'The id of its object: the row itself or a part of it, such as a refund or dispute.',
        }),
      }),
    ),
    deliveries: z.array(
      deliverySchema.omit({ tenant_id: true, sequence: true }).extend({
        url: z.string().meta({ description: 'The URL of the endpoint.' }),
      }),
    ),
    as_of: timestamp,
  })
  .meta({
    id: 'TimelineData',
    description: 'The jobs of a row, its events and their deliveries in a period, oldest first.',
  })
export type TimelineData = z.output<typeof timelineDataSchema>

/**
 * The data of a row's timeline from `since` up to `before`, for any resource; empty for an unknown row. A job belongs
 * to every section in which it was open, so the latest section has all open jobs. Returns at most the latest 1,000
 * jobs, events and deliveries.
 */
export async function findTimelineData(
  sql: Sql,
  tenant_id: string,
  resource_id: string,
  {
    since = '-infinity',
    before = 'infinity',
  }: { since?: string | undefined; before?: string | undefined } = {},
): Promise<TimelineData> {
  const [[now], jobs, events, deliveries] = await Promise.all([
    sql<{ as_of: string }[]>`select clock_timestamp() as as_of`,
    sql<TimelineData['jobs']>`
      select a.id, a.name, (a.payload ->> 'refund_id')::uuid as refund_id, a.state, a.attempt, a.created_at,
        a.finished_at, j.run_at, j.unknown_since, coalesce(j.in_doubt, false) as in_doubt
      from all_jobs a
      left join jobs j on j.tenant_id = a.tenant_id and j.id = a.id and j.finished_at is null
      where a.tenant_id = ${tenant_id} and a.resource_id = ${resource_id}
        and a.created_at < ${before} and (a.finished_at is null or a.finished_at >= ${since})
      order by a.created_at desc, a.id desc limit ${MAX_ITEMS}`,
    sql<TimelineData['events']>`
      select e.id, coalesce(
        case when e.type like 'payment.dispute%' then e.data #>> '{dispute,id}' end,
        e.data ->> 'id', e.subject_id::text) as about_id
      from events e
      where e.tenant_id = ${tenant_id} and e.subject_id = ${resource_id}
        and e.created_at >= ${since} and e.created_at < ${before}
      order by e.created_at desc, e.id desc limit ${MAX_ITEMS}`,
    sql<TimelineData['deliveries']>`
      select d.id, d.endpoint_id, p.url, d.event_id, d.type, d.status, d.attempts, d.next_attempt_at,
        d.last_status_code, d.last_error, d.delivered_at, d.created_at, d.updated_at
      from events e
      join webhook_deliveries d on d.tenant_id = e.tenant_id and d.event_id = e.id
      join webhook_endpoints p on p.tenant_id = d.tenant_id and p.id = d.endpoint_id and p.deleted_at is null
      where e.tenant_id = ${tenant_id} and e.subject_id = ${resource_id}
        and e.created_at >= ${since} and e.created_at < ${before}
      order by d.created_at desc, d.id desc limit ${MAX_ITEMS}`,
  ])
  return {
    jobs: jobs.toReversed(),
    events: events.toReversed(),
    deliveries: deliveries.toReversed(),
    as_of: now!.as_of,
  }
}
