// Notifications of payouts and transfers in any order, before or after what they tell of is known here: the same end, and
// never a step back.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkBooks } from '#test/books.ts'
import type { Client } from '#test/client.ts'
import { eventually, fault } from '#test/payments.ts'
import { fund, payOut, payoutIn, payoutStory, recipient } from '#test/payouts.ts'
import {
  deliver,
  eventsOf,
  ordersOf,
  shuffled,
  spread,
  stateOf,
  tellInOrders,
} from '#test/stripe-events.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
let client: Client
beforeAll(async () => {
  world = await createWorld({ notifications: false })
  client = world.client
  await fund(client, 1_000_000)
})
afterAll(async () => await world?.close())

const control = (path: string, body: object) => world.provider('stripe').control('POST', path, body)
const settle = (reference: string, status: string) => control(`/payouts/${reference}/settle`, { status })
const driftsEver = async () => Array.from(await world.sql`select * from drifts`)

/** Payouts that the processor has, as many as there are orders of `count` events. */
async function taken(count: number, destination: string): Promise<{ payouts: any[]; orders: number[][] }> {
  const orders = ordersOf(Array.from({ length: count }, (_, index) => index))
  const to = await recipient(client, destination)
  const payouts = await spread(
    orders,
    20,
    async () => (await payOut(client, to, {}, { prefer: 'wait=20' })).body,
  )
  return { payouts, orders }
}

async function tellInEveryOrder(payouts: any[], orders: number[][]): Promise<void> {
  await tellInOrders(
    world,
    payouts.map((payout) => payout.processor_reference),
    orders,
  )
}

describe('all orders of the notifications of a payout', () => {
  test('that was paid and came back end alike', async () => {
    const { payouts, orders } = await taken(3, 'ba_manual')
    for (const { processor_reference } of payouts) {
      // Stripe tells of changes that change nothing here, too.
      const { url, api_key } = world.provider('stripe')
      await fetch(`${url}/v1/payouts/${processor_reference}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
        body: 'metadata[seen]=1',
      })
      await settle(processor_reference, 'paid')
      await settle(processor_reference, 'failed')
    }
    await tellInEveryOrder(payouts, orders)
    for (const { id } of payouts)
      expect(await payoutStory(world, id)).toEqual({
        payout: {
          status: 'failed',
          processor_status: 'failed',
          paid_minor: 0,
          returned_minor: 0,
          failure: 'could_not_process',
          manual: false,
          known: true,
        },
        postings: [],
        events: ['created', 'failed', 'processing'],
      })
    expect(await driftsEver()).toEqual([])
  }, 60_000)

  test('that was canceled in the dashboard end alike', async () => {
    const { payouts, orders } = await taken(1, 'ba_pending')
    for (const { processor_reference } of payouts) await settle(processor_reference, 'canceled')
    await tellInEveryOrder(payouts, orders)
    for (const { id } of payouts)
      expect(await payoutStory(world, id)).toMatchObject({
        payout: { status: 'canceled', processor_status: 'canceled', paid_minor: 0 },
        events: ['canceled', 'created', 'processing'],
      })
  })

  test('that was told as it happened: paid is posted, and posted back', async () => {
    const {
      payouts: [payout],
    } = await taken(1, 'ba_manual')
    const { id, processor_reference: reference } = payout
    await settle(reference, 'paid')
    const [paid] = (await eventsOf(world, reference)).filter(({ type }) => type === 'payout.paid')
    await deliver(world, paid!)
    await payoutIn(client, id, 'paid')
    await settle(reference, 'failed')
    const [failed] = (await eventsOf(world, reference)).filter(({ type }) => type === 'payout.failed')
    await deliver(world, failed!)
    await payoutIn(client, id, 'failed')
    // A late copy under another id, which says what was true once.
    await deliver(world, { ...paid!, id: `${paid!.id}_copy` })
    await world.drain()
    expect(await payoutStory(world, id)).toMatchObject({
      payout: { status: 'failed', paid_minor: 100, returned_minor: 100 },
      postings: ['payout_paid -100', 'payout_returned 100'],
      events: ['created', 'failed', 'paid', 'processing'],
    })
  })
})

describe('a transfer', () => {
  const reverse = (reference: string, amount?: number) =>
    control(`/transfers/${reference}/reverse`, amount === undefined ? {} : { amount })

  test('that is reversed in parts is posted back as they come, and has failed with the last', async () => {
    const {
      payouts: [payout],
    } = await taken(1, 'acct_success')
    const { id, processor_reference: reference } = payout
    const told = new Set<string>()
    const tell = async () => {
      for (const event of await eventsOf(world, reference)) {
        if (told.has(event.id)) continue
        told.add(event.id)
        await deliver(world, event)
      }
      await world.drain()
    }
    await tell()
    await reverse(reference, 30)
    await tell()
    expect(await payoutStory(world, id)).toMatchObject({
      payout: { status: 'paid', returned_minor: 30 },
      postings: ['payout_paid -100', 'payout_returned 30'],
    })
    await reverse(reference, 20)
    await reverse(reference)
    await tell()
    expect(await payoutStory(world, id)).toEqual({
      payout: {
        status: 'failed',
        processor_status: 'failed',
        paid_minor: 100,
        returned_minor: 100,
        failure: 'reversed',
        manual: false,
        known: true,
      },
      postings: ['payout_paid -100', 'payout_returned 30', 'payout_returned 70'],
      events: ['created', 'failed', 'paid'],
    })
  })

  test('told of in every order ends alike', async () => {
    const { payouts, orders } = await taken(3, 'acct_success')
    for (const { processor_reference } of payouts) {
      await reverse(processor_reference, 40)
      await reverse(processor_reference)
    }
    await tellInEveryOrder(payouts, orders)
    for (const { id } of payouts) {
      const story = await payoutStory(world, id)
      expect(story).toMatchObject({
        payout: { status: 'failed', paid_minor: 100, returned_minor: 100, failure: 'reversed' },
        events: ['created', 'failed', 'paid'],
      })
      expect(story.postings[0]).toBe('payout_paid -100')
    }
    expect(await driftsEver()).toEqual([])
  }, 60_000)
})

test('a notification that is faster than our own answer settles the payout; the late answer moves nothing', async () => {
  const to = await recipient(client, 'ba_manual')
  const held = await fault(world, {
    match: { method: 'POST', path: '/v1/payouts$' },
    fault: { hold: 'after' },
  })
  const { body } = await payOut(client, to)
  await held.hit()
  const [effect] = await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': body.id })
  await settle(effect.payout, 'paid')
  for (const event of shuffled(await eventsOf(world, effect.payout))) await deliver(world, event)
  await payoutIn(client, body.id, 'paid')
  await held.release()
  await world.drain()
  expect(await payoutStory(world, body.id)).toMatchObject({
    payout: { status: 'paid', known: true },
    postings: ['payout_paid -100'],
    events: ['created', 'paid'],
  })
})

test('a payout that is not ours is parked and changes nothing', async () => {
  const { url, api_key } = world.provider('stripe')
  const answer = await fetch(`${url}/v1/payouts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: 'amount=700&currency=usd&destination=ba_manual&metadata[application]=another',
  })
  const { id } = (await answer.json()) as { id: string }
  await settle(id, 'paid')
  const events = await eventsOf(world, id)
  for (const event of events) expect((await deliver(world, event)).status).toBe(200)
  await eventually(async () => {
    for (const event of events) expect(await stateOf(world, event)).toBe('parked')
  })
  expect(await driftsEver()).toEqual([])
})

test('in the end all books agree', async () => {
  await checkBooks(world)
}, 60_000)
