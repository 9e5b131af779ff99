// Test mode beside the previous release, which knows no modes. During an upgrade and after a rollback, its workers must
// call no provider for a twin: they would use the live credentials.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test as anyTest } from 'vitest'
import { findPauses, findPausesOf, pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { requestLookup } from '#domain/reconciliation/lookups.ts'
import { ensureTenant, ensureTwin } from '#domain/tenants.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { LOOPBACK, openHook, registerEndpoint } from '#test/deliveries.ts'
import { createDeployment } from '#test/deployment.ts'
import { createKey, testActor } from '#test/environment.ts'
import { ASYNC, createPayment, eventually, paymentIn } from '#test/payments.ts'
import { excludeFromStatementAudit, NoHistoryError, previousRelease } from '#test/previous-release.ts'
import { testIn } from '#test/world.ts'

const test = testIn({ parts: [] })
const SOURCES = fileURLToPath(new URL('../src/', import.meta.url))

/** Requests a payment, an email and an SMS. Returns the id of the payment. */
async function requestWork(client: Client): Promise<string> {
  const email = { to: ['ada@example.com'], subject: 'Hello', text: 'Hello' }
  const sms = { to: '+4915112345678', body: 'Hello' }
  for (const [channel, body] of Object.entries({ email, sms })) {
    const sent = await client.post(`/v1/messages/${channel}`, { idempotency_key: freshKey(), ...body }, ASYNC)
    expect(sent.status).toBe(202)
  }
  return (await createPayment(client, {}, ASYNC)).body.id
}

anyTest(
  'a worker of the previous release does nothing for a twin, and one of this release does it',
  async ({ skip }) => {
    const previous = await previousRelease().catch((error: unknown) =>
      error instanceof NoHistoryError ? skip(error.message) : Promise.reject(error),
    )
    onTestFinished(() => previous.remove())
    const deployment = await createDeployment({ queue: 'redis', env: LOOPBACK })
    const { client, sql, provider } = deployment
    const audited = await excludeFromStatementAudit(sql)
    onTestFinished(async () => {
      await deployment.close()
      await audited.exclude()
    })
    await Promise.all([
      deployment.startApi(),
      deployment.startWorker({ ALLOW_NEWER_DATABASE: 'true' }, previous),
    ])
    const { tenant_id, secret } = await createKey(sql, 'acme', undefined, 'test')
    const twin = createClient(client.url, secret)
    const hook = await openHook()
    onTestFinished(() => hook.close())
    for (const each of [twin, client]) await registerEndpoint(each, { url: hook.url })
    const of_twin = await requestWork(twin)
    const live = await paymentIn(client, await requestWork(client), 'authorized')

    // No wake-up is sent for a lookup, so the live one shows that the worker has scanned for due jobs.
    const lookupIn = (livemode: boolean, reference: string) =>
      requestLookup(
        { provider: 'stripe', livemode },
        { resource: 'payment', reference, tenant_id: livemode ? null : tenant_id },
        'test',
      )
    const [of_test, of_live] = [lookupIn(false, 'pi_unknown'), lookupIn(true, live.processor_reference)]
    await storeNotifications(sql, [of_test, of_live])
    const stateOf = async ({ id }: { id: string }) => {
      const [row] = await sql<{ state: string }[]>`select state from notifications where id = ${id}`
      return row!.state
    }
    await eventually(async () => expect(await stateOf(of_live)).toBe('applied'))
    const arrivedAt = (id: string) => hook.arrived.filter(({ body }) => body.tenant_id === id)
    await eventually(async () =>
      expect(arrivedAt(deployment.tenant_id).map(({ body }) => body.type)).toContain('payment.authorized'),
    )

    const jobs = await sql<{ name: string; state: string; attempt: number }[]>`
      select name, state, attempt from jobs where tenant_id = ${tenant_id} order by name`
    expect([...jobs]).toEqual(
      ['message.send_email', 'message.send_sms', 'notification.apply_test', 'payment.authorize'].map(
        (name) => ({ name, state: 'ready', attempt: 0 }),
      ),
    )
    expect(arrivedAt(tenant_id)).toEqual([])
    const intents = (await provider('stripe').effects()).map(({ payment_intent }) => payment_intent)
    expect(new Set(intents)).toEqual(new Set([live.processor_reference]))

    await deployment.startWorker()
    await paymentIn(twin, of_twin, 'authorized')
    await eventually(async () => {
      expect(await stateOf(of_test)).not.toBe('received')
      expect(arrivedAt(tenant_id).map(({ body }) => body.type)).toContain('payment.authorized')
    })
  },
)

test('what pauses a twin for the previous release is not a pause of an operator', async ({ world }) => {
  const { sql } = world
  const { tenant_id } = await createKey(sql, 'paused', undefined, 'test')
  const pausesOf = async (id: string) =>
    (await sql`select from pauses where queue is null and tenant_id = ${id}`).length
  expect([await pausesOf(tenant_id), await findPauses(sql)]).toEqual([1, []])

  const by = testActor(tenant_id)
  expect(await pauseJobs(sql, { tenant_id, reason: 'checks' }, by)).toEqual(expect.any(Number))
  expect(await findPauses(sql)).toMatchObject([{ tenant_id, queue: null, reason: 'checks' }])
  expect(await findPausesOf(sql, tenant_id)).toHaveLength(1)
  expect(await resumeJobs(sql, { tenant_id }, by)).toEqual(expect.any(Number))
  expect(await resumeJobs(sql, { tenant_id }, by)).toBeUndefined()
  expect([await findPauses(sql), await findPausesOf(sql, tenant_id)]).toEqual([[], []])

  // An operator of the previous release resumes the tenant.
  await sql`delete from pauses where tenant_id = ${tenant_id}`
  const dropped = await ensureTwin(sql, await ensureTenant(sql, 'dropped'))
  expect([await pausesOf(tenant_id), await pausesOf(dropped.id)]).toEqual([1, 1])
  await sql`delete from tenants where id = ${dropped.id}`
  expect(await pausesOf(dropped.id)).toBe(0)
})

anyTest('each statement of this release reads only the pauses of operators', async () => {
  const files = (await readdir(SOURCES, { recursive: true })).filter((name) => name.endsWith('.ts'))
  const texts = await Promise.all(files.map((name) => readFile(join(SOURCES, name), 'utf8')))
  const found = texts.flatMap((text) => text.match(/\b(?:from|join|update)\s+(?:only )?pauses\b/g) ?? [])
  expect(found.length).toBeGreaterThan(5)
  expect(new Set(found)).toEqual(new Set(['from only pauses']))
})
