// Fault of postgres.js (3.0.0 to 3.4.9; porsager/postgres#1154, #1208): a statement on a reserved connection that has closed is written
// to a socket that is null, in a callback where nothing can catch the error. Healed by ignoring exactly this error: the pool is
// replaced and rejects the statement. To be sent upstream: upstream/late-writes.patch.

/** Whether an uncaught error is the driver's write to a closed connection. It is safe to ignore. */
export function isWriteAfterClose(error: unknown): boolean {
  return error instanceof TypeError && /nextWrite .*postgres.*connection\.js/.test(error.stack ?? '')
}
