// The registry of settling steps, by the noun that a decision tells of. Each writes that and the job in one fenced
// statement.
import { batcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'
import { settleNotifications } from '#domain/notifications.ts'
import { settlePayments } from '#domain/payments/settle.ts'
import { settleRefunds } from '#domain/refunds/settle.ts'
import type { Tellings, Tells } from './decision.ts'

type Steps = { [N in keyof Tellings]: (settlement: Settlement & Tellings[N]) => Promise<boolean> }

/** Writes a settlement with what it tells. False when the lease is lost: then nothing was written. */
export type Settle = <N extends keyof Tellings>(settlement: Settlement, tells: Tells<N>) => Promise<boolean>

/** Creates the settling steps; settlements that arrive during a statement are gathered into the next. */
export function createSettle(sql: Sql): Settle {
  const each = <S extends Settlement>(
    step: string,
    settle: (sql: Sql, settlements: S[]) => Promise<Set<string>>,
    key: (settlement: S) => string,
  ) =>
    batcher<S, boolean>(
      step,
      async (settlements) => {
        const settled = await settle(sql, settlements)
        return settlements.map(({ job_id }) => settled.has(job_id))
      },
      { key },
    )
  const steps: Steps = {
    job: each('settle_job', settleJobs, ({ job_id }) => job_id),
    payment: each('settle_payment', settlePayments, ({ told }) => told.payment_id),
    refund: each('settle_refund', settleRefunds, ({ told }) => told.payment_id),
    notification: each('settle_notification', settleNotifications, ({ job_id }) => job_id),
  }
  return async <N extends keyof Tellings>(settlement: Settlement, { noun, what }: Tells<N>) =>
    await steps[noun]({ ...settlement, ...what })
}
