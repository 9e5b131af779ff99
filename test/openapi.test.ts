// The OpenAPI document: whole, true to the routes, and true to what they answer.
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { ERRORS } from '#core/errors.ts'
import { SCOPES } from '#domain/api-keys.ts'
import { createClient, freshKey } from '#test/client.ts'
import { readDocument, routesOf, schemaOf, type DocumentedRoute } from '#test/documentation.ts'
import { capturedPayment, createPayment, drift, heldPayment, refund } from '#test/payments.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
let document: any
let routes: DocumentedRoute[]

beforeAll(async () => {
  world = await createWorld({ env: { API_URL: 'https://api.example.com/' } })
  document = await readDocument(world.client)
  routes = routesOf(document)
})
afterAll(async () => {
  await world?.close()
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

test('it is an OpenAPI 3.1 document', () => {
  const operation = z.object({
    summary: z.string().min(1),
    description: z.string().min(1),
    tags: z.array(z.string()).min(1),
    security: z.array(z.object({ api_key: z.array(z.string()) })).length(1),
    parameters: z
      .array(
        z.object({
          name: z.string(),
          in: z.enum(['path', 'query', 'header']),
          required: z.boolean().optional(),
          schema: z.looseObject({}),
        }),
      )
      .optional(),
    requestBody: z
      .looseObject({
        content: z.object({ 'application/json': z.looseObject({ schema: z.looseObject({}) }) }),
      })
      .optional(),
    responses: z.record(
      z.string().regex(/^[2-5]\d\d$/),
      z.looseObject({
        description: z.string(),
        content: z.object({ 'application/json': z.looseObject({ schema: z.looseObject({}) }) }),
      }),
    ),
  })
  const whole = z.looseObject({
    openapi: z.string().regex(/^3\.1\.\d$/),
    info: z.looseObject({ title: z.string(), version: z.string(), description: z.string() }),
    servers: z.array(z.object({ url: z.url() })),
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

test('every reference leads somewhere, and every path parameter and tag is declared', () => {
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
})

test('it holds every route, and each route that it holds is there', async () => {
  const held = routes.map(({ method, path }) => `${method} ${path}`)
  expect(held.toSorted()).toEqual(expect.arrayContaining(INTERFACE))
  for (const { method, path } of routes) {
    const answer = await createClient(world.client.url, world.client.key).send(
      method,
      path.replace(/\{\w+\}/, 'x'),
    )
    expect([method, path, answer.body?.error?.code]).not.toEqual([method, path, 'route_not_found'])
  }
  // The router's own list, so that none is missing that was added without its literal.
  expect(held.every((route) => route.includes(' /v1/'))).toBe(true)
})

test('each route names its scope and the codes that it answers', async () => {
  for (const { method, path, operation, codes } of routes) {
    const scope = scopeOf(operation)
    const name = `${method} ${path}`
    expect([name, operation.description.includes('Needs a valid key and no scope.')]).toEqual([
      name,
      scope === null,
    ])
    expect([name, codes.includes('missing_scope')]).toEqual([name, scope !== null])
    expect([null, ...SCOPES]).toContain(scope)
    const expected = [
      'invalid_request',
      'unauthorized',
      'rate_limited',
      'misconfigured_gateway',
      'internal_error',
      'overloaded',
      'database_unavailable',
      ...(operation.requestBody ? ['payload_too_large', 'unsupported_media_type'] : []),
    ]
    expect([name, codes]).toEqual([name, expect.arrayContaining(expected)])
    expect([name, codes.some((code) => code.endsWith('_not_found'))]).toEqual([
      name,
      path.includes('{') || (path === '/v1/payments' && method === 'POST'),
    ])
    for (const code of codes) {
      expect(Object.keys(ERRORS)).toContain(code)
      const [status] = ERRORS[code as keyof typeof ERRORS]
      expect(operation.responses[status].description).toContain(`\`${code}\``)
    }
  }
})

test('the scope that a route names is the one that it needs', async () => {
  const nobody = await world.clientOf({ scopes: [] })
  for (const { method, path, operation } of routes) {
    const scope = scopeOf(operation)
    const answer = await nobody.send(method, path.replace(/\{\w+\}/, '0198f6f0-1234-7000-8000-123456789abc'))
    const missing = answer.status === 403 ? answer.body.error.message : null
    expect([path, missing]).toEqual([path, scope && `Missing scope: ${scope}`])
  }
})

test('answers are what the document says', async () => {
  const { client } = world
  const customer = (
    await client.post('/v1/customers', { idempotency_key: freshKey(), metadata: [null, { a: 1 }] })
  ).body
  const held = await heldPayment(client, { customer_id: customer.id, metadata: { a: 'b' } })
  const captured = await capturedPayment(client)
  const returned = (await refund(client, captured.id, { amount_minor: 100 })).body
  await drift(world, captured.id)
  const calls: [method: string, path: string, concrete: string, body?: object][] = [
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
    ['GET', '/v1/payments/{id}', `/v1/payments/${held.id}`],
    ['POST', '/v1/payments/{id}/capture', `/v1/payments/${held.id}/capture`],
    ['POST', '/v1/payments/{id}/capture', `/v1/payments/${held.id}/capture`],
    ['POST', '/v1/payments/{id}/cancel', `/v1/payments/${(await createPayment(client)).body.id}/cancel`],
    ['GET', '/v1/payments/{id}/timeline', `/v1/payments/${captured.id}/timeline`],
    [
      'POST',
      '/v1/payments/{id}/refunds',
      `/v1/payments/${captured.id}/refunds`,
      { idempotency_key: freshKey() },
    ],
    ['GET', '/v1/payments/{id}/refunds', `/v1/payments/${captured.id}/refunds`],
    ['GET', '/v1/refunds/{id}', `/v1/refunds/${returned.id}`],
    ['GET', '/v1/reconciliation', '/v1/reconciliation'],
    ['GET', '/v1/idempotency_keys/{key}', `/v1/idempotency_keys/${returned.idempotency_key}`],
  ]
  const reached = new Set<string>()
  for (const [method, path, concrete, body] of calls) {
    const route = routes.find((each) => each.method === method && each.path === path)!
    const answer = await client.send(method, concrete, {
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

test('a schema of the document would notice an answer that is not true to it', () => {
  const route = routes.find((each) => each.method === 'GET' && each.path === '/v1/customers')!
  for (const answer of [{}, [{ id: 'x' }], [null]])
    expect(schemaOf(document, route, 200).safeParse(answer).success).toBe(false)
})

test('errors point into the documentation, which is served by this host alone', async () => {
  const outside = createClient(world.client.url, '')
  const refused = await outside.get('/v1/customers')
  expect(refused.body.error.doc_url).toBe('https://api.example.com/docs#description/errors')
  const page = await outside.get('/docs')
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
    const script = await outside.get(url.pathname)
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

test('the host says that it is there, to anyone', async () => {
  const outside = createClient(world.client.url, '')
  const health = await outside.get('/healthz')
  expect([health.status, health.body]).toEqual([200, { status: 'ok' }])
  expect((await outside.get('/openapi.json')).headers.get('content-type')).toMatch(/^application\/json/)
})

function scopeOf(operation: { description: string }): string | null {
  return /Needs the scope `([^`]+)`\./.exec(operation.description)?.[1] ?? null
}
