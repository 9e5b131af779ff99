// Switches of the database, as a server that has gone back in time makes them.
import type { ServerFacts } from '#domain/switches/server.ts'
import type { World } from './world.ts'

/**
 * Records that a witness had seen the database ten minutes later, with `lost_audit_entries` more entries in the audit
 * log. Returns the number of the switch.
 */
export async function goBackInTime(
  { sql }: Pick<World, 'sql'>,
  { lost_audit_entries = 0 }: { lost_audit_entries?: number } = {},
): Promise<{ number: number }> {
  const [now] = await sql<{ facts: ServerFacts; last_switch: number }[]>`
    select server_facts() as facts, last_switch from lineage`
  const { facts, last_switch } = now!
  const witness = {
    ...facts,
    lsn: 'F'.repeat(16),
    clock: new Date(Date.now() + 600_000).toISOString(),
    audit: { ...facts.audit!, seq: facts.audit!.seq + lost_audit_entries },
    switch: last_switch,
  }
  const [row] = await sql<{ checked: { switch: number } }[]>`
    select check_server(${sql.json(witness)}::jsonb, false) as checked`
  return { number: row!.checked.switch }
}
