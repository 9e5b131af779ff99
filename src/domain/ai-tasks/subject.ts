// What the rest of the system needs to know of AI tasks.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Subject } from '../subject.ts'
import { AI_TASK_EVENTS, aiTaskEventSchema } from './ai-task.ts'

export const aiTaskSubject = {
  table: 'ai_tasks',
  view: aiTaskEventSchema,
  events: AI_TASK_EVENTS,
  under_way: { open: (sql) => isOpenTask(sql, 'p') },
} as const satisfies Subject

/** The condition for rows `row` that have not ended; their index has the same. */
export function isOpenTask(sql: Sql | Tx, row: string): Fragment {
  return sql`${sql(row)}.status in ('queued', 'running')`
}
