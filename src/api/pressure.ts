// Detects overload: an event loop that is late again and again.

const EVERY_MS = 250
const LATE_MS = 1000
const TIMES = 2

/**
 * `overloaded` is true while the event loop has been more than a second late twice in a row. A single stall (a slow
 * start, a frozen machine) does not count: it is over when it is noticed.
 */
export function watchEventLoop(): { overloaded: () => boolean; close: () => void } {
  let last = performance.now()
  let late = 0
  const timer = setInterval(() => {
    const now = performance.now()
    late = now - last > EVERY_MS + LATE_MS ? late + 1 : 0
    last = now
  }, EVERY_MS).unref()
  return { overloaded: () => late >= TIMES, close: () => clearInterval(timer) }
}
