// The invariants of notifications: no notification is lost.
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { isOfMode } from '../modes.ts'
import { noFigures, type AuditScope, type Limits } from './checks.ts'

const GIVEN_UP = 'a notification was parked after repeated failures'
const DUPLICATE = 'the processor has a duplicate object'
const PARKED_OBJECT_EXISTS = 'a parked notification waits for an object that exists'
const PARKED_BUT_APPLICABLE = 'a parked notification can be applied now but is not resumed'
const OVERDUE = 'a notification waits although it is due'
/**
 * Problems of parked and waiting notifications: every audit reports them, even if the notifications are older than the
 * audited period.
 */
export const REPORTED_BY_EVERY_AUDIT: ReadonlySet<string> = new Set([
  GIVEN_UP,
  DUPLICATE,
  PARKED_OBJECT_EXISTS,
  PARKED_BUT_APPLICABLE,
  OVERDUE,
])

/**
 * An unfinished notification has an open job or waits, and a notification whose job has finished was applied or
 * ignored. No notification is parked after repeated failures or because of a duplicate. None stays parked after the
 * object that it waits for was created here, or after the change that it reports became possible.
 */
export function notifications(
  sql: Sql | Tx,
  { resources }: AuditScope,
  { since, stuck_after_s }: Limits,
): Fragment {
  const matching_rows = resources.flatMap(({ table, provider, reference }) =>
    provider === undefined || reference === undefined
      ? []
      : [
          sql`
            select from ${sql(table)} r
            where ${sql(`r.${provider}`)} = n.provider and ${sql(`r.${reference}`)} = n.waits_for
              and ${isOfMode(sql, sql`r.tenant_id`, true)}`,
        ],
  )
  const amount = sql`n.payload #> '{data,object,amount}'`
  return sql`
    select finding.problem, n.tenant_id, n.resource, n.resource_id, n.id::text as id,
      n.provider || ' ' || n.event_id || ' ' || n.state || coalesce(' ' || n.reason, '') as what,
      ${noFigures(sql)}
    from notifications n left join jobs j on j.id = n.id
    cross join lateral (select n.state in ('applied', 'ignored') as final) n_is
    cross join lateral (values
      ('a notification has no job', j.id is null and not n_is.final and n.state <> 'waiting'),
      (${OVERDUE},
        n.state = 'waiting' and n.due_at < now() - ${stuck_after_s} * interval '1 second'),
      ('a notification whose job ended was neither applied nor ignored',
        j.finished_at is not null and not n_is.final),
      ('a final notification has an open job', n_is.final and j.id is not null and j.finished_at is null),
      (${GIVEN_UP}, n.state = 'parked' and n.reason = 'poison' and j.finished_at is null),
      (${DUPLICATE}, n.state = 'parked' and n.reason = 'duplicate' and j.finished_at is null),
      (${PARKED_OBJECT_EXISTS}, n.state = 'parked' and n.reason in ('not_known_here', 'not_ours')
        and j.state = 'ready' and j.run_at > now() + ${stuck_after_s} * interval '1 second'
        and exists (${unionAll(sql, matching_rows)})),
      (${PARKED_BUT_APPLICABLE}, n.state = 'parked' and n.reason = 'does_not_fit'
        and j.state = 'ready' and j.run_at > now() + ${stuck_after_s} * interval '1 second' and exists (
          select from payments p where p.tenant_id = n.tenant_id and p.id = n.resource_id and p.status = 'captured'
            -- A dispute is possible even if the payment is fully refunded.
            and case when n.payload #>> '{data,object,object}' = 'dispute'
                then p.currency = upper(n.payload #>> '{data,object,currency}')
              when jsonb_typeof(${amount}) = 'number'
                then p.amount_refund_reserved_minor + (${amount})::numeric <= p.amount_captured_minor end))
    ) as finding(problem, violated)
    where finding.violated and n.livemode
      -- One condition for each state: a partial index of one state does not serve a list of states.
      and (${since}::timestamptz is null or n.received_at >= ${since} or n.state = 'parked' or n.state = 'waiting')`
}
