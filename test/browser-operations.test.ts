// Operators' pages in a browser: failed jobs, paused queues, replayed deliveries, proposals.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { clientOperation } from '#core/config/providers.ts'
import { newId } from '#core/ids.ts'
import { CALLS } from '#jobs/index.ts'
import {
  fetchInPage,
  BROWSER_TIMEOUT_MS,
  checkAccessible,
  createDashboard,
  PHONE,
  type Dashboard,
} from '#test/browser.ts'
import { freshKey } from '#test/client.ts'
import { LOOPBACK, registerEndpoint, openHook } from '#test/deliveries.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  eventually,
  fault,
  authorizedPayment,
  paymentIn,
  refund,
  unknownRefund,
} from '#test/payments.ts'
import { fund, payoutIn, payOut, recipient } from '#test/payouts.ts'
import { createPerson } from '#test/people.ts'
import { goBackInTime } from '#test/switches.ts'

const STRIPE_OPERATIONS = [
  ...new Set(
    CALLS.flatMap(({ provider, operation }) => (provider === 'stripe' ? [clientOperation(operation)] : [])),
  ),
]

let dashboard: Dashboard
beforeAll(async () => {
  dashboard = await createDashboard({ env: LOOPBACK })
}, BROWSER_TIMEOUT_MS)
afterAll(() => dashboard?.close())

/** Opens the dialog of an operator act and confirms the dialog, with a reason where the dialog requires a reason. */
async function perform(page: Page, button: ReturnType<Page['getByRole']>, act: string, reason?: string) {
  await button.click()
  const dialog = page.getByRole('dialog')
  if (reason !== undefined) await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: act, exact: true }).click()
  await dialog.getByRole('link', { name: /audit/i }).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'hidden' })
}

test('a job that the processor refuses is listed as failed, and succeeds after a retry', async () => {
  const { world } = dashboard
  const { client } = world
  const { id } = await authorizedPayment(client, { amount_minor: 1900 })
  // The processor refuses the API key of Sluice: only an operator can correct the key.
  const refusing = await fault(world, {
    match: { method: 'POST', path: '/capture$' },
    fault: 'refuse_401',
    times: 100,
  })
  expect((await client.post(`/v1/payments/${id}/capture`, {}, ASYNC)).status).toBe(202)
  await refusing.hit()
  const page = await dashboard.open('/ops/jobs?queue=payments', { as: 'operator' })
  await page.getByRole('link', { name: 'payment.capture' }).click()
  await page.getByRole('heading', { level: 1 }).filter({ hasText: 'payment.capture' }).waitFor()
  await page.getByRole('list', { name: 'Attempts' }).waitFor()
  await refusing.remove()
  await perform(
    page,
    page.getByRole('button', { name: 'Retry', exact: true }),
    'Retry',
    'The key is right again',
  )
  await paymentIn(client, id, 'captured')
  await page.getByText('The job succeeded.').waitFor()
  // The time of the provider's response is not recorded, so the page shows no duration of the call.
  const call = page
    .getByRole('list', { name: 'Attempts' })
    .getByRole('button', { name: /Call to the provider/ })
  expect(await call.last().locator('.timeline-duration').textContent()).toBe('')
})

/** Inserts a job with these columns and a name that no version performs. Returns the job's id. */
async function insertUnrecognizedJob(row: object): Promise<string> {
  const { sql, tenant_id } = dashboard.world
  const id = newId()
  const job = { id, tenant_id, name: 'nobody.knows', payload: {}, max_attempts: 1, ...row }
  await sql`insert into jobs ${sql(job as never)}`
  return id
}

test('a bulk retry covers all jobs that match the filters, and shows the result for each job', async () => {
  const { sql } = dashboard.world
  const parked = [1, 2].map(() => insertUnrecognizedJob({ queue: 'ai', run_at: 'infinity' }))
  const others = [
    insertUnrecognizedJob({ queue: 'ai', run_at: 'infinity' }),
    insertUnrecognizedJob({ queue: 'compliance', run_at: 'infinity' }),
  ]
  const [running, elsewhere] = await Promise.all(others)
  await sql`
    update jobs set state = 'running', lease_token = gen_random_uuid(), lease_until = now() + interval '1 hour',
      worker = 'w', started_at = now() where id = ${running!}`
  const page = await dashboard.open('/ops/jobs', { as: 'operator' })
  await page.getByLabel('Queue', { exact: true }).selectOption('ai')
  await expect.poll(() => page.getByRole('table', { name: 'Jobs' }).getByRole('row').count()).toBe(4)
  await page.getByRole('group', { name: 'All matching jobs' }).getByRole('button', { name: 'Retry' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('3 jobs: State open, Queue ai.').waitFor()
  await dialog.getByLabel('Reason').fill('They are known now')
  await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
  await dialog.getByRole('progressbar').waitFor()
  await dialog.getByText('2 done, 1 refused', { exact: true }).waitFor()
  await dialog.getByRole('link', { name: 'Result of each job' }).click()
  await page.getByText('They are known now').waitFor()
  const results = page.getByRole('table', { name: 'Jobs of this act' }).getByRole('row')
  await results.filter({ hasText: 'The job is running: try again later.' }).waitFor()
  expect(await results.filter({ hasText: 'Done: ready' }).count()).toBe(2)
  const retried = await Promise.all(parked)
  const due =
    await sql`select id from jobs where name = 'nobody.knows' and state = 'ready' and run_at <= now()`
  expect(new Set(due.map(({ id }) => id))).toEqual(new Set(retried))
  expect(await sql`select from job_acts where job_id = ${elsewhere!}`).toHaveLength(0)
})

test('a waiting job can be run at once or discarded', async () => {
  const { sql } = dashboard.world
  const id = await insertUnrecognizedJob({ queue: 'compliance', run_at: '2100-01-01' })
  const page = await dashboard.open(`/ops/jobs/${id}`, { as: 'operator' })
  const button = (name: string) => page.getByRole('main').getByRole('button', { name, exact: true })
  await page.getByText('The job runs next at').waitFor()
  await perform(page, button('Run now'), 'Run now', 'It waits for no reason')
  await page.getByText('The job is due and starts').waitFor()
  expect(await button('Run now').count()).toBe(0)
  await perform(page, button('Discard'), 'Discard', 'Nobody knows it')
  await page.getByText('The job was discarded without being done.').waitFor()
  const attempts = page.getByRole('list', { name: 'Attempts' })
  await attempts.getByText('ready to discarded: Nobody knows it').waitFor()
  const acts = await sql`select act, reason from job_acts where job_id = ${id} order by at`
  expect(acts.map(({ act, reason }) => [act, reason])).toEqual([
    ['run_now', 'It waits for no reason'],
    ['discard', 'Nobody knows it'],
  ])
})

test('an act that the state of a job does not allow is refused with a reason', async () => {
  const { sql } = dashboard.world
  const id = await insertUnrecognizedJob({ queue: 'compliance', run_at: 'infinity' })
  const page = await dashboard.open(`/ops/jobs/${id}`, { as: 'operator' })
  await page.getByRole('main').getByRole('button', { name: 'Retry', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('The provider is back')
  await sql`update jobs set state = 'succeeded', finished_at = now() where id = ${id}`
  await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
  await dialog.getByText('Not retried: the job has finished with the state succeeded.').waitFor()
  expect(await dialog.getByText(/0 done/).count()).toBe(0)
})

test('a call with an unknown outcome is resolved on the page of its job, and the dialog states the consequence', async () => {
  const { client } = dashboard.world
  const { refund_id, job_id } = await unknownRefund(dashboard.world)
  const page = await dashboard.open(`/ops/jobs/${job_id}`, { as: 'operator' })
  const button = (name: string) => page.getByRole('main').getByRole('button', { name, exact: true })
  await button('Retry').waitFor()
  // The API refuses to discard a job with an unknown outcome, so the page has no button for that.
  expect(await button('Discard').count()).toBe(0)
  await button('Resolve').click()
  const dialog = page.getByRole('dialog')
  const resolve = dialog.getByRole('button', { name: 'Resolve', exact: true })
  await dialog.getByLabel('Reason').fill('Their books do not show it')
  expect(await resolve.isDisabled()).toBe(true)
  await dialog.getByLabel('It took effect').check()
  await dialog.getByText('Nothing is sent again.').waitFor()
  await dialog.getByLabel('Provider reference').waitFor()
  expect(await resolve.isDisabled()).toBe(true)
  await dialog.getByLabel('It did not take effect').check()
  await dialog.getByText('The refund of $3.00 fails, and its reserved money is available again.').waitFor()
  await checkAccessible(page)
  await resolve.click()
  await dialog.getByText('Resolved', { exact: true }).waitFor()
  await dialog.getByRole('link', { name: /audit/i }).waitFor()
  expect((await client.get(`/v1/refunds/${refund_id}`)).body.status).toBe('failed')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await page.getByRole('list', { name: 'Attempts' }).getByText('unknown to failed').waitFor()
})

test('calls with an unknown outcome can be resolved in bulk on the page of jobs, but only with a filter for unknown calls', async () => {
  const { client, tenant_id } = dashboard.world
  const refunds = [await unknownRefund(dashboard.world), await unknownRefund(dashboard.world)]
  const page = await dashboard.open(`/ops/jobs?tenant=${tenant_id}`, { as: 'operator' })
  const bulk = page.getByRole('group', { name: 'All matching jobs' })
  await bulk.getByRole('button', { name: 'Retry', exact: true }).waitFor()
  expect(await bulk.getByRole('button', { name: 'Resolve', exact: true }).count()).toBe(0)
  await page.goto(`${page.url()}&state=unknown&name=refund.create`)
  await bulk.getByRole('button', { name: 'Resolve', exact: true }).click()
  const dialog = page.getByRole('dialog')
  const resolve = dialog.getByRole('button', { name: 'Resolve', exact: true })
  await dialog.getByText('2 jobs', { exact: true }).waitFor()
  await dialog.getByLabel('Reason').fill('Their books show none of them')
  expect(await resolve.isDisabled()).toBe(true)
  await dialog.getByLabel('It did not take effect').check()
  await checkAccessible(page)
  const recounted = page.waitForResponse(
    async (response) => response.url().includes('/ops/jobs/count') && (await response.json()).count === 0,
  )
  await resolve.click()
  await dialog.getByText('2 done, 0 refused', { exact: true }).waitFor()
  // The filters match none of the jobs any more.
  await recounted
  await dialog.getByText('2 jobs', { exact: true }).waitFor()
  for (const { refund_id } of refunds)
    expect((await client.get(`/v1/refunds/${refund_id}`)).body.status).toBe('failed')
})

test("if no worker counts jobs, the operators' pages show the time of the last count, and report nothing as healthy", async () => {
  const { sql } = dashboard.world
  await insertUnrecognizedJob({ queue: 'maintenance', run_at: '2020-01-01' })
  // No roll-up is running, and the next roll-up is not due.
  await eventually(async () => {
    const updated = await sql`
      update recurring_work set due_at = now() + interval '1 hour', ended_at = now() - interval '2 minutes',
        position = position || jsonb_build_object('after', '2026-01-01T00:00:00.000000Z', 'sampled', '2026-01-01T00:00:00.000000Z')
      where name = 'roll-ups' and lease_until is null and position is not null`
    expect(updated.count).toBe(1)
  })
  onTestFinished(async () => {
    await sql`update recurring_work set due_at = now() where name = 'roll-ups'`
  })
  const page = await dashboard.open('/ops/queues', { as: 'operator' })
  for (const path of ['/ops/queues', '/ops/providers', '/ops/queues/payments']) {
    await page.goto(`${dashboard.url}${path}`)
    await page.getByText('no worker is counting').waitFor()
    expect(
      await page
        .getByRole('main')
        .getByText(/Nothing is due|Healthy/)
        .count(),
    ).toBe(0)
  }
})

test('the list of jobs shows the resource of each job and its requested act', async () => {
  const { world } = dashboard
  const { id } = await authorizedPayment(world.client, { amount_minor: 1900 })
  // The act waits for the lock on the row of the job.
  const job = await insertUnrecognizedJob({ queue: 'compliance', run_at: 'infinity', resource_id: id })
  const release = await lockJob(job)
  await world.sql`
    insert into operator_acts (id, act, job_id, actor, reason, matched)
    values (${newId()}, 'retry', ${job}, 'ada@example.com', 'they wait', 1)`
  const page = await dashboard.open('/ops/jobs?queue=compliance', { as: 'operator' })
  const row = page.getByRole('table', { name: 'Jobs' }).getByRole('row').filter({ hasText: 'Retrying' })
  await row.filter({ hasText: 'nobody.knows' }).waitFor()
  await release()
  await row.waitFor({ state: 'detached' })
  await page
    .getByRole('link', { name: new RegExp(id.slice(-8)) })
    .first()
    .click()
  const jobs = page.getByRole('table', { name: 'Jobs' }).getByRole('row')
  await jobs.filter({ hasText: 'payment.authorize' }).waitFor()
  await page.getByRole('link', { name: 'payment.authorize' }).first().click()
  await page.getByText('The job succeeded.').waitFor()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain('payment.authorize')
})

/** Locks the row of a job. Returns a function that releases the lock. */
async function lockJob(id: string): Promise<() => Promise<void>> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: locked, resolve: confirmLock } = Promise.withResolvers<void>()
  const transaction = dashboard.world.sql.begin(async (tx) => {
    await tx`select from jobs where id = ${id} for update`
    confirmLock()
    await released
  })
  await locked
  return async () => {
    release()
    await transaction
  }
}

test('the dialog of an act whose response is lost shows the latest acts, because the act may be in progress', async () => {
  const { sql } = dashboard.world
  const id = await insertUnrecognizedJob({ queue: 'compliance', run_at: 'infinity' })
  const page = await dashboard.open(`/ops/jobs/${id}`, {
    as: 'operator',
    expects: [/ERR_FAILED|ERR_CONNECTION/],
  })
  // The request arrives, and its response is lost.
  await page.route('**/api/ops/acts', async (route) => {
    if (route.request().method() !== 'POST') return await route.continue()
    await route.fetch()
    await route.abort()
  })
  await page.getByRole('main').getByRole('button', { name: 'Discard', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('Lost on the way')
  await dialog.getByRole('button', { name: 'Discard', exact: true }).click()
  await dialog.getByText('There was no response').waitFor()
  await dialog.getByRole('listitem').filter({ hasText: 'Lost on the way' }).waitFor()
  await eventually(async () =>
    expect(await sql`select from jobs where id = ${id} and state = 'discarded'`).toHaveLength(1),
  )
})

test('a timeline shows for each retried attempt whether the attempt may have taken effect', async () => {
  const { world } = dashboard
  const { client } = world
  await fund(client, 1000)
  const [{ id, processor_reference }, { id: payment_id, processor_reference: captured }] = await Promise.all([
    authorizedPayment(client, { amount_minor: 1600 }),
    capturedPayment(client, { amount_minor: 1600 }),
  ])
  const failInTurn = async (match: object, faults: [fault: string, times: number][]) => {
    const scripted: Awaited<ReturnType<typeof fault>>[] = []
    for (const [name, times] of faults) scripted.push(await fault(world, { match, fault: name, times }))
    onTestFinished(async () => void (await Promise.all(scripted.map((each) => each.remove()))))
    return scripted.at(-1)!
  }
  const description = freshKey()
  const [, payout_fails, refund_fails] = await Promise.all([
    failInTurn({ path: `${processor_reference}/capture` }, [
      ['drop_before', 1],
      ['error_500_before', 1],
    ]),
    failInTurn({ contains: description }, [
      ['drop_before', 1],
      ['rate_limited_429', 100],
    ]),
    failInTurn({ method: 'POST', contains: `payment_intent=${captured}` }, [
      ['drop_after', 1],
      ['conflict_409', 100],
    ]),
  ])
  const [payout, { body: refunded }] = await Promise.all([
    recipient(client).then((to) => payOut(client, to, { description })),
    refund(client, payment_id, { amount_minor: 300 }, ASYNC),
    client.post(`/v1/payments/${id}/capture`, undefined, ASYNC),
  ])
  await Promise.all([payout_fails.hit(), refund_fails.hit(), paymentIn(client, id, 'captured')])
  // The capture with the old key had no effect. This was unknown after its first attempt, and is certain now.
  const page = await dashboard.open(`/payments/${id}`, { as: 'operator' })
  const timeline = page.getByRole('list', { name: 'Timeline' })
  await page.getByRole('button', { name: /^Show \d+ minor entr/ }).click()
  const rotated = timeline.getByRole('listitem').filter({ hasText: 'It is retried with a new key' })
  await rotated.getByText('Stripe did not capture $16.00, and nothing took effect').waitFor()
  expect(await timeline.getByText('nothing took effect').count()).toBe(1)
  await page.goto(`${dashboard.url}/payouts/${payout.body.id}`)
  await timeline
    .getByRole('listitem')
    .filter({ hasText: 'Another attempt follows' })
    .getByText('Stripe did not confirm whether it did send the payout')
    .first()
    .waitFor()
  expect(await page.getByText('nothing took effect').count()).toBe(0)
  // A notification has reported this refund, and its job has not settled yet.
  await eventually(async () =>
    expect((await client.get(`/v1/refunds/${refunded.id}`)).body.status).toBe('succeeded'),
  )
  await page.goto(`${dashboard.url}/refunds/${refunded.id}`)
  await page.getByText('The refund of $3.00 succeeded.').waitFor()
  await timeline.getByText('Stripe did not confirm whether it did refund $3.00').first().waitFor()
  expect(await page.getByText(/nothing took effect|no money moved|has not confirmed/).count()).toBe(0)
})

test('jobs with an unknown outcome are listed in pages', async () => {
  const { sql } = dashboard.world
  await Promise.all(
    Array.from({ length: 26 }, () =>
      insertUnrecognizedJob({
        queue: 'maintenance',
        state: 'unknown',
        unknown_since: 'now',
        run_at: 'infinity',
      }),
    ),
  )
  onTestFinished(async () => void (await sql`delete from jobs where queue = 'maintenance'`))
  const page = await dashboard.open('/ops/drifts?tab=unknown', { as: 'operator' })
  const rows = page.getByRole('table', { name: 'Unknown jobs' }).getByRole('row')
  await expect.poll(() => rows.count()).toBe(26)
  await page.getByRole('button', { name: 'Next' }).click()
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByRole('button', { name: 'Previous' }).click()
  await expect.poll(() => rows.count()).toBe(26)
})

test('a call with a lost response waits while its queue is paused, and a read-only member sees which roles may capture', async () => {
  const { world } = dashboard
  const { client } = world
  const [lost, authorized] = await Promise.all([
    authorizedPayment(client, { amount_minor: 1700 }),
    authorizedPayment(client, { amount_minor: 1800 }),
  ])
  const reader = await dashboard.open(`/payments/${authorized.id}`, { as: 'read-only' })
  await reader.getByText('A member with the role owner, admin, or support can capture it').waitFor()
  const dropping = await fault(world, {
    match: { method: 'POST', path: '/capture$' },
    fault: 'drop_before',
    times: 100,
  })
  expect((await client.post(`/v1/payments/${lost.id}/capture`, {}, ASYNC)).status).toBe(202)
  await dropping.hit()
  await world.sql`insert into pauses (queue) values ('payments')`
  onTestFinished(async () => void (await world.sql`delete from pauses`))
  await dropping.remove()
  const page = await dashboard.open(`/payments/${lost.id}`, { as: 'support' })
  await page.getByText(/The queue is paused\. .+ when it is resumed/).waitFor()
  await world.sql`delete from pauses`
  await paymentIn(client, lost.id, 'captured')
})

test('an authorization whose response is lost is not shown as failed, and is shown as on hold after a notification of the processor', async () => {
  const { world } = dashboard
  const { client } = world
  const createUnconfirmed = async (first_fault: string, later_fault: string) => {
    const description = freshKey()
    const match = { contains: description }
    const lost = await fault(world, { match, fault: first_fault })
    const { body } = await createPayment(client, { description, amount_minor: 1600 }, ASYNC)
    await lost.hit()
    const later = await fault(world, { match, fault: later_fault, times: 100 })
    onTestFinished(() => later.remove())
    await later.hit()
    return { id: body.id as string, later }
  }
  const [open, authorized] = await Promise.all([
    createUnconfirmed('drop_before', 'rate_limited_429'),
    createUnconfirmed('drop_after', 'conflict_409'),
  ])
  const page = await dashboard.open(`/payments/${open.id}`, { as: 'operator' })
  await page
    .getByText(/Stripe has not confirmed whether it did authorize \$16\.00\. It is retried with the same key/)
    .waitFor()
  const timeline = page.getByRole('list', { name: 'Timeline' })
  await timeline.getByText('Stripe did not confirm whether it did authorize $16.00').first().waitFor()
  expect(await page.getByText(/nothing took effect|no money moved/).count()).toBe(0)
  // A notification has reported this authorization, and the job of the payment is not settled yet.
  await paymentIn(client, authorized.id, 'authorized')
  await page.goto(page.url().replace(open.id, authorized.id))
  await page.getByText(/\$16\.00 is on hold until/).waitFor()
  await timeline.getByText('Stripe did not confirm whether it did authorize $16.00').first().waitFor()
  expect(await page.getByText(/nothing took effect|no money moved|has not confirmed/).count()).toBe(0)
  await Promise.all([open, authorized].map(({ later }) => later.remove()))
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where finished_at is null and attempt > 1`
  await paymentIn(client, open.id, 'authorized')
})

test('no payout is sent while payouts are paused, and waiting payouts continue after the resume', async () => {
  const { world } = dashboard
  const { client } = world
  await fund(client, 5_000)
  const to = await recipient(client)
  const page = await dashboard.open('/ops/queues', { as: 'operator' })
  const row = page.getByRole('row').filter({ hasText: 'payouts' })
  await perform(page, row.getByRole('button', { name: 'Pause' }), 'Pause', 'The bank is closed')
  await page.getByRole('alert').filter({ hasText: 'Paused: queue payouts' }).waitFor()
  const sentPayouts = () => world.provider('stripe').requests({ method: 'POST', path: '^/v1/payouts$' })
  const earlier = await sentPayouts()
  const { id } = (await payOut(client, to)).body
  // Jobs of other queues continue. This capture is requested after the payout.
  const authorized = await authorizedPayment(client)
  await client.post(`/v1/payments/${authorized.id}/capture`)
  expect((await client.get(`/v1/payouts/${id}`)).body.status).toBe('pending')
  expect(await sentPayouts()).toEqual(earlier)
  await perform(page, row.getByRole('button', { name: 'Resume' }), 'Resume')
  await payoutIn(client, id, 'paid')
  await page.getByRole('alert').filter({ hasText: 'Paused' }).waitFor({ state: 'hidden' })
})

test('an operator replays a failed delivery by hand', async () => {
  const { client } = dashboard.world
  let healthy = true
  const hook = await openHook(() => (healthy ? 204 : 500))
  onTestFinished(() => hook.close())
  const endpoint = await registerEndpoint(client, { url: hook.url, types: ['customer.created'] })
  // The page shows that the endpoint is failing now, although an earlier delivery succeeded.
  await client.post('/v1/customers', { idempotency_key: 'taken', name: 'Ada' })
  await eventually(async () => expect(hook.arrived.splice(0)).toHaveLength(1))
  healthy = false
  await client.post('/v1/customers', { idempotency_key: 'replayed', name: 'Ada' })
  await eventually(async () => expect(hook.arrived).toHaveLength(1))
  const page = await dashboard.open(`/webhooks/${endpoint.id}`, { as: 'developer' })
  await page.getByRole('heading', { level: 1 }).getByText('Failing').waitFor({ timeout: 20_000 })
  await page.getByRole('link', { name: 'customer.created' }).first().click()
  await page.waitForURL('**/webhooks/deliveries/*')
  await page.getByText('Status 500').first().waitFor()
  const list = await dashboard.open('/webhooks', { as: 'developer' })
  await list.getByRole('row').filter({ hasText: hook.url }).getByText('Failing').waitFor({ timeout: 20_000 })
  const operators = await dashboard.open(`/ops/jobs?state=all&queue=deliveries`, { as: 'operator' })
  await operators
    .getByRole('row', { name: /Attempt failed/ })
    .first()
    .waitFor()
  await operators.getByRole('link', { name: 'webhook_endpoint.deliver' }).first().click()
  await operators.getByText(/This attempt failed.*The next attempt is/).waitFor()
  expect(await operators.getByText(/for good|Declined/).count()).toBe(0)
  await operators.getByRole('link', { name: 'See the delivery' }).waitFor()
  healthy = true
  await perform(page, page.getByRole('button', { name: 'Replay', exact: true }), 'Replay')
  await eventually(async () => expect(hook.arrived.length).toBeGreaterThan(1))
  expect(hook.arrived.at(-1)!.headers['webhook-id']).toBe(hook.arrived[0]!.headers['webhook-id'])
  await page.getByRole('heading', { level: 1 }).filter({ hasText: 'Delivered' }).waitFor()
  // The page lists the attempts that the API counts, and the replay, which the API does not count.
  const { attempts } = (await client.get(`/v1/webhook_deliveries/${page.url().split('/').at(-1)}`)).body
  await page.getByText(`${attempts}, and 1 by hand`, { exact: true }).waitFor()
})

test('the statistics of an endpoint are reloaded when its recovery completes', async () => {
  const { client } = dashboard.world
  const hook = await openHook(() => 204)
  onTestFinished(() => hook.close())
  const endpoint = await registerEndpoint(client, { url: hook.url, types: ['customer.created'] })
  const request = { idempotency_key: 'recovered', since: endpoint.created_at }
  const recovery = (await client.post(`/v1/webhook_endpoints/${endpoint.id}/recover`, request)).body
  await eventually(async () =>
    expect((await client.get(`/v1/webhook_recoveries/${recovery.id}`)).body.status).toBe('completed'),
  )
  const page = await dashboard.open('/webhooks', { as: 'developer' })
  let complete = () => {}
  const completed = new Promise<void>((resolve) => {
    complete = resolve
  })
  await page.route('**/v1/webhook_recoveries/*', async (route) => {
    await completed
    await route.continue()
  })
  const stats = (timeout: number) => page.waitForResponse(/\/stats$/, { timeout })
  const first = stats(10_000)
  await page.goto(`${dashboard.url}/webhooks/${endpoint.id}?recovery=${recovery.id}`)
  await first
  // The regular reload happens only every ten seconds, so an earlier reload is caused by the completion.
  const reloaded = stats(5_000)
  complete()
  await page.getByText('0 of 0 deliveries sent again').waitFor()
  await reloaded
})

test('if another client disables an endpoint, an open dialog to disable it does not become a dialog to enable it', async () => {
  const { client } = dashboard.world
  const { id } = await registerEndpoint(client, {
    url: 'http://127.0.0.1:9/switch',
    types: ['customer.created'],
  })
  const page = await dashboard.open(`/webhooks/${id}`, { as: 'developer' })
  await page.getByRole('button', { name: 'Disable', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Disable this endpoint?' })
  await dialog.waitFor()
  await client.patch(`/v1/webhook_endpoints/${id}`, { status: 'disabled' })
  await page.locator('h1').getByText('Disabled').waitFor({ timeout: 20_000 })
  await dialog.getByRole('button', { name: 'Disable', exact: true }).click()
  await dialog.getByText('The endpoint is disabled.').waitFor()
  expect((await client.get(`/v1/webhook_endpoints/${id}`)).body.status).toBe('disabled')
})

test('the buttons of a table wider than the page stay visible, and on a phone the buttons are large enough to tap', async () => {
  const page = await dashboard.open('/ops/queues', { as: 'operator', viewport: { width: 1024, height: 768 } })
  const pause = page.getByRole('row').filter({ hasText: 'payouts' }).getByRole('button', { name: 'Pause' })
  for (const viewport_width of [1024, 1280]) {
    await page.setViewportSize({ width: viewport_width, height: 768 })
    const { x, width } = (await pause.boundingBox())!
    expect(x + width).toBeLessThanOrEqual(viewport_width)
  }
  const id = await insertUnrecognizedJob({ queue: 'ai', run_at: 'infinity' })
  onTestFinished(async () => void (await dashboard.world.sql`delete from jobs where id = ${id}`))
  for (const path of ['/ops/queues', '/ops/jobs?state=all', '/ops/providers', '/ops/processes']) {
    await page.goto(`${dashboard.url}${path}`)
    await page.getByRole('table').getByRole('row').nth(1).waitFor()
    const scrolls = await page
      .locator('.table-frame')
      .evaluate((frame: any) => frame.scrollWidth - frame.clientWidth)
    expect([path, scrolls]).toEqual([path, 0])
  }
  await page.goto(`${dashboard.url}/ops/queues`)
  await page.setViewportSize(PHONE)
  expect((await pause.boundingBox())!.height).toBeGreaterThanOrEqual(44)
  // All schedules fit on one page.
  await page.goto(`${dashboard.url}/ops/schedules`)
  await page.getByRole('table').first().waitFor()
  expect(await page.getByRole('button', { name: /^(Next|Previous)$/ }).count()).toBe(0)
})

test("an outage of a provider is the first entry that needs attention, and the operators' pages name the setting to check", async () => {
  const { sql, tenant_id } = dashboard.world
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, attempt, run_at, failing_since)
    select gen_random_uuid(), ${tenant_id}, 'payments', 'payment.capture', '{}', 25, 4, now() + interval '1 hour',
      now() - interval '3 minutes' from generate_series(1, 12)`
  // The outage is recorded by another worker: the workers of this test replace only their own outages.
  await sql`
    insert into provider_outages (provider, worker, since, outcome, seen_at)
    values ('stripe', 'elsewhere/1', now() - interval '4 minutes', 'retry', now() + interval '1 hour')`
  // Every operation fails there. Otherwise the answers in this test would make it the outage of some operations.
  await sql`
    insert into operation_outages (provider, operation, worker, since, failed_at, outcome, is_partial, seen_at)
    select 'stripe', operation, 'elsewhere/1', now() - interval '4 minutes', now(), 'retry', false, now() + interval '1 hour'
    from unnest(${STRIPE_OPERATIONS}::text[]) operation`
  onTestFinished(async () => {
    await sql`delete from jobs where failing_since is not null and name = 'payment.capture'`
    await sql`delete from provider_outages where worker = 'elsewhere/1'`
    await sql`delete from operation_outages where worker = 'elsewhere/1'`
  })
  for (const as of ['support', 'operator'] as const) {
    const page = await dashboard.open('/', { as })
    const first = page.getByRole('list', { name: 'Needs attention' }).getByRole('listitem').first()
    await expect
      .poll(() => first.innerText())
      .toMatch(/^\s*Stripe does not answer: 12 payments wait\s[^]*since 4 min/)
    const figure = page.getByRole('region', { name: 'Longest wait' })
    await figure.getByText('12 jobs are retried, for up to 3 min').waitFor()
    await figure.getByText(/^3 min/).waitFor()
    await checkAccessible(page)
    expect(await first.getByText('An operator settles this').count()).toBe(as === 'support' ? 1 : 0)
  }
  const page = await dashboard.open('/ops/providers', { as: 'operator' })
  const row = page.getByRole('row').filter({ hasText: 'stripe' })
  await row.getByText('Does not answer').waitFor()
  await row.getByText('check STRIPE_API_BASE').waitFor()
  await row.getByRole('link', { name: /^12\s*for 3 min/ }).click()
  await page.waitForURL(/state=retrying/)
  const jobs = page.getByRole('table', { name: 'Jobs' })
  await expect.poll(() => jobs.getByText('Retrying').count()).toBe(12)
  await page.goto(`${dashboard.url}/ops/queues`)
  await page.getByText('12 jobs are retried.').waitFor()
})

test("members see which queues are paused, and cannot open operators' pages", async () => {
  const { client, sql } = dashboard.world
  await sql`insert into pauses (queue, reason) values ('payments', 'nobody else is told this')`
  onTestFinished(async () => void (await sql`delete from pauses`))
  const { body } = await client.post(
    '/v1/payments',
    {
      amount_minor: 900,
      currency: 'USD',
      method: 'card',
      payment_method: 'pm_card_visa',
      idempotency_key: newId(),
    },
    ASYNC,
  )
  const page = await dashboard.open(`/payments/${body.id}`, { as: 'support' })
  await page.getByRole('alert').filter({ hasText: 'Paused: payments.' }).waitFor()
  await page.getByText('the queue is paused. It continues when the queue is resumed.').first().waitFor()
  for (const path of ['/ops/queues', '/ops/jobs', '/ops/audit']) {
    await page.goto(new URL(path, page.url()).href)
    await page.getByRole('heading', { name: 'Your role does not include this' }).waitFor()
    expect(await page.locator('main').innerText()).not.toMatch(/Nothing is|Connecting|Processes/)
  }
})

test('a missing page or resource is reported inside the layout, with a link back and no retry button', async () => {
  const page = await dashboard.open('/ops/queues/nonsense', {
    as: 'operator',
    expects: [/404 .*\/api\/ops\/jobs\//],
  })
  for (const [path, heading, back] of [
    ['/ops/queues/nonsense', 'Queue not found', 'Go to Queues'],
    ['/nonsense', 'There is no such page', 'Go to Overview'],
    [`/ops/jobs/${newId()}`, 'Job not found', 'Go to Jobs'],
  ] as const) {
    await page.goto(new URL(path, page.url()).href)
    await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    expect(await page.title()).toBe(`${heading} · Sluice`)
    await page.getByRole('main').getByRole('link', { name: back, exact: true }).waitFor()
    await page.getByRole('navigation').first().waitFor()
    expect(await page.getByRole('button', { name: 'Try again' }).count()).toBe(0)
  }
})

test('an operator marks a payout as failed, and a forced failure needs the confirmation of another operator', async () => {
  const { world } = dashboard
  const { client, tenant_id } = world
  await fund(client, 3_000)
  const createPayout = async (destination: string, amount_minor: number): Promise<string> =>
    (await payOut(client, await recipient(client, destination), { amount_minor })).body.id
  // The processor can still cancel the first payout.
  const [stoppable, forced] = [await createPayout('ba_pending', 610), await createPayout('ba_manual', 620)]
  await Promise.all([payoutIn(client, stoppable, 'processing'), payoutIn(client, forced, 'processing')])
  const page = await dashboard.open(`/payouts/${stoppable}`, { as: 'operator' })
  const button = (name: string) => page.getByRole('main').getByRole('button', { name, exact: true })
  const dialog = page.getByRole('dialog')
  await button('Mark as failed').click()
  await dialog.getByText('Mark the payout of $6.10 as failed?').waitFor()
  const mark = dialog.getByRole('button', { name: 'Mark as failed', exact: true })
  expect(await mark.isDisabled()).toBe(true)
  await dialog.getByLabel('Reason').fill('The account is closed')
  await checkAccessible(page)
  await mark.click()
  await dialog.getByRole('link', { name: /audit/i }).waitFor()
  await payoutIn(client, stoppable, 'failed')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  // The page shows the reason that the operator gave.
  await page.getByText('The payout was marked as failed by hand: The account is closed').waitFor()
  expect(await button('Force failure').count()).toBe(0)

  await page.goto(`${dashboard.url}/payouts/${forced}`)
  await button('Force failure').click()
  await dialog.getByText('Another operator must confirm it, under Proposals.').waitFor()
  expect(await dialog.getByRole('button', { name: 'Propose', exact: true }).isDisabled()).toBe(true)
  await dialog.getByLabel('Reason').fill('The bank went down')
  await checkAccessible(page)
  await dialog.getByRole('button', { name: 'Propose', exact: true }).click()
  await dialog.getByRole('link', { name: /audit/i }).waitFor()
  for (const amount_minor of [-130, -140]) {
    const correction = {
      kind: 'correction',
      tenant_id,
      currency: 'usd',
      amount_minor,
      reason: 'Posted twice',
    }
    expect((await fetchInPage(page, 'POST', '/api/ops/proposals', correction)).status).toBe(201)
  }

  await page.goto(`${dashboard.url}/ops/proposals`)
  const rowOf = (of: Page, hasText: string) =>
    of.getByRole('table', { name: 'Proposals' }).getByRole('row').filter({ hasText })
  const proposed = rowOf(page, 'Fail payout of $6.20').filter({ hasText: 'Open' })
  await proposed.filter({ hasText: forced.slice(-8) }).waitFor()
  expect(await proposed.getByRole('link', { name: 'Open payout' }).getAttribute('href')).toBe(
    `/payouts/${forced}`,
  )
  await rowOf(page, 'Correct -$1.30').filter({ hasText: 'Balance in USD' }).waitFor()
  // Operators cannot confirm their own proposals. They can cancel them.
  expect(await page.getByRole('button', { name: 'Confirm', exact: true }).count()).toBe(0)
  await perform(page, rowOf(page, 'Correct -$1.30').getByRole('button', { name: 'Reject' }), 'Reject')
  await rowOf(page, 'Correct -$1.30').filter({ hasText: 'Canceled' }).waitFor()

  const other = await createPerson(world, { is_operator: true })
  const other_page = await dashboard.open('/ops/proposals', { as: other })
  await rowOf(other_page, 'Fail payout of $6.20').waitFor()
  await checkAccessible(other_page)
  await other_page.setViewportSize({ width: 1280, height: 768 })
  const frame = other_page.locator('.table-frame')
  expect(await frame.evaluate((element: any) => element.scrollWidth - element.clientWidth)).toBe(0)
  await perform(
    other_page,
    rowOf(other_page, 'Correct -$1.40').getByRole('button', { name: 'Reject' }),
    'Reject',
  )
  await rowOf(other_page, 'Correct -$1.40').filter({ hasText: 'Rejected' }).waitFor()
  await rowOf(other_page, 'Fail payout of $6.20').getByRole('button', { name: 'Confirm' }).click()
  await other_page.getByRole('dialog').getByText('The bank went down').waitFor()
  await other_page.getByRole('dialog').getByText('$6.20 is available at once').waitFor()
  // Before an operator outside the tenant sees the tenant's pages, the page asks for confirmation.
  await other_page.getByRole('dialog').getByText(forced).waitFor()
  await other_page.getByRole('dialog').getByRole('button', { name: 'Open payout' }).click()
  await other_page.getByRole('dialog').getByRole('button', { name: 'View tenant' }).click()
  await other_page.waitForURL(`**/payouts/${forced}`)
  await other_page.goto(`${dashboard.url}/ops/proposals`)
  await rowOf(other_page, 'Fail payout of $6.20').getByRole('button', { name: 'Confirm' }).click()
  await other_page.getByRole('dialog').getByRole('button', { name: 'Confirm', exact: true }).click()
  await other_page.getByRole('dialog').getByText('It is carried out within a second.').waitFor()
  await rowOf(other_page, 'Fail payout of $6.20').filter({ hasText: 'Done' }).waitFor()
  expect((await client.get(`/v1/payouts/${forced}`)).body).toMatchObject({ status: 'failed' })
  await other_page.getByLabel('State', { exact: true }).selectOption('rejected')
  await rowOf(other_page, 'Fail payout of $6.20').waitFor({ state: 'detached' })
  expect(await rowOf(other_page, 'Correct -$1.40').count()).toBe(1)
})

test("an operator adds and removes the email domains of a tenant, and the tenant's members see the domains", async () => {
  const page = await dashboard.open('/settings/email', { as: 'operator', expects: [/status of 400/] })
  await page.getByText("any address but the system's own").waitFor()
  await page.getByRole('button', { name: 'Add domain' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Domain').fill('shop')
  await dialog.getByRole('button', { name: 'Add domain', exact: true }).click()
  await dialog.getByText('must be a domain such as shop.example').waitFor()
  await dialog.getByLabel('Domain').fill('shop.example')
  await dialog.getByText('Email of this tenant may be from addresses at shop.example only').waitFor()
  await checkAccessible(page)
  await dialog.getByRole('button', { name: 'Add domain', exact: true }).click()
  await dialog.getByText('shop.example is added.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  const member = await dashboard.open('/settings/email', { as: 'support' })
  await member.getByText('Only an operator can change them.').waitFor()
  await member.getByRole('cell', { name: 'shop.example' }).waitFor()
  expect(await member.getByRole('main').getByRole('button').count()).toBe(0)
  await perform(page, page.getByRole('button', { name: 'Remove shop.example' }), 'Remove')
  await page.getByText("Email of this tenant is sent from the installation's address only.").waitFor()
  await perform(page, page.getByRole('button', { name: 'Use the default' }), 'Use the default')
  await page.getByText('No list of its own').waitFor()
})

test('after a restore, operators see on every page what waits, release it on one page, and acknowledge it', async () => {
  const { world } = dashboard
  const { email } = await dashboard.person('operator')
  const unreadable = await fault(world, {
    match: { path: '^/v1/transfers' },
    times: 10_000,
    fault: 'refuse_401',
  })
  onTestFinished(() => unreadable.remove())
  await goBackInTime(world, { lost_audit_entries: 3 })
  const { body: payment } = await createPayment(world.client, {}, ASYNC)
  const page = await dashboard.open('/payments', { as: 'operator' })
  const banner = page.getByRole('alert').filter({ hasText: 'Restore of the database' })
  await banner.getByText('All jobs wait until an operator releases them.').waitFor()
  await banner.getByRole('link', { name: 'Go to recovery' }).click()
  const switches = page.getByRole('table', { name: 'Switches of the database' }).locator('tbody')
  await switches.getByText(/^audit entries \d+ to \d+ are lost$/).waitFor()
  await page.getByRole('list', { name: 'What people must do again' }).getByText('Erased customers').waitFor()
  const member = await dashboard.open('/payments', { as: 'support' })
  await member.getByRole('heading', { level: 1, name: 'Payments' }).waitFor()
  expect(await member.getByText('Restore of the database').count()).toBe(0)

  await page.getByText(/^The list transfers of stripe cannot be read since/).waitFor()
  await page.getByRole('main').getByRole('button', { name: 'Release' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/Waiting: .*\d jobs? in payments/).waitFor()
  const release = dialog.getByRole('button', { name: 'Release' })
  await dialog.getByText('Cannot be read: transfers of stripe.').waitFor()
  await dialog.getByLabel(/^Do not wait for the lists/).check()
  await dialog.getByLabel('Reason').fill('Compared with the processor')
  expect(await release.isDisabled()).toBe(true)
  await dialog.getByLabel(/^Discard them/).check()
  await checkAccessible(page)
  await release.click()
  await dialog.getByText('Released: switch 1.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await switches.getByText(`by ${email}`, { exact: true }).waitFor()
  await switches.getByText('messages discarded').waitFor()
  await switches.getByText('nothing waits for them').first().waitFor()
  await switches.getByText(`decided by ${email}`).first().waitFor()
  await paymentIn(world.client, payment.id, 'authorized')

  const acknowledge = page.getByRole('button', { name: 'Acknowledge switch 1' })
  await page.setViewportSize({ width: 1280, height: 768 })
  const { x, width } = (await acknowledge.boundingBox())!
  expect(x + width).toBeLessThanOrEqual(1280)
  await perform(page, acknowledge, 'Acknowledge')
  await banner.waitFor({ state: 'detached' })
  await switches.getByText('Acknowledged').waitFor()
})

test('if only SMS wait, operators read what they take on, and end that wait', async () => {
  const { world } = dashboard
  const { client, sql } = world
  const { email } = await dashboard.person('operator')
  const unreadable = await world.provider('twilio').fault({
    match: { method: 'GET', contains: '\n1000' },
    times: 10_000,
    fault: 'refuse_401',
  })
  onTestFinished(() => unreadable.remove())
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  const sms = { idempotency_key: freshKey(), to: '+491701234997', body: 'Hi', send_at }
  expect((await client.post('/v1/messages/sms', sms)).status).toBe(201)
  const { number } = await goBackInTime(world)
  await sql`
    update database_switches set lists_read_at = now(), released_at = now(), released_by = 'test', messages = 'send'
    where number = ${number}`
  const page = await dashboard.open('/ops/recovery', { as: 'operator' })
  const main = page.getByRole('main')
  await main.getByText(/^The list received SMS of twilio cannot be read since/).waitFor()
  await main.getByText('SMS that were accepted before the switch wait until').waitFor()
  await main.getByRole('link', { name: '1 job in messages' }).waitFor()
  await main.getByRole('button', { name: 'Release' }).click()
  const dialog = page.getByRole('dialog', {
    name: `Do not wait for the received SMS since switch ${number}?`,
  })
  await dialog.getByText('Waiting: 1 job in messages. The SMS that wait are sent.').waitFor()
  expect(await dialog.getByText(/money/).count()).toBe(0)
  await dialog.getByLabel(/^Do not wait for the received SMS/).check()
  await dialog.getByLabel('Reason').fill('No opt-outs in the console')
  await checkAccessible(page)
  await dialog.getByRole('button', { name: 'Release' }).click()
  await dialog.getByText(`Nothing waits for the received SMS since switch ${number}.`).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await main.getByText('Nothing waits.').waitFor()
  const row = page.getByRole('table', { name: 'Switches of the database' }).locator('tbody tr').first()
  await row.getByText('Received SMS:').waitFor()
  await row.getByText('nothing waits for them').waitFor()
  await row.getByText(`decided by ${email}`).waitFor()
})
