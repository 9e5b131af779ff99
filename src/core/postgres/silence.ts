// Fault of postgres.js (all versions to 3.4.9): answers have no time limit. On a connection that became silent
// without closing, statements wait for ever. Workaround: idle connections are pinged, and each ping and statement has
// a time limit; if one exceeds its limit, the pool is replaced. There is no patch, because the authors must decide
// how the driver limits answers.
import type { Traffic } from './traffic.ts'

/** The interval at which idle connections are pinged with `select 1`, and the time limit of a ping. */
export const PING_INTERVAL_MS = 8_000
/** The time limit of other statements. The server cancels a statement earlier (`statement_timeout`). */
export const ANSWER_LIMIT_MS = 15_000
/**
 * The interval at which limits are checked. Limits are counted in checks, not in time: when this process was frozen,
 * answers may have arrived that it has not read yet.
 */
export const CHECK_MS = 1_000

/**
 * The number of pings to send so that each idle connection gets one. Busy connections need none: their statements have
 * a limit.
 */
export function countPings({ peak, pending }: Traffic, max: number): number {
  return Math.max(1, Math.min(max, peak) - pending.size)
}

/**
 * Whether a statement that runs on a connection has exceeded its limit, or no pending statement has got an answer
 * within `ANSWER_LIMIT_MS`. A statement that waits behind another has no limit of its own. Call it every `CHECK_MS`.
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
