// Destinations of recipients: the API accepts, returns and stores only tokens of the processor.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import { createClient, freshKey, type Answer } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { RECIPIENT } from '#test/parties.ts'
import { until } from '#test/process.ts'
import { urlAs } from '#test/users.ts'

let deployment: Deployment
beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis', env: { LOG_LEVEL: 'trace', LOG_REQUESTS: '1' } })
  await deployment.startApi()
})
afterAll(async () => await deployment?.close())

const TOKENS = {
  bank_account: ['ba_success', 'ba_1NGTaT2eZvKYlo2CZWSctn5n'],
  card: ['card_success', `card_${'a'.repeat(250)}`],
  account: ['acct_success', 'acct_1032D82eZvKYlo2C'],
}

async function create(body: Record<string, unknown>): Promise<Answer> {
  return await deployment.client.post('/v1/recipients', {
    idempotency_key: freshKey(),
    ...RECIPIENT,
    ...body,
  })
}

test('each type of recipient accepts and returns tokens of its own kind', async () => {
  for (const [type, tokens] of Object.entries(TOKENS)) {
    for (const destination of tokens) {
      const answer = await create({ type, destination })
      expect([destination, answer.status, answer.body]).toMatchObject([
        destination,
        201,
        { type, destination },
      ])
    }
  }
})

test('a destination that is no token of the processor is refused', async () => {
  const invalid: [string, unknown][] = []
  for (const type of Object.keys(TOKENS)) {
    const others = Object.entries(TOKENS).filter(([other]) => other !== type)
    for (const [, [token]] of others) invalid.push([type, token])
    for (const text of [
      '',
      'ba',
      'ba_',
      'card_',
      'acct_',
      'GB29NWBK60161331926819',
      'ba_4242424242424242',
      'card_4242_4242',
      'acct_000123456789',
      '000123456789',
      '4242424242424242',
    ])
      invalid.push([type, text])
    for (const suffix of [' ', '\n', '-', '/', 'é', '\u0000', '; drop table recipients'])
      invalid.push([type, `${TOKENS[type as keyof typeof TOKENS][0]}${suffix}`])
    invalid.push(
      [type, ` ${TOKENS[type as keyof typeof TOKENS][0]}`],
      [type, TOKENS[type as keyof typeof TOKENS][0]!.toUpperCase()],
    )
    for (const value of [null, undefined, 17, true, {}, [], [TOKENS[type as keyof typeof TOKENS][0]]])
      invalid.push([type, value])
  }
  invalid.push(['bank_account', `ba_${'a'.repeat(253)}`])
  for (const [type, destination] of invalid) {
    const { status, body } = await create({ type, destination })
    expect([type, destination, status, body.error?.code, body.error?.param]).toEqual([
      type,
      destination,
      400,
      'invalid_request',
      'destination',
    ])
  }
})

test('lists can be filtered by email, type and currency, alone and combined', async () => {
  const { client } = deployment
  const names_by_id: Record<string, string> = {}
  for (const [name, type, currency, email] of [
    ['a', 'account', 'EUR', 'f@example.com'],
    ['b', 'card', 'eur', 'f@example.com'],
    ['c', 'card', 'gbp', 'g@example.com'],
    ['d', 'bank_account', 'gbp', 'G@example.com'],
  ] as const) {
    const answer = await create({
      type,
      currency,
      email,
      destination: TOKENS[type][0],
      metadata: { filtered: name },
    })
    names_by_id[answer.body.id] = name
  }
  for (const [query, names] of [
    ['email=f@example.com', 'ba'],
    ['email=G@example.com', 'd'],
    ['email=nobody@example.com', ''],
    ['currency=eur', 'ba'],
    ['currency=EUR', 'ba'],
    ['currency=gbp&type=card', 'c'],
    ['type=card&email=f@example.com&currency=eur', 'b'],
    ['type=bank_account&currency=eur', ''],
    ['type=card&currency=gbp&archived=true', ''],
  ]) {
    const answer = await client.get(`/v1/recipients?${query}&limit=100`)
    const found = answer.body.map(({ id }: { id: string }) => names_by_id[id] ?? '?')
    expect([query, found.join('')]).toEqual([query, names])
  }
  for (const [query, param] of [
    ['type=bank', 'type'],
    ['type=', 'type'],
    ['currency=zzz', 'currency'],
    [`email=${'e'.repeat(321)}`, 'email'],
  ]) {
    const refused = await client.get(`/v1/recipients?${query}`)
    expect([query, refused.status, refused.body.error.param]).toEqual([query, 400, param])
  }
})

test('a refused destination appears in no response, log line or table', async () => {
  const { client, sql } = deployment
  const json = { 'content-type': 'application/json' }
  const existing = { idempotency_key: freshKey(), ...RECIPIENT, type: 'account', destination: 'acct_witness' }
  const created = await client.post('/v1/recipients', existing)
  expect(created.status).toBe(201)
  let secret_count = 0
  /** Unique digits, which are an account number or a part of a longer text. */
  const secret = () => `9081726354${String(1_000_000 + (secret_count += 1))}`
  const answers: Answer[] = []
  const post = async (body: object, headers: Record<string, string> = {}) =>
    answers.push(
      await client.post(
        '/v1/recipients',
        { idempotency_key: freshKey(), ...RECIPIENT, ...body },
        {
          'x-request-id': `refused-${secret_count}`,
          ...headers,
        },
      ),
    )
  const raw = async (method: string, path: string, body: string, headers: Record<string, string> = {}) =>
    answers.push(
      await client.send(method, path, {
        body,
        headers: { ...json, authorization: `Bearer ${client.key}`, ...headers },
      }),
    )

  for (const type of ['bank_account', 'card', 'account', 'iban', 17, undefined]) {
    for (const form of [
      () => secret(),
      () => `GB29NWBK${secret()}`,
      () => `de ${secret()}`,
      () => `pm_${secret()}`,
      () => `ba_${secret()}-1`,
      () => `ba_${secret()}${'a'.repeat(300)}`,
      () => Number(secret().slice(0, 15)),
      () => ({ iban: secret() }),
      () => [secret()],
      () => ({ [secret()]: 'number' }),
    ])
      await post({ type, destination: form() })
  }
  // A token of another type.
  await post({ type: 'card', destination: `ba_${secret()}` })
  await post({ type: 'bank_account', destination: `acct_${secret()}` })
  // A second field is invalid.
  await post({ type: 'account', destination: secret(), name: 17 })
  await post({
    type: 'account',
    destination: secret(),
    name: '',
    email: 'x',
    currency: 'zzz',
    country: 'XX',
    nope: 1,
  })
  await post({ type: 'account', destination: secret(), idempotency_key: '' })
  await post({ type: 'account', destination: secret(), metadata: 'm'.repeat(17_000) })
  await post({ type: 'account', destination: secret() }, { 'idempotency-key': 'another' })
  // The destination is in an unknown field.
  await post({ type: 'account', destination: 'acct_success', account_number: secret() })
  await post({ type: 'account', destination: 'acct_success', bank: { iban: secret() } })
  await post({ type: 'account', account: secret() })
  // The request has an existing idempotency key.
  await post({ ...existing, destination: secret() })
  await post({ ...existing, destination: `acct_x${secret()}` })
  // The body is not valid JSON.
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}"`)
  await raw('POST', '/v1/recipients', `{"destination":${secret()}x}`)
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}","destination":"ba_1"}`)
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}\\u0000"}`)
  await raw('POST', '/v1/recipients', `"${secret()}"`)
  await raw('POST', '/v1/recipients', `destination=${secret()}`, {
    'content-type': 'application/x-www-form-urlencoded',
  })
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}"}`, { 'content-encoding': 'gzip' })
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}${'a'.repeat(300_000)}"}`)
  await raw('POST', '/v1/recipients', `{"destination":"${secret()}"}`, { authorization: 'Bearer no' })
  // The requests go to other routes.
  await raw('PATCH', `/v1/recipients/${created.body.id}`, `{"destination":"${secret()}"}`)
  await raw('PATCH', `/v1/recipients/${created.body.id}`, `{"name":17,"destination":{"iban":"${secret()}"}}`)
  await raw('POST', '/v1/merchants', `{"destination":"${secret()}"}`)
  answers.push(await client.get(`/v1/recipients?destination=${secret()}`))
  answers.push(await createClient(client.url, '').get(`/v1/recipients?destination=${secret()}`))

  expect(secret_count).toBeGreaterThan(80)
  expect(answers).toHaveLength(secret_count)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([400, 401, 413, 415, 422]))
  const responses = answers.map(({ text, headers }) => `${text} ${JSON.stringify([...headers])}`).join('\n')
  await client.get('/v1/recipients', { 'x-request-id': 'after-all-of-it' })
  const log = await until('the log is complete', () => {
    const text = deployment.output()
    return text.includes('after-all-of-it') && text
  })
  const tables = await readAllRows(sql)
  for (const [place, text, witness] of [
    ['answers', responses, 'must be a token of the processor'],
    ['the log', log, 'answered'],
    ['tables', tables, 'acct_witness'],
  ] as const) {
    expect([place, text.includes(witness)]).toEqual([place, true])
    const position = text.indexOf('9081726354')
    expect([place, position === -1 ? null : text.slice(Math.max(0, position - 300), position + 50)]).toEqual([
      place,
      null,
    ])
  }
  expect((await client.get(`/v1/recipients/${created.body.id}`)).body).toEqual(created.body)
})

test('the database role of the API cannot change a destination or a verification status', async () => {
  const { body } = await create({ type: 'account', destination: 'acct_success' })
  const api = connectDatabase(urlAs('api', deployment.env['DATABASE_URL']!), {
    max: 1,
    application_name: 'test',
  })
  try {
    for (const change of [
      "destination = 'acct_1'",
      "type = 'card'",
      "currency = 'eur'",
      "kyc_status = 'approved'",
      'id = id',
    ]) {
      const text = `update recipients set ${change} where tenant_id = '${body.tenant_id}' and id = '${body.id}'`
      expect([change, await api.unsafe(text).catch(({ code }) => code)]).toEqual([change, '42501'])
    }
    const removal = api`delete from recipients where tenant_id = ${body.tenant_id} and id = ${body.id}`
    await expect(removal).rejects.toMatchObject({ code: '42501' })
  } finally {
    await api.end()
  }
  // The table refuses the same destinations as the API.
  for (const destination of [
    'GB29NWBK60161331926819',
    'ba_success',
    'acct_',
    'acct_000123456789',
    `acct_${'a'.repeat(251)}`,
  ]) {
    const insert = deployment.sql`
      insert into recipients (tenant_id, id, idempotency_key, name, type, currency, country, destination)
      values (${body.tenant_id}, gen_random_uuid(), ${freshKey()}, 'n', 'account', 'usd', 'US', ${destination})`
    await expect(insert).rejects.toMatchObject({ constraint_name: 'recipients_destination' })
  }
})
