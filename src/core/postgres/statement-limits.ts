// Limits single statements by canceling them. A session behind PgBouncer has no statement timeout of its own.

/**
 * Cancels a statement after `limit_ms` unless the returned function is called before. The error of a canceled statement
 * is 57014.
 */
export function cancelAfter(query: PromiseLike<unknown>, limit_ms: number): () => void {
  const timer = setTimeout(cancel, limit_ms, query)
  return () => clearTimeout(timer)
}

/** The driver's own `cancel` drops a promise, and a connection that fails while it cancels would end the process. */
function cancel(query: PromiseLike<unknown>): void {
  const canceller: unknown = Reflect.get(query, 'canceller')
  if (typeof canceller !== 'function') return
  Promise.resolve(Reflect.apply(canceller, query, [query])).catch(() => {})
}
