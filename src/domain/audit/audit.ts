// The audit: whether the invariants hold, of everything there is or of what changed since; it only reads.
import { databaseCode, type Fragment, type Sql, type Tx } from '#core/db.ts'
import {
  CHECKS_OF_PAYMENTS,
  CHECKS_OF_THE_WHOLE,
  firstIdAt,
  type CheckName,
  type Limits,
  type Problem,
} from './checks.ts'
import { everything, ofPayments, type PaymentKey, type Scope } from './scope.ts'

export type AuditReport = {
  /** At most `MOST_ROWS` of each check. */
  problems: Problem[]
  checks: CheckResult[]
}

type CheckResult = {
  check: CheckName
  problems: number
  duration_ms: number
  /** It took longer than it may and says nothing. */
  unfinished: boolean
}

export type AuditOptions = {
  /** 600 unless told. */
  stuck_after_s?: number
  /** For each check; 600,000 unless told. */
  timeout_ms?: number
}

export const CHECK_NAMES = [
  ...Object.keys(CHECKS_OF_PAYMENTS),
  ...Object.keys(CHECKS_OF_THE_WHOLE),
] as CheckName[]

const STUCK_AFTER_S = 600
const TIMEOUT_MS = 600_000
const MOST_ROWS = 1000
/** Payments looked at in one go where only those that changed are. */
const PAYMENTS_AT_ONCE = 5_000

/** Audits every row, all checks in one snapshot, so that work under way contradicts nothing. */
export async function auditEverything(sql: Sql, options: AuditOptions = {}): Promise<AuditReport> {
  const limits = { stuck_after_s: options.stuck_after_s ?? STUCK_AFTER_S, since: null }
  return await inSnapshot(sql, options, (tx) =>
    look(tx, { ...CHECKS_OF_PAYMENTS, ...CHECKS_OF_THE_WHOLE }, everything(tx), limits),
  )
}

/**
 * Audits the payments of which something was told or posted since (ISO 8601), those named in `again`, and what belongs
 * to no payment. Costs what changed, and the sum of the ledger for its balances.
 */
export async function auditChanges(
  sql: Sql,
  since: string,
  again: PaymentKey[],
  options: AuditOptions = {},
): Promise<AuditReport> {
  const limits = { stuck_after_s: options.stuck_after_s ?? STUCK_AFTER_S, since }
  const changed = await inSnapshot(sql, options, (tx) => findChanged(tx, since))
  // Each once: a payment that is asked for twice would count its refunds twice.
  const keys = [...new Map([...again, ...changed].map((each) => [each.payment_id, each])).values()]
  const reports = [
    await inSnapshot(sql, options, (tx) => look(tx, CHECKS_OF_THE_WHOLE, everything(tx), limits)),
  ]
  for (let start = 0; start < keys.length || start === 0; start += PAYMENTS_AT_ONCE) {
    const some = keys.slice(start, start + PAYMENTS_AT_ONCE)
    reports.push(
      await inSnapshot(sql, options, (tx) => look(tx, CHECKS_OF_PAYMENTS, ofPayments(tx, some), limits)),
    )
  }
  return merged(reports)
}

/** How many problems each check has, also those that have none. */
export function countsOf(report: AuditReport): Record<string, number> {
  return Object.fromEntries(report.checks.map(({ check, problems }) => [check, problems]))
}

type Checks = Partial<Record<CheckName, (sql: Tx, scope: Scope, limits: Limits) => Fragment>>

async function look(tx: Tx, checks: Checks, scope: Scope, limits: Limits): Promise<AuditReport> {
  const report: AuditReport = { problems: [], checks: [] }
  for (const [name, rowsOf] of Object.entries(checks)) {
    const check = name as CheckName
    const started = performance.now()
    const rows = await inTime(
      tx,
      (step) =>
        step<Problem[]>`
        select ${check} as "check", found.* from (${rowsOf(step, scope, limits)}) found limit ${MOST_ROWS}`,
    )
    report.problems.push(...(rows ?? []))
    report.checks.push({
      check,
      problems: rows?.length ?? 0,
      duration_ms: Math.round(performance.now() - started),
      unfinished: rows === undefined,
    })
  }
  return report
}

// Undefined when it takes too long; what is read before and after is not lost with it.
async function inTime<T>(tx: Tx, ask: (step: Tx) => Promise<T>): Promise<T | undefined> {
  try {
    return (await tx.savepoint(ask)) as T
  } catch (error) {
    if (databaseCode(error) === '57014') return undefined
    throw error
  }
}

// The settings of a connection are for keyed look-ups; an audit reads tables from end to end.
async function inSnapshot<T>(
  sql: Sql,
  { timeout_ms = TIMEOUT_MS }: AuditOptions,
  ask: (tx: Tx) => Promise<T>,
) {
  return (await sql.begin('isolation level repeatable read read only', async (tx) => {
    await tx`
      select set_config('statement_timeout', ${String(timeout_ms)}, true), set_config('plan_cache_mode', 'force_custom_plan', true),
        set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`
    return await ask(tx)
  })) as T
}

// By ids, which are in the order of time and begin an index; each state change has its event, each movement its posting.
async function findChanged(tx: Tx, since: string): Promise<PaymentKey[]> {
  const first = firstIdAt(since)
  return await tx<PaymentKey[]>`
    with touched as (
      select t.id as tenant_id, e.subject_id from tenants t
      cross join lateral (select e.subject_id from events e where e.tenant_id = t.id and e.id >= ${first}) e
      union
      select t.id, l.subject_id from tenants t
      cross join lateral (
        select l.subject_id from ledger_transactions l where l.tenant_id = t.id and l.id >= ${first}) l
    )
    select p.tenant_id, p.id as payment_id from touched join payments p on p.tenant_id = touched.tenant_id and p.id = touched.subject_id
    union
    select r.tenant_id, r.payment_id from touched join refunds r on r.tenant_id = touched.tenant_id and r.id = touched.subject_id`
}

function merged(reports: AuditReport[]): AuditReport {
  const checks = new Map<CheckName, CheckResult>()
  for (const each of reports.flatMap((report) => report.checks)) {
    const before = checks.get(each.check)
    checks.set(each.check, {
      check: each.check,
      problems: each.problems + (before?.problems ?? 0),
      duration_ms: each.duration_ms + (before?.duration_ms ?? 0),
      unfinished: each.unfinished || before?.unfinished === true,
    })
  }
  return { problems: reports.flatMap((report) => report.problems), checks: [...checks.values()] }
}
