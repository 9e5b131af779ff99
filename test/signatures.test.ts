// Signatures of Stripe and Twilio webhooks: valid, malformed, old and forged signatures.
import { createHmac, randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import twilio from 'twilio/lib/webhooks/webhooks.js'
import { expect, test } from 'vitest'
import { verifyStripe, verifyTwilio } from '#providers/signatures.ts'

const SECRET = 'whsec_test_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH'
const NOW = 1_790_000_000
const BODY = Buffer.from('{"id":"evt_1","text":"\u00e9\\u00e9 "}\n')

function sign(raw: Buffer, secret: string, t: number | string): string {
  return createHmac('sha256', secret).update(`${t}.`).update(raw).digest('hex')
}

test('a signature over the raw bytes is valid, and the same signature over other bytes is not', () => {
  const header = `t=${NOW},v1=${sign(BODY, SECRET, NOW)}`
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('valid')
  const reserialized = Buffer.from(JSON.stringify(JSON.parse(BODY.toString())))
  expect(verifyStripe(reserialized, header, [SECRET], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW + 1},v1=${sign(BODY, SECRET, NOW)}`, [SECRET], NOW)).toBe('mismatch')
})

test('bytes that are not UTF-8 are verified without conversion', () => {
  const raw = Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d])
  expect(verifyStripe(raw, `t=${NOW},v1=${sign(raw, SECRET, NOW)}`, [SECRET], NOW)).toBe('valid')
  const lossy = Buffer.from(raw.toString('utf8'))
  expect(verifyStripe(lossy, `t=${NOW},v1=${sign(raw, SECRET, NOW)}`, [SECRET], NOW)).toBe('mismatch')
})

test('the signing key is the whole secret as text, not its decoded base64', () => {
  const decoded = createHmac('sha256', Buffer.from(SECRET.slice('whsec_'.length), 'base64'))
  const header = `t=${NOW},v1=${decoded.update(`${NOW}.`).update(BODY).digest('hex')}`
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('mismatch')
})

test('any v1 signature with any of the secrets is valid, and other schemes are not', () => {
  const good = sign(BODY, SECRET, NOW)
  const bad = sign(BODY, 'whsec_old', NOW)
  expect(verifyStripe(BODY, `t=${NOW},v1=${bad},v1=${good}`, [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `v1=${good},t=${NOW},v0=${bad}`, [SECRET], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `t=${NOW},v1=${bad}`, [SECRET, 'whsec_old'], NOW)).toBe('valid')
  expect(verifyStripe(BODY, `t=${NOW},v0=${good},v1=${bad}`, [SECRET], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW},v0=${good}`, [SECRET], NOW)).toBe('malformed')
})

test('a signature is valid up to 300 seconds before or after its time, and stale from 301 seconds', () => {
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
  ['a time that is not a number', `t=now,v1=${sign(BODY, SECRET, 'now')}`],
  ['a negative time', `t=-1,v1=${sign(BODY, SECRET, -1)}`],
  ['a hexadecimal time', `t=0x6ab0,v1=${sign(BODY, SECRET, '0x6ab0')}`],
  ['an empty time', `t=,v1=${sign(BODY, SECRET, '')}`],
  ['a part that is not a pair', `t=${NOW},v1=${sign(BODY, SECRET, NOW)},garbage`],
  ['a trailing comma', `t=${NOW},v1=${sign(BODY, SECRET, NOW)},`],
])('a signature with %s is malformed', (_name, header) => {
  expect(verifyStripe(BODY, header, [SECRET], NOW)).toBe('malformed')
})

test('a signature of another length or with other characters is a mismatch, and no exception is thrown', () => {
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

test('without a secret no Stripe signature is valid, not even a signature with an empty secret', () => {
  expect(verifyStripe(BODY, `t=${NOW},v1=${sign(BODY, SECRET, NOW)}`, [], NOW)).toBe('mismatch')
  expect(verifyStripe(BODY, `t=${NOW},v1=${sign(BODY, '', NOW)}`, [''], NOW)).toBe('mismatch')
})

test('random headers cause no exception and are never valid', () => {
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

const URL_SIGNED = 'https://mycompany.com/myapp.php?foo=1&bar=2'
const CALL = new URLSearchParams({
  CallSid: 'CA1234567890ABCDE',
  Caller: '+14158675309',
  Digits: '1234',
  From: '+14158675309',
  To: '+18005551212',
})
const SIGNED = 'RSOYDt4T1cUTdK1PDd93/VVr8B8='

test("Twilio's own example is valid under any of the tokens, and variations of the example are not", () => {
  expect(verifyTwilio(URL_SIGNED, CALL, SIGNED, ['other', '12345'])).toBe('valid')
  expect(verifyTwilio(URL_SIGNED, CALL, SIGNED, ['other'])).toBe('mismatch')
  expect(
    verifyTwilio(URL_SIGNED, new URLSearchParams([...CALL, ['Digits', '1235']]), SIGNED, ['12345']),
  ).toBe('mismatch')
  expect(verifyTwilio(URL_SIGNED, new URLSearchParams([...CALL, ['More', '']]), SIGNED, ['12345'])).toBe(
    'mismatch',
  )
  expect(verifyTwilio(URL_SIGNED.replace('https', 'http'), CALL, SIGNED, ['12345'])).toBe('mismatch')
  expect(verifyTwilio(`${URL_SIGNED}&m=1`, CALL, SIGNED, ['12345'])).toBe('mismatch')
})

test("the standard port in a URL is optional for Twilio's signature", () => {
  expect(verifyTwilio(URL_SIGNED.replace('.com', '.com:443'), CALL, SIGNED, ['12345'])).toBe('valid')
  const signed = twilio.getExpectedTwilioSignature('t', 'http://host:80/twilio', {})
  expect(verifyTwilio('http://host/twilio', new URLSearchParams(), signed, ['t'])).toBe('valid')
})

test.each([undefined, '', 'RSOYDt4T', `${SIGNED}, ${SIGNED}`, SIGNED.replace('/', '_'), 'é'.repeat(28)])(
  "Twilio's signature header %j is malformed",
  (header) => {
    expect(verifyTwilio(URL_SIGNED, CALL, header, ['12345'])).toBe('malformed')
  },
)

test('without a token no Twilio signature is valid, not even a signature with an empty token', () => {
  const signed = createHmac('sha1', '').update(URL_SIGNED).digest('base64')
  expect(verifyTwilio(URL_SIGNED, new URLSearchParams(), signed, [''])).toBe('mismatch')
  expect(verifyTwilio(URL_SIGNED, new URLSearchParams(), signed, [])).toBe('mismatch')
})

test('a forged form with thousands of names is refused within a second', () => {
  const form = new URLSearchParams(
    Array.from({ length: 20_000 }, (_, nth): [string, string] => [`${nth}`, '']),
  )
  const before = performance.now()
  expect(verifyTwilio(URL_SIGNED, form, SIGNED, ['12345'])).toBe('mismatch')
  expect(performance.now() - before).toBeLessThan(1000)
})

test("random parameters that Twilio's own package has signed are valid", () => {
  const value = fc.string({ unit: 'grapheme' })
  const params = fc.dictionary(
    fc.string({ minLength: 1 }),
    fc.oneof(value, fc.array(value, { minLength: 1 })),
  )
  const passing = fc.property(params, fc.webUrl({ withQueryParameters: true }), (given, url) => {
    const signed = twilio.getExpectedTwilioSignature('token', url, given)
    const pairs = Object.entries(given).flatMap(([name, values]) =>
      [values].flat().map((each): [string, string] => [name, each]),
    )
    return verifyTwilio(url, new URLSearchParams(pairs), signed, ['token']) === 'valid'
  })
  expect(fc.check(passing)).toMatchObject({ failed: false })
})
