// Runs a test on both queue backends or on one of them.

type Backend = 'redis' | 'postgres'

/**
 * For `test.for`: runs the test once if the queue is on `backend`, otherwise never. For tests that do not depend on
 * wake-ups.
 */
export function onlyWithQueue(backend: Backend, queue: Backend): Backend[] {
  return backend === queue ? [backend] : []
}
