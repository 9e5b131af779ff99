// Turns a decision into what is written about the job: its state, and when it is tried or looked at again.
import assert from 'node:assert/strict'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import type { Settlement } from '#domain/jobs/settle.ts'
import type { JobDefinition } from '#jobs/job.ts'
import type { Decision } from './decision.ts'

const MISCONFIGURED_MS = 30_000

/** The settlement of a decision, by the retry schedule of the job's definition. */
export function settlementOf(
  job: ClaimedJob,
  { retry, call }: JobDefinition,
  decision: Decision,
): Settlement {
  const settlement: Settlement = {
    job_id: job.id,
    lease_token: job.lease_token,
    state: 'ready',
    outcome: 'retry',
    error: 'reason' in decision ? { code: 'processor_error', message: decision.reason } : null,
    delay_ms: 0,
    provider_reference: decision.reference ?? null,
    rotate: false,
    unsent: decision.unsent ?? false,
    forgive: true,
  }
  switch (decision.kind) {
    case 'done':
      return { ...settlement, state: 'succeeded', outcome: 'done' }
    case 'failed':
      return { ...settlement, state: 'failed', outcome: 'declined', error: decision.failure }
    case 'retry': {
      const { why = 'retry', after_ms = 0, counts = false } = decision
      // A call that may only be looked up is looked up again, not sent.
      const looks = job.call?.look_only === true
      if (looks && decision.unanswered !== true)
        return { ...settlement, state: 'unknown', outcome: 'unknown', delay_ms: lookDelay(job, retry) }
      const by_schedule_ms = why === 'misconfigured' ? MISCONFIGURED_MS : retryDelay(job, retry, after_ms)
      const delay_ms = decision.delay_ms ?? by_schedule_ms
      return { ...settlement, state: looks ? 'unknown' : 'ready', outcome: why, delay_ms, forgive: !counts }
    }
    case 'rotate':
      // Another key would not protect from a second effect either.
      if (call?.on_ambiguous === 'look' && job.call?.in_doubt === true)
        return { ...settlement, state: 'unknown', outcome: 'unknown', delay_ms: lookDelay(job, retry) }
      return { ...settlement, rotate: true, delay_ms: retryDelay(job, retry, 0) }
    case 'unknown':
      return { ...settlement, state: 'unknown', outcome: 'unknown', delay_ms: lookDelay(job, retry) }
    case 'park': {
      const { code = 'processor_error', reason, delay_ms = null } = decision
      const state = job.call === null ? 'ready' : 'unknown'
      return { ...settlement, state, outcome: 'parked', error: { code, message: reason }, delay_ms }
    }
    case 'give_back':
      return { ...settlement, outcome: settlement.unsent ? 'returned' : 'ambiguous' }
    case 'discard':
      return { ...settlement, state: 'discarded', outcome: 'discarded' }
    case 'go_on':
      return { ...settlement, state: 'running', outcome: 'done', forgive: false }
    default:
      return assert.fail(`no decision: ${JSON.stringify(decision satisfies never)}`)
  }
}

/** Exponential with jitter: between a tenth and the whole of the delay, and no sooner than the provider asks for. */
function retryDelay(
  { failures }: ClaimedJob,
  { base_ms, cap_ms }: JobDefinition['retry'],
  after_ms: number,
): number {
  const ceiling_ms = Math.min(cap_ms, base_ms * 2 ** failures)
  return Math.max(after_ms, ceiling_ms * (0.1 + 0.9 * Math.random()))
}

function lookDelay({ unknown_ms }: ClaimedJob, { looks_ms }: JobDefinition['retry']): number {
  return looks_ms.find((look_ms) => look_ms > (unknown_ms ?? 0)) ?? looks_ms.at(-1)!
}
