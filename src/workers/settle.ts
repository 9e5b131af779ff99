// Settling steps. Each writes what a decision tells of a noun, and the job, in one fenced statement.
import { batcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'

/** What a decision tells. */
export type Tells = {
  /** Writes it together with the job. False when the lease is lost: then nothing was written. */
  settle(sql: Sql, settlement: Settlement): Promise<boolean>
}

/** What a settlement says beside what becomes of the job. */
export type Told<S extends Settlement> = Omit<S, keyof Settlement>

/**
 * Declares the settling step of a noun. `settle` returns the jobs whose lease was still ours. Settlements that arrive during a
 * statement are gathered into the next; two of the same `key` never share one. Returns what makes the `tells` of a decision.
 * `step` is its name in the metrics.
 */
export function settling<What extends object>(
  step: string,
  settle: (sql: Sql, settlements: (Settlement & What)[]) => Promise<Set<string>>,
  key: (settlement: Settlement & What) => string,
): (what: What) => Tells {
  type Write = (settlement: Settlement & What) => Promise<boolean>
  const writing = new WeakMap<Sql, Write>()
  function writeThrough(sql: Sql): Write {
    const write = writing.get(sql) ?? batcher(step, settleEach(sql), { key })
    writing.set(sql, write)
    return write
  }
  const settleEach = (sql: Sql) => async (settlements: (Settlement & What)[]) => {
    const settled = await settle(sql, settlements)
    return settlements.map(({ job_id }) => settled.has(job_id))
  }
  return (what) => ({ settle: (sql, settlement) => writeThrough(sql)({ ...settlement, ...what }) })
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

/** Nothing but what becomes of the job. */
export const NOTHING = settling<object>('settle_job', settleJobs, ({ job_id }) => job_id)({})
