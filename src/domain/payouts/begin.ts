// The last check before a payout's call is sent: a payout with a requested cancellation or failure is not sent.
import type { Sql } from '#core/db.ts'

export type CallToBegin = { job_id: string; lease_token: string; tenant_id: string; payout_id: string }

/**
 * Marks payouts whose creation is about to be sent to the processor. From then on a cancellation or manual failure is
 * only recorded. Returns the ids of the jobs that may send their call: their lease is valid, and their payouts are
 * pending without a requested cancellation or failure.
 */
export async function beginPayoutCalls(sql: Sql, calls: CallToBegin[]): Promise<Set<string>> {
  const rows = await sql<{ job_id: string }[]>`
    with fenced as (
      select l.* from (
        select * from jsonb_to_recordset(${sql.json(calls)}) as l(
          job_id uuid, lease_token uuid, tenant_id uuid, payout_id uuid)
        order by job_id
      ) l
      cross join lateral (
        select from jobs j where j.id = l.job_id and j.lease_token = l.lease_token and j.lease_until > now() for update
      ) j
    ), locked as (
      select h.* from (select * from fenced order by tenant_id, payout_id) h
      cross join lateral (
        select from payouts p
        where p.tenant_id = h.tenant_id and p.id = h.payout_id and p.status = 'pending'
          and p.cancel_requested_at is null and p.fail_requested_at is null
        for update
      ) p
    ), begun as (
      update payouts p set call_started_at = coalesce(p.call_started_at, clock_timestamp())
      from locked l where p.tenant_id = l.tenant_id and p.id = l.payout_id
    )
    select job_id from locked`
  return new Set(rows.map(({ job_id }) => job_id))
}
