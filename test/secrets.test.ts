// Tests that secrets are sealed with keys that can be rotated, and appear in plaintext in no table, log, queue or
// error.
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createVault, SealError } from '#core/secrets.ts'
import { clientSecretContext, paymentMethodContext } from '#domain/payments/sealed.ts'
import { authorize, capture, blockCaptures } from '#test/captures.ts'
import { readAllRows } from '#test/databases.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { until } from '#test/process.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'

const CARD = 'pm_card_visa'
const CARD_WITH_ACTION = 'pm_card_authenticationRequired'
const DECLINED_CARD = 'pm_card_chargeDeclined'
const MISSING_CARD = `pm_unknown_x${randomBytes(8).toString('hex')}`

const HERE = { tenant_id: 'a', table: 'payments', row: 'b', column: 'client_secret' }

const newKey = () => randomBytes(32).toString('base64')

let deployment: Deployment
beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis', webhooks: true, env: { LOG_LEVEL: 'trace' } })
})
afterAll(async () => await deployment?.close())

test('a vault seals with its newest key and opens texts of all its keys', () => {
  const [old_key, new_key] = [newKey(), newKey()]
  const sealed = createVault(old_key).seal('pm_1', HERE)
  const both = createVault(`${new_key}, ${old_key}`)
  expect(both.open(sealed, HERE)).toBe('pm_1')
  const resealed = both.seal('pm_1', HERE)
  expect(createVault(new_key).open(resealed, HERE)).toBe('pm_1')
  expect(() => createVault(new_key).open(sealed, HERE)).toThrow(SealError)
  expect(() => createVault(old_key).open(resealed, HERE)).toThrow(SealError)
})

test('a vault seals the same text differently each time, and does not open a text that was changed, cut or moved', () => {
  const vault = createVault(newKey())
  const sealed = vault.seal('pm_1', HERE)
  expect(vault.seal('pm_1', HERE)).not.toBe(sealed)
  const [version, name, body] = sealed.split('.') as [string, string, string]
  const bytes = Buffer.from(body, 'base64')
  const corrupted = [0, 12, 28, bytes.length - 1].map((at) => {
    const changed = Buffer.from(bytes)
    changed[at]! ^= 1
    return changed
  })
  const cut = [0, 12, 20, 28, bytes.length - 1].map((length) => bytes.subarray(0, length))
  const texts = [...corrupted, ...cut].map((each) => `${version}.${name}.${each.toString('base64')}`)
  for (const text of [...texts, `${name}.${body}`, `3.${name}.${body}`, version, name, '', '...', 'nonsense'])
    expect(() => vault.open(text, HERE)).toThrow(SealError)
  for (const field of ['tenant_id', 'table', 'row', 'column'])
    expect(() => vault.open(sealed, { ...HERE, [field]: 'elsewhere' })).toThrow(SealError)
  expect(vault.open(sealed, { ...HERE })).toBe('pm_1')
})

test('the secrets of a payment are never stored or logged in plaintext', async () => {
  const { sql, client, env } = deployment
  const readCommands = await monitorCommands(deployment.redis!.url)
  await deployment.startApi()
  const worker = await deployment.startWorker()
  const refusals: Answer[] = []

  await client.post('/v1/customers', { idempotency_key: freshKey(), email: 'ada@example.com' })
  const waiting = await pay(client, CARD_WITH_ACTION, { return_url: 'https://shop.example.com/back' })
  expect(waiting.body).toMatchObject({ status: 'requires_action', client_secret: expect.any(String) })
  for (const card of [DECLINED_CARD, MISSING_CARD]) refusals.push(await pay(client, card))
  refusals.push(
    await pay(client, CARD, { amount_minor: -1 }),
    await pay(client, CARD, { customer_id: client.key }),
    await pay(createClient(client.url, `${client.key.slice(0, -4)}zzzz`), CARD),
    await client.send('POST', '/v1/payments', {
      body: `{"payment_method":"${CARD}",`,
      headers: { 'content-type': 'application/json' },
    }),
    await deployment.webhooks.post('/stripe', { id: 'evt_1' }, { 'stripe-signature': 't=1,v1=00' }),
  )
  for (const { status } of refusals) expect(status).toBeGreaterThanOrEqual(400)

  const payment = await authorize(deployment)
  const hold = await blockCaptures(deployment, payment, 'after')
  const answer = capture(deployment, payment)
  await hold.hit()
  await worker.end()
  await hold.release()
  await deployment.startWorker()
  expect((await answer).body).toMatchObject({ status: 'captured' })
  const refund = await client.post(`/v1/payments/${payment.payment_id}/refunds`, {
    idempotency_key: freshKey(),
    amount_minor: 200,
  })
  expect(refund.body).toMatchObject({ status: 'succeeded' })
  await until('the notifications are applied', async () => {
    const [row] = await sql<{ applied: number; open: number }[]>`
      select count(*) filter (where state = 'applied') as applied, count(*) filter (where state = 'received') as open from notifications`
    return row!.applied > 2 && row!.open === 0
  })
  await deployment.killAll()

  const secrets = {
    'the API key': client.key,
    'the key of the processor': deployment.provider('stripe').api_key,
    'the webhook secret': deployment.provider('stripe').webhook_secret,
    'the encryption key': env.ENCRYPTION_KEY!,
    'the password of the database': new URL(env.DATABASE_URL!).password,
    'the client secret': waiting.body.client_secret as string,
    'a card': CARD,
    'a card with an action': CARD_WITH_ACTION,
    'a declined card': DECLINED_CARD,
    'a card that does not exist': MISSING_CARD,
  }
  const [job] = await sql<{ id: string }[]>`
    select id from jobs where resource_id = ${payment.payment_id} and name = 'payment.capture'`
  const places = {
    tables: [await readAllRows(sql), payment.payment_id],
    'output of the processes': [deployment.output(), 'the worker is running'],
    'commands of Redis': [readCommands(), job!.id],
    refusals: [refusals.map(({ text }) => text).join('\n'), 'payment_declined'],
  } as const
  for (const [place, [text, witness]] of Object.entries(places)) {
    expect(text.includes(witness), `${place} are read`).toBe(true)
    const found = Object.entries(secrets).filter(([, secret]) => text.includes(secret))
    expect(found.map(([label, secret]) => `${label} in ${place}: ${excerptAround(text, secret)}`)).toEqual([])
  }
  const remaining =
    await sql`select request from jobs where request -> 'sealed' is not null and finished_at is not null`
  expect([...remaining], 'tokens are deleted after the call').toEqual([])
})

test('a card number as a payment method is refused with a hint, and the number is never stored or logged', async () => {
  const { sql, client } = deployment
  await deployment.killAll()
  const readCommands = await monitorCommands(deployment.redis!.url)
  await deployment.startApi()
  await deployment.startWorker()
  const [visa, amex, mistyped] = ['4000056655665556', '378282246310005', '4000056655665557']
  const divided = (by: string) => visa.replace(/(.{4})(?!$)/g, `$1${by}`)
  const numbers = [visa, amex, mistyped, '6304000000000000000', divided(' '), divided('-'), divided('\u00a0')]
  const variants = [` ${visa} `, `card:${visa}`, `pm_${visa}`, `${divided(' ')} 12/29 123`, Number(visa)]
  const refused: Answer[] = []
  for (const payment_method of [...numbers, ...variants]) {
    const answer = await pay(client, payment_method as string)
    refused.push(answer)
    expect([payment_method, answer.status, answer.body.error]).toMatchObject([
      payment_method,
      400,
      {
        code: 'invalid_request',
        param: 'payment_method',
        message: expect.stringContaining(
          'must be a token of the processor, such as pm_card_visa, never a card number',
        ),
      },
    ])
  }
  const token = await pay(client, CARD)
  expect(token.status).toBe(201)
  await deployment.killAll()
  const places = {
    tables: [await readAllRows(sql), token.body.id],
    'output of the processes': [deployment.output(), '/v1/payments'],
    'commands of Redis': [readCommands(), 'payments'],
    refusals: [refused.map(({ text }) => text).join('\n'), 'payment_method'],
  } as const
  for (const [place, [text, witness]] of Object.entries(places)) {
    expect(text.includes(witness), `${place} are read`).toBe(true)
    for (const number of [...numbers, visa])
      expect(text.includes(number) && `${place}: ${excerptAround(text, number)}`).toBe(false)
  }
})

test('the recipients and the content of a message are never stored or logged in plaintext', async () => {
  const { sql, client, env } = deployment
  const readCommands = await monitorCommands(deployment.redis!.url)
  await deployment.killAll()
  await deployment.startApi()
  await deployment.startWorker()
  const marked = (label: string) => `${label}-${randomBytes(8).toString('hex')}`
  const [person, subject, text, html, file, name, head, value] = [
    'who',
    'subject',
    'text',
    'html',
    'file',
    'name',
    'head',
    'value',
  ].map(marked) as [string, string, string, string, string, string, string, string]
  const numbers = ['+14155557391', '+15005550001', '+15005550500', '+15005550599']
  const requests: Promise<Answer>[] = []
  const request = (path: string, body: object) =>
    requests.push(client.post(`/v1/messages${path}`, { idempotency_key: freshKey(), ...body }))
  for (const domain of ['ok', 'bounce', 'defer', 'reject', 'lost'])
    request('/email', {
      to: [`Ada <${person}@${domain}.example>`],
      subject,
      text,
      html,
      headers: { 'X-Head': head },
      attachments: [
        {
          filename: `${name}.txt`,
          content_type: 'text/plain',
          content: Buffer.from(file).toString('base64'),
        },
      ],
    })
  await client.post('/v1/messages/templates', { name: 'reported', channel: 'sms', body: '{{ value }}' })
  for (const to of numbers) request('/sms', { to, template: 'reported', variables: { value } })
  request('/suppressions', { channel: 'email', address: `${person}@gone.example` })
  const answers = await Promise.all(requests)
  expect(answers.map(({ status }) => Math.floor(status / 100))).toEqual([2, 5, 5, 5, 2, 2, 5, 5, 2, 2])
  const refusals = [
    await client.post('/v1/messages/email', {
      idempotency_key: freshKey(),
      to: [person, `${person}@`],
      subject,
    }),
    await client.post('/v1/messages/sms', {
      idempotency_key: freshKey(),
      to: `${numbers[0]}1234567`,
      body: text,
    }),
    await client.post('/v1/messages/sms', {
      idempotency_key: freshKey(),
      to: numbers[0],
      template: 'reported',
      variables: { other: value },
    }),
    ...answers.filter(({ status }) => status >= 400),
  ]
  for (const filter of [
    `messages?to=${person}@ok.example`,
    `messages/suppressions?address=${person}@gone.example`,
  ])
    expect((await client.get(`/v1/${filter}`)).body).toHaveLength(1)
  await deployment
    .provider('twilio')
    .control('POST', '/inbound', { from: numbers[0], to: env['TWILIO_FROM'], body: 'STOP' })
  await until('the opt-out is applied', async () => {
    const rows = await sql`select from notifications where kind = 'sms.opt_out' and state = 'applied'`
    return rows.length > 0
  })
  await deployment.killAll()

  const base64 = (secret: string) => Buffer.from(secret).toString('base64').slice(0, -4)
  const secrets = [person, subject, text, html, file, name, head, value, ...numbers].flatMap((secret) =>
    [secret.replace('+', ''), base64(secret)].map((each) => [secret, each] as const),
  )
  const places = {
    tables: [await readAllRows(sql), 'sms.opt_out'],
    'output of the processes': [deployment.output(), '/v1/messages/suppressions'],
    'commands of Redis': [readCommands(), 'messages'],
    refusals: [refusals.map((answer) => answer.text).join('\n'), 'sms_send_failed'],
  } as const
  for (const [place, [written, witness]] of Object.entries(places)) {
    expect(written.includes(witness), `${place} are read`).toBe(true)
    const found = secrets.filter(([, each]) => written.includes(each))
    expect(found.map(([secret, each]) => `${secret} in ${place}: ${excerptAround(written, each)}`)).toEqual(
      [],
    )
  }
})

test('keys rotate during work: texts that are sealed with an older key can be opened, and a job whose key is missing waits', async () => {
  const { client, sql, env } = deployment
  const [old_key, new_key] = [env.ENCRYPTION_KEY!, newKey()]
  await deployment.startApi()
  const created = await pay(client, CARD, {}, { prefer: 'respond-async' })
  const [call] = await sql<{ job_id: string; request: Record<string, any> }[]>`
    select id as job_id, request from jobs where resource_id = ${created.body.id}`
  expect(call!.request).not.toHaveProperty('payment_method')
  const place = paymentMethodContext(deployment.tenant_id, call!.job_id)
  expect(createVault(old_key).open(call!.request['sealed'].payment_method, place)).toBe(CARD)
  const new_key_worker = await deployment.startWorker({ ENCRYPTION_KEY: new_key })
  await new_key_worker.waitForLine('not in ENCRYPTION_KEY')
  const misconfigured = await until('the attempt is returned', async () => {
    const [row] = await sql<{ outcome: string; state: string }[]>`
      select a.outcome, j.state from jobs j join job_attempts a on a.job_id = j.id
      where j.resource_id = ${created.body.id} and a.outcome is not null`
    return row
  })
  expect({ ...misconfigured }).toEqual({ outcome: 'misconfigured', state: 'ready' })
  await deployment.killAll()

  await sql`update jobs set run_at = now() where resource_id = ${created.body.id}`
  await deployment.startApi({ ENCRYPTION_KEY: `${new_key},${old_key}` })
  await deployment.startWorker({ ENCRYPTION_KEY: `${new_key},${old_key}` })
  await until('the payment is authorized', async () => {
    const { body } = await client.get(`/v1/payments/${created.body.id}`)
    return body.status === 'authorized'
  })
  const waiting = await pay(client, CARD_WITH_ACTION, { return_url: 'https://shop.example.com/back' })
  const [row] = await sql<{ client_secret: string }[]>`
    select client_secret from payments where id = ${waiting.body.id}`
  expect(
    createVault(new_key).open(row!.client_secret, clientSecretContext(deployment.tenant_id, waiting.body.id)),
  ).toBe(waiting.body.client_secret)

  await deployment.killAll()
  const old_key_api = await deployment.startApi({ ENCRYPTION_KEY: old_key })
  const path = `/v1/payments/${waiting.body.id}`
  expect((await client.get(path)).body).toMatchObject({ status: 'requires_action', client_secret: null })
  await old_key_api.waitForLine(
    'the client secret of a payment cannot be decrypted: null is returned. Check ENCRYPTION_KEY',
  )
  await deployment.killAll()
  await deployment.startApi({ ENCRYPTION_KEY: `${new_key},${old_key}` })
  expect((await client.get(path)).body).toEqual(waiting.body)
})

test('a sealed text that was moved or changed cannot be opened, and other payments continue', async () => {
  const { client, sql } = deployment
  await deployment.killAll()
  const api = await deployment.startApi()
  const worker = await deployment.startWorker()
  const action_options = { return_url: 'https://shop.example.com/back' }
  const [source, moved, corrupted] = [
    (await pay(client, CARD_WITH_ACTION, action_options)).body,
    (await pay(client, CARD_WITH_ACTION, action_options)).body,
    (await pay(client, CARD_WITH_ACTION, action_options)).body,
  ]
  await sql`
    update payments p set client_secret = case when p.id = ${moved.id} then t.client_secret else 'spoilt' end
    from payments t where t.id = ${source.id} and p.id in (${moved.id}, ${corrupted.id})`
  const listed = await client.get('/v1/payments?limit=3')
  expect(listed.status).toBe(200)
  const secrets = new Map(listed.body.map(({ id, client_secret }: typeof moved) => [id, client_secret]))
  expect([source, moved, corrupted].map(({ id }) => secrets.get(id))).toEqual([
    source.client_secret,
    null,
    null,
  ])
  expect((await client.get(`/v1/payments/${moved.id}`)).body).toEqual({
    ...moved,
    client_secret: null,
    updated_at: expect.anything(),
  })
  await api.waitForLine('belongs to another row or column')

  await worker.end()
  const requests = [CARD, CARD, CARD].map((card) => pay(client, card, {}, { prefer: 'respond-async' }))
  const [from, to, next] = (await Promise.all(requests)).map(({ body }) => body.id as string)
  await sql`
    update jobs j set request = f.request from jobs f where f.resource_id = ${from!} and j.resource_id = ${to!}`
  const worker_after_swap = await deployment.startWorker()
  const line = JSON.parse(await worker_after_swap.waitForLine('belongs to another row or column'))
  expect(line).toMatchObject({ tenant_id: deployment.tenant_id, payment_id: to })
  await until('the other payments are authorized', async () => {
    const rows = await sql`select from payments where id in (${from!}, ${next!}) and status = 'authorized'`
    return rows.length === 2
  })
  expect((await client.get(`/v1/payments/${to}`)).body).toMatchObject({ status: 'pending' })
})

async function pay(
  client: Client,
  payment_method: string,
  body: Record<string, unknown> = {},
  headers?: Record<string, string>,
): Promise<Answer> {
  return await client.post(
    '/v1/payments',
    {
      idempotency_key: freshKey(),
      amount_minor: 1000,
      currency: 'USD',
      method: 'card',
      payment_method,
      ...body,
    },
    headers,
  )
}

/** Records all commands of a Redis with their arguments, including the commands that scripts send. */
async function monitorCommands(url: string): Promise<() => string> {
  const redis = new Redis(url)
  const monitoring = await redis.monitor()
  onTestFinished(() => {
    monitoring.disconnect()
    redis.disconnect()
  })
  const commands: string[] = []
  monitoring.on('monitor', (_time: string, command: string[]) => commands.push(command.join(' ')))
  return () => commands.join('\n')
}

function excerptAround(text: string, secret: string): string {
  const at = text.indexOf(secret)
  return text.slice(Math.max(0, at - 300), at + secret.length + 50)
}
