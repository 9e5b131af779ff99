// How `npm test` runs. With SLUICE_TEST_JSON set, the results also go to that file, as JSON.
import { basename, resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const resultFile = process.env.SLUICE_TEST_JSON

// The processes that run the files, and those that the files start, compile what they import: once for all of them.
process.env.NODE_COMPILE_CACHE ??= resolve(import.meta.dirname, 'node_modules/.cache/node')

/** Short files that run long: they start processes, and wait for leases to lapse and connections to be given up. */
const LONG = /^(?:crash-|queues|supervisor|startup|notifications-order)/

/** Begins with the files that run long. Vitest takes the largest for those as long as it has measured none. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const { long = [], other = [] } = Object.groupBy(sorted, ({ moduleId }) =>
      LONG.test(basename(moduleId)) ? 'long' : 'other',
    )
    return [...long, ...other]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/servers.ts'],
    pool: 'forks',
    // Two for each core: tests also wait, for leases to lapse and for processes to start.
    maxWorkers: 4,
    // The files of a process share what they import. Each has a database of its own and ends what it starts, and importing everything
    // again for each file took a sixth of the whole run.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // Of what hangs: a slow machine takes several times as long as a fast one.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // What is waited for comes late where the machine is busy; one second, as it would be, says nothing of it.
    expect: { poll: { timeout: 20_000 } },
    reporters: resultFile ? ['default', ['json', { outputFile: resultFile }]] : ['default'],
  },
})
