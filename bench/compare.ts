// Comparing on a noisy machine: sides take turns, and the median of each counts.
import type { Load } from './load.ts'

/** Runs the sides in turn, `rounds` times over, and answers each one's medians. */
export async function alternate<Name extends string>(
  rounds: number,
  sides: Record<Name, () => Promise<Load>>,
): Promise<Record<Name, Load>> {
  const names = Object.keys(sides) as Name[]
  const results = new Map<Name, Load[]>(names.map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const name of names) results.get(name)!.push(await sides[name]())
  }
  return Object.fromEntries(names.map((name) => [name, medians(results.get(name)!)])) as Record<Name, Load>
}

function medians(loads: Load[]): Load {
  const of = (field: 'rate' | 'p50_ms' | 'p99_ms' | 'elapsed_ms' | 'cpu_us') =>
    median(loads.map((load) => load[field]))
  return {
    rate: of('rate'),
    p50_ms: of('p50_ms'),
    p99_ms: of('p99_ms'),
    count: loads.reduce((sum, load) => sum + load.count, 0),
    elapsed_ms: of('elapsed_ms'),
    cpu_us: of('cpu_us'),
    cpu: loads.toSorted((a, b) => a.cpu_us - b.cpu_us)[loads.length >> 1]!.cpu,
  }
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
