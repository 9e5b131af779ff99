// Settles messages by what became of sending them.
import type { Tx } from '#core/db.ts'
import { settleJobs, type FailedRow, type Settlement } from '../jobs/settle.ts'

/** Settles a message that an operator has found not to have been sent. */
export async function settleMessageAsFailed(tx: Tx, settlement: Settlement, _row: FailedRow): Promise<void> {
  await settleJobs(tx as never, [settlement])
}
