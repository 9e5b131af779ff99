// Traces and callers: whose `traceparent` is followed, and what a caller can make a process record.
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freshKey, type Answer } from '#test/client.ts'
import { newCaller, type CollectedSpan } from '#test/collector.ts'
import { LOOPBACK, openHook, registerEndpoint } from '#test/deliveries.ts'
import { until, type Process } from '#test/process.ts'
import { createTracedDeployment, type TracedDeployment } from '#test/traced-deployment.ts'

const NOBODY = { TRACES_TRUSTED_CALLERS: '192.0.2.0/24' }
const CONCURRENT_REQUESTS = 50

let deployment: TracedDeployment

beforeAll(async () => {
  deployment = await createTracedDeployment({ webhooks: true, env: LOOPBACK })
  return () => deployment.close()
})

describe('callers that are not trusted', () => {
  test('50 concurrent requests with the sampled flag are batched as those without a header', async () => {
    const api = await startApi({
      ...NOBODY,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
      TRACES_PER_SECOND: '1000',
    })
    const statementsOf = async (headers: () => Record<string, string>) => {
      const before = await countStatements(api, 'create_customer')
      const answers = await Promise.all(
        Array.from({ length: CONCURRENT_REQUESTS }, () => createCustomer(headers())),
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
      return (await countStatements(api, 'create_customer')) - before
    }
    expect(await statementsOf(() => ({}))).toBeLessThan(CONCURRENT_REQUESTS / 2)
    expect(await statementsOf(() => newCaller().headers)).toBeLessThan(CONCURRENT_REQUESTS / 2)
    const stored = await deployment.sql`select from events where trace_context is not null`
    expect(stored).toHaveLength(0)
  })

  test('a sampled request begins a trace of its own, with a link to the span of the caller', async () => {
    await startApi({ ...NOBODY, OTEL_TRACES_SAMPLER_ARG: '1' })
    const hook = await openHook(() => 204)
    onTestFinished(() => hook.close())
    await registerEndpoint(deployment.client, { url: hook.url, types: ['customer.created'] })
    const worker = await deployment.startWorker()
    onTestFinished(async () => void (await worker.end()))
    for (const flags of ['01', '00']) {
      const caller = newCaller(flags)
      const headers = {
        ...caller.headers,
        tracestate: 'vendor=planted-state',
        baggage: 'user=planted-baggage',
      }
      const { body } = await createCustomer(headers)
      const request = await spanLinkedTo(`${caller.trace_id}-${caller.span_id}`)
      expect(request).toMatchObject({ name: 'POST /v1/customers', parent_id: '', trace_states: [] })
      expect(request.trace_id).not.toBe(caller.trace_id)
      const delivered = await until('the event', () =>
        hook.arrived.find(({ body: event }) => event.data.id === body.id),
      )
      expect(delivered.headers['traceparent']).toContain(`00-${request.trace_id}-`)
      expect(delivered.headers).not.toHaveProperty('tracestate')
      expect(delivered.headers).not.toHaveProperty('baggage')
      expect(deployment.collector.spans.filter(({ trace_id }) => trace_id === caller.trace_id)).toEqual([])
    }
  })
})

test('behind a proxy, callers are trusted by the address that the proxy reports', async () => {
  await startApi({
    TRUSTED_PROXIES: '127.0.0.1',
    TRACES_TRUSTED_CALLERS: '198.51.100.0/24,2001:db8::/32',
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
  })
  const [stranger, ...trusted] = await Promise.all(
    ['203.0.113.9', '198.51.100.7', '2001:db8::7', '::ffff:198.51.100.8'].map(async (address) => {
      const caller = newCaller()
      await createCustomer({ ...caller.headers, 'x-forwarded-for': address })
      return caller
    }),
  )
  for (const { trace_id, span_id } of trusted)
    expect(await spanOf(trace_id)).toMatchObject({
      name: 'POST /v1/customers',
      parent_id: span_id,
      links: [],
    })
  expect(deployment.collector.spans.filter(({ trace_id }) => trace_id === stranger!.trace_id)).toEqual([])
})

test('in production no caller is trusted by default', async () => {
  await startApi({
    NODE_ENV: 'production',
    ALLOW_EMULATORS: '1',
    OTEL_TRACES_SAMPLER: 'parentbased_always_on',
  })
  const { headers, trace_id, span_id } = newCaller()
  await createCustomer(headers)
  expect(await spanLinkedTo(`${trace_id}-${span_id}`)).toMatchObject({ parent_id: '' })
})

test('requests without valid credentials have no spans', async () => {
  await startApi()
  const { client, webhooks } = deployment
  const caller = newCaller()
  const refused = [
    await client.get('/v1/customers', { ...caller.headers, authorization: 'Bearer sk_guessed' }),
    await client.send('GET', '/openapi.json', { headers: { ...caller.headers, authorization: '' } }),
    await client.get('/healthz', caller.headers),
    await webhooks.post('/stripe', {}, { ...caller.headers, 'stripe-signature': 't=1,v1=00' }),
    await webhooks.post('/email', {}, caller.headers),
  ]
  expect(refused.map(({ status }) => status)).toEqual([401, 200, 200, 400, 400])
  // A request that is traced shows that the spans of earlier requests have arrived.
  const authenticated = newCaller()
  await createCustomer(authenticated.headers)
  await spanOf(authenticated.trace_id)
  expect(deployment.collector.spans.filter(({ trace_id }) => trace_id === caller.trace_id)).toEqual([])
  const names = deployment.collector.spans.map(({ name }) => name)
  expect(names.filter((name) => /openapi|healthz|stripe|email/.test(name))).toEqual([])
})

test('a process begins a bounded number of traces a second, and reports the others', async () => {
  const api = await startApi({ TRACES_PER_SECOND: '2' })
  const callers = Array.from({ length: CONCURRENT_REQUESTS }, () => newCaller())
  const answers = await Promise.all(callers.map(({ headers }) => createCustomer(headers)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  await api.waitForLine('TRACES_PER_SECOND: more than 2 traces a second are sampled')
  const limited = await readMetric(api, /^sluice_trace_spans_dropped_total\{reason="limited"\} (\d+)/m)
  expect(limited).toBeGreaterThan(CONCURRENT_REQUESTS / 2)
  await api.end('SIGTERM')
  const traced = new Set(callers.map(({ trace_id }) => trace_id))
  const requests = deployment.collector.spans.filter(
    ({ trace_id, name }) => traced.has(trace_id) && name === 'POST /v1/customers',
  )
  expect(requests).toHaveLength(CONCURRENT_REQUESTS - limited)
})

async function startApi(env: Record<string, string> = {}): Promise<Process> {
  const api = await deployment.startApi(env)
  onTestFinished(async () => void (await api.end()))
  return api
}

async function createCustomer(headers: Record<string, string>): Promise<Answer> {
  return await deployment.client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' }, headers)
}

async function spanOf(id: string): Promise<CollectedSpan> {
  return await until('the span of the request', () =>
    deployment.collector.spans.find(({ trace_id, kind }) => trace_id === id && kind === 'server'),
  )
}

async function spanLinkedTo(link: string): Promise<CollectedSpan> {
  return await until('the span with the link', () =>
    deployment.collector.spans.find(({ links }) => links.includes(link)),
  )
}

async function readMetric(process: Process, pattern: RegExp): Promise<number> {
  const { url } = JSON.parse(await process.waitForLine('/metrics and /readyz listen')) as { url: string }
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(pattern.exec(text)?.[1] ?? 0)
}

async function countStatements(process: Process, step: string): Promise<number> {
  return await readMetric(
    process,
    new RegExp(`^sluice_statement_seconds_count\\{step="${step}"\\} (\\d+)`, 'm'),
  )
}
