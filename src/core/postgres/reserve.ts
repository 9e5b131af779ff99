// Fault of postgres.js (3.4.0 to 3.4.9; porsager/postgres#751, #1219): without `fetch_types`, which `array-types.ts`
// turns off, the reservation of a new connection never resolves. Workaround: no reservation; statements outside
// transactions need no reserved connection. Patch for upstream: upstream/reserve.patch.
import type { Sql } from '../db.ts'

/** A pool for libraries that reserve a connection for each statement. Such a library must not begin transactions. */
export function withoutReserving(pool: Sql) {
  return {
    options: { max: pool.options.max },
    end: () => pool.end({ timeout: 5 }),
    reserve: async () => ({
      unsafe: (query: string, parameters: never[]) => pool.unsafe(query, parameters),
      release: () => {},
    }),
  }
}
