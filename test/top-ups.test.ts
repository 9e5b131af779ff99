// Tests top-ups: the money is posted once, even after lost requests and responses, and can be reversed.
import { describe, expect, onTestFinished } from 'vitest'
import { jobsCommand } from '#commands/jobs.ts'
import { newId } from '#core/ids.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsDone, resolveAsFailed, retryJob } from '#domain/job-acts/act.ts'
import { postings } from '#domain/ledger.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { readAllRows } from '#test/databases.ts'
import { waitingForLocks } from '#test/locks.ts'
import { lookUpAfterMonth } from '#test/lookups.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { eventually, fault } from '#test/payments.ts'
import { marksOf, settleTopUp, topUp, topUpAtProcessor } from '#test/top-ups.ts'
import { deliver, listEvents, ordersOf, pick, untilAttempted, type StripeEvent } from '#test/stripe-events.ts'
import { createWiredWorld } from '#test/wired-world.ts'
import { confirmAllCorrections } from '#test/proposals.ts'
import { describeIn, testIn, type World } from '#test/world.ts'

const MANUAL = { source: 'src_manual' }
const OPERATOR = { actor: 'ada', reason: 'as support told' }

/** Creates a top-up and waits until the processor has accepted it. */
async function createAccepted(client: Client, body: Record<string, unknown> = MANUAL): Promise<any> {
  const answer = await topUp(client, body, { prefer: 'wait=20' })
  expect([answer.status, answer.body]).toEqual([201, expect.objectContaining({ status: 'pending' })])
  expect(answer.body.processor_reference).toMatch(/^tu_/)
  return answer.body
}

async function awaitStatus(client: Client, id: string, status: string): Promise<any> {
  return await eventually(async () => {
    const { body } = await client.get(`/v1/wallet/top_ups/${id}`)
    expect(body).toMatchObject({ status })
    return body
  })
}

/** The state of a top-up as its tenant can see it. */
async function summaryOf(client: Client, { sql }: World, id: string) {
  const { body } = await client.get(`/v1/wallet/top_ups/${id}`)
  const { body: transactions } = await client.get(`/v1/wallet/transactions?subject_id=${id}`)
  const events = await sql<{ type: string; status: string }[]>`
    select type, data ->> 'status' as status from events where subject_id = ${id} order by id`
  const { status, failure, succeeded_at, failed_at, processor_reference } = body
  return {
    top_up: [status, failure?.code ?? null, succeeded_at !== null, failed_at !== null],
    has_reference: processor_reference !== null,
    transactions: transactions.map((each: any) => `${each.kind} ${each.amount_minor}`),
    events: events.map(({ type, status: event_status }) => `${type} ${event_status}`),
  }
}

/** The processor's record of a top-up, with the fields that the processor received. */
async function recordOf(world: World, reference: string): Promise<any> {
  const { url, api_key } = world.provider('stripe')
  const headers = { authorization: `Bearer ${api_key}` }
  return await (await fetch(`${url}/v1/topups/${reference}`, { headers })).json()
}

async function eventsOf(world: World, reference: string): Promise<StripeEvent[]> {
  const all = await listEvents(world, undefined, { all_kinds: true })
  return all.filter(({ data }) => data.object.id === reference)
}

/** Creates a top-up with an unknown job: the call failed before its effect at the processor. */
async function createUnknown(world: World, shop: Client): Promise<{ id: string; job_id: string }> {
  const description = `unknown-${freshKey()}`
  await fault(world, { match: { contains: description }, fault: 'error_500_before' })
  const { body } = await topUp(shop, { ...MANUAL, description })
  const job_id = await eventually(async () => {
    const [job] = await world.sql<{ id: string }[]>`
      select id from jobs where resource_id = ${body.id} and state = 'unknown'`
    expect(job).toBeDefined()
    return job!.id
  })
  return { id: body.id, job_id }
}

const balanceOf = async (client: Client) =>
  (await client.get('/v1/wallet/balances?currency=usd')).body[0]?.balance_minor

const REVERSED = {
  top_up: ['failed', 'reversed', true, true],
  has_reference: true,
  transactions: ['top_up_reversed -500', 'top_up 500'],
  events: ['top_up.created pending', 'top_up.succeeded succeeded', 'top_up.reversed failed'],
}

describeIn('with notifications of the processor', {}, (test) => {
  test('a top-up is pending at first, and is in the balance after it has succeeded', async ({ world }) => {
    const shop = await world.clientOf()
    const source = 'src_success_0123456789'
    const { status, body, headers } = await topUp(shop, {
      amount_minor: 12_000,
      currency: 'USD',
      source,
      description: 'November',
      metadata: { budget: 7 },
    })
    expect([status, headers.get('preference-applied')]).toEqual([201, null])
    expect(body).toEqual({
      id: expect.any(String),
      tenant_id: shop.tenant_id,
      livemode: true,
      idempotency_key: expect.any(String),
      status: 'pending',
      amount_minor: 12_000,
      currency: 'usd',
      source: 'src_****6789',
      description: 'November',
      processor: 'stripe',
      processor_reference: null,
      failure: null,
      succeeded_at: null,
      failed_at: null,
      metadata: { budget: 7 },
      created_at: expect.any(String),
      updated_at: expect.any(String),
    })
    const succeeded = await awaitStatus(shop, body.id, 'succeeded')
    expect(succeeded).toMatchObject({ source: 'src_****6789', failure: null, failed_at: null })
    expect(succeeded.succeeded_at).not.toBeNull()
    expect(await balanceOf(shop)).toBe(12_000)
    expect(await summaryOf(shop, world, body.id)).toMatchObject({
      transactions: ['top_up 12000'],
      events: ['top_up.created pending', 'top_up.succeeded succeeded'],
    })
    expect(await recordOf(world, succeeded.processor_reference)).toMatchObject({
      amount: 12_000,
      currency: 'usd',
      description: 'November',
      source: { id: source },
      metadata: { sluice_top_up_id: body.id, sluice_tenant_id: shop.tenant_id },
    })
    await world.drain()
    const [job] = await world.sql`select queue, request from jobs where resource_id = ${body.id}`
    expect(job).toMatchObject({ queue: 'payments', request: { description: 'November' } })
    expect(job!.request).not.toHaveProperty('sealed')
    const { body: timeline } = await shop.get(`/v1/wallet/top_ups/${body.id}/timeline`)
    expect(timeline.map(({ kind, name }: any) => `${kind} ${name}`)).toEqual([
      'event top_up.created',
      'attempt top_up.create',
      'provider_call top_up',
      'notification topup.succeeded',
      'posting top_up',
      'event top_up.succeeded',
    ])
  })

  test('a payment method is sent as `payment_method`; without a source, neither `source` nor `payment_method` is sent', async ({
    world,
  }) => {
    const by_method = await createAccepted(world.client, { source: 'pm_manual' })
    expect(await recordOf(world, by_method.processor_reference)).toMatchObject({
      payment_method: 'pm_manual',
      source: null,
    })
    const bare = await createAccepted(world.client, {})
    expect(bare.source).toBeNull()
    const record = await recordOf(world, bare.processor_reference)
    expect([record.payment_method ?? null, record.source]).toEqual([null, null])
  })

  test.for([
    ['failed', { source: 'src_fails' }, 'insufficient_funds'],
    ['canceled', MANUAL, null],
  ] as const)('a top-up that is %s is not in the balance', async ([status, body, code], { world }) => {
    const shop = await world.clientOf()
    const { id, processor_reference } = await createAccepted(shop, body)
    if (status === 'canceled') await settleTopUp(world, processor_reference, status)
    const final = await awaitStatus(shop, id, status)
    expect(final.failure?.code ?? null).toBe(code)
    expect(await summaryOf(shop, world, id)).toMatchObject({
      top_up: [status, code, false, status === 'failed'],
      transactions: [],
      events: ['top_up.created pending', `top_up.${status} ${status}`],
    })
    expect(await balanceOf(shop)).toBeUndefined()
  })

  test('a reversal after the money was spent makes the balance negative', async ({ world }) => {
    const shop = await world.clientOf()
    const { id, processor_reference } = await createAccepted(shop)
    await settleTopUp(world, processor_reference, 'succeeded')
    await awaitStatus(shop, id, 'succeeded')
    const { sql } = world
    await sql`
      with ${postings(
        sql,
        sql`
          select ${shop.tenant_id}::uuid as tenant_id, ${newId()}::uuid as transfer_id, 'correction' as kind,
            ${newId()}::uuid as subject_id, 'available' as debit_account, 'processor_clearing' as credit_account,
            'USD' as currency, 300::bigint as amount_minor`,
      )}
      select`
    expect(await balanceOf(shop)).toBe(200)
    await settleTopUp(world, processor_reference, 'reversed')
    expect(await awaitStatus(shop, id, 'failed')).toMatchObject({ failure: { code: 'reversed' } })
    expect(await summaryOf(shop, world, id)).toEqual(REVERSED)
    expect(await balanceOf(shop)).toBe(-300)
  })

  test.for([
    ['refuse_400', 422, 'payment_invalid'],
    ['refuse_401', 202, null],
  ])(
    "a waiting request returns the result after the processor's fault %s",
    async ([refusal, status, code], { world }) => {
      const shop = await world.clientOf()
      const description = `refused-${freshKey()}`
      const failing = await fault(world, { match: { contains: description }, fault: refusal, times: 1 })
      const answer = await topUp(shop, { description, ...MANUAL }, { prefer: 'wait=2' })
      await failing.hit()
      expect(answer.status).toBe(status)
      if (code === null) {
        // The retry runs now instead of after half a minute.
        await world.sql`update jobs set run_at = now() where resource_id = ${answer.body.id}`
        return
      }
      const { top_up_id } = answer.body.error.context
      expect(answer.body.error.code).toBe(code)
      expect((await shop.get(`/v1/wallet/top_ups/${top_up_id}`)).body).toMatchObject({
        status: 'failed',
        processor_reference: null,
        failure: { code },
      })
      expect(await summaryOf(shop, world, top_up_id)).toMatchObject({
        transactions: [],
        events: ['top_up.created pending', 'top_up.failed failed'],
      })
    },
  )

  test('fifty concurrent requests with one key create one top-up; a request with the same key and other content is refused', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const body = { idempotency_key: freshKey(), ...MANUAL }
    const answers = await Promise.all(Array.from({ length: 50 }, () => topUp(shop, body)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
    expect(new Set(answers.map(({ body: { id } }) => id)).size).toBe(1)
    expect((await topUp(shop, { ...body, amount_minor: 501 })).body.error.code).toBe('idempotency_key_reused')
    expect((await topUp(shop, { ...body, source: 'src_other' })).body.error.code).toBe(
      'idempotency_key_reused',
    )
    const { body: stored } = await shop.get(`/v1/idempotency_keys/${body.idempotency_key}`)
    expect(stored).toMatchObject([
      { route: 'POST /v1/wallet/top_ups', resource: 'top_up', resource_id: answers[0]!.body.id },
    ])
  })

  test.for([
    [{ amount_minor: 0 }, 'invalid_request'],
    [{ amount_minor: 1.5 }, 'invalid_request'],
    [{ currency: 'XXX' }, 'invalid_request'],
    [{ currency: 'KPW' }, 'invalid_request'],
    [{ source: 17 }, 'invalid_request'],
    [{ source: '4242424242424242' }, 'invalid_request'],
    [{ source: 'src_4242424242424242' }, 'invalid_request'],
    [{ idempotency_key: undefined }, 'invalid_request'],
    [{ amount_minor: 1_000_000_000_000 }, 'amount_too_large'],
    [{ amount_minor: 1501, currency: 'KWD' }, 'payment_invalid'],
    [{ amount_minor: 15_010, currency: 'isk' }, 'payment_invalid'],
    [{ amount_minor: 15_001, currency: 'UGX' }, 'payment_invalid'],
  ] as const)('the request %j is refused as %s', async ([body, code], { world }) => {
    expect((await topUp(world.client, body)).body.error.code).toBe(code)
  })

  test('lists are newest first, and can be filtered by status, currency and time', async ({ world }) => {
    const shop = await world.clientOf()
    const [one, two] = [
      await createAccepted(shop),
      await createAccepted(shop, { ...MANUAL, currency: 'EUR' }),
    ]
    const three = await createAccepted(shop, { source: 'src_fails' })
    await awaitStatus(shop, three.id, 'failed')
    const listed = async (query: string) =>
      (await shop.get(`/v1/wallet/top_ups${query}`)).body.map(({ id }: any) => id)
    expect(await listed('')).toEqual([three.id, two.id, one.id])
    expect(await listed('?status=pending')).toEqual([two.id, one.id])
    expect(await listed('?status=failed')).toEqual([three.id])
    expect(await listed('?currency=USD')).toEqual([three.id, one.id])
    expect(await listed('?currency=eur&status=pending')).toEqual([two.id])
    expect(await listed(`?created_from=${two.created_at}&created_to=${three.created_at}`)).toEqual([two.id])
    const page = await shop.get('/v1/wallet/top_ups?limit=2')
    expect(page.headers.get('link')).toContain(encodeURIComponent(two.created_at))
    expect(await listed(`?before=${two.created_at}`)).toEqual([one.id])
  })

  describe('after lost requests and responses', () => {
    test.concurrent.for([
      'drop_before',
      'drop_after',
      'error_500_after',
      'error_500_unstored',
      'cut_body',
      'conflict_409',
      'rate_limited_429',
    ])('the money is posted once: %s', async (fault_name, { world }) => {
      const shop = await world.clientOf()
      const description = `lost-${freshKey()}`
      const lost = await fault(world, { match: { contains: description }, fault: fault_name, times: 2 })
      const { body } = await topUp(shop, { description, source: 'src_success' })
      expect(await awaitStatus(shop, body.id, 'succeeded')).toMatchObject({
        processor_reference: expect.stringMatching(/^tu_/),
      })
      await lost.remove()
      await world.drain()
      expect(await balanceOf(shop)).toBe(500)
      expect(await world.provider('stripe').effects({ 'metadata[sluice_top_up_id]': body.id })).toHaveLength(
        1,
      )
    })

    test('a stored error leaves a top-up unknown until an operator resolves the top-up', async ({
      world,
    }) => {
      const shop = await world.clientOf()
      const resolve = async (job_id: string, ...as: string[]) =>
        await runHere(
          jobsCommand,
          ['resolve', job_id, '--as', ...as, '--by', 'ada', '--reason', 'as support told'],
          { DATABASE_URL: world.config.DATABASE_URL },
        )
      const absent = await createUnknown(world, shop)
      const failed = await resolve(absent.job_id, 'failed')
      expect([failed.code, failed.stderr]).toEqual([0, ''])
      expect(await summaryOf(shop, world, absent.id)).toMatchObject({
        top_up: ['failed', 'processor_error', false, true],
        transactions: [],
      })
      const created_manually = await createUnknown(world, shop)
      // The job must not look up the top-up before the operator resolves it.
      await world.sql`update jobs set run_at = now() + interval '1 hour' where id = ${created_manually.job_id}`
      // A person has created the top-up in the processor's dashboard and noted its reference.
      const reference = await topUpAtProcessor(world, marksOf(created_manually.id, shop.tenant_id))
      expect((await resolve(created_manually.job_id, 'done')).stderr).toContain('--reference')
      expect((await resolve(created_manually.job_id, 'done', '--reference', reference)).code).toBe(0)
      await settleTopUp(world, reference, 'succeeded')
      expect(await awaitStatus(shop, created_manually.id, 'succeeded')).toMatchObject({
        processor_reference: reference,
      })
    })
  })

  test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
    await world.drain()
    await confirmAllCorrections(world)
    await checkInvariants(world)
  })
})

const testWired = testIn(createWiredWorld)
describe('with notifications that the test delivers', () => {
  const test = testWired
  const EXPECTED = {
    succeeded: {
      top_up: ['succeeded', null, true, false],
      has_reference: true,
      transactions: ['top_up 500'],
      events: ['top_up.created pending', 'top_up.succeeded succeeded'],
    },
    failed: {
      top_up: ['failed', 'insufficient_funds', false, true],
      has_reference: true,
      transactions: [],
      events: ['top_up.created pending', 'top_up.failed failed'],
    },
    canceled: {
      top_up: ['canceled', null, false, false],
      has_reference: true,
      transactions: [],
      events: ['top_up.created pending', 'top_up.canceled canceled'],
    },
    reversed: REVERSED,
  }
  type FinalStatus = keyof typeof EXPECTED
  const steps = (end: FinalStatus) => (end === 'reversed' ? ['succeeded', 'reversed'] : [end])
  const cases = (['succeeded', 'failed', 'canceled', 'reversed'] as const).flatMap((end) =>
    ordersOf(['created', ...steps(end)]).map((order) => [end, order] as const),
  )

  test.concurrent.for(cases)(
    'a top-up is %s after notifications in the order %j',
    async ([end, order], { world }) => {
      const shop = await world.clientOf()
      const top_up = await createAccepted(shop)
      for (const status of steps(end)) await settleTopUp(world, top_up.processor_reference, status)
      const all = await eventsOf(world, top_up.processor_reference)
      const selected = pick(
        all,
        order.map((word) => `topup.${word}`),
      )
      for (const event of [...selected, ...selected]) {
        expect((await deliver(world, event)).status).toBe(200)
        await untilAttempted(world, [event])
      }
      expect(await summaryOf(shop, world, top_up.id)).toEqual(EXPECTED[end])
    },
  )

  test.concurrent.for(['succeeded', 'failed', 'canceled', 'reversed'] as const)(
    'a top-up is %s if a notification is delivered after each step',
    async (end, { world }) => {
      const shop = await world.clientOf()
      const top_up = await createAccepted(shop)
      for (const status of steps(end)) {
        await settleTopUp(world, top_up.processor_reference, status)
        const event = (await eventsOf(world, top_up.processor_reference)).at(-1)!
        await deliver(world, event)
        await untilAttempted(world, [event])
      }
      expect(await summaryOf(shop, world, top_up.id)).toEqual(EXPECTED[end])
    },
  )

  test('a top-up that is resolved as failed here and canceled at the processor opens no drift', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const description = `unknown-${freshKey()}`
    await fault(world, { match: { contains: description }, fault: 'error_500_before' })
    const { body } = await topUp(shop, { ...MANUAL, description })
    const job_id = await eventually(async () => {
      const [job] = await world.sql<{ id: string }[]>`
        select id from jobs where resource_id = ${body.id} and state = 'unknown'`
      return job!.id
    })
    const reference = await topUpAtProcessor(world, marksOf(body.id, shop.tenant_id))
    await world.sql.begin((tx) => resolveAsFailed(tx, { job_id, actor: 'ada', reason: 'not in their books' }))
    await settleTopUp(world, reference, 'canceled')
    const events = await eventsOf(world, reference)
    for (const event of events) await deliver(world, event)
    await untilAttempted(world, events)
    expect((await shop.get('/v1/reconciliation')).body).toEqual([])
  })

  test.for(['failed', 'canceled'])(
    'a top-up that is %s at the processor is not posted later',
    async (end, { world }) => {
      const shop = await world.clientOf()
      const { id, processor_reference: reference } = await createAccepted(shop)
      await settleTopUp(world, reference, end)
      await deliverLatest(world, reference)
      await awaitStatus(shop, id, end)
      const before = await summaryOf(shop, world, id)
      const match = { method: 'GET', path: `^/v1/topups/${reference}$` }
      const contradiction = { still_processing: true, status: 'succeeded' }
      const contradicting_response = await fault(world, { match, times: 1000, fault: contradiction })
      const last_event = (await listEvents(world)).findLast(({ data }) => data.object.id === reference)!
      const object = { ...last_event.data.object, status: 'succeeded' }
      const late = { ...last_event, id: `${last_event.id}_late`, type: 'topup.succeeded', data: { object } }
      expect((await deliver(world, late)).status).toBe(200)
      await untilAttempted(world, [late])
      expect(await summaryOf(shop, world, id)).toEqual(before)
      expect(before.transactions).toEqual([])
      expect(await driftsOf(shop, id)).toMatchObject([
        { state: 'differs', ours: { status: end }, theirs: { status: 'succeeded' } },
      ])
      await contradicting_response.remove()
      await lookUpAfterMonth(world, 'top_up', id)
      await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
    },
  )

  test.concurrent.for(ordersOf(['succeeded', 'reversed']))(
    'notifications in the order %s, %s before the response to the call reverse the top-up',
    async (order, { world }) => {
      const shop = await world.clientOf()
      const description = `slow-${freshKey()}`
      const blocked = await fault(world, { match: { contains: description }, fault: { hold: 'after' } })
      const { body } = await topUp(shop, { ...MANUAL, description })
      await blocked.hit()
      const created = (await listEvents(world, undefined, { all_kinds: true })).find(
        ({ data }) => data.object.metadata?.sluice_top_up_id === body.id,
      )!
      const reference = created.data.object.id as string
      for (const status of ['succeeded', 'reversed']) await settleTopUp(world, reference, status)
      const all = await eventsOf(world, reference)
      const selected = pick(
        all,
        order.map((word) => `topup.${word}`),
      )
      for (const event of selected) await deliver(world, event)
      await untilAttempted(world, selected)
      await blocked.remove()
      await world.drain()
      expect(await summaryOf(shop, world, body.id)).toEqual(REVERSED)
    },
  )

  test('a repeated notification causes no further lookup', async ({ world }) => {
    const shop = await world.clientOf()
    const top_up = await createAccepted(shop)
    await settleTopUp(world, top_up.processor_reference, 'succeeded')
    const [event] = pick(await eventsOf(world, top_up.processor_reference), ['topup.succeeded'])
    await deliver(world, event!)
    await awaitStatus(shop, top_up.id, 'succeeded')
    const countLookups = async () =>
      (await world.provider('stripe').requests({ path: `/v1/topups/${top_up.processor_reference}$` })).length
    const before = await countLookups()
    await deliver(world, { ...event!, id: `${event!.id}_again` })
    await world.drain()
    expect(await countLookups()).toBe(before)
  })

  test("a notification of another application's top-up is parked", async ({ world }) => {
    const id = await topUpAtProcessor(world, { source: 'src_success', 'metadata[application]': 'another' })
    const event = await eventually(async () => {
      const [found] = pick(await eventsOf(world, id), ['topup.succeeded'])
      return found!
    })
    expect((await deliver(world, event)).status).toBe(200)
    await untilAttempted(world, [event])
    const [notification] = await world.sql`select state, reason from notifications where object_id = ${id}`
    expect(notification).toMatchObject({ state: 'parked', reason: 'not_ours' })
  })

  test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
    await world.drain()
    await confirmAllCorrections(world)
    await checkInvariants(world)
  })

  /** Delivers the latest event of a top-up and waits until its notification has had an attempt. */
  async function deliverLatest(world: World, reference: string): Promise<void> {
    const event = (await listEvents(world)).findLast(({ data }) => data.object.id === reference)!
    expect((await deliver(world, event)).status).toBe(200)
    await untilAttempted(world, [event])
  }

  async function driftsOf(shop: Client, id: string): Promise<any[]> {
    const { body } = await shop.get('/v1/reconciliation?subject=top_up')
    return body.filter((each: any) => each.subject_id === id)
  }

  const topUpOf = async (shop: Client, id: string) => (await shop.get(`/v1/wallet/top_ups/${id}`)).body
  const balancesOf = async (shop: Client) => (await shop.get('/v1/wallet/balances')).body

  test.for([
    ['another amount and currency', { amount: '1', currency: 'jpy' }, 'succeeded'],
    ['another amount', { amount: '499' }, 'succeeded'],
    ['another currency', { currency: 'eur' }, 'succeeded'],
    ['another reversed amount', { amount: '5000' }, 'reversed'],
  ] as const)(
    "a top-up of %s with Sluice's ids is not posted, and is a drift until the real top-up is found",
    async ([_case, other, end], { world }) => {
      const shop = await world.clientOf()
      const { id, job_id } = await createUnknown(world, shop)
      const marks = marksOf(id, shop.tenant_id)
      const foreign = await topUpAtProcessor(world, { ...marks, ...other })
      await settleTopUp(world, foreign, 'succeeded')
      if (end === 'reversed') await settleTopUp(world, foreign, end)
      await deliverLatest(world, foreign)
      const theirs = {
        amount_minor: Number('amount' in other ? other.amount : 500),
        processor_reference: foreign,
      }
      expect(await driftsOf(shop, id)).toMatchObject([
        {
          state: 'differs',
          ours: { status: 'pending', amount_minor: 500 },
          theirs: { status: end, ...theirs },
        },
      ])
      expect(await topUpOf(shop, id)).toMatchObject({ status: 'pending', processor_reference: null })
      expect(await balancesOf(shop)).toEqual([])

      const real = await topUpAtProcessor(world, marks)
      await resolveAsDone(world.sql, { job_id, ...OPERATOR }, real)
      await settleTopUp(world, real, 'succeeded')
      await deliverLatest(world, real)
      expect(await topUpOf(shop, id)).toMatchObject({ status: 'succeeded', processor_reference: real })
      expect(await balancesOf(shop)).toMatchObject([{ currency: 'usd', balance_minor: 500 }])
      await lookUpAfterMonth(world, 'top_up', id)
      await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
    },
  )

  test('a drift stays open after the top-up is resolved as failed, until the processor reverses the money', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const { id, job_id } = await createUnknown(world, shop)
    const foreign = await topUpAtProcessor(world, { amount: '1', ...marksOf(id, shop.tenant_id) })
    await settleTopUp(world, foreign, 'succeeded')
    await deliverLatest(world, foreign)
    await world.sql.begin((tx) => resolveAsFailed(tx, { job_id, ...OPERATOR }))
    const redelivered = { ...(await listEvents(world)).findLast(({ data }) => data.object.id === foreign)! }
    redelivered.id += '_again'
    await deliver(world, redelivered)
    await untilAttempted(world, [redelivered])
    expect(await driftsOf(shop, id)).toMatchObject([
      { state: 'differs', ours: { status: 'failed' }, theirs: { amount_minor: 1 } },
    ])
    await lookUpAfterMonth(world, 'top_up', id)
    await world.drain()
    expect(await driftsOf(shop, id)).toHaveLength(1)
    await settleTopUp(world, foreign, 'reversed')
    await lookUpAfterMonth(world, 'top_up', id)
    await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
    expect(await topUpOf(shop, id)).toMatchObject({ status: 'failed', processor_reference: null })
    expect(await balancesOf(shop)).toEqual([])
  })

  test('a top-up that is resolved as failed while its notification is applied opens a drift', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const { id, job_id } = await createUnknown(world, shop)
    const reference = await topUpAtProcessor(world, marksOf(id, shop.tenant_id))
    await settleTopUp(world, reference, 'succeeded')
    // Both statements wait for the lock of the row: first the operator's statement, then the worker's.
    const { resolution, event } = await world.sql.begin(async (tx) => {
      await tx`select from top_ups where id = ${id} for update`
      const pending = { resolution: world.sql.begin((tx) => resolveAsFailed(tx, { job_id, ...OPERATOR })) }
      await waitingForLocks(world.sql, 1)
      const event = (await listEvents(world)).findLast(({ data }) => data.object.id === reference)!
      expect((await deliver(world, event)).status).toBe(200)
      await waitingForLocks(world.sql, 2)
      return { ...pending, event }
    })
    expect(await resolution).toMatchObject({ after: 'failed' })
    await untilAttempted(world, [event])
    await world.drain()
    expect(await topUpOf(shop, id)).toMatchObject({ status: 'failed', processor_reference: reference })
    expect(await balancesOf(shop)).toMatchObject([{ balance_minor: 500 }])
    expect(await driftsOf(shop, id)).toMatchObject([
      { state: 'differs', ours: { status: 'failed' }, theirs: { status: 'succeeded' } },
    ])
  })

  test.for(['a notification', 'a lookup'])(
    'money that arrives after its top-up was resolved as failed is posted, and is a drift until %s reports the reversal',
    async (source, { world }) => {
      const shop = await world.clientOf()
      const { id, job_id } = await createUnknown(world, shop)
      await world.sql.begin((tx) => resolveAsFailed(tx, { job_id, ...OPERATOR }))
      const failed = await topUpOf(shop, id)
      expect(failed).toMatchObject({ status: 'failed', processor_reference: null })

      const reference = await topUpAtProcessor(world, marksOf(id, shop.tenant_id))
      await settleTopUp(world, reference, 'succeeded')
      await deliverLatest(world, reference)
      expect(await driftsOf(shop, id)).toMatchObject([
        {
          state: 'differs',
          detail: 'the top-up has failed here, but the processor has brought the money in',
          ours: { status: 'failed' },
          theirs: { status: 'succeeded' },
        },
      ])
      expect(await balancesOf(shop)).toMatchObject([{ balance_minor: 500 }])
      // A repeated notification is posted once.
      const [event] = (await listEvents(world)).filter(({ data }) => data.object.id === reference)
      const redelivered = { ...event!, id: `${event!.id}_again` }
      await deliver(world, redelivered)
      await untilAttempted(world, [redelivered])
      const kinds = async () =>
        (await shop.get(`/v1/wallet/transactions?subject_id=${id}`)).body.map(({ kind }: any) => kind)
      expect(await kinds()).toEqual(['top_up'])
      // From now on the top-up has its processor reference; the other fields are unchanged.
      expect(await topUpOf(shop, id)).toEqual({
        ...failed,
        processor_reference: reference,
        updated_at: expect.any(String),
      })
      await lookUpAfterMonth(world, 'top_up', id)
      await world.drain()
      expect(await driftsOf(shop, id)).toHaveLength(1)

      await settleTopUp(world, reference, 'reversed')
      if (source === 'a notification') await deliverLatest(world, reference)
      else {
        await world.sql`delete from notifications where object_id = ${reference}`
        await lookUpAfterMonth(world, 'top_up', id)
      }
      await eventually(async () => expect(await driftsOf(shop, id)).toEqual([]))
      expect(await topUpOf(shop, id)).toMatchObject({ status: 'failed', failure: failed.failure })
      expect(await kinds()).toEqual(['top_up_reversed', 'top_up'])
      expect(await balancesOf(shop)).toMatchObject([{ balance_minor: 0 }])
      const events = await world.sql<
        { type: string }[]
      >`select type from events where subject_id = ${id} order by id`
      expect(events.map(({ type }) => type)).toEqual(['top_up.created', 'top_up.failed'])
    },
  )

  test('a key that was used for another request leaves the top-up unknown, because the other request may be the same top-up', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    await pauseJobs(world.sql, { queue: 'payments', tenant_id: shop.tenant_id })
    const { body } = await topUp(shop, MANUAL)
    const jobs = async () => [
      ...(await world.sql<{ id: string }[]>`select id, state from jobs where resource_id = ${body.id}`),
    ]
    const [job] = await jobs()
    await topUpAtProcessor(world, { amount: '499' }, { 'idempotency-key': `${job!.id}:1` })
    await resumeJobs(world.sql, { queue: 'payments', tenant_id: shop.tenant_id })
    await eventually(async () => expect(await jobs()).toMatchObject([{ state: 'unknown' }]))
    expect(await topUpOf(shop, body.id)).toMatchObject({ status: 'pending', processor_reference: null })
  })

  test('a response with another amount leaves the top-up unknown until the right top-up is found', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    world.wire.replaceInAnswers('"amount":500', '"amount":900')
    onTestFinished(() => world.wire.replaceInAnswers(null))
    const { body } = await topUp(shop, MANUAL)
    const job_id = await eventually(async () => {
      const [job] = await world.sql`select id, state, last_error from jobs where resource_id = ${body.id}`
      expect(job).toMatchObject({
        state: 'unknown',
        last_error: { message: expect.stringMatching(/^tu_\w+ is another top-up$/) },
      })
      return job!.id as string
    })
    expect(await topUpOf(shop, body.id)).toMatchObject({ status: 'pending', processor_reference: null })
    expect(await driftsOf(shop, body.id)).toMatchObject([
      { state: 'differs', ours: { amount_minor: 500 }, theirs: { amount_minor: 900 } },
    ])
    world.wire.replaceInAnswers(null)
    await retryJob(world.sql, { job_id, ...OPERATOR })
    await eventually(async () =>
      expect(await topUpOf(shop, body.id)).toMatchObject({
        status: 'pending',
        processor_reference: expect.stringMatching(/^tu_/),
      }),
    )
  })

  test('the reversal of a top-up that is reversed immediately is posted after the top-up, in each of ten cases', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    for (let each = 0; each < 10; each += 1) {
      const { body } = await topUp(shop, MANUAL, { prefer: 'wait=20' })
      await settleTopUp(world, body.processor_reference, 'succeeded')
      await settleTopUp(world, body.processor_reference, 'reversed')
      await deliverLatest(world, body.processor_reference)
    }
    const { body: transactions } = await shop.get('/v1/wallet/transactions?limit=100')
    expect(transactions.map(({ kind, balance_after_minor }: any) => [kind, balance_after_minor])).toEqual(
      Array.from({ length: 10 }, () => [
        ['top_up_reversed', 0],
        ['top_up', 500],
      ]).flat(),
    )
  })

  test('no table contains the token of a source in plaintext after the processor has accepted the top-up', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const source = `src_success_${freshKey().replaceAll('-', '_')}`
    const { body } = await topUp(shop, { source }, { prefer: 'wait=20' })
    await eventually(async () =>
      expect(await eventsOf(world, body.processor_reference)).toMatchObject([
        { type: 'topup.created' },
        { type: 'topup.succeeded' },
      ]),
    )
    await deliverLatest(world, body.processor_reference)
    await settleTopUp(world, body.processor_reference, 'reversed')
    await deliverLatest(world, body.processor_reference)
    const rows = await readAllRows(world.sql)
    expect(rows).toContain(body.processor_reference)
    expect(rows.split('\n').filter((row) => row.includes(source))).toEqual([])
  })

  test('a top-up without a notification is settled by a lookup', async ({ world }) => {
    const shop = await world.clientOf()
    const { id, processor_reference } = await createAccepted(shop)
    await settleTopUp(world, processor_reference, 'succeeded')
    expect(await lookUpAfterMonth(world, 'top_up', id)).toBe(true)
    await awaitStatus(shop, id, 'succeeded')
    expect(await driftsOf(shop, id)).toEqual([])
  })

  test('the audit finds a top-up that is posted and did not succeed at the processor', async ({ world }) => {
    const shop = await world.clientOf()
    const { id, processor_reference } = await createAccepted(shop)
    await settleTopUp(world, processor_reference, 'succeeded')
    await deliverLatest(world, processor_reference)
    await awaitStatus(shop, id, 'succeeded')
    const problems = async () => {
      const report = await auditEverything(world.sql)
      return report.problems.flatMap(({ resource_id, problem }) => (resource_id === id ? [problem] : []))
    }
    const wrong = ['a top-up is posted and did not succeed at the processor']
    for (const reported of ['pending', null]) {
      await world.sql`update top_ups set processor_status = ${reported} where id = ${id}`
      expect(await problems()).toEqual(wrong)
    }
    await world.sql`update top_ups set processor_status = 'succeeded' where id = ${id}`
    expect(await problems()).toEqual([])
  })

  test('a top-up whose effect is unknown, or that succeeds after it has failed here, opens a drift', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const { id } = await createUnknown(world, shop)
    await syncUnknownDrifts(world.sql)
    expect(await driftsOf(shop, id)).toMatchObject([
      { state: 'unknown', payment_id: null, ours: { status: 'pending', amount_minor: 500 }, theirs: null },
    ])
    const top_up = await createAccepted(shop)
    await world.sql`
      update top_ups set status = 'failed', failed_at = now(), failure = '{"code": "processor_error", "message": "-"}'
      where id = ${top_up.id}`
    await settleTopUp(world, top_up.processor_reference, 'succeeded')
    const lookup = requestLookup(
      { provider: 'stripe', livemode: true },
      { resource: 'top_up', reference: top_up.processor_reference, tenant_id: null },
      'test',
    )
    await storeNotifications(world.sql, [lookup])
    await eventually(async () =>
      expect(await driftsOf(shop, top_up.id)).toMatchObject([
        { state: 'differs', ours: { status: 'failed' }, theirs: { status: 'succeeded', currency: 'usd' } },
      ]),
    )
    expect(await balanceOf(shop)).toBe(500)
  })
})
