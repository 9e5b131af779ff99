// Random operations on one balance against a simple model of it: what is available, what is reserved, what each payout is.
// `PAYOUT_MODEL_STEPS` says how many operations a story has, `PAYOUT_MODEL_STORIES` how many stories there are.
import { equal } from 'node:assert/strict'
import {
  array,
  assert as assertAll,
  asyncProperty,
  constantFrom,
  integer,
  nat,
  record,
  type Arbitrary,
} from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkBooks } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { capturedPayment, refund } from '#test/payments.ts'
import { accountOf, payOut, payoutIn, recipient } from '#test/payouts.ts'
import { createWorld, type World } from '#test/world.ts'

const STEPS = Number(process.env.PAYOUT_MODEL_STEPS ?? 15)
const STORIES = Number(process.env.PAYOUT_MODEL_STORIES ?? 2)

let world: World
beforeAll(async () => {
  world = await createWorld()
})
afterAll(async () => await world?.close())

type Status = 'processing' | 'paid' | 'failed' | 'canceled'
type Modeled = { id: string; reference: string; amount: number; status: Status; there: Status; way: string }
type Model = {
  client: Client & { tenant_id: string }
  to: Record<string, string>
  balance: number
  payments: { id: string; amount: number }[]
  payouts: Modeled[]
}

const reserved = ({ payouts }: Model) =>
  payouts.filter(({ status }) => status === 'processing').reduce((sum, { amount }) => sum + amount, 0)
const settle = (reference: string, status: string) =>
  world.provider('stripe').control('POST', `/payouts/${reference}/settle`, { status })

/** What somebody does; `pick` chooses among the payouts. */
type Step = { act: keyof typeof ACTS; amount: number; pick: number }
const step: Arbitrary<Step> = record({
  act: constantFrom<Step['act']>(
    'capture',
    'refund',
    'topUp',
    'payOut',
    'payOut',
    'payOut',
    'keep',
    'cancel',
    'fail',
    'paid',
    'back',
  ),
  amount: integer({ min: 50, max: 900 }),
  pick: nat(),
})

const ACTS = {
  async capture(model: Model, { amount }: Step) {
    const { id } = await capturedPayment(model.client, { amount_minor: amount })
    model.payments.push({ id, amount })
    model.balance += amount
  },
  /** Whatever is left of the balance: it may become negative. */
  async refund(model: Model, { pick }: Step) {
    const [payment] = model.payments.splice(pick % Math.max(1, model.payments.length), 1)
    if (payment === undefined) return
    equal((await refund(model.client, payment.id)).body.status, 'succeeded')
    model.balance -= payment.amount
  },
  async topUp(model: Model, { amount }: Step) {
    const { status } = await model.client.post('/v1/wallet/top_ups', {
      idempotency_key: freshKey(),
      amount_minor: amount,
      currency: 'usd',
      source: 'src_success',
    })
    equal(status, 201)
    model.balance += amount
  },
  payOut: (model: Model, asked: Step) => ask(model, asked, 'ba_manual'),
  keep: (model: Model, asked: Step) => ask(model, asked, 'ba_pending'),
  async cancel(model: Model, { pick }: Step) {
    const payout = model.payouts.at(pick % model.payouts.length)
    if (payout === undefined) return
    const { status } = await model.client.post(`/v1/payouts/${payout.id}/cancel`)
    const possible =
      payout.status === 'processing' && payout.there === 'processing' && payout.way === 'ba_pending'
    equal(status, possible ? 200 : 409)
    if (possible) payout.status = payout.there = 'canceled'
  },
  async fail(model: Model, { pick }: Step) {
    const payout = model.payouts.at(pick % model.payouts.length)
    if (payout === undefined) return
    const { status } = await model.client.post(`/v1/payouts/${payout.id}/fail`, { reason: 'by hand' })
    equal(status, payout.status === 'processing' ? 200 : 409)
    if (status === 200) payout.status = 'failed'
  },
  async paid(model: Model, { pick }: Step) {
    const open = model.payouts.filter(({ there }) => there === 'processing')
    const payout = open.at(pick % open.length)
    if (payout === undefined) return
    await settle(payout.reference, 'paid')
    payout.there = 'paid'
    // The money has left, also where the payout was failed by hand.
    model.balance -= payout.amount
    if (payout.status === 'processing') payout.status = 'paid'
  },
  async back(model: Model, { pick }: Step) {
    const there = model.payouts.filter((each) => each.there === 'processing' || each.there === 'paid')
    const payout = there.at(pick % there.length)
    if (payout === undefined) return
    await settle(payout.reference, 'failed')
    if (payout.there === 'paid') model.balance += payout.amount
    payout.there = 'failed'
    payout.status = 'failed'
  },
} satisfies Record<string, (model: Model, step: Step) => Promise<void>>

async function ask(model: Model, { amount }: Step, way: string): Promise<void> {
  const available = model.balance - reserved(model)
  const { status, body } = await payOut(
    model.client,
    model.to[way]!,
    { amount_minor: amount },
    { prefer: 'wait=20' },
  )
  if (amount > available) {
    expect([status, body.error.context.available_minor]).toEqual([422, available])
    return
  }
  expect([status, body.status]).toEqual([201, 'processing'])
  const { id, processor_reference: reference } = body
  model.payouts.push({ id, reference, amount, status: 'processing', there: 'processing', way })
}

test('every story of random operations ends as the model says', async () => {
  await assertAll(
    asyncProperty(array(step, { minLength: STEPS, maxLength: STEPS }), async (steps) => {
      const client = await world.clientOf()
      const to = {
        ba_manual: await recipient(client, 'ba_manual'),
        ba_pending: await recipient(client, 'ba_pending'),
      }
      const model: Model = { client, to, balance: 0, payments: [], payouts: [] }
      await ACTS.capture(model, { act: 'capture', amount: 1000, pick: 0 })
      for (const each of steps) {
        await ACTS[each.act](model, each)
        for (const { id, status } of model.payouts) await payoutIn(client, id, status)
        await world.drain()
        await expect
          .poll(() => accountOf(world, client.tenant_id), { timeout: 10_000 })
          .toEqual({ balance: model.balance, reserved: reserved(model) })
      }
    }),
    {
      numRuns: STORIES,
      ...(process.env.PAYOUT_MODEL_SEED && { seed: Number(process.env.PAYOUT_MODEL_SEED) }),
    },
  )
  await checkBooks(world)
}, 600_000)
