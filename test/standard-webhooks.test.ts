// Tests signatures by Standard Webhooks 1.0 with the published vectors and with third-party libraries.
import * as fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { expect, test } from 'vitest'
import { isWebhookSecret, newWebhookSecret, signStandardWebhook } from '#core/standard-webhooks.ts'
import { verifyStandard } from '#providers/signatures.ts'

const now = () => Math.floor(Date.now() / 1000)
const NO_MATCH = 'No matching signature found'

test.each([
  [
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    1614265330,
    '{"test": 2432232314}',
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  ],
  [
    'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
    'msg_27UH4WbU6Z5A5EzD8u03UvzRbpk',
    1649367553,
    '{"email":"test@example.com","username":"test_user"}',
    'v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=',
  ],
])("Sluice's signature equals the published vector of %s", (secret, id, timestamp_s, body, signature) => {
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp_s),
    'webhook-signature': signature,
  }
  expect(signStandardWebhook({ id, timestamp_s, body }, [secret])).toEqual(headers)
  expect(signStandardWebhook({ id, timestamp_s, body: Buffer.from(body) }, [secret])).toEqual(headers)
})

test("standardwebhooks, svix and Sluice's own check accept Sluice's signatures for any body and secret", () => {
  const key = fc.uint8Array({ minLength: 24, maxLength: 64 })
  const verified = fc.property(fc.uuid(), fc.json(), key, (id, body, bytes) => {
    const secret = `whsec_${Buffer.from(bytes).toString('base64')}`
    const headers = signStandardWebhook({ id, timestamp_s: now(), body }, [secret])
    for (const verifier of [new Webhook(secret), new SvixWebhook(secret)]) verifier.verify(body, headers)
    return verifyStandard(Buffer.from(body), receivedOf(headers), [secret], now()) === 'valid'
  })
  expect(fc.check(verified)).toMatchObject({ failed: false })
})

test('all verifiers refuse another body, another id, another secret and an old time', () => {
  const [secret, body, id] = [newWebhookSecret(), '{"note":"Caf\u00e9"}', 'event-1']
  const headers = signStandardWebhook({ id, timestamp_s: now(), body }, [secret])
  const old = signStandardWebhook({ id, timestamp_s: now() - 301, body }, [secret])
  const other = newWebhookSecret()
  for (const Verifier of [Webhook, SvixWebhook]) {
    const verify = (received: typeof headers, text = body, by = secret) =>
      new Verifier(by).verify(text, received)
    expect(() => verify(headers, body.replace('\u00e9', 'e'))).toThrow(NO_MATCH)
    expect(() => verify({ ...headers, 'webhook-id': 'event-2' })).toThrow(NO_MATCH)
    expect(() => verify(headers, body, other)).toThrow(NO_MATCH)
    expect(() => verify(old)).toThrow('Message timestamp too old')
  }
  expect(verifyStandard(Buffer.from(body), receivedOf(headers), [other], now())).toBe('mismatch')
  expect(verifyStandard(Buffer.from(body), receivedOf(old), [secret], now())).toBe('stale')
})

test('during a rotation each of the two secrets verifies one of the signatures', () => {
  const secrets = [newWebhookSecret(), newWebhookSecret()]
  const headers = signStandardWebhook({ id: 'event-1', timestamp_s: now(), body: '{}' }, secrets)
  expect(headers['webhook-signature']).toMatch(/^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/)
  for (const secret of secrets) {
    expect(new Webhook(secret).verify('{}', headers)).toEqual({})
    expect(() => new SvixWebhook(secret).verify('{}', headers)).not.toThrow()
    expect(verifyStandard(Buffer.from('{}'), receivedOf(headers), [secret], now())).toBe('valid')
  }
})

test('a new secret has 32 random bytes and is valid', () => {
  const [one, other] = [newWebhookSecret(), newWebhookSecret()]
  expect(one).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(one).not.toBe(other)
  expect(isWebhookSecret(one)).toBe(true)
})

const base64 = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')

test.each([
  ['an empty text', ''],
  ['a secret without bytes', 'whsec_'],
  ['23 bytes', `whsec_${base64(23)}`],
  ['65 bytes', `whsec_${base64(65)}`],
  ['a secret without a prefix', base64(32)],
  ['a text that is not base64', `whsec_${base64(31)}*`],
  ['a trailing blank', `whsec_${base64(32)} `],
])('%s is not a valid secret: signing fails, and the error does not contain the secret', (_name, secret) => {
  expect(isWebhookSecret(secret)).toBe(false)
  const sign = () => signStandardWebhook({ id: 'event-1', timestamp_s: now(), body: '{}' }, [secret])
  expect(sign).toThrow(
    /^The signing secret is missing or invalid: it must be whsec_ and 24 to 64 bytes in base64$/,
  )
})

test('signing without a secret is refused', () => {
  expect(() => signStandardWebhook({ id: 'event-1', timestamp_s: now(), body: '{}' }, [])).toThrow(
    'The signing secret is missing or invalid',
  )
})

function receivedOf(headers: ReturnType<typeof signStandardWebhook>) {
  return {
    id: headers['webhook-id'],
    timestamp: headers['webhook-timestamp'],
    signature: headers['webhook-signature'],
  }
}
