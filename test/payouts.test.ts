// Payouts on each rail and in each status: accepted, processing, paid, refused, returned, canceled, manually failed.
import { describe, expect } from 'vitest'
import { jobsCommand } from '#commands/jobs.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { discardJob, resolveAsDone, resolveAsFailed, retryJob } from '#domain/job-acts/act.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { eventually, fault } from '#test/payments.ts'
import {
  accountOf,
  fund,
  payOut,
  payoutIn,
  payoutSummary,
  recipient,
  clientWithBalance,
} from '#test/payouts.ts'
import { testIn, type World } from '#test/world.ts'

const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'
const WAIT = { prefer: 'wait=20' }

const test = testIn()
test.beforeAll(async ({ client }) => {
  await fund(client, 1_000_000)
})

const effectsOf = async (world: World, payout_id: string): Promise<{ effect: string; amount: number }[]> => {
  const effects = await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': payout_id })
  return effects.map(({ effect, amount }) => ({ effect, amount }))
}
const settle = (world: World, reference: string, status: string) =>
  world.provider('stripe').control('POST', `/payouts/${reference}/settle`, { status })
const driftsOf = async (client: Client, payout_id: string): Promise<any[]> =>
  (await client.get('/v1/reconciliation?subject=payout')).body.filter(
    (each: any) => each.subject_id === payout_id,
  )
const jobOf = async (world: World, payout_id: string, name = 'payout.create') => {
  const [job] = await world.sql<
    { id: string; state: string; run_at: string; generation: number; in_doubt: boolean }[]
  >`
    select id, state, run_at::text, generation, in_doubt from jobs where resource_id = ${payout_id} and name = ${name}`
  return job!
}
/** Creates a payout with the status processing. With `ba_manual` the payout stays processing until `settle`. */
async function createProcessing(client: Client, destination = 'ba_manual', body = {}): Promise<any> {
  const { status, body: payout } = await payOut(client, await recipient(client, destination), body, WAIT)
  expect([status, payout.status]).toEqual([201, 'processing'])
  return payout
}
/** Runs `work` while the queue of payouts is paused. */
async function whilePaused<T>(world: World, work: () => Promise<T>): Promise<T> {
  await pauseJobs(world.sql, { queue: 'payouts' })
  try {
    return await work()
  } finally {
    await resumeJobs(world.sql, { queue: 'payouts' })
  }
}

describe('a payout', () => {
  test('is accepted, processed and paid, and its amount is reserved until then', async ({ world }) => {
    const own = await clientWithBalance(world, 500)
    const to = await recipient(own)
    const created = await whilePaused(world, async () => {
      const answer = await payOut(own, to, {
        amount_minor: 300,
        currency: 'USD',
        description: 'November',
        metadata: { a: 1 },
      })
      expect(answer.status).toBe(201)
      expect(answer.body).toMatchObject({
        tenant_id: own.tenant_id,
        status: 'pending',
        amount_minor: 300,
        currency: 'usd',
        recipient_id: to,
        description: 'November',
        processor: 'stripe',
        processor_reference: null,
        arrival_date: null,
        failure: null,
        processing_at: null,
        paid_at: null,
        failed_at: null,
        canceled_at: null,
        metadata: { a: 1 },
      })
      expect((await own.get(`/v1/payouts/${answer.body.id}`)).body).toEqual(answer.body)
      expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 500, reserved: 300 })
      expect((await own.get('/v1/wallet/balances')).body).toEqual([
        {
          livemode: true,
          currency: 'usd',
          balance_minor: 500,
          pending_payouts_minor: 300,
          available_minor: 200,
        },
      ])
      return answer.body
    })
    const paid = await payoutIn(own, created.id, 'paid')
    expect(paid).toMatchObject({
      processor_reference: expect.stringMatching(/^po_/),
      arrival_date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      failure: null,
    })
    expect([paid.processing_at, paid.paid_at]).not.toContain(null)
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 200, reserved: 0 })
    expect(await payoutSummary(world, created.id)).toMatchObject({
      postings: ['payout_paid -300'],
      events: ['created', 'paid', 'processing'],
    })
    expect(await effectsOf(world, created.id)).toEqual([{ effect: 'payout', amount: 300 }])
    await eventually(async () => {
      const { body: timeline } = await own.get(`/v1/payouts/${created.id}/timeline`)
      expect(timeline.map((entry: any) => `${entry.kind} ${entry.name}`)).toEqual(
        expect.arrayContaining([
          'event payout.created',
          'provider_call payout',
          'event payout.processing',
          'notification payout.paid',
          'posting payout_paid',
          'event payout.paid',
        ]),
      )
      const { details } = timeline.find(({ kind }: any) => kind === 'posting')
      expect(details).toMatchObject({ amount_minor: 300, currency: 'usd' })
    })
  })

  test('to a card is paid, and a payout to a connected account is a transfer that is paid at its acceptance', async ({
    world,
    client,
  }) => {
    const card = await payOut(client, await recipient(client, 'card_success'))
    await payoutIn(client, card.body.id, 'paid')
    const { status, body } = await payOut(client, await recipient(client, 'acct_success'), {}, WAIT)
    expect(status).toBe(201)
    expect(body).toMatchObject({ status: 'paid', processor_reference: expect.stringMatching(/^tr_/) })
    expect(await effectsOf(world, body.id)).toEqual([{ effect: 'transfer', amount: 100 }])
    await world.drain()
    expect((await payoutSummary(world, body.id)).events).toEqual(['created', 'paid'])
  })

  test('that the processor refuses fails, and its amount is available again', async ({ world }) => {
    const own = await clientWithBalance(world, 100)
    const to = await recipient(own, 'ba_refused')
    const body = { idempotency_key: freshKey() }
    const refused = await payOut(own, to, body, WAIT)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'payout_refused'])
    const id = refused.body.error.context.payout_id
    expect(await payoutIn(own, id, 'failed')).toMatchObject({
      failure: { code: 'payout_refused', manual: false },
      processor_reference: null,
    })
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    const replayed = await payOut(own, to, body, WAIT)
    expect([replayed.status, replayed.body.error.code]).toEqual([422, 'payout_refused'])
    const without_wait = await payOut(own, to, body)
    expect([without_wait.status, without_wait.body.status]).toEqual([201, 'failed'])
    expect(await payoutSummary(world, id)).toMatchObject({ postings: [], events: ['created', 'failed'] })
  })

  test('to a missing account fails, and a paid payout that the bank returns is posted back', async ({
    world,
    client,
  }) => {
    const missing = await payOut(client, await recipient(client, 'ba_noAccount'))
    const late = await payOut(client, await recipient(client), { amount_minor: 70 })
    expect(await payoutIn(client, missing.body.id, 'failed')).toMatchObject({
      failure: { code: 'no_account', manual: false },
    })
    const { processor_reference } = await payoutIn(client, late.body.id, 'paid')
    await world.provider('stripe').control('POST', `/payouts/${processor_reference}/settle`, {
      status: 'failed',
      failure_code: 'account_closed',
    })
    const returned = await payoutIn(client, late.body.id, 'failed')
    expect(returned.failure.code).toBe('account_closed')
    expect([returned.paid_at, returned.failed_at]).not.toContain(null)
    expect(await payoutSummary(world, missing.body.id)).toMatchObject({ postings: [] })
    expect(await payoutSummary(world, late.body.id)).toMatchObject({
      postings: ['payout_paid -70', 'payout_returned 70'],
      events: ['created', 'failed', 'paid', 'processing'],
    })
    const { body: transactions } = await client.get(`/v1/wallet/transactions?subject_id=${late.body.id}`)
    expect(transactions).toMatchObject([
      { kind: 'payout_returned', amount_minor: 70, subject_type: 'payout' },
      { kind: 'payout_paid', amount_minor: -70, subject_type: 'payout' },
    ])
  })
})

describe('a payout request is refused', () => {
  test('because of the recipient first, then because of the currency and amount, then because of the balance', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 50)
    const other = await world.clientOf()
    const archived = await recipient(own, 'ba_success', { currency: 'eur' })
    await own.delete(`/v1/recipients/${archived}`)
    const rejected = await recipient(own)
    await world.sql`update recipients set kyc_status = 'rejected' where id = ${rejected}`
    const refusal = async (to: string, body = {}) => {
      const response = await payOut(own, to, { amount_minor: 1000, ...body })
      return [response.status, response.body.error.code, response.body.error.param]
    }
    expect(await refusal(UNKNOWN_ID)).toEqual([404, 'recipient_not_found', 'recipient_id'])
    expect(await refusal(await recipient(other))).toEqual([404, 'recipient_not_found', 'recipient_id'])
    expect(await refusal(archived)).toEqual([422, 'payout_invalid', 'recipient_id'])
    expect(await refusal(await recipient(own), { currency: 'eur' })).toEqual([
      422,
      'payout_invalid',
      'currency',
    ])
    expect(await refusal(rejected)).toEqual([422, 'payout_invalid', 'recipient_id'])
    // An error of the recipient precedes an error of the amount.
    const kwd = { currency: 'kwd', amount_minor: 1001 }
    expect(await refusal(rejected, kwd)).toEqual([422, 'payout_invalid', 'currency'])
    expect(await refusal(await recipient(own, 'ba_success', { currency: 'kwd' }), kwd)).toEqual([
      422,
      'payout_invalid',
      'amount_minor',
    ])
    for (const [currency, odd] of [
      ['huf', 100_050],
      ['isk', 10_010],
      ['twd', 1001],
      ['UGX', 250_020],
    ] as const) {
      const amount = { currency, amount_minor: odd }
      const refused = await payOut(own, await recipient(own, 'ba_success', { currency }), amount)
      expect([refused.status, refused.body.error]).toMatchObject([
        422,
        {
          code: 'payout_invalid',
          param: 'amount_minor',
          message: `Amounts of payouts in ${currency.toUpperCase()} must end in 00: they are settled in steps of ${currency.toUpperCase()} 1.00.`,
        },
      ])
    }
    // Resets the status, because the audit reports a rejected status without a verification.
    await world.sql`update recipients set kyc_status = 'none' where id = ${rejected}`
    const to = await recipient(own)
    const key = freshKey()
    const short = await payOut(own, to, { amount_minor: 51, idempotency_key: key })
    expect([short.status, short.body.error.code]).toEqual([422, 'insufficient_balance'])
    expect(short.body.error.context).toEqual({ available_minor: 50, requested_minor: 51, currency: 'usd' })
    // A refusal is not stored: the key may be used again, even with another body.
    expect((await payOut(own, to, { amount_minor: 50, idempotency_key: key })).status).toBe(201)
    expect((await own.get('/v1/payouts')).body).toHaveLength(1)
  })

  test('when its body is invalid', async ({ client }) => {
    const to = await recipient(client)
    for (const body of [
      { amount_minor: 0 },
      { amount_minor: 1.5 },
      { currency: 'xyz' },
      { recipient_id: 'me' },
      { description: 'x'.repeat(1001) },
      { destination: 'ba_success' },
      { idempotency_key: undefined },
    ])
      expect((await payOut(client, to, body)).body.error?.code).toBe('invalid_request')
  })

  test('with not_found for a payout of another tenant', async ({ world, client }) => {
    const { id } = await createProcessing(client)
    const other = await world.clientOf()
    for (const answer of [
      await other.get(`/v1/payouts/${id}`),
      await other.get(`/v1/payouts/${id}/timeline`),
      await other.post(`/v1/payouts/${id}/cancel`),
      await other.post(`/v1/payouts/${id}/fail`, { reason: 'mine' }),
    ])
      expect([answer.status, answer.body.error.code]).toEqual([404, 'payout_not_found'])
    expect((await other.get('/v1/payouts')).body).toEqual([])
  })
})

test('payouts are listed newest first, filtered by status, recipient, currency and time, in pages', async ({
  world,
}) => {
  const own = await clientWithBalance(world, 1000)
  await fund(own, 1000, 'EUR')
  const [one, two] = [
    await recipient(own, 'ba_manual'),
    await recipient(own, 'ba_manual', { currency: 'eur' }),
  ]
  const made: any[] = []
  for (const [to, currency] of [
    [one, 'usd'],
    [two, 'eur'],
    [one, 'usd'],
  ] as const)
    made.push((await payOut(own, to, { currency }, WAIT)).body)
  await settle(world, made[0].processor_reference, 'failed')
  await payoutIn(own, made[0].id, 'failed')
  const ids = async (query: string) =>
    (await own.get(`/v1/payouts${query}`)).body.map((each: any) => made.findIndex(({ id }) => id === each.id))
  expect(await ids('')).toEqual([2, 1, 0])
  expect(await ids('?status=processing')).toEqual([2, 1])
  expect(await ids('?status=failed')).toEqual([0])
  expect(await ids(`?recipient_id=${one}`)).toEqual([2, 0])
  expect(await ids('?currency=EUR')).toEqual([1])
  expect(await ids(`?created_from=${made[1].created_at}&created_to=${made[2].created_at}`)).toEqual([1])
  const page = await own.get('/v1/payouts?limit=2')
  const next = /<(.+)>; rel="next"/.exec(page.headers.get('link')!)![1]!
  expect((await own.get(next)).body.map((each: any) => each.id)).toEqual([made[0].id])
  expect((await own.get('/v1/payouts?nope=1')).status).toBe(400)
})

describe('a cancellation', () => {
  test('of a payout that is not yet sent takes effect at once, and the payout is never sent', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 100)
    const to = await recipient(own)
    const { id } = await whilePaused(world, async () => {
      const { body } = await payOut(own, to)
      const canceled = await own.post(`/v1/payouts/${body.id}/cancel`)
      expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
      expect(canceled.body.canceled_at).not.toBeNull()
      expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
      return body
    })
    await world.drain()
    expect((await jobOf(world, id)).state).toBe('failed')
    expect(await effectsOf(world, id)).toEqual([])
    expect(await payoutSummary(world, id)).toMatchObject({ postings: [], events: ['canceled', 'created'] })
    const repeated = await own.post(`/v1/payouts/${id}/cancel`)
    expect([repeated.status, repeated.body.error.code]).toEqual([409, 'payout_not_cancelable'])
    expect(repeated.body.error.message).toBe('The payout cannot be canceled: it is canceled.')
  })

  test('of a processing payout is made at the processor if the processor allows the cancellation', async ({
    world,
    client,
  }) => {
    const { id } = await createProcessing(client, 'ba_pending')
    const key = freshKey()
    const canceled = await client.post(`/v1/payouts/${id}/cancel`, { idempotency_key: key })
    expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
    expect((await effectsOf(world, id)).map(({ effect }) => effect)).toEqual(['payout', 'payout_canceled'])
    const replayed = await client.post(`/v1/payouts/${id}/cancel`, { idempotency_key: key })
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    await world.drain()
    expect(await payoutSummary(world, id)).toMatchObject({
      postings: [],
      events: ['canceled', 'created', 'processing'],
    })
  })

  test('of a payout that never reached the processor takes effect when no call can reach the processor any more', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 100)
    const description = freshKey()
    const lost = {
      match: { method: 'POST', path: '/v1/payouts$', contains: description },
      fault: 'drop_before',
    }
    await fault(world, lost)
    const { body } = await payOut(own, await recipient(own), { description })
    await eventually(async () => expect(await jobOf(world, body.id)).toMatchObject({ in_doubt: true }))
    expect((await own.post(`/v1/payouts/${body.id}/cancel`)).status).toBe(202)
    await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('unknown'))
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 100 })
    await world.sql`
      update jobs set first_sent_at = first_sent_at - interval '26 hours', last_sent_at = last_sent_at - interval '26 hours',
        run_at = now()
      where resource_id = ${body.id}`
    // Two lookups find nothing, one minute apart.
    await eventually(async () => {
      const { count } = await world.sql`
        update jobs set absent_since = absent_since - interval '1 minute', run_at = now()
        where resource_id = ${body.id} and state = 'unknown' and absent_since is not null`
      expect(count).toBe(1)
    })
    await payoutIn(own, body.id, 'canceled')
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    expect((await jobOf(world, body.id)).state).toBe('failed')
  })

  test('that precedes a manual failure decides the final status, and the manual failure waits for the same outcome', async ({
    world,
    client,
  }) => {
    const { id } = await createProcessing(client, 'ba_pending')
    const hold = await fault(world, { match: { method: 'POST', path: '/cancel$' }, fault: { hold: 'after' } })
    const canceling = client.post(`/v1/payouts/${id}/cancel`, {}, WAIT)
    await hold.hit()
    const failure = client.post(`/v1/payouts/${id}/fail`, { reason: 'too slow' }, WAIT)
    await eventually(async () =>
      expect((await client.get(`/v1/payouts/${id}`)).body).toMatchObject({
        status: 'processing',
        failure: { message: 'too slow', manual: true },
      }),
    )
    await hold.release()
    for (const answer of [await canceling, await failure]) {
      expect(answer.status).toBe(200)
      expect(answer.body).toMatchObject({ status: 'canceled', failure: null })
    }
    await world.drain()
    expect((await effectsOf(world, id)).map(({ effect }) => effect)).toEqual(['payout', 'payout_canceled'])
    expect((await payoutSummary(world, id)).events).toEqual(['canceled', 'created', 'processing'])
  })

  test('that follows a manual failure waits for the same outcome, and the final status is failed', async ({
    world,
    client,
  }) => {
    const { id } = await createProcessing(client, 'ba_pending')
    const hold = await fault(world, { match: { method: 'POST', path: '/cancel$' }, fault: { hold: 'after' } })
    const failure = client.post(`/v1/payouts/${id}/fail`, { reason: 'too slow' }, WAIT)
    await hold.hit()
    const key = freshKey()
    const canceling = client.post(`/v1/payouts/${id}/cancel`, { idempotency_key: key }, WAIT)
    await eventually(async () =>
      expect(await world.sql`select from idempotency_keys where key = ${key}`).toHaveLength(1),
    )
    await hold.release()
    for (const answer of [await canceling, await failure])
      expect([answer.status, answer.body.status]).toEqual([200, 'failed'])
    await world.drain()
    // The cancellation makes no second call to the processor.
    const jobs = await world.sql`select from jobs where resource_id = ${id} and name = 'payout.cancel'`
    expect(jobs).toHaveLength(1)
    expect((await payoutSummary(world, id)).events).toEqual(['created', 'failed', 'processing'])
  })

  test('that the processor refuses leaves the payout unchanged', async ({ world, client }) => {
    const payout = await createProcessing(client, 'ba_manual')
    for (const _time of [1, 2]) {
      const refused = await client.post(`/v1/payouts/${payout.id}/cancel`)
      expect([refused.status, refused.body.error]).toMatchObject([
        409,
        { code: 'payout_not_cancelable', context: { payout_id: payout.id, status: 'processing' } },
      ])
      expect((await client.get(`/v1/payouts/${payout.id}`)).body.status).toBe('processing')
    }
    await settle(world, payout.processor_reference, 'paid')
    await payoutIn(client, payout.id, 'paid')
    const late = await client.post(`/v1/payouts/${payout.id}/cancel`)
    expect(late.body.error.message).toBe('The payout cannot be canceled: it is paid.')
  })

  test('during the call of the payout is recorded, and is made after the call', async ({ world, client }) => {
    const to = await recipient(client, 'ba_pending')
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/payouts$' },
      fault: { hold: 'after' },
    })
    const { body } = await payOut(client, to)
    await hold.hit()
    const recorded = await client.post(`/v1/payouts/${body.id}/cancel`)
    expect([recorded.status, recorded.body.status]).toEqual([202, 'pending'])
    await hold.release()
    await payoutIn(client, body.id, 'canceled')
    expect((await effectsOf(world, body.id)).map(({ effect }) => effect)).toEqual([
      'payout',
      'payout_canceled',
    ])
  })
})

describe('a payout whose worker is killed before its call', () => {
  test.for([
    ['canceled', 'cancel', {}],
    ['failed', 'fail', { reason: 'too slow' }],
  ] as const)(
    'is %s, and its job fails without a call',
    async ([status, action, body], { world, client }) => {
      const { id } = await whilePaused(world, async () => {
        const { body: payout } = await payOut(client, await recipient(client))
        // The job is claimed, and the lease of the job has expired.
        await world.sql`
        update jobs set state = 'running', attempt = 1, worker = 'killed', started_at = now(), first_sent_at = now(),
          last_sent_at = now(), lease_token = gen_random_uuid(), lease_until = now() - interval '1 second'
        where resource_id = ${payout.id}`
        const ended = await client.post(`/v1/payouts/${payout.id}/${action}`, body)
        expect([ended.status, ended.body.status]).toEqual([200, status])
        return payout
      })
      await eventually(async () => expect((await jobOf(world, id)).state).toBe('failed'))
      expect(await effectsOf(world, id)).toEqual([])
    },
  )
})

describe('a manual failure', () => {
  const MANUAL_FAILURE = { code: 'failed_manually', manual: true }
  /** The status and body of a waiting request for a manual failure, by the final status of the payout. */
  const responseFor = (status: 'failed' | 'paid', message: string) =>
    status === 'failed'
      ? [200, { status, failure: { ...MANUAL_FAILURE, message } }]
      : [409, { error: { code: 'payout_not_failable', context: { status } } }]
  const requestFailure = (own: Client, id: string, reason = 'by hand', headers = {}) =>
    own.post(`/v1/payouts/${id}/fail`, { reason }, headers)

  test.for([
    ['accepted', 'acct_success', { hold: 'after' }, 0, 'paid', ['created', 'fail_overtaken', 'paid']],
    ['refused', 'acct_refused', { hold: 'before' }, 100, 'failed', ['created', 'failed']],
  ] as const)(
    'during the call of the payout waits until the call is %s',
    async ([_outcome, destination, call_fault, balance, status, events], { world, client }) => {
      const own = await clientWithBalance(world, 100)
      const to = await recipient(own, destination)
      const hold = await fault(world, { match: { method: 'POST', path: '/transfers$' }, fault: call_fault })
      const { body } = await payOut(own, to)
      await hold.hit()
      const key = freshKey()
      const requestFail = (headers = {}) =>
        own.post(`/v1/payouts/${body.id}/fail`, { reason: 'too slow', idempotency_key: key }, headers)
      const accepted = await requestFail()
      expect([accepted.status, accepted.headers.get('location')]).toEqual([202, `/v1/payouts/${body.id}`])
      expect(accepted.body).toMatchObject({
        status: 'pending',
        failure: { ...MANUAL_FAILURE, message: 'too slow' },
        failed_at: null,
      })
      expect(accepted.body.fail_requested_at).not.toBeNull()
      // The amount stays reserved while the outcome of the call is unknown.
      expect((await payOut(own, to)).body.error).toMatchObject({ code: 'insufficient_balance' })
      expect((await own.get('/v1/wallet/balances')).body).toMatchObject([
        { balance_minor: 100, pending_payouts_minor: 100, available_minor: 0 },
      ])
      const waiting = requestFail(WAIT)
      await hold.release()
      const waited = await waiting
      expect([waited.status, waited.body]).toMatchObject(responseFor(status, 'too slow'))
      expect(await accountOf(world, own.tenant_id)).toEqual({ balance, reserved: 0 })
      await world.drain()
      expect((await payoutSummary(world, body.id)).events).toEqual(events)
      expect(await driftsOf(client, body.id)).toEqual([])
    },
  )

  test('of a payout that is not yet sent frees its reserved amount, and the payout is never sent', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 100)
    const to = await recipient(own)
    const key = freshKey()
    const { id } = await whilePaused(world, async () => {
      const { body } = await payOut(own, to)
      const failed = await own.post(`/v1/payouts/${body.id}/fail`, {
        reason: 'asked twice',
        idempotency_key: key,
      })
      expect(failed.status).toBe(200)
      expect(failed.body).toMatchObject({
        status: 'failed',
        failure: { code: 'failed_manually', message: 'asked twice', manual: true },
        fail_requested_at: null,
      })
      expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
      return body
    })
    await world.drain()
    expect(await effectsOf(world, id)).toEqual([])
    expect(await payoutSummary(world, id)).toMatchObject({ postings: [], events: ['created', 'failed'] })
    const replayed = await own.post(`/v1/payouts/${id}/fail`, { reason: 'asked twice', idempotency_key: key })
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    const reused = await own.post(`/v1/payouts/${id}/fail`, { reason: 'other', idempotency_key: key })
    expect(reused.body.error.code).toBe('idempotency_key_reused')
    const repeated = await requestFailure(own, id, 'again')
    expect([repeated.status, repeated.body.error.code]).toEqual([409, 'payout_not_failable'])
    expect(repeated.body.error.message).toBe('The payout cannot be failed: it is failed.')
  })

  test.for([
    ['that were all refused', ['rate_limited_429']],
    ['of which the last was refused because of wrong credentials', ['rate_limited_429', 'refuse_401']],
  ] as const)('after calls %s takes effect at once', async ([_what, refusals], { world }) => {
    const own = await clientWithBalance(world, 100)
    const description = freshKey()
    for (const refusal of refusals) {
      const match = { method: 'POST', path: '/v1/payouts$', contains: description }
      await fault(world, { match, times: refusal === refusals.at(-1) ? 1000 : 1, fault: refusal })
    }
    const { body } = await payOut(own, await recipient(own), { description })
    await eventually(async () => {
      const [job] = await world.sql<{ attempt: number; state: string }[]>`
        select attempt, state from jobs where resource_id = ${body.id}`
      expect(job).toMatchObject({ state: 'ready' })
      expect(job!.attempt).toBeGreaterThanOrEqual(refusals.length)
    })
    const failed = await eventually(async () => {
      const answer = await requestFailure(own, body.id)
      expect(answer.status).not.toBe(202)
      return answer
    })
    expect([failed.status, failed.body.status]).toEqual([200, 'failed'])
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    await retryJob(world.sql, { job_id: (await jobOf(world, body.id)).id, actor: 'test', reason: 'now' })
    await world.drain()
    expect(await effectsOf(world, body.id)).toEqual([])
  })

  test('of a sent payout takes effect after the processor has canceled the payout, with one cancellation for two requests', async ({
    world,
    client,
  }) => {
    const own = await clientWithBalance(world, 100)
    const { body: payout } = await payOut(own, await recipient(own, 'ba_pending'), {}, WAIT)
    const match = { method: 'POST', path: `/payouts/${payout.processor_reference}/cancel$` }
    const hold = await fault(world, { match, fault: { hold: 'before' } })
    const keys = [freshKey(), freshKey()]
    const requests = Promise.all(
      keys.map((key) => requestFailure(own, payout.id, key, { ...WAIT, 'idempotency-key': key })),
    )
    await hold.hit()
    await eventually(async () =>
      expect(await world.sql`select from idempotency_keys where key = any(${keys})`).toHaveLength(2),
    )
    await hold.release()
    const answers = await requests
    for (const { status, body } of answers)
      expect([status, body.status, body.failure.manual]).toEqual([200, 'failed', true])
    expect(answers[0]!.body.failure).toEqual(answers[1]!.body.failure)
    expect((await effectsOf(world, payout.id)).map(({ effect }) => effect)).toEqual([
      'payout',
      'payout_canceled',
    ])
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    await world.drain()
    expect(await payoutSummary(world, payout.id)).toMatchObject({
      payout: { status: 'failed', processor_status: 'canceled', failure: 'failed_manually' },
      postings: [],
      events: ['created', 'failed', 'processing'],
    })
    expect(await driftsOf(client, payout.id)).toEqual([])
  })

  test.for([
    ['fails', 'failed', 'failed', ['created', 'failed', 'processing']],
    ['cancels', 'canceled', 'failed', ['created', 'failed', 'processing']],
    ['pays', 'paid', 'paid', ['created', 'fail_overtaken', 'paid', 'processing']],
  ] as const)(
    'of a payout that the processor cannot cancel at once waits until the processor %s the payout',
    async ([_does, processor_status, status, events], { world }) => {
      const own = await clientWithBalance(world, 100)
      const { body: payout } = await payOut(own, await recipient(own, 'ba_manual'), {}, WAIT)
      const { id, processor_reference } = payout
      const accepted = await requestFailure(own, id, 'never arrived', { prefer: 'wait=1' })
      expect([accepted.status, accepted.body.status]).toEqual([202, 'processing'])
      expect(accepted.body.failure).toEqual({ ...MANUAL_FAILURE, message: 'never arrived' })
      await eventually(async () => expect((await jobOf(world, id, 'payout.cancel')).state).toBe('failed'))
      expect((await own.get(`/v1/payouts/${id}`)).body).toMatchObject({
        status: 'processing',
        fail_requested_at: accepted.body.fail_requested_at,
      })
      expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 100 })
      const key = freshKey()
      const waiting = requestFailure(own, id, 'second', { ...WAIT, 'idempotency-key': key })
      await eventually(async () =>
        expect(await world.sql`select from idempotency_keys where key = ${key}`).toHaveLength(1),
      )
      await settle(world, processor_reference, processor_status)
      const waited = await waiting
      expect([waited.status, waited.body]).toMatchObject(responseFor(status, 'never arrived'))
      const failure = status === 'paid' ? null : { message: 'never arrived' }
      expect(await payoutIn(own, id, status)).toMatchObject({ failure })
      expect(await accountOf(world, own.tenant_id)).toEqual({
        balance: status === 'paid' ? 0 : 100,
        reserved: 0,
      })
      await world.drain()
      expect((await payoutSummary(world, id)).events).toEqual(events)
      expect((await own.get('/v1/reconciliation')).body).toEqual([])
    },
  )

  test('of a payout that the processor pays anyway does not mark a later return of the payout as manual', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 100)
    const { body: payout } = await payOut(own, await recipient(own, 'ba_manual'), {}, WAIT)
    expect((await requestFailure(own, payout.id)).status).toBe(202)
    await settle(world, payout.processor_reference, 'paid')
    await payoutIn(own, payout.id, 'paid')
    await settle(world, payout.processor_reference, 'failed')
    expect((await payoutIn(own, payout.id, 'failed')).failure).toMatchObject({ manual: false })
    expect(await accountOf(world, own.tenant_id)).toEqual({ balance: 100, reserved: 0 })
  })

  test('during the call of the payout is followed by a cancellation at the processor', async ({
    world,
    client,
  }) => {
    const to = await recipient(client, 'ba_pending')
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/payouts$' },
      fault: { hold: 'after' },
    })
    const { body } = await payOut(client, to)
    await hold.hit()
    expect((await requestFailure(client, body.id)).status).toBe(202)
    await hold.release()
    expect((await payoutIn(client, body.id, 'failed')).failure).toMatchObject(MANUAL_FAILURE)
    expect((await effectsOf(world, body.id)).map(({ effect }) => effect)).toEqual([
      'payout',
      'payout_canceled',
    ])
  })

  test('is refused without a reason, and for a paid payout', async ({ world, client }) => {
    const payout = await createProcessing(client)
    for (const body of [{}, { reason: '' }, { reason: 7 }])
      expect((await client.post(`/v1/payouts/${payout.id}/fail`, body)).body.error.code).toBe(
        'invalid_request',
      )
    await settle(world, payout.processor_reference, 'paid')
    await payoutIn(client, payout.id, 'paid')
    const refused = await requestFailure(client, payout.id, 'late')
    expect([refused.status, refused.body.error.message]).toEqual([
      409,
      'The payout cannot be failed: it is paid.',
    ])
  })
})

describe("where the platform's balance at the processor is too low", () => {
  const refuseForBalance = (world: World) =>
    fault(world, {
      match: { method: 'POST', path: '/v1/payouts$' },
      fault: { refuse_400: true, code: 'balance_insufficient' },
    })

  test('the job of a payout is parked and the payout stays pending until a retry', async ({
    world,
    client,
  }) => {
    const to = await recipient(client)
    const empty = await refuseForBalance(world)
    const { body } = await payOut(client, to)
    await empty.hit()
    await eventually(async () =>
      expect(await jobOf(world, body.id)).toMatchObject({
        state: 'ready',
        run_at: 'infinity',
        generation: 2,
      }),
    )
    expect((await client.get(`/v1/payouts/${body.id}`)).body).toMatchObject({
      status: 'pending',
      failure: null,
    })
    await retryJob(world.sql, {
      job_id: (await jobOf(world, body.id)).id,
      actor: 'test',
      reason: 'filled up',
    })
    await payoutIn(client, body.id, 'paid')
    expect(await effectsOf(world, body.id)).toEqual([{ effect: 'payout', amount: 100 }])
  })

  const parkPayout = async (world: World, own: Client) => {
    const to = await recipient(own)
    const empty = await refuseForBalance(world)
    const { body } = await payOut(own, to)
    await empty.hit()
    await eventually(async () => expect((await jobOf(world, body.id)).run_at).toBe('infinity'))
    return body
  }

  test('one command retries all parked jobs, and the job of a canceled payout fails without a call', async ({
    world,
  }) => {
    const own = await clientWithBalance(world, 1000)
    const payouts = [await parkPayout(world, own), await parkPayout(world, own)]
    const canceled = await parkPayout(world, own)
    const { status, body } = await own.post(`/v1/payouts/${canceled.id}/cancel`)
    expect([status, body.status]).toEqual([200, 'canceled'])
    const command = async (...args: string[]) =>
      await runHere(jobsCommand, ['retry', ...args, '--by', 'ada', '--reason', 'filled up'], {
        DATABASE_URL: world.config.DATABASE_URL,
      })
    const tenant = (await world.sql`select slug from tenants where id = ${own.tenant_id}`)[0]!.slug as string
    const filters = ['--state', 'parked', '--queue', 'payouts', '--tenant', tenant]
    expect(await command(...filters)).toMatchObject({ code: 0, stdout: '3 jobs are due now.\n' })
    for (const { id } of payouts) await payoutIn(own, id, 'paid')
    await eventually(async () => expect((await jobOf(world, canceled.id)).state).toBe('failed'))
    expect(await effectsOf(world, canceled.id)).toEqual([])
    expect(await command(...filters)).toMatchObject({ code: 0, stdout: '0 jobs are due now.\n' })
    await parkPayout(world, own)
    expect(await command(...filters)).toMatchObject({ code: 0, stdout: '1 job is due now.\n' })
    expect((await command('--state', 'unknown')).stderr).toContain('--state parked')
    expect((await command('--queue', 'payouts')).stderr).toContain('--state parked')
  })
})

describe('a lost response', () => {
  const DESTINATIONS = { payouts: 'ba_success', transfers: 'acct_success' }
  test.concurrent.for(
    [
      ['before the effect', 'drop_before'],
      ['after the effect', 'drop_after'],
      ['with a stored error of the processor', 'error_500_after'],
    ].flatMap(([when, lost]) => Object.entries(DESTINATIONS).map((entry) => [when, ...entry, lost] as const)),
  )('%s leads to one payout: %s', async ([_when, path, destination, lost], { world, client }) => {
    const description = freshKey()
    await fault(world, {
      match: { method: 'POST', path: `/v1/${path}$`, contains: description },
      fault: lost,
    })
    const { body } = await payOut(client, await recipient(client, destination), { description })
    await payoutIn(client, body.id, 'paid')
    expect(await effectsOf(world, body.id)).toHaveLength(1)
  })

  test('of a payout that is canceled in the meantime leads to a lookup, not to a second call', async ({
    world,
    client,
  }) => {
    const to = await recipient(client, 'ba_pending')
    const hold = await fault(world, {
      match: { method: 'POST', path: '/v1/payouts$' },
      fault: { delay_ms: 300, drop_after: true },
    })
    const { body } = await payOut(client, to)
    await hold.hit()
    await client.post(`/v1/payouts/${body.id}/cancel`, {}, { prefer: 'respond-async' })
    await payoutIn(client, body.id, 'canceled')
    const { id } = await jobOf(world, body.id)
    expect(await world.provider('stripe').requests({ idempotency_key: `${id}:1` })).toHaveLength(1)
  })
})

describe('a payout with an unknown outcome at the processor', () => {
  /** Creates a payout whose call got a stored error before its effect, so that lookups find nothing. */
  async function createUnknownPayout(
    world: World,
    client: Client,
    destination = 'ba_manual',
  ): Promise<{ id: string; job_id: string }> {
    await fault(world, { match: { method: 'POST', path: '/v1/payouts$' }, fault: 'error_500_before' })
    const { body } = await payOut(client, await recipient(client, destination))
    await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('unknown'))
    return { id: body.id, job_id: (await jobOf(world, body.id)).id }
  }
  const act = (job_id: string) => ({ job_id, actor: 'test', reason: 'asked the processor' })

  test('stays pending, and its amount stays reserved, until an operator resolves the payout as failed', async ({
    world,
    client,
  }) => {
    const before = await accountOf(world, world.tenant_id)
    const { id, job_id } = await createUnknownPayout(world, client)
    expect((await accountOf(world, world.tenant_id)).reserved).toBe(before.reserved + 100)
    expect(await world.sql.begin((tx) => resolveAsFailed(tx, act(job_id)))).toMatchObject({ after: 'failed' })
    expect((await client.get(`/v1/payouts/${id}`)).body).toMatchObject({
      status: 'failed',
      failure: { code: 'processor_error', manual: false },
    })
    expect((await accountOf(world, world.tenant_id)).reserved).toBe(before.reserved)
  })

  test('is settled with the reference that an operator finds at the processor', async ({ world, client }) => {
    const { id, job_id } = await createUnknownPayout(world, client, 'ba_manual')
    const { url, api_key } = world.provider('stripe')
    const made = await fetch(`${url}/v1/payouts`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: `amount=100&currency=usd&destination=ba_manual&metadata[sluice_payout_id]=${id}`,
    })
    const { id: reference } = (await made.json()) as { id: string }
    expect(await resolveAsDone(world.sql, act(job_id), reference)).toMatchObject({ lookup_only: true })
    expect(await payoutIn(client, id, 'processing')).toMatchObject({ processor_reference: reference })
  })

  test('that is failed manually is never sent again, and its amount stays reserved until an operator resolves the payout', async ({
    world,
    client,
  }) => {
    const before = await accountOf(world, world.tenant_id)
    const { id, job_id } = await createUnknownPayout(world, client)
    expect((await client.post(`/v1/payouts/${id}/fail`, { reason: 'lost' })).status).toBe(202)
    await retryJob(world.sql, act(job_id))
    await eventually(async () => expect((await jobOf(world, id)).state).toBe('unknown'))
    expect(await effectsOf(world, id)).toEqual([])
    const sent = await world.provider('stripe').requests({ idempotency_key: `${job_id}:1` })
    expect(sent.length).toBe(2)
    expect(await discardJob(world.sql, act(job_id))).toBeUndefined()
    expect((await accountOf(world, world.tenant_id)).reserved).toBe(before.reserved + 100)
    expect(await world.sql.begin((tx) => resolveAsFailed(tx, act(job_id)))).toMatchObject({ after: 'failed' })
    expect((await accountOf(world, world.tenant_id)).reserved).toBe(before.reserved)
    expect((await client.get(`/v1/payouts/${id}`)).body.failure).toMatchObject({
      manual: true,
      message: 'lost',
    })
  })
})

test("a payout whose call is refused because of Sluice's credentials is canceled at once, without a payout at the processor", async ({
  world,
  client,
}) => {
  const refusing = await fault(world, {
    match: { method: 'POST', path: '/v1/payouts$' },
    fault: 'refuse_401',
  })
  const { body } = await payOut(client, await recipient(client))
  await refusing.hit()
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('ready'))
  const canceled = await client.post(`/v1/payouts/${body.id}/cancel`)
  expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
  await retryJob(world.sql, { job_id: (await jobOf(world, body.id)).id, actor: 'test', reason: 'now' })
  await world.drain()
  expect(await effectsOf(world, body.id)).toEqual([])
})

test('the audit reports a payout whose postings differ, and a missing event', async ({ world, client }) => {
  const { body } = await payOut(client, await recipient(client, 'acct_success'), {}, WAIT)
  const problems = async () =>
    (await auditEverything(world.sql)).problems.flatMap(({ resource_id, problem, off_by }) =>
      resource_id === body.id ? [`${problem} ${off_by}`] : [],
    )
  expect(await problems()).toEqual([])
  const tamper = async (change: string) =>
    void (await world.sql.unsafe(`update payouts set ${change} where id = '${body.id}'`))
  await tamper('returned_minor = 30')
  expect(await problems()).toEqual(['the returned amount differs from its postings -30'])
  await tamper(`returned_minor = 0, status = 'canceled', paid_at = null, canceled_at = now()`)
  expect(await problems()).toEqual([
    'the number of events differs from the number of changes 1',
    'the number of events differs from the number of changes -1',
  ])
  await tamper(`status = 'paid', paid_at = now(), canceled_at = null`)
  expect(await problems()).toEqual([])
})

test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
})
