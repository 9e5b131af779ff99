// Reads AI tasks: lists, single tasks with their jobs, and whether a task was canceled.
import { columnList, type Fragment, type Sql } from '#core/db.ts'
import { findByKeys, type KeyedResource, type KeyOnRoute } from '../idempotency.ts'
import { findWithJobs, type RequestedRow, type ResourceWithJob } from '../jobs/find-with-jobs.ts'
import { createdWithin, type ListPage } from '../pages.ts'
import { aiTaskSchema, isFinalAiTaskStatus, type AiTask } from './ai-task.ts'
import { isOpenTask } from './resource.ts'

export type AiTaskFilters = ListPage & {
  status?: AiTask['status']
  kind?: AiTask['kind']
}

const LISTED = Object.keys(aiTaskSchema.omit({ output: true }).shape)

/** The AI tasks of a tenant, newest first, without outputs: a page of 100 could have 25 MB. */
export async function listAiTasks(sql: Sql, tenant_id: string, filters: AiTaskFilters): Promise<AiTask[]> {
  const { status, kind, limit } = filters
  // Open and failed tasks are few and have partial indexes, which need the status as a literal. Other filters are
  // parameters.
  const open = status !== undefined && !isFinalAiTaskStatus(status)
  return await sql<AiTask[]>`
    select ${columnList(sql, LISTED)}, null as output from ai_tasks
    where tenant_id = ${tenant_id}
      and ${createdWithin(sql, filters)}
      ${open ? sql`and ${isOpenTask(sql, 'ai_tasks')}` : sql``}
      ${status === 'failed' ? sql`and status = 'failed'` : sql``}
      and status = coalesce(${status ?? null}, status) and kind = coalesce(${kind ?? null}, kind)
    order by created_at desc limit ${limit}`
}

/** AI tasks with the requested jobs, in the order of `requested`. */
export async function findAiTasks(
  sql: Sql,
  requested: RequestedRow[],
): Promise<(ResourceWithJob<AiTask> | undefined)[]> {
  return await findWithJobs<AiTask>(sql, 'ai_task', aiTaskColumns(sql), requested)
}

/** The AI task that was canceled with this idempotency key, or undefined. */
export async function findAiTaskByKey(sql: Sql, key: KeyOnRoute): Promise<KeyedResource<AiTask> | undefined> {
  const [found] = await findByKeys<AiTask>(sql, 'ai_task', aiTaskColumns(sql), [key])
  return found
}

/** Whether a task was canceled. */
export async function isAiTaskCanceled(sql: Sql, tenant_id: string, id: string): Promise<boolean> {
  const rows = await sql`
    select from ai_tasks where tenant_id = ${tenant_id} and id = ${id} and status = 'canceled'`
  return rows.count > 0
}

/** The milliseconds since the first attempt of a task began; 0 if no attempt has begun. */
export async function findRunningMs(sql: Sql, tenant_id: string, id: string): Promise<number> {
  const [row] = await sql<{ running_ms: number }[]>`
    select extract(epoch from now() - started_at)::float8 * 1000 as running_ms from ai_tasks
    where tenant_id = ${tenant_id} and id = ${id}`
  return row?.running_ms ?? 0
}

/** The columns of an AI task in answers. */
export function aiTaskColumns(sql: Sql): Fragment {
  return columnList(sql, Object.keys(aiTaskSchema.shape))
}
