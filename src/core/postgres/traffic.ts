// The statements of a pool, from their sending to their answer.

export type Traffic = {
  /** Statements without an answer. */
  pending: Map<PromiseLike<unknown>, PendingStatement>
  transactions: Set<Transaction>
  checks_without_answer: number
}

/**
 * `checks`: how often `silence.ts` has seen the statement run. `is_given_up`: its connection was replaced, so it fails
 * soon.
 */
type PendingStatement = { limit_ms: number; checks: number; is_given_up: boolean }

/**
 * `answers_due`: the number of answers that the transaction waits for. `checks`: how often `silence.ts` has seen that
 * it waits.
 */
export type Transaction = { limit_ms: number; answers_due: number; checks: number }

export function createTraffic(): Traffic {
  return { pending: new Map(), transactions: new Set(), checks_without_answer: 0 }
}

/** Functions that are called once for each statement of a pool. */
export type StatementHooks = {
  /** Called before the statement is sent. A returned function is called at its answer. */
  onSend?: (query: PromiseLike<unknown>) => (() => void) | undefined
  /** Called with the rows before the caller has them. */
  onRows: (rows: unknown) => void
}

type Then = PromiseLike<unknown>['then']

/**
 * Calls `onSend` when a statement is sent, and the function that it returns at the answer, with the rows before the
 * caller has them. Most results of a driver are fragments, which are never sent: they cost no more than a closure.
 */
export function watchStatement(
  query: PromiseLike<unknown>,
  onSend: (query: PromiseLike<unknown>) => (rows?: unknown) => void,
): void {
  // postgres.js sends a statement when `then` is called, so the time of the statement begins there.
  // oxlint-disable-next-line typescript/unbound-method -- called with the query as `this`
  const { then } = query
  replaceThen(query, (...callbacks) => {
    // A statement can be awaited twice.
    replaceThen(query, then)
    const onAnswer = onSend(query)
    Reflect.apply(then, query, [onAnswer, () => onAnswer()])
    return Reflect.apply(then, query, callbacks)
  })
}

function replaceThen(query: PromiseLike<unknown>, then: Then): void {
  // oxlint-disable-next-line unicorn/no-thenable -- the object is a promise
  query.then = then
}

/** Tracks a statement outside of transactions that is not sent yet. */
export function trackStatement(
  query: PromiseLike<unknown>,
  traffic: Traffic,
  limit_ms: number,
  hooks: StatementHooks,
): void {
  watchStatement(query, () => {
    const onAnswer = hooks.onSend?.(query)
    traffic.pending.set(query, { limit_ms, checks: 0, is_given_up: false })
    return (rows) => {
      onAnswer?.()
      traffic.pending.delete(query)
      traffic.checks_without_answer = 0
      if (rows !== undefined) hooks.onRows(rows)
    }
  })
}
