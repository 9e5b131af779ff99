// Warns of holds that will expire, and cancels payments whose hold has expired or whose buyer did nothing.
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import {
  findAbandonedPayments,
  findExpiredHolds,
  warnOfExpiry,
  type DuePayment,
} from '#domain/payments/expiry.ts'
import { requestCancels } from '#domain/payments/request.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Safe in several workers at once. A payment whose buyer does nothing for `action_ttl_s` seconds is canceled. */
export function startHoldExpiry({ sql, database, log, idleness }: WorkerContext, action_ttl_s: number): Loop {
  return repeatWhileCurrent({ log, database }, 'expiry', idleness.interval(5_000), async () => {
    if (database.isHeld()) return
    await warnOfExpiry(sql, 100)
    await cancelPayments(sql, {
      expired: await findExpiredHolds(sql, 100),
      abandoned: await findAbandonedPayments(sql, action_ttl_s, 100),
    })
  })
}

/** Cancels payments whose hold has expired, and payments that their buyer has abandoned. */
export async function cancelPayments(
  sql: Sql,
  { expired, abandoned }: { expired: DuePayment[]; abandoned: DuePayment[] },
): Promise<void> {
  const to_cancel = [
    ...expired.map((hold) => ({ ...hold, reason: null, cancellation_reason: 'expired' })),
    ...abandoned.map((payment) => ({ ...payment, reason: 'abandoned', cancellation_reason: 'abandoned' })),
  ]
  if (to_cancel.length === 0) return
  await requestCancels(
    sql,
    to_cancel.map(({ tenant_id, id, reason, cancellation_reason }) => ({
      tenant_id,
      payment_id: id,
      job_id: newId(),
      event_id: newId(),
      will_wake: false,
      idempotency_key: null,
      route: '',
      fingerprint: '',
      request_id: null,
      reason,
      cancellation_reason,
    })),
  )
}
