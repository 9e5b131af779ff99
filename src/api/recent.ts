// Remembers recently used names, approximately.

/** A set of the most recent names: at least the last `min_size`, and at most twice as many. */
export type RecentNames = { add: (name: string) => void; has: (name: string) => boolean }

export function createRecentNames(min_size: number): RecentNames {
  let names = new Set<string>()
  let older = new Set<string>()
  return {
    add(name) {
      if (names.size >= min_size) [older, names] = [names, new Set()]
      names.add(name)
    },
    has: (name) => names.has(name) || older.has(name),
  }
}
