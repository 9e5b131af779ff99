// Settling steps. Each writes the job, and what a decision tells of a noun, in one fenced statement.
import { createBatcherPerPool } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'

/** What a decision tells of a noun, ready to be written. */
export type Effects = {
  /** Writes it together with the job. False when the lease is lost: then nothing was written. */
  settle(sql: Sql, settlement: Settlement): Promise<boolean>
}

/** The fields of a noun's settlement beside those of the job. */
export type SettlementDetails<S extends Settlement> = Omit<S, keyof Settlement>

/**
 * Declares the settling step of a noun and returns the function that makes the `effects` of a decision. `settle` returns the
 * ids of the jobs whose lease was still ours. Settlements that arrive during a statement are gathered into the next one;
 * two of the same `key` never share a statement. `step` is its name in the metrics. `gather_ms`: see `createBatcher`.
 */
export function createSettlingStep<Details extends object>(
  step: string,
  settle: (sql: Sql, settlements: (Settlement & Details)[]) => Promise<Set<string>>,
  key: (settlement: Settlement & Details) => string,
  { gather_ms }: { gather_ms?: number } = {},
): (details: Details) => Effects {
  const write = createBatcherPerPool(
    step,
    async (sql, settlements: (Settlement & Details)[]) => {
      const settled = await settle(sql, settlements)
      return settlements.map(({ job_id }) => settled.has(job_id))
    },
    { key, ...(gather_ms !== undefined && { gather_ms }) },
  )
  return (details) => ({ settle: (sql, settlement) => write(sql, { ...settlement, ...details }) })
}

/** Effects the same, and calls `then` when it is written. */
export function onceWritten(effects: Effects, then: () => void): Effects {
  return {
    async settle(sql, settlement) {
      const written = await effects.settle(sql, settlement)
      if (written) then()
      return written
    },
  }
}

/** For a decision that tells nothing of a noun: only the job is written. */
export const JOB_ONLY = createSettlingStep<object>('settle_job', settleJobs, ({ job_id }) => job_id)({})
