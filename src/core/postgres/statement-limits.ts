// Limits single statements by canceling them. A session behind PgBouncer has no statement timeout of its own.

/** Cancels a statement that is not sent yet if it has no answer `limit_ms` after it was sent. Its error is 57014. */
export function limitStatement(query: PromiseLike<unknown>, limit_ms: number): void {
  const then = query.then.bind(query)
  let timer: NodeJS.Timeout | undefined
  const stop = () => clearTimeout(timer)
  // oxlint-disable-next-line unicorn/no-thenable -- postgres.js sends a statement when `then` is called
  query.then = (...callbacks) => {
    timer ??= setTimeout(cancel, limit_ms, query)
    then(stop, stop)
    return then(...callbacks)
  }
}

/** The driver's own `cancel` drops a promise, and a connection that fails while it cancels would end the process. */
function cancel(query: PromiseLike<unknown>): void {
  const canceller: unknown = Reflect.get(query, 'canceller')
  if (typeof canceller !== 'function') return
  Promise.resolve(Reflect.apply(canceller, query, [query])).catch(() => {})
}
