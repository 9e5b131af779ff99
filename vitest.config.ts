// How `npm test` runs. With SLUICE_TEST_JSON set, the results also go to that file, as JSON.
import { statfsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { isWriteAfterClose } from './src/core/postgres/late-writes.ts'

const resultFile = process.env.SLUICE_TEST_JSON

// All test processes, and the processes that tests start, share one cache of compiled modules.
process.env.NODE_COMPILE_CACHE ??= resolve(import.meta.dirname, 'node_modules/.cache/node')

/** Memory as a folder, on Linux. */
const MEMORY = '/dev/shm'
/** A whole run needs less than 2 GiB. */
const MIN_FREE_BYTES = 4 * 1024 ** 3

/** The folder of temporary files: in memory if there is enough. */
function temporaryFolder(): string {
  if (process.availableMemory() < MIN_FREE_BYTES) return tmpdir()
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize < MIN_FREE_BYTES ? tmpdir() : MEMORY
  } catch {
    return tmpdir()
  }
}

// Each test file has its own database, which is a thousand files: creating them takes five times as long on some disks.
process.env.TMPDIR ??= temporaryFolder()

/** Whether a core of this machine takes several times as long for the same work as a usual one. */
function isSlow(): boolean {
  const times = Array.from({ length: 5 }, () => {
    const began_at = performance.now()
    let sum = 0
    for (let n = 0; n < 5_000_000; n++) sum = (sum * 31 + n) | 0
    // Never true, so that the loop is not optimized away.
    return sum === 0.5 ? 0 : performance.now() - began_at
  })
  // A usual core takes 5 to 15 ms.
  return Math.min(...times) > 25
}

/**
 * Files that take longer than their size tells, the longest first: they open pages, start processes, and wait for
 * outages and for leases to expire.
 */
const LONG = [
  'browser-operations',
  'provider-outages-partial',
  'provider-duplicates',
  'provider-outages',
  'job-late-answers',
  'restore',
  'queues',
  'metrics',
  'browser-money',
  'switches',
  'fuzz',
  'browser-pages',
  'ai-tasks',
  'reconciliation',
  'connection-errors',
  'recovered',
  'provider-faults',
  'migration',
  'redis-topologies',
  'adding-a-resource',
  'dashboard-rollups',
  'audit',
  'provider-lookups',
  'supervisor',
  'races',
  'jobs',
  'webhook-endpoint-emails',
  'crash-postgres',
  'deliveries',
  'messages',
  'browser-sign-in',
  'browser-settings',
  'messages-fairness',
  'switches-model',
  'crash-api',
  'worker-shutdown',
  'log-losses',
  'pgbouncer',
  'crash-worker',
  'upgrade',
  'crash-redis-outage',
  'crash-start',
  'sdk-package',
  'tracing-links',
  'crash-redis',
  'listed-objects',
  'permits',
  'scripts',
  'drain',
  'tracing-callers',
  'postgres-driver',
  'help',
  'payment-holds',
].map((name) => `${name}.test.ts`)

/** Begins with the files that take long: those above, and then the largest. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const ranked = files.map((file) => {
      const nth = LONG.indexOf(basename(file.moduleId))
      return { file, rank: nth === -1 ? LONG.length : nth, size: statSync(file.moduleId).size }
    })
    return ranked.toSorted((a, b) => a.rank - b.rank || b.size - a.size).map(({ file }) => file)
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/servers.ts'],
    pool: 'forks',
    // More than two for each of two cores: tests also wait, for leases to lapse and for processes to start. Four left a
    // sixth of the processor time unused; with six, calls with short deadlines fail. On a slow core, three left a third
    // unused.
    maxWorkers: isSlow() ? 4 : 5,
    // The files in a process share imported modules: importing them again for each file took a sixth of the whole run.
    // Each file has its own database and ends what it starts.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // Only a test that hangs exceeds these limits, even on a machine that is several times slower.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Ignores the driver's late writes, as src/core/run.ts does: tests run workers and APIs in the test process.
    onUnhandledError: (error) => !isWriteAfterClose(error),
    // The default of one second is too short on a busy machine.
    expect: { poll: { timeout: 60_000 } },
    reporters: resultFile ? ['default', ['json', { outputFile: resultFile }]] : ['default'],
  },
})
