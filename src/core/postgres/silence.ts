// Fault of postgres.js (all versions to 3.4.9): answers have no time limit. On a connection that became silent
// without closing, statements wait for ever. Workaround: a ping on idle connections and a limit for each statement;
// if either is exceeded, the pool is replaced. There is no patch, because the driver's authors must decide how it
// limits answers.
import type { Traffic } from './traffic.ts'

/** How often idle connections are pinged with `select 1`, and the time limit of its answer. */
export const PING_INTERVAL_MS = 8_000
/** The time limit of other answers. The server cancels each statement before (`statement_timeout`). */
export const ANSWER_LIMIT_MS = 15_000
/**
 * How often limits are checked. They are counted in checks, not in time: after this process was frozen, answers may
 * have arrived that it has not read yet.
 */
export const CHECK_MS = 1_000

/** How many pings reach all idle connections; the busy ones have statements with a limit. */
export function countPings({ peak, pending }: Traffic, max: number): number {
  return Math.max(1, Math.min(max, peak) - pending.size)
}

/**
 * Whether a statement has exceeded its limit. Only statements that run on a connection count, because others wait
 * behind them, or all of them if there is no answer at all. Call it every `CHECK_MS`.
 */
export function isSilent(traffic: Traffic): boolean {
  traffic.checks_without_answer = traffic.pending.size === 0 ? 0 : traffic.checks_without_answer + 1
  let silent = traffic.checks_without_answer * CHECK_MS >= ANSWER_LIMIT_MS
  for (const [query, statement] of traffic.pending) {
    if (!isActive(query)) continue
    statement.checks += 1
    silent ||= statement.checks * CHECK_MS >= statement.limit_ms
  }
  return silent
}

/** Whether a statement runs on its connection; the driver sets this mark. */
function isActive(query: PromiseLike<unknown>): boolean {
  return Reflect.get(query, 'active') === true
}
