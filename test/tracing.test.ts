// Traces: the spans of real processes, as a collector of OpenTelemetry receives them.
import { createServer, request as forward, type IncomingHttpHeaders } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { authorize, type Authorized } from '#test/captures.ts'
import { BY_CARD, freshKey, type Client } from '#test/client.ts'
import { newCaller, type Caller, type CollectedSpan, type Collector } from '#test/collector.ts'
import { LOOPBACK, openHook, registerEndpoint, type TestHook } from '#test/deliveries.ts'
import { hasOpenWork } from '#test/open-work.ts'
import { until, type Process } from '#test/process.ts'
import { listening } from '#test/receiver.ts'
import { operationsUrlOf } from '#test/served-metrics.ts'
import { createTracedDeployment, type TracedDeployment } from '#test/traced-deployment.ts'

/** Each request whose caller sends a sampled `traceparent` is traced, and no other. */
const CALLERS_DECIDE = { OTEL_TRACES_SAMPLER: 'parentbased_always_off', TRACES_PER_SECOND: '1000' }

describe('with a collector', () => {
  let collector: Collector
  let deployment: TracedDeployment
  let hook: TestHook
  let api: Process
  let worker: Process
  const stripe_headers: IncomingHttpHeaders[] = []
  let stripe: { url: string; close(): void }

  beforeAll(async () => {
    hook = await openHook((nth, { body }) => (nth === 0 && body.type === 'customer.created' ? 500 : 204))
    deployment = await createTracedDeployment({
      env: {
        ...LOOPBACK,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-token=a%20b',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
        WEBHOOK_RETRY_SCHEDULE_S: '0,0.1',
      },
    })
    collector = deployment.collector
    stripe = await recordHeaders(deployment.provider('stripe').url, stripe_headers)
    api = await deployment.startApi(CALLERS_DECIDE)
    worker = await deployment.startWorker({ STRIPE_API_BASE: stripe.url })
    await registerEndpoint(deployment.client, {
      url: `${hook.url}/url-secret-1`,
      types: ['payment.captured', 'customer.created'],
    })
  })
  afterAll(async () => {
    await deployment?.close()
    stripe?.close()
    await hook?.close()
  })

  test('one trace shows a capture from its request to its delivery', async () => {
    const payment = await authorize(deployment)
    const caller = newCaller()
    const answer = await captureFrom(deployment.client, payment, caller)
    expect(answer.body).toMatchObject({ status: 'captured' })
    const spans = await traceWith(caller.trace_id, 'settle_delivery')

    const request = only(spans, 'POST /v1/payments/:id/capture')
    expect(request).toMatchObject({
      parent_id: caller.span_id,
      kind: 'server',
      service: { 'service.name': 'sluice-api', 'deployment.environment.name': 'test' },
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/payments/:id/capture',
        'http.response.status_code': 200,
        'sluice.tenant_id': deployment.tenant_id,
      },
      failed: false,
    })
    expect(collector.requests[0]).toMatchObject({
      'x-token': 'a b',
      'content-type': 'application/x-protobuf',
    })
    const job = only(spans, 'process payments')
    const delivery = only(spans, 'process deliveries')
    const parents: [name: string, kind: CollectedSpan['kind'], parent: CollectedSpan][] = [
      ['request_capture', 'client', request],
      ['send payments', 'producer', request],
      ['process payments', 'consumer', request],
      ['stripe capture', 'client', job],
      ['settle_payment', 'client', job],
      ['sequence event', 'internal', job],
      ['process deliveries', 'consumer', job],
      ['load_delivery', 'client', delivery],
      ['POST', 'client', delivery],
      ['settle_delivery', 'client', delivery],
    ]
    for (const [name, kind, { span_id: parent_id }] of parents)
      expect(only(spans, name), name).toMatchObject({ kind, parent_id, failed: false, links: [] })
    const claims = spans.filter(({ name }) => name === 'claim').map(({ parent_id }) => parent_id)
    expect(claims.toSorted()).toEqual([job.span_id, delivery.span_id].toSorted())
    expect(only(spans, 'request_capture').attributes).toEqual({
      'db.system.name': 'postgresql',
      'db.query.summary': 'request_capture',
    })
    expect(job).toMatchObject({
      service: { 'service.name': 'sluice-worker' },
      attributes: {
        'messaging.system': 'bullmq',
        'messaging.operation.type': 'process',
        'messaging.destination.name': 'payments',
        'sluice.job.name': 'payment.capture',
        'sluice.job.attempt': 1,
        'sluice.job.outcome': 'done',
      },
    })
    expect(only(spans, 'POST').attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.response.status_code': 204,
      'server.address': '127.0.0.1',
    })
    for (const { started_at, ended_at } of spans) expect(ended_at).toBeGreaterThanOrEqual(started_at)

    // The receiver continues the trace; the provider gets no `traceparent`.
    const sent = hook.arrived.find(({ body }) => body.type === 'payment.captured')!
    expect(sent.headers['traceparent']).toBe(`00-${caller.trace_id}-${only(spans, 'POST').span_id}-01`)
    expect(stripe_headers.length).toBeGreaterThan(1)
    for (const headers of stripe_headers) expect(Object.keys(headers).join()).not.toMatch(/trace|baggage/)
    // The log and the exemplars of the metrics lead to the trace.
    for (const [process, text] of [
      [api, '"answered"'],
      [worker, 'an attempt ended'],
    ] as const)
      expect(process.output()).toMatch(new RegExp(`"trace_id":"${caller.trace_id}".*${text}`))
    for (const [process, names] of [
      [api, ['sluice_http_request_seconds']],
      [worker, ['sluice_provider_call_seconds', 'sluice_job_run_seconds', 'sluice_job_wait_seconds']],
    ] as const) {
      const { text, type } = await metricsOf(process)
      expect(type).toMatch(/^application\/openmetrics-text/)
      expect(text).toMatch(/\n# EOF\n$/)
      for (const name of names) expect(text).toMatch(exemplarOf(name, caller.trace_id))
      const plain = await metricsOf(process, 'text/plain; version=0.0.4')
      expect(plain.type).toMatch(/^text\/plain; version=0\.0\.4/)
      expect(plain.text).not.toMatch(/ # \{|# EOF/)
      expect(plain.text).toMatch(
        /^# HELP process_cpu_seconds_total .*\n# TYPE process_cpu_seconds_total counter\n/m,
      )
      for (const [, name] of plain.text.matchAll(/^# TYPE (\S+) counter$/gm)) expect(name).toMatch(/_total$/)
    }
  })

  test('a later attempt begins a trace with a link to the trace of the request', async () => {
    const payment = await authorize(deployment)
    await deployment.provider('stripe').fault({
      match: { method: 'POST', path: `^/v1/payment_intents/${payment.reference}/capture$` },
      fault: 'drop_before',
    })
    const caller = newCaller()
    expect((await captureFrom(deployment.client, payment, caller)).body).toMatchObject({ status: 'captured' })
    const first = await traceWith(caller.trace_id, 'settle_job')
    expect(only(first, 'process payments')).toMatchObject({
      failed: true,
      attributes: { 'error.type': 'ambiguous', 'sluice.job.attempt': 1 },
    })
    const request = only(first, 'POST /v1/payments/:id/capture')
    const later = await linkedTo(collector, request, 'process payments')
    expect(later).toMatchObject({ parent_id: '', attributes: { 'sluice.job.attempt': 2 } })
    expect(later.trace_id).not.toBe(caller.trace_id)
    const continued = await traceWith(later.trace_id, 'settle_delivery')
    for (const name of ['stripe capture', 'settle_payment', 'process deliveries'])
      expect(only(continued, name).parent_id).toBe(later.span_id)
  })

  test('a later attempt at a delivery begins a trace with a link to the earlier attempt', async () => {
    const caller = newCaller()
    const customer = { idempotency_key: freshKey(), name: 'Ada' }
    expect((await deployment.client.post('/v1/customers', customer, caller.headers)).status).toBe(201)
    const spans = await traceWith(caller.trace_id, 'settle_delivery')
    const first = only(spans, 'process deliveries')
    expect(first.parent_id).toBe(only(spans, 'POST /v1/customers').span_id)
    expect(only(spans, 'POST')).toMatchObject({ failed: true, attributes: { 'error.type': '500' } })
    const later = await linkedTo(collector, first, 'process deliveries')
    expect(later).toMatchObject({ parent_id: '' })
    await traceWith(later.trace_id, 'settle_delivery')
    const sent = hook.arrived.filter(({ body }) => body.type === 'customer.created')
    expect(sent.map(({ headers }) => headers['traceparent']?.split('-')[1])).toEqual([
      caller.trace_id,
      later.trace_id,
    ])
  })

  test('no span contains an amount, an address, a text, a card, a URL or a secret', async () => {
    const { client, env } = deployment
    const caller = newCaller()
    const planted = {
      amount: '987653',
      name: 'Ada-Planted',
      email: 'planted@customers.example',
      phone: '+12025550187',
      text: 'planted-text',
      card: 'pm_card_visa',
      path: 'url-secret-2',
      header: 'header-secret-3',
      query: 'return-secret-4',
      key: 'key-planted-5',
      card_number: '4242424242424242',
    }
    const post = async (path: string, body: object) =>
      await client.post(
        path,
        { idempotency_key: freshKey(), ...body },
        { ...caller.headers, prefer: 'wait=30' },
      )
    await registerEndpoint(client, {
      url: `${hook.url}/${planted.path}?token=${planted.query}`,
      headers: { 'x-receiver': planted.header },
    })
    const { name, email, phone, text, card } = planted
    const { body: customer } = await post('/v1/customers', { name, email, phone, metadata: { text } })
    const answers = [
      await post('/v1/payments', {
        idempotency_key: planted.key,
        amount_minor: Number(planted.amount),
        currency: 'USD',
        method: 'card',
        payment_method: card,
        customer_id: customer.id,
        description: text,
        return_url: `https://shop.example/?secret=${planted.query}`,
      }),
      await post('/v1/payments', { amount_minor: -1, description: text, card: planted.card_number }),
      await post('/v1/messages/email', { to: [email], subject: text, text }),
      await post('/v1/messages/sms', { to: phone, body: text }),
      await client.get(`/v1/customers?email=${email}`, caller.headers),
      await client.get(`/v1/payments/${planted.key}`, caller.headers),
      await client.post(
        '/v1/customers',
        {},
        { ...caller.headers, authorization: `Bearer ${planted.header}` },
      ),
    ]
    expect(answers.map(({ status }) => status)).toEqual([201, 400, 201, 201, 200, 400, 401])
    await until('all work is done', async () => !(await hasOpenWork(deployment.sql, 5)))
    await Promise.all([api.end('SIGTERM'), worker.end('SIGTERM')])
    api = await deployment.startApi(CALLERS_DECIDE)
    worker = await deployment.startWorker({ STRIPE_API_BASE: stripe.url })

    const spans = collector.spans.filter(({ trace_id }) => trace_id === caller.trace_id)
    const names = new Set(spans.map((span) => span.name))
    for (const each of ['smtp send', 'twilio send', 'POST', 'POST /v1/customers', 'settle_message'])
      expect([...names].join()).toContain(each)
    const exported = JSON.stringify(collector.spans, (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    )
    const secrets = {
      ...planted,
      api_key: client.key,
      encryption: env['ENCRYPTION_KEY']!,
      hook: 'url-secret-1',
    }
    for (const [what, value] of Object.entries(secrets)) expect(exported.includes(value), what).toBe(false)
    expect(exported).not.toContain(deployment.provider('stripe').api_key)
  })

  test('requests that are batched together keep their traces apart', async () => {
    const { client, sql } = deployment
    const paid = await Promise.all(
      Array.from({ length: 60 }, async (_, nth) => {
        const caller = newCaller(nth % 3 === 0 ? '01' : '00')
        const body = { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey() }
        const answer = await client.post('/v1/payments', body, { ...caller.headers, prefer: 'wait=30' })
        expect(answer.body).toMatchObject({ status: 'authorized' })
        return { id: answer.body.id as string, trace_id: nth % 3 === 0 ? caller.trace_id : null }
      }),
    )
    const stored = await sql<{ row: string }[]>`
      select concat_ws(' ', resource_id, 'job', split_part(trace_context, '-', 2)) as row
      from jobs where resource_id = any(${paid.map(({ id }) => id)}::uuid[])
      union all
      select concat_ws(' ', subject_id, type, split_part(trace_context, '-', 2))
      from events where subject_id = any(${paid.map(({ id }) => id)}::uuid[])`
    const expected = paid.flatMap(({ id, trace_id }) =>
      ['job', 'payment.created', 'payment.authorized'].map((what) =>
        [id, what, ...(trace_id === null ? [] : [trace_id])].join(' '),
      ),
    )
    expect(stored.map(({ row }) => row).toSorted()).toEqual(expected.toSorted())
  })

  test('a request that is not sampled has no spans, and its rows have no trace', async () => {
    const payment = await authorize(deployment)
    const caller = newCaller('00')
    await captureFrom(deployment.client, payment, caller)
    const malformed = { traceparent: `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01` }
    expect((await deployment.client.get('/v1/payments', malformed)).status).toBe(200)
    await until('all work is done', async () => !(await hasOpenWork(deployment.sql, 5)))
    const [rows] = await deployment.sql<{ jobs: number; events: number }[]>`
      select (select count(*) from jobs where resource_id = ${payment.payment_id} and trace_context is not null) as jobs,
        (select count(*) from events where subject_id = ${payment.payment_id} and trace_context is not null) as events`
    expect(rows).toEqual({ jobs: 0, events: 0 })
    // A traced request shows that the spans of earlier requests have arrived.
    const next = newCaller()
    await deployment.client.get('/v1/payments', next.headers)
    await traceWith(next.trace_id, 'GET /v1/payments')
    expect(collector.spans.filter(({ trace_id }) => trace_id === caller.trace_id)).toEqual([])
  })

  /** The spans of a trace, after a span with this name has arrived. A process exports its spans every second. */
  async function traceWith(trace_id: string, name: string): Promise<CollectedSpan[]> {
    const spans = () => collector.spans.filter((span) => span.trace_id === trace_id)
    await until(`the span ${name}`, () => spans().some((span) => span.name === name))
    // Parents end after their children.
    return await until('the parents of all spans', () => {
      const ids = new Set(spans().map(({ span_id }) => span_id))
      const missing = spans().filter(({ parent_id }) => parent_id !== '' && !ids.has(parent_id))
      return missing.length <= 1 && spans()
    })
  }
})

describe('with a collector that hangs', () => {
  test('requests are answered, spans are dropped and counted, and the process ends on a signal', async () => {
    await using deployment = await createTracedDeployment({
      env: { TRACES_PER_SECOND: '100000', RATE_LIMIT_BURST: '1000000' },
    })
    const { collector } = deployment
    collector.hang()
    const api = await deployment.startApi()
    const statuses = new Set<number>()
    const send = async () => {
      for (let nth = 0; nth < 20; nth++) statuses.add((await deployment.client.get('/v1/payments')).status)
    }
    const isFull = async () => {
      await Promise.all(Array.from({ length: 40 }, send))
      const { text } = await metricsOf(api)
      return /^sluice_trace_spans_dropped_total\{reason="full"\} [1-9]/m.test(text)
    }
    await until('the spans that wait are too many', isFull, 120_000)
    expect(statuses).toEqual(new Set([200]))
    expect(collector.requests.length).toBeGreaterThan(0)
    expect(await api.end('SIGTERM')).toEqual({ code: 0, signal: null })
  })
})

test('a notification begins a trace with a link to the trace of the request', async () => {
  await using deployment = await createTracedDeployment({ webhooks: true })
  const { collector } = deployment
  await deployment.startApi(CALLERS_DECIDE)
  await deployment.startWorker()
  const callers = new Set<string>()
  // A link that is not found within 100 ms is left out, as on a busy machine: several payments are made.
  const notified = await until('a notification with a link', async () => {
    const { headers, trace_id } = newCaller()
    callers.add(trace_id)
    const body = { ...BY_CARD, amount_minor: 1000, idempotency_key: freshKey() }
    const answer = await deployment.client.post('/v1/payments', body, { ...headers, prefer: 'wait=30' })
    expect(answer.status).toBe(201)
    const requests = collector.spans.filter(
      (span) => span.name === 'POST /v1/payments' && callers.has(span.trace_id),
    )
    const links = new Set(requests.map((span) => `${span.trace_id}-${span.span_id}`))
    return collector.spans.find(
      (span) => span.name === 'POST /stripe' && span.links.some((link) => links.has(link)),
    )
  })
  expect(notified).toMatchObject({
    parent_id: '',
    kind: 'server',
    service: { 'service.name': 'sluice-webhooks' },
  })
})

async function captureFrom(client: Client, { payment_id }: Authorized, caller: Caller) {
  const body = { idempotency_key: freshKey() }
  return await client.post(`/v1/payments/${payment_id}/capture`, body, {
    ...caller.headers,
    prefer: 'wait=30',
  })
}

function only(spans: CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name)
  expect(
    found.length,
    `${name} among ${spans
      .map((span) => span.name)
      .toSorted()
      .join(', ')}`,
  ).toBe(1)
  return found[0]!
}

/** `accept`: by default what Prometheus sends. */
async function metricsOf(
  process: Process,
  accept = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1',
): Promise<{ text: string; type: string | null }> {
  const answer = await fetch(`${await operationsUrlOf(process)}/metrics`, { headers: { accept } })
  return { text: await answer.text(), type: answer.headers.get('content-type') }
}

function exemplarOf(metric: string, trace_id: string): RegExp {
  return new RegExp(`^${metric}_bucket\\{.*\\} \\d+ # \\{trace_id="${trace_id}"\\}`, 'm')
}

/** A server that forwards to `target` and records the headers of the requests. */
async function recordHeaders(target: string, headers: IncomingHttpHeaders[]) {
  const server = createServer((request, response) => {
    headers.push(request.headers)
    const { method, url = '/', headers: sent } = request
    const forwarded = forward(`${target}${url}`, { method, headers: sent }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    forwarded.on('error', () => response.destroy())
    request.pipe(forwarded)
  })
  const port = await listening(server)
  return { url: `http://127.0.0.1:${port}`, close: () => server.close().closeAllConnections() }
}

/** Resolves with the span of this name that has a link to the span `to`. */
async function linkedTo({ spans }: Collector, to: CollectedSpan, name: string): Promise<CollectedSpan> {
  const link = `${to.trace_id}-${to.span_id}`
  return await until(`a span ${name} with a link`, () =>
    spans.find((span) => span.name === name && span.links.includes(link)),
  )
}
