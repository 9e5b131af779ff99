// Lists are newest first, and have an exact cursor, filters and strict parameters.
import { expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { testIn } from '#test/world.ts'

const test = testIn({ parts: ['api'] })

/** Reads all pages: `before` is the `created_at` of the last item. */
async function readAllPages(
  client: Client,
  limit: number,
  filter = '',
): Promise<{ id: string; created_at: string }[]> {
  const all: { id: string; created_at: string }[] = []
  for (let before = ''; ;) {
    const page = await client.get(`/v1/customers?limit=${limit}${filter}${before}`)
    expect(page.status).toBe(200)
    all.push(...page.body)
    if (page.body.length < limit) return all
    before = `&before=${encodeURIComponent(page.body.at(-1).created_at)}`
  }
}

function expectOnceNewestFirst(items: { id: string; created_at: string }[], count: number): void {
  expect(items).toHaveLength(count)
  expect(new Set(items.map(({ id }) => id)).size).toBe(count)
  const times = items.map(({ created_at }) => created_at)
  expect(times).toEqual(times.toSorted().toReversed())
  expect(new Set(times).size).toBe(count)
}

test('1,000 rows of one transaction appear once each in pages of 7, newest first', async ({ world }) => {
  const client = await world.clientOf()
  await world.sql`
    insert into customers (tenant_id, id, idempotency_key)
    select ${client.tenant_id}, gen_random_uuid(), 'bulk-' || n from generate_series(1, 1000) n`
  const items = await readAllPages(client, 7)
  expect(items).toHaveLength(1000)
  expectOnceNewestFirst(items, 1000)
})

test('1,000 customers created concurrently appear once each in pages of 7', async ({ world }) => {
  const client = await world.clientOf()
  const answers = await Promise.all(
    Array.from({ length: 1000 }, () => client.post('/v1/customers', { idempotency_key: freshKey() })),
  )
  expect(answers.map(({ status }) => status).filter((status) => status !== 201)).toEqual([])
  const items = await readAllPages(client, 7)
  expectOnceNewestFirst(items, 1000)
  expect(new Set(items.map(({ id }) => id))).toEqual(new Set(answers.map(({ body }) => body.id)))
})

test('rows that are created during paging neither hide nor repeat other rows', async ({ world }) => {
  const client = await world.clientOf()
  const first: string[] = []
  for (let i = 0; i < 20; i++)
    first.push((await client.post('/v1/customers', { idempotency_key: freshKey() })).body.id)
  const writing = Promise.all(
    Array.from({ length: 100 }, () => client.post('/v1/customers', { idempotency_key: freshKey() })),
  )
  const seen = (await readAllPages(client, 3)).map(({ id }) => id)
  await writing
  expect(seen.filter((id) => first.includes(id))).toEqual(first.toReversed())
})

test('a full page links to the next page, and the last page does not', async ({ world }) => {
  const client = await world.clientOf()
  for (let i = 0; i < 5; i++)
    await client.post('/v1/customers', { idempotency_key: freshKey(), external_id: 'a b&c', name: String(i) })
  const names: string[] = []
  let path = '/v1/customers?external_id=a%20b%26c&limit=2'
  for (let pages = 0; pages < 10; pages++) {
    const page = await client.get(path)
    names.push(...page.body.map(({ name }: { name: string }) => name))
    const link = page.headers.get('link')
    if (link === null) break
    path = /^<(.+)>; rel="next"$/.exec(link)![1]!
    expect(path).toContain('limit=2')
  }
  expect(names).toEqual(['4', '3', '2', '1', '0'])
})

test('a page has 25 items by default, and its limit can be 1 to 100', async ({ world }) => {
  const client = await world.clientOf()
  await world.sql`
    insert into customers (tenant_id, id, idempotency_key)
    select ${client.tenant_id}, gen_random_uuid(), 'bulk-' || n from generate_series(1, 130) n`
  for (const [query, length] of [
    ['', 25],
    ['?limit=1', 1],
    ['?limit=100', 100],
  ] as const) {
    expect((await client.get(`/v1/customers${query}`)).body).toHaveLength(length)
  }
})

test('the filters email and external_id match exactly, alone and together', async ({ world }) => {
  const client = await world.clientOf()
  const create = async (email: string | null, external_id: string | null) =>
    (await client.post('/v1/customers', { idempotency_key: freshKey(), email, external_id })).body.id
  const a = await create('ada@example.com', 'x')
  const b = await create('ada@example.com', 'y')
  const c = await create('Ada@Example.com', 'x')
  const d = await create('ada+tag@example.com', "o'brien%")
  await create(null, null)
  for (const [query, ids] of [
    ['email=ada@example.com', [b, a]],
    ['email=Ada@Example.com', [c]],
    ['email=ada%2Btag@example.com', [d]],
    ['email=ada%25', []],
    ['external_id=x', [c, a]],
    ["external_id=o'brien%25", [d]],
    ['external_id=x&email=ada@example.com', [a]],
    ['email=', []],
    ['email=nobody@example.com', []],
  ] as const) {
    const page = await client.get(`/v1/customers?${query}`)
    expect([query, page.body.map(({ id }: { id: string }) => id)]).toEqual([query, ids])
  }
  expect((await readAllPages(client, 1, '&email=ada@example.com')).map(({ id }) => id)).toEqual([b, a])
})

test('a cursor denotes the same moment if its time has a UTC offset or a different number of fractional digits', async ({
  world,
}) => {
  const client = await world.clientOf()
  const { body } = await client.post('/v1/customers', { idempotency_key: freshKey() })
  const east = new Date(Date.parse(body.created_at) + 3_600_000).toISOString().slice(0, 19)
  const sameMoment = `${east}.${body.created_at.slice(20, 26)}+01:00`
  expect((await client.get(`/v1/customers?before=${encodeURIComponent(sameMoment)}`)).body).toEqual([])
  // Further digits are truncated to the precision of `created_at`.
  for (const more of ['0', '999', '123456789012'])
    expect(
      (await client.get(`/v1/customers?before=${body.created_at.replace('Z', `${more}Z`)}`)).body,
    ).toEqual([])
  const later = body.created_at.replace(/\.(\d{6})Z/, '.9999999Z')
  expect(
    (await client.get(`/v1/customers?created_from=${body.created_at.slice(0, 21)}Z&created_to=${later}`))
      .body,
  ).toHaveLength(1)
  expect((await client.get('/v1/customers?before=9999-12-31T23:59:59Z')).body).toHaveLength(1)
  expect((await client.get('/v1/customers?before=0001-01-01T00:00:00.0-15:59')).body).toEqual([])
})

test('a + in a query is refused in every filter, and the error names %2B and %20', async ({ world }) => {
  for (const [path, param] of [
    ['/v1/customers?email=a+b@x.example', 'email'],
    ['/v1/customers?external_id=a+b', 'external_id'],
    ['/v1/customers?before=2026-01-01T00:00:00+02:00', 'before'],
    ['/v1/payments?limit=5&created_from=2026-01-01T00:00:00.123+02:00', 'created_from'],
    ['/v1/payments?metadata[size]=a+b', 'metadata[size]'],
    ['/v1/messages?to=+4915112345678', 'to'],
    ['/v1/messages?from=+4915112345678', 'from'],
    ['/v1/messages?a+b=1', 'query'],
  ] as const) {
    const { status, body } = await world.client.get(path)
    expect([path, status, body.error]).toMatchObject([
      path,
      400,
      { param, message: expect.stringContaining('write %2B for a plus, %20 for a blank') },
    ])
    expect([path, body.error.details]).toEqual([path, [{ param, message: body.error.message }]])
  }
})

test('invalid paging parameters are refused, and the error names them', async ({ world }) => {
  for (const [query, param] of [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=abc', 'limit'],
    ['limit=', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=007', 'limit'],
    ['limit=%2B7', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit[]=1', 'limit[]'],
    ['before=yesterday', 'before'],
    ['before=', 'before'],
    ['before=2026-11-20', 'before'],
    ['before=2026-02-30T00:00:00Z', 'before'],
    ['before=2025-02-29T00:00:00Z', 'before'],
    ['before=2026-13-01T00:00:00Z', 'before'],
    ['before=2026-01-01T24:00:00Z', 'before'],
    ['before=2026-01-01T00:00:60Z', 'before'],
    ['before=2026-01-01T00:00:00', 'before'],
    ['before=2026-01-01T00:00:00%2B23:59', 'before'],
    ['before=0000-01-01T00:00:00Z', 'before'],
    ['before=infinity', 'before'],
    ['before=1763633730', 'before'],
    ['before=0198f6f0-0000-7000-8000-000000000000', 'before'],
    ['email=a&email=b', 'email'],
    [`email=${'e'.repeat(321)}`, 'email'],
    [`external_id=${'e'.repeat(256)}`, 'external_id'],
    ['deleted=yes', 'deleted'],
    ['deleted=', 'deleted'],
    ['nope=1', 'nope'],
    ['Limit=1', 'Limit'],
    ['offset=10', 'offset'],
    ['email=%00', 'email'],
    ['email=%ED%A0%80', 'query'],
    ['email=%', 'query'],
  ] as const) {
    const refused = await world.client.get(`/v1/customers?${query}`)
    expect([query, refused.status, refused.body.error?.param]).toEqual([query, 400, param])
    expect(refused.body.error.message).toMatch(/\w/)
  }
})

test('payments can be filtered by at most 20 keys of their metadata', async ({ world }) => {
  const filters = (count: number) => Array.from({ length: count }, (_, n) => `metadata[k${n}]=v`).join('&')
  expect((await world.client.get(`/v1/payments?${filters(20)}`)).status).toBe(200)
  const refused = await world.client.get(`/v1/payments?${filters(21)}`)
  expect([refused.status, refused.body.error.param]).toEqual([400, 'metadata'])
})

test('all combinations of filters together need few prepared statements', async ({ world }) => {
  const customer_id = '0198f6f0-0000-7000-8000-000000000000'
  const moment = '2026-01-01T00:00:00Z'
  const lists = {
    payments: [
      ['status=captured', 'status=pending'],
      [
        `customer_id=${customer_id}`,
        `merchant_id=${customer_id}`,
        `customer_id=${customer_id}&merchant_id=${customer_id}`,
        'processor_reference=pi_1',
      ],
      ...['currency=usd', 'amount_min=1', 'amount_max=9'].map((one) => [one]),
      ...[`created_from=${moment}`, `created_to=${moment}`, `before=${moment}`].map((one) => [one]),
      ['metadata[a]=1', 'metadata[a]=1&metadata[b]=2'],
    ],
    customers: ['email=a', 'external_id=b', `before=${moment}`, `created_to=${moment}`, 'deleted=true'].map(
      (one) => [one],
    ),
    recipients: ['email=a', 'type=card', 'currency=usd', `created_from=${moment}`, 'archived=true'].map(
      (one) => [one],
    ),
    merchants: [`created_from=${moment}`, `before=${moment}`, 'archived=true'].map((one) => [one]),
    reconciliation: ['state=stale', 'subject=refund', `payment_id=${customer_id}`, `before=${moment}`].map(
      (one) => [one],
    ),
  }
  for (const [list, filters] of Object.entries(lists)) {
    const queries = filters.reduce<string[][]>(
      (all, choices) => all.flatMap((each) => [each, ...choices.map((choice) => [...each, choice])]),
      [[]],
    )
    // Sends no more requests at a time than a key may have in progress.
    while (queries.length > 0) {
      const answers = await Promise.all(
        queries.splice(0, 30).map((query) => world.client.get(`/v1/${list}?${query.join('&')}`)),
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    }
  }
  await world.sql`create extension if not exists pg_stat_statements`
  const rows = await world.sql<{ name: string; texts: number }[]>`
    select t.name, count(distinct s.queryid)::int as texts
    from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
    cross join (values ('payments'), ('customers'), ('recipients'), ('merchants'), ('drifts')) t(name)
    where s.query ~ ('from "?' || t.name || '"?\\s+where tenant_id') and s.query like '%order by created_at desc%' group by t.name order by t.name`
  expect(rows).toEqual([
    { name: 'customers', texts: 4 },
    { name: 'drifts', texts: 1 },
    { name: 'merchants', texts: 2 },
    { name: 'payments', texts: 10 },
    { name: 'recipients', texts: 4 },
  ])
})
