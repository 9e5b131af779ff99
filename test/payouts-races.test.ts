// Concurrent payouts, refunds, captures and cancellations never use a balance twice. Random operations on one balance
// match a model of its available amount, its reserved amount and the status of each payout. `PAYOUT_MODEL_STEPS` sets
// the operations per scenario, `PAYOUT_MODEL_STORIES` the number of scenarios.
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
import { describe, expect } from 'vitest'
import { newId } from '#core/ids.ts'
import { requestPayouts, type PayoutRequest } from '#domain/payouts/request.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { waitingForLocks } from '#test/locks.ts'
import { pauseJobs } from '#test/pauses.ts'
import { capturedPayment, authorizedPayment, refund } from '#test/payments.ts'
import { accountOf, fund, payOut, payoutIn, recipient, clientWithBalance } from '#test/payouts.ts'
import { testIn, type World } from '#test/world.ts'

const STEPS = Number(process.env.PAYOUT_MODEL_STEPS ?? 15)
const SCENARIOS = Number(process.env.PAYOUT_MODEL_STORIES ?? 2)

const test = testIn({ env: { DATABASE_POOL: '8' } })

type Status = 'processing' | 'paid' | 'failed' | 'canceled'
type ModeledPayout = {
  id: string
  reference: string
  amount: number
  status: Status
  processor_status: Status
  destination: string
  failing: boolean
}
type Model = {
  world: World
  client: Client & { tenant_id: string }
  to: Record<string, string>
  balance: number
  payments: { id: string; amount: number }[]
  payouts: ModeledPayout[]
}

const reserved = ({ payouts }: Model) =>
  payouts.filter(({ status }) => status === 'processing').reduce((sum, { amount }) => sum + amount, 0)
const settle = (world: World, reference: string, status: string) =>
  world.provider('stripe').control('POST', `/payouts/${reference}/settle`, { status })

/** An operation. `pick` selects one of the payouts or payments. */
type Step = { operation: keyof typeof OPERATIONS; amount: number; pick: number }
const step: Arbitrary<Step> = record({
  operation: constantFrom<Step['operation']>(
    'capture',
    'refund',
    'topUp',
    'payOut',
    'payOut',
    'payOut',
    'payOutPending',
    'cancel',
    'fail',
    'settlePaid',
    'settleFailed',
  ),
  amount: integer({ min: 50, max: 900 }),
  pick: nat(),
})

const OPERATIONS = {
  async capture(model: Model, { amount }: Step) {
    const { id } = await capturedPayment(model.client, { amount_minor: amount })
    model.payments.push({ id, amount })
    model.balance += amount
  },
  /** Refunds a payment whatever the balance is; the balance may become negative. */
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
  payOut: (model: Model, step: Step) => requestPayout(model, step, 'ba_manual'),
  payOutPending: (model: Model, step: Step) => requestPayout(model, step, 'ba_pending'),
  async cancel(model: Model, { pick }: Step) {
    const payout = model.payouts.at(pick % model.payouts.length)
    if (payout === undefined) return
    const { status } = await model.client.post(`/v1/payouts/${payout.id}/cancel`)
    const possible =
      payout.status === 'processing' &&
      payout.processor_status === 'processing' &&
      payout.destination === 'ba_pending'
    // A payout whose failure was requested is not canceled at the processor: the cancellation waits for the end of the
    // payout.
    const joins = payout.status === 'processing' && payout.failing
    equal(status, possible ? 200 : joins ? 202 : 409)
    if (possible) payout.status = payout.processor_status = 'canceled'
  },
  async fail(model: Model, { pick }: Step) {
    const payout = model.payouts.at(pick % model.payouts.length)
    if (payout === undefined) return
    const { status } = await model.client.post(
      `/v1/payouts/${payout.id}/fail`,
      { reason: 'by hand' },
      payout.destination === 'ba_pending' ? { prefer: 'wait=20' } : {},
    )
    const open = payout.status === 'processing'
    equal(status, !open ? 409 : payout.destination === 'ba_pending' ? 200 : 202)
    if (!open) return
    if (payout.destination === 'ba_pending') {
      payout.status = 'failed'
      payout.processor_status = 'canceled'
    } else payout.failing = true
  },
  async settlePaid(model: Model, { pick }: Step) {
    const open = model.payouts.filter(({ processor_status }) => processor_status === 'processing')
    const payout = open.at(pick % open.length)
    if (payout === undefined) return
    await settle(model.world, payout.reference, 'paid')
    payout.processor_status = 'paid'
    // The money has left, even if a failure was requested.
    model.balance -= payout.amount
    payout.status = 'paid'
  },
  async settleFailed(model: Model, { pick }: Step) {
    const unfailed = model.payouts.filter(
      (each) => each.processor_status === 'processing' || each.processor_status === 'paid',
    )
    const payout = unfailed.at(pick % unfailed.length)
    if (payout === undefined) return
    await settle(model.world, payout.reference, 'failed')
    if (payout.processor_status === 'paid') model.balance += payout.amount
    payout.processor_status = 'failed'
    payout.status = 'failed'
  },
} satisfies Record<string, (model: Model, step: Step) => Promise<void>>

async function requestPayout(model: Model, { amount }: Step, destination: string): Promise<void> {
  const available = model.balance - reserved(model)
  const { status, body } = await payOut(
    model.client,
    model.to[destination]!,
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
    processor_status: 'processing',
    destination,
    failing: false,
  })
}

test('the balances and payouts after random operations match the model, in every scenario', async ({
  world,
}) => {
  await assertAll(
    asyncProperty(array(step, { minLength: STEPS, maxLength: STEPS }), async (steps) => {
      const client = await world.clientOf()
      const to = {
        ba_manual: await recipient(client, 'ba_manual'),
        ba_pending: await recipient(client, 'ba_pending'),
      }
      const model: Model = { world, client, to, balance: 0, payments: [], payouts: [] }
      await OPERATIONS.capture(model, { operation: 'capture', amount: 1000, pick: 0 })
      for (const each of steps) {
        await OPERATIONS[each.operation](model, each)
        for (const { id, status } of model.payouts) await payoutIn(client, id, status)
        await world.drain()
        await expect
          .poll(() => accountOf(world, client.tenant_id), { timeout: 10_000 })
          .toEqual({ balance: model.balance, reserved: reserved(model) })
      }
    }),
    {
      numRuns: SCENARIOS,
      ...(process.env.PAYOUT_MODEL_SEED && { seed: Number(process.env.PAYOUT_MODEL_SEED) }),
    },
  )
  await checkInvariants(world)
}, 600_000)

/**
 * The amount that the processor has paid and not returned for these payouts, according to the processor's own record.
 */
async function paidAtProcessor(world: World, ids: string[]): Promise<number> {
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

describe('a tenant cannot exceed its balance by failing its own payouts', () => {
  test('in sequential requests, each while the payout is at the processor', async ({ world }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await recipient(client, 'ba_manual')
    const payouts: any[] = []
    for (let nth = 0; nth < 4; nth++) {
      const { status, body } = await payOut(client, to, { amount_minor: 1000 }, { prefer: 'wait=20' })
      if (status === 422) continue
      payouts.push(body)
      const failed = await client.post(`/v1/payouts/${body.id}/fail`, { reason: 'it never arrived' })
      expect(failed.status).toBeLessThan(300)
    }
    expect(payouts.map(({ status }) => status)).toEqual(['processing'])
    for (const { processor_reference } of payouts) await settle(world, processor_reference, 'paid')
    await world.drain()
    expect(
      await paidAtProcessor(
        world,
        payouts.map(({ id }) => id),
      ),
    ).toBe(1000)
    await expect
      .poll(() => accountOf(world, client.tenant_id), { timeout: 10_000 })
      .toEqual({ balance: 0, reserved: 0 })
  })

  test('with 100 payouts, each of which is failed and settled while others are created', async ({
    world,
  }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await Promise.all(
      ['ba_manual', 'ba_pending', 'acct_success', 'ba_refused', 'ba_success'].map((destination) =>
        recipient(client, destination),
      ),
    )
    const ids: string[] = []
    const createAndEnd = async (nth: number) => {
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
          settle(world, processor_reference, nth % 4 === 0 ? 'failed' : 'paid').catch(() => undefined),
      ])
    }
    for (let batch = 0; batch < 5; batch++)
      await Promise.all(Array.from({ length: 20 }, (_, nth) => createAndEnd(batch * 20 + nth)))
    expect(ids.length).toBeGreaterThan(4)
    await world.drain()
    // Marks all payouts at the processor as paid; the emulator refuses this for payouts that are final. The references
    // are read from the database, because some responses have no reference.
    const at_processor = await world.sql<{ processor_reference: string }[]>`
      select processor_reference from payouts where id = any(${ids}::uuid[]) and processor_reference like 'po\\_%'`
    for (const { processor_reference } of at_processor)
      await settle(world, processor_reference, 'paid').catch(() => undefined)
    await world.drain()
    await expect.poll(async () => (await accountOf(world, client.tenant_id)).reserved).toBe(0)
    const paid = await paidAtProcessor(world, ids)
    expect(paid).toBeLessThanOrEqual(1000)
    expect((await accountOf(world, client.tenant_id)).balance).toBe(1000 - paid)
    await checkInvariants(world)
  })
})

describe('concurrent requests', () => {
  // These tests are only about acceptance: no call reaches the processor.
  test.beforeAll(async ({ world }) => await pauseJobs(world.sql, { queue: 'payouts' }))

  const repeat = <T>(count: number, work: (nth: number) => Promise<T>) =>
    Promise.all(Array.from({ length: count }, (_, nth) => work(nth)))
  const accepted = (answers: { status: number }[]) => answers.filter(({ status }) => status === 201).length

  test('for 100 payouts of the whole balance create one payout; the others are refused with the remaining amount', async ({
    world,
  }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await recipient(client)
    const answers = await repeat(100, () => payOut(client, to, { amount_minor: 1000 }))
    expect(accepted(answers)).toBe(1)
    for (const { status, body } of answers.filter((each) => each.status !== 201)) {
      expect([status, body.error.code]).toEqual([422, 'insufficient_balance'])
      expect(body.error.context).toEqual({ available_minor: 0, requested_minor: 1000, currency: 'usd' })
    }
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  test('for many partial payouts use exactly the balance', async ({ world }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await recipient(client)
    const answers = await repeat(60, () => payOut(client, to, { amount_minor: 100 }))
    expect(accepted(answers)).toBe(10)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  describe('for several payouts in one statement', () => {
    async function requestAll(world: World, tenant_id: string, recipient_id: string, amounts: number[]) {
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

    test('are checked in order, and a refused payout reserves nothing', async ({ world }) => {
      const client = await clientWithBalance(world, 100)
      const to = await recipient(client)
      const judged = await requestAll(world, client.tenant_id, to, [60, 60, 30, 20, 10])
      expect(judged.map(({ result }) => result === 'accepted')).toEqual([true, false, true, false, true])
      expect(judged.map(({ available_minor }) => available_minor)).toEqual([100, 40, 40, 10, 10])
      expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 100, reserved: 100 })
    })

    test('do not affect another tenant, and the available amount of a tenant without money is zero', async ({
      world,
    }) => {
      const [funded, other] = [await clientWithBalance(world, 100), await world.clientOf()]
      const judged = await requestAll(world, funded.tenant_id, await recipient(funded), [100])
      expect(judged).toMatchObject([
        { result: 'accepted', available_minor: 100, payout: { status: 'pending' } },
      ])
      const without_money = await requestAll(world, other.tenant_id, await recipient(other), [1])
      expect(without_money).toEqual([{ result: 'insufficient_balance', available_minor: 0 }])
      const foreign_recipient = await requestAll(world, other.tenant_id, await recipient(funded), [1])
      expect(foreign_recipient).toEqual([{ result: 'recipient_not_found', available_minor: null }])
    })
  })

  test('with one key create one payout, and 99 of 100 requests replay it', async ({ world }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await recipient(client)
    const body = { idempotency_key: freshKey(), amount_minor: 1000 }
    const answers = await repeat(100, () => payOut(client, to, body))
    expect(accepted(answers)).toBe(100)
    expect(new Set(answers.map((each) => each.body.id)).size).toBe(1)
    const replayed = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')
    expect(replayed).toHaveLength(99)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
    const other = await payOut(client, to, { ...body, amount_minor: 1 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('for payouts, refunds and captures keep the balance correct, and a refund may make the balance negative', async ({
    world,
  }) => {
    const client = await clientWithBalance(world, 3000)
    const to = await recipient(client)
    const paid = await repeat(6, () => capturedPayment(client, { amount_minor: 500 }))
    const authorized = await repeat(6, () => authorizedPayment(client, { amount_minor: 500 }))
    const counters = { payouts: 0 }
    await Promise.all([
      ...paid.map(async ({ id }) => expect((await refund(client, id)).status).toBe(201)),
      ...authorized.map(async ({ id }) =>
        expect((await client.post(`/v1/payments/${id}/capture`)).status).toBe(200),
      ),
      repeat(80, async () => {
        const { status } = await payOut(client, to, { amount_minor: 100 })
        if (status === 201) counters.payouts += 1
      }),
    ])
    const account = await accountOf(world, client.tenant_id)
    expect(account).toEqual({ balance: 6000, reserved: counters.payouts * 100 })
    expect(counters.payouts).toBeGreaterThanOrEqual(30)
    // Pays out the remaining amount, so that a refund makes the balance negative.
    const rest = account.balance - account.reserved
    if (rest > 0) await payOut(client, to, { amount_minor: rest })
    await refund(client, authorized[0].id)
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 5500, reserved: 6000 })
    const refused = await payOut(client, to, { amount_minor: 1 })
    expect(refused.body.error.context).toMatchObject({ available_minor: -500 })
  })

  test('use the freed amount of a canceled or failed payout for one other payout', async ({ world }) => {
    const client = await clientWithBalance(world, 1000)
    const to = await recipient(client)
    const { body } = await payOut(client, to, { amount_minor: 1000 })
    const [ends, answers] = await Promise.all([
      repeat(20, (nth) =>
        nth % 2 === 0
          ? client.post(`/v1/payouts/${body.id}/cancel`)
          : client.post(`/v1/payouts/${body.id}/fail`, { reason: 'by hand' }),
      ),
      repeat(50, () => payOut(client, to, { amount_minor: 1000 })),
    ])
    expect(ends.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const end of ends.filter(({ status }) => status !== 200))
      expect(['payout_not_cancelable', 'payout_not_failable']).toContain(end.body.error.code)
    expect(accepted(answers)).toBeLessThanOrEqual(1)
    if (accepted(answers) === 0) await payOut(client, to, { amount_minor: 1000 })
    expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 1000 })
  })

  test('for payouts of several currencies and tenants do not deadlock', async ({ world }) => {
    const clients = await repeat(3, () => world.clientOf())
    await Promise.all(
      clients.flatMap((client) => ['USD', 'EUR'].map((currency) => fund(client, 1000, currency))),
    )
    const answers = await Promise.all(
      clients.flatMap((client) =>
        ['usd', 'EUR'].map(async (currency) => {
          const to = await recipient(client, 'ba_success', { currency: currency.toLowerCase() })
          return await repeat(20, () => payOut(client, to, { amount_minor: 100, currency }))
        }),
      ),
    )
    expect(answers.map(accepted)).toEqual([10, 10, 10, 10, 10, 10])
  })

  test('for payouts of a locked account wait, and payouts of other accounts are accepted', async ({
    world,
  }) => {
    const [locked, other] = [await clientWithBalance(world, 1000), await clientWithBalance(world, 1000)]
    const [to, other_to] = [await recipient(locked), await recipient(other)]
    const answers: ReturnType<typeof payOut>[] = []
    const blocker = await world.sql.reserve()
    try {
      await blocker`begin`
      await blocker`select from ledger_accounts where tenant_id = ${locked.tenant_id} for update`
      for (let nth = 0; nth < 6; nth++) {
        answers.push(payOut(locked, to))
        await waitingForLocks(world.sql, 1)
        expect((await payOut(other, other_to)).status).toBe(201)
      }
    } finally {
      await blocker`rollback`
      blocker.release()
    }
    expect(accepted(await Promise.all(answers))).toBe(6)
    expect(await accountOf(world, locked.tenant_id)).toEqual({ balance: 1000, reserved: 600 })
  })
})
