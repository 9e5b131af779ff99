// Fault of PgBouncer (seen with 1.18): postgres.js sends an unnamed statement with parameters in two steps. PgBouncer
// does not count the first step, because it ends without a Sync. If that step is sent before the answer to an earlier
// statement, PgBouncer gives the session to another client at that answer, and the answer to the step is lost. The
// statement then waits until the pool is replaced. Workaround: nothing is sent on a connection before the answer to
// the previous statement. There is no patch for the driver.

/** The option of statements that must not be sent by the simple protocol. */
export const NOT_SIMPLE = { simple: false }

/**
 * Makes the driver send this statement in two steps, even without parameters: it sends nothing behind a statement in
 * two steps before the answer. Call this before the statement is sent. A statement of the simple protocol has one step,
 * and others may follow it.
 */
export function sendAlone(statement: object): void {
  const { options } = statement as { options?: { simple?: boolean } }
  let is_first_step = true
  Object.defineProperty(statement, 'describeFirst', {
    get: () => is_first_step && options?.simple !== true,
    // The driver sets 0 or true before the first step (whether there are parameters), and false with the second step.
    set(value: unknown) {
      if (value === false) is_first_step = false
    },
  })
}
