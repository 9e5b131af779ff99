// Finds the name that a misspelt one was probably meant to be.

/** The known name that is closest to `name`; undefined when `name` is known itself, or close to none. */
export function nearestName(name: string, known: string[]): string | undefined {
  if (known.includes(name)) return undefined
  const letters = bare(name).length
  const near = known
    .filter((other) => Math.abs(bare(other).length - letters) <= 2)
    .map((other) => ({ other, changes: changesBetween(bare(name), bare(other)) }))
    .filter(({ other, changes }) => changes <= (bare(other).length < 8 ? 1 : 2))
  return near.sort((one, next) => one.changes - next.changes)[0]?.other
}

function bare(name: string): string {
  return name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '')
}

/** How many letters must be inserted, removed or replaced to turn one into the other (Levenshtein distance). */
function changesBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (const [index, letter] of Array.from(one).entries()) {
    const next = [index + 1]
    for (const [at, wanted] of Array.from(other).entries())
      next.push(Math.min(next[at]! + 1, row[at + 1]! + 1, row[at]! + (letter === wanted ? 0 : 1)))
    row = next
  }
  return row.at(-1)!
}
