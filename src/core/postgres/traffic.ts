// The statements of a pool, from their sending to their answer.

export type Traffic = {
  /** Statements without an answer. `checks`: how often `silence.ts` has seen the statement run. */
  pending: Map<PromiseLike<unknown>, { limit_ms: number; checks: number }>
  /**
   * The largest number of statements that were pending at once: as many connections are open, up to the limit of the
   * pool.
   */
  peak: number
  checks_without_answer: number
  sent: number
  /** Open transactions; each has a connection of its own. */
  transactions: number
}

export function createTraffic(): Traffic {
  return { pending: new Map(), peak: 1, checks_without_answer: 0, sent: 0, transactions: 0 }
}

/**
 * Functions that are called once each: before the statement is sent, with its rows before the caller, or with its
 * error.
 */
export type StatementHooks = {
  onSend?: () => void
  onRows: (rows: unknown) => void
  onError?: (error: unknown) => void
}

/** Tracks a statement that is not sent yet. */
export function trackStatement(
  query: PromiseLike<unknown>,
  traffic: Traffic,
  limit_ms: number,
  { onSend, onRows, onError }: StatementHooks,
): void {
  const then = query.then.bind(query)
  let is_sent = false
  // oxlint-disable-next-line unicorn/no-thenable -- postgres.js sends a statement when `then` is called, so its time begins there
  query.then = (...callbacks) => {
    // A statement can be awaited twice.
    if (!is_sent) {
      is_sent = true
      onSend?.()
      traffic.pending.set(query, { limit_ms, checks: 0 })
      traffic.sent += 1
      traffic.peak = Math.max(traffic.peak, traffic.pending.size)
      const answered = () => {
        traffic.pending.delete(query)
        traffic.checks_without_answer = 0
      }
      then(
        (rows) => {
          answered()
          onRows(rows)
        },
        (error) => {
          answered()
          onError?.(error)
        },
      )
    }
    return then(...callbacks)
  }
}
