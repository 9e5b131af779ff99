// Fault of postgres.js (3.0.0 to 3.4.9; porsager/postgres#1181): after a statement that fails half-way, the next
// result on that connection begins with as many holes as the failed one had rows. Workaround: the holes are removed
// from each result. Patch for upstream: upstream/row-holes.patch.

/** Removes the holes at the beginning of a result. */
export function dropHoles(rows: unknown): void {
  if (!Array.isArray(rows) || rows.length === 0 || 0 in rows) return
  rows.splice(0, Number(Object.keys(rows)[0]))
}
