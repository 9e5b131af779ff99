// Invalid Stripe notifications: with wrong signatures, or signed with wrong content.
import { createHmac } from 'node:crypto'
import { type Arbitrary, constant, constantFrom, nat, oneof, record, tuple } from 'fast-check'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/events.ts'
import { NONEXISTENT_ID } from '../mutations.ts'
import { asFields, noticesOf, spoiledBodies, spoiling, toJson, type Fields, type Notifier } from './notice.ts'

/** The object of events with this prefix: its type, ids, statuses and other fields. */
type EventObject = { object: string; ids: string[]; statuses: string[]; fields?: Record<string, unknown> }

const OBJECTS_BY_TYPE: Record<string, EventObject> = {
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

function objectOf(type: string): EventObject {
  const [, found] = Object.entries(OBJECTS_BY_TYPE).find(([prefix]) => type.startsWith(prefix)) ?? []
  if (found !== undefined) return found
  if (EVENT_TYPES.includes(type)) throw new Error(`no object for ${type}: see OBJECTS_BY_TYPE`)
  return { object: 'account', ids: ['acct_fuzz'], statuses: ['x'] }
}

/** Metadata of an object: none, or ids of this tenant's records, of another tenant's records, or of no records. */
const METADATA: Record<string, string>[] = [
  {},
  {
    sluice_payout_id: '@{payout}',
    sluice_payment_id: '@{authorized}',
    sluice_top_up_id: '@{top_up}',
    sluice_kyc_id: '@{kyc}',
  },
  {
    sluice_payout_id: NONEXISTENT_ID,
    sluice_payment_id: NONEXISTENT_ID,
    sluice_top_up_id: 'x',
    sluice_tenant_id: NONEXISTENT_ID,
  },
  {
    sluice_payment_id: '@{other.authorized}',
    sluice_payout_id: '@{other.payout}',
    sluice_kyc_id: '@{other.kyc}',
  },
]

/** An event that never happened, about an object of this tenant, of another tenant or of none. */
const validEvent: Arbitrary<{ fields: Fields; object: Fields }> = constantFrom(...TYPES)
  .chain((type) => {
    const { object, ids, statuses, fields = {} } = objectOf(type)
    const other_ids = ids.filter((id) => id.startsWith('@{')).map((id) => id.replace('@{', '@{other.'))
    return record({
      type: constantFrom(type),
      object: constantFrom(object),
      fields: constantFrom({}, fields),
      id: constantFrom(...ids, ...ids, ...other_ids),
      status: constantFrom(...statuses),
      amount: oneof(constantFrom(100, 500, 1000), nat({ max: 1_000_000 })),
      marks: constantFrom(...METADATA),
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
const event: Arbitrary<string> = tuple(validEvent, spoiling(NAMES), spoiling(NAMES_INSIDE)).map(
  ([{ fields, object }, spoil, spoilInside]) => {
    const own = spoil(fields)
    const has_data = own.some(([name]) => name === 'data')
    return toJson(has_data ? own : [...own, ['data', `{"object":${toJson(spoilInside(object))}}`]])
  },
)

export const stripeNotifier: Notifier = {
  name: 'stripe',
  trusted: false,
  cases: noticesOf(constant('/stripe'), 'application/json; charset=utf-8', spoiledBodies(event)),
  header: 'stripe-signature',
  sign(bytes, { secret, t, twice }) {
    const v1 = createHmac('sha256', secret).update(`${t}.`).update(bytes).digest('hex')
    return [['stripe-signature', twice ? `t=${t},t=${t},v1=${v1}` : `t=${t},v1=${v1}`]]
  },
}
