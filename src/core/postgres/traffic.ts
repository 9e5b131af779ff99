// The statements of a pool, from their sending to their answer.

export type Traffic = {
  /** Statements without an answer. */
  pending: Map<PromiseLike<unknown>, PendingStatement>
  checks_without_answer: number
}

/**
 * `checks`: how often `silence.ts` has seen the statement run. `is_given_up`: its connection was replaced, so it fails
 * soon.
 */
type PendingStatement = { limit_ms: number; checks: number; is_given_up: boolean }

export function createTraffic(): Traffic {
  return { pending: new Map(), checks_without_answer: 0 }
}

/** Functions that are called once for each statement of a pool. */
export type StatementHooks = {
  /** Called before the statement is sent. A returned function is called at its answer. */
  onSend?: (query: PromiseLike<unknown>) => (() => void) | undefined
  /** Called with the rows before the caller has them. */
  onRows: (rows: unknown) => void
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
  traffic.pending.set(query, { limit_ms, checks: 0, is_given_up: false })
  const answered = () => {
    onAnswer?.()
    traffic.pending.delete(query)
    traffic.checks_without_answer = 0
  }
  const onRows = (rows: unknown) => {
    answered()
    hooks.onRows(rows)
  }
  Reflect.apply(then, query, [onRows, answered])
}
