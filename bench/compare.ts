// Compares programs on a noisy machine, such as the product and its floor, which is a minimal program for the same
// work: runs them alternately and compares their medians.
import type { Load } from './load.ts'

/** The figures of a run. `cpu` has no median: it is taken from the run with the median `cpu_us`. */
type Measured = Pick<Load, 'count' | 'cpu_us' | 'cpu'>

/**
 * Runs the compared programs (`sides`) alternately for `rounds` rounds. Returns the medians of each program, except
 * `count`, which is the sum over all rounds.
 */
export async function runAlternately<Name extends string, Result extends Measured = Load>(
  rounds: number,
  sides: Record<Name, () => Promise<Result>>,
): Promise<Record<Name, Result>> {
  const names = Object.keys(sides) as Name[]
  const results = new Map<Name, Result[]>(names.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const name of names) results.get(name)!.push(await sides[name]())
  }
  return Object.fromEntries(names.map((name) => [name, medians(results.get(name)!)])) as Record<Name, Result>
}

function medians<Result extends Measured>(results: Result[]): Result {
  const middle = results.toSorted((a, b) => a.cpu_us - b.cpu_us)[results.length >> 1]!
  const numbers = Object.keys(middle).filter((field) => field !== 'cpu')
  const of = (field: string) => results.map((result) => Number(result[field as keyof Result]))
  return {
    ...middle,
    ...Object.fromEntries(numbers.map((field) => [field, median(of(field))])),
    count: results.reduce((sum, { count }) => sum + count, 0),
  }
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
