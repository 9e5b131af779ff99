// Moves the clocks of tenants in test mode: what is due by a clock runs, in the order of the deadlines.
import type { Sql } from '#core/db.ts'
import {
  findAbandonedPaymentsInTestMode,
  findExpiredHoldsInTestMode,
  warnOfExpiryInTestMode,
} from '#domain/payments/expiry.ts'
import { deadlineRulesOf, type DeadlineRules } from '#domain/test-clocks/deadlines.ts'
import { findTestClocks, passTestClock, type ClockPosition } from '#domain/test-clocks/pass.ts'
import { cancelAbandonedInTestMode } from '#domain/verifications/cancel.ts'
import type { SandboxClock } from '#providers/sandbox/clock.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import type { HasWork } from '../polled-work.ts'
import { cancelPayments } from './holds.ts'

const INTERVAL_MS = 1_000
/** The interval while a clock moves and waits for a job or a delivery. */
const MOVING_INTERVAL_MS = 50
const BATCH_SIZE = 500

/**
 * Passes over all clocks. Safe in several workers at once: a clock moves under a lock, and all that follows is guarded.
 * `sandbox`: null while the processor of test mode is an account that has the real time.
 */
export function startTestClocks(
  context: WorkerContext,
  hasWork: HasWork,
  sandbox: SandboxClock | null,
): Loop {
  const { sql, database } = context
  const rules = deadlineRulesOf(context.config, { processor_follows: sandbox !== null })
  let interval_ms = INTERVAL_MS
  return repeatWhileCurrent(
    context,
    'test clocks',
    () => interval_ms,
    async (mustEnd) => {
      interval_ms = INTERVAL_MS
      if (database.isHeld() || !(await hasWork('test_clocks'))) return
      for (const clock of await findTestClocks(sql, rules)) {
        if (mustEnd()) return
        const follows_at_once = await pass(sql, clock, rules, sandbox)
        if (follows_at_once) interval_ms = 0
        else if (clock.is_advancing) interval_ms = Math.min(interval_ms, MOVING_INTERVAL_MS)
      }
    },
  )
}

/** Returns whether the next pass should follow at once. */
async function pass(
  sql: Sql,
  clock: ClockPosition,
  rules: DeadlineRules,
  sandbox: SandboxClock | null,
): Promise<boolean> {
  const { tenant_id, offset_ms } = clock
  await sandbox?.follow(tenant_id, offset_ms)
  await runDueResources(sql, tenant_id, rules)
  const sandbox_due_at = (await sandbox?.nextDueAt(tenant_id)) ?? null
  return await passTestClock(sql, tenant_id, rules, { limit: BATCH_SIZE, sandbox_due_at })
}

/** Runs the deadlines of resources that are not the due times of jobs. */
async function runDueResources(sql: Sql, tenant_id: string, rules: DeadlineRules): Promise<void> {
  const tenant = { tenant_id, processor_follows: rules.processor_follows }
  await warnOfExpiryInTestMode(sql, tenant, BATCH_SIZE)
  await cancelPayments(sql, {
    expired: await findExpiredHoldsInTestMode(sql, tenant, BATCH_SIZE),
    abandoned: await findAbandonedPaymentsInTestMode(sql, tenant, rules.action_ttl_s, BATCH_SIZE),
  })
  await cancelAbandonedInTestMode(sql, tenant_id, rules.verification_ttl_days, BATCH_SIZE)
}
