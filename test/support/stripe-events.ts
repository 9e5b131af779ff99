// Sends Stripe webhooks in an order, at times and with signatures that the test chooses. The emulator creates the
// events.
import { expect } from 'vitest'
import { derivedId } from '#core/ids.ts'
import { signStripe } from '#emulators/stripe/main.ts'
import { readEvent } from '#providers/stripe/events.ts'
import { eventually } from './payments.ts'
import type { World } from './world.ts'

export type StripeEvent = {
  id: string
  type: string
  account?: string
  api_version?: string | null
  data: { object: any }
}
export type WebhookAnswer = { status: number; body: any; headers: Headers }

/**
 * The emulator's events, oldest first. `reference` selects the events of one payment. Types that Sluice does not handle
 * are omitted unless `all_kinds` is set.
 */
export async function listEvents(
  world: World,
  reference?: string,
  { all_kinds = false } = {},
): Promise<StripeEvent[]> {
  const { url, api_key } = world.provider('stripe')
  const events: StripeEvent[] = []
  for (let after = ''; ;) {
    const response = await fetch(`${url}/v1/events?limit=100${after}`, {
      headers: { authorization: `Bearer ${api_key}` },
    })
    const page = (await response.json()) as { data: StripeEvent[]; has_more: boolean }
    events.push(...page.data.filter((event) => all_kinds || readEvent(event)?.is_relevant === true))
    if (!page.has_more) break
    after = `&starting_after=${page.data.at(-1)!.id}`
  }
  const all = events.toReversed()
  return reference === undefined ? all : all.filter((event) => paymentOf(event) === reference)
}

/** The payment intent of an event. */
export function paymentOf(event: StripeEvent): string | null {
  const { object } = event.data
  return object.object === 'payment_intent' ? object.id : (object.payment_intent ?? null)
}

/** The first event of each type, in the order of the types. */
export function pick(events: StripeEvent[], types: readonly string[]): StripeEvent[] {
  return types.map((type) => {
    const event = events.find((each) => each.type === type)
    if (event === undefined) throw new Error(`no ${type} among ${events.map((each) => each.type).join(', ')}`)
    return event
  })
}

/** The events of one Stripe object, oldest first. Selects from `all` if `all` is set. */
export async function eventsOf(world: World, reference: string, all?: StripeEvent[]): Promise<StripeEvent[]> {
  return (all ?? (await listEvents(world))).filter(({ data }) => data.object.id === reference)
}

/** An event that the emulator has not created. */
export function fabricatedEvent(type: string, object: Record<string, unknown>): StripeEvent {
  counter += 1
  return { id: `evt_made_up_${process.pid}_${counter}`, type, data: { object } }
}
let counter = 0

/** Posts a correctly signed event. */
export async function deliver(world: World, event: StripeEvent): Promise<WebhookAnswer> {
  const body = JSON.stringify(event)
  const { webhook_secret } = world.provider('stripe')
  return await postWebhook(world, body, { 'stripe-signature': signStripe(body, webhook_secret) })
}

/** Posts up to 100 events at once. Returns the answers in order. */
export async function deliverAll(world: World, events: readonly StripeEvent[]): Promise<WebhookAnswer[]> {
  return await mapConcurrently(events, 100, (event) => deliver(world, event))
}

/**
 * Delivers the first event of each order, then the second event of each order after the first events have been tried,
 * and so on. Before each round, the times of parked notifications are reset as if no time had passed.
 */
export async function deliverInRounds(world: World, orders: StripeEvent[][]): Promise<void> {
  for (let round = 0; round < orders[0]!.length; round++) {
    const events = orders.map((order) => order[round]!)
    await world.sql`
      with parked as (update notifications set parked_at = now() where state = 'parked' returning id)
      update jobs j set run_at = now() + interval '5 seconds' from parked
      where j.id = parked.id and j.state = 'ready' and j.run_at between now() and now() + interval '5 seconds'`
    for (const { status } of await deliverAll(world, events)) expect(status).toBe(200)
    await untilAttempted(world, events)
  }
}

/** Makes parked notifications due now. */
export async function retryParked({ sql }: World): Promise<void> {
  await sql`
    update jobs j set run_at = now(), wakeup_sent_at = null from notifications n
    where n.state = 'parked' and j.id = n.id and j.state = 'ready' and j.run_at > now()`
}

/**
 * Delivers each object's events in the object's own order, given as indexes, then delivers all events again. Waits
 * until no work remains.
 */
export async function deliverInOrders(world: World, references: string[], orders: number[][]): Promise<void> {
  const all = await listEvents(world)
  const events_of = await Promise.all(references.map((reference) => eventsOf(world, reference, all)))
  for (const [nth, events] of events_of.entries()) expect(events).toHaveLength(orders[nth]!.length)
  await deliverInRounds(
    world,
    orders.map((order, nth) => order.map((index) => events_of[nth]![index]!)),
  )
  await deliverAll(world, events_of.flat())
  await retryParked(world)
  await world.drain()
}

/** Runs `work` for each item, with this many runs at a time. Returns the results in order. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  at_once: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  const entries = items.entries()
  const lane = async () => {
    for (const [index, item] of entries) results[index] = await work(item, index)
  }
  await Promise.all(Array.from({ length: at_once }, lane))
  return results
}

/** Posts bytes to the webhooks host. */
export async function postWebhook(
  world: World,
  body: string | Buffer,
  headers: Record<string, string> = {},
  { method = 'POST', path = '/stripe' }: { method?: string; path?: string } = {},
): Promise<WebhookAnswer> {
  const response = await fetch(`${world.config.WEBHOOKS_URL}${path}`, {
    method,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    ...(method === 'POST' && { body: typeof body === 'string' ? body : new Uint8Array(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) }
}

export function notificationId(event: StripeEvent): string {
  return derivedId('stripe', event.account ?? '', event.id)
}

/** The state of an event's notification; undefined if there is none. */
export async function stateOf(world: World, event: StripeEvent): Promise<string | undefined> {
  const [row] = await world.sql<{ state: string }[]>`
    select state from notifications where id = ${notificationId(event)}`
  return row?.state
}

/** Resolves when each of these events has been tried, or needs no job. */
export async function untilAttempted(world: World, events: StripeEvent[]): Promise<void> {
  await eventually(async () => {
    const [row] = await world.sql<{ untried: number }[]>`
      select count(*) as untried from notifications n left join jobs j on j.id = n.id
      where n.id = any(${events.map(notificationId)}::uuid[])
        and (n.state = 'waiting' or (j.finished_at is null and not (j.state = 'ready' and j.attempt > 0)))`
    expect(row!.untried).toBe(0)
  })
}

/** A payment with its refunds, postings and events, to compare the results of two scenarios. */
export async function paymentSummary(world: World, payment_id: string) {
  const [payment] = await world.sql`
    select status, processor_reference is not null as known, amount_capturable_minor, amount_captured_minor,
      amount_refunded_minor, amount_refund_reserved_minor, cancellation_reason, failure ->> 'code' as failure
    from payments where id = ${payment_id}`
  const refunds = await world.sql`
    select status, amount_minor, imported, processor_reference is not null as known from refunds
    where payment_id = ${payment_id} order by amount_minor, created_at`
  const postings = await world.sql`
    select kind, case when credit_account = 'available' then amount_minor else -amount_minor end as amount_minor
    from ledger_transfers
    where subject_id = ${payment_id} or subject_id in (select id from refunds where payment_id = ${payment_id})
    order by 1, 2`
  const events = await world.sql<{ type: string }[]>`
    select type from events where subject_id = ${payment_id} order by type`
  return {
    payment: { ...payment },
    refunds: refunds.map((row) => ({ ...row })),
    postings: postings.map((row) => `${row.kind} ${row.amount_minor}`),
    events: events.map(({ type }) => type),
  }
}

/** The items in random order. */
export function shuffled<T>(items: readonly T[]): T[] {
  const drawn = items.map((item) => ({ item, at: Math.random() }))
  return drawn.toSorted((a, b) => a.at - b.at).map(({ item }) => item)
}

/** All rotations of the items. */
export function rotationsOf<T>(items: readonly T[]): T[][] {
  return items.map((_, first) => [...items.slice(first), ...items.slice(0, first)])
}

/** All permutations of the items. */
export function ordersOf<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]]
  return items.flatMap((first, index) => ordersOf(items.toSpliced(index, 1)).map((rest) => [first, ...rest]))
}

/** Refunds a payment in the processor's dashboard. Default: the full remaining amount. */
export async function refundInDashboard(world: World, reference: string, amount?: number): Promise<any> {
  return await world.provider('stripe').control('POST', '/refunds', {
    payment_intent: reference,
    ...(amount !== undefined && { amount }),
  })
}

/** The bank settles a refund. */
export async function settleRefund(
  world: World,
  reference: string,
  status: 'succeeded' | 'failed',
): Promise<any> {
  return await world.provider('stripe').control('POST', `/refunds/${reference}/settle`, { status })
}
