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
import { checkSightings, sight, type Noun, type Sightings } from '../torture/sightings.ts'

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

/** What was shown in answers one after the other, each to a request of the moment before. */
function shown(noun: Noun, ...states: { status: string; decided_by?: string }[]): Sightings {
  const sightings: Sightings = new Map()
  states.forEach((state, at) => {
    const answer = { status: 200, body: { id: 'one', ...state }, headers: new Headers(), text: '' }
    sight(sightings, noun, answer, { api: 1, start: at, end: at + 0.5 })
  })
  return sightings
}
const backwards = (...args: Parameters<typeof shown>) =>
  checkSightings(shown(...args)).map(({ before, after }: any) => `${before.state} ${after.state}`)

test('what goes forward is no problem, and what goes backwards is found', () => {
  const [pending, paid, failed] = [{ status: 'pending' }, { status: 'paid' }, { status: 'failed' }]
  expect(backwards('payout', pending, pending, { status: 'processing' }, paid, failed)).toEqual([])
  expect(backwards('payout', paid, pending)).toEqual(['paid pending'])
  expect(backwards('payout', failed, paid, failed)).toEqual(['failed paid'])
  expect(backwards('top_up', { status: 'succeeded' }, failed, { status: 'succeeded' })).toEqual([
    'failed succeeded',
  ])
  const [waits, looks] = [{ status: 'requires_input' }, { status: 'processing' }]
  const [approved, rejected] = [{ status: 'approved' }, { status: 'rejected', decided_by: 'manual' }]
  expect(backwards('kyc', waits, looks, waits, approved, rejected)).toEqual([])
  expect(backwards('kyc', rejected, approved)).toEqual(['rejected_by_hand approved'])
  expect(backwards('kyc', approved, waits)).toEqual(['approved requires_input'])
})

test('answers to requests that were under way at the same time may show either state', () => {
  const sightings = shown('payout', { status: 'paid' }, { status: 'processing' })
  for (const { seen } of sightings.values()) seen[1]!.start = 0.2
  expect(checkSightings(sightings)).toEqual([])
})
