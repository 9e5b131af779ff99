// Readings that calls share, so that what many look for in one list is read once for all of them.

type NextRead<Found> = { ids: Set<string>; found: Promise<Found> }
type SharedRead<Found> = { found: Promise<Found>; next: NextRead<Found> | null }

/**
 * Returns a function that reads for `wanted`, and begins to do so after it is called: one reading of a key is under way at a
 * time, and all that is wanted meanwhile shares the next one. Nothing is kept of one that has ended.
 */
export function createSharedReads<Found>(): (
  key: string,
  ids: string,
  read: (ids: ReadonlySet<string>) => Promise<Found>,
) => Promise<Found> {
  const reads = new Map<string, SharedRead<Found>>()
  return (key, ids, read) => {
    const startRead = (next_ids: ReadonlySet<string>): Promise<Found> => {
      const found = read(next_ids).finally(() => {
        if (current_read.next === null) reads.delete(key)
      })
      const current_read: SharedRead<Found> = { found, next: null }
      reads.set(key, current_read)
      return found
    }
    const current = reads.get(key)
    if (current === undefined) return startRead(new Set([ids]))
    if (current.next === null) {
      const next_ids = new Set<string>()
      const startNext = () => startRead(next_ids)
      current.next = { ids: next_ids, found: current.found.then(startNext, startNext) }
    }
    current.next.ids.add(ids)
    return current.next.found
  }
}
