// What belongs to the story of a row and is not in its timeline: its jobs with what they do next, and the deliveries of its events.
import { z } from 'zod'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { deliverySchema } from '../deliveries/delivery.ts'

const MOST_JOBS = 200
const MOST_DELIVERIES = 200

export const storySchema = z
  .object({
    jobs: z.array(
      z.object({
        id: z.uuid(),
        name: z.string().meta({ example: 'payment.capture' }),
        refund_id: z
          .uuid()
          .nullable()
          .meta({ description: 'The refund that it is for; null: it is for none.' }),
        state: z.string(),
        attempt: z.int().meta({ description: 'Attempts so far.', example: 1 }),
        created_at: timestamp,
        finished_at: timestamp.nullable(),
        run_at: timestamp.nullable().meta({ description: 'When it is due next; null: it has ended.' }),
        unknown_since: timestamp.nullable().meta({ description: 'Since when its effect is not known.' }),
      }),
    ),
    deliveries: z.array(
      deliverySchema.omit({ tenant_id: true, sequence: true }).extend({
        url: z.string().meta({ description: 'Where it goes.' }),
      }),
    ),
    as_of: timestamp,
  })
  .meta({ id: 'Story', description: 'The jobs of a row and the deliveries of its events, oldest first.' })
export type Story = z.output<typeof storySchema>

/** The story of a row, whatever its noun; empty where there is no such row. */
export async function findStory(sql: Sql, tenant_id: string, subject_id: string): Promise<Story> {
  const [[now], jobs, deliveries] = await Promise.all([
    sql<{ as_of: string }[]>`select clock_timestamp() as as_of`,
    sql<Story['jobs']>`
      select a.id, a.name, (a.payload ->> 'refund_id')::uuid as refund_id, a.state, a.attempt, a.created_at,
        a.finished_at, j.run_at, j.unknown_since
      from all_jobs a
      left join jobs j on j.tenant_id = a.tenant_id and j.id = a.id and j.finished_at is null
      where a.tenant_id = ${tenant_id} and a.subject_id = ${subject_id}
      order by a.created_at, a.id limit ${MOST_JOBS}`,
    sql<Story['deliveries']>`
      select d.id, d.endpoint_id, p.url, d.event_id, d.type, d.status, d.attempts, d.next_attempt_at,
        d.last_status_code, d.last_error, d.delivered_at, d.created_at, d.updated_at
      from events e
      join webhook_deliveries d on d.tenant_id = e.tenant_id and d.event_id = e.id
      join webhook_endpoints p on p.tenant_id = d.tenant_id and p.id = d.endpoint_id and p.deleted_at is null
      where e.tenant_id = ${tenant_id} and e.subject_id = ${subject_id}
      order by d.created_at, d.id limit ${MOST_DELIVERIES}`,
  ])
  return { jobs, deliveries, as_of: now!.as_of }
}
