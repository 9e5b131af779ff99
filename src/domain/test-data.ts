// The retention of test mode: what its tenants created is dropped after 90 days. The functions that drop it, in
// 0046_test_data.sql, touch nothing younger and nothing of a live tenant.
import type { Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { RESOURCE_NAMES, resourceOf, type ResourceName } from './resources.ts'
import { dropTestClockSteps } from './test-clocks/retention.ts'

/** Settings of the tenant, which stay; and resources that are dropped with their events, or have a retention anyway. */
const KEPT: ReadonlySet<ResourceName> = new Set<ResourceName>([
  'template',
  'suppression',
  'webhook_endpoint',
  'webhook_delivery',
  'webhook_recovery',
  'feed',
  'request',
])
/** In this order, most rows are dropped before those to which they refer. */
const DROPPED_TABLES = RESOURCE_NAMES.filter((name) => !KEPT.has(name))
  .map((name) => resourceOf(name).table)
  .toReversed()

/** Up to `limit` tenants in test mode after this one, in the order of their ids. */
export async function listTestTenants(sql: Sql, after: string | null, limit: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from tenants where mode = 'test' and twin_id is not null and id > ${after ?? LOWEST_ID}
    order by id limit ${limit}`
  return rows.map(({ id }) => id)
}

/** Drops up to `limit` rows of each kind that belong to a tenant in test mode. Returns whether there may be more. */
export async function dropTestData(sql: Sql, tenant_id: string, limit: number): Promise<boolean> {
  const [history] = await sql<{ dropped: number }[]>`
    select drop_test_history(${tenant_id}, ${limit}) as dropped`
  const dropped = [history!.dropped, await dropTestClockSteps(sql, tenant_id, limit)]
  for (const table of DROPPED_TABLES) {
    const [row] = await sql<{ dropped: number }[]>`
      select drop_test_rows(${table}, ${tenant_id}, ${limit}) as dropped`
    dropped.push(row!.dropped)
  }
  return Math.max(...dropped) >= limit
}

/** Drops up to `limit` notifications of test mode that no row ever got. Returns the count. */
export async function dropTestNotifications(sql: Sql, limit: number): Promise<number> {
  const [row] = await sql<{ dropped: number }[]>`select drop_test_notifications(${limit}) as dropped`
  return row!.dropped
}
