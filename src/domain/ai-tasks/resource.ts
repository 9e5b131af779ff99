// The definition of the resource `ai_task`.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Resource } from '../resource.ts'
import { AI_TASK_EVENTS, aiTaskEventSchema, aiTaskSchema } from './ai-task.ts'

export const aiTaskResource = {
  table: 'ai_tasks',
  view: aiTaskSchema.omit({ output: true }),
  completion: {
    data: aiTaskEventSchema,
    fields: ['output'],
    event_names: ['succeeded'],
    columns: (sql, max_bytes) => sql`
      case when octet_length(p.output::text) > ${max_bytes}::integer then null else p.output end as output,
      coalesce(octet_length(p.output::text) > ${max_bytes}::integer, false) as omits`,
    open: ({ output = null }) => ({ output }),
  },
  events: AI_TASK_EVENTS,
  under_way: { open: (sql) => isOpenTask(sql, 'p') },
} as const satisfies Resource

/** The condition on the alias `row` for open tasks, the same as in their partial index. */
export function isOpenTask(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.status in ('queued', 'running')`
}
