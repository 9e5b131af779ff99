// Collects the mean time of each atomic step from the metrics of the measured processes, and writes the reference file.
import { writeFile } from 'node:fs/promises'
import { REFERENCE_FILE } from '#core/metrics/database.ts'
import { readSamples } from '#test/served-metrics.ts'

/** Steps with fewer runs are omitted: their mean is not reliable. */
const MIN_RUNS = 20

export type Reference = {
  /** Adds the times of the process with this operations URL. */
  collect(operations_url: string): Promise<void>
  /** Writes the file. `machine`: a description of the machine. Returns the number of steps. */
  write(machine: string): Promise<number>
}

export function createReference(): Reference {
  const totals = new Map<string, { sum: number; count: number }>()
  return {
    async collect(operations_url) {
      for (const { name, labels, value } of await readSamples(operations_url)) {
        const [, figure] = /^sluice_statement_seconds_(sum|count)$/.exec(name) ?? []
        if (figure === undefined) continue
        const step = labels['step']!
        const total = totals.get(step) ?? { sum: 0, count: 0 }
        total[figure as 'sum' | 'count'] += value
        totals.set(step, total)
      }
    },
    async write(machine) {
      const steps = [...totals]
        .filter(([, { count }]) => count >= MIN_RUNS)
        .map(([step, { sum, count }]) => [step, Number((sum / count).toPrecision(3))] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
      const content = { machine, mean_s: Object.fromEntries(steps) }
      await writeFile(REFERENCE_FILE, `${JSON.stringify(content, null, 2)}\n`)
      return steps.length
    },
  }
}
