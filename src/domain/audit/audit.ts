// The audit checks invariants of live tenants: of all rows, or of the rows that changed since a given time. It only
// reads. Data of test mode is dropped in parts, and concerns no operator.
import { isStatementTimeout, unionAll, type Sql, type Tx } from '#core/db.ts'
import { limitAnswers } from '#core/postgres/transactions.ts'
import { isOfMode } from '../modes.ts'
import { findStage, type Cursor } from '../reconciliation/lookups.ts'
import { RESOURCE_NAMES, rootIdColumn, rootOf, resourceOf, type ResourceKey } from '../resources.ts'
import type { AuditScope, Checks, Limits, Problem } from './checks.ts'
import {
  AUDITED_RESOURCES,
  CHECKS,
  TENANT_CHECKS,
  PERIOD_CHECKS,
  OPEN_CHECKS,
  IN_FLIGHT_CHECKS,
  checksOfRows,
} from './index.ts'
import { fullScope, rowsScope, tenantScope, inFlightScope } from './scope.ts'

export type AuditReport = {
  /** At most `MAX_PROBLEMS` of each check. */
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
  /** Default: 600. */
  stuck_after_s?: number
  /** The time limit of each check, which has a transaction of its own. Default: 600,000. */
  timeout_ms?: number
  /** Asked before each step: whether the audit ends there and throws `AuditStopped`. Default: it never does. */
  mustStop?: () => boolean
}

export class AuditStopped extends Error {
  override name = 'AuditStopped'
}

export const CHECK_NAMES = Object.keys(CHECKS)

const STUCK_AFTER_S = 600
const TIMEOUT_MS = 600_000
/** The time that a transaction has besides its check. */
const TRANSACTION_MARGIN_MS = 5_000
const MAX_PROBLEMS = 1000
/** The number of rows audited together, and about the maximum number of events in a step. */
const BATCH_SIZE = 5_000
/** The maximum clock difference between processes that create ids. */
const MAX_CLOCK_SKEW_MS = 600_000
const INITIAL_STEP_MS = 60_000
const MIN_STEP_MS = 1_000

/**
 * Audits every row. Each check is one statement, so it sees one snapshot in which work in progress is
 * consistent. Checks do not share a snapshot: a long snapshot keeps the database from vacuuming.
 */
export async function auditEverything(sql: Sql, options: AuditOptions = {}): Promise<AuditReport> {
  return mergeReports(await runInSnapshots(sql, options, CHECKS, fullScope(sql), limitsOf(options)))
}

export type ChangesOptions = AuditOptions & {
  /** Called after each step with the time up to which all rows are audited, and the report so far. */
  onProgress?: (period: string, report: AuditReport) => Promise<void>
}

/**
 * Audits the rows that had an event or a transfer since a given time (ISO 8601), the rows in `recheck`, and
 * everything that belongs to no single row. It works in steps of a few thousand rows, each with its own
 * snapshot: first balances and open work, then the events since that time.
 */
export async function auditChanges(
  sql: Sql,
  since: string,
  recheck: ResourceKey[],
  options: ChangesOptions = {},
): Promise<AuditReport> {
  const limits = { ...limitsOf(options), since }
  const reports = [
    ...(await auditRows(sql, recheck, options)),
    ...(await auditTenants(sql, options)),
    ...(await auditInFlight(sql, options)),
    ...(await runInSnapshots(sql, options, OPEN_CHECKS, fullScope(sql), limits)),
  ]
  // Rows that were audited above, or that had a problem in an earlier step, are not audited again.
  const reported = new Set<string | null>(recheck.map(({ resource_id }) => resource_id))
  const end_ms = Date.now() + 3 * MAX_CLOCK_SKEW_MS
  let step_ms = INITIAL_STEP_MS
  for (let from_ms = Date.parse(since) - MAX_CLOCK_SKEW_MS; from_ms < end_ms;) {
    const until_ms = Math.min(from_ms + step_ms, end_ms)
    const period = { since: new Date(from_ms).toISOString(), until: new Date(until_ms).toISOString() }
    const changed = await inSnapshot(sql, options, async (tx) =>
      step_ms > MIN_STEP_MS && (await exceedsBatch(tx, period)) ? null : await findChanged(tx, period),
    )
    if (changed === null) {
      step_ms = Math.max(MIN_STEP_MS, step_ms / 4)
      continue
    }
    const unreported = changed.filter(({ resource_id }) => !reported.has(resource_id))
    reports.push(...(await auditRows(sql, unreported, options)))
    reports.push(
      ...(await runInSnapshots(sql, options, PERIOD_CHECKS, fullScope(sql), { ...limits, ...period })),
    )
    from_ms = until_ms
    if (changed.length < BATCH_SIZE / 8) step_ms *= 4
    const found = mergeReports(reports)
    reports.splice(0, reports.length, found)
    for (const { resource_id } of found.problems) reported.add(resource_id)
    await options.onProgress?.(period.until, found)
  }
  return mergeReports(reports)
}

function limitsOf({ stuck_after_s = STUCK_AFTER_S }: AuditOptions): Limits {
  return { stuck_after_s, since: null, until: null }
}

async function auditRows(sql: Sql, keys: ResourceKey[], options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const [resource, rows] of Map.groupBy(keys, ({ resource }) => resource))
    for (let start = 0; start < rows.length; start += BATCH_SIZE) {
      const scope = rowsScope(sql, resource, rows.slice(start, start + BATCH_SIZE))
      reports.push(...(await runInSnapshots(sql, options, checksOfRows(resource), scope, limitsOf(options))))
    }
  return reports
}

/** Runs the checks by tenant, such as the checks of accounts, one tenant after the other. */
async function auditTenants(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const { id } of await sql<{ id: string }[]>`select id from tenants where mode = 'live'`)
    reports.push(
      ...(await runInSnapshots(sql, options, TENANT_CHECKS, tenantScope(sql, id), limitsOf(options))),
    )
  return reports
}

/** Audits the rows in progress, in batches by tenant and creation time. */
async function auditInFlight(sql: Sql, options: AuditOptions): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const resource of RESOURCE_NAMES) {
    const { table, under_way } = resourceOf(resource)
    if (under_way === undefined) continue
    const open = sql`${sql(table)} p where ${under_way.open(sql)}`
    let cursor: Cursor = null
    do {
      const stage = await findStage(sql, open, cursor)
      const scope = inFlightScope(sql, resource, sql`(select p.* from ${open} and ${stage.within} offset 0)`)
      reports.push(...(await runInSnapshots(sql, options, IN_FLIGHT_CHECKS, scope, limitsOf(options))))
      cursor = stage.cursor
    } while (cursor !== null)
  }
  return reports
}

/** The number of problems by check, including checks without problems. */
export function countsOf(report: AuditReport): Record<string, number> {
  return Object.fromEntries(report.checks.map(({ check, problems }) => [check, problems]))
}

/** Runs each check in its own snapshot. */
async function runInSnapshots(
  sql: Sql,
  options: AuditOptions,
  checks: Checks,
  scope: AuditScope,
  limits: Limits,
): Promise<AuditReport[]> {
  const reports: AuditReport[] = []
  for (const [check, rowsOf] of Object.entries(checks)) {
    const started = performance.now()
    const query = async (tx: Tx) => [
      ...(await tx<Problem[]>`
        select ${check} as "check", found.* from (${rowsOf(tx, scope, limits)}) found
        where ${isOfMode(tx, tx`found.tenant_id`, true)} limit ${MAX_PROBLEMS}`),
    ]
    const problems = await unlessTimeout(inSnapshot(sql, options, query))
    const duration_ms = Math.round(performance.now() - started)
    const result = { check, problems: problems?.length ?? 0, duration_ms, unfinished: problems === undefined }
    reports.push({ problems: problems ?? [], checks: [result] })
  }
  return reports
}

/** Resolves with undefined after a timeout of the statement. */
async function unlessTimeout<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result
  } catch (error) {
    if (isStatementTimeout(error)) return undefined
    throw error
  }
}

/**
 * Connections are configured for short reads by key. An audit reads whole tables, so it changes those settings. A new
 * limit of the transaction takes effect only after the previous one was removed.
 */
async function inSnapshot<T>(
  sql: Sql,
  { timeout_ms = TIMEOUT_MS, mustStop = () => false }: AuditOptions,
  query: (tx: Tx) => Promise<T>,
) {
  if (mustStop()) throw new AuditStopped()
  const transaction_timeout_ms = timeout_ms === 0 ? 0 : timeout_ms + TRANSACTION_MARGIN_MS
  return (await sql.begin('isolation level repeatable read read only', async (tx) => {
    await tx`
      select set_config('statement_timeout', ${String(timeout_ms)}, true),
        set_config('transaction_timeout', '0', true),
        set_config('transaction_timeout', ${String(transaction_timeout_ms)}, true),
        set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true),
        set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`
    limitAnswers(tx, transaction_timeout_ms === 0 ? Infinity : transaction_timeout_ms + TRANSACTION_MARGIN_MS)
    return await query(tx)
  })) as T
}

type Period = { since: string; until: string }

/** Whether this period has more events than one step handles. */
async function exceedsBatch(tx: Tx, { since, until }: Period): Promise<boolean> {
  const events = await tx`
    select from events e where e.created_at >= ${since} and e.created_at < ${until} limit ${BATCH_SIZE + 1}`
  return events.count > BATCH_SIZE
}

/** The rows that changed in this period: every change of state has an event, every movement of money a transfer. */
async function findChanged(tx: Tx, { since, until }: Period): Promise<ResourceKey[]> {
  const rows = RESOURCE_NAMES.filter((resource) => AUDITED_RESOURCES.includes(rootOf(resource))).map(
    (resource) => tx`
      select r.tenant_id, ${rootOf(resource)}::text as resource, ${tx(`r.${rootIdColumn(resource)}`)} as resource_id
        from touched
      join ${tx(resourceOf(resource).table)} r on r.tenant_id = touched.tenant_id and r.id = touched.subject_id`,
  )
  return await tx<ResourceKey[]>`
    with touched as (
      select * from (
        select e.tenant_id, e.subject_id from events e where e.created_at >= ${since} and e.created_at < ${until}
        union
        select t.tenant_id, t.subject_id from ledger_transfers t
        where t.created_at >= ${since} and t.created_at < ${until}
      ) any_mode
      where ${isOfMode(tx, tx`any_mode.tenant_id`, true)}
    )
    select distinct * from (${unionAll(tx, rows)}) changed`
}

/** Merges reports into one. The result names every check, even checks that had no rows. */
function mergeReports(reports: AuditReport[]): AuditReport {
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
