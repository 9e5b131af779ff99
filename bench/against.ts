// `--against`: whether this release needs more processor time than the release in another folder. Both run at the same
// time and work in turns, so a slow minute of the machine slows down both.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { median } from './compare.ts'
import { differenceText, verdictOf, type GuardedRow } from './guard.ts'
import { alignedText } from './table.ts'

type Side = {
  work: string[]
  /** Does some of the work with this index. Returns the microseconds of processor time of one unit. */
  run: (index: number, seconds: number) => Promise<number>
  [Symbol.asyncDispose](): Promise<void>
}

const namesSchema = z.object({ work: z.array(z.string()) })
const costSchema = z.object({ cpu_us: z.number() })

/** Why the release in this folder cannot be measured; undefined if it can be. */
export function problemOfRelease(folder: string): string | undefined {
  if (!existsSync(folder)) return `there is no folder ${folder}.`
  if (!existsSync(join(folder, 'bench/side.ts'))) return `the release in ${folder} has no option --against.`
  if (!existsSync(join(folder, 'node_modules')))
    return `the release in ${folder} is not installed: run npm ci there.`
  return undefined
}

/** Does the guarded work of this measure here (`product`) and in the folder `other` (`floor`), in turns. */
export async function measureInTurns(
  measure: string,
  { other, rounds, seconds }: { other: string; rounds: number; seconds: number },
): Promise<GuardedRow[]> {
  await using here = await openSide('.', measure)
  await using there = await openSide(other, measure)
  const rows: GuardedRow[] = []
  for (const [index, name] of here.work.entries()) {
    const index_there = there.work.indexOf(name)
    if (index_there < 0) continue
    const row: GuardedRow = { name, product: [], floor: [] }
    // Code is compiled and connections are opened before the first round.
    await there.run(index_there, 2 * seconds)
    await here.run(index, 2 * seconds)
    for (let round = 0; round < rounds; round++) {
      row.floor.push(await there.run(index_there, seconds))
      row.product.push(await here.run(index, seconds))
    }
    rows.push(row)
  }
  return rows
}

/** Starts the measure of the release in this folder. Throws if the release does not have the measure. */
async function openSide(folder: string, measure: string): Promise<Side> {
  const child = spawn(process.execPath, ['bench/side.ts', measure], {
    cwd: resolve(folder),
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  async function next<T>(schema: z.ZodType<T>): Promise<T> {
    const line = await lines.next()
    if (line.done === true) throw new Error(`${folder}: bench/side.ts ${measure} ended`)
    return schema.parse(JSON.parse(line.value))
  }
  const { work } = await next(namesSchema)
  return {
    work,
    async run(index, seconds) {
      child.stdin.write(`${JSON.stringify({ index, seconds })}\n`)
      return (await next(costSchema)).cpu_us
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}

/** The medians of both releases, and the verdicts, as a table. */
export function turnsText(rows: GuardedRow[], other: string): string {
  const heading = ['processor time of one, us', other, 'this', 'change', 'noise', '']
  const lines = rows.map((row) => {
    const verdict = verdictOf(row)
    const medians = [row.floor, row.product].map((values) => String(Math.round(median(values))))
    return [row.name, ...medians, ...differenceText(verdict), verdict.result]
  })
  return alignedText([heading, ...lines], 4)
}
