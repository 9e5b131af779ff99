// Compares open payouts, and verifications that are open or decided here, with the processor.
import type { Problem } from '#test/invariants.ts'
import type { System } from '../system.ts'

const OPEN_STATUSES = ['pending', 'in_transit']

/** Resources with an open job are skipped: the outcome of a call is unknown. */
export async function statusDifferences(system: System): Promise<Problem[]> {
  const { sql } = system
  const idle = (table: string) => sql`
    select r.* from ${sql(table)} r where not exists (
      select from jobs j where j.tenant_id = r.tenant_id and j.resource_id = r.id and j.finished_at is null)`
  const payouts = await sql<{ id: string; reference: string }[]>`
    select id, processor_reference as reference from (${idle('payouts')}) p
    where processor_status = 'processing' and processor_reference like 'po%'`
  const decided = await sql<{ id: string; reference: string }[]>`
    select id, provider_reference as reference from (${idle('verifications')}) v
    where decided_by = 'manual' and provider_reference is not null`
  const problems: Problem[] = []
  for (const payout of payouts) {
    const at_processor = await statusOf(system, `/v1/payouts/${payout.reference}`)
    if (!OPEN_STATUSES.includes(at_processor))
      problems.push({ problem: 'the final status of a payout was lost', ...payout, at_processor })
  }
  for (const verification of decided) {
    const at_processor = await statusOf(
      system,
      `/v1/identity/verification_sessions/${verification.reference}`,
    )
    if (at_processor === 'requires_input')
      problems.push({ problem: 'a session is open although the verification is decided', ...verification })
  }
  return problems
}

async function statusOf({ provider }: System, path: string): Promise<string> {
  const { url, api_key } = provider('stripe')
  const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${api_key}` } })
  return ((await response.json()) as { status: string }).status
}
