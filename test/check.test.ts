// The selection of test files by `npm run check`.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { nearestTests } from '#test/nearest-tests.ts'

const ROOT = join(import.meta.dirname, '..')

async function selected(...changed: string[]): Promise<string[]> {
  const { near } = await nearestTests(ROOT, changed, 6)
  return near.map((file) => file.replace(/^test\/|\.test\.ts$/g, ''))
}

test('tests of the files that import a changed file are selected, and so are the tests that the list names for the file', async () => {
  expect(await selected('src/workers/handlers/create.ts')).toEqual(
    expect.arrayContaining(['provider-lookups', 'provider-faults', 'provider-duplicates', 'payments']),
  )
  expect(await selected('migrations/roles.sql')).toEqual(
    expect.arrayContaining(['migration', 'database-types', 'roles']),
  )
  expect(await selected('src/domain/ledger/post.ts')).toContain('ledger')
})

test('a change of a file that no test is near to is reported', async () => {
  expect(await nearestTests(ROOT, ['bench/main.ts'], 6)).toMatchObject({
    near: ['test/architecture.test.ts'],
    note: 'No test is near this change: run npm test',
  })
})

test('nothing is selected for more than 40 changed files', async () => {
  const files = Array.from({ length: 41 }, (_, index) => `src/domain/file-${index}.ts`)
  expect(await nearestTests(ROOT, files, 6)).toMatchObject({
    near: [],
    note: '41 files are too many changed files for a selection: run npm test',
  })
})

test('a slow test is selected only if it is one of at most three changed tests', async () => {
  const changed = ['crash-api', 'payments', 'refunds', 'payouts'].map((name) => `test/${name}.test.ts`)
  expect(await selected(...changed.slice(0, 3))).toContain('crash-api')
  expect(await selected(...changed)).not.toContain('crash-api')
})
