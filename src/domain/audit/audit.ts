// The audit: whether the invariants hold, of everything there is or of what changed since; it only reads.
import { databaseCode, type Sql, type Tx } from '#core/db.ts'
import { findStage, type Cursor } from '../reconciliation/looks.ts'
import { partsOf, PROVIDER_NOUNS, SUBJECTS } from '../subjects.ts'
import type { AuditScope, Checks, Limits, Problem } from './checks.ts'
import {
  CHECKS,
  CHECKS_IN_PARTS,
  CHECKS_OF_A_TIME,
  CHECKS_OF_PAYMENTS,
  CHECKS_OF_WHAT_IS_OPEN,
} from './index.ts'
import { accountsOf, everything, ofPayments, underWay, type PaymentKey } from './scope.ts'

export type AuditReport = {
  /** At most `MOST_ROWS` of each check. */
  problems: Problem[]
  checks: CheckResult[]
}

type CheckResult = {
  check: string
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

export const CHECK_NAMES = Object.keys(CHECKS)

const STUCK_AFTER_S = 600
const TIMEOUT_MS = 600_000
const MOST_ROWS = 1000
/** Payments looked at in one go where only those that changed are, and about the most events of a step. */
const PAYMENTS_AT_ONCE = 5_000
/** The clocks that make ids may be this far apart. */
const CLOCKS_APART_MS = 600_000
const STEP_MS = 60_000
const LEAST_STEP_MS = 1_000

/**
 * Audits every row. Each check is one statement and so sees one snapshot: work under way contradicts nothing. None holds the snapshot
 * of another, which would keep the database from cleaning up for as long as all of them take.
 */
export async function auditEverything(sql: Sql, options: AuditOptions = {}): Promise<AuditReport> {
  return merged(await inTurn(sql, options, CHECKS, everything(sql), limitsOf(options)))
}

export type ChangesOptions = AuditOptions & {
  /** Told after each step to what time all was audited, and what was found till then. */
  reached?: (time: string, report: AuditReport) => Promise<void>
}

/**
 * Audits the payments of which something was told or posted since (ISO 8601), those named in `again`, and what belongs
 * to no payment. Goes in steps, each in a snapshot of its own and none longer than some thousand rows take: what is open and the
 * balances first, then the time since, bit by bit.
 */
export async function auditChanges(
  sql: Sql,
  since: string,
  again: PaymentKey[],
  options: ChangesOptions = {},
): Promise<AuditReport> {
  const limits = { ...limitsOf(options), since }
  const reports = [
    ...(await auditPayments(sql, again, options)),
    ...(await auditAccounts(sql, options)),
    ...(await auditWhatIsUnderWay(sql, options)),
    ...(await inTurn(sql, options, CHECKS_OF_WHAT_IS_OPEN, everything(sql), limits)),
  ]
  // What is wrong is told once.
  const reported = new Set<string | null>(again.map(({ payment_id }) => payment_id))
  const end_ms = Date.now() + 3 * CLOCKS_APART_MS
  let step_ms = STEP_MS
  for (let from_ms = Date.parse(since) - CLOCKS_APART_MS; from_ms < end_ms;) {
    const until_ms = Math.min(from_ms + step_ms, end_ms)
    const time = { since: new Date(from_ms).toISOString(), until: new Date(until_ms).toISOString() }
    const changed = await inSnapshot(sql, options, async (tx) =>
      step_ms > LEAST_STEP_MS && (await areMany(tx, time)) ? null : await findChanged(tx, time),
    )
    if (changed === null) {
      step_ms = Math.max(LEAST_STEP_MS, step_ms / 4)
      continue
    }
    const fresh = changed.filter(({ payment_id }) => !reported.has(payment_id))
    reports.push(...(await auditPayments(sql, fresh, options)))
    reports.push(...(await inTurn(sql, options, CHECKS_OF_A_TIME, everything(sql), { ...limits, ...time })))
    from_ms = until_ms
    if (changed.length < PAYMENTS_AT_ONCE / 8) step_ms *= 4
    const found = merged(reports)
    reports.splice(0, reports.length, found)
    for (const { payment_id } of found.problems) reported.add(payment_id)
    await options.reached?.(time.until, found)
  }
  return merged(reports)
}

function limitsOf({ stuck_after_s = STUCK_AFTER_S }: AuditOptions): Limits {
  return { stuck_after_s, since: null, until: null }
}

async function auditPayments(sql: Sql, keys: PaymentKey[], options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (let start = 0; start < keys.length; start += PAYMENTS_AT_ONCE) {
    const scope = ofPayments(sql, keys.slice(start, start + PAYMENTS_AT_ONCE))
    reports.push(
      await inSnapshot(sql, options, (tx) => look(tx, CHECKS_OF_PAYMENTS, scope, limitsOf(options))),
    )
  }
  return reports
}

/** Tenant by tenant. */
async function auditAccounts(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const { balances } = CHECKS_IN_PARTS
  const reports: AuditReport[] = []
  for (const { id } of await sql<{ id: string }[]>`select id from tenants`)
    reports.push(...(await inTurn(sql, options, { balances }, accountsOf(sql, id), limitsOf(options))))
  return reports
}

/** What is open, walked through. */
async function auditWhatIsUnderWay(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const { in_flight } = CHECKS_IN_PARTS
  const reports: AuditReport[] = []
  for (const noun of PROVIDER_NOUNS) {
    const { table, at_provider } = SUBJECTS[noun]
    let cursor: Cursor = null
    do {
      const stage = await findStage(sql, sql`${sql(table)} p where ${at_provider.open(sql)}`, cursor)
      const scope = underWay(sql, noun, stage.within)
      reports.push(...(await inTurn(sql, options, { in_flight }, scope, limitsOf(options))))
      cursor = stage.cursor
    } while (cursor !== null)
  }
  return reports
}

/** How many problems each check has, also those that have none. */
export function countsOf(report: AuditReport): Record<string, number> {
  return Object.fromEntries(report.checks.map(({ check, problems }) => [check, problems]))
}

/** Each check in a snapshot of its own. */
async function inTurn(
  sql: Sql,
  options: AuditOptions,
  checks: Checks,
  scope: AuditScope,
  limits: Limits,
): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const [name, check] of Object.entries(checks))
    reports.push(await inSnapshot(sql, options, (tx) => look(tx, { [name]: check }, scope, limits)))
  return reports
}

async function look(tx: Tx, checks: Checks, scope: AuditScope, limits: Limits): Promise<AuditReport> {
  const report: AuditReport = { problems: [], checks: [] }
  for (const [check, rowsOf] of Object.entries(checks)) {
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

type Time = { since: string; until: string }

/** Whether more was told in this time than a step is for. */
async function areMany(tx: Tx, { since, until }: Time): Promise<boolean> {
  const events = await tx`
    select from events e where e.created_at >= ${since} and e.created_at < ${until} limit ${PAYMENTS_AT_ONCE + 1}`
  return events.count > PAYMENTS_AT_ONCE
}

/** The payments that changed in this time: each state change has its event, each movement its transfer. */
async function findChanged(tx: Tx, { since, until }: Time): Promise<PaymentKey[]> {
  return await tx<PaymentKey[]>`
    with touched as (
      select e.tenant_id, e.subject_id from events e where e.created_at >= ${since} and e.created_at < ${until}
      union
      select t.tenant_id, t.subject_id from ledger_transfers t where t.created_at >= ${since} and t.created_at < ${until}
    )
    select p.tenant_id, p.id as payment_id from touched join payments p on p.tenant_id = touched.tenant_id and p.id = touched.subject_id
    ${partsOf('payment')
      .map(
        ({ table, by }) => tx`
    union
    select r.tenant_id, ${tx(`r.${by}`)} from touched join ${tx(table)} r on r.tenant_id = touched.tenant_id and r.id = touched.subject_id`,
      )
      .reduce((all, each) => tx`${all} ${each}`, tx``)}`
}

/** Every check is named, also where there was nothing to look at. */
function merged(reports: AuditReport[]): AuditReport {
  const checks = new Map<string, CheckResult>(
    CHECK_NAMES.map((check) => [check, { check, problems: 0, duration_ms: 0, unfinished: false }]),
  )
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
