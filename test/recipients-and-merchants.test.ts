// Tests the rules that recipients and merchants share: they are created with a key, found, changed, archived and never
// deleted.
import { describe, expect } from 'vitest'
import { freshKey, type Client } from '#test/client.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ parts: ['api'] })

const MISSING_ID = '0198f6f0-0000-7000-8000-000000000000'
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const RESOURCE_NAMES = [
  {
    resource: 'recipient',
    path: '/v1/recipients',
    table: 'recipients',
    /** The fields as the API returns them. */
    fields: {
      name: 'Grace Hopper',
      email: 'grace@example.com',
      type: 'account',
      currency: 'usd',
      country: 'US',
      destination: 'acct_success',
      metadata: { order: ['A-17', null] },
    },
    optional: { email: null, metadata: {} },
    changes: { name: 'G. Hopper', email: 'grace@example.org', metadata: [2] },
    fixed: [
      'type',
      'currency',
      'country',
      'destination',
      'kyc_status',
      'archived_at',
      'idempotency_key',
      'id',
    ],
    lengths: { name: 256, email: 320, destination: 255, idempotency_key: 255 },
  },
  {
    resource: 'merchant',
    path: '/v1/merchants',
    table: 'merchants',
    fields: {
      legal_name: 'Analytical Engines Ltd',
      display_name: 'Engines',
      country: 'GB',
      support_email: 'help@engines.example',
      url: 'https://engines.example/shop?a=b',
      metadata: { plan: 'pro' },
    },
    optional: { url: null, metadata: {} },
    changes: {
      legal_name: 'Difference Engines Ltd',
      display_name: 'Difference',
      country: 'IE',
      support_email: 'help@difference.example',
      url: 'http://difference.example',
      metadata: null,
    },
    fixed: ['kyc_status', 'archived_at', 'idempotency_key', 'id', 'tenant_id'],
    lengths: { legal_name: 256, display_name: 256, support_email: 320, url: 2048, idempotency_key: 255 },
  },
]

describe.each(RESOURCE_NAMES)(
  '$resource',
  ({ resource, path, table, fields, optional, changes, fixed, lengths }) => {
    async function createResource(
      world: World,
      overrides: Record<string, unknown> = {},
      client: Client = world.client,
    ): Promise<any> {
      const answer = await client.post(path, { idempotency_key: freshKey(), ...fields, ...overrides })
      expect([answer.text, answer.status]).toEqual([expect.anything(), 201])
      return answer.body
    }
    const listIds = async (client: Client, query = ''): Promise<string[]> => {
      const answer = await client.get(`${path}?${query}`)
      expect([answer.text, answer.status]).toEqual([expect.anything(), 200])
      return answer.body.map(({ id }: { id: string }) => id)
    }
    const countRows = async (world: World): Promise<number> => {
      const [row] = await world.sql<{ n: number }[]>`select count(*)::int as n from ${world.sql(table)}`
      return row!.n
    }
    const eventsOf = async (world: World, id: string): Promise<{ type: string; data: any }[]> => [
      ...(await world.sql<{ type: string; data: any }[]>`
      select type, data from events where tenant_id = ${world.tenant_id} and subject_id = ${id} order by created_at`),
    ]

    test('each route returns all documented fields', async ({ world }) => {
      const idempotency_key = freshKey()
      const answer = await world.client.post(path, { idempotency_key, ...fields })
      expect(answer.status).toBe(201)
      expect(answer.body).toEqual({
        ...fields,
        idempotency_key,
        id: expect.stringMatching(ID),
        tenant_id: world.tenant_id,
        livemode: true,
        kyc_status: 'none',
        archived_at: null,
        created_at: expect.stringMatching(/\.\d{6}Z$/),
        updated_at: expect.stringMatching(/\.\d{6}Z$/),
      })
      expect((await world.client.get(`${path}/${answer.body.id}`)).body).toEqual(answer.body)
      expect((await world.client.get(path)).body).toContainEqual(answer.body)
    })

    test('an optional field may be null, and every response has the field', async ({ world }) => {
      const required = Object.fromEntries(Object.entries(fields).filter(([name]) => !(name in optional)))
      for (const sent of [{}, { ...optional, metadata: undefined }]) {
        const answer = await world.client.post(path, { idempotency_key: freshKey(), ...required, ...sent })
        expect([answer.status, answer.body]).toEqual([201, expect.objectContaining(optional)])
      }
      expect((await createResource(world, { metadata: null })).metadata).toBeNull()
    })

    test('a field that is missing, null, of a wrong type or too long is refused, the error names the field, and no row is written', async ({
      world,
    }) => {
      const before = await countRows(world)
      const refused: [string, unknown][] = Object.keys(fields)
        .filter((name) => !(name in optional))
        .flatMap((name): [string, unknown][] =>
          [undefined, null, 17, true, [], {}, '', ['x'], 'a\u0000b'].map((value) => [name, value]),
        )
      refused.push(
        ...Object.keys(optional).flatMap((name): [string, unknown][] =>
          name === 'metadata'
            ? [[name, 'm'.repeat(17_000)]]
            : [
                [name, 17],
                [name, ''],
              ],
        ),
      )
      for (const [name, max_length] of Object.entries(lengths)) {
        const value = fields[name as keyof typeof fields] as string | undefined
        refused.push([name, `${value ?? 'k'}${'a'.repeat(max_length)}`])
      }
      for (const name of ['country', 'currency'].filter((each) => each in fields))
        refused.push([name, 'XX'], [name, 'usdd'], [name, 'U$'], [name, 'ÄÖÜ'], [name, 'u'], [name, 'ZZZ'])
      for (const name of ['kyc_status', 'archived_at', 'tenant_id', 'id', 'created_at', 'nope', 'Country'])
        refused.push([name, 'approved'])
      for (const [name, value] of refused) {
        const answer = await world.client.post(path, {
          idempotency_key: freshKey(),
          ...fields,
          [name]: value,
        })
        expect([name, value, answer.status, answer.body.error?.code]).toEqual([
          name,
          value,
          400,
          'invalid_request',
        ])
        expect([name, value, answer.body.error.param]).toEqual([name, value, name])
      }
      expect(await countRows(world)).toBe(before)
    })

    test('a text of the maximum length is accepted in any script', async ({ world }) => {
      const longest = Object.fromEntries(
        Object.entries(lengths).map(([name, max_length]) => {
          const value = (fields as Record<string, unknown>)[name] as string | undefined
          if (name.endsWith('email')) return [name, `${'é'.repeat(max_length - 12)}@example.com`]
          if (name.endsWith('name')) return [name, '名'.repeat(max_length)]
          return [name, `${value ?? freshKey()}${'a'.repeat(max_length)}`.slice(0, max_length)]
        }),
      )
      expect(await createResource(world, longest)).toMatchObject(longest)
    })

    test('codes of countries and currencies are accepted in any case; responses have country codes in upper case and currency codes in lower case', async ({
      world,
    }) => {
      const mixed = { country: 'gB', ...('currency' in fields && { currency: 'eUr' }) }
      const shown = { country: 'GB', ...('currency' in fields && { currency: 'eur' }) }
      const idempotency_key = freshKey()
      const record = await createResource(world, { ...mixed, idempotency_key })
      expect(record).toMatchObject(shown)
      const replayed = await world.client.post(path, { ...fields, ...shown, idempotency_key })
      expect([replayed.status, replayed.body.id]).toEqual([201, record.id])
    })

    test('the response to a missing id and to an id of another tenant is not_found', async ({ world }) => {
      const other = await world.clientOf()
      const foreign = await createResource(world, {}, other)
      for (const id of [MISSING_ID, foreign.id]) {
        for (const answer of [
          await world.client.get(`${path}/${id}`),
          await world.client.patch(`${path}/${id}`, changes),
          await world.client.delete(`${path}/${id}`),
        ]) {
          expect([answer.status, answer.body.error.code]).toEqual([404, `${resource}_not_found`])
        }
      }
      expect((await other.get(`${path}/${foreign.id}`)).body).toEqual(foreign)
      for (const id of ['17', 'null', `${foreign.id}0`, '%00']) {
        const malformed = await world.client.get(`${path}/${id}`)
        expect([id, malformed.status]).toEqual([id, 400])
      }
      expect((await other.get(`${path}/${foreign.id.toUpperCase()}`)).body).toEqual(foreign)
    })

    test('a change sets only the fields that the request names', async ({ world }) => {
      const before = await createResource(world)
      let record = before
      for (const [name, value] of Object.entries(changes)) {
        const changed = await world.client.patch(`${path}/${before.id}`, { [name]: value })
        expect([changed.text, changed.status]).toEqual([expect.anything(), 200])
        expect(changed.body).toEqual({ ...record, [name]: value, updated_at: expect.any(String) })
        expect(changed.body.updated_at > record.updated_at).toBe(true)
        record = changed.body
      }
      for (const name of Object.keys(optional).filter((each) => each !== 'metadata')) {
        record = (await world.client.patch(`${path}/${before.id}`, { [name]: null })).body
        expect([name, record[name]]).toEqual([name, null])
      }
      expect(record.metadata).toEqual(changes.metadata)
      for (const body of [undefined, {}, { metadata: record.metadata }]) {
        const changed = await world.client.patch(`${path}/${before.id}`, body)
        expect([changed.status, changed.body]).toEqual([200, record])
      }
      expect((await world.client.get(`${path}/${before.id}`)).body).toMatchObject({
        ...changes,
        ...optional,
        metadata: changes.metadata,
      })
    })

    test('a change of an immutable field or to an invalid value is refused and changes nothing', async ({
      world,
    }) => {
      const before = await createResource(world)
      const refused: [string, unknown][] = fixed.map((name) => [name, before[name]])
      for (const name of Object.keys(changes)) {
        if (name === 'metadata') refused.push([name, 'm'.repeat(17_000)])
        else refused.push([name, ''], [name, 17], [name, {}])
        if (!(name in optional)) refused.push([name, null])
      }
      const immutabilityMessage = (name: string): string =>
        name === 'idempotency_key'
          ? 'cannot be changed; an update needs no key.'
          : name in fields && !(name in changes)
            ? `cannot be changed: archive the ${resource} and create another.`
            : ''
      for (const [name, value] of refused) {
        const answer = await world.client.patch(`${path}/${before.id}`, { ...changes, [name]: value })
        const { param, message } = answer.body.error
        expect([name, value, answer.status, param]).toEqual([name, value, 400, name])
        expect(message).toContain(immutabilityMessage(name))
      }
      expect((await world.client.get(`${path}/${before.id}`)).body).toEqual(before)
    })

    test('an archived resource is kept, and a second request to archive it changes nothing', async ({
      world,
    }) => {
      const before = await createResource(world)
      const archived = await world.client.delete(`${path}/${before.id}`)
      expect([archived.status, archived.body]).toEqual([
        200,
        { ...before, archived_at: expect.stringMatching(/\.\d{6}Z$/), updated_at: expect.any(String) },
      ])
      expect(archived.body.updated_at > before.updated_at).toBe(true)
      const repeated = await Promise.all(
        Array.from({ length: 5 }, () => world.client.delete(`${path}/${before.id}`)),
      )
      for (const { status, body } of repeated) expect([status, body]).toEqual([200, archived.body])
      expect((await world.client.get(`${path}/${before.id}`)).body).toEqual(archived.body)
      const changed = await world.client.patch(`${path}/${before.id}`, { metadata: 'late' })
      expect([changed.status, changed.body]).toMatchObject([
        200,
        { metadata: 'late', archived_at: archived.body.archived_at },
      ])
    })

    test('each change writes an event with the state after the change', async ({ world }) => {
      const first = await createResource(world)
      const changed = (await world.client.patch(`${path}/${first.id}`, changes)).body
      for (const body of [{ nope: 1 }, {}, changes]) await world.client.patch(`${path}/${first.id}`, body)
      const archived = (await world.client.delete(`${path}/${first.id}`)).body
      await world.client.delete(`${path}/${first.id}`)
      const events = await eventsOf(world, first.id)
      expect(events.map(({ type }) => type)).toEqual([
        `${resource}.created`,
        `${resource}.updated`,
        `${resource}.archived`,
      ])
      for (const [n, shown] of [first, changed, archived].entries()) {
        const { created_at, updated_at, archived_at, livemode, ...others } = shown
        expect(events[n]!.data).toMatchObject(others)
        const { livemode: _mode, ...stored } = shown
        expect(livemode).toBe(true)
        expect(new Set(Object.keys(events[n]!.data))).toEqual(new Set(Object.keys(stored)))
        expect(events[n]!.data.archived_at === null).toBe(archived_at === null)
        expect([created_at, updated_at].every((time) => typeof time === 'string')).toBe(true)
      }
    })

    test('a request with the same key and content is a replay, and a request with other content is refused', async ({
      world,
    }) => {
      const body = { idempotency_key: freshKey(), ...fields }
      const first = await world.client.post(path, body)
      const replayed = await world.client.post(path, Object.fromEntries(Object.entries(body).toReversed()))
      expect([replayed.status, replayed.text, replayed.headers.get('idempotent-replayed')]).toEqual([
        201,
        first.text,
        'true',
      ])
      const { idempotency_key, ...content } = body
      const by_header = await world.client.post(path, content, { 'idempotency-key': idempotency_key })
      expect([by_header.status, by_header.text]).toEqual([201, first.text])
      for (const [name, value] of [...Object.entries(changes), ['country', 'FR']] as const) {
        const refused = await world.client.post(path, { ...body, [name]: value })
        expect([name, refused.status, refused.body.error]).toMatchObject([
          name,
          422,
          { code: 'idempotency_key_reused', param: 'idempotency_key' },
        ])
      }
      const archived = (await world.client.delete(`${path}/${first.body.id}`)).body
      expect((await world.client.post(path, body)).body).toEqual(archived)
      const stored = await world.client.get(`/v1/idempotency_keys/${idempotency_key}`)
      expect(stored.body).toMatchObject([
        { route: `POST ${path}`, resource: resource, resource_id: first.body.id, status: 'finished' },
      ])
      expect(await eventsOf(world, first.body.id)).toHaveLength(2)
      // A request whose key has expired does not create a duplicate either.
      await world.sql`delete from idempotency_keys where tenant_id = ${world.tenant_id} and key = ${idempotency_key}`
      const late = await world.client.post(path, body)
      expect([late.status, late.body.error.code]).toEqual([422, 'idempotency_key_reused'])
    })

    test('lists are newest first, have exact pages, can be filtered by time, and contain archived resources only on request', async ({
      world,
    }) => {
      const client = await world.clientOf()
      const all = await Promise.all(Array.from({ length: 12 }, () => createResource(world, {}, client)))
      const newest_first = all.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))
      const expected = newest_first.map(({ id }) => id)
      const listed: string[] = []
      for (let next: string | undefined = `${path}?limit=5`; next !== undefined;) {
        const page = await client.get(next)
        listed.push(...page.body.map(({ id }: { id: string }) => id))
        next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1]
      }
      expect(listed).toEqual(expected)
      const [third, seventh] = [newest_first[2].created_at, newest_first[6].created_at]
      expect(await listIds(client, `created_from=${third}`)).toEqual(expected.slice(0, 3))
      expect(await listIds(client, `created_to=${third}`)).toEqual(expected.slice(3))
      expect(await listIds(client, `created_from=${seventh}&created_to=${third}`)).toEqual(
        expected.slice(3, 7),
      )
      expect(await listIds(client, `created_from=${seventh}&before=${third}&limit=2`)).toEqual(
        expected.slice(3, 5),
      )
      expect(await listIds(client, `created_from=${third}&created_to=${third}`)).toEqual([])

      const archived = [expected[1]!, expected[8]!]
      for (const id of archived) await client.delete(`${path}/${id}`)
      const active = expected.filter((id) => !archived.includes(id))
      expect(await listIds(client)).toEqual(active)
      expect(await listIds(client, 'archived=false')).toEqual(active)
      expect(await listIds(client, 'archived=true')).toEqual(archived)
      expect(await listIds(client, 'archived=true&limit=1')).toEqual(archived.slice(0, 1))
      expect(await listIds(await world.clientOf(), 'archived=true')).toEqual([])
    })

    test('a list refuses unknown and invalid filters', async ({ world }) => {
      for (const [query, param] of [
        ['archived=yes', 'archived'],
        ['archived=', 'archived'],
        ['archived=true&archived=true', 'archived'],
        ['limit=101', 'limit'],
        ['limit=0', 'limit'],
        ['before=yesterday', 'before'],
        ['created_from=2026-02-30T00:00:00Z', 'created_from'],
        ['created_to=17', 'created_to'],
        ['nope=1', 'nope'],
        ['destination=acct_success', 'destination'],
        ['deleted=true', 'deleted'],
        ['metadata[a]=1', 'metadata'],
      ] as const) {
        const refused = await world.client.get(`${path}?${query}`)
        expect([query, refused.status, refused.body.error?.param]).toEqual([query, 400, param])
      }
    })

    // Both resources use the same statements, so one of them is enough for the tests of races and keys.
    if (resource !== 'recipient') return

    test('concurrent changes to different fields are all kept', async ({ world }) => {
      const { id } = await createResource(world)
      const all = Object.entries(changes)
      await Promise.all(
        Array.from({ length: 40 }, (_, n) => {
          const [name, value] = all[n % all.length]!
          return world.client.patch(`${path}/${id}`, { [name]: value })
        }),
      )
      expect((await world.client.get(`${path}/${id}`)).body).toMatchObject(changes)
    })

    test('of several concurrent requests to archive a resource, exactly one changes the resource', async ({
      world,
    }) => {
      const { id } = await createResource(world)
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => world.client.delete(`${path}/${id}`)),
      )
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
      expect((await eventsOf(world, id)).map(({ type }) => type)).toEqual([
        `${resource}.created`,
        `${resource}.archived`,
      ])
    })

    test('a key is required, has visible characters, is the same in body and header, and is unused after a refusal', async ({
      world,
    }) => {
      for (const [body, headers, param] of [
        [{}, {}, 'idempotency_key'],
        [{ idempotency_key: '' }, {}, 'idempotency_key'],
        [{ idempotency_key: 'a b' }, {}, 'idempotency_key'],
        [{ idempotency_key: null }, {}, 'idempotency_key'],
        [{ idempotency_key: 'one' }, { 'idempotency-key': 'two' }, 'idempotency_key'],
      ] as const) {
        const refused = await world.client.post(path, { ...fields, ...body }, headers)
        expect([body, refused.status, refused.body.error.param]).toEqual([body, 400, param])
      }
      const idempotency_key = freshKey()
      expect((await world.client.post(path, { idempotency_key, ...fields, country: 'XX' })).status).toBe(400)
      expect((await world.client.post(path, { idempotency_key, ...fields })).status).toBe(201)
    })

    test('fifty concurrent requests with one key create one resource', async ({ world }) => {
      const body = { idempotency_key: freshKey(), ...fields }
      const answers = await Promise.all(Array.from({ length: 50 }, () => world.client.post(path, body)))
      expect(new Set(answers.map(({ status, body: { id } }) => `${status} ${id}`)).size).toBe(1)
      expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1)
      expect(await eventsOf(world, answers[0]!.body.id)).toHaveLength(1)
    })
  },
)
