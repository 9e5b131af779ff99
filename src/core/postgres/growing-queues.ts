// Fault of postgres.js (3.0.0 to 3.4.9): under load its connection queues keep an entry for each statement that was
// ever sent, and search all of them for the next one. After a million statements, each statement costs as much
// processor time as a complete job. Workaround: a new pool after many statements. Patch for upstream:
// upstream/growing-queues.patch.

/** After this many statements a pool is replaced. */
export const MAX_POOL_STATEMENTS = 50_000
