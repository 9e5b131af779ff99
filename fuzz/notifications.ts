// Notifications as nobody should send them: wrongly signed, or signed and wrong.
import { createHmac } from 'node:crypto'
import { type Arbitrary, constantFrom, nat, oneof, record, tuple } from 'fast-check'
import { badBytes, badHeaderValue, badSegment, badToken } from './values.ts'
import { binary, type Sent } from './wire.ts'

/** How a body is signed; `header`: with this instead. */
type Signature =
  | { kind: 'genuine' | 'wrong_secret' | 'no_secret' | 'missing' | 'twice'; age_s: number }
  | { kind: 'header'; header: string }

export type Notice = { body: string; signature: Signature; method: string; path: string; type: string | null }

const TYPES = [
  'payment_intent.succeeded',
  'payment_intent.canceled',
  'payment_intent.amount_capturable_updated',
  'payment_intent.payment_failed',
  'charge.refunded',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'account.updated',
]

/** An event about a payment that is ours, which claims what never happened. */
const near: Arbitrary<[string, string][]> = tuple(
  constantFrom(...TYPES),
  constantFrom('succeeded', 'canceled', 'failed', 'requires_capture'),
  nat({ max: 1_000_000 }),
).map(([type, status, amount]) => [
  ['id', '"evt_fuzz_@{fresh}"'],
  ['object', '"event"'],
  ['type', JSON.stringify(type)],
  ['created', '1790000000'],
  ['livemode', 'false'],
  [
    'data',
    JSON.stringify({
      object: {
        id: type.startsWith('payment_intent') ? '@{reference}' : 're_fuzz',
        object: type.startsWith('payment_intent') ? 'payment_intent' : 'refund',
        payment_intent: '@{reference}',
        amount,
        amount_received: amount,
        amount_refunded: amount,
        currency: 'usd',
        status,
        metadata: {},
      },
    }),
  ],
])

const event: Arbitrary<string> = oneof(
  near,
  tuple(near, constantFrom('id', 'type', 'account', 'data', 'created', 'extra', '__proto__'), badToken).map(
    ([fields, name, token]): [string, string][] => [
      ...fields.filter(([each]) => each !== name),
      [name, token],
    ],
  ),
  tuple(
    near,
    constantFrom('id', 'object', 'payment_intent', 'amount', 'metadata', '__proto__'),
    badToken,
  ).map(([fields, name, token]): [string, string][] => [
    ...fields.filter(([each]) => each !== 'data'),
    ['data', `{"object":{"id":"@{reference}","object":"payment_intent",${JSON.stringify(name)}:${token}}}`],
  ]),
).map((fields) => `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`)

const body: Arbitrary<string> = oneof(
  { weight: 6, arbitrary: event.map(binary) },
  { weight: 1, arbitrary: badToken.map(binary) },
  { weight: 1, arbitrary: badBytes },
  {
    weight: 1,
    arbitrary: tuple(event, nat({ max: 300 }), badBytes).map(([text, at, bytes]) => {
      const whole = binary(text)
      return whole.slice(0, at) + bytes + whole.slice(at)
    }),
  },
  {
    weight: 1,
    arbitrary: constantFrom('', '['.repeat(100_000), `"${'x'.repeat(1100 * 1024)}"`, ' '.repeat(500_000)),
  },
)

const genuine: Arbitrary<Signature> = constantFrom<Signature>({ kind: 'genuine', age_s: 0 })
const signature: Arbitrary<Signature> = oneof(
  { weight: 5, arbitrary: genuine },
  {
    weight: 1,
    arbitrary: record({
      kind: constantFrom('genuine', 'wrong_secret', 'no_secret', 'missing', 'twice'),
      age_s: constantFrom(0, 299, 301, -301, 1e9),
    }),
  },
  { weight: 1, arbitrary: badHeaderValue.map((header): Signature => ({ kind: 'header', header })) },
)

/** Every kind of request to the webhooks host. */
export const notices: Arbitrary<Notice> = record({
  body,
  signature,
  method: oneof(
    { weight: 15, arbitrary: constantFrom('POST') },
    constantFrom('GET', 'PUT', 'DELETE', 'OPTIONS'),
  ),
  path: oneof(
    { weight: 15, arbitrary: constantFrom('/stripe') },
    badSegment.map((segment) => `/stripe/${segment}`),
  ),
  type: oneof(
    { weight: 5, arbitrary: constantFrom('application/json; charset=utf-8') },
    constantFrom('text/plain', 'application/x-www-form-urlencoded', null),
  ),
})

/** The notice as a request; its placeholders must be filled before it is signed. */
export function unsigned({ body: content, method, path, type }: Notice): Sent {
  const headers = type === null ? [] : [['content-type', type] as const]
  const target = path.replaceAll(/[^\x21-\x7e]/gu, (each) => encodeURIComponent(each))
  return { operation: 'POST /stripe', method, target, headers, body: content, framing: 'length' }
}

/** The request with the signature that it shall have. */
export function signed(sent: Sent, how: Signature, secret: string): Sent {
  const header = headerOf(how, Buffer.from(sent.body ?? '', 'latin1'), secret)
  return header === null ? sent : { ...sent, headers: [...sent.headers, ['stripe-signature', header]] }
}

function headerOf(how: Signature, bytes: Buffer, secret: string): string | null {
  if (how.kind === 'header') return how.header
  if (how.kind === 'missing') return null
  const t = Math.floor(Date.now() / 1000) - how.age_s
  const key = how.kind === 'wrong_secret' ? 'whsec_wrong' : how.kind === 'no_secret' ? '' : secret
  const v1 = createHmac('sha256', key).update(`${t}.`).update(bytes).digest('hex')
  return how.kind === 'twice' ? `t=${t},t=${t},v1=${v1}` : `t=${t},v1=${v1}`
}
