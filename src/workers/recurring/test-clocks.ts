// Moves the clocks of tenants in test mode: what is due by a clock runs, in the order of the deadlines.
import { hasSandboxProcessor } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import {
  findAbandonedPaymentsInTestMode,
  findExpiredHoldsInTestMode,
  warnOfExpiryInTestMode,
} from '#domain/payments/expiry.ts'
import { deadlineRulesOf, type DeadlineRules } from '#domain/test-clocks/deadlines.ts'
import { findClocksWithWork, moveTestClock, type ClockPosition } from '#domain/test-clocks/move.ts'
import { findSandboxClock } from '#domain/sandboxes/records.ts'
import { cancelAbandonedInTestMode } from '#domain/verifications/cancel.ts'
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
 */
export function startTestClocks(context: WorkerContext, hasWork: HasWork): Loop {
  const { sql, database, config } = context
  // A test account of the processor has the real time.
  const sandbox = hasSandboxProcessor(config) ? sandboxClock(context) : null
  const rules = deadlineRulesOf(context.config, { processor_follows: sandbox !== null })
  let interval_ms = INTERVAL_MS
  return repeatWhileCurrent(
    context,
    'test clocks',
    () => interval_ms,
    async (mustEnd) => {
      interval_ms = INTERVAL_MS
      if (database.isHeld() || !(await hasWork('test_clocks'))) return
      let failure: unknown
      for (const clock of await findClocksWithWork(sql)) {
        if (mustEnd()) return
        // A clock that fails keeps no other waiting.
        await pass(sql, clock, rules, sandbox).then(
          (next_ms) => void (interval_ms = Math.min(interval_ms, next_ms)),
          (error: unknown) => void (failure = error),
        )
      }
      if (failure !== undefined) throw failure
    },
  )
}

type SandboxClock = {
  /** When the next scheduled change of a tenant's sandbox is due, by the tenant's clock; null: nothing is scheduled. */
  nextDueAt(tenant_id: string): Promise<string | null>
  /**
   * Moves the sandbox to a clock that is this far ahead of the real time, and performs what is due by then, with its
   * events. A tenant without a sandbox gets one, so that its first deadline is counted from the time of the clock.
   * Returns false if the sandbox has failed, which is logged.
   */
  follow(tenant_id: string, offset_ms: number): Promise<boolean>
}

function sandboxClock({ sql, modes }: WorkerContext): SandboxClock {
  return {
    nextDueAt: async (tenant_id) => (await findSandboxClock(sql, tenant_id))?.next_due_at ?? null,
    async follow(tenant_id, offset_ms) {
      const clock = await findSandboxClock(sql, tenant_id)
      if (clock !== undefined && clock.offset_ms >= Math.floor(offset_ms) && !clock.is_due) return true
      const { host } = await modes.sandboxes()
      return await host.followClock(tenant_id, offset_ms).then(
        () => true,
        () => false,
      )
    },
  }
}

/** Returns the time until the next pass, in milliseconds. */
async function pass(
  sql: Sql,
  clock: ClockPosition,
  rules: DeadlineRules,
  sandbox: SandboxClock | null,
): Promise<number> {
  const { tenant_id, offset_ms, is_advancing, resources_due } = clock
  if (sandbox !== null && !(await sandbox.follow(tenant_id, offset_ms))) return INTERVAL_MS
  if (resources_due) await runDueResources(sql, tenant_id, rules)
  const sandbox_due_at = (await sandbox?.nextDueAt(tenant_id)) ?? null
  if (await moveTestClock(sql, clock, rules, { limit: BATCH_SIZE, sandbox_due_at })) return 0
  return is_advancing ? MOVING_INTERVAL_MS : INTERVAL_MS
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
