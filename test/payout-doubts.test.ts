// Payouts where what is known here and what the processor did come apart: other amounts under our ids, news that are lost, calls that
// are held back, wishes that come to nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLog } from '#core/log.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { discardJob, resolveAsFailed } from '#domain/interventions/act.ts'
import { pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { findDrifting, findStale, looksOf } from '#domain/reconciliation/looks.ts'
import { startWorker } from '#workers/main.ts'
import { checkBooks } from '#test/books.ts'
import { freshKey } from '#test/client.ts'
import { createPayment, eventually, fault } from '#test/payments.ts'
import { accountOf, fund, payOut, payoutIn, payoutStory, recipient, rich } from '#test/payouts.ts'
import { startProxy } from '#test/proxy.ts'
import { deliver, listEvents, stateOf, tried } from '#test/stripe-events.ts'
import { topUp } from '#test/top-ups.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
beforeAll(async () => {
  world = await createWorld({ notifications: false })
})
afterAll(async () => await world?.close())

const WAIT = { prefer: 'wait=20' }
const control = (path: string, body: object) => world.provider('stripe').control('POST', path, body)
const settle = (reference: string, status: string) => control(`/payouts/${reference}/settle`, { status })
const eventsOf = async (reference: string) =>
  (await listEvents(world)).filter(({ data }) => data.object.id === reference)
const jobOf = async ({ sql }: World, payout_id: string) => {
  const [job] = await sql<
    { id: string; state: string }[]
  >`select id, state from jobs where subject_id = ${payout_id}`
  return job!
}

test('what went is posted before what came back of it, also where both are heard of at once', async () => {
  const client = await rich(world, 10_000)
  const to = await recipient(client, 'acct_success')
  const COUNT = 12
  const held = await fault(world, {
    match: { method: 'POST', path: '/v1/transfers$' },
    times: COUNT,
    fault: { hold: 'after' },
  })
  const ids = await Promise.all(Array.from({ length: COUNT }, async () => (await payOut(client, to)).body.id))
  await held.hit(COUNT)
  for (const id of ids) {
    const [effect] = await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': id })
    await control(`/transfers/${effect.transfer}/reverse`, { amount: 30 })
    const events = await eventsOf(effect.transfer)
    await deliver(world, events.at(-1)!)
  }
  for (const id of ids) await payoutIn(client, id, 'paid')
  for (const id of ids)
    expect((await payoutStory(world, id)).postings).toEqual(['payout_paid -100', 'payout_returned 30'])
  await held.release()
  await world.drain()
})

test('a payout that was failed by hand while it is processing is asked about until the processor is done', async () => {
  const client = await rich(world, 1000)
  const { body } = await payOut(client, await recipient(client, 'ba_manual'), {}, WAIT)
  const { id, processor_reference: reference } = body
  await client.post(`/v1/payouts/${id}/fail`, { reason: 'the bank says so' })
  const drifts = async () => (await client.get('/v1/reconciliation')).body
  /** What the reconciler does, once a month has gone by. Says what it asked about. */
  const reconcile = async () => {
    await world.sql`update payouts set updated_at = updated_at - interval '30 days' where id = ${id}`
    await world.sql`update drifts set since = since - interval '30 days' where subject_id = ${id}`
    const stages = [await findStale(world.sql, 'payout', null), await findDrifting(world.sql, null)]
    const due = stages.flatMap(({ stale }) => stale.filter((each) => each.reference === reference))
    await storeNotifications(world.sql, looksOf(due))
    await world.drain()
    return due.length > 0
  }
  expect(await reconcile()).toBe(true)
  expect(await drifts()).toEqual([])
  // No notification of this arrives.
  await settle(reference, 'paid')
  expect(await reconcile()).toBe(true)
  await eventually(async () =>
    expect(await drifts()).toMatchObject([{ ours: { status: 'failed' }, theirs: { status: 'paid' } }]),
  )
  expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 900, reserved: 0 })
  await settle(reference, 'failed')
  expect(await reconcile()).toBe(true)
  await eventually(async () => expect(await drifts()).toEqual([]))
  expect(await accountOf(world, client.tenant_id)).toEqual({ balance: 1000, reserved: 0 })
  expect(await reconcile()).toBe(false)
})

test('a cancellation that was recorded and came to nothing is refused when it is repeated', async () => {
  const client = await rich(world, 1000)
  const held = await fault(world, {
    match: { method: 'POST', path: '/v1/transfers$' },
    fault: { hold: 'after' },
  })
  const { body } = await payOut(client, await recipient(client, 'acct_success'))
  await held.hit()
  const key = { idempotency_key: freshKey() }
  const cancel = () => client.post(`/v1/payouts/${body.id}/cancel`, key)
  for (const replayed of [null, 'true']) {
    const recorded = await cancel()
    expect([recorded.status, recorded.body.status]).toEqual([202, 'pending'])
    expect(recorded.headers.get('idempotent-replayed')).toBe(replayed)
  }
  await held.release()
  await payoutIn(client, body.id, 'paid')
  const late = await cancel()
  expect([late.status, late.body.error.code]).toEqual([409, 'payout_not_cancelable'])
  expect(late.body.error.context).toMatchObject({ status: 'paid' })
})

test('a payout whose call a pause held back has not left: it is canceled at once', async () => {
  const client = await rich(world, 1000)
  const { sql } = world
  const to = await recipient(client, 'ba_manual')
  await pauseJobs(sql, { queue: 'payouts' })
  const { body } = await payOut(client, to)
  // While its row is locked the job has been claimed, and its call does not leave.
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const locking = sql.begin(async (tx) => {
    await tx`select from payouts where id = ${body.id} for update`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  await resumeJobs(sql, { queue: 'payouts' })
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('running'))
  const claimed_at = Date.now()
  await pauseJobs(sql, { queue: 'payouts' })
  // By then the worker has to ask again whether the call may leave.
  await eventually(async () => expect(Date.now()).toBeGreaterThan(claimed_at + 1000))
  release.resolve()
  await locking
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('ready'))
  const canceled = await client.post(`/v1/payouts/${body.id}/cancel`)
  await resumeJobs(sql, { queue: 'payouts' })
  expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled'])
  await world.drain()
  expect(await world.provider('stripe').effects({ 'metadata[sluice_payout_id]': body.id })).toEqual([])
})

test('all books agree, before there is anything that is not ours', async () => {
  await world.drain()
  await checkBooks(world)
}, 60_000)

describe('a second one that bears our ids', () => {
  const NOUNS = [
    ['payout', 'payouts', 'destination=ba_manual'],
    ['top_up', 'topups', 'source=src_manual'],
    [
      'payment',
      'payment_intents',
      'capture_method=manual&confirm=true&payment_method=pm_card_visa&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never',
    ],
  ] as const

  test.each(NOUNS)('of a %s is a drift until an operator has seen to it', async (noun, path, fields) => {
    const client = await rich(world, 1000)
    const made = {
      payout: async () => await payOut(client, await recipient(client, 'acct_success'), {}, WAIT),
      top_up: async () => await topUp(client, { source: 'src_success' }, WAIT),
      payment: async () => await createPayment(client),
    }
    const { body } = await made[noun]()
    const told = await eventsOf(body.processor_reference)
    for (const event of told) await deliver(world, event)
    await tried(world, told)
    const { url, api_key } = world.provider('stripe')
    const answer = await fetch(`${url}/v1/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: `amount=77&currency=usd&${fields}&metadata[sluice_${noun}_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`,
    })
    const { id: reference } = (await answer.json()) as { id: string }
    expect(body.processor_reference).not.toBe(reference)
    if (noun !== 'payment')
      await control(`/${path}/${reference}/settle`, { status: noun === 'payout' ? 'paid' : 'succeeded' })
    const [first, ...rest] = await eventsOf(reference)
    // Its notifications come more than once.
    for (const event of [first!, ...rest, { ...first!, id: `${first!.id}_again` }]) {
      await deliver(world, event)
      await tried(world, [event])
    }
    const drifts = async () => (await client.get(`/v1/reconciliation?subject=${noun}`)).body
    expect(await drifts()).toMatchObject([
      {
        subject_id: body.id,
        state: 'differs',
        detail: expect.stringContaining(`the processor has a second one, ${reference}, of 77`),
        theirs: { processor_reference: body.processor_reference },
      },
    ])
    const parked = async () =>
      await world.sql<{ id: string }[]>`
        select id from notifications where object_id = ${reference} and state = 'parked' and reason = 'second'`
    expect(await parked()).toHaveLength(1)
    const { problems } = await auditEverything(world.sql)
    expect(problems.filter(({ subject_id }) => subject_id === body.id)).toMatchObject([
      { problem: 'the processor has a second one of what was asked for once' },
    ])
    /** What the reconciler does, once a month has gone by. */
    const reconcile = async () => {
      await world.sql`
        update ${world.sql(`${noun}s`)} set updated_at = updated_at - interval '30 days' where id = ${body.id}`
      await world.sql`update drifts set since = since - interval '30 days' where subject_id = ${body.id}`
      const { stale } = await findDrifting(world.sql, null)
      await storeNotifications(
        world.sql,
        looksOf(stale.filter((each) => each.reference === body.processor_reference)),
      )
      await world.drain()
    }
    await reconcile()
    expect(await drifts()).toHaveLength(1)
    const [{ id: job_id } = { id: '' }] = await parked()
    await discardJob(world.sql, { job_id, who: 'test', reason: 'it was taken back' })
    await reconcile()
    await eventually(async () => expect(await drifts()).toEqual([]))
  })

  test('is no matter when it has moved no money', async () => {
    const client = await rich(world, 1000)
    const { body } = await payOut(client, await recipient(client, 'ba_success'), {}, WAIT)
    const { url, api_key } = world.provider('stripe')
    const answer = await fetch(`${url}/v1/payouts`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: `amount=77&currency=usd&destination=ba_manual&metadata[sluice_payout_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`,
    })
    const { id: reference } = (await answer.json()) as { id: string }
    await settle(reference, 'failed')
    const events = await eventsOf(reference)
    for (const event of events) await deliver(world, event)
    await tried(world, events)
    expect((await client.get('/v1/reconciliation')).body).toEqual([])
    for (const event of events) expect(await stateOf(world, event)).toBe('applied')
  })
})

test('a payout of another amount that bears our ids settles nothing, and is a drift that stays', async () => {
  const client = await rich(world, 1000)
  await fault(world, { match: { method: 'POST', path: '/v1/payouts$' }, fault: 'error_500_before' })
  const { body } = await payOut(client, await recipient(client, 'ba_manual'))
  await eventually(async () => expect((await jobOf(world, body.id)).state).toBe('unknown'))
  const { url, api_key } = world.provider('stripe')
  const ours = `metadata[sluice_payout_id]=${body.id}&metadata[sluice_tenant_id]=${client.tenant_id}`
  const made = await fetch(`${url}/v1/payouts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: `amount=90&currency=usd&destination=ba_manual&${ours}`,
  })
  const { id: reference } = (await made.json()) as { id: string }
  await settle(reference, 'paid')
  const events = await eventsOf(reference)
  for (const event of events) await deliver(world, event)
  await tried(world, events)
  const drifts = async () => (await client.get('/v1/reconciliation')).body
  const drift = {
    subject_id: body.id,
    state: 'differs',
    ours: { status: 'pending', amount_minor: 100 },
    theirs: { status: 'paid', amount_minor: 90 },
  }
  expect(await drifts()).toMatchObject([drift])
  const { id: job_id } = await jobOf(world, body.id)
  await resolveAsFailed(world.sql, { job_id, who: 'test', reason: 'asked the processor' })
  expect(await drifts()).toMatchObject([drift])
  expect(await payoutStory(world, body.id)).toMatchObject({ payout: { status: 'failed' }, postings: [] })
})

test('an answer of another amount to our own call settles nothing, and is a drift', async () => {
  const away = await createWorld({ notifications: false, parts: ['api'] })
  const proxy = await startProxy(away.provider('stripe').url)
  const worker = await startWorker(
    { ...away.config, STRIPE_API_BASE: proxy.url },
    createLog('silent', 'test'),
  )
  try {
    await fund(away.client, 1000)
    proxy.replaceInAnswers('"amount":100,', '"amount":190,')
    const { body } = await payOut(away.client, await recipient(away.client, 'ba_manual'))
    await eventually(async () => expect((await jobOf(away, body.id)).state).toBe('unknown'))
    expect((await away.client.get('/v1/reconciliation')).body).toMatchObject([
      {
        subject_id: body.id,
        state: 'differs',
        ours: { status: 'pending', amount_minor: 100 },
        theirs: { status: 'processing', amount_minor: 190 },
      },
    ])
    expect(await accountOf(away, away.tenant_id)).toEqual({ balance: 1000, reserved: 100 })
    expect(await payoutStory(away, body.id)).toMatchObject({
      payout: { status: 'pending', processor_status: null, known: false },
      postings: [],
      events: ['created'],
    })
  } finally {
    await worker.close()
    await proxy.close()
    await away.close()
  }
})
