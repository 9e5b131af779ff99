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

/** Functions that are called once for each statement of a pool. */
export type StatementHooks = {
  /** Called before the statement is sent. A returned function is called at its answer. */
  onSend?: (query: PromiseLike<unknown>) => (() => void) | undefined
  /** Called with the rows before the caller has them. */
  onRows: (rows: unknown) => void
  onError?: (error: unknown) => void
}

type Then = PromiseLike<unknown>['then']

/** Tracks a statement, or a fragment, that is not sent yet. Most are fragments: they cost no more than a closure. */
export function trackStatement(
  query: PromiseLike<unknown>,
  traffic: Traffic,
  limit_ms: number,
  hooks: StatementHooks,
): void {
  // postgres.js sends a statement when `then` is called, so the time of the statement begins there.
  // oxlint-disable-next-line typescript/unbound-method -- called with the query as `this`
  const { then } = query
  replaceThen(query, (...callbacks) => {
    // A statement can be awaited twice.
    replaceThen(query, then)
    sendTracked(query, then, { traffic, limit_ms, hooks })
    return Reflect.apply(then, query, callbacks)
  })
}

function replaceThen(query: PromiseLike<unknown>, then: Then): void {
  // oxlint-disable-next-line unicorn/no-thenable -- the object is a promise
  query.then = then
}

function sendTracked(
  query: PromiseLike<unknown>,
  then: Then,
  { traffic, limit_ms, hooks }: { traffic: Traffic; limit_ms: number; hooks: StatementHooks },
): void {
  const onAnswer = hooks.onSend?.(query)
  traffic.pending.set(query, { limit_ms, checks: 0 })
  traffic.sent += 1
  traffic.peak = Math.max(traffic.peak, traffic.pending.size)
  const answered = () => {
    onAnswer?.()
    traffic.pending.delete(query)
    traffic.checks_without_answer = 0
  }
  const onRows = (rows: unknown) => {
    answered()
    hooks.onRows(rows)
  }
  const onError = (error: unknown) => {
    answered()
    hooks.onError?.(error)
  }
  Reflect.apply(then, query, [onRows, onError])
}
