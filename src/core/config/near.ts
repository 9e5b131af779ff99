// Finds the probable correction of a misspelt name.

/** The closest candidate; undefined if `name` is a candidate itself, or close to none. */
export function nearestName(name: string, candidates: string[]): string | undefined {
  if (candidates.includes(name)) return undefined
  const letters = normalized(name).length
  const close = candidates
    .filter((other) => Math.abs(normalized(other).length - letters) <= 2)
    .map((other) => ({ other, distance: editDistance(normalized(name), normalized(other)) }))
    .filter(({ other, distance }) => distance <= (normalized(other).length < 8 ? 1 : 2))
  return close.sort((one, next) => one.distance - next.distance)[0]?.other
}

function normalized(name: string): string {
  return name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '')
}

/** The Levenshtein distance: the number of letters to insert, remove or replace. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (const [index, letter] of Array.from(one).entries()) {
    const next = [index + 1]
    for (const [at, wanted] of Array.from(other).entries())
      next.push(Math.min(next[at]! + 1, row[at + 1]! + 1, row[at]! + (letter === wanted ? 0 : 1)))
    row = next
  }
  return row.at(-1)!
}
