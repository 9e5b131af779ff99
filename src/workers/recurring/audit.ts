// The recurring audit: checks what changed since the last one, by one worker at a time. It reports what it finds and
// changes nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Json, Sql } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import {
  auditChanges,
  auditEverything,
  CHECK_NAMES,
  countsOf,
  type AuditReport,
} from '#domain/audit/audit.ts'
import type { Problem } from '#domain/audit/checks.ts'
import { AUDITED_NOUNS, CHECKS_OF_A_TIME } from '#domain/audit/index.ts'
import { FOUND_AT_ANY_TIME } from '#domain/audit/notifications.ts'
import { endRun, findLastRun, inRun, renewRun, RUN_LEASE_S, type Run } from '#domain/jobs/recurring.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const NAME = 'audit'
const LOOK_MS = 10_000
const PATIENCE_MS = 1_000
/** A check that takes longer is stopped and reported as unfinished: an audit must not bring the database down. */
const TIMEOUT_MS = 60_000
/** At most this many rows with problems are kept, to be audited again each time until they are in order. */
const MOST_KEPT = 1000
const MOST_LOGGED = 20
/** Checks that are limited to a time and name no row: an audit of a later time does not find their problems again. */
const PAST_CHECKS = new Set([...Object.keys(CHECKS_OF_A_TIME), 'notifications'])

const key = z.object({ tenant_id: z.string(), subject: z.enum(AUDITED_NOUNS), subject_id: z.string() })
const auditPosition = z.object({ since: z.string().nullable(), again: z.array(key) })
const resultSchema = z.object({
  problems: z.record(z.string(), z.number()),
  unfinished: z.array(z.string()),
})

/**
 * Audits every `every_s` seconds: everything the first time, later what changed and what was wrong before. A worker
 * that stops does not wait for its audit; another worker continues it.
 */
export function audits(context: WorkerContext, every_s: number): Loop {
  const { sql, log } = context
  const loop = every(
    log,
    'audit',
    () => Math.min(LOOK_MS, every_s * 1000),
    async () => {
      await measure(sql)
      await inRun(sql, NAME, audit, { first_after_s: every_s })
    },
  )

  async function audit(run: Run): Promise<void> {
    const { since, again } = auditPosition.safeParse(run.position).data ?? { since: null, again: [] }
    const options = { timeout_ms: TIMEOUT_MS }
    let position = { since, again }
    // Another worker continues here if this one ends.
    const reached = async (time: string, found: AuditReport) => {
      const wrong = rowsOf(lostLater(found))
      const past = Date.parse(time) < Date.parse(run.started_at) ? time : run.started_at
      position = { since: isWhole(found) ? past : position.since, again: wrong.slice(0, MOST_KEPT) }
      run.position = position
      await renewRun(sql, run, position)
    }
    const report = await whileKept(sql, run, () =>
      since === null
        ? auditEverything(sql, options)
        : auditChanges(sql, since, again, { ...options, reached }),
    )
    const unfinished = unfinishedOf(report)
    position = {
      since: isWhole(report) || since === null ? run.started_at : position.since,
      again: rowsOf(lostLater(report)).slice(0, MOST_KEPT),
    }
    const result: Json = {
      problems: countsOf(report),
      unfinished,
      rows: report.problems.slice(0, MOST_KEPT),
    }
    // When the run was lost, the worker that has it now will report the same.
    if (!(await endRun(sql, run, { position, result, next_s: every_s }))) return
    raise(context, report, unfinished)
    await measure(sql)
  }

  return {
    async close() {
      await Promise.race([loop.close(), sleep(PATIENCE_MS, undefined, { ref: false })])
    },
  }
}

/**
 * Whether the next audit may begin after the time that this one covered: not when something is unfinished or would be
 * missed then.
 */
function isWhole(report: AuditReport): boolean {
  const problems = lostLater(report)
  return (
    unfinishedOf(report).length === 0 &&
    rowsOf(problems).length <= MOST_KEPT &&
    !problems.some(({ check }) => PAST_CHECKS.has(check))
  )
}

/** The problems that an audit of a later time would not find by itself. */
function lostLater({ problems }: AuditReport): Problem[] {
  return problems.filter(({ problem }) => !FOUND_AT_ANY_TIME.has(problem))
}

function unfinishedOf({ checks }: AuditReport): string[] {
  return checks.filter((each) => each.unfinished).map(({ check }) => check)
}

async function whileKept<T>(sql: Sql, run: Run, work: () => Promise<T>): Promise<T> {
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

/** Sets the gauges from the result of the last audit, whichever worker made it. */
async function measure(sql: Sql): Promise<void> {
  const last = await findLastRun(sql, NAME)
  const result = resultSchema.safeParse(last?.result).data
  if (last === undefined || result === undefined) return
  metrics.auditAge.set(last.age_s)
  for (const check of CHECK_NAMES) {
    metrics.auditProblems.set({ check }, result.problems[check] ?? 0)
    metrics.auditUnfinished.set({ check }, result.unfinished.includes(check) ? 1 : 0)
  }
}

function raise({ log }: WorkerContext, { problems, checks }: AuditReport, unfinished: string[]): void {
  for (const problem of problems.slice(0, MOST_LOGGED)) log.error({ ...problem }, `audit: ${problem.problem}`)
  if (problems.length > 0)
    log.error(
      { event: 'audit.failed', problems: problems.length },
      'the audit found problems: `npm run audit` names every row',
    )
  if (unfinished.length > 0) log.warn({ unfinished }, 'checks of the audit took too long and have no result')
  else log.info({ checks }, 'audited')
}

function rowsOf(problems: Problem[]): z.output<typeof key>[] {
  const named = problems.flatMap((problem) => key.safeParse(problem).data ?? [])
  return [...new Map(named.map((row) => [row.subject_id, row])).values()]
}
