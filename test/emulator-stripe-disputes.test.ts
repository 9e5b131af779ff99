// Disputes of the Stripe emulator, as Stripe's own SDK sees them.
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

/** The dispute of a payment intent, once there is one. */
async function disputeOf(payment_intent: string, client = stripe): Promise<Stripe.Dispute> {
  return await eventually(async () => {
    const { data } = await client.disputes.list({ payment_intent })
    expect(data).toHaveLength(1)
    return data[0]!
  })
}

async function disputed(params: Partial<Stripe.PaymentIntentCreateParams> = {}): Promise<Stripe.Dispute> {
  const { id } = await stripe.paymentIntents.create({ ...SALE, ...params })
  return await disputeOf(id)
}

test('a dispute opens after the capture of what was captured, not of what was held', async () => {
  const held = await stripe.paymentIntents.create({ ...SALE, capture_method: 'manual' })
  await stripe.paymentIntents.capture(held.id, { amount_to_capture: 600 })
  const dispute = await disputeOf(held.id)
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
    charge: held.latest_charge,
    currency: 'usd',
    evidence: { product_description: null },
    evidence_details: { has_evidence: false, submission_count: 0 },
    is_charge_refundable: false,
    livemode: false,
    metadata: {},
    payment_intent: held.id,
    reason: 'fraudulent',
    status: 'needs_response',
  })
  expect(dispute.id).toMatch(/^du_/)
  expect(dispute.evidence_details.due_by).toBeGreaterThan(dispute.created)
  expect(await eventsAbout(stripe, dispute.id)).toEqual([
    'charge.dispute.created',
    'charge.dispute.funds_withdrawn',
  ])
  expect((await stripe.charges.retrieve(held.latest_charge as string)).disputed).toBe(true)
  expect(await control('GET', `effects?dispute=${dispute.id}`)).toMatchObject({
    count: 1,
    data: [
      {
        effect: 'dispute_withdrawn',
        payment_intent: held.id,
        amount: 600,
        source: 'bank',
        metadata: { order: '7' },
      },
    ],
  })
  expect(await refusal(stripe.refunds.create({ payment_intent: held.id }))).toMatchObject({
    statusCode: 400,
    code: 'charge_disputed',
  })
})

test('a won dispute gives the money back, and a refund is possible again', async () => {
  const { id, payment_intent } = await disputed()
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

test('a lost dispute keeps the money, until an appeal is won', async () => {
  const { id } = await disputed()
  expect(await stripe.disputes.close(id)).toMatchObject({ status: 'lost' })
  expect(await refusal(stripe.disputes.close(id))).toMatchObject({ statusCode: 400 })
  expect(await control('POST', `disputes/${id}/close`, { status: 'won' })).toMatchObject({ status: 'won' })
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual([
    'charge.dispute.closed',
    'charge.dispute.funds_reinstated',
    'charge.dispute.closed',
  ])
})

test('evidence puts it under review, once', async () => {
  const { id } = await disputed()
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

test('an inquiry takes no money and ends without a winner', async () => {
  const { id, status } = await disputed({ payment_method: 'pm_card_createDisputeInquiry' })
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

test('disputes are found by id, payment intent, charge and time, and show what they are about', async () => {
  const { id, charge, payment_intent, created } = await disputed()
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

test('a fault meets a dispute as anything else, and its key remembers the answer', async () => {
  const { id } = await disputed()
  await control('POST', 'faults', { match: { path: `${id}/close$` }, fault: 'drop_after' })
  const close = () => postForm(emulator.url, `/v1/disputes/${id}/close`, '', 'close')
  expect(await close().catch(() => 'lost')).toBe('lost')
  const again = await close()
  expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
  expect((await eventsAbout(stripe, id)).slice(2)).toEqual(['charge.dispute.closed'])
})

test('the page has buttons for what the bank decides', async () => {
  const { id } = await disputed()
  await pressButton(emulator.url, 'close_dispute', id, { value: 'lost' })
  expect(await pressButton(emulator.url, 'close_dispute', id, { value: 'won' })).toContain(
    `<code>${id}</code>`,
  )
  expect((await stripe.disputes.retrieve(id)).status).toBe('won')
})

test('a restarted emulator knows its disputes, and opens the one that was about to come, once', async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
  const first = await startStripeEmulator({ port: 0, data_dir })
  const before = clientsOf(first.url).stripe
  const { id } = await before.paymentIntents.create(SALE)
  const known = await disputeOf(id, before)
  const late = await before.paymentIntents.create(SALE)
  await first.close()
  const second = await startStripeEmulator({ port: 0, data_dir })
  const after = clientsOf(second.url).stripe
  expect(await after.disputes.retrieve(known.id)).toEqual(known)
  await disputeOf(late.id, after)
  expect((await after.disputes.list()).data).toHaveLength(2)
  await second.close()
  await rm(data_dir, { recursive: true })
})
