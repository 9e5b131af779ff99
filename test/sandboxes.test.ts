// Tenants in test mode work without a provider: their sandboxes in the database take the place of each.
import { setTimeout } from 'node:timers/promises'
import { describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { findActEnd, requestSandboxAct, type SandboxAct } from '#domain/sandboxes/acts.ts'
import { findInInbox } from '#domain/sandboxes/inbox.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { disputeIn } from '#test/disputes.ts'
import { startInThisProcess } from '#test/parts.ts'
import {
  authorizedPayment,
  capturedPayment,
  createPayment,
  eventually,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { payOut, payoutIn, recipient } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

type SandboxWorld = World & { twin: Client & { tenant_id: string } }

/** Only live tenants have providers here: the emulators, which no test of a twin may reach. */
async function createSandboxWorld(): Promise<SandboxWorld> {
  const world = await createWorld()
  return { ...world, twin: await world.clientOf({ tenant: 'acme', mode: 'test' }) }
}

const test = testIn(createSandboxWorld)

/** The current versions of the objects in a tenant's sandbox. */
async function objectsOf({ sql }: World, tenant_id: string, object: string): Promise<any[]> {
  const rows = await sql<{ version: unknown }[]>`
    select distinct on (object) line -> 'version' as version from sandbox_records
    where tenant_id = ${tenant_id} and kind = 'version' and line -> 'version' ->> 'object' = ${object}
    order by object, position desc`
  return rows.map(({ version }) => version)
}

async function inboxOf({ sql, env }: World, tenant_id: string) {
  return await findInInbox(sql, createVault(env['ENCRYPTION_KEY']!), tenant_id, { limit: 100 })
}

/** Does something as a person, and waits until a worker has carried it out. */
async function act(
  { sql, env, twin }: SandboxWorld,
  name: SandboxAct['act'],
  reference: string,
  text: string | null = null,
) {
  const id = newId()
  const vault = createVault(env['ENCRYPTION_KEY']!)
  await requestSandboxAct(sql, vault, twin.tenant_id, { id, act: name, reference, text })
  return await eventually(async () => {
    const end = await findActEnd(sql, twin.tenant_id, id)
    expect(end).toBeDefined()
    return end!
  })
}

describe('payments', () => {
  test('a payment is authorized and captured, and its money is in the balance of the twin', async ({
    world,
  }) => {
    const { twin } = world
    const client = await world.clientOf({ tenant: 'captures', mode: 'test' })
    const payment = await capturedPayment(client, { amount_minor: 1234 })
    expect(payment).toMatchObject({ status: 'captured', amount_captured_minor: 1234, livemode: false })
    const [intent, ...others] = await objectsOf(world, client.tenant_id, 'payment_intent')
    expect(others).toEqual([])
    expect(intent).toMatchObject({
      id: payment.processor_reference,
      status: 'succeeded',
      amount_received: 1234,
    })
    const { body: balances } = await client.get('/v1/wallet/balances')
    expect(balances).toMatchObject([{ currency: 'usd', balance_minor: 1234 }])
    expect(await objectsOf(world, twin.tenant_id, 'payment_intent')).not.toContainEqual(intent)
  })

  test('a declined card, an authentication and a cancellation end as at the processor', async ({ world }) => {
    const { twin } = world
    const declined = await createPayment(twin, { payment_method: 'pm_card_chargeDeclined' })
    expect([declined.status, declined.body.error]).toMatchObject([402, { code: 'payment_declined' }])
    const challenged = await createPayment(twin, { payment_method: 'pm_card_authenticationRequired' })
    expect(challenged.body).toMatchObject({ status: 'requires_action' })
    const { id } = await authorizedPayment(twin)
    expect((await twin.post(`/v1/payments/${id}/cancel`)).body).toMatchObject({ status: 'canceled' })
  })

  test('a request that is repeated with its key moves money once', async ({ world }) => {
    const client = await world.clientOf({ tenant: 'repeats', mode: 'test' })
    const body = { ...BY_CARD, amount_minor: 700, idempotency_key: freshKey() }
    const answers = await Promise.all(Array.from({ length: 5 }, () => client.post('/v1/payments', body)))
    await paymentIn(client, answers[0]!.body.id, 'authorized')
    expect(await objectsOf(world, client.tenant_id, 'charge')).toHaveLength(1)
  })

  test('a refund is settled, and a dispute opens after its capture by a scheduled change', async ({
    world,
  }) => {
    const { twin } = world
    const payment = await capturedPayment(twin)
    const refunded = await refund(twin, payment.id, { amount_minor: 300 })
    expect(refunded.body).toMatchObject({ status: 'succeeded', livemode: false })
    const disputed = await capturedPayment(twin, { payment_method: 'pm_card_createDispute' })
    await disputeIn(twin, disputed.id, 'needs_response')
  })

  test('a top-up and a payout are paid, and a late return of the payout arrives by schedule', async ({
    world,
  }) => {
    const client = await world.clientOf({ tenant: 'payouts', mode: 'test' })
    const { id } = (await topUp(client)).body
    await eventually(async () =>
      expect((await client.get(`/v1/wallet/top_ups/${id}`)).body).toMatchObject({ status: 'succeeded' }),
    )
    const paid = await payOut(client, await recipient(client, 'ba_success'))
    await payoutIn(client, paid.body.id, 'paid')
    const returned = await payOut(client, await recipient(client, 'ba_lateReturn'))
    const payout = await payoutIn(client, returned.body.id, 'failed')
    expect(payout.failure).toMatchObject({ code: 'account_closed' })
    await eventually(async () =>
      expect((await client.get('/v1/wallet/balances')).body).toMatchObject([{ balance_minor: 400 }]),
    )
  })

  test('a verification is a session at the sandbox', async ({ world }) => {
    const { twin } = world
    const customer = await twin.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
    const created = await twin.post('/v1/compliance/kyc', {
      subject_type: 'customer',
      subject_id: customer.body.id,
      idempotency_key: freshKey(),
    })
    expect(created.body).toMatchObject({ livemode: false, provider_reference: expect.stringMatching(/^vs_/) })
  })

  test('what the sandbox knows of a customer is the id', async ({ world }) => {
    const client = await world.clientOf({ tenant: 'persons', mode: 'test' })
    const fields = { name: 'Augusta', email: 'augusta@example.com', phone: '+4915112345678' }
    const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), ...fields })
    await capturedPayment(client, { customer_id: customer.body.id })
    const lines = await world.sql<{ line: string }[]>`
      select line::text from sandbox_records where tenant_id = ${client.tenant_id}`
    const text = lines.map(({ line }) => line).join('\n')
    expect(text).toContain(customer.body.id)
    expect(text).not.toMatch(/augusta|15112345678/i)
  })
})

describe('a person', () => {
  test('authenticates a payment, disputes it, and cannot do so twice', async ({ world }) => {
    const { twin } = world
    const { body } = await createPayment(twin, { payment_method: 'pm_card_authenticationRequired' })
    const reference = await eventually(async () => {
      const payment = (await twin.get(`/v1/payments/${body.id}`)).body
      expect(payment).toMatchObject({ status: 'requires_action' })
      return payment.processor_reference as string
    })
    const early = await act(world, 'open_dispute', reference)
    expect(early.refused).toContain('has no captured amount')
    expect(await act(world, 'pay', reference)).toEqual({ refused: null })
    await paymentIn(twin, body.id, 'authorized')
    const again = await act(world, 'pay', reference)
    expect(again.refused).toContain('it requires no authentication')
    await twin.post(`/v1/payments/${body.id}/capture`)
    await paymentIn(twin, body.id, 'captured')
    expect(await act(world, 'open_dispute', reference)).toEqual({ refused: null })
    await disputeIn(twin, body.id, 'needs_response')
  })

  test('enters a card where the payment has none, and another one after a decline', async ({ world }) => {
    const { twin } = world
    const { body } = await createPayment(twin, { payment_method: undefined })
    const { processor_reference } = await paymentIn(twin, body.id, 'requires_action')
    expect(await act(world, 'fail_payment', processor_reference)).toEqual({ refused: null })
    await eventually(async () =>
      expect((await twin.get(`/v1/payments/${body.id}`)).body.failure).toMatchObject({
        code: 'payment_declined',
      }),
    )
    expect(await act(world, 'pay', processor_reference)).toEqual({ refused: null })
    await paymentIn(twin, body.id, 'authorized')
  })

  test('fails an authentication, and returns a payout', async ({ world }) => {
    const { twin } = world
    const { body } = await createPayment(twin, { payment_method: 'pm_card_authenticationRequired' })
    const { processor_reference } = await paymentIn(twin, body.id, 'requires_action')
    expect(await act(world, 'fail_payment', processor_reference)).toEqual({ refused: null })
    await eventually(async () =>
      expect((await twin.get(`/v1/payments/${body.id}`)).body.failure).toMatchObject({
        code: 'payment_declined',
      }),
    )
    await capturedPayment(twin)
    const payout = await payOut(twin, await recipient(twin, 'ba_success'))
    const paid = await payoutIn(twin, payout.body.id, 'paid')
    expect(await act(world, 'fail_payout', paid.processor_reference)).toEqual({ refused: null })
    await payoutIn(twin, payout.body.id, 'failed')
  })
})

test('a worker without ADDRESS_KEY leaves the acts of people to others', async () => {
  const world = await createWorld({ parts: ['api'] })
  onTestFinished(() => world.close())
  const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
  const log = createLog('silent', 'test')
  const start = async (env: Record<string, string>) => {
    const worker = await startInThisProcess('worker', { ...world.env, ...env }, log)
    onTestFinished(() => worker.close())
  }
  await start({ QUEUES: 'ai', ADDRESS_KEY: '' })
  const id = newId()
  const vault = createVault(world.env['ENCRYPTION_KEY']!)
  await requestSandboxAct(world.sql, vault, twin.tenant_id, {
    id,
    act: 'pay',
    reference: 'pi_unknown',
    text: null,
  })
  // The worker looks for acts twice a second.
  await setTimeout(2_000)
  expect(await findActEnd(world.sql, twin.tenant_id, id)).toBeUndefined()
  await start({})
  await eventually(async () =>
    expect(await findActEnd(world.sql, twin.tenant_id, id)).toMatchObject({
      refused: expect.stringContaining('pi_unknown'),
    }),
  )
})

describe('two workers', () => {
  test('share the sandbox of a tenant: each payment has one charge, and each sees all of them', async ({
    world,
  }) => {
    const other = await startInThisProcess('worker', world.env, createLog('silent', 'test'))
    try {
      const client = await world.clientOf({ tenant: 'shared', mode: 'test' })
      const payments = await Promise.all(Array.from({ length: 24 }, () => capturedPayment(client)))
      const charges = await objectsOf(world, client.tenant_id, 'charge')
      const references = payments.map(({ processor_reference }) => processor_reference)
      expect(charges).toHaveLength(references.length)
      expect(new Set(charges.map(({ payment_intent }) => payment_intent))).toEqual(new Set(references))
      expect(charges.every(({ captured }) => captured)).toBe(true)
      const revisions = await world.sql<{ key: string }[]>`
        select key from sandbox_records where tenant_id = ${client.tenant_id} and kind = 'version'
        order by position`
      const numbers = revisions.map(({ key }) => Number(key))
      expect(numbers).toEqual(Array.from(numbers, (_, nth) => nth + 1))
    } finally {
      await other.close()
    }
  })
})

describe('messages', () => {
  test('an email ends in the inbox, with its texts sealed', async ({ world }) => {
    const { twin } = world
    const sent = await twin.post('/v1/messages/email', {
      idempotency_key: freshKey(),
      to: ['ada@example.com'],
      subject: 'Your order',
      text: 'It has been shipped.',
      attachments: [{ filename: 'a.txt', content_type: 'text/plain', content: 'aGVsbG8=' }],
    })
    expect(sent.body).toMatchObject({ status: 'sent', livemode: false })
    const inbox = await inboxOf(world, twin.tenant_id)
    expect(inbox).toContainEqual(
      expect.objectContaining({
        channel: 'email',
        direction: 'sent',
        reference: sent.body.provider_reference,
        to: ['ada@example.com'],
        subject: 'Your order',
        text: 'It has been shipped.',
        attachments: [{ filename: 'a.txt', content_type: 'text/plain', bytes: 5 }],
      }),
    )
    const rows = await world.sql`select sandbox_messages::text as row from sandbox_messages`
    expect(JSON.stringify(rows)).not.toMatch(/shipped|ada@example/)
  })

  test('an SMS arrives, and one to a test number is refused', async ({ world }) => {
    const { twin } = world
    const send = async (to: string) =>
      (await twin.post('/v1/messages/sms', { idempotency_key: freshKey(), to, body: 'Hello' })).body
    const sms = await send('+4915112345670')
    await eventually(async () =>
      expect((await twin.get(`/v1/messages/${sms.id}`)).body).toMatchObject({ status: 'delivered' }),
    )
    const message = (await twin.get(`/v1/messages/${sms.id}`)).body
    expect(await inboxOf(world, twin.tenant_id)).toContainEqual(
      expect.objectContaining({ channel: 'sms', reference: message.provider_reference, text: 'Hello' }),
    )
    expect(await send('+15005550009')).toMatchObject({ error: { code: 'sms_send_failed' } })
  })

  test('an answered STOP suppresses the number of the tenant, and of no live one', async ({ world }) => {
    const { twin, client } = world
    const number = '+4915112345671'
    const send = async (by: Client) =>
      (await by.post('/v1/messages/sms', { idempotency_key: freshKey(), to: number, body: 'Hello' })).body
    const sms = await send(twin)
    const message = (await twin.get(`/v1/messages/${sms.id}`)).body
    const sent = (await inboxOf(world, twin.tenant_id)).find(
      ({ reference }) => reference === message.provider_reference,
    )
    expect(await act(world, 'answer_sms', sent!.id, 'Stop.')).toEqual({ refused: null })
    await eventually(async () =>
      expect((await twin.get('/v1/messages/suppressions')).body).toMatchObject([{ reason: 'opt_out' }]),
    )
    const [received] = (await twin.get('/v1/messages?status=received')).body
    expect((await twin.get(`/v1/messages/${received.id}`)).body).toMatchObject({ body: 'Stop.' })
    expect((await client.get('/v1/messages/suppressions')).body).toEqual([])
    expect(await send(twin)).toMatchObject({ status: 'suppressed' })
  })
})

describe('AI tasks', () => {
  const run = async (client: Client, input: object, kind = 'generate') => {
    const task = { idempotency_key: freshKey(), kind, input }
    return (await client.post('/v1/ai/tasks', task, { prefer: 'wait=30' })).body
  }

  test('are answered by the rules of the sandbox', async ({ world }) => {
    const { twin } = world
    expect(await run(twin, { prompt: 'a haiku' })).toMatchObject({
      status: 'succeeded',
      livemode: false,
      output: { text: 'You said: a haiku' },
      usage: { input_tokens: 2, output_tokens: 5 },
    })
    const labels = ['praise', 'complaint']
    expect(await run(twin, { text: 'a complaint', labels }, 'classify')).toMatchObject({
      output: { label: 'complaint' },
    })
    expect(await run(twin, { prompt: '[[refuse]]' })).toMatchObject({ failure: { code: 'ai_refused' } })
    expect(await run(twin, { prompt: '[[429]]' })).toMatchObject({ status: 'succeeded' })
  })
})

test('no emulator was called for a twin', async ({ world }) => {
  for (const name of ['stripe', 'twilio'] as const)
    expect([name, await world.provider(name).effects()]).toEqual([name, []])
})
