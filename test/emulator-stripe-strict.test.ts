// Tests that the Stripe emulator refuses the requests that Stripe refuses: unknown, out-of-range and contradictory
// parameters.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startStripeEmulator } from '#emulators/stripe/main.ts'
import { findRoute } from '#providers/sandbox/stripe/routes.ts'
import { clientsOf, EMULATOR_KEY, refusal } from '#test/stripe-emulator.ts'

/** The operations that the product or the tests use, each with the type of its parameters in Stripe's SDK. */
const OPERATIONS: [operation: string, file: string, type: string][] = [
  ['POST payment_intents', 'PaymentIntents', 'PaymentIntentCreateParams'],
  ['GET payment_intents', 'PaymentIntents', 'PaymentIntentListParams'],
  ['GET payment_intents/search', 'PaymentIntents', 'PaymentIntentSearchParams'],
  ['GET payment_intents/pi_1', 'PaymentIntents', 'PaymentIntentRetrieveParams'],
  ['POST payment_intents/pi_1', 'PaymentIntents', 'PaymentIntentUpdateParams'],
  ['POST payment_intents/pi_1/confirm', 'PaymentIntents', 'PaymentIntentConfirmParams'],
  ['POST payment_intents/pi_1/capture', 'PaymentIntents', 'PaymentIntentCaptureParams'],
  ['POST payment_intents/pi_1/cancel', 'PaymentIntents', 'PaymentIntentCancelParams'],
  ['GET charges', 'Charges', 'ChargeListParams'],
  ['GET charges/ch_1', 'Charges', 'ChargeRetrieveParams'],
  ['POST refunds', 'Refunds', 'RefundCreateParams'],
  ['GET refunds', 'Refunds', 'RefundListParams'],
  ['GET refunds/re_1', 'Refunds', 'RefundRetrieveParams'],
  ['POST refunds/re_1', 'Refunds', 'RefundUpdateParams'],
  ['POST refunds/re_1/cancel', 'Refunds', 'RefundCancelParams'],
  ['GET events', 'Events', 'EventListParams'],
  ['GET events/evt_1', 'Events', 'EventRetrieveParams'],
  ['GET disputes', 'Disputes', 'DisputeListParams'],
  ['GET disputes/du_1', 'Disputes', 'DisputeRetrieveParams'],
  ['POST disputes/du_1', 'Disputes', 'DisputeUpdateParams'],
  ['POST disputes/du_1/close', 'Disputes', 'DisputeCloseParams'],
  ['POST payouts', 'Payouts', 'PayoutCreateParams'],
  ['GET payouts', 'Payouts', 'PayoutListParams'],
  ['GET payouts/po_1', 'Payouts', 'PayoutRetrieveParams'],
  ['POST payouts/po_1', 'Payouts', 'PayoutUpdateParams'],
  ['POST payouts/po_1/cancel', 'Payouts', 'PayoutCancelParams'],
  ['POST transfers', 'Transfers', 'TransferCreateParams'],
  ['GET transfers', 'Transfers', 'TransferListParams'],
  ['GET transfers/tr_1', 'Transfers', 'TransferRetrieveParams'],
  ['POST transfers/tr_1', 'Transfers', 'TransferUpdateParams'],
  ['POST transfers/tr_1/reversals', 'Transfers', 'TransferCreateReversalParams'],
  ['GET transfers/tr_1/reversals', 'Transfers', 'TransferListReversalsParams'],
  ['GET transfers/tr_1/reversals/trr_1', 'Transfers', 'TransferRetrieveReversalParams'],
  ['POST topups', 'Topups', 'TopupCreateParams'],
  ['GET topups', 'Topups', 'TopupListParams'],
  ['GET topups/tu_1', 'Topups', 'TopupRetrieveParams'],
  ['POST topups/tu_1', 'Topups', 'TopupUpdateParams'],
  ['POST topups/tu_1/cancel', 'Topups', 'TopupCancelParams'],
  ...['Create', 'List', 'Retrieve', 'Update', 'Cancel', 'Redact'].map(
    (operation): [string, string, string] => {
      const path = {
        Create: 'POST',
        List: 'GET',
        Retrieve: 'GET /vs_1',
        Update: 'POST /vs_1',
        Cancel: 'POST /vs_1/cancel',
        Redact: 'POST /vs_1/redact',
      }[operation]!
      const [method, rest = ''] = path.split(' ')
      return [
        `${method} identity/verification_sessions${rest}`,
        'Identity/VerificationSessions',
        `VerificationSession${operation}Params`,
      ]
    },
  ),
]

/** The names of the parameters in an interface of the SDK, including the parameters for pagination. */
async function readParameters(file: string, type: string): Promise<string[]> {
  const path = fileURLToPath(new URL(`resources/${file}.d.ts`, import.meta.resolve('stripe')))
  const source = await readFile(path, 'utf8')
  const found = new RegExp(
    `^( *)(?:export )?interface ${type}( extends [^{]*)? \\{\\n([^]*?)^\\1\\}`,
    'm',
  ).exec(source)
  if (!found) throw new Error(`the SDK has no ${type}`)
  const [, indent, parents = '', body] = found
  const names = [...body!.matchAll(new RegExp(`^${indent}    (\\w+)\\??: `, 'gm'))].map(([, name]) => name!)
  return parents.includes('PaginationParams') ? [...names, 'limit', 'starting_after', 'ending_before'] : names
}

test.each(OPERATIONS)(
  '%s of the emulator accepts exactly the parameters of the SDK',
  async (operation, file, type) => {
    const [method, path] = operation.split(' ')
    const accepts = [...findRoute(method!, `/v1/${path}`)!.route.accepts.keys()]
    expect(accepts.toSorted()).toEqual([...new Set(await readParameters(file, type))].toSorted())
  },
)

describe('a request', () => {
  let emulator: Awaited<ReturnType<typeof startStripeEmulator>>
  let stripe: Stripe
  beforeAll(async () => {
    emulator = await startStripeEmulator({ port: 0, api_key: EMULATOR_KEY })
    stripe = clientsOf(emulator.url).stripe
  })
  afterAll(() => emulator.close())

  const HOLD = {
    amount: 1000,
    currency: 'usd',
    payment_method: 'pm_card_visa',
    confirm: true,
    capture_method: 'manual' as const,
    automatic_payment_methods: { enabled: true, allow_redirects: 'never' as const },
  }
  const many = (count: number, value = 'v') =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, value]))

  const PAYMENTS: [string, object, string | undefined][] = [
    ['an amount in a currency in upper case', { currency: 'USD' }, 'currency'],
    ['a third decimal', { currency: 'kwd', amount: 10_001 }, 'amount'],
    ['a fraction of ISK', { currency: 'isk', amount: 10_050 }, 'amount'],
    ['a fraction of UGX', { currency: 'ugx', amount: 500_050 }, 'amount'],
    ['51 keys', { metadata: many(51) }, 'metadata'],
    ['a key of 41 characters', { metadata: { ['k'.repeat(41)]: 'v' } }, 'metadata'],
    ['a value of 501 characters', { metadata: { k: 'v'.repeat(501) } }, 'metadata[k]'],
    ['brackets in a key', { metadata: { 'a[b]': 'v' } }, 'metadata'],
    ['a description of 1,001 characters', { description: 'd'.repeat(1001) }, 'description'],
    ['an empty description', { description: '' }, 'description'],
    ['a method of 5,001 characters', { payment_method: 'p'.repeat(5001) }, 'payment_method'],
    ['an unknown capture method', { capture_method: 'later' }, 'capture_method'],
    ['a confirmation that is not a boolean', { confirm: 'yes' }, 'confirm'],
    ['a return URL that is not a URL', { return_url: 'shop' }, 'return_url'],
    [
      'a return URL without confirmation',
      { confirm: false, return_url: 'https://shop.example' },
      'return_url',
    ],
    ['an off-session payment without confirmation', { confirm: false, off_session: true }, 'off_session'],
    ['a parameter of another version', { payment_method_types: ['card'] }, 'payment_method_types'],
    ['two customers', { customer: 'cus_1', customer_account: 'acct_1' }, 'customer'],
    [
      'an unknown rule for redirects',
      { automatic_payment_methods: { enabled: true, allow_redirects: 'x' } },
      'allow_redirects',
    ],
    ['a statement descriptor for a card', { statement_descriptor: 'The shop' }, 'statement_descriptor'],
    [
      'a suffix of 23 characters',
      { statement_descriptor_suffix: 's'.repeat(23) },
      'statement_descriptor_suffix',
    ],
    ['a suffix with a star', { statement_descriptor_suffix: 'SHOP*17' }, 'statement_descriptor_suffix'],
    ['five levels of expansion', { expand: ['latest_charge.a.b.c.d'] }, 'expand'],
    ['an unknown parameter', { reference: 'x' }, 'reference'],
  ]
  test.each(PAYMENTS)('is refused for a payment with %s', async (_name, changes, param) => {
    const params = { ...HOLD, ...changes } as Stripe.PaymentIntentCreateParams
    expect(await refusal(stripe.paymentIntents.create(params))).toMatchObject({ statusCode: 400, param })
  })

  test('is accepted with 50 metadata entries of the maximum length', async () => {
    const metadata = many(49, 'v'.repeat(500))
    const { id } = await stripe.paymentIntents.create({
      ...HOLD,
      metadata: { ...metadata, ['k'.repeat(40)]: 'v' },
    })
    expect(Object.keys((await stripe.paymentIntents.retrieve(id)).metadata)).toHaveLength(50)
  })

  test('is refused for a capture or refund whose amount is finer than the unit of the currency', async () => {
    const { id } = await stripe.paymentIntents.create({ ...HOLD, currency: 'kwd', amount: 10_000 })
    expect(await refusal(stripe.paymentIntents.capture(id, { amount_to_capture: 5_001 }))).toMatchObject({
      statusCode: 400,
      param: 'amount_to_capture',
    })
    await stripe.paymentIntents.capture(id)
    expect(await refusal(stripe.refunds.create({ payment_intent: id, amount: 1_001 }))).toMatchObject({
      statusCode: 400,
      param: 'amount',
    })
  })

  test('is refused for a refund or cancellation with an unknown reason', async () => {
    const { id } = await stripe.paymentIntents.create(HOLD)
    const reason = 'changed_mind' as 'duplicate'
    expect(await refusal(stripe.paymentIntents.cancel(id, { cancellation_reason: reason }))).toMatchObject({
      param: 'cancellation_reason',
    })
    expect(await refusal(stripe.refunds.create({ payment_intent: id, reason }))).toMatchObject({
      param: 'reason',
    })
  })

  test.each(['huf', 'twd', 'ugx', 'isk'])('is refused for a payout of a fraction of %s', async (currency) => {
    const payout = { amount: 10_045, currency, destination: 'ba_success' }
    expect(await refusal(stripe.payouts.create(payout))).toMatchObject({ statusCode: 400, param: 'amount' })
    expect((await stripe.payouts.create({ ...payout, amount: 10_000 })).amount).toBe(10_000)
  })

  const OTHERS: [string, () => Promise<unknown>, string][] = [
    [
      'a payout with an unknown method',
      () => stripe.payouts.create({ amount: 100, currency: 'usd', method: 'pigeon' }),
      'method',
    ],
    [
      'a payout with a long statement',
      () => stripe.payouts.create({ amount: 100, currency: 'usd', statement_descriptor: 's'.repeat(23) }),
      'statement_descriptor',
    ],
    [
      'a payout with a long description',
      () => stripe.payouts.create({ amount: 100, currency: 'usd', description: 'd'.repeat(5001) }),
      'description',
    ],
    [
      'a top-up with a long statement',
      () => stripe.topups.create({ amount: 100, currency: 'usd', statement_descriptor: 's'.repeat(16) }),
      'statement_descriptor',
    ],
    [
      'a top-up from two sources',
      () => stripe.topups.create({ amount: 100, currency: 'usd', source: 'src_1', payment_method: 'pm_1' }),
      'source',
    ],
    [
      'a transfer with an unknown source type',
      () =>
        stripe.transfers.create({
          amount: 100,
          currency: 'usd',
          destination: 'acct_1',
          source_type: 'box',
        }),
      'source_type',
    ],
    [
      'a transfer without a destination',
      () => stripe.transfers.create({ amount: 100, currency: 'usd' } as Stripe.TransferCreateParams),
      'destination',
    ],
    ['a session without a type', () => stripe.identity.verificationSessions.create({}), 'type'],
    [
      'a session of an unknown type',
      () => stripe.identity.verificationSessions.create({ type: 'selfie' }),
      'type',
    ],
    [
      'a session with a return URL that is not a URL',
      () => stripe.identity.verificationSessions.create({ type: 'document', return_url: 'shop' }),
      'return_url',
    ],
    [
      'a list of sessions of an unknown status',
      () => stripe.identity.verificationSessions.list({ status: 'lost' }),
      'status',
    ],
    [
      'a list of top-ups of an unknown status',
      () => stripe.topups.list({ status: 'lost' as 'failed' }),
      'status',
    ],
    ['a list of 0', () => stripe.payouts.list({ limit: 0 }), 'limit'],
    ['a list of 101', () => stripe.refunds.list({ limit: 101 }), 'limit'],
    [
      'a list in both directions',
      () => stripe.events.list({ starting_after: 'evt_1', ending_before: 'evt_2' }),
      'starting_after',
    ],
    [
      'an unknown bound of a time',
      () => stripe.payouts.list({ created: { since: 1 } as Stripe.RangeQueryParam }),
      'created[since]',
    ],
    [
      '21 types of events',
      () => stripe.events.list({ types: Array.from({ length: 21 }, () => 'payout.paid') }),
      'types',
    ],
    [
      'a search by 11 clauses',
      () =>
        stripe.paymentIntents.search({
          query: Array.from({ length: 11 }, () => "status:'canceled'").join(' OR '),
        }),
      'query',
    ],
    ['a search without a query', () => stripe.paymentIntents.search({ query: '' }), 'query'],
  ]
  test.each(OTHERS)('is refused for %s', async (_name, request, param) => {
    expect(await refusal(request())).toMatchObject({ statusCode: 400, param })
  })

  test('is refused with a key of 256 characters, with another API version, or as JSON', async () => {
    const idempotencyKey = 'k'.repeat(256)
    expect((await refusal(stripe.paymentIntents.create(HOLD, { idempotencyKey }))).statusCode).toBe(400)
    const apiVersion = '2020-08-27'
    expect((await refusal(stripe.payouts.list({}, { apiVersion }))).message).toContain('API version')
    const answer = await fetch(`${emulator.url}/v1/topups`, {
      method: 'POST',
      headers: { authorization: `Bearer ${EMULATOR_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ amount: 100, currency: 'usd' }),
    })
    expect(answer.status).toBe(400)
  })
})
