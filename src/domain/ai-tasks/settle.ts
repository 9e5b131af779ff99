// Settles AI tasks when an attempt begins, fails or ends the task, in one statement with the job.
import { newId } from '#core/ids.ts'
import type { Json, Sql, Tx } from '#core/db.ts'
import type { AiFailure } from '#core/outcome.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { finishing, fencing, type FailedRow, type Settlement } from '../jobs/settle.ts'
import type { AiTask } from './ai-task.ts'
import { isOpenTask } from './resource.ts'

/** An attempt's update of its task. */
export type AiTaskUpdate = { tenant_id: string; ai_task_id: string } & (
  | { status: 'running' }
  /** `not_sent`: no call was sent, so the attempt does not count. */
  | { status: 'queued'; not_sent: boolean }
  | { status: 'succeeded'; output: Json; model: string; usage: AiTask['usage'] }
  /** `model`: null if no model answered. */
  | { status: 'failed'; failure: AiFailure; model: string | null; usage: AiTask['usage'] }
)

/** The optional fields of an update, all empty. */
export const emptyAiTaskUpdate = { model: null, usage: null } as const

export type AiTaskSettlement = Settlement & { update: AiTaskUpdate }

/**
 * Settles jobs of AI tasks. Final tasks do not change. The settlements of one call must be of different tasks.
 * Returns the ids of the jobs that passed the fence; for other jobs nothing is written.
 */
export async function settleAiTasks(sql: Sql | Tx, settlements: AiTaskSettlement[]): Promise<Set<string>> {
  const items = settlements.map(({ update, ...settlement }) => ({
    ...settlement,
    change: { ...update, attempt_change: attemptChangeOf(update), event: eventOf(update), event_id: newId() },
  }))
  const rows = await sql<{ id: string }[]>`
    with ${fencing(sql, items)},
    updates as (
      select c.* from fenced cross join lateral jsonb_to_record(fenced.change) as c(
        tenant_id uuid, ai_task_id uuid, status text, output jsonb, model text, usage jsonb, failure jsonb,
        attempt_change integer, event text, event_id uuid)
    ), locked as (
      select updates.* from (select * from updates order by tenant_id, ai_task_id) updates
      cross join lateral (
        select from ai_tasks t where t.tenant_id = updates.tenant_id and t.id = updates.ai_task_id for update
      ) t
    ), t as (
      update ai_tasks t set status = l.status, output = l.output, failure = l.failure, usage = l.usage,
        model = coalesce(l.model, t.model), attempts = t.attempts + l.attempt_change, updated_at = clock_timestamp(),
        started_at = case when t.attempts + l.attempt_change > 0 then coalesce(t.started_at, clock_timestamp()) end,
        finished_at = case when l.event is not null then clock_timestamp() end
      from locked l
      where t.tenant_id = l.tenant_id and t.id = l.ai_task_id and ${isOpenTask(sql, 't')}
      returning t.*, l.event, l.event_id
    ),
    event as (${insertingEvents(sql, 'ai_task', sql`select * from t where event is not null`)}),
    ${finishing(sql, settlements)}
    select id from job`
  return new Set(rows.map((row) => row.id))
}

/** Settles a task that an operator resolved as failed. */
export async function settleAiTaskAsFailed(
  tx: Tx,
  settlement: Settlement,
  { tenant_id, id: ai_task_id, failure: { message } }: FailedRow,
): Promise<void> {
  const failure = { code: 'ai_error', message } as const
  await settleAiTasks(tx, [
    {
      ...settlement,
      update: { ...emptyAiTaskUpdate, tenant_id, ai_task_id, status: 'failed', failure },
    },
  ])
}

/** The number that an update adds to the task's number of attempts. */
function attemptChangeOf(update: AiTaskUpdate): number {
  if (update.status === 'running') return 1
  return update.status === 'queued' && update.not_sent ? -1 : 0
}

function eventOf({ status }: AiTaskUpdate): EventType | null {
  return status === 'succeeded' || status === 'failed' ? `ai_task.${status}` : null
}
