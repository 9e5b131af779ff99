import { createHmac, randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { verifyStripe } from '#providers/signatures.ts'

const SECRET = 'whsec_test_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH'
const NOW = 1_790_000_000
const BODY = Buffer.from('{"id":"evt_1","text":"\u00e9\\u00e9 "}\n')

function sign(raw: Buffer, secret: string, t: number | string): string {
  return createHmac('sha256', secret).update(`${t}.`).update(raw).digest('hex')
}

test('a signature over the raw bytes passes, and one over other bytes does not', () => {
  const header = `t=${NOW},v1=${sign(BODY, SECRET, NOW)}`
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('valid')
  const reserialized = Buffer.from(JSON.stringify(JSON.parse(BODY.toString())))
  expect(verifyStripe(reserialized, header, [SECRET], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW + 1},v1=${sign(BODY, SECRET, NOW)}`, [SECRET], NOW)).toBe('mismatch')
})

test('bytes that are not UTF-8 are verified as they are', () => {
  const raw = Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d])
  expect(verifyStripe(raw, `t=${NOW},v1=${sign(raw, SECRET, NOW)}`, [SECRET], NOW)).toBe('valid')
  const lossy = Buffer.from(raw.toString('utf8'))
  expect(verifyStripe(lossy, `t=${NOW},v1=${sign(raw, SECRET, NOW)}`, [SECRET], NOW)).toBe('mismatch')
})

test('the key is the whole secret as text, not what its base64 stands for', () => {
  const decoded = createHmac('sha256', Buffer.from(SECRET.slice('whsec_'.length), 'base64'))
  const header = `t=${NOW},v1=${decoded.update(`${NOW}.`).update(BODY).digest('hex')}`
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('mismatch')
})

test('any v1 under any of our secrets passes, other schemes do not', () => {
  const good = sign(BODY, SECRET, NOW)
  const bad = sign(BODY, 'whsec_old', NOW)
  expect(verifyStripe(BODY, `t=${NOW},v1=${bad},v1=${good}`, [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `v1=${good},t=${NOW},v0=${bad}`, [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `t=${NOW},v1=${bad}`, [SECRET, 'whsec_old'], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `t=${NOW},v0=${good},v1=${bad}`, [SECRET], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW},v0=${good}`, [SECRET], NOW)).toBe('malformed')
})

test('300 seconds off still pass in both directions and 301 do not', () => {
  const header = (t: number) => `t=${t},v1=${sign(BODY, SECRET, t)}`
  expect(verifyStripe(BODY, header(NOW - 300), [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, header(NOW + 300), [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, header(NOW - 301), [SECRET], NOW)).toBe('stale')
  expect(verifyStripe(BODY, header(NOW + 301), [SECRET], NOW)).toBe('stale')
  expect(verifyStripe(BODY, header(0), [SECRET], NOW)).toBe('stale')
  expect(verifyStripe(BODY, `t=${NOW - 301},v1=${'0'.repeat(64)}`, [SECRET], NOW)).toBe('mismatch')
})

test.each([
  ['no header', undefined],
  ['an empty header', ''],
  ['no time', `v1=${'a'.repeat(64)}`],
  ['no signature', `t=${NOW}`],
  ['two times', `t=${NOW},t=${NOW},v1=${sign(BODY, SECRET, NOW)}`],
  ['a header that was sent twice', [1, 2].map(() => `t=${NOW},v1=${sign(BODY, SECRET, NOW)}`).join(', ')],
  ['a time that is no number', `t=now,v1=${sign(BODY, SECRET, 'now')}`],
  ['a negative time', `t=-1,v1=${sign(BODY, SECRET, -1)}`],
  ['a hexadecimal time', `t=0x6ab0,v1=${sign(BODY, SECRET, '0x6ab0')}`],
  ['an empty time', `t=,v1=${sign(BODY, SECRET, '')}`],
  ['something that is no pair', `t=${NOW},v1=${sign(BODY, SECRET, NOW)},garbage`],
  ['a trailing comma', `t=${NOW},v1=${sign(BODY, SECRET, NOW)},`],
])('%s is malformed', (_name, header) => {
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('malformed')
})

test('a signature of another length or with other letters does not pass and does not throw', () => {
  const good = sign(BODY, SECRET, NOW)
  for (const bad of [
    '',
    'a',
    good.slice(1),
    good.slice(0, 62),
    `${good}00`,
    `${good}zz`,
    good.slice(0, 62) + 'zz',
    '\u00e9'.repeat(64),
  ]) {
    expect(verifyStripe(BODY, `t=${NOW},v1=${bad}`, [SECRET], NOW)).toBe('mismatch')
  }
})

test('without a secret nothing passes, not even what was signed with an empty one', () => {
  expect(verifyStripe(BODY, `t=${NOW},v1=${sign(BODY, SECRET, NOW)}`, [], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW},v1=${sign(BODY, '', NOW)}`, [''], NOW)).toBe('mismatch')
})

test('no header makes it throw, and no unsigned one passes', () => {
  const pair = fc.tuple(
    fc.constantFrom('t', 'v1', 'v0', ' t', ''),
    fc.oneof(fc.string(), fc.nat().map(String), fc.string({ unit: 'binary-ascii' })),
  )
  const header = fc.oneof(
    fc.string({ unit: 'binary-ascii' }),
    fc.array(pair.map(([name, value]) => `${name}=${value}`)).map((pairs) => pairs.join(',')),
  )
  const passing = fc.property(header, (text) => {
    return ['malformed', 'mismatch'].includes(verifyStripe(randomBytes(8), text, [SECRET], NOW))
  })
  expect(fc.check(passing).failed).toBe(false)
})
