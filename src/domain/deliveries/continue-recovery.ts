// Recoveries: put failed deliveries of a period back into the backlog of their endpoint, in batches.
import type { Sql, Tx } from '#core/db.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import { hasDeliveryId } from './by-id.ts'

/** The number of deliveries that one batch scans. It is small, so that each batch ends soon. */
const BATCH_SIZE = 500

type RecoveryPosition = { tenant_id: string; id: string }

/**
 * Processes the next batch of the recovery that has waited longest: finds deliveries that failed, were skipped
 * or wait after a failure, and restarts their schedules. Deliveries with an open attempt are being sent
 * already. Returns whether there was a recovery. Throws if the batch fails: the recovery is retried after the
 * others.
 */
export async function continueRecovery(sql: Sql): Promise<boolean> {
  let recovery: RecoveryPosition | undefined
  try {
    return await sql.begin(async (tx) => {
      // Locks the recovery in a statement of its own: the next statement sees the results of the previous batch, even
      // if another process has handled that batch.
      const found = await tx<RecoveryPosition[]>`
        select tenant_id, id from webhook_recoveries where status <> 'completed' and after_at is not null
        order by updated_at limit 1 for update skip locked`
      recovery = found[0]
      if (recovery === undefined) return false
      await recoverBatch(tx, recovery)
      return true
    })
  } catch (error) {
    // The rollback also undid the move of this recovery behind the others, so the move is repeated. If that fails too,
    // the first error is reported.
    if (recovery !== undefined) await moveToEnd(sql, recovery).catch(() => undefined)
    throw error
  }
}

async function moveToEnd(sql: Sql, recovery: RecoveryPosition): Promise<void> {
  await sql`
    update webhook_recoveries set updated_at = clock_timestamp()
    where tenant_id = ${recovery.tenant_id} and id = ${recovery.id}`
}

async function recoverBatch(tx: Tx, recovery: RecoveryPosition): Promise<void> {
  await tx`
    with recovery as (
      select * from webhook_recoveries where tenant_id = ${recovery.tenant_id} and id = ${recovery.id}
    ), found as materialized (
      select d.* from recovery r cross join lateral (
        select d.tenant_id, d.endpoint_id, d.id, d.created_at, d.sequence from webhook_deliveries d
        where d.tenant_id = r.tenant_id and d.endpoint_id = r.endpoint_id and d.failed_at is not null
          and d.created_at >= r.since and d.created_at < r.until and d.created_at > r.after_at
        order by d.created_at fetch first ${BATCH_SIZE} rows with ties
      ) d
    ), under_way as materialized (
      select j.payload ->> 'delivery_id' as delivery_id from recovery r cross join lateral (
        select j.payload from jobs j
        where j.queue = ${sendDelivery.queue} and j.tenant_id = r.tenant_id and j.finished_at is null
          and j.resource_id = r.endpoint_id and j.name = ${sendDelivery.name} offset 0) j
    ), delivery as (
      update webhook_deliveries d set status = 'pending', step = 0, next_attempt_at = now(),
        updated_at = clock_timestamp()
      from found f
      where ${hasDeliveryId(tx, tx`f.tenant_id`, tx`f.id`)} and d.status <> 'delivered'
        and d.sequence is not null and not exists (select from under_way u where u.delivery_id = f.id::text)
      returning d.tenant_id, d.endpoint_id, d.id, d.created_at, d.sequence
    ), due as (
      insert into webhook_due as w (tenant_id, endpoint_id, sequence, delivery_id, delivery_created_at, due_at,
        queued_at, recovery_id)
      select d.tenant_id, d.endpoint_id, d.sequence, d.id, d.created_at, now(), r.requested_at, r.id
      from delivery d cross join recovery r
      on conflict (tenant_id, endpoint_id, sequence, delivery_id)
        do update set due_at = excluded.due_at, queued_at = excluded.queued_at, recovery_id = excluded.recovery_id
    ), step as (
      select count(*)::integer as found, max(f.created_at) as after_at from found f
    )
    update webhook_recoveries r set found = r.found + (select count(*)::integer from delivery),
      after_at = case when step.found >= ${BATCH_SIZE} then step.after_at end, status = 'running',
      updated_at = clock_timestamp()
    from step
    where r.tenant_id = ${recovery.tenant_id} and r.id = ${recovery.id}`
}

/** Completes the recoveries that have nothing queued and no open attempt. */
export async function completeRecoveries(sql: Sql): Promise<void> {
  await sql`
    update webhook_recoveries r set status = 'completed', updated_at = clock_timestamp()
    from (
      select r.tenant_id, r.id from webhook_recoveries r
      where r.status <> 'completed' and r.after_at is null
        and not exists (
          select from webhook_due w where w.tenant_id = r.tenant_id and w.recovery_id = r.id)
        and not exists (
          select from jobs j
          where j.queue = ${sendDelivery.queue} and j.tenant_id = r.tenant_id and j.finished_at is null
            and j.resource_id = r.endpoint_id and j.payload ->> 'recovery_id' = r.id::text)
      limit 100
    ) finished
    where r.tenant_id = finished.tenant_id and r.id = finished.id and r.status <> 'completed'`
}
