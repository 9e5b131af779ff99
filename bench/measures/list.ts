// Lists the customers of a tenant with a million: the first page and the ten-thousandth, compared with a bare SELECT.
import { runAlternately } from '../compare.ts'
import { closedLoop, request } from '../load.ts'
import type { System } from '../system.ts'
import { atLeast, cost, info } from '../table.ts'
import { peer, type Measure } from './measure.ts'

const PAGE = 25

export const list: Measure = {
  name: 'list',
  about: 'GET /v1/customers?limit=25 of 1,000,000 rows, page 1 and page 10,000, against a bare SELECT',
  async run(system) {
    const { seconds, rounds, rows } = system.options
    const deep = Math.min(10_000, Math.floor(rows / PAGE / 2))
    const key = system.keys[0]!
    const before = await fillTenant(system, key.tenant_id, rows, deep)
    await using api = await system.startProduct('api')
    await using floor = await system.startFloor('select', {
      DATABASE_URL: system.database_url,
      TENANT_ID: key.tenant_id,
    })
    const read = (url: string, path: string) => {
      const bytes = request('GET', path, { authorization: key.authorization })
      return (run_s: number) =>
        closedLoop({ url, connections: 64, seconds: run_s, expect: 200, next: () => bytes })
    }
    const cursor = encodeURIComponent(before)
    const first = read(api.url, `/v1/customers?limit=${PAGE}`)
    const last = read(api.url, `/v1/customers?limit=${PAGE}&before=${cursor}`)
    const bareFirst = read(String(floor.report['url']), '/customers')
    const bareLast = read(String(floor.report['url']), `/customers?before=${cursor}`)
    for (const warm of [first, last, bareFirst, bareLast]) await warm(Math.min(2, seconds))
    const results = await runAlternately(rounds, {
      bareFirst: () => bareFirst(seconds),
      first: () => first(seconds),
      bareLast: () => bareLast(seconds),
      last: () => last(seconds),
    })
    const row = { measure: 'list', unit: 'req/s' } as const
    const page = (n: number) => `page ${n.toLocaleString('en-US')}`
    const bare = (value: number) => ({ name: 'a bare SELECT', value })
    return [
      info({ ...row, name: 'Floor: a bare SELECT, page 1', measured: results.bareFirst.rate }),
      atLeast(
        { ...row, name: 'List customers, page 1', measured: results.first.rate },
        bare(results.bareFirst.rate),
        0.5,
      ),
      atLeast(
        { ...row, name: `List customers, ${page(deep)}`, measured: results.last.rate },
        bare(results.bareLast.rate),
        0.5,
      ),
      atLeast(
        { ...row, name: `List customers, ${page(deep)}`, measured: results.last.rate },
        { name: 'page 1', value: results.first.rate },
        0.95,
      ),
      info({ ...row, name: 'List customers, page 1', measured: results.first.rate }, peer('list')),
      cost({ ...row, name: 'List customers, page 1' }, results.first, {
        ...results.bareFirst,
        name: 'a bare SELECT',
      }),
      cost({ ...row, name: `List customers, ${page(deep)}` }, results.last, {
        ...results.bareLast,
        name: 'a bare SELECT',
      }),
    ]
  },
}

/** Creates `rows` customers, a millisecond apart. Returns the cursor of page `deep`. */
async function fillTenant(system: System, tenant_id: string, rows: number, deep: number): Promise<string> {
  const { sql, options } = system
  options.log(`writing ${rows.toLocaleString('en-US')} customers`)
  await sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`
    await tx`
      insert into customers (tenant_id, id, idempotency_key, name, email, metadata, created_at)
      select ${tenant_id}, gen_random_uuid(), 'bulk-' || n, 'Ada Lovelace', 'bulk-' || n || '@example.com', '{"plan": "pro", "seats": 3}',
        timestamptz '2020-01-01' + n * interval '1 millisecond'
      from generate_series(1, ${rows}::integer) n`
  })
  await sql`vacuum (analyze) customers`
  const [row] = await sql<{ created_at: string }[]>`
    select created_at from customers where tenant_id = ${tenant_id} order by created_at desc offset ${(deep - 1) * PAGE} limit 1`
  return row!.created_at
}
