// Requests to create and cancel AI tasks. One statement creates the task, stores the key and inserts the job.
import type { Json, Sql } from '#core/db.ts'
import { runAiTask } from '#jobs/ai-tasks.ts'
import { requestJson } from '#jobs/job.ts'
import { insertingEvents, type EventType } from '../events.ts'
import {
  isKeyUsed,
  jobRequestColumns,
  keyColumns,
  storingKeys,
  type IdempotentRequest,
  type JobRequest,
} from '../idempotency.ts'
import { enqueuingJobs } from '../jobs/request.ts'
import type { AiTask, AiTaskKind } from './ai-task.ts'
import { aiTaskColumns } from './find.ts'
import { isOpenTask } from './resource.ts'

export type AiTaskRequest = JobRequest & {
  ai_task_id: string
  kind: AiTaskKind
  model: string | null
  max_output_tokens: number | null
  metadata: Json
  /** Sealed. */
  input: string
}

/** Creates AI tasks and inserts their jobs. Returns the result by task id; `key_used`: the key was used before. */
export async function requestAiTasks(
  sql: Sql,
  requests: AiTaskRequest[],
): Promise<Map<string, 'accepted' | 'key_used'>> {
  const keys = sql`select *, ai_task_id as resource_id from accepted`
  const new_events = sql`
    select t.*, a.event_id, ${'ai_task.created' satisfies EventType} as event
    from t join accepted a on a.tenant_id = t.tenant_id and a.ai_task_id = t.id`
  const request = requestJson(sql, runAiTask, {
    model: sql`model`,
    max_output_tokens: sql`max_output_tokens`,
    sealed: sql`jsonb_build_object('input', input)`,
  })
  const rows = await sql<{ id: string; result: 'accepted' | 'key_used' }[]>`
    with requests as (
      select a.*, ${isKeyUsed(sql, 'ai_task')} as key_used from jsonb_to_recordset(${sql.json(requests)}) as a(
        ${jobRequestColumns(sql)}, ai_task_id uuid, kind text, model text, max_output_tokens integer, metadata jsonb,
        input text)
    ), accepted as (
      select * from requests where not key_used
    ), t as (
      insert into ai_tasks (tenant_id, id, idempotency_key, kind, model, max_output_tokens, metadata)
      select tenant_id, ai_task_id, idempotency_key, kind, model, max_output_tokens, coalesce(metadata, 'null')
      from accepted
      returning *
    ),
    stored_keys as (${storingKeys(sql, 'ai_task', keys)}),
    event as (${insertingEvents(sql, 'ai_task', new_events)}),
    job as (${enqueuingJobs(sql, runAiTask, 'ai_task', sql`accepted`, request)})
    select id, 'accepted' as result from t union all select ai_task_id, 'key_used' from requests where key_used`
  return new Map(rows.map(({ id, result }) => [id, result]))
}

/**
 * Cancels an open task. Its job sends no further call and aborts a call in progress. Returns `key_used` when the key
 * was used before; undefined when the task is final or does not exist.
 */
export async function cancelAiTask(
  sql: Sql,
  request: IdempotentRequest & { ai_task_id: string; event_id: string },
): Promise<AiTask | 'key_used' | undefined> {
  const keys = sql`
    select a.tenant_id, a.idempotency_key, a.route, a.fingerprint, t.id as resource_id, null::uuid as job_id
    from t join requests a on a.tenant_id = t.tenant_id and a.ai_task_id = t.id`
  const new_events = sql`
    select t.*, a.event_id, ${'ai_task.canceled' satisfies EventType} as event
    from t join requests a on a.tenant_id = t.tenant_id and a.ai_task_id = t.id`
  const [row] = await sql<AiTask[]>`
    with requests as (
      select * from jsonb_to_recordset(${sql.json([request])}) as a(
        ${keyColumns(sql)}, tenant_id uuid, ai_task_id uuid, event_id uuid)
      where not ${isKeyUsed(sql)}
    ), t as (
      update ai_tasks t set status = 'canceled', finished_at = clock_timestamp(), updated_at = clock_timestamp()
      from requests a
      where t.tenant_id = a.tenant_id and t.id = a.ai_task_id and ${isOpenTask(sql, 't')}
      returning t.*
    ),
    stored_keys as (${storingKeys(sql, 'ai_task', keys)}),
    event as (${insertingEvents(sql, 'ai_task', new_events)})
    select ${aiTaskColumns(sql)} from t`
  return row
}
