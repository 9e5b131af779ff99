// The torture's own parts: what it takes away is there to be taken, and a seed names one schedule.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { FAULTS } from '../torture/faults/list.ts'
import { patchedCopy } from '../torture/copy.ts'
import { NEXT_VERSION } from '../torture/faults/versions.ts'
import { MUTATIONS } from '../torture/mutations.ts'
import { plan } from '../torture/schedule.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

test.each([...MUTATIONS, { name: 'next version', patches: NEXT_VERSION, faults: [] }])(
  'what the torture patches for "$name" is where it looks',
  async ({ patches, faults }) => {
    const copy = await patchedCopy(ROOT, patches)
    onTestFinished(copy.remove)
    for (const { file, to } of patches) expect(await readFile(join(copy.path, file), 'utf8')).toContain(to)
    for (const name of faults) expect(FAULTS.map((fault) => fault.name)).toContain(name)
  },
)

test('a seed names one schedule', () => {
  const names = (seed: number) => plan(FAULTS, seed, 900_000)
  expect(names(7)).toEqual(names(7))
  expect(names(7)).not.toEqual(names(8))
  expect(new Set(names(7).map(({ fault }) => fault)).size).toBe(FAULTS.length)
})
