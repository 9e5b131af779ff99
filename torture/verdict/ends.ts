// Judges the final statuses of payouts, top-ups, verifications and messages.
import type { Problem } from '#test/invariants.ts'
import { isInterrupted, type ClientRecord } from '../record.ts'
import { goesBackwards, RESOURCE_NAMES, stateOf, type ResourceName } from '../observations.ts'
import type { System } from '../system.ts'

const TABLES: Record<ResourceName, string> = {
  payout: 'payouts',
  top_up: 'top_ups',
  kyc: 'verifications',
  message: 'messages',
}

/** Number of resources by status. */
export type Ends = Record<ResourceName, Record<string, number>>

/** Resources with an open job are not judged, because the outcome of a call is unknown. */
export async function endsOf(
  { sql }: System,
  { ends, interrupted }: Pick<ClientRecord, 'ends' | 'interrupted'>,
): Promise<{ problems: Problem[]; ends: Ends }> {
  const found: Ends = { payout: {}, top_up: {}, kyc: {}, message: {} }
  const problems: Problem[] = []
  for (const resource of RESOURCE_NAMES) {
    const rows = await sql<{ id: string; key: string; status: string; open: boolean }[]>`
      select r.id, r.idempotency_key as key, r.status, exists (
        select from jobs j where j.tenant_id = r.tenant_id and j.resource_id = r.id and j.finished_at is null) as open
      from ${sql(TABLES[resource])} r`
    for (const { open, ...row } of rows) {
      found[resource][row.status] = (found[resource][row.status] ?? 0) + 1
      const expected_statuses = ends.get(row.key)
      // Messages that a fault has requested have no expected status.
      if (
        !open &&
        !isInterrupted({ interrupted }, row.key) &&
        !expected_statuses?.includes(row.status) &&
        (expected_statuses !== undefined || resource !== 'message')
      )
        problems.push({
          problem: 'a scenario ended with an unexpected status',
          resource,
          ...row,
          expected_statuses,
        })
    }
  }
  return { problems, ends: found }
}

/** The events of each resource must not go backwards. */
export async function eventsBackwards({ sql }: System): Promise<Problem[]> {
  const events = await sql<
    {
      resource: ResourceName
      id: string
      status: string
      decided_by: string | null
      channel: string | null
    }[]
  >`
    select split_part(e.type, '.', 1) as resource, e.subject_id as id, e.data ->> 'status' as status,
      e.data ->> 'decided_by' as decided_by, e.data ->> 'channel' as channel
    from events e join feed_entries f on f.tenant_id = e.tenant_id and f.event_id = e.id and f.created_at = e.created_at
    where split_part(e.type, '.', 1) = any(${[...RESOURCE_NAMES]}::text[]) order by f.tenant_id, f.sequence`
  const latest = new Map<string, string>()
  return events.flatMap(({ resource, id, ...shown }) => {
    const [before, after] = [latest.get(id), stateOf(shown)]
    latest.set(id, after)
    return before !== undefined && goesBackwards(resource, before, after)
      ? [{ problem: 'a state went backwards in the events', resource, id, before, after }]
      : []
  })
}
