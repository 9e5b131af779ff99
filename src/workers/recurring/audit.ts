// The audit in production: what changed since the last one, by one worker at a time; what it finds is raised, not mended.
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
import { FOUND_AT_ANY_TIME } from '#domain/audit/notifications.ts'
import { endTurn, findLastTurn, keepTurn, takeTurn, type Turn } from '#domain/jobs/recurring.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const NAME = 'audit'
const LOOK_MS = 10_000
/** Of a worker that dies in the middle, so long until another begins; renewed while it audits. */
const LEASE_S = 60
const PATIENCE_MS = 1_000
/** A check that takes longer says nothing and is reported so: an audit must not be what brings a database down. */
const TIMEOUT_MS = 60_000
/** Kept with the result, and looked at again by the next audit until they are mended. */
const MOST_KEPT = 1000
const MOST_LOGGED = 20
/** What they find belongs to no payment and is not found again where only what is new is looked at. */
const PAST_CHECKS = new Set<string>(['keys', 'notifications', 'tenants'])

const key = z.object({ tenant_id: z.string(), payment_id: z.string() })
const auditPosition = z.object({ since: z.string().nullable(), again: z.array(key) })
const resultSchema = z.object({
  problems: z.record(z.string(), z.number()),
  unfinished: z.array(z.string()),
})

/**
 * Audits every `every_s`: at first everything, later what changed and what was wrong the last time. A worker that stops
 * does not wait for it: the audit is begun anew by another.
 */
export function audits(context: WorkerContext, every_s: number): Loop {
  const { sql, log } = context
  const loop = every(
    log,
    'audit',
    () => Math.min(LOOK_MS, every_s * 1000),
    async () => {
      await measure(sql)
      const turn = await takeTurn(sql, NAME, { lease_s: LEASE_S, first_after_s: every_s })
      if (turn === undefined) return
      const { since, again } = auditPosition.safeParse(turn.position).data ?? { since: null, again: [] }
      const options = { timeout_ms: TIMEOUT_MS }
      let position = { since, again }
      // Whoever goes on if this worker ends begins there.
      const reached = async (time: string, found: AuditReport) => {
        const wrong = paymentsOf(lostLater(found))
        const past = Date.parse(time) < Date.parse(turn.started_at) ? time : turn.started_at
        position = { since: isWhole(found) ? past : position.since, again: wrong.slice(0, MOST_KEPT) }
        turn.position = position
        await keepTurn(sql, turn, position, LEASE_S)
      }
      const report = await whileKept(sql, turn, () =>
        since === null
          ? auditEverything(sql, options)
          : auditChanges(sql, since, again, { ...options, reached }),
      )
      const unfinished = unfinishedOf(report)
      position = {
        since: isWhole(report) || since === null ? turn.started_at : position.since,
        again: paymentsOf(lostLater(report)).slice(0, MOST_KEPT),
      }
      const result: Json = {
        problems: countsOf(report),
        unfinished,
        rows: report.problems.slice(0, MOST_KEPT),
      }
      // Whoever has the turn now finds the same.
      if (!(await endTurn(sql, turn, { position, result, next_s: every_s }))) return
      raise(context, report, unfinished)
      await measure(sql)
    },
  )
  return {
    async close() {
      await Promise.race([loop.close(), sleep(PATIENCE_MS, undefined, { ref: false })])
    },
  }
}

/** What could not be seen, is too much to name or belongs to no payment must be within the next audit too. */
function isWhole(report: AuditReport): boolean {
  const problems = lostLater(report)
  return (
    unfinishedOf(report).length === 0 &&
    paymentsOf(problems).length <= MOST_KEPT &&
    !problems.some(({ check }) => PAST_CHECKS.has(check))
  )
}

/** What an audit of a later time does not find by itself: for the rest no time need be gone through again. */
function lostLater({ problems }: AuditReport): Problem[] {
  return problems.filter(({ problem }) => !FOUND_AT_ANY_TIME.has(problem))
}

function unfinishedOf({ checks }: AuditReport): string[] {
  return checks.filter((each) => each.unfinished).map(({ check }) => check)
}

async function whileKept<T>(sql: Sql, turn: Turn, work: () => Promise<T>): Promise<T> {
  const renewal = setInterval(
    () => void keepTurn(sql, turn, turn.position, LEASE_S).catch(() => {}),
    (LEASE_S * 1000) / 3,
  ).unref()
  try {
    return await work()
  } finally {
    clearInterval(renewal)
  }
}

/** Sets the gauges from what the last audit found, whichever worker made it. */
async function measure(sql: Sql): Promise<void> {
  const last = await findLastTurn(sql, NAME)
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
      'the audit found what must not be: `npm run audit` names every row',
    )
  if (unfinished.length > 0) log.warn({ unfinished }, 'checks of the audit took too long and say nothing')
  else log.info({ checks }, 'audited')
}

function paymentsOf(problems: Problem[]): z.output<typeof key>[] {
  const payments = new Map<string, z.output<typeof key>>()
  for (const { tenant_id, payment_id } of problems)
    if (tenant_id !== null && payment_id !== null) payments.set(payment_id, { tenant_id, payment_id })
  return [...payments.values()]
}
