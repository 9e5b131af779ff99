// Settling steps. Each writes a job and the effects of a decision on its resource in one fenced statement.
import { createBatcherPerPool, type BatchOptions } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'

/** The effects of a decision on a resource. */
export type Effects = {
  /** Writes the effects together with the job. False if the lease was lost: then nothing was written. */
  settle(sql: Sql, settlement: Settlement): Promise<boolean>
}

/** The fields of a resource's settlement, without the fields of the job. */
export type SettlementDetails<S extends Settlement> = Omit<S, keyof Settlement>

/**
 * Declares the settling step of a resource. Returns a function that creates the `effects` of a decision. `settle`
 * returns the ids of the jobs that passed the fence. Settlements that arrive during a statement are
 * batched into the next statement; two settlements with the same `key` never share a statement. `step` is the name of
 * the step in the metrics. `options`: see `createBatcher`.
 */
export function createSettlingStep<Details extends object>(
  step: string,
  settle: (sql: Sql, settlements: (Settlement & Details)[]) => Promise<Set<string>>,
  key: (settlement: Settlement & Details) => string,
  options: Pick<BatchOptions<unknown>, 'gather_ms' | 'max_items'> = {},
): (details: Details) => Effects {
  const write = createBatcherPerPool(
    step,
    async (sql, settlements: (Settlement & Details)[]) => {
      const settled = await settle(sql, settlements)
      return settlements.map(({ job_id }) => settled.has(job_id))
    },
    { key, ...options },
  )
  return (details) => ({ settle: (sql, settlement) => write(sql, { ...settlement, ...details }) })
}

/** The same effects. `then` is called after they are written. */
export function onceWritten(effects: Effects, then: () => void): Effects {
  return {
    async settle(sql, settlement) {
      const written = await effects.settle(sql, settlement)
      if (written) then()
      return written
    },
  }
}

/** For settlements of which each is a transaction of its own: behind many others, one could exceed its time. */
export const ONE_BY_ONE = { max_items: 1 } as const

/** The effects of a decision that changes no resource: only the job is written. */
export const JOB_ONLY = createSettlingStep<object>('settle_job', settleJobs, ({ job_id }) => job_id)({})
