// Disputes settle alike for any order and number of notifications, and each movement of money is posted once.
import { describe, expect } from 'vitest'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import type { Dispute } from '#domain/disputes/dispute.ts'
import { findDisputeByReference } from '#domain/disputes/find.ts'
import { settleDispute, type DisputeUpdate } from '#domain/disputes/settle.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { checkInvariants } from '#test/books.ts'
import {
  answerDispute,
  closeDispute,
  disputedPayment,
  disputeIn,
  disputeReferenceOf,
} from '#test/disputes.ts'
import { ASYNC, fault, authorizedPayment, refund } from '#test/payments.ts'
import {
  deliver,
  deliverAll,
  listEvents,
  fabricatedEvent,
  notificationId,
  rotationsOf,
  shuffled,
  mapConcurrently,
  stateOf,
  deliverInOrders,
  untilAttempted,
  type StripeEvent,
} from '#test/stripe-events.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ notifications: false })

/** The processor's events about the disputes of a payment. */
async function eventsOf(world: World, payment: any): Promise<StripeEvent[]> {
  const events = await listEvents(world, payment.processor_reference)
  return events.filter(({ type }) => type.startsWith('charge.dispute.'))
}

/** Delivers the processor's events about the disputes of a payment, and waits for their attempts. */
async function deliverDisputeEvents(world: World, payment: any): Promise<void> {
  const events = await eventsOf(world, payment)
  await deliverAll(world, events)
  await untilAttempted(world, events)
}

/** The status, disputes, postings and events of a payment. */
async function paymentSummary(world: World, payment: any) {
  const { client } = world
  const { dispute, ...shown } = (await client.get(`/v1/payments/${payment.id}`)).body
  const disputes = (await client.get(`/v1/disputes?payment_id=${payment.id}`)).body
  const postings = await world.sql`
    select t.kind, t.amount_minor from ledger_transfers t join disputes d on d.id = t.subject_id
    where d.payment_id = ${payment.id} order by t.seq`
  const events = await world.sql<{ type: string }[]>`
    select type from events
    where subject_id = ${payment.id} and type like 'payment.dispute%' order by created_at`
  return {
    status: shown.status,
    captured: shown.amount_captured_minor,
    shown: dispute && { status: dispute.status, closed: dispute.closed_at !== null },
    disputes: disputes.map((each: any) => [
      each.status,
      each.amount_withdrawn_minor,
      each.amount_reinstated_minor,
    ]),
    postings: postings.map((row) => `${row.kind} ${row.amount_minor}`),
    events: events.map(({ type }) => type),
  }
}

const WON = {
  status: 'captured',
  captured: 1000,
  shown: { status: 'won', closed: true },
  disputes: [['won', 1000, 1000]],
  postings: ['dispute_withdrawn 1000', 'dispute_reinstated 1000'],
  events: ['payment.disputed', 'payment.dispute_won'],
}

describe('any order of the notifications of a dispute', () => {
  async function wonDisputes(world: World, count: number): Promise<{ payment: any; reference: string }[]> {
    return await mapConcurrently(Array.from({ length: count }), 20, async () => {
      const disputed = await disputedPayment(world)
      await answerDispute(world, disputed.reference)
      await closeDispute(world, disputed.reference, 'won')
      return disputed
    })
  }

  test('a won dispute settles alike for any first notification', async ({ world }) => {
    // The events are created, funds_withdrawn, updated, funds_reinstated and closed. Each comes first in one of the
    // orders. Other orders are equivalent, because the worker does not read the content of events.
    const orders = rotationsOf([0, 1, 2, 3, 4])
    const disputes = await wonDisputes(world, orders.length)
    await deliverInOrders(
      world,
      disputes.map(({ reference }) => reference),
      orders,
    )
    for (const { payment } of disputes) expect(await paymentSummary(world, payment)).toEqual(WON)
    await checkInvariants(world)
  })

  test('a won dispute settles alike for concurrent and repeated notifications', async ({ world }) => {
    const disputes = await wonDisputes(world, 20)
    const events = await Promise.all(disputes.map(({ payment }) => eventsOf(world, payment)))
    await deliverAll(world, shuffled([...events, ...events, ...events].flat()))
    await world.drain()
    for (const { payment } of disputes) expect(await paymentSummary(world, payment)).toEqual(WON)
    await checkInvariants(world)
  })
})

test('each step of a dispute is shown, emits one event and is posted once, even an appeal after a loss', async ({
  world,
}) => {
  const { client } = world
  const { payment, reference } = await disputedPayment(world)
  expect((await client.get(`/v1/payments/${payment.id}`)).body.dispute).toBeNull()
  const captured = (await client.get(`/v1/wallet/balances?currency=usd`)).body[0].balance_minor
  await deliverDisputeEvents(world, payment)
  const shown = (await client.get(`/v1/payments/${payment.id}`)).body
  expect(shown.dispute).toEqual({
    id: expect.any(String),
    processor_reference: reference,
    status: 'needs_response',
    reason: 'fraudulent',
    amount_minor: 1000,
    currency: 'USD',
    evidence_due_by: expect.stringMatching(/^20\d\d-\d\d-\d\dT23:59:59\.000000Z$/),
    opened_at: expect.stringMatching(/^20\d\d-.*\.000000Z$/),
    closed_at: null,
  })
  expect(shown.updated_at > payment.updated_at).toBe(true)
  const { id } = shown.dispute
  const dispute = (await client.get(`/v1/disputes/${id}`)).body
  expect(dispute).toEqual({
    ...shown.dispute,
    tenant_id: world.tenant_id,
    livemode: true,
    payment_id: payment.id,
    processor: 'stripe',
    amount_withdrawn_minor: 1000,
    amount_reinstated_minor: 0,
    metadata: {},
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  expect((await client.get('/v1/wallet/balances?currency=usd')).body[0].balance_minor).toBe(captured - 1000)

  await answerDispute(world, reference)
  await deliverDisputeEvents(world, payment)
  await disputeIn(client, payment.id, 'under_review')
  await closeDispute(world, reference, 'lost')
  await deliverDisputeEvents(world, payment)
  const lost = await disputeIn(client, payment.id, 'lost')
  expect(lost.dispute.closed_at).not.toBeNull()
  expect(await paymentSummary(world, payment)).toMatchObject({
    postings: ['dispute_withdrawn 1000'],
    events: ['payment.disputed', 'payment.dispute_lost'],
  })
  await closeDispute(world, reference, 'won')
  await deliverDisputeEvents(world, payment)
  expect(await paymentSummary(world, payment)).toEqual({
    ...WON,
    events: ['payment.disputed', 'payment.dispute_lost', 'payment.dispute_won'],
  })
  const rows = (await client.get(`/v1/wallet/transactions?subject_id=${id}`)).body
  expect(rows).toMatchObject([
    {
      kind: 'dispute_reinstated',
      subject_type: 'dispute',
      amount_minor: 1000,
      balance_after_minor: captured,
    },
    { kind: 'dispute_withdrawn', amount_minor: -1000, balance_after_minor: captured - 1000 },
  ])
  const timeline = (await client.get(`/v1/payments/${payment.id}/timeline`)).body
  const names = timeline.map((entry: any) => `${entry.kind} ${entry.name}`)
  expect(names).toEqual(
    expect.arrayContaining([
      'notification charge.dispute.created',
      'posting dispute_withdrawn',
      'posting dispute_reinstated',
      'event payment.disputed',
      'event payment.dispute_won',
    ]),
  )
  const [lost_event] = await world.sql<{ data: any }[]>`
    select data from events where subject_id = ${payment.id} and type = 'payment.dispute_lost'`
  expect(lost_event!.data).toMatchObject({
    id: payment.id,
    status: 'captured',
    dispute: { id, status: 'lost' },
  })
  await checkInvariants(world)
})

test('an inquiry withdraws no money, and closes without a decision', async ({ world }) => {
  const { payment, reference } = await disputedPayment(world, { method: 'pm_card_createDisputeInquiry' })
  await deliverDisputeEvents(world, payment)
  expect(await paymentSummary(world, payment)).toEqual({
    status: 'captured',
    captured: 1000,
    shown: { status: 'warning', closed: false },
    disputes: [['warning', 0, 0]],
    postings: [],
    events: ['payment.disputed'],
  })
  await closeDispute(world, reference, 'warning_closed')
  await deliverDisputeEvents(world, payment)
  expect(await paymentSummary(world, payment)).toMatchObject({
    shown: { status: 'warning', closed: true },
    postings: [],
    events: ['payment.disputed', 'payment.dispute_closed'],
  })
  await checkInvariants(world)
})

test('an outdated response of the processor does not overwrite a newer response', async ({ world }) => {
  const { payment, reference } = await disputedPayment(world)
  const [created] = await eventsOf(world, payment)
  const hold = await fault(world, {
    match: { method: 'GET', path: `/v1/disputes/${reference}$` },
    fault: { hold: 'after' },
  })
  await deliver(world, created!)
  await hold.hit()
  await closeDispute(world, reference, 'won')
  const later = (await eventsOf(world, payment)).slice(1)
  await deliverAll(world, later)
  await disputeIn(world.client, payment.id, 'won')
  // The blocked response was created before the dispute ended. No time in the response shows this.
  await hold.remove()
  await untilAttempted(world, [created!, ...later])
  await world.drain()
  expect(await paymentSummary(world, payment)).toEqual(WON)
  expect(await stateOf(world, created!)).toBe('applied')
  await checkInvariants(world)
})

test('a response to a later request supersedes the response to an earlier request, even without a change', async ({
  world,
}) => {
  const { sql, client, tenant_id } = world
  const { payment, reference } = await disputedPayment(world)
  await deliverDisputeEvents(world, payment)
  const { dispute } = (await client.get(`/v1/payments/${payment.id}`)).body
  const { id, closed_at, ...shown } = dispute
  const updateOf = (status: Dispute['status']): DisputeUpdate => ({
    ...shown,
    tenant_id,
    payment_id: payment.id,
    processor: 'stripe',
    status,
    closed: false,
    movements: [],
  })
  const existing = await findDisputeByReference(sql, 'stripe', reference)
  const before = (await client.get(`/v1/disputes/${id}`)).body
  expect(await settleDispute(sql, existing, updateOf('needs_response'))).toEqual({ id })
  expect((await client.get(`/v1/disputes/${id}`)).body).toEqual(before)
  expect(await settleDispute(sql, existing, updateOf('under_review'))).toBeUndefined()
  expect((await client.get(`/v1/disputes/${id}`)).body).toEqual(before)
  expect(closed_at).toBeNull()
})

test('a refund of a disputed payment is refused and its reserved amount is freed, and a refund succeeds after the dispute is won', async ({
  world,
}) => {
  const { client } = world
  const { payment, reference } = await disputedPayment(world)
  const refused = await refund(client, payment.id, { amount_minor: 400 })
  expect([refused.status, refused.body.error.code]).toEqual([422, 'payment_invalid'])
  expect(refused.body.error.context).toMatchObject({ processor_code: 'charge_disputed' })
  const [row] = await world.sql`
    select amount_refund_reserved_minor as reserved from payments where id = ${payment.id}`
  expect(row).toEqual({ reserved: 0 })
  const [failed] = (await client.get(`/v1/payments/${payment.id}/refunds`)).body
  expect(failed).toMatchObject({ status: 'failed', failure: { code: 'payment_invalid' } })
  await closeDispute(world, reference, 'won')
  await deliverDisputeEvents(world, payment)
  expect((await refund(client, payment.id)).body).toMatchObject({ status: 'succeeded', amount_minor: 1000 })
  await checkInvariants(world)
})

test('a notification of a dispute waits for the capture of its payment', async ({ world }) => {
  const payment = await authorizedPayment(world.client, { payment_method: 'pm_card_createDispute' })
  const hold = await fault(world, { match: { method: 'POST', path: '/capture$' }, fault: { hold: 'after' } })
  const capturing = world.client.post(`/v1/payments/${payment.id}/capture`, {}, ASYNC)
  await hold.hit()
  await disputeReferenceOf(world, payment.processor_reference)
  const events = await eventsOf(world, payment)
  await deliverAll(world, events)
  await untilAttempted(world, events)
  expect(await stateOf(world, events[0]!)).toBe('parked')
  expect((await world.client.get(`/v1/disputes?payment_id=${payment.id}`)).body).toEqual([])
  await hold.remove()
  await capturing
  await disputeIn(world.client, payment.id, 'needs_response')
  await world.drain()
  expect(await paymentSummary(world, payment)).toMatchObject({ postings: ['dispute_withdrawn 1000'] })
  await checkInvariants(world)
})

test('a lookup settles a dispute for which no notification arrives', async ({ world }) => {
  const { payment, reference } = await disputedPayment(world)
  await deliverDisputeEvents(world, payment)
  await closeDispute(world, reference, 'lost')
  const of = { provider: 'stripe', livemode: true }
  const lookup = { resource: 'dispute', reference, tenant_id: null } as const
  await storeNotifications(world.sql, [requestLookup(of, lookup, 'test')])
  await disputeIn(world.client, payment.id, 'lost')
  await world.drain()
  expect(Array.from(await world.sql`select * from drifts where subject = 'dispute'`)).toEqual([])
  await checkInvariants(world)
})

test('a dispute of a payment of another application is not imported', async ({ world }) => {
  const payment_intent = 'pi_of_somebody_else'
  const foreign = fabricatedEvent('charge.dispute.created', {
    id: 'du_foreign',
    object: 'dispute',
    payment_intent,
  })
  const without_payment = fabricatedEvent('charge.dispute.created', {
    id: 'du_of_nothing',
    object: 'dispute',
  })
  for (const event of [foreign, without_payment]) await deliver(world, event)
  await untilAttempted(world, [foreign, without_payment])
  const rows = await world.sql<{ reason: string }[]>`
    select reason from notifications where object_id in ('du_foreign', 'du_of_nothing') order by reason`
  expect(rows.map(({ reason }) => reason)).toEqual(['not_at_processor', 'not_ours'])
  expect(
    Array.from(await world.sql`select from disputes where processor_reference like 'du_%nothing'`),
  ).toEqual([])
})

test('personal data of a notification is redacted', async ({ world }) => {
  const personal = Object.fromEntries(
    ['evidence', 'billing_details', 'receipt_email', 'receipt_url', 'shipping'].map((name) => [
      name,
      { name: 'Grace' },
    ]),
  )
  const event = fabricatedEvent('charge.dispute.updated', {
    id: 'du_evidence',
    object: 'dispute',
    ...personal,
    charge: { id: 'ch_1', ...personal },
    evidence_details: { due_by: 1 },
  })
  expect((await deliver(world, event)).status).toBe(200)
  const [row] = await world.sql<{ stored: any; text: string }[]>`
    select payload #> '{data,object}' as stored, payload::text as text from notifications where event_id = ${event.id}`
  expect(row!.text).not.toContain('Grace')
  expect(row!.stored).toMatchObject({ evidence: '[redacted]', evidence_details: { due_by: 1 } })
})

test('disputes are listed newest first, in pages, and filtered by status, payment and time', async ({
  world,
}) => {
  const other = await world.clientOf()
  const dispute_ids = []
  for (const method of ['pm_card_createDisputeInquiry', 'pm_card_createDispute', 'pm_card_createDispute']) {
    const { payment } = await disputedPayment(world, { client: other, method })
    await deliverDisputeEvents(world, payment)
    dispute_ids.push(
      (await disputeIn(other, payment.id, method.endsWith('Inquiry') ? 'warning' : 'needs_response')).dispute
        .id,
    )
  }
  const ids = async (query: string) =>
    (await other.get(`/v1/disputes${query}`)).body.map((each: any) => each.id)
  const newest = dispute_ids.toReversed()
  expect(await ids('')).toEqual(newest)
  expect(await ids('?status=warning')).toEqual([dispute_ids[0]])
  const first = await other.get('/v1/disputes?limit=1')
  const next = /<(.+)>; rel="next"/.exec(first.headers.get('link')!)![1]!
  expect((await other.get(next)).body.map((each: any) => each.id)).toEqual([newest[1]])
  const { created_at, payment_id } = first.body[0]
  expect(await ids(`?created_from=${created_at}`)).toEqual([newest[0]])
  expect(await ids(`?created_to=${created_at}`)).toEqual(newest.slice(1))
  expect(await ids(`?payment_id=${payment_id}`)).toEqual([newest[0]])
  expect((await other.get('/v1/disputes?nope=1')).status).toBe(400)
  expect((await other.get('/v1/disputes?status=appeal_under_review')).status).toBe(400)
  expect((await world.client.get(`/v1/disputes/${dispute_ids[0]}`)).body.error.code).toBe('dispute_not_found')
  const reader = await world.clientOf({ scopes: ['payments:write'] })
  expect((await reader.get('/v1/disputes')).status).toBe(403)
})

// This test corrupts disputes and events, so it is the last test.
test('the audit finds missing postings and events, and wrong statuses, of disputes', async ({ world }) => {
  const { payment } = await disputedPayment(world)
  await deliverDisputeEvents(world, payment)
  const problems = async () =>
    (await auditEverything(world.sql)).problems.map(({ check, problem }) => `${check}: ${problem}`)
  const { sql } = world
  expect(await problems()).toEqual([])
  const condition = sql`where payment_id = ${payment.id}`
  await sql`update disputes set amount_withdrawn_minor = 999 ${condition}`
  expect(await problems()).toEqual(['disputes: the withdrawn amount of a dispute differs from its postings'])
  await sql`update disputes set amount_withdrawn_minor = 1000, amount_reinstated_minor = 5 ${condition}`
  expect(await problems()).toEqual(['disputes: the reinstated amount of a dispute differs from its postings'])
  await sql`update disputes set amount_reinstated_minor = 0, announced = announced || '{dispute_lost}' ${condition}`
  expect(await problems()).toEqual(['dispute_events: an event of a dispute is missing or was written twice'])
  await sql`update disputes set announced = '{disputed}', status = 'under_review' ${condition}`
  expect(await problems()).toEqual(['disputes: the payment does not show its latest dispute'])
  await sql`update disputes set status = 'won', closed_at = now() - interval '2 days' ${condition}`
  const won = 'won_disputes: a dispute is won and its amount is not reinstated'
  expect(await problems()).toContain(won)
  // An audit of changes reports the dispute even if the payment has not changed in the audited period.
  const changes = await auditChanges(sql, new Date(Date.now() + 86_400_000).toISOString(), [])
  expect(changes.problems.map(({ check, problem }) => `${check}: ${problem}`)).toContain(won)
  await sql`update disputes set status = 'needs_response', closed_at = null ${condition}`
  expect(await problems()).toEqual([])
  // A parked notification of a dispute can be applied even while a refund reserves an amount, and the audit reports
  // this.
  const [created] = await eventsOf(world, payment)
  await sql`
    update notifications set state = 'parked', reason = 'does_not_fit', parked_at = now(), applied_at = null
    where id = ${notificationId(created!)}`
  await sql`
    update jobs set state = 'ready', run_at = now() + interval '1 hour', finished_at = null
    where id = ${notificationId(created!)}`
  const reserve = async (amount: number) =>
    void (await sql`update payments set amount_refund_reserved_minor = ${amount} where id = ${payment.id}`)
  await reserve(400)
  expect(await problems()).toContain(
    'notifications: a parked notification can be applied now but is not resumed',
  )
  await reserve(0)
  await sql`update jobs set run_at = now() where id = ${notificationId(created!)}`
  await world.drain()
  expect(await problems()).toEqual([])
  await sql`
    update events set type = 'payment.dispute_won'
    where subject_id = ${payment.id} and type = 'payment.disputed'`
  expect((await problems()).toSorted()).toEqual([
    'dispute_events: a dispute has an unexpected event',
    'dispute_events: an event of a dispute is missing or was written twice',
  ])
})
