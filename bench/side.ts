// One side of `--against`: a process of one release, which does the guarded work of one measure. Its first line of
// output names the work. For each line of input, it does some of the work and prints what that cost. It ends with its
// input.
import { createInterface } from 'node:readline'
import { GUARD_ROUNDS } from './guard.ts'
import { MEASURES } from './measures/all.ts'
import { startSystem } from './system.ts'

const measure = MEASURES.find(({ name }) => name === process.argv[2])
if (measure?.guarded === undefined)
  throw new Error(`usage: node bench/side.ts <a measure with guarded work>, not ${process.argv[2]}`)
const answer = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)

const system = await startSystem({
  ...GUARD_ROUNDS,
  rows: 1,
  finished: 1,
  backlog: 1,
  postgres: null,
  traces: null,
  profile: null,
  reference: null,
  log: () => {},
})
try {
  await using cleanup = new AsyncDisposableStack()
  const all = await measure.guarded(system, cleanup)
  answer({ work: all.map(({ name }) => name) })
  for await (const line of createInterface({ input: process.stdin })) {
    const { index, seconds } = JSON.parse(line) as { index: number; seconds: number }
    const { cpu_us } = await all[index]!.product(seconds)
    answer({ cpu_us })
  }
} finally {
  await system.stop()
}
