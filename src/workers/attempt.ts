// One attempt at a claimed job: its handler decides, and each decision is settled until one is final.
import { isDatabaseFailure, isDuplicateReference, isUnavailable } from '#core/db.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from './context.ts'
import { discard, park, retry, unknown, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { factsOf } from './job-log.ts'
import { enterMode } from './modes.ts'

const ATTEMPTS_EXHAUSTED =
  'too many attempts crashed or threw: the job may crash the process that performs it'
const DUPLICATE_REFERENCE = 'the provider answered with the id of another object'

type NextDecision = () => Promise<Decision>

/**
 * Runs the handler in the context of the tenant's mode, and settles its decision. After a `continue`, also makes and
 * settles the next decision, unless the fence refused the write. If the handler throws, the job is retried or given up.
 * Rejects if the database is unavailable or a call could not start.
 */
export async function attempt(
  live: WorkerContext,
  claimed: ClaimedJob,
  settle: (decision: Decision) => Promise<Settlement>,
  signal: AbortSignal,
): Promise<Settlement> {
  const { context, job } = await enterMode(live, claimed)
  const exhausted = decideExhausted(job)
  let has_failed = exhausted !== undefined
  let next: NextDecision = () =>
    exhausted === undefined
      ? handlerOf(job.name).attempt(context, job, signal)
      : giveUp(context, job, exhausted, ATTEMPTS_EXHAUSTED)
  for (;;) {
    try {
      const decision = await next()
      const settlement = await settle(decision)
      if (decision.kind !== 'continue' || settlement.outcome === 'fenced') return settlement
      next = decision.next
    } catch (error) {
      if (has_failed || preventsDecision(error)) throw error
      has_failed = true
      context.log.error({ err: error, ...factsOf(job) }, 'the handler of a job threw an error')
      next = afterError(context, job, error)
    }
  }
}

/** Without the database, or before the call, nothing can be decided: the caller gives the job back. */
function preventsDecision(error: unknown): boolean {
  return isUnavailable(error) || isDatabaseFailure(error) || error instanceof NotStarted
}

function afterError(context: WorkerContext, job: ClaimedJob, error: unknown): NextDecision {
  const is_duplicate = isDuplicateReference(error)
  const reason = is_duplicate
    ? DUPLICATE_REFERENCE
    : error instanceof Error
      ? `${error.name}: ${error.message}`
      : 'threw'
  const last_decision = job.call === null ? discard(reason) : unknown(reason)
  // If the provider answered with the id of another object, it would give another attempt the same answer.
  const is_last =
    (is_duplicate && job.call !== null) || (job.call?.lookup_only !== true && job.attempt >= job.max_attempts)
  return async () =>
    is_last
      ? await giveUp(context, job, last_decision, reason)
      : retry(reason, { outcome: 'ambiguous', counts_attempt: true })
}

/**
 * The decision of the handler's `giveUp`; `decision` if the handler has no `giveUp`, or if `giveUp` returns nothing.
 */
async function giveUp(
  context: WorkerContext,
  job: ClaimedJob,
  decision: Decision,
  reason: string,
): Promise<Decision> {
  try {
    return (await handlerOf(job.name).giveUp?.(context, job, reason)) ?? decision
  } catch (error) {
    if (preventsDecision(error)) throw error
    // An error of `giveUp` must not keep the job open.
    context.log.error(
      { err: error, ...factsOf(job) },
      'the handler of a failed job threw another error in `giveUp`: the job is parked, or its call is looked up',
    )
    return job.call === null ? park(reason, { code: 'poison' }) : decision
  }
}

// Decides for a job whose attempts are used up; undefined for other jobs. Only attempts that died or threw count. A job
// without a call is discarded. A call becomes unknown: from then on it is only looked up. If a lookup dies or throws
// too, the job is parked.
function decideExhausted({ attempt, max_attempts, call }: ClaimedJob): Decision | undefined {
  const is_lookup = call?.lookup_only === true
  if (attempt <= max_attempts + (is_lookup ? 1 : 0)) return undefined
  if (call === null) return discard(ATTEMPTS_EXHAUSTED)
  return is_lookup ? park(ATTEMPTS_EXHAUSTED) : unknown(ATTEMPTS_EXHAUSTED)
}
