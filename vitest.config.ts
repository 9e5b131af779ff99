// How `npm test` runs. With SLUICE_TEST_JSON set, the results also go to that file, as JSON.
import { defineConfig } from 'vitest/config'

const resultFile = process.env.SLUICE_TEST_JSON

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/servers.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: resultFile ? ['default', ['json', { outputFile: resultFile }]] : ['default'],
  },
})
