// The error catalogue: a request provokes each code, each code has its status and its shape, and its route documents
// the code.
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { ERRORS, type ErrorCode } from '#core/errors.ts'
import type { Stoppable } from '#core/run.ts'
import { createApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { startWorker } from '#workers/main.ts'
import { createClient, freshKey, type Client } from '#test/client.ts'
import { createDatabase } from '#test/databases.ts'
import { readDocument, routesOf } from '#test/documentation.ts'
import { testActor } from '#test/environment.ts'
import { ASYNC, capturedPayment, createPayment, fault, authorizedPayment, refund } from '#test/payments.ts'
import { signedInAs } from '#test/people.ts'
import { decide, verificationOf, startVerification } from '#test/verifications.ts'
import { fund, payOut, recipient } from '#test/payouts.ts'
import { startProxy } from '#test/proxy.ts'
import { requestBytes, sendBytes } from '#test/raw.ts'
import { expiredDelivery } from '#test/webhook-deliveries.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

const ANY_KEY = { name: 'Shop', scopes: ['events:read'] }
const UNKNOWN_ID = '0198f6f0-1234-7000-8000-123456789abc'

type ErrorAnswer = { status: number; body: any; headers: { get(name: string): string | null | undefined } }
/**
 * The route on which a request provokes a code (null: before any route), the request, and fields of the expected error.
 */
type Provocation = [
  route: string | null,
  provoke: (world: World) => Promise<ErrorAnswer>,
  expected?: Record<string, unknown>,
]

let documented: Map<string, string[]>
const closers: (() => Promise<unknown>)[] = []

const test = testIn({ parts: ['api', 'webhooks', 'worker', 'dashboard'] })
test.beforeAll(async ({ client }) => {
  const routes = routesOf(await readDocument(client))
  documented = new Map(routes.map(({ method, path, codes }) => [`${method} ${path}`, codes]))
})
afterAll(async () => {
  for (const close of closers.toReversed()) await close()
})

/** The id of a paid payout. The payout is a transfer, which is paid at once. */
async function paidPayout(client: Client): Promise<string> {
  await fund(client, 100)
  const { body } = await payOut(client, await recipient(client, 'acct_success'), {}, { prefer: 'wait=20' })
  expect(body.status).toBe('paid')
  return body.id
}

const createTemplate = (client: Client, fields: object = {}) =>
  client.post('/v1/messages/templates', { name: 'greeting', channel: 'sms', body: 'Hello', ...fields })

const createEndpoint = (client: Client) =>
  client.post('/v1/webhook_endpoints', { url: 'https://shop.example/webhooks', types: ['payout.paid'] })

/** One provocation per code: a missing code is a type error. */
const PROVOCATIONS: Record<ErrorCode, Provocation> = {
  invalid_request: [
    'POST /v1/customers',
    ({ client }) => client.post('/v1/customers', { idempotency_key: freshKey(), name: 17, nope: true }),
    {
      param: 'name',
      details: [
        { param: 'name', message: 'must be text' },
        { param: 'nope', message: 'is not known' },
      ],
    },
  ],
  unauthorized: ['GET /v1/customers', ({ client }) => createClient(client.url, '').get('/v1/customers')],
  payment_declined: [
    'POST /v1/payments',
    ({ client }) => createPayment(client, { payment_method: 'pm_card_chargeDeclinedInsufficientFunds' }),
    {
      message: 'Your card has insufficient funds.',
      context: {
        decline_code: 'insufficient_funds',
        processor_code: 'card_declined',
        payment_id: expect.any(String),
      },
    },
  ],
  missing_scope: [
    'POST /v1/customers',
    async (world) => (await world.clientOf({ scopes: [] })).post('/v1/customers', {}),
    { message: 'Missing scope: customer:write', context: { scope: 'customer:write' } },
  ],
  forbidden: [
    null,
    async (world) => (await signedInAs(world, { role: 'support' })).post('/api/keys', ANY_KEY),
    { context: { act: 'keys.manage', role: 'support', roles: ['owner', 'admin', 'developer'] } },
  ],
  test_mode_only: ['GET /v1/test_clock', ({ client }) => client.get('/v1/test_clock')],
  test_clock_ahead: [
    'POST /v1/test_clock',
    async (world) =>
      (await world.clientOf({ mode: 'test' })).post('/v1/test_clock', { advance_to: '2026-01-01T00:00:00Z' }),
    { context: { now: expect.any(String), advance_to: null } },
  ],
  not_found: [
    null,
    async (world) => (await signedInAs(world, { role: 'developer' })).post(`/api/keys/${UNKNOWN_ID}/revoke`),
  ],
  conflict: [
    null,
    async (world) => {
      const owner = await signedInAs(world, { role: 'owner' })
      return await owner.post('/api/members/invitations', { email: owner.email, role: 'support' })
    },
    { param: 'email' },
  ],
  route_not_found: [
    null,
    ({ client }) => client.get('/v1/nope?x=1'),
    { message: 'There is no route GET /v1/nope.' },
  ],
  customer_not_found: [
    'POST /v1/payments',
    ({ client }) => createPayment(client, { customer_id: UNKNOWN_ID }),
    { param: 'customer_id' },
  ],
  recipient_not_found: [
    'GET /v1/recipients/{id}',
    ({ client }) => client.get(`/v1/recipients/${UNKNOWN_ID}`),
  ],
  merchant_not_found: [
    'POST /v1/payments',
    ({ client }) => createPayment(client, { merchant_id: UNKNOWN_ID }),
    { param: 'merchant_id' },
  ],
  payment_not_found: [
    'POST /v1/payments/{id}/capture',
    ({ client }) => client.post(`/v1/payments/${UNKNOWN_ID}/capture`),
  ],
  refund_not_found: ['GET /v1/refunds/{id}', ({ client }) => client.get(`/v1/refunds/${UNKNOWN_ID}`)],
  dispute_not_found: ['GET /v1/disputes/{id}', ({ client }) => client.get(`/v1/disputes/${UNKNOWN_ID}`)],
  payout_not_found: ['GET /v1/payouts/{id}', ({ client }) => client.get(`/v1/payouts/${UNKNOWN_ID}`)],
  event_not_found: ['GET /v1/events/{id}', ({ client }) => client.get(`/v1/events/${UNKNOWN_ID}`)],
  payout_not_cancelable: [
    'POST /v1/payouts/{id}/cancel',
    async ({ client }) => client.post(`/v1/payouts/${await paidPayout(client)}/cancel`),
    { message: 'The payout cannot be canceled: it is paid.', context: { status: 'paid' } },
  ],
  payout_not_failable: [
    'POST /v1/payouts/{id}/fail',
    async ({ client }) => client.post(`/v1/payouts/${await paidPayout(client)}/fail`, { reason: 'late' }),
    { message: 'The payout cannot be failed: it is paid.', context: { status: 'paid' } },
  ],
  payout_invalid: [
    'POST /v1/payouts',
    async ({ client }) => payOut(client, await recipient(client), { currency: 'eur' }),
    { param: 'currency', message: 'The recipient is not paid in eur.' },
  ],
  insufficient_balance: [
    'POST /v1/payouts',
    async ({ client }) =>
      payOut(client, await recipient(client, 'ba_success', { currency: 'chf' }), { currency: 'chf' }),
    {
      param: 'amount_minor',
      message: 'CHF 1.00 is more than the CHF 0.00 that is available.',
      context: { available_minor: 0, requested_minor: 100, currency: 'chf' },
    },
  ],
  payout_refused: [
    'POST /v1/payouts',
    async ({ client }) => {
      await fund(client, 100)
      return await payOut(client, await recipient(client, 'ba_refused'), {}, { prefer: 'wait=20' })
    },
    { context: { processor_code: 'bank_account_unusable', payout_id: expect.any(String) } },
  ],
  top_up_not_found: [
    'GET /v1/wallet/top_ups/{id}',
    ({ client }) => client.get(`/v1/wallet/top_ups/${UNKNOWN_ID}`),
  ],
  kyc_not_found: [
    'GET /v1/compliance/kyc/{id}',
    ({ client }) => client.get(`/v1/compliance/kyc/${UNKNOWN_ID}`),
  ],
  kyc_open: [
    'POST /v1/compliance/kyc',
    async ({ client }) => {
      const { subject_id, subject_type } = await verificationOf(client)
      return await startVerification(client, { subject_type, subject_id })
    },
    { param: 'subject_id', context: { kyc_id: expect.any(String) } },
  ],
  kyc_outdated: [
    'POST /v1/compliance/kyc/{id}/decide',
    async ({ client, sql }) => {
      const { id } = await verificationOf(client)
      await sql`update verifications set outdated = true where id = ${id}`
      return await decide(client, id, 'approved')
    },
    { context: { status: 'requires_input' } },
  ],
  kyc_already_decided: [
    'POST /v1/compliance/kyc/{id}/decide',
    async ({ client }) => {
      const { id } = await verificationOf(client)
      await decide(client, id, 'approved')
      return await decide(client, id, 'rejected')
    },
    {
      message: 'The verification was already decided manually: it is approved.',
      context: { status: 'approved' },
    },
  ],
  kyc_not_linkable: [
    'POST /v1/compliance/kyc/{id}/link',
    async (world) => {
      const { id, provider_reference } = await verificationOf(world.client)
      await world
        .provider('stripe')
        .control('POST', `/identity/${provider_reference}/settle`, { status: 'processing' })
      return await world.client.post(`/v1/compliance/kyc/${id}/link`)
    },
    { message: 'There is no link: the verification is processing.' },
  ],
  kyc_invalid: [
    'POST /v1/compliance/kyc',
    async ({ client }) => {
      const subject_id = await recipient(client)
      await client.delete(`/v1/recipients/${subject_id}`)
      return await startVerification(client, { subject_type: 'recipient', subject_id })
    },
    { param: 'subject_id', message: 'The recipient is archived.' },
  ],
  kyc_refused: [
    'POST /v1/compliance/kyc',
    async (world) => {
      await fault(world, { match: { path: '/verification_sessions$' }, fault: 'refuse_400' })
      const { body } = await world.client.post('/v1/customers', { idempotency_key: freshKey() })
      return await startVerification(world.client, { subject_id: body.id })
    },
    { context: { kyc_id: expect.any(String) } },
  ],
  ai_task_not_found: [
    'POST /v1/ai/tasks/{id}/cancel',
    ({ client }) => client.post(`/v1/ai/tasks/${UNKNOWN_ID}/cancel`),
  ],
  ai_task_not_cancelable: [
    'POST /v1/ai/tasks/{id}/cancel',
    async ({ client }) => {
      const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'A haiku.' } }
      const { id } = (await client.post('/v1/ai/tasks', task, { prefer: 'wait=30' })).body
      return client.post(`/v1/ai/tasks/${id}/cancel`)
    },
    {
      message: 'The AI task cannot be canceled: it is succeeded.',
      context: { status: 'succeeded' },
    },
  ],
  template_invalid: [
    'POST /v1/messages/templates',
    ({ client }) => createTemplate(client, { body: 'Hello\n{{ name' }),
    { param: 'body', context: { line: 2, variable: null } },
  ],
  template_exists: [
    'POST /v1/messages/templates',
    async ({ client }) => {
      await createTemplate(client)
      return await createTemplate(client)
    },
    { param: 'name' },
  ],
  template_not_found: [
    'POST /v1/messages/templates/{id}/preview',
    ({ client }) => client.post(`/v1/messages/templates/${UNKNOWN_ID}/preview`, {}),
  ],
  suppression_not_found: [
    'DELETE /v1/messages/suppressions/{id}',
    ({ client }) => client.delete(`/v1/messages/suppressions/${UNKNOWN_ID}`),
  ],
  webhook_endpoint_not_found: [
    'POST /v1/webhook_endpoints/{id}/test',
    ({ client }) => client.post(`/v1/webhook_endpoints/${UNKNOWN_ID}/test`),
  ],
  webhook_delivery_not_found: [
    'GET /v1/webhook_deliveries/{id}',
    ({ client }) => client.get(`/v1/webhook_deliveries/${UNKNOWN_ID}`),
  ],
  webhook_recovery_not_found: [
    'GET /v1/webhook_recoveries/{id}',
    ({ client }) => client.get(`/v1/webhook_recoveries/${UNKNOWN_ID}`),
  ],
  // The event of the delivery is erased.
  event_expired: [
    'POST /v1/webhook_deliveries/{id}/replay',
    async (world) => {
      const endpoint = (await createEndpoint(world.client)).body
      const delivery_id = await expiredDelivery(world.sql, endpoint)
      return await world.client.post(`/v1/webhook_deliveries/${delivery_id}/replay`)
    },
  ],
  feed_restarted: [
    'GET /v1/events',
    ({ client }) => client.get(`/v1/events?after=${Number.MAX_SAFE_INTEGER}`),
    { context: { last_sequence_before: expect.any(Number), next_sequence: expect.any(Number) } },
  ],
  recovery_in_progress: [
    'POST /v1/webhook_endpoints/{id}/recover',
    async ({ client }) => {
      const path = `/v1/webhook_endpoints/${(await createEndpoint(client)).body.id}/recover`
      // The five requests are concurrent, so the worker cannot complete the recovery between them.
      const requests = Array.from({ length: 5 }, () => client.post(path, { since: '2026-01-01T00:00:00Z' }))
      return (await Promise.all(requests)).find(({ status }) => status === 409)!
    },
    { context: { webhook_recovery_id: expect.any(String) } },
  ],
  too_many_webhook_endpoints: [
    'POST /v1/webhook_endpoints',
    async (world) => {
      const other_client = await world.clientOf()
      for (let nth = 0; nth < 20; nth++) await createEndpoint(other_client)
      return await createEndpoint(other_client)
    },
    { context: { most: 20 } },
  ],
  email_send_failed: [
    'POST /v1/messages/email',
    ({ client }) =>
      client.post('/v1/messages/email', {
        idempotency_key: freshKey(),
        to: ['ada@bounce.example'],
        subject: 'Shipped',
        text: 'It is on its way.',
      }),
    {
      context: {
        message_id: expect.any(String),
        provider_code: '550 5.1.1',
        provider_message: 'No such mailbox',
      },
    },
  ],
  sms_send_failed: [
    'POST /v1/messages/sms',
    ({ client }) =>
      client.post('/v1/messages/sms', {
        idempotency_key: freshKey(),
        to: '+15005550001',
        body: 'It is on its way.',
      }),
    {
      context: {
        message_id: expect.any(String),
        provider_code: '21211',
        provider_message: expect.any(String),
      },
    },
  ],
  message_not_found: ['GET /v1/messages/{id}', ({ client }) => client.get(`/v1/messages/${UNKNOWN_ID}`)],
  message_not_cancelable: [
    'POST /v1/messages/{id}/cancel',
    async ({ client }) => {
      const text = { to: ['ada@example.com'], subject: 'Shipped', text: 'It is on its way.' }
      const { id } = (
        await client.post(
          '/v1/messages/email',
          { idempotency_key: freshKey(), send_at: new Date(Date.now() + 86_400_000), ...text },
          ASYNC,
        )
      ).body
      await client.post(`/v1/messages/${id}/cancel`)
      return client.post(`/v1/messages/${id}/cancel`)
    },
    { message: 'The message cannot be canceled: it is canceled.', context: { status: 'canceled' } },
  ],
  destination_not_allowed: [
    'POST /v1/messages/sms',
    async (world) =>
      createClient(await startedApi(world, { SMS_COUNTRIES: ['FR'] }), world.client.key).post(
        '/v1/messages/sms',
        {
          idempotency_key: freshKey(),
          to: '+4915112345678',
          body: 'It is on its way.',
        },
      ),
    { param: 'to', context: { country: 'DE' } },
  ],
  idempotency_key_not_found: [
    'GET /v1/idempotency_keys/{key}',
    ({ client }) => client.get('/v1/idempotency_keys/nobody'),
  ],
  payment_not_capturable: [
    'POST /v1/payments/{id}/capture',
    async ({ client }) => client.post(`/v1/payments/${(await capturedPayment(client)).id}/capture`),
    {
      message: 'The payment cannot be captured: USD 10.00 is already captured.',
      context: { status: 'captured' },
    },
  ],
  payment_not_cancelable: [
    'POST /v1/payments/{id}/cancel',
    async ({ client }) => client.post(`/v1/payments/${(await capturedPayment(client)).id}/cancel`),
    { message: 'The payment cannot be canceled: it is captured.', context: { status: 'captured' } },
  ],
  payment_not_refundable: [
    'POST /v1/payments/{id}/refunds',
    async ({ client }) => refund(client, (await authorizedPayment(client)).id),
    { message: 'The payment cannot be refunded: it is authorized.', context: { status: 'authorized' } },
  ],
  request_timeout: [
    null,
    async (world) => {
      const url = await startedApi(world, { REQUEST_TIMEOUT_MS: 600 })
      const headers = {
        authorization: `Bearer ${world.client.key}`,
        'content-type': 'application/json',
        'content-length': '99',
      }
      return await sendBytes(url, requestBytes('POST', '/v1/customers', headers, '{'))
    },
  ],
  payload_too_large: [
    'POST /v1/customers',
    ({ client }) => client.post('/v1/customers', { name: 'x'.repeat(300 * 1024) }),
    { message: expect.stringContaining('262144 bytes') },
  ],
  unsupported_media_type: [
    'POST /v1/customers',
    ({ client }) =>
      client.send('POST', '/v1/customers', { body: 'a=1', headers: { 'content-type': 'text/plain' } }),
  ],
  idempotency_key_reused: [
    'POST /v1/customers',
    async ({ client }) => {
      const idempotency_key = freshKey()
      await client.post('/v1/customers', { idempotency_key })
      return await client.post('/v1/customers', { idempotency_key, name: 'other' })
    },
    { param: 'idempotency_key' },
  ],
  amount_too_large: [
    'POST /v1/payments/{id}/capture',
    async ({ client }) =>
      client.post(`/v1/payments/${(await authorizedPayment(client)).id}/capture`, { amount_minor: 1001 }),
    {
      param: 'amount_minor',
      context: { requested_minor: 1001, amount_capturable_minor: 1000, currency: 'USD' },
    },
  ],
  refund_exceeds_captured: [
    'POST /v1/payments/{id}/refunds',
    async ({ client }) => refund(client, (await capturedPayment(client)).id, { amount_minor: 1001 }),
    {
      param: 'amount_minor',
      context: {
        requested_minor: 1001,
        amount_captured_minor: 1000,
        amount_refunded_minor: 0,
        amount_refund_pending_minor: 0,
        currency: 'USD',
      },
    },
  ],
  payment_invalid: [
    'POST /v1/payments',
    ({ client }) => createPayment(client, { currency: 'KWD', amount_minor: 1001 }),
    {
      param: 'amount_minor',
      message: 'Amounts in KWD must end in 0: they are settled in steps of KWD 0.010.',
    },
  ],
  rate_limited: [
    'GET /v1/customers',
    async (world) => {
      const limited = createClient(
        await startedApi(world, { RATE_LIMIT_RPS: 1, RATE_LIMIT_BURST: 1 }),
        world.client.key,
      )
      const answers = await Promise.all(Array.from({ length: 20 }, () => limited.get('/v1/customers')))
      return answers.find(({ status }) => status === 429)!
    },
  ],
  headers_too_large: [
    null,
    ({ client }) =>
      sendBytes(client.url, requestBytes('GET', '/v1/customers', { 'x-long': 'x'.repeat(70_000) })),
  ],
  internal_error: [
    'GET /v1/customers',
    async (world) => {
      const database = await createDatabase()
      closers.push(database.drop)
      const sql = connectDatabase(database.url, { max: 1, application_name: 'test' })
      const tenant = await ensureTenant(sql, 'broken')
      const params = { name: 'x', scopes: [...SCOPES], expires_at: null }
      const { secret } = await createApiKey(sql, tenant, params, testActor(tenant.id))
      await sql`alter table customers rename to secret_customers`
      await sql.end()
      return await createClient(await startedApi(world, { DATABASE_URL: database.url }), secret).get(
        '/v1/customers',
      )
    },
  ],
  misconfigured_gateway: [
    'GET /v1/payments',
    async (world) =>
      createClient(await startedApi(world, { DISABLED_AREAS: ['payments'] }), world.client.key).get(
        '/v1/payments',
      ),
    { context: { area: 'payments' } },
  ],
  // The processor is unreachable for more than a day.
  processor_error: [
    'POST /v1/payments',
    async () => {
      const offline = await createWorld({ parts: ['api'] })
      closers.push(() => offline.close())
      const idempotency_key = freshKey()
      await createPayment(offline.client, { idempotency_key }, ASYNC)
      await offline.sql`
        update jobs set refused_since = now() - interval '25 hours' where tenant_id = ${offline.tenant_id}`
      const worker = await startWorker({ ...offline.config, STRIPE_API_BASE: 'http://127.0.0.1:9' }, silent())
      closers.push(() => worker.close())
      return await createPayment(offline.client, { idempotency_key }, { prefer: 'wait=30' })
    },
    { message: 'The payment processor could not be reached.', context: { payment_id: expect.any(String) } },
  ],
  // The server runs in this process: while the test computes, the server answers no request.
  overloaded: [
    'GET /v1/customers',
    async ({ client }) => {
      for (let i = 0; i < 5; i++) {
        for (let blocks = 0; blocks < 3; blocks++) {
          for (const start = performance.now(); performance.now() - start < 1_500;);
          await new Promise((resolve) => setImmediate(resolve))
        }
        const answer = await client.get('/v1/customers')
        if (answer.status !== 200) return answer
      }
      throw new Error('the server was never overloaded')
    },
  ],
  timeout: [
    'GET /v1/customers/{id}',
    async (world) => {
      const proxy = await startProxy(world.config.DATABASE_URL!)
      onTestFinished(() => proxy.close())
      const slow = createClient(await startedApi(world, { DATABASE_URL: proxy.url }), world.client.key)
      proxy.swallow('customers')
      return await slow.get(`/v1/customers/${UNKNOWN_ID}`)
    },
  ],
  database_unavailable: [
    'GET /v1/customers',
    async (world) => {
      const proxy = await startProxy(world.config.DATABASE_URL!)
      const cut = createClient(await startedApi(world, { DATABASE_URL: proxy.url }), world.client.key)
      expect((await cut.get('/v1/customers')).status).toBe(200)
      await proxy.close()
      return await cut.get('/v1/customers')
    },
  ],
}

describe.each(Object.keys(ERRORS) as ErrorCode[])('%s', (code) => {
  test('has its documented status and shape', async ({ world }) => {
    const [route, provoke, expected = {}] = PROVOCATIONS[code]
    const { status, body, headers } = await provoke(world)
    const [documentedStatus] = ERRORS[code]
    expect([status, body?.error?.code]).toEqual([documentedStatus, code])
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(Object.keys(body)).toEqual(['error'])
    expect(body.error).toMatchObject(expected)
    expect(body.error.message).toMatch(/\w/)
    const fields = ['code', 'message', 'param', 'details', 'context', 'request_id', 'doc_url']
    expect(Object.keys(body.error).filter((field) => !fields.includes(field))).toEqual([])
    expect(body.error.request_id).toBe(headers.get('x-request-id'))
    expect(body.error.doc_url).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:\\d+/docs/guides/errors#${code}$`))
    const retry_after = headers.get('retry-after')
    expect(retry_after === null || retry_after === undefined).toBe(![429, 503].includes(status))
    expect(retry_after ?? '1').toMatch(/^[1-9]\d*$/)
    expect(JSON.stringify(body)).not.toMatch(/secret|relation|node_modules|at \w+ \(/)
    const documented_codes = route === null ? [code] : documented.get(route)
    expect([route, documented_codes]).toEqual([route, expect.arrayContaining([code])])
  })
})

test('the documentation explains every error code', async ({ client }) => {
  const { info } = await readDocument(client)
  for (const [code, [status, message]] of Object.entries(ERRORS))
    expect(info.description).toContain(`- **${status}** \`${code}\`: ${message}`)
})

function silent() {
  return createLog('silent', 'test')
}

async function startedApi(world: World, changes: Partial<World['config']>): Promise<string> {
  const api: Stoppable & { url: string } = await startApi({ ...world.config, ...changes }, silent())
  closers.push(() => api.close())
  return api.url
}
