// Finds open work.
import type { Sql } from '#core/db.ts'

/**
 * True if any work is due within `soon_s` seconds: a job, a waiting notification (which has no job), or an event for an
 * endpoint. Work that is due later waits on purpose: its notification is parked, or its delivery waits for a retry.
 * `unknown_s` replaces `soon_s` for jobs with an unknown outcome. It can be lower, because in a large system one of
 * these jobs is always due soon.
 */
export async function hasOpenWork(sql: Sql, soon_s: number, unknown_s = soon_s): Promise<boolean> {
  const [row] = await sql<{ open: boolean }[]>`
    select exists (
        select from jobs
        where finished_at is null
          and run_at < now() + case state when 'unknown' then ${unknown_s}::float8 else ${soon_s} end * interval '1 second')
      or exists (select from notifications where state = 'waiting')
      or exists (select from event_outbox e join webhook_endpoints p on p.tenant_id = e.tenant_id)
      or exists (select from webhook_due where due_at < now() + ${soon_s} * interval '1 second') as open`
  return row!.open
}

/** Describes all open work: each kind with its count and the time until the first item is due. */
export async function openWork(sql: Sql): Promise<string[]> {
  const rows = await sql<{ description: string }[]>`
    select concat_ws(' ', count(*), name, state, 'due in', round(extract(epoch from min(due_at) - now())), 's') as description
    from (
      select name, state, run_at as due_at from jobs where finished_at is null
      union all select kind, state, due_at from notifications where state = 'waiting'
      union all select 'event', 'unsequenced', created_at from event_outbox
      union all select 'delivery', 'due', due_at from webhook_due
    ) open group by name, state order by name, state`
  return rows.map(({ description }) => description)
}
