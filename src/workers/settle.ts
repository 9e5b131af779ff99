// Settling steps: each writes what a decision tells of a noun, and the job, behind the fence.
import { batcher } from '#core/batch.ts'
import type { Sql } from '#core/db.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'

/** What a decision tells. */
export type Tells = {
  /** Writes it together with what becomes of the job. False: the job is no longer ours, and nothing was written. */
  settle(sql: Sql, settlement: Settlement): Promise<boolean>
}

/** What a settlement says beside what becomes of the job. */
export type Told<S extends Settlement> = Omit<S, keyof Settlement>

/**
 * Declares the settling step of a noun, which answers the jobs that were still ours: what is settled while one statement is under
 * way travels in the next, and settlements of one `key` never share one. Answers what a decision tells through it. `step` names
 * it in the metrics.
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

/** Nothing but what becomes of the job. */
export const NOTHING = settling<object>('settle_job', settleJobs, ({ job_id }) => job_id)({})
