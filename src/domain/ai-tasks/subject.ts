// What the rest of the system needs to know of AI tasks.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Subject } from '../subject.ts'
import { AI_TASK_EVENTS, aiTaskEventSchema, aiTaskSchema } from './ai-task.ts'

export const aiTaskSubject = {
  table: 'ai_tasks',
  view: aiTaskSchema.omit({ output: true }),
  completes: {
    data: aiTaskEventSchema,
    fields: ['output'],
    words: ['succeeded'],
    columns: (sql, most_bytes) => sql`
      case when octet_length(p.output::text) > ${most_bytes}::integer then null else p.output end as output,
      coalesce(octet_length(p.output::text) > ${most_bytes}::integer, false) as omits`,
    open: ({ output = null }) => ({ output }),
  },
  events: AI_TASK_EVENTS,
  under_way: { open: (sql) => isOpenTask(sql, 'p') },
} as const satisfies Subject

/** The condition for rows `row` that have not ended; their index has the same. */
export function isOpenTask(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.status in ('queued', 'running')`
}
