// Tests payouts, transfers and top-ups of the Stripe emulator with Stripe's SDK.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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
  emulator = await startStripeEmulator({ port: 0, api_key: EMULATOR_KEY, late_return_ms: 50 })
  ;({ stripe, control } = clientsOf(emulator.url))
})
afterAll(async () => await emulator.close())

const eventsOf = (id: string) => eventsAbout(stripe, id)
const effectsOf = (resource: string, id: string) => effectsAbout(control, resource, id)

const PAYOUT: Stripe.PayoutCreateParams = {
  amount: 1200,
  currency: 'usd',
  destination: 'ba_success',
  metadata: { payout: '7' },
}

async function awaitStatus(id: string, status: string): Promise<Stripe.Payout> {
  return await eventually(async () => {
    const payout = await stripe.payouts.retrieve(id)
    expect(payout.status).toBe(status)
    return payout
  })
}

describe('payouts', () => {
  test('are pending, then in transit, then paid, each with an event', async () => {
    const created = await stripe.payouts.create({ ...PAYOUT, description: 'For June' })
    expect(created).toMatchObject({
      object: 'payout',
      amount: 1200,
      automatic: false,
      currency: 'usd',
      description: 'For June',
      destination: 'ba_success',
      failure_code: null,
      livemode: false,
      metadata: { payout: '7' },
      method: 'standard',
      source_type: 'card',
      status: 'pending',
      type: 'bank_account',
    })
    expect(created.id).toMatch(/^po_/)
    expect(created.balance_transaction).toMatch(/^txn_/)
    expect(created.arrival_date % 86_400).toBe(0)
    expect(created.arrival_date).toBeGreaterThan(created.created)
    await awaitStatus(created.id, 'paid')
    expect(await eventsOf(created.id)).toEqual(['payout.created', 'payout.updated', 'payout.paid'])
    const { data } = await stripe.events.list({ type: 'payout.updated', limit: 1 })
    expect(data[0]!.data).toMatchObject({
      object: { status: 'in_transit' },
      previous_attributes: { status: 'pending' },
    })
    expect(await control('GET', `effects?payout=${created.id}`)).toMatchObject({
      count: 1,
      amount: 1200,
      data: [{ effect: 'payout', currency: 'usd', source: 'api', metadata: { payout: '7' } }],
    })
  })

  test('to a card have the type card; payouts to other destinations or without an amount are refused', async () => {
    expect(
      await stripe.payouts.create({ ...PAYOUT, destination: 'card_success', method: 'instant' }),
    ).toMatchObject({ type: 'card', method: 'instant' })
    for (const [params, code, param] of [
      [{ ...PAYOUT, destination: 'acct_success' }, 'resource_missing', 'destination'],
      [{ ...PAYOUT, amount: undefined }, 'parameter_missing', 'amount'],
      [{ ...PAYOUT, amount: 0 }, 'parameter_invalid_integer', 'amount'],
      [{ ...PAYOUT, currency: undefined }, 'parameter_missing', 'currency'],
      [{ ...PAYOUT, currency: 'xxx' }, undefined, 'currency'],
      [{ ...PAYOUT, source: 'ba_success' }, 'parameter_unknown', 'source'],
    ] as const)
      expect(await refusal(stripe.payouts.create(params as Stripe.PayoutCreateParams))).toMatchObject({
        statusCode: 400,
        code,
        param,
      })
    expect(await refusal(stripe.payouts.retrieve('po_nobody'))).toMatchObject({
      statusCode: 404,
      code: 'resource_missing',
    })
  })

  test('fail at a bank that does not have the account', async () => {
    const { id } = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_noAccount' })
    const failed = await awaitStatus(id, 'failed')
    expect(failed).toMatchObject({ failure_code: 'no_account', failure_message: expect.any(String) })
    expect(failed.failure_balance_transaction).toMatch(/^txn_/)
    expect(await eventsOf(id)).toEqual(['payout.created', 'payout.updated', 'payout.failed'])
    expect(await effectsOf('payout', id)).toEqual([
      ['payout', 1200, 'api'],
      ['payout_failed', 1200, 'bank'],
    ])
  })

  test('fail after they were paid, if the bank returns the money', async () => {
    const { id } = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_lateReturn' })
    expect(await awaitStatus(id, 'failed')).toMatchObject({ failure_code: 'account_closed' })
    expect(await eventsOf(id)).toEqual(['payout.created', 'payout.updated', 'payout.paid', 'payout.failed'])
  })

  test('to an unusable account are refused and move no money', async () => {
    const metadata = { payout: 'refused' }
    const refused = { ...PAYOUT, destination: 'ba_refused', metadata }
    expect(await refusal(stripe.payouts.create(refused))).toMatchObject({
      statusCode: 400,
      type: 'StripeInvalidRequestError',
      code: 'bank_account_unusable',
    })
    expect(await control('GET', 'effects?metadata[payout]=refused')).toMatchObject({ count: 0 })
  })

  test('are cancelable while pending, and not while in transit', async () => {
    const { id } = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_pending' })
    expect(await stripe.payouts.cancel(id)).toMatchObject({ id, status: 'canceled' })
    expect(await eventsOf(id)).toEqual(['payout.created', 'payout.canceled'])
    expect(await effectsOf('payout', id)).toEqual([
      ['payout', 1200, 'api'],
      ['payout_canceled', 1200, 'api'],
    ])
    const sent = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_manual' })
    expect(sent.status).toBe('in_transit')
    for (const [each, status] of [
      [id, 'canceled'],
      [sent.id, 'in_transit'],
    ] as const)
      expect(await refusal(stripe.payouts.cancel(each))).toMatchObject({
        statusCode: 400,
        type: 'StripeInvalidRequestError',
        message: expect.stringContaining(`status of ${status}`),
      })
  })

  test.each([
    ['ba_manual', ['paid', 'failed'], ['payout.paid', 'payout.failed']],
    ['ba_manual', ['canceled'], ['payout.canceled']],
    ['ba_pending', ['failed'], ['payout.failed']],
    ['ba_pending', ['paid'], ['payout.paid']],
  ])('to %s settle by control requests: %j', async (destination, ends, types) => {
    const { id } = await stripe.payouts.create({ ...PAYOUT, destination })
    for (const status of ends) {
      expect(await control('POST', `payouts/${id}/settle`, { status })).toMatchObject({ id, status })
      expect(await control('POST', `payouts/${id}/settle`, { status })).toMatchObject({
        error: { param: 'status' },
      })
    }
    expect(await eventsOf(id)).toEqual(['payout.created', ...types])
    expect(await control('POST', `payouts/${id}/settle`, { status: 'gone' })).toMatchObject({
      error: { param: 'status' },
    })
  })

  test('have the failure code that the control request sets', async () => {
    const { id } = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_manual' })
    await control('POST', `payouts/${id}/settle`, { status: 'failed', failure_code: 'declined' })
    expect(await stripe.payouts.retrieve(id)).toMatchObject({ failure_code: 'declined' })
  })

  test('are listed by status, destination and time, and keep their metadata when metadata is added', async () => {
    const destination = 'ba_listed'
    const ids: string[] = []
    for (let i = 0; i < 3; i++) ids.push((await stripe.payouts.create({ ...PAYOUT, destination })).id)
    await Promise.all(ids.map((id) => awaitStatus(id, 'paid')))
    const found = async (params: Stripe.PayoutListParams) =>
      (await stripe.payouts.list({ destination, ...params })).data.map((each) => each.id)
    expect(await found({})).toEqual(ids.toReversed())
    expect(await found({ limit: 1, starting_after: ids[2]! })).toEqual([ids[1]])
    expect(await found({ status: 'paid' })).toHaveLength(3)
    expect(await found({ status: 'pending' })).toEqual([])
    const { created, arrival_date } = await stripe.payouts.retrieve(ids[0]!)
    expect(await found({ created: { gte: created } })).toHaveLength(3)
    expect(await found({ created: { gt: created + 3600 } })).toEqual([])
    expect(await found({ arrival_date: { lt: arrival_date } })).toEqual([])

    const updated = await stripe.payouts.update(ids[0]!, { metadata: { more: '1' } })
    expect(updated.metadata).toEqual({ payout: '7', more: '1' })
    expect((await eventsOf(ids[0]!)).at(-1)).toBe('payout.updated')
  })
})

const TRANSFER: Stripe.TransferCreateParams = {
  amount: 1000,
  currency: 'eur',
  destination: 'acct_success',
  metadata: { payout: '8' },
}

describe('transfers', () => {
  test('complete immediately and are reversed partially, then fully', async () => {
    const created = await stripe.transfers.create({ ...TRANSFER, transfer_group: 'june' })
    expect(created).toMatchObject({
      object: 'transfer',
      amount: 1000,
      amount_reversed: 0,
      currency: 'eur',
      destination: 'acct_success',
      reversed: false,
      transfer_group: 'june',
      reversals: { object: 'list', data: [], has_more: false, url: `/v1/transfers/${created.id}/reversals` },
    })
    expect(created.id).toMatch(/^tr_/)
    const { id } = created
    const part = await stripe.transfers.createReversal(id, { amount: 400, metadata: { why: 'x' } })
    expect(part).toMatchObject({
      object: 'transfer_reversal',
      amount: 400,
      currency: 'eur',
      transfer: id,
      metadata: { why: 'x' },
    })
    expect(part.id).toMatch(/^trr_/)
    expect(await refusal(stripe.transfers.createReversal(id, { amount: 601 }))).toMatchObject({
      param: 'amount',
    })
    const rest = await control('POST', `transfers/${id}/reverse`)
    expect(rest).toMatchObject({ object: 'transfer_reversal', amount: 600 })
    expect(await control('POST', `transfers/${id}/reverse`)).toMatchObject({
      error: { type: 'invalid_request_error' },
    })

    const { data } = await stripe.events.list({ type: 'transfer.reversed', limit: 2 })
    expect(data.map((each) => each.data)).toMatchObject([
      {
        object: { id, reversed: true, amount_reversed: 1000 },
        previous_attributes: { amount_reversed: 400 },
      },
      { object: { id, reversed: false, amount_reversed: 400 }, previous_attributes: { amount_reversed: 0 } },
    ])
    expect(await eventsOf(id)).toEqual(['transfer.created', 'transfer.reversed', 'transfer.reversed'])
    expect(await effectsOf('transfer', id)).toEqual([
      ['transfer', 1000, 'api'],
      ['transfer_reversed', 400, 'api'],
      ['transfer_reversed', 600, 'dashboard'],
    ])
    expect((await stripe.transfers.listReversals(id)).data.map((each) => each.id)).toEqual([rest.id, part.id])
    expect(await stripe.transfers.retrieveReversal(id, part.id, { expand: ['transfer'] })).toMatchObject({
      id: part.id,
      transfer: { id, reversals: { data: [{ id: rest.id }, { id: part.id }] } },
    })
    expect((await control('GET', 'effects?metadata[payout]=8')).count).toBe(3)
  })

  test('are reversed partially by a control request', async () => {
    const { id } = await stripe.transfers.create(TRANSFER)
    await control('POST', `transfers/${id}/reverse`, { amount: 100 })
    expect(await stripe.transfers.retrieve(id)).toMatchObject({ reversed: false, amount_reversed: 100 })
  })

  test('to a bank account or to an account without the capability are refused', async () => {
    for (const [destination, code] of [
      ['ba_success', 'resource_missing'],
      ['acct_refused', 'insufficient_capabilities_for_transfer'],
    ] as const)
      expect(await refusal(stripe.transfers.create({ ...TRANSFER, destination }))).toMatchObject({
        statusCode: 400,
        code,
      })
  })

  test('are listed by destination, group and time, and accept changes of description and metadata', async () => {
    const params = { ...TRANSFER, destination: 'acct_listed', transfer_group: 'july' }
    const { id, created } = await stripe.transfers.create(params)
    for (const [filter, count] of [
      [{ destination: 'acct_listed' }, 1],
      [{ transfer_group: 'july' }, 1],
      [{ transfer_group: 'july', created: { lt: created } }, 0],
    ] as const)
      expect((await stripe.transfers.list(filter)).data).toHaveLength(count)
    expect(await stripe.transfers.update(id, { description: 'x', metadata: { a: '1' } })).toMatchObject({
      description: 'x',
      metadata: { payout: '8', a: '1' },
    })
    expect(await eventsOf(id)).toEqual(['transfer.created', 'transfer.updated'])
  })
})

const TOPUP: Stripe.TopupCreateParams = {
  amount: 5000,
  currency: 'usd',
  source: 'src_success',
  metadata: { top_up: '9' },
}

describe('top-ups', () => {
  test.each<[Partial<Stripe.TopupCreateParams>, string, string[]]>([
    [{ source: 'src_success' }, 'succeeded', ['top_up']],
    [{ source: undefined, payment_method: 'pm_success' }, 'succeeded', ['top_up']],
    [{ source: 'src_fails' }, 'failed', []],
  ])('from %j: %s', async (from, status, effects) => {
    const { id, ...created } = await stripe.topups.create({ ...TOPUP, ...from })
    expect(id).toMatch(/^tu_/)
    expect(created).toMatchObject({
      object: 'topup',
      amount: 5000,
      currency: 'usd',
      status: 'pending',
      balance_transaction: null,
      source: from.source === undefined ? null : { id: from.source, object: 'source' },
      payment_method: from.payment_method ?? null,
    })
    const settled = await eventually(async () => {
      const topup = await stripe.topups.retrieve(id)
      expect(topup.status).toBe(status)
      return topup
    })
    expect(settled).toMatchObject({
      failure_code: status === 'failed' ? 'insufficient_funds' : null,
    })
    expect(settled.balance_transaction === null).toBe(status === 'failed')
    expect(await eventsOf(id)).toEqual(['topup.created', `topup.${status}`])
    expect((await effectsOf('topup', id)).map(([effect]) => effect)).toEqual(effects)
  })

  test('from a manual source settle by control requests, and are reversed after success', async () => {
    const { id } = await stripe.topups.create({ ...TOPUP, source: 'src_manual' })
    const settle = (status: string) => control('POST', `topups/${id}/settle`, { status })
    expect(await settle('reversed')).toMatchObject({ error: { param: 'status' } })
    expect(await settle('succeeded')).toMatchObject({ status: 'succeeded' })
    expect(await refusal(stripe.topups.cancel(id))).toMatchObject({ statusCode: 400 })
    expect(await settle('reversed')).toMatchObject({ status: 'reversed' })
    expect(await settle('failed')).toMatchObject({ error: { param: 'status' } })
    expect(await eventsOf(id)).toEqual(['topup.created', 'topup.succeeded', 'topup.reversed'])
    expect(await effectsOf('topup', id)).toEqual([
      ['top_up', 5000, 'bank'],
      ['top_up_reversed', 5000, 'bank'],
    ])
  })

  test('are cancelable while pending, are listed by status, and keep their metadata when metadata is added', async () => {
    const { id } = await stripe.topups.create({ ...TOPUP, source: 'src_manual', amount: 77 })
    const found = async (params: Stripe.TopupListParams) =>
      (await stripe.topups.list({ amount: 77, ...params })).data.map((each) => each.id)
    expect(await found({ status: 'pending' })).toEqual([id])
    expect(await stripe.topups.cancel(id)).toMatchObject({ status: 'canceled' })
    expect([await found({ status: 'pending' }), await found({ status: 'canceled' })]).toEqual([[], [id]])
    expect((await stripe.topups.update(id, { metadata: { a: '1' } })).metadata).toEqual({
      top_up: '9',
      a: '1',
    })
    const two = stripe.topups.create({ ...TOPUP, payment_method: 'pm_success' })
    expect(await refusal(two)).toMatchObject({ statusCode: 400 })
  })
})

/** For each kind of object: path, parameters of a request, effect. */
const KINDS = [
  ['/v1/payouts', 'payout', 'amount=100&currency=usd&destination=ba_manual', 'payout'],
  ['/v1/transfers', 'transfer', 'amount=100&currency=usd&destination=acct_success', 'transfer'],
  ['/v1/topups', 'topup', 'amount=100&currency=usd&source=src_success', 'top_up'],
] as const

describe.each(KINDS)('%s', (path, object, params, effect) => {
  const paramsWithMark = (mark: string) => `${params}&metadata[mark]=${mark}`
  const createdCount = async (mark: string) => {
    const { data } = await stripe.events.list({ type: `${object}.created`, limit: 100 })
    return data.filter((each: any) => each.data.object.metadata.mark === mark).length
  }

  test('replays the response to a repeated key and refuses the key with other parameters', async () => {
    const key = `${object}-replayed`
    const send = (text: string) => postForm(emulator.url, path, text, key)
    const first = await send(paramsWithMark(key))
    const replay = await send(paramsWithMark(key))
    expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    expect(await replay.text()).toBe(await first.text())
    const other = await send(`${paramsWithMark(key)}&description=other`)
    expect([other.status, ((await other.json()) as any).error.type]).toEqual([400, 'idempotency_error'])
    expect(await createdCount(key)).toBe(1)
    const { data } = await eventually(async () => {
      const effects = await control('GET', `effects?metadata[mark]=${key}`)
      expect(effects.count).toBe(1)
      return effects
    })
    expect(data[0].effect).toBe(effect)
  })

  test('answers 409 while a request with the same key is in progress', async () => {
    const mark = `${object}-held`
    const { id } = await control('POST', 'faults', { match: { contains: mark }, fault: { hold: 'after' } })
    const pending_request = postForm(emulator.url, path, paramsWithMark(mark), mark)
    await control('GET', `wait?fault=${id}`)
    expect((await postForm(emulator.url, path, paramsWithMark(mark), mark)).status).toBe(409)
    await control('POST', 'release', { fault: id })
    expect((await pending_request).status).toBe(200)
    expect(await createdCount(mark)).toBe(1)
  })

  test.each([
    ['drop_before', 0, 'fails', 200],
    ['drop_after', 1, 'fails', 200],
    ['error_500_before', 0, 500, 500],
    ['error_500_after', 1, 500, 500],
    ['error_500_unstored', 0, 500, 200],
    ['html_503', 0, 503, 200],
    ['cut_body', 1, 'fails', 200],
    ['empty_200', 1, 200, 200],
    ['conflict_409', 0, 409, 200],
    ['rate_limited_429', 0, 429, 200],
    ['refuse_401', 0, 401, 200],
    ['refuse_400', 0, 400, 400],
  ])(
    '%s: %i effects, first response %s, response to the retry %s',
    async (fault, effects, first_response, retry_response) => {
      const mark = `${object}-${fault}`
      await control('POST', 'faults', { match: { contains: mark }, fault })
      const send = async () => {
        const response = await postForm(emulator.url, path, paramsWithMark(mark), mark)
        await response.text()
        return response.status
      }
      expect(await send().catch(() => 'fails')).toBe(first_response)
      expect(await createdCount(mark)).toBe(effects)
      expect(await send()).toBe(retry_response)
      expect(await createdCount(mark)).toBe(retry_response === 200 ? 1 : effects)
    },
  )
})

test('the fault refuse_400 refuses a payout for insufficient balance and stores the refusal under the key; another key succeeds', async () => {
  const metadata = { payout: 'poor' }
  const match = { path: '/payouts$', contains: 'poor' }
  await control('POST', 'faults', { match, fault: 'refuse_400' })
  const options = { idempotencyKey: 'poor-1' }
  for (let i = 0; i < 2; i++)
    expect(await refusal(stripe.payouts.create({ ...PAYOUT, metadata }, options))).toMatchObject({
      statusCode: 400,
      code: 'balance_insufficient',
      type: 'StripeInvalidRequestError',
    })
  const { status } = await stripe.payouts.create({ ...PAYOUT, metadata }, { idempotencyKey: 'poor-2' })
  expect(status).toBe('pending')
  await control('POST', 'faults', { match, fault: { refuse_400: true, code: 'payouts_not_allowed' } })
  expect(await refusal(stripe.payouts.create({ ...PAYOUT, metadata }))).toMatchObject({
    code: 'payouts_not_allowed',
  })
})

test('the page of the emulator lists payouts, top-ups and transfers, with buttons for the decisions of the bank', async () => {
  const { url } = emulator
  const metadata = { payout: '7', of: 'x' }
  const payout = await stripe.payouts.create({ ...PAYOUT, destination: 'ba_manual', metadata })
  await pressButton(url, 'settle_payout', payout.id, { value: 'paid' })
  await pressButton(url, 'settle_payout', payout.id, { value: 'failed' })
  expect(await stripe.payouts.retrieve(payout.id)).toMatchObject({ status: 'failed' })
  const topup = await stripe.topups.create({ ...TOPUP, source: 'src_manual' })
  await pressButton(url, 'settle_topup', topup.id, { value: 'succeeded' })
  expect(await stripe.topups.retrieve(topup.id)).toMatchObject({ status: 'succeeded' })
  const transfer = await stripe.transfers.create(TRANSFER)
  await pressButton(url, 'reverse', transfer.id, { amount: '300' })
  const page = await pressButton(url, 'reverse', transfer.id, { amount: '' })
  expect(await stripe.transfers.retrieve(transfer.id)).toMatchObject({ reversed: true })
  for (const { id } of [payout, topup, transfer]) expect(page).toContain(`<code>${id}</code>`)
  // The column of metadata wraps its lines, because the row also needs space for buttons.
  expect(page).toMatch(/ data-head="metadata" class="lines"><code>payout: 7\nof: x</)
  expect(page).toContain('td.lines code{white-space:pre-wrap}')
})

test('a restarted emulator performs the scheduled changes of its journal without a request to the API', async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
  const start = () => startStripeEmulator({ port: 0, api_key: EMULATOR_KEY, data_dir, late_return_ms: 1000 })
  const first = await start()
  try {
    await clientsOf(first.url).stripe.payouts.create({ ...PAYOUT, destination: 'ba_lateReturn' })
    await first.close()
    const second = await start()
    try {
      const { control } = clientsOf(second.url)
      await eventually(async () =>
        expect(await control('GET', 'effects?effect=payout_failed')).toMatchObject({ count: 1 }),
      )
    } finally {
      await second.close()
    }
  } finally {
    await rm(data_dir, { recursive: true })
  }
})

test('a restarted emulator keeps all objects, replays responses by idempotency key, and continues pending transitions', async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
  const start = (late_return_ms: number) =>
    startStripeEmulator({ port: 0, api_key: EMULATOR_KEY, data_dir, late_return_ms })
  const first = await start(600_000)
  try {
    const before = clientsOf(first.url).stripe
    const manual = await before.payouts.create({ ...PAYOUT, destination: 'ba_manual' })
    const late = await before.payouts.create({ ...PAYOUT, destination: 'ba_lateReturn' })
    await eventually(async () => expect((await before.payouts.retrieve(late.id)).status).toBe('paid'))
    const transfer = await before.transfers.create(TRANSFER)
    const request = [first.url, `/v1/transfers/${transfer.id}/reversals`, 'amount=250', 'k'] as const
    const first_text = await (await postForm(...request)).text()
    const topup = await before.topups.create({ ...TOPUP, source: 'src_manual' })
    const existing = await Promise.all([
      before.payouts.retrieve(manual.id),
      before.transfers.retrieve(transfer.id, { expand: ['destination'] }),
      before.topups.retrieve(topup.id),
      before.transfers.listReversals(transfer.id),
    ])
    const events = (await before.events.list({ limit: 100 })).data
    await first.close()

    const second = await start(1)
    try {
      const { stripe: after, control: controlled } = clientsOf(second.url)
      expect(
        await Promise.all([
          after.payouts.retrieve(manual.id),
          after.transfers.retrieve(transfer.id),
          after.topups.retrieve(topup.id),
          after.transfers.listReversals(transfer.id),
        ]),
      ).toEqual(existing)
      const replayed = await postForm(second.url, ...(request.slice(1) as [string, string, string]))
      expect(await replayed.text()).toBe(first_text)
      await eventually(async () => expect((await after.payouts.retrieve(late.id)).status).toBe('failed'))
      const later = (await after.events.list({ limit: 100 })).data
      expect(later.slice(1)).toEqual(events)
      expect(later[0]!.type).toBe('payout.failed')
      const { data } = await controlled('GET', 'effects')
      expect(data.map((each: any) => each.effect)).toEqual(
        'payout payout transfer transfer_reversed payout_failed'.split(' '),
      )
    } finally {
      await second.close()
    }
  } finally {
    await rm(data_dir, { recursive: true })
  }
})
