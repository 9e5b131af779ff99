// Fault of postgres.js (3.0.0 to 3.4.9; porsager/postgres#1154, #1208): a statement on a reserved connection that has
// closed is written to a null socket, in a callback where the error cannot be caught. Workaround: this error is
// ignored; the connection is discarded, and its driver rejects the statement when it ends. Patch for upstream:
// upstream/late-writes.patch.

/** Whether an uncaught error is the driver's write to a closed connection, which is safe to ignore. */
export function isWriteAfterClose(error: unknown): boolean {
  // Not `instanceof`: Vitest passes errors of its test processes as plain objects.
  if (typeof error !== 'object' || error === null || !('name' in error) || !('stack' in error)) return false
  return error.name === 'TypeError' && /nextWrite .*postgres.*connection\.js/.test(String(error.stack))
}
