// Finds the trace that a notification is about.
import type { Fragment, Sql } from '#core/db.ts'

/** The trace context of the newest traced job of a root row; null if none was traced within about an hour. */
export async function findTraceOfResource(
  sql: Sql,
  { tenant_id, resource_id }: { tenant_id: string; resource_id: string },
): Promise<string | null> {
  return await findNewest(
    sql,
    sql`select ${tenant_id}::uuid as tenant_id, ${resource_id}::uuid as resource_id`,
  )
}

/** Like `findTraceOfResource`, for the root row of an applied notification. */
export async function findTraceOfNotification(sql: Sql, id: string): Promise<string | null> {
  return await findNewest(sql, sql`select n.tenant_id, n.resource_id from notifications n where n.id = ${id}`)
}

/** `resource` selects the `tenant_id, resource_id` of a root row. */
async function findNewest(sql: Sql, resource: Fragment): Promise<string | null> {
  const [found] = await sql<{ trace_context: string }[]>`
    select j.trace_context from (${resource}) resource cross join lateral (
      select j.trace_context, j.created_at from jobs j
      where j.tenant_id = resource.tenant_id and j.resource_id = resource.resource_id and j.trace_context is not null
      order by j.created_at desc limit 1
    ) j`
  return found?.trace_context ?? null
}
