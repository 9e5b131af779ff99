// The verdicts of `npm run bench -- --guard`, and its baseline.
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { turnsText } from '../bench/against.ts'
import { BASELINE_FILE, baselineSchema, compareWithBaseline, guardText, verdictOf } from '../bench/guard.ts'

const quiet = [100, 102, 98, 101, 99, 100, 101, 99]
const row = (product: number[], floor = quiet) => ({ name: 'Capture', product, floor })
const scaled = (times: number) => quiet.map((us) => us * times)

test.each([
  ['same', 'the noise of a quiet machine', row([101, 99, 100, 103, 98, 100, 101, 102])],
  ['worse', 'a fifth more', row(scaled(1.2))],
  ['better', 'a fifth less', row(scaled(0.8))],
  ['same', 'a machine of half the speed', row(scaled(2), scaled(2))],
  ['same', 'rounds that were disturbed', row([100, 102, 180, 101, 99, 240, 101, 150])],
  ['same', 'a fifth more, in rounds that differ by as much', row([95, 130, 120, 105, 140, 98, 160, 125])],
])('the verdict is `%s` for %s', (result, _, now) => {
  expect(compareWithBaseline([now], [row(quiet)])).toMatchObject([{ result, before: 1 }])
})

test.each([
  ['same', quiet],
  ['worse', scaled(1.2)],
  ['better', scaled(0.8)],
])('the verdict in turns is `%s`', (result, now) => {
  expect(verdictOf(row(now))).toMatchObject({ result })
  expect(turnsText([row(now)], '01234567')).toMatch(new RegExp(`Capture +100 +.* ${result}\n`))
})

test('rows that only the run or only the baseline has are named', () => {
  const verdicts = compareWithBaseline([{ ...row(scaled(2)), name: 'Refund' }], [row(quiet)])
  expect(verdicts).toMatchObject([
    { result: 'missing', now: null, before: 1 },
    { result: 'new', now: 2, before: null },
  ])
  expect(guardText(verdicts, { commit: '0123456789', about: '', rows: [] })).toMatch(/Refund +2\.00 +new/)
})

test('the baseline is that of the previous release', async () => {
  const baseline = baselineSchema.parse(JSON.parse(await readFile(BASELINE_FILE, 'utf8')))
  const [commit] = (await readFile(new URL('previous-release', import.meta.url), 'utf8')).split('\n')
  expect(baseline.commit).toBe(commit)
})
