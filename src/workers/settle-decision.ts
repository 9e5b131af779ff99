// Settles the decision of an attempt, again while the database fails.
import { setTimeout as sleep } from 'node:timers/promises'
import { isDatabaseFailure } from '#core/db.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { wasSettled, type Settlement } from '#domain/jobs/settle.ts'
import type { Queue } from '#queue/queue.ts'
import type { WorkerContext } from './context.ts'
import { settlementOf, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import type { Lease } from './leases.ts'
import { JOB_ONLY } from './settle.ts'

/** The mean delay between attempts to settle a decision while the database fails, and their time limit. */
const RETRY_DELAY_MS = 250
const RETRIES_MS = 10_000
/**
 * How long a decision is tried after its lease was lost. Its answer is still true, and the fence accepts it until
 * another worker claims the job: an email without an answer would be `unknown`.
 */
const LATE_RETRIES_MS = 60_000
/** The same while the worker stops: it must end by itself, before the time limit of its closing. */
const LATE_RETRIES_WHILE_CLOSING_MS = 5_000
/** With many answers at once, a database that has just come back must not get them all four times a second. */
const LATE_RETRY_DELAY_MS = 1_000

/**
 * Writes a decision behind the fence, again after each failure of the database, until `LATE_RETRIES_MS` after the loss
 * of the lease, or less while the worker stops; then rejects with the last error. If another worker has claimed the
 * job, the outcome of the returned settlement is `fenced`.
 *
 * While the lease is held, a decision with effects is tried for `RETRIES_MS`: its effects may cause the error, and
 * without them the job can still be given back. A job is given back only while the lease is held, because a claim does
 * as much. A decision after which the attempt continues is tried once, because the fence would let it be written twice.
 */
export async function settleDecision(
  { sql }: WorkerContext,
  queue: Queue,
  {
    job,
    lease,
    decision,
    isClosing,
  }: { job: ClaimedJob; lease: Lease; decision: Decision; isClosing: () => boolean },
): Promise<Settlement> {
  const settlement = settlementOf(job, handlerOf(job.name).definition, decision)
  const { effects = JOB_ONLY } = decision
  const ends_at = effects === JOB_ONLY ? Infinity : performance.now() + RETRIES_MS
  const lateLimit = () => (isClosing() ? LATE_RETRIES_WHILE_CLOSING_MS : LATE_RETRIES_MS)
  let was_lost = false
  for (;;) {
    try {
      const was_written =
        (await effects.settle(sql, settlement)) ||
        (was_lost && (await wasSettled(sql, job, settlement.outcome)))
      if (was_written && decision.kind === 'retry' && decision.publish_state === true)
        queue.publish([{ id: job.id, state: settlement.state }])
      return was_written ? settlement : { ...settlement, outcome: 'fenced' }
    } catch (error) {
      if (!isDatabaseFailure(error) || decision.kind === 'continue') throw error
      const lost_ms = lease.lostFor()
      const is_late = lost_ms > 0
      if (is_late && (decision.kind === 'give_back' || lost_ms > lateLimit())) throw error
      if (!is_late && performance.now() > ends_at) throw error
      was_lost = true
      // A random delay: decisions that failed in one statement must not fail together again.
      await sleep((is_late ? LATE_RETRY_DELAY_MS : RETRY_DELAY_MS) * (0.5 + Math.random()))
    }
  }
}
