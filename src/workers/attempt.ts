// One attempt at a claimed job: its handler decides, and each decision is settled, until one is final.
import { isTakenReference, isUnavailable } from '#core/db.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from './context.ts'
import { discard, park, retry, unknown, type Decision } from './decision.ts'
import { handlerOf } from './handlers/index.ts'
import { factsOf } from './job-log.ts'

const TOO_OFTEN = 'too many attempts died or threw: perhaps the job ends the process that performs it'
const TAKEN = 'the provider answered with the id of another object'

type NextDecision = () => Promise<Decision>

/**
 * Settles what the handler decides; after `go_on` also its next decision, unless the fence refuses a write. A handler that
 * throws decides nothing: the job is retried or given up. Rejects when the database is away or a call could not start.
 */
export async function attempt(
  context: WorkerContext,
  job: ClaimedJob,
  settle: (decision: Decision) => Promise<Settlement>,
  signal: AbortSignal,
): Promise<Settlement> {
  const lost = lostTooOften(job)
  let has_failed = lost !== undefined
  let next: NextDecision = () =>
    lost === undefined
      ? handlerOf(job.name).attempt(context, job, signal)
      : giveUp(context, job, lost, TOO_OFTEN)
  for (;;) {
    try {
      const decision = await next()
      const settlement = await settle(decision)
      if (decision.kind !== 'go_on' || settlement.outcome === 'fenced') return settlement
      next = decision.next
    } catch (error) {
      // Without the database nothing can be written: the lease lapses, and the job is claimed again.
      if (has_failed || isUnavailable(error) || error instanceof NotStarted) throw error
      has_failed = true
      context.log.error({ err: error, ...factsOf(job) }, 'a job threw')
      next = afterError(context, job, error)
    }
  }
}

function afterError(context: WorkerContext, job: ClaimedJob, error: unknown): NextDecision {
  const is_taken = isTakenReference(error)
  const reason = is_taken ? TAKEN : error instanceof Error ? `${error.name}: ${error.message}` : 'threw'
  const given_up = job.call === null ? discard(reason) : unknown(reason)
  // Called again, the provider would answer the same.
  const is_last =
    (is_taken && job.call !== null) || (job.call?.look_only !== true && job.attempt >= job.max_attempts)
  return async () =>
    is_last ? await giveUp(context, job, given_up, reason) : retry(reason, { why: 'ambiguous', counts: true })
}

/** What the handler decides about a job that is given up, or else `decision`. */
async function giveUp(
  context: WorkerContext,
  job: ClaimedJob,
  decision: Decision,
  reason: string,
): Promise<Decision> {
  try {
    return (await handlerOf(job.name).giveUp?.(context, job, reason)) ?? decision
  } catch (error) {
    if (isUnavailable(error) || error instanceof NotStarted) throw error
    // A handler that fails here too must not keep the job from ending.
    context.log.error({ err: error, ...factsOf(job) }, 'a job that is given up threw again')
    return job.call === null ? park(reason, { code: 'poison' }) : decision
  }
}

// Only attempts that died or threw count. When they are used up, the call becomes unknown and is only looked up. A lookup
// that dies counts too: after one of these the job is parked.
function lostTooOften({ attempt, max_attempts, call }: ClaimedJob): Decision | undefined {
  const looks = call?.look_only === true
  if (attempt <= max_attempts + (looks ? 1 : 0)) return undefined
  if (call === null) return discard(TOO_OFTEN)
  return looks ? park(TOO_OFTEN) : unknown(TOO_OFTEN)
}
