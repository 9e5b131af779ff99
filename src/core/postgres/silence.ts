// Fault of postgres.js (all versions to 3.4.9): answers have no time limit. On a connection that became silent
// without closing, statements wait for ever. Workaround: free connections are pinged, and each ping, statement and
// answer in a transaction has a time limit; if one exceeds its limit, all connections are replaced. There is no patch,
// because the authors must decide how the driver limits answers.
import type { Traffic } from './traffic.ts'

/** The interval at which free connections are pinged with `select 1`, and the time limit of a ping. */
export const PING_INTERVAL_MS = 8_000
/** The time limit of other statements. The server cancels a statement earlier (`statement_timeout`). */
export const ANSWER_LIMIT_MS = 15_000
/**
 * The interval at which limits are checked. Limits are counted in checks, not in time: when this process was frozen,
 * answers may have arrived that it has not read yet.
 */
export const CHECK_MS = 1_000

/**
 * Whether a statement that runs on a connection, or a transaction, has waited for longer than its limit, or no pending
 * statement has got an answer within `ANSWER_LIMIT_MS`. A statement that waits for a connection has no limit of its
 * own. Call it every `CHECK_MS`.
 */
export function isSilent(traffic: Traffic): boolean {
  const statements = [...traffic.pending].filter(([, { is_given_up }]) => !is_given_up)
  traffic.checks_without_answer = statements.length === 0 ? 0 : traffic.checks_without_answer + 1
  let silent = traffic.checks_without_answer * CHECK_MS >= ANSWER_LIMIT_MS
  for (const [query, statement] of statements) {
    if (!isActive(query)) continue
    statement.checks += 1
    silent ||= statement.checks * CHECK_MS >= statement.limit_ms
  }
  for (const transaction of traffic.transactions) {
    if (transaction.answers_due === 0) continue
    transaction.checks += 1
    silent ||= transaction.checks * CHECK_MS >= transaction.limit_ms
  }
  return silent
}

/** Records that the connections of all running statements and transactions are replaced. */
export function giveUpRunning(traffic: Traffic): void {
  traffic.checks_without_answer = 0
  traffic.transactions.clear()
  for (const [query, statement] of traffic.pending) statement.is_given_up ||= isActive(query)
}

/** Whether a statement runs on its connection; the driver sets this mark. */
function isActive(query: PromiseLike<unknown>): boolean {
  return Reflect.get(query, 'active') === true
}
