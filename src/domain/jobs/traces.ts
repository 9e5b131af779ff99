// Finds the trace that a notification is about.
import type { Sql } from '#core/db.ts'

type Found = { trace_context: string }

/** The `traceparent` of the newest traced job of a root row; null if none was traced within about an hour. */
export async function findTraceOfResource(
  sql: Sql,
  { tenant_id, resource_id }: { tenant_id: string; resource_id: string },
): Promise<string | null> {
  const [found] = await sql<Found[]>`
    select j.trace_context from jobs j
    where j.tenant_id = ${tenant_id} and j.resource_id = ${resource_id} and j.trace_context is not null
    order by j.created_at desc limit 1`
  return found?.trace_context ?? null
}

/** Like `findTraceOfResource`, for the root row of an applied notification. */
export async function findTraceOfNotification(sql: Sql, id: string): Promise<string | null> {
  const [notification] = await sql<{ tenant_id: string; resource_id: string }[]>`
    select tenant_id, resource_id from notifications where id = ${id} and resource_id is not null`
  return notification === undefined ? null : await findTraceOfResource(sql, notification)
}
