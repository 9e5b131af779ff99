// Fault of postgres.js (3.0.0 to 3.4.9): a connection that closes while a write is scheduled never writes again. The
// driver cancels the write but still treats it as scheduled, so that every later statement of the connection fails
// with CONNECT_TIMEOUT. Workaround: a new pool whenever a connection closes. Patch for upstream:
// upstream/stuck-writes.patch.

/** Connections that close within this time have one cause: one new pool replaces them all. */
const DEBOUNCE_MS = 250

/** Calls `replace` once for all connections that close within a moment. */
export function debounceReplace(replace: () => void): { closed(): void; cancel(): void } {
  let timer: NodeJS.Timeout | undefined
  return {
    closed() {
      timer ??= setTimeout(replace, DEBOUNCE_MS)
    },
    cancel() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
