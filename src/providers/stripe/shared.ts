// Readings that calls share, so that what many look for in one list is read once for all of them.

type Next<Found> = { wanted: Set<string>; found: Promise<Found> }
type Reading<Found> = { found: Promise<Found>; next: Next<Found> | null }

/**
 * Returns a function that reads for `wanted`, and begins to do so after it is called: one reading of a key is under way at a
 * time, and all that is wanted meanwhile shares the next one. Nothing is kept of one that has ended.
 */
export function sharing<Found>(): (
  key: string,
  wanted: string,
  read: (wanted: ReadonlySet<string>) => Promise<Found>,
) => Promise<Found> {
  const readings = new Map<string, Reading<Found>>()
  return (key, wanted, read) => {
    const begin = (all: ReadonlySet<string>): Promise<Found> => {
      const found = read(all).finally(() => {
        if (reading.next === null) readings.delete(key)
      })
      const reading: Reading<Found> = { found, next: null }
      readings.set(key, reading)
      return found
    }
    const current = readings.get(key)
    if (current === undefined) return begin(new Set([wanted]))
    if (current.next === null) {
      const all = new Set<string>()
      const beginNext = () => begin(all)
      current.next = { wanted: all, found: current.found.then(beginNext, beginNext) }
    }
    current.next.wanted.add(wanted)
    return current.next.found
  }
}
