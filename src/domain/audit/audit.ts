// The audit checks the invariants of all rows, or of those that changed since a time. It only reads.
import { databaseCode, unionAll, type Sql, type Tx } from '#core/db.ts'
import { findStage, type Cursor } from '../reconciliation/looks.ts'
import { NOUNS, filedBy, rootOf, subjectOf, type SubjectKey } from '../subjects.ts'
import type { AuditScope, Checks, Limits, Problem } from './checks.ts'
import {
  AUDITED_NOUNS,
  CHECKS,
  CHECKS_OF_A_TENANT,
  CHECKS_OF_A_TIME,
  CHECKS_OF_WHAT_IS_OPEN,
  CHECKS_OF_WHAT_IS_UNDER_WAY,
  checksOfRows,
} from './index.ts'
import { everything, ofRows, ofTenant, underWay } from './scope.ts'

export type AuditReport = {
  /** At most `MOST_ROWS` of each check. */
  problems: Problem[]
  checks: CheckResult[]
}

type CheckResult = {
  check: string
  problems: number
  duration_ms: number
  /** The check took too long and has no result. */
  unfinished: boolean
}

export type AuditOptions = {
  /** 600 by default. */
  stuck_after_s?: number
  /** For each check; 600,000 by default. */
  timeout_ms?: number
}

export const CHECK_NAMES = Object.keys(CHECKS)

const STUCK_AFTER_S = 600
const TIMEOUT_MS = 600_000
const MOST_ROWS = 1000
/** Changed rows that are audited together, and about the most events of a step. */
const ROWS_AT_ONCE = 5_000
/** The clocks of processes that create ids may differ by this much. */
const CLOCKS_APART_MS = 600_000
const STEP_MS = 60_000
const LEAST_STEP_MS = 1_000

/**
 * Audits every row. Each check is one statement and so sees one snapshot, in which work under way contradicts
 * nothing. Checks do not share a snapshot, because a long one would keep the database from cleaning up.
 */
export async function auditEverything(sql: Sql, options: AuditOptions = {}): Promise<AuditReport> {
  return merged(await inTurn(sql, options, CHECKS, everything(sql), limitsOf(options)))
}

export type ChangesOptions = AuditOptions & {
  /** Called after each step with the time up to which everything was audited, and what was found so far. */
  reached?: (time: string, report: AuditReport) => Promise<void>
}

/**
 * Audits the rows that had an event or a transfer since then (ISO 8601), the rows in `again`, and everything that
 * belongs to no row in particular. It goes in steps of some thousand rows, each with its own snapshot: first balances and
 * open work, then the time since.
 */
export async function auditChanges(
  sql: Sql,
  since: string,
  again: SubjectKey[],
  options: ChangesOptions = {},
): Promise<AuditReport> {
  const limits = { ...limitsOf(options), since }
  const reports = [
    ...(await auditRows(sql, again, options)),
    ...(await auditTenants(sql, options)),
    ...(await auditWhatIsUnderWay(sql, options)),
    ...(await inTurn(sql, options, CHECKS_OF_WHAT_IS_OPEN, everything(sql), limits)),
  ]
  // Each problem is reported once.
  const reported = new Set<string | null>(again.map(({ subject_id }) => subject_id))
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
    const fresh = changed.filter(({ subject_id }) => !reported.has(subject_id))
    reports.push(...(await auditRows(sql, fresh, options)))
    reports.push(...(await inTurn(sql, options, CHECKS_OF_A_TIME, everything(sql), { ...limits, ...time })))
    from_ms = until_ms
    if (changed.length < ROWS_AT_ONCE / 8) step_ms *= 4
    const found = merged(reports)
    reports.splice(0, reports.length, found)
    for (const { subject_id } of found.problems) reported.add(subject_id)
    await options.reached?.(time.until, found)
  }
  return merged(reports)
}

function limitsOf({ stuck_after_s = STUCK_AFTER_S }: AuditOptions): Limits {
  return { stuck_after_s, since: null, until: null }
}

async function auditRows(sql: Sql, keys: SubjectKey[], options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const [noun, rows] of Map.groupBy(keys, ({ subject }) => subject))
    for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
      const scope = ofRows(sql, noun, rows.slice(start, start + ROWS_AT_ONCE))
      reports.push(
        await inSnapshot(sql, options, (tx) => look(tx, checksOfRows(noun), scope, limitsOf(options))),
      )
    }
  return reports
}

/** Makes the checks by tenant, such as those of the accounts, tenant by tenant. */
async function auditTenants(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const { id } of await sql<{ id: string }[]>`select id from tenants`)
    reports.push(...(await inTurn(sql, options, CHECKS_OF_A_TENANT, ofTenant(sql, id), limitsOf(options))))
  return reports
}

/** Audits the rows that are under way, a part at a time. */
async function auditWhatIsUnderWay(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const noun of NOUNS) {
    const { table, under_way } = subjectOf(noun)
    if (under_way === undefined) continue
    const open = sql`${sql(table)} p where ${under_way.open(sql)}`
    let cursor: Cursor = null
    do {
      const stage = await findStage(sql, open, cursor)
      const scope = underWay(sql, noun, sql`(select p.* from ${open} and ${stage.within} offset 0)`)
      reports.push(...(await inTurn(sql, options, CHECKS_OF_WHAT_IS_UNDER_WAY, scope, limitsOf(options))))
      cursor = stage.cursor
    } while (cursor !== null)
  }
  return reports
}

/** How many problems each check has, including checks with none. */
export function countsOf(report: AuditReport): Record<string, number> {
  return Object.fromEntries(report.checks.map(({ check, problems }) => [check, problems]))
}

/** Makes each check in a snapshot of its own. */
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

// Undefined when it takes too long. The savepoint keeps the transaction usable then.
async function inTime<T>(tx: Tx, ask: (step: Tx) => Promise<T>): Promise<T | undefined> {
  try {
    return (await tx.savepoint(ask)) as T
  } catch (error) {
    if (databaseCode(error) === '57014') return undefined
    throw error
  }
}

// Our connections are set up for look-ups by key. An audit reads whole tables, so it changes those settings.
async function inSnapshot<T>(
  sql: Sql,
  { timeout_ms = TIMEOUT_MS }: AuditOptions,
  ask: (tx: Tx) => Promise<T>,
) {
  return (await sql.begin('isolation level repeatable read read only', async (tx) => {
    await tx`
      select set_config('statement_timeout', ${String(timeout_ms)}, true),
        set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true),
        set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`
    return await ask(tx)
  })) as T
}

type Time = { since: string; until: string }

/** Whether this time has more events than one step should handle. */
async function areMany(tx: Tx, { since, until }: Time): Promise<boolean> {
  const events = await tx`
    select from events e where e.created_at >= ${since} and e.created_at < ${until} limit ${ROWS_AT_ONCE + 1}`
  return events.count > ROWS_AT_ONCE
}

/** The rows that changed in this time: every change of state has an event, every movement of money a transfer. */
async function findChanged(tx: Tx, { since, until }: Time): Promise<SubjectKey[]> {
  const rows = NOUNS.filter((noun) => AUDITED_NOUNS.includes(rootOf(noun))).map(
    (noun) => tx`
      select r.tenant_id, ${rootOf(noun)}::text as subject, ${tx(`r.${filedBy(noun)}`)} as subject_id from touched
      join ${tx(subjectOf(noun).table)} r on r.tenant_id = touched.tenant_id and r.id = touched.subject_id`,
  )
  return await tx<SubjectKey[]>`
    with touched as (
      select e.tenant_id, e.subject_id from events e where e.created_at >= ${since} and e.created_at < ${until}
      union
      select t.tenant_id, t.subject_id from ledger_transfers t
      where t.created_at >= ${since} and t.created_at < ${until}
    )
    select distinct * from (${unionAll(tx, rows)}) changed`
}

/** One report of all. It names every check, even if there was nothing to audit. */
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
