// `--guard`: whether the product needs more processor time than the previous release. Each row is the product's
// processor time as a multiple of its floor's in the same run, so that machines of different speed can be compared.
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import type { GuardedWork, Measure } from './measures/measure.ts'
import type { System } from './system.ts'
import { alignedText } from './table.ts'

/** With fewer rounds, the faster half has no standard error. */
export const MIN_ROUNDS = 4
/** Microseconds of processor time for one unit of work, in each round. */
const rounds = z.array(z.number().positive()).min(MIN_ROUNDS)
const guardedRow = z.object({ name: z.string(), product: rounds, floor: rounds })
/** The rows of a commit, as the baseline has them. `about`: time, versions and machine. */
export const baselineSchema = z.object({ commit: z.string(), about: z.string(), rows: z.array(guardedRow) })
export type Baseline = z.output<typeof baselineSchema>
export type GuardedRow = z.output<typeof guardedRow>

export type Verdict = {
  name: string
  /** The product as a multiple of its floor; null for a row that this run or the baseline lacks. */
  now: number | null
  before: number | null
  /** `now / before - 1`, and how large it can be by chance. */
  change: number
  noise: number
  result: 'better' | 'same' | 'worse' | 'new' | 'missing'
}

export const BASELINE_FILE = fileURLToPath(new URL('baseline.json', import.meta.url))
/** Many short rounds, because other work on the machine slows down single seconds. */
export const GUARD_ROUNDS = { rounds: 12, seconds: 0.5 }
/** A smaller change is not reported: two runs of one commit differ by as much. */
const MIN_NOISE = 0.05
/** A change of so many standard errors happens by chance in one row of several hundred. */
const STANDARD_ERRORS = 3

/** Runs the guarded work of these measures: the floor and the product, alternately. */
export async function measureGuarded(system: System, measures: Measure[]): Promise<GuardedRow[]> {
  const rows: GuardedRow[] = []
  for (const { guarded, name } of measures) {
    if (guarded === undefined) continue
    system.options.log(name)
    await using cleanup = new AsyncDisposableStack()
    for (const work of await guarded(system, cleanup)) rows.push(await repeat(system, work))
  }
  return rows
}

async function repeat({ options }: System, { name, product, floor }: GuardedWork): Promise<GuardedRow> {
  const row: GuardedRow = { name, product: [], floor: [] }
  // Code is compiled and connections are opened before the first round.
  for (const warm of [floor, product]) await warm(2 * options.seconds)
  for (let round = 0; round < options.rounds; round++) {
    row.floor.push(Math.round((await floor(options.seconds)).cpu_us))
    row.product.push(Math.round((await product(options.seconds)).cpu_us))
  }
  options.log(`  ${name}: ${ratioOf(row).ratio.toFixed(2)} times the floor`)
  return row
}

/** Compares each row with the row of the same name in the baseline. */
export function compareWithBaseline(rows: GuardedRow[], baseline: GuardedRow[]): Verdict[] {
  const names = new Set([...baseline, ...rows].map(({ name }) => name))
  return Array.from(names, (name) => {
    const [now = null, before = null] = [rows, baseline].map((list) => {
      const row = list.find((each) => each.name === name)
      return row && ratioOf(row)
    })
    const ratios = { name, now: now?.ratio ?? null, before: before?.ratio ?? null }
    if (now === null || before === null)
      return { ...ratios, change: 0, noise: 0, result: now === null ? 'missing' : 'new' }
    return { ...ratios, ...compare(now, before) }
  })
}

/** Compares the product of this row with its floor, which is another release: see `--against`. */
export function verdictOf(row: GuardedRow): Verdict {
  const now = ratioOf(row)
  return { name: row.name, now: now.ratio, before: 1, ...compare(now, { ratio: 1, error: 0 }) }
}

function compare(now: Ratio, before: Ratio): Pick<Verdict, 'change' | 'noise' | 'result'> {
  const change = now.ratio / before.ratio - 1
  const noise = Math.max(MIN_NOISE, STANDARD_ERRORS * Math.hypot(now.error, before.error))
  return { change, noise, result: resultOf(change, noise) }
}

function resultOf(change: number, noise: number): Verdict['result'] {
  if (Math.abs(change) <= noise) return 'same'
  return change > 0 ? 'worse' : 'better'
}

/** The product as a multiple of its floor, with the standard error as a share of the multiple. */
type Ratio = { ratio: number; error: number }

function ratioOf({ product, floor }: GuardedRow): Ratio {
  const [measured, base] = [meanOfFasterHalf(product), meanOfFasterHalf(floor)]
  return { ratio: measured.mean / base.mean, error: Math.hypot(measured.error, base.error) }
}

/**
 * The mean of the faster half of these rounds, because disturbances only add time, and its standard error as a share of
 * it. The faster half is chosen by its values, so it varies less than independent rounds: hence the factor.
 */
function meanOfFasterHalf(values: number[]): { mean: number; error: number } {
  const half = values.toSorted((a, b) => a - b).slice(0, Math.ceil(values.length / 2))
  const mean = half.reduce((sum, value) => sum + value, 0) / half.length
  const variance = half.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (half.length - 1)
  return { mean, error: (1.5 * Math.sqrt(variance / half.length)) / mean }
}

/** The change and the noise, as cells of a table. */
export function differenceText({ change, noise }: Pick<Verdict, 'change' | 'noise'>): string[] {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`
  return [`${change > 0 ? '+' : ''}${percent(change)}`, percent(noise)]
}

/** The verdicts as a table, with the commit of the baseline. */
export function guardText(verdicts: Verdict[], { commit }: Baseline): string {
  const multiple = (value: number | null) => (value === null ? '' : value.toFixed(2))
  const rows = verdicts.map(({ name, now, before, change, noise, result }) => {
    const difference = now === null || before === null ? ['', ''] : differenceText({ change, noise })
    return [name, multiple(before), multiple(now), ...difference, result]
  })
  const headings = [
    'processor time as a multiple of the floor',
    commit.slice(0, 8),
    'now',
    'change',
    'noise',
    '',
  ]
  return alignedText([headings, ...rows], 4)
}
