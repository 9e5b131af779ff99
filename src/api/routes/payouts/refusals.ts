// The refusals to cancel a payout or to fail it manually.
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { findPayout } from '#domain/payouts/find.ts'

/** The refusal to cancel or fail a payout, by its current status. */
export async function refusalOfPayout(
  sql: Sql,
  tenant_id: string,
  payout_id: string,
  code: 'payout_not_cancelable' | 'payout_not_failable',
  verb: 'canceled' | 'failed',
): Promise<AppError> {
  const payout = await findPayout(sql, tenant_id, payout_id)
  if (payout === undefined) return new AppError('payout_not_found')
  const { status } = payout
  return new AppError(code, {
    message: `The payout cannot be ${verb}: it is ${status}.`,
    context: { status },
  })
}
