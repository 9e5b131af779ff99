// Payouts at the same moment as each other, as refunds and captures, and as what ends them: no balance is used twice. Before that,
// random operations on one balance against a simple model of it: what is available, what is reserved, what each payout is.
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
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '#core/ids.ts'
import { requestPayouts, type PayoutRequest } from '#domain/payouts/request.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { waitingForLocks } from '#test/locks.ts'
import { pauseJobs } from '#test/pauses.ts'
import { capturedPayment, heldPayment, refund } from '#test/payments.ts'
import { accountOf, fund, payOut, payoutIn, recipient, rich } from '#test/payouts.ts'
import { createWorld, type World } from '#test/world.ts'

const STEPS = Number(process.env.PAYOUT_MODEL_STEPS ?? 15)
const STORIES = Number(process.env.PAYOUT_MODEL_STORIES ?? 2)

let world: World
beforeAll(async () => {
  world = await createWorld()
})
afterAll(async () => await world?.close())

type Status = 'processing' | 'paid' | 'failed' | 'canceled'
type Modeled = {
  id: string
  reference: string
  amount: number
  status: Status
  there: Status
  way: string
  failing: boolean
}
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
    // One that is to be failed is not let go of there: the cancellation waits for its end, too.
    const joins = payout.status === 'processing' && payout.failing
    equal(status, possible ? 200 : joins ? 202 : 409)
    if (possible) payout.status = payout.there = 'canceled'
  },
  async fail(model: Model, { pick }: Step) {
    const payout = model.payouts.at(pick % model.payouts.length)
    if (payout === undefined) return
    const { status } = await model.client.post(
      `/v1/payouts/${payout.id}/fail`,
      { reason: 'by hand' },
      payout.way === 'ba_pending' ? { prefer: 'wait=20' } : {},
    )
    const open = payout.status === 'processing'
    equal(status, !open ? 409 : payout.way === 'ba_pending' ? 200 : 202)
    if (!open) return
    if (payout.way === 'ba_pending') {
      payout.status = 'failed'
      payout.there = 'canceled'
    } else payout.failing = true
  },
  async paid(model: Model, { pick }: Step) {
    const open = model.payouts.filter(({ there }) => there === 'processing')
    const payout = open.at(pick % open.length)
    if (payout === undefined) return
    await settle(payout.reference, 'paid')
    payout.there = 'paid'
    // The money has left, also where somebody wanted the payout failed.
    model.balance -= payout.amount
    payout.status = 'paid'
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
  model.payouts.push({
    id,
    reference,
    amount,
    status: 'processing',
    there: 'processing',
    way,
    failing: false,
  })
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
  await checkInvariants(world)
}, 600_000)

/** What has left the processor for these payouts and has not come back, by its own record. */
async function paidThere(ids: string[]): Promise<number> {
  const effects: { effect: string; amount: number; metadata: Record<string, string> }[] = await world
    .provider('stripe')
    .effects()
  const signs: Record<string, number> = {
    payout: 1,
    transfer: 1,
    payout_failed: -1,
    payout_canceled: -1,
    transfer_reversed: -1,
  }
  return effects
    .filter(({ metadata }) => ids.includes(metadata['sluice_payout_id'] ?? ''))
    .reduce((sum, { effect, amount }) => sum + (signs[effect] ?? 0) * amount, 0)
}

describe('a tenant that fails its own payouts is not paid more than its balance', () => {
  test('one after the other, while the processor has each', async () => {
    const client = await rich(world, 1000)
    const to = await recipient(client, 'ba_manual')
    const made: any[] = []
    for (let nth = 0; nth < 4; nth++) {
      const { status, body } = await payOut(client, to, { amount_minor: 1000 }, { prefer: 'wait=20' })
      if (status === 422) continue
      made.push(body)
      const failed = await client.post(`/v1/payouts/${body.id}/fail`, { reason: 'it never arrived' })
      expect(failed.status).toBeLessThan(300)
    }
    expect(made.map(({ status }) => status)).toEqual(['processing'])
    for (const { processor_reference } of made) await settle(processor_reference, 'paid')
    await world.drain()
    expect(await paidThere(made.map(({ id }) => id))).toBe(1000)
    await expect
      .poll(() => accountOf(world, client.tenant_id), { timeout: 10_000 })
      .toEqual({ balance: 0, reserved: 0 })
  })

  test('100 payouts, each failed and settled while the others are made', async () => {
    const client = await rich(world, 1000)
    const to = await Promise.all(
      ['ba_manual', 'ba_pending', 'acct_success', 'ba_refused', 'ba_success'].map((way) =>
        recipient(client, way),
      ),
    )
    const ids: string[] = []
    const one = async (nth: number) => {
      const { status, body } = await payOut(
        client,
        to[nth % to.length]!,
        { amount_minor: 250 },
        nth % 2 === 0 ? { prefer: 'wait=20' } : {},
      )
      const id = status === 201 ? body.id : body.error?.context?.payout_id
      if (id === undefined) return
      ids.push(id)
      const { processor_reference } = body
      await Promise.all([
        client.post(`/v1/payouts/${id}/fail`, { reason: 'by hand' }),
        nth % 3 === 0 && client.post(`/v1/payouts/${id}/cancel`),
        processor_reference?.startsWith('po_') === true &&
          nth % 3 === 1 &&
          settle(processor_reference, nth % 4 === 0 ? 'failed' : 'paid').catch(() => undefined),
      ])
    }
    for (let wave = 0; wave < 5; wave++)
      await Promise.all(Array.from({ length: 20 }, (_, nth) => one(wave * 20 + nth)))
    expect(ids.length).toBeGreaterThan(4)
    await world.drain()
    // What is still under way there is paid now; the emulator refuses the others. No answer may have told of it.
    const there = await world.sql<{ processor_reference: string }[]>`
      select processor_reference from payouts where id = any(${ids}::uuid[]) and processor_reference like 'po\\_%'`
    for (const { processor_reference } of there)
      await settle(processor_reference, 'paid').catch(() => undefined)
    await world.drain()
    await expect.poll(async () => (await accountOf(world, client.tenant_id)).reserved).toBe(0)
    const paid = await paidThere(ids)
    expect(paid).toBeLessThanOrEqual(1000)
    expect((await accountOf(world, client.tenant_id)).balance).toBe(1000 - paid)
    await checkInvariants(world)
  }, 180_000)
})

describe('at the same moment', () => {
  // These are about what is accepted: the processor is not asked.
  beforeAll(async () => await pauseJobs(world.sql, { queue: 'payouts' }))

  const times = <T>(count: number, work: (nth: number) => Promise<T>) =>
    Promise.all(Array.from({ length: count }, (_, nth) => work(nth)))
  const accepted = (answers: { status: number }[]) => answers.filter(({ status }) => status === 201).length

  test('100 payouts of the whole balance at once: one is accepted, and the others are told what is left', async () => {
    const client = await rich(world, 1000)
    const to = await recipient(client)
    const answers = await times(100, () => payOut(client, to, { amount_minor: 1000 }))
    expect(accepted(answers)).toBe(1)
    for (const { status, body } of answers.filter((each) => each.status !== 201)) {
      expect([status, body.error.code]).toEqual([422, 'insufficient_balance'])
      expect(body.error.context).toEqual({ available_minor: 0, requested_minor: 1000, currency: 'usd' })
    }
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  test('many payouts of parts, and from two keys of one tenant: never more than there is, and all of it', async () => {
    const client = await rich(world, 1000)
    const to = await recipient(client)
    const answers = await times(60, () => payOut(client, to, { amount_minor: 100 }))
    expect(accepted(answers)).toBe(10)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  describe('several payouts in one statement', () => {
    async function requestAll(tenant_id: string, recipient_id: string, amounts: number[]) {
      const requests = amounts.map((amount_minor): PayoutRequest => ({
        exact: true,
        tenant_id,
        payout_id: newId(),
        job_id: newId(),
        event_id: newId(),
        will_wake: false,
        idempotency_key: freshKey(),
        route: 'POST /v1/payouts',
        fingerprint: '',
        request_id: null,
        amount_minor,
        currency: 'usd',
        recipient_id,
        description: null,
        metadata: {},
        processor: 'stripe',
      }))
      const result = await requestPayouts(world.sql, requests)
      return requests.map(({ payout_id }) => result.get(payout_id)!)
    }

    test('are judged one after the other: one that is too large takes nothing from the next', async () => {
      const client = await rich(world, 100)
      const to = await recipient(client)
      const judged = await requestAll(client.tenant_id, to, [60, 60, 30, 20, 10])
      expect(judged.map(({ result }) => result === 'accepted')).toEqual([true, false, true, false, true])
      expect(judged.map(({ available_minor }) => available_minor)).toEqual([100, 40, 40, 10, 10])
      expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 100, reserved: 100 })
    })

    test('of two tenants do not touch each other, and one without any money has none', async () => {
      const [one, other] = [await rich(world, 100), await world.clientOf()]
      const judged = await requestAll(one.tenant_id, await recipient(one), [100])
      expect(judged).toMatchObject([
        { result: 'accepted', available_minor: 100, payout: { status: 'pending' } },
      ])
      const poor = await requestAll(other.tenant_id, await recipient(other), [1])
      expect(poor).toEqual([{ result: 'insufficient_balance', available_minor: 0 }])
      const strange = await requestAll(other.tenant_id, await recipient(one), [1])
      expect(strange).toEqual([{ result: 'recipient_not_found', available_minor: null }])
    })
  })

  test('one key 100 times at once: one payout, the others replay it', async () => {
    const client = await rich(world, 1000)
    const to = await recipient(client)
    const body = { idempotency_key: freshKey(), amount_minor: 1000 }
    const answers = await times(100, () => payOut(client, to, body))
    expect(accepted(answers)).toBe(100)
    expect(new Set(answers.map((each) => each.body.id)).size).toBe(1)
    const replayed = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')
    expect(replayed).toHaveLength(99)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
    const other = await payOut(client, to, { ...body, amount_minor: 1 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('payouts, refunds and captures at once add up; a refund may make the balance negative', async () => {
    const client = await rich(world, 3000)
    const to = await recipient(client)
    const paid = await times(6, () => capturedPayment(client, { amount_minor: 500 }))
    const held = await times(6, () => heldPayment(client, { amount_minor: 500 }))
    const asked = { payouts: 0 }
    await Promise.all([
      ...paid.map(async ({ id }) => expect((await refund(client, id)).status).toBe(201)),
      ...held.map(async ({ id }) =>
        expect((await client.post(`/v1/payments/${id}/capture`)).status).toBe(200),
      ),
      times(80, async () => {
        const { status } = await payOut(client, to, { amount_minor: 100 })
        if (status === 201) asked.payouts += 1
      }),
    ])
    const account = await accountOf(world, client.tenant_id)
    expect(account).toEqual({ balance: 6000, reserved: asked.payouts * 100 })
    expect(asked.payouts).toBeGreaterThanOrEqual(30)
    // All that is left is paid out; then a refund takes more than there is.
    const rest = account.balance - account.reserved
    if (rest > 0) await payOut(client, to, { amount_minor: rest })
    await refund(client, held[0].id)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 5500, reserved: 6000 })
    const refused = await payOut(client, to, { amount_minor: 1 })
    expect(refused.body.error.context).toMatchObject({ available_minor: -500 })
  })

  test('a payout that is canceled or failed while others ask frees its amount for one of them only', async () => {
    const client = await rich(world, 1000)
    const to = await recipient(client)
    const { body } = await payOut(client, to, { amount_minor: 1000 })
    const [ends, answers] = await Promise.all([
      times(20, (nth) =>
        nth % 2 === 0
          ? client.post(`/v1/payouts/${body.id}/cancel`)
          : client.post(`/v1/payouts/${body.id}/fail`, { reason: 'by hand' }),
      ),
      times(50, () => payOut(client, to, { amount_minor: 1000 })),
    ])
    expect(ends.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const end of ends.filter(({ status }) => status !== 200))
      expect(['payout_not_cancelable', 'payout_not_failable']).toContain(end.body.error.code)
    expect(accepted(answers)).toBeLessThanOrEqual(1)
    if (accepted(answers) === 0) await payOut(client, to, { amount_minor: 1000 })
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  test('payouts of several currencies and tenants at once do not block each other for good', async () => {
    const clients = await times(3, () => world.clientOf())
    await Promise.all(
      clients.flatMap((client) => ['USD', 'EUR'].map((currency) => fund(client, 1000, currency))),
    )
    const answers = await Promise.all(
      clients.flatMap((client) =>
        ['usd', 'EUR'].map(async (currency) => {
          const to = await recipient(client, 'ba_success', { currency: currency.toLowerCase() })
          return await times(20, () => payOut(client, to, { amount_minor: 100, currency }))
        }),
      ),
    )
    expect(answers.map(accepted)).toEqual([10, 10, 10, 10, 10, 10])
  })

  test('of an account that is locked by others: its next ones wait together, and those of other accounts go on', async () => {
    const [hot, other] = [await rich(world, 1000), await rich(world, 1000)]
    const [to, to_other] = [await recipient(hot), await recipient(other)]
    const answers: ReturnType<typeof payOut>[] = []
    const blocker = await world.sql.reserve()
    try {
      await blocker`begin`
      await blocker`select from ledger_accounts where tenant_id = ${hot.tenant_id} for update`
      for (let wave = 0; wave < 6; wave++) {
        answers.push(payOut(hot, to))
        await waitingForLocks(world.sql, 1)
        expect((await payOut(other, to_other)).status).toBe(201)
      }
    } finally {
      await blocker`rollback`
      blocker.release()
    }
    expect(accepted(await Promise.all(answers))).toBe(6)
    expect(await accountOf(world, hot.tenant_id)).toEqual({ balance: 1000, reserved: 600 })
  })
})
