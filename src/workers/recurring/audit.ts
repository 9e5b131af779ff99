// The recurring audit: one worker at a time checks the changes since the last audit. It reports problems and changes
// nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Json, Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import {
  AuditStopped,
  auditChanges,
  auditEverything,
  CHECK_NAMES,
  countsOf,
  type AuditReport,
} from '#domain/audit/audit.ts'
import type { Problem } from '#domain/audit/checks.ts'
import { AUDITED_RESOURCES, PERIOD_CHECKS } from '#domain/audit/index.ts'
import { REPORTED_BY_EVERY_AUDIT } from '#domain/audit/notifications.ts'
import { endRun, findLastRun, runIfDue, renewRun, RUN_LEASE_S, type Run } from '#domain/jobs/recurring.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from '../clock.ts'

const NAME = 'audit'
const POLL_INTERVAL_MS = 10_000
const CLOSE_TIMEOUT_MS = 1_000
/**
 * A check that takes longer is stopped and reported as unfinished: an audit must not overload the database, and no
 * process holds a snapshot for more than 30 s.
 */
const CHECK_TIMEOUT_MS = 25_000
/**
 * The maximum number of stored rows with problems. Every audit checks the stored rows again until their problems are
 * solved.
 */
const MAX_STORED_ROWS = 1000
const MAX_LOGGED_PROBLEMS = 20
/**
 * Checks that cover a time range and whose problems name no row: an audit of a later range would not find these
 * problems again.
 */
const PAST_CHECKS = new Set([...Object.keys(PERIOD_CHECKS), 'notifications'])

const key = z.object({ tenant_id: z.string(), resource: z.enum(AUDITED_RESOURCES), resource_id: z.string() })
const auditPosition = z.object({ since: z.string().nullable(), again: z.array(key) })
const resultSchema = z.object({
  problems: z.record(z.string(), z.number()),
  unfinished: z.array(z.string()),
})

/**
 * Audits every `every_s` seconds: everything in the first audit, later the changes and the rows with earlier problems.
 * A worker that stops does not wait for its audit; another worker continues it.
 */
export function startAudits(context: WorkerContext, every_s: number): Loop {
  const { sql } = context
  const loop = repeatWhileCurrent(
    context,
    'audit',
    context.idleness.interval(Math.min(POLL_INTERVAL_MS, every_s * 1000)),
    async (mustEnd) => {
      await setGauges(sql)
      await runIfDue(sql, NAME, (run) => audit(run, mustEnd), { first_after_s: every_s })
    },
  )

  async function audit(run: Run, mustEnd: MustEnd): Promise<void> {
    const { since, again } = auditPosition.safeParse(run.position).data ?? { since: null, again: [] }
    const options = { timeout_ms: CHECK_TIMEOUT_MS, mustStop: mustEnd }
    let position = { since, again }
    // Stores the position that the audit has reached: if this worker stops, another worker continues there.
    const onProgress = async (time: string, found: AuditReport) => {
      const problem_rows = rowsOf(problemsOfThisRangeOnly(found))
      const covered_until = Date.parse(time) < Date.parse(run.started_at) ? time : run.started_at
      position = {
        since: isComplete(found) ? covered_until : position.since,
        again: problem_rows.slice(0, MAX_STORED_ROWS),
      }
      run.position = position
      await renewRun(sql, run, position)
    }
    const report = await whileRenewed(sql, run, () =>
      since === null
        ? auditEverything(sql, options)
        : auditChanges(sql, since, again, { ...options, onProgress }),
    ).catch((error: unknown) => {
      if (error instanceof AuditStopped) return undefined
      throw error
    })
    // When the lease of the run lapses, another worker continues at the stored position.
    if (report === undefined) return
    const unfinished = unfinishedOf(report)
    position = {
      since: isComplete(report) || since === null ? run.started_at : position.since,
      again: rowsOf(problemsOfThisRangeOnly(report)).slice(0, MAX_STORED_ROWS),
    }
    const result: Json = {
      problems: countsOf(report),
      unfinished,
      rows: report.problems.slice(0, MAX_STORED_ROWS),
    }
    // If the lease of the run was lost, the worker with the lease reports instead.
    if (!(await endRun(sql, run, { position, result, next_s: every_s }))) return
    logReport(context, report, unfinished)
    await setGauges(sql)
  }

  return {
    async close() {
      await Promise.race([loop.close(), sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    },
  }
}

/**
 * Whether the next audit may begin where the range of this audit ended. False if a check is unfinished, or if the next
 * audit would miss a problem.
 */
function isComplete(report: AuditReport): boolean {
  const problems = problemsOfThisRangeOnly(report)
  return (
    unfinishedOf(report).length === 0 &&
    rowsOf(problems).length <= MAX_STORED_ROWS &&
    !problems.some(({ check }) => PAST_CHECKS.has(check))
  )
}

/** The problems that an audit of a later range would not find. */
function problemsOfThisRangeOnly({ problems }: AuditReport): Problem[] {
  return problems.filter(({ problem }) => !REPORTED_BY_EVERY_AUDIT.has(problem))
}

function unfinishedOf({ checks }: AuditReport): string[] {
  return checks.filter((each) => each.unfinished).map(({ check }) => check)
}

async function whileRenewed<T>(sql: Sql, run: Run, work: () => Promise<T>): Promise<T> {
  const renewal = setInterval(
    () => void renewRun(sql, run, run.position).catch(() => {}),
    (RUN_LEASE_S * 1000) / 3,
  ).unref()
  try {
    return await work()
  } finally {
    clearInterval(renewal)
  }
}

/** Sets the gauges from the last audit of any worker. */
async function setGauges(sql: Sql): Promise<void> {
  const last = await findLastRun(sql, NAME)
  const result = resultSchema.safeParse(last?.result).data
  if (last === undefined || result === undefined) return
  metrics.auditAge.set(last.age_s)
  for (const check of CHECK_NAMES) {
    metrics.auditProblems.set({ check }, result.problems[check] ?? 0)
    metrics.auditUnfinished.set({ check }, result.unfinished.includes(check) ? 1 : 0)
  }
}

function logReport({ log }: WorkerContext, { problems, checks }: AuditReport, unfinished: string[]): void {
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS))
    log.error({ ...problem }, `audit: ${problem.problem}`)
  if (problems.length > 0)
    log.error(
      { event: 'audit.failed', problems: problems.length },
      'the audit found problems: run `npm run audit` to list every row',
    )
  if (unfinished.length > 0) log.warn({ unfinished }, 'checks of the audit timed out and have no result')
  else log.info({ checks }, 'audited')
}

function rowsOf(problems: Problem[]): z.output<typeof key>[] {
  const keys = problems.flatMap((problem) => key.safeParse(problem).data ?? [])
  return [...new Map(keys.map((row) => [row.resource_id, row])).values()]
}
