// The feed.
import type { Sql } from '#core/db.ts'

export async function sequenceEvents(
  sql: Sql,
  most: number,
): Promise<{ tenant_id: string; events: number; deliveries: number }[]> {
  return await sql`select * from sequence_events(${most})`
}
