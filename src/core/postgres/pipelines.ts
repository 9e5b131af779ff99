// Behind PgBouncer (1.18), a statement must not follow another on its connection before the other's answer. postgres.js
// sends a statement that has parameters and no name in two steps, and PgBouncer does not count the first step, which
// has no Sync: at the answer to the other statement, it gives the session to another client, and the answer to the
// first step gets lost. The statement then waits until the pool is replaced.

/**
 * Makes the driver send nothing behind this statement before its answer, by sending it in two steps even if it has no
 * parameters: nothing follows such a statement. Call it before the statement is sent.
 */
export function sendAlone(statement: object): void {
  let is_first_step = true
  Object.defineProperty(statement, 'describeFirst', {
    get: () => is_first_step,
    // Before the first step, the driver sets whether there are parameters (0 or true), and before the second false.
    set(value: unknown) {
      if (value === false) is_first_step = false
    },
  })
}
