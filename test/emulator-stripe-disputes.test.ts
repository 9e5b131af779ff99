// Tests disputes of the Stripe emulator with Stripe's SDK.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Stripe } from 'stripe'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startStripeEmulator, type StripeEmulator } from '#emulators/stripe/main.ts'
import { eventually } from '#test/payments.ts'
import {
  clientsOf,
  effectsAbout,
  EMULATOR_KEY,
  eventsAbout,
  postForm,
  pressButton,
  refusal,
} from '#test/stripe-emulator.ts'

let emulator: StripeEmulator
let stripe: Stripe
let control: ReturnType<typeof clientsOf>['control']
beforeAll(async () => {
  emulator = await startStripeEmulator({ port: 0, api_key: EMULATOR_KEY })
  ;({ stripe, control } = clientsOf(emulator.url))
})
afterAll(async () => await emulator.close())

const SALE: Stripe.PaymentIntentCreateParams = {
  amount: 1000,
  currency: 'usd',
  capture_method: 'automatic',
  payment_method: 'pm_card_createDispute',
  confirm: true,
  automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
  metadata: { order: '7' },
}

/** Waits for the dispute of a payment intent. */
async function disputeOf(payment_intent: string, client = stripe): Promise<Stripe.Dispute> {
  return await eventually(async () => {
    const { data } = await client.disputes.list({ payment_intent })
    expect(data).toHaveLength(1)
    return data[0]!
  })
}

async function createDispute(
  params: Partial<Stripe.PaymentIntentCreateParams> = {},
): Promise<Stripe.Dispute> {
  const { id } = await stripe.paymentIntents.create({ ...SALE, ...params })
  return await disputeOf(id)
}

test('the dispute of a payment opens after the capture, for the captured amount', async () => {
  const authorized = await stripe.paymentIntents.create({ ...SALE, capture_method: 'manual' })
  await stripe.paymentIntents.capture(authorized.id, { amount_to_capture: 600 })
  const dispute = await disputeOf(authorized.id)
  expect(dispute).toMatchObject({
    object: 'dispute',
    amount: 600,
    balance_transactions: [
      {
        id: expect.stringMatching(/^txn_/),
        object: 'balance_transaction',
        amount: -600,
        currency: 'usd',
        fee: 1500,
        net: -2100,
        reporting_category: 'dispute',
        source: dispute.id,
      },
    ],
    charge: authorized.latest_charge,
    currency: 'usd',
    evidence: { product_description: null },
    evidence_details: { has_evidence: false, submission_count: 0 },
    is_charge_refundable: false,
    livemode: false,
    metadata: {},
    payment_intent: authorized.id,
    reason: 'fraudulent',
    status: 'needs_response',
  })
  expect(dispute.id).toMatch(/^du_/)
  expect(dispute.evidence_details.due_by).toBeGreaterThan(dispute.created)
  expect(await eventsAbout(stripe, dispute.id)).toEqual([
    'charge.dispute.created',
    'charge.dispute.funds_withdrawn',
  ])
  expect((await stripe.charges.retrieve(authorized.latest_charge as string)).disputed).toBe(true)
  expect(await control('GET', `effects?dispute=${dispute.id}`)).toMatchObject({
    count: 1,
    data: [
      {
        effect: 'dispute_withdrawn',
        payment_intent: authorized.id,
        amount: 600,
        source: 'bank',
        metadata: { order: '7' },
      },
    ],
  })
  expect(await refusal(stripe.refunds.create({ payment_intent: authorized.id }))).toMatchObject({
    statusCode: 400,
    code: 'charge_disputed',
  })
})

test('a won dispute returns the money and permits a refund', async () => {
  const { id, payment_intent } = await createDispute()
  const won = await control('POST', `disputes/${id}/close`, { status: 'won' })
  expect(won).toMatchObject({
    id,
    status: 'won',
    balance_transactions: [{ amount: -1000 }, { amount: 1000 }],
  })
  const [first, second] = won.balance_transactions
  expect(first.id).not.toBe(second.id)
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual([
    'charge.dispute.funds_reinstated',
    'charge.dispute.closed',
  ])
  expect(await effectsAbout(control, 'dispute', id)).toEqual([
    ['dispute_withdrawn', 1000, 'bank'],
    ['dispute_reinstated', 1000, 'bank'],
  ])
  expect(await control('POST', `disputes/${id}/close`, { status: 'lost' })).toMatchObject({
    error: { param: 'status' },
  })
  expect(await stripe.refunds.create({ payment_intent: payment_intent as string })).toMatchObject({
    status: 'succeeded',
  })
})

test('a lost dispute does not return the money, until an appeal is won', async () => {
  const { id } = await createDispute()
  expect(await stripe.disputes.close(id)).toMatchObject({ status: 'lost' })
  expect(await refusal(stripe.disputes.close(id))).toMatchObject({ statusCode: 400 })
  expect(await control('POST', `disputes/${id}/close`, { status: 'won' })).toMatchObject({ status: 'won' })
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual([
    'charge.dispute.closed',
    'charge.dispute.funds_reinstated',
    'charge.dispute.closed',
  ])
})

test('submitted evidence starts the review, and can be submitted once', async () => {
  const { id } = await createDispute()
  const evidence = { product_description: 'A chair' }
  const staged = await stripe.disputes.update(id, { evidence, submit: false, metadata: { a: '1' } })
  expect(staged).toMatchObject({ status: 'needs_response', evidence, metadata: { a: '1' } })
  expect(await stripe.disputes.update(id, { evidence: { customer_name: 'Ada' } })).toMatchObject({
    status: 'under_review',
    evidence: { ...evidence, customer_name: 'Ada' },
    evidence_details: { has_evidence: true, submission_count: 1 },
  })
  expect(await refusal(stripe.disputes.update(id, { evidence }))).toMatchObject({ statusCode: 400 })
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual([
    'charge.dispute.updated',
    'charge.dispute.updated',
  ])
  expect(await control('POST', `disputes/${id}/close`, { status: 'lost' })).toMatchObject({ status: 'lost' })
})

test('an inquiry withdraws no money and closes without a decision', async () => {
  const { id, status } = await createDispute({ payment_method: 'pm_card_createDisputeInquiry' })
  expect(status).toBe('warning_needs_response')
  expect(await control('POST', `disputes/${id}/close`, { status: 'won' })).toMatchObject({
    error: { param: 'status' },
  })
  expect(await control('POST', `disputes/${id}/close`, { status: 'warning_closed' })).toMatchObject({
    status: 'warning_closed',
    balance_transactions: [],
  })
  expect(await eventsAbout(stripe, id)).toEqual(['charge.dispute.created', 'charge.dispute.closed'])
  expect(await effectsAbout(control, 'dispute', id)).toEqual([])
})

test('disputes are found by id, payment intent, charge and time, and include the charge and the payment intent on request', async () => {
  const { id, charge, payment_intent, created } = await createDispute()
  const found = async (params: Stripe.DisputeListParams) =>
    (await stripe.disputes.list(params)).data.map((each) => each.id)
  expect(await found({ charge: charge as string })).toEqual([id])
  expect(await found({ charge: charge as string, created: { lt: created } })).toEqual([])
  expect(await found({ limit: 1 })).toEqual([id])
  expect(await stripe.disputes.retrieve(id, { expand: ['charge', 'payment_intent'] })).toMatchObject({
    charge: { id: charge, disputed: true },
    payment_intent: { id: payment_intent },
  })
  expect(await refusal(stripe.disputes.retrieve('du_nobody'))).toMatchObject({ statusCode: 404 })
})

test('a fault applies to the call of a dispute, and the idempotency key replays the response', async () => {
  const { id } = await createDispute()
  await control('POST', 'faults', { match: { path: `${id}/close$` }, fault: 'drop_after' })
  const close = () => postForm(emulator.url, `/v1/disputes/${id}/close`, '', 'close')
  expect(await close().catch(() => 'lost')).toBe('lost')
  const replay = await close()
  expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual(['charge.dispute.closed'])
})

test('the page of the emulator has buttons for the decisions of the bank', async () => {
  const { id } = await createDispute()
  await pressButton(emulator.url, 'close_dispute', id, { value: 'lost' })
  expect(await pressButton(emulator.url, 'close_dispute', id, { value: 'won' })).toContain(
    `<code>${id}</code>`,
  )
  expect((await stripe.disputes.retrieve(id)).status).toBe('won')
})

test('a restarted emulator keeps its disputes and opens each pending dispute once', async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
  const first = await startStripeEmulator({ port: 0, data_dir })
  const before = clientsOf(first.url).stripe
  const { id } = await before.paymentIntents.create(SALE)
  const existing = await disputeOf(id, before)
  const late = await before.paymentIntents.create(SALE)
  await first.close()
  const second = await startStripeEmulator({ port: 0, data_dir })
  const after = clientsOf(second.url).stripe
  expect(await after.disputes.retrieve(existing.id)).toEqual(existing)
  await disputeOf(late.id, after)
  expect((await after.disputes.list()).data).toHaveLength(2)
  await second.close()
  await rm(data_dir, { recursive: true })
})
