// Stories that are told with bells on both backends, and those that one shows for both.

type Backend = 'redis' | 'postgres'

/** For `test.for`: once where bells are on `backend`, never where they are on the other. For what no bell has a part in. */
export function onlyWithQueue(backend: Backend, queue: Backend): Backend[] {
  return backend === queue ? [backend] : []
}
