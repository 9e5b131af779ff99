// The OpenAPI document is complete and matches the routes, their responses and the events.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { ERRORS } from '#core/errors.ts'
import { originOfLinks } from '#core/startup.ts'
import { exampleOfEvent } from '#api/openapi/events.ts'
import { SCOPES } from '#domain/areas.ts'
import { EVENTS, type EventType } from '#domain/events.ts'
import { signStripe } from '#emulators/stripe/main.ts'
import { BY_CARD, createClient, freshKey, type Client } from '#test/client.ts'
import { readDocument, routesOf, schemaOf, type DocumentedRoute } from '#test/documentation.ts'
import { verificationOf } from '#test/verifications.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import {
  capturedPayment,
  createPayment,
  drift,
  eventually,
  fault,
  authorizedPayment,
  refund,
} from '#test/payments.ts'
import { memoryInUse } from '#test/raw.ts'
import { disputedPayment, disputeIn } from '#test/disputes.ts'
import { fund, payOut, recipient as recipientOf } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { deliveryTo } from '#test/webhook-deliveries.ts'
import { testIn, type World } from '#test/world.ts'

let document: any
let routes: DocumentedRoute[]

const test = testIn({ env: { API_URL: 'https://api.example.com/' } })
test.beforeAll(async ({ world }) => {
  document = await readDocument(world.client)
  routes = routesOf(document)
})

const INTERFACE = [
  'DELETE /v1/customers/{id}',
  'GET /v1/customers',
  'GET /v1/customers/{id}',
  'GET /v1/idempotency_keys/{key}',
  'GET /v1/payments',
  'GET /v1/payments/{id}',
  'GET /v1/payments/{id}/refunds',
  'GET /v1/payments/{id}/timeline',
  'GET /v1/reconciliation',
  'GET /v1/refunds/{id}',
  'PATCH /v1/customers/{id}',
  'POST /v1/customers',
  'POST /v1/payments',
  'POST /v1/payments/{id}/cancel',
  'POST /v1/payments/{id}/capture',
  'POST /v1/payments/{id}/refunds',
]

/** A route for keys of test mode. */
const TEST_CLOCK = '/v1/test_clock'
/** The schemas of create requests that need no idempotency key. */
const KEYLESS = ['CreateMessageTemplate', 'CreateSuppression', 'CreateWebhookEndpoint']

test('the document is a valid OpenAPI 3.1 document', () => {
  const operation = z.object({
    summary: z.string().min(1),
    description: z.string().min(1),
    tags: z.array(z.string()).min(1),
    security: z.array(z.object({ api_key: z.array(z.string()) })).length(1),
    operationId: z.string().regex(/^[a-z]+[A-Za-z]+$/),
    parameters: z.array(
      z.union([
        z.strictObject({ $ref: z.string().startsWith('#/components/parameters/') }),
        z.object({
          name: z.string(),
          in: z.enum(['path', 'query']),
          description: z.string(),
          required: z.boolean(),
          schema: z.looseObject({}),
        }),
      ]),
    ),
    requestBody: z
      .looseObject({
        required: z.boolean(),
        content: z.object({
          'application/json': z.looseObject({
            schema: z.strictObject({ $ref: z.string() }),
            examples: z.record(z.string(), z.object({ summary: z.string(), value: z.looseObject({}) })),
          }),
        }),
      })
      .optional(),
    responses: z.record(
      z.string().regex(/^[2-5]\d\d$/),
      z.looseObject({
        description: z.string(),
        headers: z.record(z.string(), z.strictObject({ $ref: z.string() })),
        content: z.object({ 'application/json': z.looseObject({ schema: z.looseObject({}) }) }),
      }),
    ),
  })
  const whole = z.looseObject({
    openapi: z.string().regex(/^3\.1\.\d$/),
    info: z.looseObject({ title: z.string(), version: z.string(), description: z.string() }),
    servers: z.tuple([z.looseObject({ url: z.literal('https://api.example.com') })]),
    tags: z.array(z.object({ name: z.string(), description: z.string() })),
    paths: z.record(
      z.string().startsWith('/v1/'),
      z.partialRecord(z.enum(['get', 'post', 'patch', 'put', 'delete']), operation.loose()),
    ),
    components: z.looseObject({
      schemas: z.record(z.string(), z.looseObject({})),
      securitySchemes: z.object({
        api_key: z.looseObject({ type: z.literal('http'), scheme: z.literal('bearer') }),
      }),
    }),
  })
  expect(whole.safeParse(document).error?.issues).toBeUndefined()
})

test('the document, the package and the changelog have the same version', async () => {
  const read = (file: string) => readFile(new URL(`../${file}`, import.meta.url), 'utf8')
  const { version } = JSON.parse(await read('package.json'))
  const [, logged] = /^## (\d\S*)/m.exec(await read('CHANGELOG.md'))!
  expect([document.info.version, logged]).toEqual([version, version])
})

test('every reference in the document has a target, and every path parameter and tag is declared', () => {
  const references = Array.from(
    JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g),
    ([, path]) => path!,
  )
  expect(references.length).toBeGreaterThan(0)
  for (const path of references) {
    const target = path.split('/').reduce((value: any, name) => value?.[name], document)
    expect([path, target !== undefined]).toEqual([path, true])
  }
  const tags = document.tags.map(({ name }: { name: string }) => name)
  for (const { path, operation } of routes) {
    const declared = (operation.parameters ?? [])
      .filter((each: any) => each.in === 'path')
      .map(({ name }: any) => name)
    expect([path, declared]).toEqual([path, Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name)])
    for (const tag of operation.tags) expect(tags).toContain(tag)
  }
  for (const { post } of Object.values<any>(document.webhooks)) expect(tags).toContain(post.tags[0])
})

test('every field and parameter has a description and an example, and every schema has a name', () => {
  const { schemas } = document.components
  const missing: string[] = []
  const check = (path: string, schema: any) => {
    const named = schema.$ref && schemas[schema.$ref.split('/').at(-1)]
    const { description, type, properties, items, examples, enum: values } = { ...named, ...schema }
    const scalar = properties === undefined && items === undefined && schema.anyOf === undefined
    if (description === undefined && items === undefined) missing.push(`${path}: no description`)
    if (scalar && (examples ?? values) === undefined && type !== undefined)
      missing.push(`${path}: no example`)
    for (const [name, inner] of Object.entries<any>(schema.properties ?? {})) {
      check(`${path}.${name}`, inner)
      if (inner.properties !== undefined) missing.push(`${path}.${name}: no name`)
    }
    if (items?.properties !== undefined) missing.push(`${path}[]: no name`)
  }
  for (const [name, schema] of Object.entries<any>(schemas)) check(name, schema)
  for (const { method, path, operation } of routes) {
    for (const { name, description, schema } of operation.parameters)
      if (schema !== undefined) check(`${method} ${path} ${name}`, { ...schema, description })
    for (const [status, { content }] of Object.entries<any>(operation.responses)) {
      const { schema } = content['application/json']
      if ((schema.$ref ?? schema.items?.$ref) === undefined)
        missing.push(`${method} ${path} ${status}: no name`)
    }
  }
  expect(missing).toEqual([])
  expect(new Set(routes.map(({ operation }) => operation.operationId)).size).toBe(routes.length)
})

test('parameters have their exact types, and response schemas permit new fields', () => {
  const typesOf = (path: string) =>
    Object.fromEntries(
      routes
        .find((route) => route.method === 'GET' && route.path === path)!
        .operation.parameters.filter(({ schema }: any) => schema !== undefined)
        .map(({ name, schema, style, explode }: any) => [
          name,
          schema.format ?? style ?? schema.$ref?.split('/').at(-1) ?? schema.type,
          explode,
        ]),
    )
  expect(typesOf('/v1/payments')).toEqual({
    amount_max: 'int64',
    amount_min: 'int64',
    before: 'date-time',
    capture_before_to: 'date-time',
    created_from: 'date-time',
    created_to: 'date-time',
    currency: 'string',
    customer_id: 'uuid',
    limit: 'int32',
    merchant_id: 'uuid',
    metadata: 'deepObject',
    processor_reference: 'string',
    status: 'PaymentStatus',
  })
  expect(typesOf('/v1/customers')).toMatchObject({ deleted: 'boolean', limit: 'int32' })
  expect(
    document.components.schemas.AiTask.properties.output.anyOf.map((each: any) => each.$ref ?? each.type),
  ).toEqual([
    ...['Generate', 'Classify', 'Extract'].map((kind) => `#/components/schemas/${kind}Output`),
    'null',
  ])
  const answered = new Set(
    routes.flatMap(({ operation }) =>
      Array.from(JSON.stringify(operation.responses).matchAll(/schemas\/(\w+)/g), ([, name]) => name!),
    ),
  )
  expect(answered.size).toBeGreaterThan(5)
  for (const name of answered)
    expect([name, document.components.schemas[name].additionalProperties]).toEqual([name, undefined])
})

test('routes declare their headers for idempotency keys, waiting and paging, and their optional bodies', () => {
  const facts = Object.fromEntries(
    routes.map(({ operation }) => {
      const success = operation.responses[201] ?? operation.responses[200] ?? operation.responses[202]
      const names = (refs: any[]) =>
        refs.flatMap(({ $ref }) => ($ref === undefined ? [] : [$ref.split('/').at(-1)]))
      return [
        operation.operationId,
        {
          sent: names(operation.parameters),
          answered: names(Object.values(success.headers)).filter((name) => !/^(XReq|Rate)/.test(name)),
          body: operation.requestBody?.required,
        },
      ]
    }),
  )
  expect(facts).toMatchObject({
    createCustomer: { sent: ['XRequestId', 'IdempotencyKey'], answered: ['IdempotentReplayed'], body: true },
    listCustomers: { sent: ['XRequestId'], answered: ['Link'] },
    updateCustomer: { sent: ['XRequestId'], answered: [], body: false },
    createPayment: {
      sent: ['XRequestId', 'IdempotencyKey', 'Prefer'],
      answered: ['PreferenceApplied', 'IdempotentReplayed'],
      body: true,
    },
    capturePayment: { sent: ['XRequestId', 'IdempotencyKey', 'Prefer'], body: false },
    cancelPayment: { sent: ['XRequestId', 'IdempotencyKey', 'Prefer'], body: false },
    createRefund: { sent: ['XRequestId', 'IdempotencyKey', 'Prefer'], body: true },
  })
  // Lists with pages declare the Link header.
  expect(facts).toMatchObject({
    listRefunds: { answered: ['Link'] },
    getIdempotencyKey: { answered: ['Link'] },
  })
  const keys = ['CreateCustomer', 'CreatePayment', 'CapturePayment', 'CancelPayment', 'CreateRefund'].map(
    (name) => document.components.schemas[name].properties.idempotency_key,
  )
  expect(keys.map(({ examples }) => examples[0])).toEqual([
    'order-17-customer',
    'order-17-payment',
    'order-17-capture',
    'order-17-cancel',
    'order-17-refund-1',
  ])
  const { responses } = routes.find(({ operation }) => operation.operationId === 'createPayment')!.operation
  expect(Object.keys(responses[202].headers)).toContain('Location')
  for (const status of [429, 503]) expect(Object.keys(responses[status].headers)).toContain('Retry-After')
  const creates = Object.entries<any>(document.components.schemas).filter(
    ([name]) => name.startsWith('Create') && !KEYLESS.includes(name),
  )
  expect(creates.length).toBeGreaterThan(2)
  for (const [name, { required }] of creates)
    expect([name, required]).toEqual([name, expect.arrayContaining(['idempotency_key'])])
})

test('every list has filters for the time of creation', () => {
  const lists = routes.filter(
    ({ operation }) => operation.responses[200]?.content['application/json'].schema.type === 'array',
  )
  expect(lists.length).toBeGreaterThan(6)
  for (const { path, operation } of lists) {
    // Timelines, balances, responses to batches and the events of one payment have no such filters.
    if (/\/(timeline|balances|batch|\{id\}\/events)$/.test(path)) continue
    const names = operation.parameters.map(({ name }: { name?: string }) => name)
    // The feed is read forward, other lists backward.
    const cursor = path === '/v1/events' ? 'after' : 'before'
    expect([path, names]).toEqual([
      path,
      expect.arrayContaining([cursor, 'limit', 'created_from', 'created_to']),
    ])
  }
})

test('created_from is inclusive and created_to is exclusive in all lists', async ({ world }) => {
  const client = await world.clientOf()
  const idempotency_key = freshKey()
  await client.post('/v1/customers', { idempotency_key })
  const payment = await capturedPayment(client)
  for (const amount_minor of [1, 2]) await refund(client, payment.id, { amount_minor })
  await drift({ ...world, tenant_id: client.tenant_id }, payment.id)
  for (const [path, count] of [
    ['/v1/customers', 1],
    [`/v1/payments/${payment.id}/refunds`, 2],
    ['/v1/reconciliation', 1],
    [`/v1/idempotency_keys/${idempotency_key}`, 1],
  ] as const) {
    // The age of a drift grows between two responses.
    const list = async (query: string) =>
      (await client.get(`${path}${query}`)).body.map(({ age_s: _age_s, ...item }: any) => item)
    const all = await list('')
    expect([path, all.length]).toEqual([path, count])
    const [newest, oldest] = [all[0].created_at, all.at(-1).created_at]
    const found = (query: string) => list(`?${query}`)
    expect([path, await found(`created_from=${newest}`)]).toEqual([path, all.slice(0, 1)])
    expect([path, await found(`created_to=${newest}`)]).toEqual([path, all.slice(1)])
    expect([path, await found(`created_to=${oldest}`)]).toEqual([path, []])
    expect([path, await found(`created_from=${oldest}&limit=100`)]).toEqual([path, all])
    expect([path, await found(`created_from=${oldest}&before=${newest}`)]).toEqual([path, all.slice(1)])
  }
})

/** Creates a slow task. */
async function aiTask(client: Client): Promise<{ id: string }> {
  const task = { idempotency_key: freshKey(), kind: 'generate', input: { prompt: '[[slow]]' } }
  return (await client.post('/v1/ai/tasks', task)).body
}

async function template(client: Client): Promise<{ id: string }> {
  const fields = { name: freshKey(), channel: 'email', subject: '{{ order.number }}', text: '{{ name }}' }
  return (await client.post('/v1/messages/templates', fields)).body
}

async function suppression(client: Client): Promise<{ id: string }> {
  const address = `${freshKey()}@example.com`
  return (await client.post('/v1/messages/suppressions', { channel: 'email', address })).body
}

async function endpoint(client: Client): Promise<{ tenant_id: string; id: string }> {
  const fields = { url: 'https://shop.example/webhooks', types: ['payout.canceled'] }
  return (await client.post('/v1/webhook_endpoints', fields)).body
}

async function recovery(client: Client): Promise<{ id: string }> {
  const path = `/v1/webhook_endpoints/${(await endpoint(client)).id}/recover`
  return (await client.post(path, { since: '2026-01-01T00:00:00Z' })).body
}

/** Creates a scheduled email, which is not sent before the test cancels it. */
async function scheduledEmail(client: Client): Promise<{ id: string }> {
  const send_at = new Date(Date.now() + 86_400_000)
  const email = {
    idempotency_key: freshKey(),
    to: ['ada@example.com'],
    subject: 'Shipped',
    text: 'Yes.',
    send_at,
  }
  return (await client.post('/v1/messages/email', email)).body
}

async function eventOf(world: World, tenant_id: string): Promise<{ id: string }> {
  const [event] = await world.sql<{ id: string }[]>`
    select id from events where tenant_id = ${tenant_id} limit 1`
  return event!
}

test('every example request succeeds', async ({ world }) => {
  // The examples have fixed idempotency keys, so the test uses a new tenant.
  const client = await world.clientOf()
  const twin = await world.clientOf({ mode: 'test' })
  const key = freshKey()
  const customer = (await client.post('/v1/customers', { idempotency_key: key })).body
  const recipient = (await client.post('/v1/recipients', { idempotency_key: key, ...RECIPIENT })).body
  const merchant = (await client.post('/v1/merchants', { idempotency_key: key, ...MERCHANT })).body
  await fund(client, 100_000)
  const payout_recipient = await recipientOf(client, 'ba_pending')
  const payout = async () => (await payOut(client, payout_recipient, {}, { prefer: 'wait=20' })).body
  const subjects: Record<string, () => Promise<{ id: string }>> = {
    ...Object.fromEntries(
      ['get', 'update', 'delete', 'preview'].map((verb) => [
        `${verb}MessageTemplate`,
        () => template(client),
      ]),
    ),
    ...Object.fromEntries(
      ['getWebhookDelivery', 'replayWebhookDelivery'].map((name) => [
        name,
        async () => await deliveryTo(world.sql, await endpoint(client), { status: 'delivered' }),
      ]),
    ),
    ...Object.fromEntries(
      [
        ...['get', 'update', 'delete', 'test', 'recover'].map((verb) => `${verb}WebhookEndpoint`),
        'rotateWebhookSecret',
        'getWebhookEndpointStats',
        'listWebhookDeliveries',
      ].map((name) => [name, () => endpoint(client)]),
    ),
    getWebhookRecovery: () => recovery(client),
    ...Object.fromEntries(['get', 'delete'].map((verb) => [`${verb}Suppression`, () => suppression(client)])),
    ...Object.fromEntries(['getPayout', 'getPayoutTimeline', 'cancelPayout'].map((name) => [name, payout])),
    // A payout whose calls are all refused fails at once.
    failPayout: async () => {
      const description = freshKey()
      const match = { method: 'POST', path: '/v1/payouts$', contains: description }
      const refusing = await fault(world, { match, times: 1000, fault: 'refuse_401' })
      const { body } = await payOut(client, payout_recipient, { description })
      await refusing.hit()
      await eventually(async () => {
        const [row] = await world.sql`select call_started_at from payouts where id = ${body.id}`
        expect(row).toEqual({ call_started_at: null })
      })
      return body
    },
    ...Object.fromEntries(
      ['getKyc', 'getKycTimeline', 'linkKyc', 'decideKyc'].map((name) => [
        name,
        () => verificationOf(client),
      ]),
    ),
    capturePayment: () => authorizedPayment(client),
    cancelPayment: () => authorizedPayment(client),
    createRefund: () => capturedPayment(client),
    getDispute: async () => {
      const { payment } = await disputedPayment(world, { client })
      return (await disputeIn(client, payment.id, 'needs_response')).dispute
    },
    getRefund: async () => (await refund(client, (await capturedPayment(client)).id)).body,
    getEvent: () => eventOf(world, client.tenant_id),
    getAiTask: () => aiTask(client),
    cancelAiTask: () => aiTask(client),
    ...Object.fromEntries(
      ['getMessage', 'getMessageTimeline', 'cancelMessage'].map((name) => [
        name,
        () => scheduledEmail(client),
      ]),
    ),
    ...Object.fromEntries(
      ['get', 'update', 'archive'].flatMap((verb) => [
        [`${verb}Recipient`, async () => recipient],
        [`${verb}Merchant`, async () => merchant],
      ]),
    ),
    ...Object.fromEntries(
      ['getTopUp', 'getTopUpTimeline'].map((name) => [name, async () => (await topUp(client)).body]),
    ),
    ...Object.fromEntries(
      ['getPayment', 'listRefunds', 'getPaymentTimeline', 'listPaymentEvents'].map((name) => [
        name,
        () => authorizedPayment(client),
      ]),
    ),
  }
  // The API reference sends every header that has an example, so the test sends the same headers.
  const shown = (schema: any) => schema.examples?.[0] ?? schema.default
  for (const { method, path, operation } of routes) {
    const headers = operation.parameters.flatMap(({ $ref }: any) => {
      const header = $ref && document.components.parameters[$ref.split('/').at(-1)]
      return header && shown(header.schema) !== undefined ? [[header.name, shown(header.schema)]] : []
    })
    const bodies = Object.values<any>(operation.requestBody?.content['application/json'].examples ?? {})
    const query = operation.parameters.flatMap(({ in: place, name, schema }: any) => {
      if (place !== 'query') return []
      const [value] = schema.examples ?? [
        document.components.schemas[schema.$ref?.split('/').at(-1)]?.examples?.[0],
      ]
      return typeof value === 'object'
        ? Object.entries(value).map(([inner, each]) => `${name}[${inner}]=${String(each)}`)
        : [`${name}=${encodeURIComponent(value)}`]
    })
    for (const shown_body of bodies.length === 0 ? [undefined] : bodies.map(({ value }) => value)) {
      const body = shown_body && {
        ...shown_body,
        ...(shown_body.recipient_id !== undefined && { recipient_id: payout_recipient }),
        ...(shown_body.subject_id !== undefined && { subject_id: payout_recipient }),
        // The time of the example passes.
        ...(shown_body.advance_to !== undefined && { advance_to: new Date(Date.now() + 3_600_000) }),
      }
      const { id } = (await subjects[operation.operationId]?.()) ?? customer
      const target = `${path.replace('{id}', id).replace('{key}', key)}?${query.join('&')}`
      const answer = await (path === TEST_CLOCK ? twin : client).send(method, target, {
        ...(body && { body: JSON.stringify(body) }),
        headers: { ...(body && { 'content-type': 'application/json' }), ...Object.fromEntries(headers) },
      })
      expect([operation.operationId, body, answer.status, answer.body]).toEqual([
        operation.operationId,
        body,
        Object.keys(operation.responses)
          .map(Number)
          .find((status) => status < 300 && !(status === 200 && operation.responses[201])),
        expect.anything(),
      ])
    }
  }
})

test('the example responses match their schemas', () => {
  for (const route of routes) {
    for (const [status, { content }] of Object.entries<any>(route.operation.responses)) {
      const { example, examples = {} } = content['application/json']
      const shown = [
        ...(example === undefined ? [] : [example]),
        ...Object.values<any>(examples).map(
          ({ $ref }) => document.components.examples[$ref.split('/').at(-1)].value,
        ),
      ]
      expect(shown.length).toBeGreaterThan(0)
      for (const each of shown) {
        const { error } = schemaOf(document, route, Number(status)).safeParse(each)
        expect([route.path, status, error?.issues]).toEqual([route.path, status, undefined])
      }
    }
  }
})

test('the example response to a create request matches its example request, and the example of a timeline matches its resource', () => {
  const answered = ({ operation }: DocumentedRoute, status: number) =>
    operation.responses[status].content['application/json'].example
  const creates = routes.filter(({ operation }) => operation.responses[201] !== undefined)
  expect(creates.length).toBeGreaterThan(8)
  for (const route of creates) {
    const [{ value }] = Object.values<any>(route.operation.requestBody.content['application/json'].examples)
    // A response contains the source in masked form.
    const { source: _masked, ...sent } = { metadata: {}, ...value }
    const shown = Object.entries(sent).filter(([name]) => name in answered(route, 201))
    expect([route.path, answered(route, 201)]).toEqual([
      route.path,
      expect.objectContaining(Object.fromEntries(shown)),
    ])
  }
  const timelines = routes.filter(({ path }) => path.endsWith('/timeline'))
  expect(
    timelines.map((route) => {
      const [{ name, details }] = answered(route, 200)
      return `${route.path.split('/').at(-3)} ${name} ${details.provider_reference.split('_')[0]}`
    }),
  ).toEqual([
    'kyc verify vs',
    'messages send_email <0198f6f6-2b1d-7000-8000-123456789abc@shop.example>',
    'payments capture pi',
    'payouts payout po',
    'top_ups top_up tu',
  ])
})

test('the webhooks host responds as its document describes', async ({ world }) => {
  const described = (await world.client.get('/openapi-webhooks.json')).body
  expect(described.servers[0].url).toBe(world.config.WEBHOOKS_URL)
  const operation = described.paths['/stripe'].post
  const { example } = operation.requestBody.content['application/json']
  const { webhook_secret } = world.provider('stripe')
  const send = (body: string, signature = signStripe(body, webhook_secret)) =>
    fetch(`${described.servers[0].url}/stripe`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'stripe-signature': signature },
      body,
    })
  // The processor's account is a test account here.
  const text = JSON.stringify({ ...example, livemode: false })
  for (const [status, response] of [
    [200, await send(text)],
    [200, await send(text)],
    [400, await send(text, 't=1,v1=00')],
    [400, await send('{}')],
    [413, await send('x'.repeat(2 ** 20 + 1))],
  ] as const) {
    const { schema } = operation.responses[status].content['application/json']
    const route = { method: 'POST', path: '/stripe', operation, codes: [] }
    const answer = await response.json()
    expect([response.status, schema.$ref]).toEqual([status, expect.any(String)])
    expect(schemaOf(described, route, status).safeParse(answer).error?.issues).toBeUndefined()
  }
})

test('the document lists every event type, and its data matches the events that are written', async ({
  world,
}) => {
  const { client, sql, provider } = world
  // Events before the start are not compared, because a deletion may erase personal data in them later.
  const leaving = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Grace' })
  const [begun] = await sql<{ at: string }[]>`select clock_timestamp() as at`
  const customer = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
  await client.patch(`/v1/customers/${customer.body.id}`, { external_id: 'user-17' })
  await client.delete(`/v1/customers/${leaving.body.id}`)
  const payment = await capturedPayment(client)
  await refund(client, payment.id)
  await client.post(`/v1/payments/${(await authorizedPayment(client)).id}/cancel`)
  await createPayment(client, { payment_method: 'pm_card_chargeDeclined' })
  const acting = (await createPayment(client, { payment_method: 'pm_card_authenticationRequired' })).body
  const authenticate = `/payment_intents/${acting.processor_reference}/authenticate`
  await provider('stripe').control('POST', authenticate, { outcome: 'fail' })
  await topUp(client, { amount_minor: 1000, source: 'src_fails' })
  for (const [...ends] of [['canceled'], ['succeeded', 'reversed']]) {
    const { body } = await topUp(client, { amount_minor: 1000, source: 'src_manual' }, { prefer: 'wait=20' })
    for (const status of ends)
      await provider('stripe').control('POST', `/topups/${body.processor_reference}/settle`, { status })
  }
  const written = await eventually(async () => {
    const events = await sql<{ type: string; data: Record<string, unknown> }[]>`
      select type, data from events where tenant_id = ${world.tenant_id} and created_at > ${begun!.at}`
    expect(new Set(events.map(({ type }) => type)).size).toBe(17)
    return events
  })
  // The type of an event determines its statuses, its amounts and which fields are null.
  const decided = (data: Record<string, unknown>) =>
    Object.fromEntries(
      Object.entries(data)
        .filter(([name]) =>
          /^(status|amount_.*|.*_at|capture_before|failure|processor_reference)$/.test(name),
        )
        .map(([name, value]) => [name, /^(status|amount_.*)$/.test(name) ? value : value === null]),
    )
  for (const { type, data } of written) {
    const { schema: body, example } = document.webhooks[type].post.requestBody.content['application/json']
    const schema = document.components.schemas[body.$ref.split('/').at(-1)]
    const [whole, truncated] = schema.properties.data.anyOf
    const described = document.components.schemas[whole.$ref.split('/').at(-1)]
    expect(truncated).toEqual({ $ref: '#/components/schemas/TruncatedData' })
    expect([type, Object.keys(example)]).toEqual([type, schema.required])
    // `livemode` is added where an event leaves.
    const shown = Object.keys({ ...data, livemode: true })
    expect([type, shown.toSorted()]).toEqual([type, Object.keys(described.properties).toSorted()])
    expect([type, decided(example.data)]).toEqual([type, decided(data)])
  }
  expect(JSON.stringify(document.webhooks)).not.toContain('client_secret')
  // The document names the resources with events, and the timelines that show their events.
  const [, section] = /## Events\n([^#]+)/.exec(document.info.description)!
  for (const [type, { post }] of Object.entries<any>(document.webhooks)) {
    expect([type, post.parameters.map(({ $ref }: any) => $ref.split('/').at(-1))]).toEqual([
      type,
      ['WebhookId', 'WebhookTimestamp', 'WebhookSignature'],
    ])
    expect(section).toMatch(new RegExp(post.tags[0].replace('_', '[- ]'), 'i'))
    const [, timeline] = /`GET \/v1\/events` lists it(?:, and `GET (.+)` shows it)?\.$/.exec(
      post.description,
    )!
    const whole = post.tags[0] === 'refunds' ? 'payments' : post.tags[0]
    const route = routes.find(
      ({ path, operation }) => path.endsWith('/timeline') && operation.tags[0] === whole,
    )
    expect([type, timeline]).toEqual([type, route?.path])
  }
})

test('each event type has one schema in the feed and one schema as a webhook, with the type as discriminator', () => {
  const { schemas } = document.components
  const { oneOf, discriminator } = schemas.FeedEvent
  const types = Object.keys(document.webhooks)
  expect(discriminator.propertyName).toBe('type')
  expect(Object.keys(discriminator.mapping)).toEqual(types)
  expect(oneOf.map(({ $ref }: any) => $ref)).toEqual(Object.values(discriminator.mapping))
  for (const type of types) {
    const listed = schemas[discriminator.mapping[type].split('/').at(-1)]
    const { schema } = document.webhooks[type].post.requestBody.content['application/json']
    const sent = schemas[schema.$ref.split('/').at(-1)]
    expect([listed.properties.type.const, sent.properties.type.const]).toEqual([type, type])
    expect(listed.properties.subject_type.const).toBe(type.split('.')[0])
    expect([type, listed.properties.data.$ref]).toEqual([type, sent.properties.data.anyOf[0].$ref])
    expect(schemas[listed.properties.data.$ref.split('/').at(-1)].properties.id).toBeDefined()
  }
})

test('no schema has the name of a global variable of generated clients', () => {
  const [library] = globSync('node_modules/@typescript/*/lib')
  const globals = ['lib.dom.d.ts', 'lib.es5.d.ts'].flatMap((file) =>
    Array.from(
      readFileSync(`${library}/${file}`, 'utf8').matchAll(
        /^(?:declare var|declare function|interface|type) (\w+)/gm,
      ),
      ([, name]) => name!,
    ),
  )
  const globals_of_clients = new Set([...globals, ...Object.getOwnPropertyNames(globalThis)])
  expect(globals_of_clients.isSupersetOf(new Set(['Error', 'Event', 'MessageChannel', 'Record']))).toBe(true)
  expect(Object.keys(document.components.schemas).filter((name) => globals_of_clients.has(name))).toEqual([])
})

test('the document lists every route, and each listed route exists', async ({ world }) => {
  const listed = routes.map(({ method, path }) => `${method} ${path}`)
  expect(listed.toSorted()).toEqual(expect.arrayContaining(INTERFACE))
  for (const { method, path } of routes) {
    const answer = await createClient(world.client.url, world.client.key).send(
      method,
      path.replace(/\{\w+\}/, 'x'),
    )
    expect([method, path, answer.body?.error?.code]).not.toEqual([method, path, 'route_not_found'])
  }
  expect(listed.every((route) => route.includes(' /v1/'))).toBe(true)
})

test('each route declares its scope and its error codes', async () => {
  for (const { method, path, operation, codes } of routes) {
    const scope = scopeOf(operation)
    const name = `${method} ${path}`
    expect([name, operation.security]).toEqual([name, [{ api_key: scope === null ? [] : [scope] }]])
    expect([name, operation.description.includes('Needs a valid key and no scope.')]).toEqual([
      name,
      scope === null,
    ])
    expect([name, codes.includes('missing_scope')]).toEqual([name, scope !== null])
    expect([null, ...SCOPES]).toContain(scope)
    const expected = [
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'rate_limited',
      'headers_too_large',
      'misconfigured_gateway',
      'internal_error',
      'overloaded',
      'database_unavailable',
      ...(operation.requestBody ? ['payload_too_large', 'unsupported_media_type'] : []),
    ]
    expect([name, codes]).toEqual([name, expect.arrayContaining(expected)])
    expect([name, codes.some((code) => code.endsWith('_not_found'))]).toEqual([
      name,
      path.includes('{') ||
        ([
          '/v1/payments',
          '/v1/payouts',
          '/v1/compliance/kyc',
          '/v1/messages/templates',
          '/v1/messages/suppressions',
          '/v1/webhook_endpoints',
          '/v1/messages/email',
          '/v1/messages/sms',
        ].includes(path) &&
          method === 'POST'),
    ])
    for (const code of codes) {
      expect(Object.keys(ERRORS)).toContain(code)
      const [status] = ERRORS[code as keyof typeof ERRORS]
      expect(operation.responses[status].description).toContain(`\`${code}\``)
    }
  }
})

test('each route needs exactly its declared scope', async ({ world }) => {
  const unscoped = await world.clientOf({ scopes: [] })
  const anonymous = createClient(unscoped.url, '')
  for (const { method, path, operation } of routes) {
    const scope = scopeOf(operation)
    const concrete = path.replace(/\{\w+\}/, '0198f6f0-1234-7000-8000-123456789abc')
    expect([path, (await anonymous.send(method, concrete)).status]).toEqual([path, 401])
    const answer = await unscoped.send(method, concrete)
    const missing = answer.status === 403 ? answer.body.error.message : null
    expect([path, missing]).toEqual([path, scope && `Missing scope: ${scope}`])
  }
})

test('responses match their schemas', async ({ world }) => {
  const { client } = world
  const customer = (
    await client.post('/v1/customers', { idempotency_key: freshKey(), metadata: [null, { a: 1 }] })
  ).body
  const authorized = await authorizedPayment(client, { customer_id: customer.id, metadata: { a: 'b' } })
  const captured = await capturedPayment(client)
  const returned = (await refund(client, captured.id, { amount_minor: 100 })).body
  const top_up = (await topUp(client)).body
  const { payment } = await disputedPayment(world)
  const disputed = await disputeIn(client, payment.id, 'needs_response')
  await drift(world, captured.id)
  const recipient = (await client.post('/v1/recipients', { idempotency_key: freshKey(), ...RECIPIENT })).body
  const merchant = (await client.post('/v1/merchants', { idempotency_key: freshKey(), ...MERCHANT })).body
  const verification = await verificationOf(client)
  const verificationBody = { idempotency_key: freshKey(), subject_type: 'customer', subject_id: customer.id }
  await fund(client, 10_000)
  const recipient_id = await recipientOf(client, 'ba_pending')
  const [pending, canceled] = [
    (await payOut(client, recipient_id)).body,
    (await payOut(client, recipient_id)).body,
  ]
  const payoutBody = { idempotency_key: freshKey(), amount_minor: 100, currency: 'usd', recipient_id }
  // The task runs until it is canceled, however long the other requests take.
  const hold = await world.provider('ai').fault({ match: { contains: '[[slow]]' }, fault: 'hold' })
  onTestFinished(() => hold.remove())
  const task = await aiTask(client)
  const greeting = { name: 'greeting', channel: 'sms', body: 'Hello {{ name }}' }
  const templates = '/v1/messages/templates'
  const template_path = `${templates}/${(await template(client)).id}`
  const address = { channel: 'email', address: 'grace@example.com' }
  const suppressions = '/v1/messages/suppressions'
  const suppression_path = `${suppressions}/${(await suppression(client)).id}`
  const endpoints = '/v1/webhook_endpoints'
  const target = await endpoint(client)
  const data = exampleOfEvent('payment.captured') as Json
  const [delivery, endpoint_path] = [
    await deliveryTo(world.sql, target, { data }),
    `${endpoints}/${target.id}`,
  ]
  const recovered = await recovery(client)
  const since = { since: '2026-01-01T00:00:00Z' }
  const message = await scheduledEmail(client)
  const email = () => ({
    idempotency_key: freshKey(),
    to: ['ada@example.com'],
    subject: 'Shipped',
    text: 'Yes.',
  })
  const sms = () => ({ idempotency_key: freshKey(), to: '+4915112345678', body: 'Yes.' })
  const calls: [method: string, path: string, concrete: string, body?: object][] = [
    ['POST', templates, templates, greeting],
    ['POST', templates, templates, greeting],
    ['POST', templates, templates, { ...greeting, body: '{{' }],
    ['GET', templates, templates],
    ['GET', `${templates}/{id}`, template_path],
    ['PATCH', `${templates}/{id}`, template_path, { html: '<p>{{ name }}</p>' }],
    ['POST', `${templates}/{id}/preview`, `${template_path}/preview`, { variables: {} }],
    [
      'POST',
      `${templates}/{id}/preview`,
      `${template_path}/preview`,
      { variables: { name: 'Ada', order: { number: 1 } } },
    ],
    ['DELETE', `${templates}/{id}`, template_path],
    ['DELETE', `${templates}/{id}`, template_path],
    ['POST', endpoints, endpoints, { url: 'https://shop.example', types: ['*'], headers: { 'x-a': 'b' } }],
    ['POST', endpoints, endpoints, { url: 'http://10.0.0.1', types: ['*'] }],
    ['GET', endpoints, endpoints],
    ['GET', `${endpoints}/{id}`, endpoint_path],
    ['PATCH', `${endpoints}/{id}`, endpoint_path, { status: 'disabled' }],
    ['POST', `${endpoints}/{id}/rotate_secret`, `${endpoint_path}/rotate_secret`],
    ['GET', `${endpoints}/{id}/stats`, `${endpoint_path}/stats`],
    ['POST', `${endpoints}/{id}/test`, `${endpoint_path}/test`],
    ['POST', `${endpoints}/{id}/recover`, `${endpoint_path}/recover`, since],
    ['GET', '/v1/webhook_recoveries/{id}', `/v1/webhook_recoveries/${recovered.id}`],
    ['GET', `${endpoints}/{id}/deliveries`, `${endpoint_path}/deliveries`],
    ['GET', '/v1/webhook_deliveries/{id}', `/v1/webhook_deliveries/${delivery.id}`],
    ['POST', '/v1/webhook_deliveries/{id}/replay', `/v1/webhook_deliveries/${delivery.id}/replay`],
    ['DELETE', `${endpoints}/{id}`, endpoint_path],
    ['DELETE', `${endpoints}/{id}`, endpoint_path],
    ['POST', suppressions, suppressions, address],
    ['POST', suppressions, suppressions, address],
    ['GET', suppressions, suppressions],
    ['GET', `${suppressions}/{id}`, suppression_path],
    ['DELETE', `${suppressions}/{id}`, suppression_path],
    ['POST', '/v1/recipients', '/v1/recipients', { idempotency_key: freshKey(), ...RECIPIENT }],
    ['POST', '/v1/recipients', '/v1/recipients', { idempotency_key: freshKey(), ...RECIPIENT, type: 'card' }],
    ['GET', '/v1/recipients', '/v1/recipients'],
    ['GET', '/v1/recipients/{id}', `/v1/recipients/${recipient.id}`],
    ['GET', '/v1/recipients/{id}', `/v1/recipients/${customer.id}`],
    ['PATCH', '/v1/recipients/{id}', `/v1/recipients/${recipient.id}`, { email: null }],
    ['DELETE', '/v1/recipients/{id}', `/v1/recipients/${recipient.id}`],
    ['POST', '/v1/compliance/kyc', '/v1/compliance/kyc', verificationBody],
    ['POST', '/v1/compliance/kyc', '/v1/compliance/kyc', { ...verificationBody, subject_type: 'payout' }],
    ['GET', '/v1/compliance/kyc', '/v1/compliance/kyc'],
    ['GET', '/v1/compliance/kyc/{id}', `/v1/compliance/kyc/${verification.id}`],
    ['POST', '/v1/compliance/kyc/{id}/link', `/v1/compliance/kyc/${verification.id}/link`],
    [
      'POST',
      '/v1/compliance/kyc/{id}/decide',
      `/v1/compliance/kyc/${verification.id}/decide`,
      { decision: 'approved', reason: 'The document was seen in person.' },
    ],
    ['POST', '/v1/compliance/kyc/{id}/link', `/v1/compliance/kyc/${verification.id}/link`],
    ['GET', '/v1/compliance/kyc/{id}/timeline', `/v1/compliance/kyc/${verification.id}/timeline`],
    ['POST', '/v1/merchants', '/v1/merchants', { idempotency_key: freshKey(), ...MERCHANT }],
    ['GET', '/v1/merchants', '/v1/merchants'],
    ['GET', '/v1/merchants/{id}', `/v1/merchants/${merchant.id}`],
    ['PATCH', '/v1/merchants/{id}', `/v1/merchants/${merchant.id}`, { url: null, metadata: null }],
    ['PATCH', '/v1/merchants/{id}', `/v1/merchants/${customer.id}`, {}],
    ['DELETE', '/v1/merchants/{id}', `/v1/merchants/${merchant.id}`],
    [
      'POST',
      '/v1/payments',
      '/v1/payments',
      { ...BY_CARD, idempotency_key: freshKey(), amount_minor: 1000, merchant_id: merchant.id },
    ],
    ['POST', '/v1/customers', '/v1/customers', { idempotency_key: freshKey(), name: 'Ada' }],
    ['POST', '/v1/customers', '/v1/customers', {}],
    ['GET', '/v1/customers', '/v1/customers?limit=2'],
    ['GET', '/v1/customers', '/v1/customers?limit=0'],
    ['GET', '/v1/customers/{id}', `/v1/customers/${customer.id}`],
    ['GET', '/v1/customers/{id}', `/v1/customers/${captured.id}`],
    ['PATCH', '/v1/customers/{id}', `/v1/customers/${customer.id}`, { metadata: null }],
    ['DELETE', '/v1/customers/{id}', `/v1/customers/${customer.id}`],
    [
      'POST',
      '/v1/payments',
      '/v1/payments',
      { idempotency_key: freshKey(), amount_minor: 1000, currency: 'JPY', method: 'card' },
    ],
    ['GET', '/v1/payments', '/v1/payments'],
    ['GET', '/v1/payments/{id}', `/v1/payments/${authorized.id}`],
    ['POST', '/v1/payments/{id}/capture', `/v1/payments/${authorized.id}/capture`],
    ['POST', '/v1/payments/{id}/capture', `/v1/payments/${authorized.id}/capture`],
    ['POST', '/v1/payments/{id}/cancel', `/v1/payments/${(await createPayment(client)).body.id}/cancel`],
    ['GET', '/v1/payments/{id}/timeline', `/v1/payments/${captured.id}/timeline`],
    [
      'POST',
      '/v1/payments/{id}/refunds',
      `/v1/payments/${captured.id}/refunds`,
      { idempotency_key: freshKey() },
    ],
    ['GET', '/v1/payments/{id}/refunds', `/v1/payments/${captured.id}/refunds`],
    ['GET', '/v1/refunds', '/v1/refunds'],
    ['GET', '/v1/refunds/{id}', `/v1/refunds/${returned.id}`],
    ['GET', '/v1/disputes', '/v1/disputes'],
    ['GET', '/v1/disputes/{id}', `/v1/disputes/${disputed.dispute.id}`],
    ['GET', '/v1/payments/{id}', `/v1/payments/${disputed.id}`],
    ['GET', '/v1/reconciliation', '/v1/reconciliation'],
    ['POST', '/v1/payouts', '/v1/payouts', payoutBody],
    ['POST', '/v1/payouts', '/v1/payouts', { ...payoutBody, amount_minor: 1_000_000_000 }],
    ['GET', '/v1/payouts', '/v1/payouts'],
    ['GET', '/v1/payouts/{id}', `/v1/payouts/${pending.id}`],
    ['GET', '/v1/payouts/{id}/timeline', `/v1/payouts/${pending.id}/timeline`],
    ['POST', '/v1/payouts/{id}/cancel', `/v1/payouts/${canceled.id}/cancel`],
    ['POST', '/v1/payouts/{id}/fail', `/v1/payouts/${pending.id}/fail`, { reason: 'by hand' }],
    ['POST', '/v1/payouts/{id}/fail', `/v1/payouts/${pending.id}/fail`, { reason: 'by hand' }],
    ['GET', '/v1/wallet/balances', '/v1/wallet/balances'],
    ['GET', '/v1/wallet/transactions', '/v1/wallet/transactions'],
    [
      'POST',
      '/v1/wallet/top_ups',
      '/v1/wallet/top_ups',
      { idempotency_key: freshKey(), amount_minor: 1000, currency: 'usd', source: 'src_fails' },
    ],
    ['GET', '/v1/wallet/top_ups', '/v1/wallet/top_ups'],
    ['GET', '/v1/wallet/top_ups/{id}', `/v1/wallet/top_ups/${top_up.id}`],
    ['GET', '/v1/wallet/top_ups/{id}/timeline', `/v1/wallet/top_ups/${top_up.id}/timeline`],
    [
      'POST',
      '/v1/ai/tasks',
      '/v1/ai/tasks',
      { idempotency_key: freshKey(), kind: 'generate', input: { prompt: 'A haiku.' } },
    ],
    ['GET', '/v1/ai/tasks', '/v1/ai/tasks'],
    ['GET', '/v1/ai/tasks/{id}', `/v1/ai/tasks/${task.id}`],
    ['POST', '/v1/ai/tasks/{id}/cancel', `/v1/ai/tasks/${task.id}/cancel`],
    ['POST', '/v1/ai/tasks/{id}/cancel', `/v1/ai/tasks/${task.id}/cancel`],
    ['POST', '/v1/messages/email', '/v1/messages/email', email()],
    ['POST', '/v1/messages/email', '/v1/messages/email', { ...email(), to: [] }],
    ['POST', '/v1/messages/sms', '/v1/messages/sms', sms()],
    ['POST', '/v1/messages/email/batch', '/v1/messages/email/batch', { messages: [email(), {}] }],
    ['POST', '/v1/messages/sms/batch', '/v1/messages/sms/batch', { messages: [sms(), 17] }],
    ['GET', '/v1/messages', '/v1/messages'],
    ['GET', '/v1/messages/{id}', `/v1/messages/${message.id}`],
    ['GET', '/v1/messages/{id}/timeline', `/v1/messages/${message.id}/timeline`],
    ['POST', '/v1/messages/{id}/cancel', `/v1/messages/${message.id}/cancel`],
    ['POST', '/v1/messages/{id}/cancel', `/v1/messages/${message.id}/cancel`],
    ['GET', '/v1/events', '/v1/events?limit=100'],
    ['GET', '/v1/events/{id}', `/v1/events/${(await eventOf(world, world.tenant_id)).id}`],
    ['GET', '/v1/payments/{id}/events', `/v1/payments/${returned.payment_id}/events`],
    ['GET', '/v1/idempotency_keys/{key}', `/v1/idempotency_keys/${returned.idempotency_key}`],
    ['GET', TEST_CLOCK, TEST_CLOCK],
    ['POST', TEST_CLOCK, TEST_CLOCK, { advance_to: new Date(Date.now() + 3_600_000) }],
    ['POST', TEST_CLOCK, TEST_CLOCK, { advance_to: '2026-01-01T00:00:00Z' }],
  ]
  const twin = await world.clientOf({ mode: 'test' })
  const reached = new Set<string>()
  for (const [method, path, concrete, body] of calls) {
    const route = routes.find((each) => each.method === method && each.path === path)!
    const answer = await (path === TEST_CLOCK ? twin : client).send(method, concrete, {
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    const checked = schemaOf(document, route, answer.status).safeParse(answer.body)
    expect([method, concrete, answer.status, checked.error?.issues]).toEqual([
      method,
      concrete,
      answer.status,
      undefined,
    ])
    const code = answer.body.error?.code
    expect([undefined, ...route.codes]).toContain(code)
    if (code === undefined) reached.add(`${method} ${path}`)
  }
  expect([...reached].toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).toSorted())
})

test('the document describes all outcomes and detail fields of timelines, and all times have one format', async ({
  world,
}) => {
  const { id } = await capturedPayment(world.client)
  await refund(world.client, id)
  const { body } = await world.client.get(`/v1/payments/${id}/timeline`)
  const { details, outcome } = document.components.schemas.TimelineEntry.properties
  const entries: { outcome: string | null; details: Record<string, unknown> }[] = body
  const namesIn = (description: string) => Array.from(description.matchAll(/`(\w+)`/g), ([, name]) => name)
  expect(namesIn(outcome.description)).toEqual(
    expect.arrayContaining(entries.flatMap((entry) => entry.outcome ?? [])),
  )
  expect(namesIn(details.description)).toEqual(
    expect.arrayContaining(entries.flatMap((entry) => Object.keys(entry.details))),
  )
  const times = entries
    .flatMap((entry) => Object.entries(entry.details))
    .filter(([name, at]) => name.endsWith('_at') && at !== null)
  expect(times.filter(([, at]) => !/^2\S+T\S+\.\d{6}Z$/.test(String(at)))).toEqual([])
  expect(new Set(body.map(({ kind }: { kind: string }) => kind)).size).toBeGreaterThanOrEqual(4)
})

test('the replay of a refusal has exactly the declared headers', async ({ world }) => {
  const body = { idempotency_key: freshKey(), payment_method: 'pm_card_chargeDeclined' }
  await createPayment(world.client, body)
  const { status, headers } = await createPayment(world.client, body, { prefer: 'wait=5' })
  expect([status, headers.get('idempotent-replayed')]).toEqual([402, 'true'])
  const { operation } = routes.find((each) => each.method === 'POST' && each.path === '/v1/payments')!
  const declared = Object.keys(operation.responses[status].headers).map((name) => name.toLowerCase())
  const http_headers = /^(connection|keep-alive|date|content-.*|cache-control|x-content-type-options)$/
  const received = Array.from(headers.keys()).filter((name) => !http_headers.test(name))
  expect(received.toSorted()).toEqual(declared.toSorted())
})

test('the check of responses finds responses that do not match their schema', () => {
  const route = routes.find((each) => each.method === 'GET' && each.path === '/v1/customers')!
  for (const answer of [{}, [{ id: 'x' }], [null]])
    expect(schemaOf(document, route, 200).safeParse(answer).success).toBe(false)
})

test('links contain the address of the API, and are paths if the API listens on all addresses', () => {
  expect(originOfLinks('127.0.0.1', 'http://127.0.0.1:3000')).toBe('http://127.0.0.1:3000')
  for (const [host, listening] of [
    ['0.0.0.0', 'http://0.0.0.0:3000'],
    ['::', 'http://[::]:3000'],
  ] as const)
    expect(originOfLinks(host, listening)).toBe('')
})

test('errors link to the documentation, and the documentation loads nothing from other hosts', async ({
  world,
}) => {
  const anonymous = createClient(world.client.url, '')
  const refused = await anonymous.get('/v1/customers')
  expect(refused.body.error.doc_url).toBe('https://api.example.com/docs/guides/errors#unauthorized')
  const page = await anonymous.get('/docs')
  expect(page.status).toBe(200)
  expect(page.headers.get('content-type')).toMatch(/^text\/html/)
  const sources = Array.from(
    page.text.matchAll(/<(?:script|link)[^>]+(?:src|href)="([^"]+)"/g),
    ([, source]) => source!,
  )
  expect(sources.length).toBeGreaterThan(0)
  for (const source of sources) {
    const url = new URL(source, `${world.client.url}/docs/`)
    expect(url.origin).toBe(world.client.url)
    const script = await anonymous.get(url.pathname)
    expect([script.status, script.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('javascript'),
    ])
    expect(script.text.length).toBeGreaterThan(10_000)
  }
  expect(page.text).toContain('/openapi.json')
  const inline = Array.from(
    page.text.matchAll(/<script type[^>]+>([\s\S]+?)<\/script>/g),
    ([, script]) => script!,
  )
  const hashes = inline.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`)
  expect(hashes).toHaveLength(1)
  const policy = page.headers.get('content-security-policy')!.split('; ')
  expect(policy).toEqual(
    expect.arrayContaining([
      `script-src 'self' ${hashes[0]}`,
      "default-src 'none'",
      "connect-src 'self'",
      "frame-ancestors 'none'",
    ]),
  )
})

test('the files of the API reference are revalidated, and all readers share one copy in memory', async ({
  world,
}) => {
  const anonymous = createClient(world.client.url, '')
  const path = '/docs/js/scalar.js'
  const first = await anonymous.get(path)
  expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'no-cache'])
  const revalidated = await anonymous.get(path, { 'if-none-match': first.headers.get('etag')! })
  expect([revalidated.status, revalidated.text, revalidated.headers.get('etag')]).toEqual([
    304,
    '',
    first.headers.get('etag'),
  ])
  const other = await anonymous.get('/docs/', { 'if-none-match': first.headers.get('etag')! })
  expect(other.status).toBe(200)

  const before = memoryInUse().arrayBuffers
  const { hostname, port } = new URL(world.client.url)
  const stalled = connect(Number(port), hostname)
  onTestFinished(() => void stalled.destroy())
  stalled.on('error', () => {})
  stalled.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(100))
  await once(stalled, 'readable')
  expect((await anonymous.get('/healthz')).status).toBe(200)
  expect(memoryInUse().arrayBuffers - before).toBeLessThan(50 * 1024 * 1024)
  // A caller with many unread responses is disconnected.
  let received = 0
  for await (const chunk of stalled) received += (chunk as Buffer).length
  expect(received).toBeLessThan(20 * first.text.length)
})

test('/healthz and the document need no key', async ({ world }) => {
  const anonymous = createClient(world.client.url, '')
  const health = await anonymous.get('/healthz')
  expect([health.status, health.body]).toEqual([200, { status: 'ok' }])
  expect((await anonymous.get('/openapi.json')).headers.get('content-type')).toMatch(/^application\/json/)
})

function scopeOf(operation: { description: string }): string | null {
  return /Needs the scope `([^`]+)`\./.exec(operation.description)?.[1] ?? null
}

/** The status of the resource after an event, if it differs from the second part of the type. Null: any status. */
const STATUS_OF: Record<string, string | null> = {
  'payment.created': 'pending',
  'payment.recovered': 'pending',
  'payment.authorization_failed': 'requires_action',
  'payment.capture_expiring': 'authorized',
  'payment.capture_failed': 'authorized',
  'payment.cancel_failed': 'authorized',
  'payment.disputed': 'captured',
  'payment.dispute_won': 'captured',
  'payment.dispute_lost': 'captured',
  'payment.dispute_closed': 'captured',
  'refund.created': 'pending',
  'refund.recovered': 'pending',
  'payout.created': 'pending',
  'payout.recovered': 'pending',
  'payout.fail_overtaken': 'paid',
  'top_up.created': 'pending',
  'top_up.recovered': 'pending',
  'top_up.reversed': 'failed',
  'kyc.created': 'pending',
  'kyc.recovered': 'pending',
  'ai_task.created': 'queued',
  'message.created': 'queued',
  'message.recipients_settled': 'sent',
  'message.bounced': 'undelivered',
  'message.complained': 'delivered',
  'webhook_endpoint.created': 'enabled',
  'webhook_endpoint.updated': 'enabled',
  'webhook_endpoint.deleted': null,
}

test('the example of each event matches its type', () => {
  const wrong = EVENTS.flatMap(({ type }) => {
    const data = exampleOfEvent(type as EventType) as Record<string, unknown>
    const [, action = ''] = type.split('.')
    const expected = type in STATUS_OF ? STATUS_OF[type] : action
    const status = String(data['status'])
    // An example has the times of past statuses only.
    const happened = ENDS.filter((name) => data[`${name}_at`] != null)
    const allowed = new Set([status, ...(EARLIER[status] ?? []), ...(EARLIER[type] ?? [])])
    const failed = /failed|undelivered|bounced|reversed/.test(type)
    const found = {
      status: 'status' in data && expected !== null && status !== expected,
      times: happened.some((name) => !allowed.has(name)) || data[`${status}_at`] === null,
      failure: failed && data['failure'] === null,
      dispute: type.includes('disput') && data['dispute'] === null,
    }
    return Object.values(found).includes(true) ? [{ type, ...found }] : []
  })
  expect(wrong).toEqual([])
})

const ENDS = ['paid', 'failed', 'canceled', 'captured', 'succeeded', 'delivered', 'processing']

/** The statuses that precede a status or an event. */
const EARLIER: Record<string, string[]> = {
  paid: ['processing'],
  failed: ['processing'],
  canceled: ['processing'],
  'top_up.reversed': ['succeeded'],
}
