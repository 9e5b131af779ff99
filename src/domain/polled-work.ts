// The rare work that no wake-up announces, so that workers poll for it.
import type { Sql } from '#core/db.ts'

/**
 * Whether there is work of each kind: recoveries of deliveries, deliveries in the backlogs of endpoints (due or not),
 * waiting notifications that are due, acts in sandboxes and scheduled changes of them that are due, and clocks of
 * tenants in test mode.
 */
export type PolledWork = {
  recoveries: boolean
  deliveries: boolean
  notifications: boolean
  sandboxes: boolean
  test_clocks: boolean
}
/** Whether there are acts or confirmed proposals of operators. */
export type OperatorWork = { acts: boolean; proposals: boolean }

/** One statement for all kinds, because idle workers run it all the time. Each condition has an index. */
export async function findPolledWork(sql: Sql): Promise<PolledWork> {
  const [found] = await sql<PolledWork[]>`
    select exists (select from webhook_recoveries where status <> 'completed') as recoveries,
      exists (select from webhook_due) as deliveries,
      exists (select from notifications where state = 'waiting' and due_at <= now()) as notifications,
      exists (select from sandboxes where due_at <= now())
        or exists (select from sandbox_acts where done_at is null) as sandboxes,
      exists (select from test_clocks) as test_clocks`
  return found!
}

/** As `findPolledWork`, which may wait for a backlog of deliveries and for connections that jobs use. */
export async function findOperatorWork(sql: Sql): Promise<OperatorWork> {
  const [found] = await sql<OperatorWork[]>`
    select exists (select from operator_acts where finished_at is null) as acts,
      exists (select from proposals where decision = 'confirmed' and carried_out_at is null) as proposals`
  return found!
}
