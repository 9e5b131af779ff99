// Switches of the database, as the processes record them.
import type { ServerFacts } from '#domain/switches/server.ts'
import type { World } from './world.ts'

/**
 * Records that the database went back by ten minutes according to a witness, which had also seen `lost_audit_entries`
 * more entries of the audit log. Returns the number of the switch.
 */
export async function goBackInTime(
  { sql }: Pick<World, 'sql'>,
  { lost_audit_entries = 0 }: { lost_audit_entries?: number } = {},
): Promise<{ number: number }> {
  return await sql.begin(async (tx) => {
    await tx`select from lineage for update`
    const [now] = await tx<{ facts: ServerFacts }[]>`select server_facts() as facts`
    const { audit, ...facts } = now!.facts
    const witness = { ...facts, audit: { ...audit!, seq: audit!.seq + lost_audit_entries } }
    await tx`
      select record_switch(server_facts(), ${tx.json(witness)}::jsonb, 'witness', now() - interval '10 minutes')`
    const [row] = await tx<{ number: number }[]>`select last_switch as number from lineage`
    return row!
  })
}

/**
 * Makes the server one of another timeline for the processes, as after the promotion of a standby. `lost_minutes`: how
 * much it lost.
 */
export async function promote({ sql }: Pick<World, 'sql'>, lost_minutes = 0): Promise<void> {
  await sql.unsafe(`
    create or replace function newest_change(until timestamptz) returns timestamptz language sql stable as $$
      select now() - interval '${lost_minutes} minutes' $$`)
  await sql`update lineage set timeline = timeline - 1`
}
