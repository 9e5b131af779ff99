// What handlers share: resources made once by `main.ts`, and the settling steps, batched.
import { batcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import type { Vault } from '#core/secrets.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'
import { settleNotifications } from '#domain/notifications.ts'
import { settlePayments, type PaymentSettlement } from '#domain/payments/settle.ts'
import { settleRefunds, type RefundSettlement } from '#domain/refunds/settle.ts'
import type { PaymentProcessor } from '#providers/payments.ts'
import type { Story } from './story.ts'

export type WorkerContext = {
  sql: Sql
  log: Log
  vault: Vault
  processor: PaymentProcessor
  settle: Settle
  story: Story
}

/** Each answers whether the job was still ours; if not, nothing was written. */
export type Settle = {
  job(settlement: Settlement): Promise<boolean>
  payment(settlement: PaymentSettlement): Promise<boolean>
  refund(settlement: RefundSettlement): Promise<boolean>
  notification(settlement: Parameters<typeof settleNotifications>[1][number]): Promise<boolean>
}

/** The settling steps: what is settled while one statement is under way travels in the next. */
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
  return {
    job: each('settle_job', settleJobs, ({ job_id }) => job_id),
    payment: each('settle_payment', settlePayments, ({ told }) => told.payment_id),
    refund: each('settle_refund', settleRefunds, ({ told }) => told.payment_id),
    notification: each('settle_notification', settleNotifications, ({ job_id }) => job_id),
  }
}
