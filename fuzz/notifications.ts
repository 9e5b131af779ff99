// Notifications as nobody should send them: wrongly signed, or signed and wrong.
import { createHmac } from 'node:crypto'
import { type Arbitrary, constantFrom, nat, oneof, record, tuple } from 'fast-check'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/news.ts'
import { NOBODYS } from './mutations.ts'
import { badBytes, badHeaderValue, badSegment, badToken } from './values.ts'
import { binary, type Sent } from './wire.ts'

/** How a body is signed; `header`: with this instead. */
type Signature =
  | { kind: 'genuine' | 'wrong_secret' | 'no_secret' | 'missing' | 'twice'; age_s: number }
  | { kind: 'header'; header: string }

export type Notice = { body: string; signature: Signature; method: string; path: string; type: string | null }

/** What events of this prefix are about: the word for it, what stands for its id, its statuses, and other fields. */
type About = { object: string; ids: string[]; statuses: string[]; fields?: Record<string, unknown> }

const ABOUT: Record<string, About> = {
  'payment_intent.': {
    object: 'payment_intent',
    ids: ['@{reference}'],
    statuses: ['succeeded', 'canceled', 'requires_capture', 'processing', 'requires_payment_method'],
  },
  'refund.': {
    object: 'refund',
    ids: ['@{refund_reference}', 're_fuzz'],
    statuses: ['succeeded', 'failed', 'pending', 'canceled'],
    fields: { payment_intent: '@{reference}' },
  },
  'charge.dispute.': {
    object: 'dispute',
    ids: ['@{dispute_reference}', 'du_fuzz'],
    statuses: ['won', 'lost', 'needs_response', 'prevented', 'warning_closed'],
    fields: { payment_intent: '@{reference}', balance_transactions: [{ id: 'txn_fuzz', amount: -1 }] },
  },
  'charge.': { object: 'charge', ids: ['ch_fuzz'], statuses: ['succeeded', 'failed'] },
  'payout.': {
    object: 'payout',
    ids: ['@{payout_reference}', 'po_fuzz'],
    statuses: ['pending', 'in_transit', 'paid', 'failed', 'canceled'],
    fields: { arrival_date: 1790000000, failure_code: 'no_account' },
  },
  'transfer.': {
    object: 'transfer',
    ids: ['@{transfer_reference}', 'tr_fuzz'],
    statuses: ['paid'],
    fields: { reversed: true, amount_reversed: 50 },
  },
  'topup.': {
    object: 'topup',
    ids: ['@{top_up_reference}', 'tu_fuzz'],
    statuses: ['pending', 'succeeded', 'failed', 'canceled', 'reversed'],
  },
  'identity.verification_session.': {
    object: 'identity.verification_session',
    ids: ['@{session_reference}', 'vs_fuzz'],
    statuses: ['requires_input', 'processing', 'verified', 'canceled'],
    fields: { redaction: { status: 'redacted' }, last_error: { code: 'abandoned', reason: 'x' } },
  },
}
const TYPES = [...EVENT_TYPES, 'charge.refunded', 'payout.created', 'account.updated']

function aboutOf(type: string): About {
  const [, about] = Object.entries(ABOUT).find(([prefix]) => type.startsWith(prefix)) ?? []
  if (about !== undefined) return about
  if (EVENT_TYPES.includes(type)) throw new Error(`nothing is known of ${type}: see ABOUT`)
  return { object: 'account', ids: ['acct_fuzz'], statuses: ['x'] }
}

/** Marks by which an object is known as ours, or as nobody's, or as another tenant's. */
const MARKS: Record<string, string>[] = [
  {},
  {
    sluice_payout_id: '@{payout}',
    sluice_payment_id: '@{held}',
    sluice_top_up_id: '@{top_up}',
    sluice_kyc_id: '@{kyc}',
  },
  { sluice_payout_id: NOBODYS, sluice_payment_id: NOBODYS, sluice_top_up_id: 'x', sluice_tenant_id: NOBODYS },
  { sluice_payment_id: '@{other.held}', sluice_payout_id: '@{other.payout}', sluice_kyc_id: '@{other.kyc}' },
]

type Fields = [string, string][]
/** An event about what is ours, another tenant's or nobody's, which claims what never happened. */
const near: Arbitrary<{ fields: Fields; object: Fields }> = constantFrom(...TYPES)
  .chain((type) => {
    const { object, ids, statuses, fields = {} } = aboutOf(type)
    const others = ids.filter((id) => id.startsWith('@{')).map((id) => id.replace('@{', '@{other.'))
    return record({
      type: constantFrom(type),
      object: constantFrom(object),
      fields: constantFrom({}, fields),
      id: constantFrom(...ids, ...ids, ...others),
      status: constantFrom(...statuses),
      amount: oneof(constantFrom(100, 500, 1000), nat({ max: 1_000_000 })),
      marks: constantFrom(...MARKS),
      api_version: oneof(
        { weight: 3, arbitrary: constantFrom(API_VERSION) },
        constantFrom('2020-08-27', null),
      ),
    })
  })
  .map(({ type, object, fields, id, status, amount, marks, api_version }) => ({
    fields: asFields({
      id: 'evt_fuzz_@{fresh}',
      object: 'event',
      type,
      created: 1790000000,
      livemode: false,
      api_version,
    }),
    object: asFields({
      id,
      object,
      amount,
      amount_received: amount,
      amount_refunded: amount,
      amount_capturable: amount,
      currency: 'usd',
      status,
      metadata: marks,
      ...fields,
    }),
  }))

function asFields(object: Record<string, unknown>): Fields {
  return Object.entries(object).map(([name, value]) => [name, JSON.stringify(value)])
}

const NAMES = ['id', 'type', 'account', 'data', 'created', 'api_version', 'extra', '__proto__']
const NAMES_INSIDE = [
  'id',
  'object',
  'payment_intent',
  'amount',
  'currency',
  'status',
  'metadata',
  '__proto__',
]
const replaced = (fields: Fields, name: string, token: string): Fields => [
  ...fields.filter(([each]) => each !== name),
  [name, token],
]
const event: Arbitrary<string> = oneof(
  near,
  tuple(near, constantFrom(...NAMES), badToken).map(([{ fields, object }, name, token]) => ({
    fields: replaced(fields, name, token),
    object,
  })),
  tuple(near, constantFrom(...NAMES_INSIDE), badToken).map(([{ fields, object }, name, token]) => ({
    fields,
    object: replaced(object, name, token),
  })),
).map(({ fields, object }) => {
  const has_data = fields.some(([name]) => name === 'data')
  return written(has_data ? fields : [...fields, ['data', `{"object":${written(object)}}`]])
})

function written(fields: Fields): string {
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

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
