// Requests recoveries and reads their progress.
import { columnList, type Fragment, type Sql, type Tx } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { isKeyUsed, keyColumns, storingKeys, type IdempotentRequest } from '../idempotency.ts'
import { recoverySchema, type Recovery } from './recovery.ts'

/**
 * Records a request to recover the deliveries created from `since` up to `until` (default: now). Undefined if
 * the endpoint does not exist or the key was used before. Throws `invalid_request` if the period is empty, and
 * `recovery_in_progress` while another recovery of the endpoint is not completed.
 */
export async function requestRecovery(
  sql: Sql,
  request: IdempotentRequest & {
    endpoint_id: string
    recovery_id: string
    since: string
    until: string | null
  },
): Promise<Recovery | undefined> {
  const { tenant_id, endpoint_id, since, until } = request
  return await sql.begin(async (tx) => {
    // Serializes concurrent requests: the statement below sees the row of an earlier request.
    const [endpoint] = await tx<{ in_order: boolean }[]>`
      select ${since}::timestamptz < least(coalesce(${until}::timestamptz, now()), now()) as in_order
      from webhook_endpoints
      where tenant_id = ${tenant_id} and id = ${endpoint_id} and deleted_at is null for update`
    if (endpoint === undefined) return undefined
    if (!endpoint.in_order)
      throw new AppError('invalid_request', {
        param: 'since',
        message: '`since` must be in the past and before `until`.',
      })
    const [row] = await tx<(Recovery & { is_new: boolean; other_id: string | null })[]>`
      with requested as (
        select * from jsonb_to_recordset(${tx.json([request])}) as a(
          ${keyColumns(tx)}, tenant_id uuid, endpoint_id uuid, recovery_id uuid, since timestamptz, until timestamptz)
        where not ${isKeyUsed(tx)}
      ), other as (
        select o.id from webhook_recoveries o
        where o.tenant_id = ${tenant_id} and o.endpoint_id = ${endpoint_id} and o.status <> 'completed' limit 1
      ), r as (
        insert into webhook_recoveries (tenant_id, id, endpoint_id, since, until)
        select tenant_id, recovery_id, endpoint_id, since, least(coalesce(until, now()), now()) from requested
        where not exists (select from other)
        returning *
      ),
      stored_keys as (${storingKeys(
        tx,
        'webhook_recovery',
        tx`
        select a.*, a.recovery_id as resource_id, null::uuid as job_id from requested a join r using (tenant_id)`,
      )})
      select exists (select from requested) as is_new, (select id from other) as other_id, r.*
      from (values (true)) one left join (select ${recoveryColumns(tx)} from r) r on true`
    const { is_new, other_id, ...recovery } = row!
    if (!is_new) return undefined
    if (other_id !== null)
      throw new AppError('recovery_in_progress', { context: { webhook_recovery_id: other_id } })
    return recovery
  })
}

/** One recovery of an endpoint that is not deleted, or undefined. */
export async function findRecovery(sql: Sql, tenant_id: string, id: string): Promise<Recovery | undefined> {
  const [row] = await sql<Recovery[]>`
    select ${recoveryColumns(sql)} from webhook_recoveries r
    where r.tenant_id = ${tenant_id} and r.id = ${id} and exists (
      select from webhook_endpoints p
      where p.tenant_id = r.tenant_id and p.id = r.endpoint_id and p.deleted_at is null)`
  return row
}

/**
 * The columns of a recovery in responses. `sent`: the number of deliveries that were found and are not queued, in
 * progress or dropped.
 */
function recoveryColumns(sql: Sql | Tx): Fragment {
  const { sent: _computed, ...columns } = recoverySchema.shape
  return sql`
    ${columnList(sql, Object.keys(columns))},
    (r.found - r.dropped
      - (select count(*) from webhook_due w where w.tenant_id = r.tenant_id and w.recovery_id = r.id)
      - (select count(*) from jobs j
        where j.queue = ${sendDelivery.queue} and j.tenant_id = r.tenant_id and j.finished_at is null
          and j.resource_id = r.endpoint_id and j.payload ->> 'recovery_id' = r.id::text))::integer as sent`
}
