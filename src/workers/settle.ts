// Settling steps. Each writes the job, and what a decision tells of a noun, in one fenced statement.
import { batcherOf } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'

/** What a decision tells of a noun, ready to be written. */
export type Tells = {
  /** Writes it together with the job. False when the lease is lost: then nothing was written. */
  settle(sql: Sql, settlement: Settlement): Promise<boolean>
}

/** The fields of a noun's settlement beside those of the job. */
export type Told<S extends Settlement> = Omit<S, keyof Settlement>

/**
 * Declares the settling step of a noun and returns the function that makes the `tells` of a decision. `settle` returns the
 * ids of the jobs whose lease was still ours. Settlements that arrive during a statement are gathered into the next one;
 * two of the same `key` never share a statement. `step` is its name in the metrics. `gather_ms`: see `batcher`.
 */
export function settling<What extends object>(
  step: string,
  settle: (sql: Sql, settlements: (Settlement & What)[]) => Promise<Set<string>>,
  key: (settlement: Settlement & What) => string,
  { gather_ms }: { gather_ms?: number } = {},
): (what: What) => Tells {
  const write = batcherOf(
    step,
    async (sql, settlements: (Settlement & What)[]) => {
      const settled = await settle(sql, settlements)
      return settlements.map(({ job_id }) => settled.has(job_id))
    },
    { key, ...(gather_ms !== undefined && { gather_ms }) },
  )
  return (what) => ({ settle: (sql, settlement) => write(sql, { ...settlement, ...what }) })
}

/** Tells the same, and calls `then` when it is written. */
export function onceWritten(tells: Tells, then: () => void): Tells {
  return {
    async settle(sql, settlement) {
      const written = await tells.settle(sql, settlement)
      if (written) then()
      return written
    },
  }
}

/** For a decision that tells nothing of a noun: only the job is written. */
export const NOTHING = settling<object>('settle_job', settleJobs, ({ job_id }) => job_id)({})
