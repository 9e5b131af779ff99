// The deadlines of a tenant in test mode, as times of its clock. A resource with a deadline of its own, other than the
// due time of a job, adds its select to `resourceDeadlinesOf` and its work to `workers/recurring/test-clocks.ts`.
import type { Config } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import { unionAll, type Fragment, type Sql, type Tx } from '#core/db.ts'
import {
  abandonedPaymentAt,
  holdExpiresAt,
  isUnwarned,
  waitingPaymentsOf,
  waitsForBuyer,
  WARNING_PERIOD,
} from '../payments/expiry.ts'
import { abandonedVerificationAt, waitingVerificationsOf, waitsForPerson } from '../verifications/cancel.ts'

/** What the deadlines of a tenant depend on, besides its clock. */
export type DeadlineRules = {
  /** Whether the processor of test mode has the clock of the tenant: the sandbox has it, a test account has not. */
  processor_follows: boolean
  action_ttl_s: number
  verification_ttl_days: number
}

export function deadlineRulesOf(
  config: Config,
  { processor_follows }: Pick<DeadlineRules, 'processor_follows'>,
): DeadlineRules {
  return {
    processor_follows,
    action_ttl_s: config.REQUIRES_ACTION_TTL_S,
    verification_ttl_days: config.KYC_TTL_DAYS,
  }
}

/** Selects all deadlines of a tenant as `at`. `tenant_id`: an expression. */
export function deadlinesOf(sql: Sql | Tx, tenant_id: Fragment, rules: DeadlineRules): Fragment {
  return unionAll(sql, [waitingWorkOf(sql, tenant_id), resourceDeadlinesOf(sql, tenant_id, rules)])
}

/** Selects the deadlines of jobs and deliveries as `at`, without those that are due by the real time. */
export function waitingWorkOf(sql: Sql | Tx, tenant_id: Fragment): Fragment {
  return unionAll(sql, [
    sql`select j.run_at as at from jobs j where ${isWaitingJob(sql, tenant_id)}`,
    sql`select w.due_at from webhook_due w where w.tenant_id = ${tenant_id} and w.due_at > now()`,
  ])
}

/** Selects the deadlines of payments and verifications as `at`. Reads all that are open. */
export function resourceDeadlinesOf(sql: Sql | Tx, tenant_id: Fragment, rules: DeadlineRules): Fragment {
  const held = sql`from ${waitingPaymentsOf(sql, tenant_id, 'authorized')} where p.capture_before is not null`
  const hold_expires_at = holdExpiresAt(sql, rules.processor_follows)
  return unionAll(sql, [
    sql`select ${hold_expires_at} as at ${held}`,
    sql`select ${hold_expires_at} - ${WARNING_PERIOD}::interval ${held} and ${isUnwarned(sql)}`,
    sql`
      select ${abandonedPaymentAt(sql, rules.action_ttl_s)} from ${waitingPaymentsOf(sql, tenant_id, 'requires_action')}
      where ${waitsForBuyer(sql)}`,
    sql`
      select ${abandonedVerificationAt(sql, rules.verification_ttl_days)} from ${waitingVerificationsOf(sql, tenant_id)}
      where ${waitsForPerson(sql)}`,
  ])
}

/** Whether the job `j` of the tenant waits for its due time. A parked job waits for an operator. */
export function isWaitingJob(sql: Sql | Tx, tenant_id: Fragment): Fragment {
  return sql`
    j.tenant_id = ${tenant_id} and j.queue = any(${[...QUEUES]}::text[]) and j.finished_at is null
    and j.state <> 'running' and j.run_at > now() and j.run_at < 'infinity'`
}
