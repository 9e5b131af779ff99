// Shares reads of a list between concurrent calls: one read serves all calls that wait for it.

type NextRead<Found> = { ids: Set<string>; found: Promise<Found> }
type SharedRead<Found> = { found: Promise<Found>; next: NextRead<Found> | null }

/**
 * Returns a function that reads a list for an id. The read that serves a call starts after that call. At most one read
 * per key is in progress; all calls during a read share the next read. Results are not cached.
 */
export function createSharedReads<Found>(): (
  key: string,
  id: string,
  read: (ids: ReadonlySet<string>) => Promise<Found>,
) => Promise<Found> {
  const reads = new Map<string, SharedRead<Found>>()
  return (key, id, read) => {
    const startRead = (ids: ReadonlySet<string>): Promise<Found> => {
      const found = read(ids).finally(() => {
        if (current_read.next === null) reads.delete(key)
      })
      const current_read: SharedRead<Found> = { found, next: null }
      reads.set(key, current_read)
      return found
    }
    const current = reads.get(key)
    if (current === undefined) return startRead(new Set([id]))
    if (current.next === null) {
      const next_ids = new Set<string>()
      const startNext = () => startRead(next_ids)
      current.next = { ids: next_ids, found: current.found.then(startNext, startNext) }
    }
    current.next.ids.add(id)
    return current.next.found
  }
}
