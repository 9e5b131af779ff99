// Creates customers, compared with one INSERT.
import { freshKey } from '#test/client.ts'
import { runAlternately } from '../compare.ts'
import { closedLoop, openLoop, request } from '../load.ts'
import type { Key, System } from '../system.ts'
import { atLeast, cost, info } from '../table.ts'
import { peer, type Measure } from './measure.ts'

export const customers: Measure = {
  name: 'customers',
  about: 'POST /v1/customers against the durable floor, 64 connections',
  async guarded(system, cleanup) {
    const api = cleanup.use(await system.startProduct('api'))
    cleanup.use(await system.startProduct('worker'))
    const floor = cleanup.use(await durableFloor(system))
    const product = (seconds: number) => createCustomers(api.url, '/v1/customers', system.keys, seconds)
    return [{ name: 'Create customer', product, floor: floor.run }]
  },
  async run(system) {
    const { seconds, rounds } = system.options
    await using api = await system.startProduct('api')
    await using worker = await system.startProduct('worker')
    await using floor = await system.startFloor('insert')
    await using empty = await system.startFloor('empty')
    const create = (key: Key, run_s: number) => createCustomers(api.url, '/v1/customers', [key], run_s)
    const allTenants = (run_s: number) => createCustomers(api.url, '/v1/customers', system.keys, run_s)
    const insert = (run_s: number) =>
      createCustomers(String(floor.report['url']), '/customers', system.keys, run_s)
    const emptyRequests = (run_s: number) =>
      closedLoop({
        url: String(empty.report['url']),
        connections: 64,
        seconds: run_s,
        expect: 200,
        next: () => request('GET', '/'),
      })
    for (const warm of [allTenants, insert, emptyRequests]) await warm(Math.min(3, seconds))
    const results = await runAlternately(rounds, {
      floor: () => insert(seconds),
      product: () => allTenants(seconds),
      one: () => create(system.keys[0]!, seconds),
      replays: () => createWithReplays(api.url, system.keys, seconds),
      empty: () => emptyRequests(seconds),
    })
    void worker
    const row = { measure: 'customers', unit: 'req/s' } as const
    const durable = { name: 'durable floor', value: results.floor.rate }
    return [
      info({ ...row, name: 'Floor: Fastify, nothing else', measured: results.empty.rate }),
      info({ ...row, name: 'Durable floor: Fastify, zod, one INSERT', measured: results.floor.rate }),
      atLeast({ ...row, name: 'Create customer, 100 tenants', measured: results.product.rate }, durable, 0.5),
      atLeast({ ...row, name: 'Create customer, one tenant', measured: results.one.rate }, durable, 0.5),
      info(
        { ...row, name: 'Create customer, 20 % of the requests replays', measured: results.replays.rate },
        { name: 'without replays', value: results.product.rate },
      ),
      atLeast(
        { ...row, name: 'Of these new customers', measured: results.replays.rate * 0.8 },
        { name: 'without replays', value: results.product.rate },
        0.8,
      ),
      info(
        { ...row, name: 'Create customer, 100 tenants', measured: results.product.rate },
        peer('create_customer'),
      ),
      info(
        { ...row, unit: 'ms', name: 'Create customer, p99 at that rate', measured: results.product.p99_ms },
        {
          name: 'durable floor',
          value: results.floor.p99_ms,
        },
      ),
      cost({ ...row, name: 'Durable floor' }, results.floor),
      cost({ ...row, name: 'Create customer, 100 tenants' }, results.product, {
        ...results.floor,
        name: 'durable floor',
      }),
    ]
  },
}

/** Creates customers on 64 connections, with the same bytes for product and floor. */
async function createCustomers(url: string, path: string, keys: Key[], seconds: number) {
  let sent_count = 0
  const next = () => createCustomer(path, keys[sent_count++ % keys.length]!, freshKey())
  return await closedLoop({ url, connections: 64, seconds, expect: 201, next })
}

/** Creates customers, but every fifth request repeats an earlier request. */
async function createWithReplays(url: string, keys: Key[], seconds: number) {
  let sent_count = 0
  const sent: string[] = []
  return await closedLoop({
    url,
    connections: 64,
    seconds,
    expect: 201,
    next() {
      sent_count += 1
      // Repeats a request that was sent long ago, and so has been answered.
      const before = sent_count % 5 === 0 ? sent.at(-1000) : undefined
      if (before !== undefined) return before
      const fresh = createCustomer('/v1/customers', keys[sent_count % keys.length]!, freshKey())
      sent.push(fresh)
      return fresh
    },
  })
}

function createCustomer(path: string, { authorization }: Key, idempotency_key: string): string {
  return request(
    'POST',
    path,
    { authorization, 'content-type': 'application/json' },
    `{"idempotency_key":"${idempotency_key}","name":"Ada Lovelace","email":"${idempotency_key}@example.com","metadata":{"plan":"pro","seats":3}}`,
  )
}

/** The durable floor, for other measures. */
export async function durableFloor(system: System) {
  const floor = await system.startFloor('insert')
  const url = String(floor.report['url'])
  return {
    run: (seconds: number) => createCustomers(url, '/customers', system.keys, seconds),
    at(rate: number, seconds: number) {
      let sent_count = 0
      const next = () =>
        createCustomer('/customers', system.keys[sent_count++ % system.keys.length]!, freshKey())
      return openLoop({ url, connections: 64, seconds, rate, expect: 201, next })
    },
    [Symbol.asyncDispose]: () => floor.stop(),
  }
}
