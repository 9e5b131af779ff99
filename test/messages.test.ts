// Messages: each message starts once, is settled by its provider's reports, and never goes to a suppressed address.
import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { bareAddress } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { createVault } from '#core/secrets.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsFailed } from '#domain/job-acts/act.ts'
import { settleJobs, type Settlement } from '#domain/jobs/settle.ts'
import { beginMessages } from '#domain/messages/begin.ts'
import { settleMessages } from '#domain/messages/settle.ts'
import { emptyMessageUpdate, type MessageUpdate } from '#domain/messages/update.ts'
import { suppressionContext } from '#domain/suppressions/suppression.ts'
import { createClient, freshKey, type Answer, type Client } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import {
  hashOf,
  MESSAGE_SENDERS,
  postEmail,
  postTwilio,
  toUpperCaseAddress,
  readMessageState,
  suppressionsOf,
} from '#test/messages.ts'
import { startInThisProcess } from '#test/parts.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { eventually } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { openUnfinished, requestBytes } from '#test/raw.ts'
import { testIn, type World } from '#test/world.ts'

const [TOKEN, PREVIOUS_TOKEN] = ['token-of-now', 'token-of-before']
const [SECRET, PREVIOUS_SECRET] = [0, 1].map(() => `whsec_${randomBytes(32).toString('base64')}`) as [
  string,
  string,
]
/** The public URL of the webhooks host, behind a proxy. */
const PUBLIC_WEBHOOKS_URL = 'https://hooks.shop.example'
const SIGNED = { token: TOKEN, url: PUBLIC_WEBHOOKS_URL }
const SENDER = MESSAGE_SENDERS.TWILIO_FROM

/**
 * The API has senders and the worker has no senders: no message is sent, so each test controls the state of its
 * messages.
 */
let api: Awaited<ReturnType<typeof startInThisProcess>>
let client: Client
const test = testIn({
  parts: ['webhooks', 'worker'],
  notifications: false,
  env: {
    WEBHOOKS_URL: PUBLIC_WEBHOOKS_URL,
    TWILIO_AUTH_TOKEN: `${TOKEN},${PREVIOUS_TOKEN}`,
    EMAIL_WEBHOOK_SECRET: `${SECRET},${PREVIOUS_SECRET}`,
    SMTP_URL: '',
    TWILIO_ACCOUNT_SID: '',
  },
})
test.beforeAll(async ({ world }) => {
  api = await startInThisProcess('api', { ...world.env, ...MESSAGE_SENDERS }, createLog('silent', 'test'))
  client = clientOf(world.client)
})
afterAll(async () => {
  await api?.close()
})

let numbers = 0
const freshNumber = () => `+1415555${String(2000 + (numbers += 1))}`
const freshAddress = () => `ada${(numbers += 1)}@example.com`
const freshSid = () => `SM${randomBytes(16).toString('hex')}`

const clientOf = ({ key }: { key: string }) => createClient(api.url!, key)
/** The fields of an email, or of an SMS if `to` is a string. */
type MessageFields = { to: string | string[]; from?: string } & Record<string, unknown>
const send = async (
  fields: MessageFields,
  headers?: Record<string, string>,
  by = client,
): Promise<Answer> => {
  const is_sms = typeof fields.to === 'string'
  const default_content = is_sms
    ? { body: 'It is on its way.' }
    : { subject: 'Shipped', text: 'It is on its way.' }
  const path = `/v1/messages/${is_sms ? 'sms' : 'email'}`
  return await by.post(path, { idempotency_key: freshKey(), ...default_content, ...fields }, headers)
}

/** Creates a message that waits for its `send_at`. Returns its id. */
async function scheduleMessage(fields: MessageFields, by?: Client): Promise<string> {
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  const { status, body } = await send({ ...fields, send_at }, {}, by)
  expect([status, body.status]).toEqual([201, 'scheduled'])
  return body.id
}

/**
 * Creates a message that may have been sent: the worker died during the call to the provider. Returns the message's id.
 */
async function createUncertainMessage(world: World, fields: MessageFields): Promise<string> {
  const id = await scheduleMessage(fields)
  await world.sql`update messages set status = 'sending', updated_at = now() where id = ${id}`
  return id
}

/** Creates a message that its provider has accepted. Returns its id. */
async function createSentMessage(world: World, fields: MessageFields, by?: Client): Promise<string> {
  const id = await scheduleMessage(fields, by)
  const recipient_status = typeof fields.to === 'string' ? null : 'accepted'
  await world.sql`
    with job as (update jobs set state = 'succeeded', outcome = 'done', finished_at = now(), first_sent_at = now()
      where resource_id = ${id})
    update messages m set status = 'sent', sent_at = now(), provider_reference = ${freshSid()},
      recipients = (
        select jsonb_agg(r || jsonb_build_object('status', ${recipient_status}::text)) from jsonb_array_elements(m.recipients) r)
    where id = ${id}`
  await world.sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select tenant_id, ${newId()}, 'message.sent', id, '{}' from messages where id = ${id}`
  return id
}

const postStatus = async (
  world: World,
  id: string,
  sid: string,
  status: string,
  more: Record<string, string> = {},
) =>
  await postTwilio(
    world,
    `/twilio?m=${id}`,
    { MessageSid: sid, MessageStatus: status, To: '+15553009999', From: SENDER, ...more },
    SIGNED,
  )
const receiveSms = async (world: World, from: string, body: string, more: Record<string, string> = {}) =>
  await postTwilio(
    world,
    '/twilio',
    { MessageSid: freshSid(), SmsStatus: 'received', From: from, To: SENDER, Body: body, ...more },
    SIGNED,
  )
const postEmailEvent = async (
  world: World,
  type: string,
  message_id: string,
  address: string,
  more: Record<string, string> = {},
) => await postEmail(world, { type, data: { message_id, address, ...more } }, { secret: SECRET })

/** Resolves when all stored notifications are applied. */
async function awaitNotifications(world: World): Promise<void> {
  await eventually(async () => {
    const [row] = await world.sql<{ open: number }[]>`
      select count(*) as open from jobs where name = 'notification.apply' and finished_at is null`
    expect(row!.open).toBe(0)
  })
}

async function awaitState(world: World, id: string, expected: object): Promise<MessageState> {
  return await eventually(async () => {
    const state = await readMessageState(world, id)
    expect(state).toMatchObject(expected)
    return state
  })
}

type MessageState = Awaited<ReturnType<typeof readMessageState>>

/** Claims the job of the message for this test. */
async function claimJob(world: World, id: string): Promise<{ job_id: string; lease_token: string }> {
  const [job] = await world.sql<{ job_id: string; lease_token: string }[]>`
    update jobs set state = 'running', attempt = attempt + 1, worker = 'test', started_at = now(), lease_token = gen_random_uuid(),
      run_at = now(), lease_until = now() + interval '1 minute'
    where resource_id = ${id} returning id as job_id, lease_token`
  return job!
}
/** The settlement of an attempt that sent nothing. Its job waits. */
const RETURNED: Omit<Settlement, 'job_id' | 'lease_token'> = {
  state: 'ready',
  outcome: 'returned',
  error: null,
  delay_ms: 3_600_000,
  provider_reference: null,
  rotate: false,
  unsent: true,
  forgive: true,
  failing: null,
}
/** Settles the attempt at a message as a worker does, with its outcome. */
async function settle(
  world: World,
  update: MessageUpdate,
  ended: { state: 'succeeded' | 'failed'; outcome: 'done' | 'declined' },
): Promise<void> {
  const settlement = {
    ...(await claimJob(world, update.message_id)),
    ...ended,
    error: null,
    delay_ms: null,
    provider_reference: update.provider_reference,
    rotate: false,
    unsent: false,
    forgive: false,
    failing: false,
  }
  await settleMessages(world.sql, [{ ...settlement, update, notification_id: null, happened_at: null }])
}
const begin = async (world: World, id: string, lease: { job_id: string; lease_token: string }) =>
  (await beginMessages(world.sql, [{ ...lease, tenant_id: world.tenant_id, message_id: id }])).get(
    lease.job_id,
  )

describe('the start of a message', () => {
  test('happens once, by the worker that has the lease, and omits recipients that were suppressed in the meantime', async ({
    world,
  }) => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    const id = await scheduleMessage({ to: [ada], cc: [grace] })
    const to_grace = await scheduleMessage({ to: [grace] })
    await client.post('/v1/messages/suppressions', { channel: 'email', address: toUpperCaseAddress(grace) })
    const lease = await claimJob(world, id)
    expect(await begin(world, id, { ...lease, lease_token: newId() })).toBeUndefined()
    expect(await begin(world, id, lease)).toMatchObject({ may_send: true, status: 'sending' })
    expect(await begin(world, id, lease)).toMatchObject({ may_send: false, status: 'sending' })
    expect(await readMessageState(world, id)).toMatchObject({
      status: 'sending',
      recipients: [null, 'suppressed'],
    })

    expect(await begin(world, to_grace, await claimJob(world, to_grace))).toMatchObject({
      may_send: false,
      status: 'suppressed',
    })
    expect(await readMessageState(world, to_grace)).toMatchObject({
      status: 'suppressed',
      events: ['created', 'suppressed'],
    })
    await world.sql`update jobs set lease_until = now() where resource_id in (${id}, ${to_grace})`
    await awaitState(world, to_grace, { job: 'succeeded' })
    await awaitState(world, id, { status: 'unknown', job: 'unknown' })
  })

  test('is repeated by the next attempt if no attempt can have sent the message', async ({ world }) => {
    const { sql } = world
    const id = await scheduleMessage({ to: [freshAddress()] })
    const claim = async () => {
      const lease = await claimJob(world, id)
      await sql`
        update jobs set first_sent_at = coalesce(first_sent_at, now()), last_sent_at = now() where id = ${lease.job_id}`
      return lease
    }
    // The first attempt gets no answer from the database, and gives the job back.
    const first = await claim()
    expect(await begin(world, id, first)).toMatchObject({ may_send: true, status: 'sending' })
    await settleJobs(sql, [{ ...first, ...RETURNED }])
    const second = await claim()
    expect(await begin(world, id, second)).toMatchObject({ may_send: true, status: 'sending' })
    expect(await begin(world, id, second)).toMatchObject({ may_send: false, status: 'sending' })
    // This attempt may have sent the message.
    await settleJobs(sql, [{ ...second, ...RETURNED, outcome: 'ambiguous', unsent: false }])
    expect(await begin(world, id, await claim())).toMatchObject({ may_send: false, status: 'sending' })
    await sql`update jobs set lease_until = now() where resource_id = ${id}`
    await awaitState(world, id, { status: 'unknown', job: 'unknown' })
  })

  test('excludes the cancellation of the message, and vice versa, in each of twenty races', async ({
    world,
  }) => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => scheduleMessage({ to: [freshAddress()] })))
    const outcomes = await Promise.all(
      ids.map(async (id) => {
        const lease = await claimJob(world, id)
        const [may_send, canceled] = await Promise.all([
          begin(world, id, lease),
          client.post(`/v1/messages/${id}/cancel`),
        ])
        return [may_send?.may_send === true, canceled.status === 200]
      }),
    )
    expect(outcomes.filter(([may_send, canceled]) => may_send === canceled)).toEqual([])
    await world.sql`update jobs set lease_until = now() where resource_id = any(${ids}::uuid[])`
    for (const [nth, id] of ids.entries())
      await awaitState(
        world,
        id,
        outcomes[nth]![0] ? { status: 'unknown' } : { status: 'canceled', job: 'succeeded' },
      )
  })
})

describe('without a configured sender', () => {
  test.for(['email', 'sms'] as const)(
    'a synchronous request for an %s waits for a worker with the credentials, and an outage is reported',
    async (channel, { world }) => {
      const provider = channel === 'email' ? 'smtp' : 'twilio'
      const { status, body } = await send(
        { to: channel === 'email' ? [freshAddress()] : freshNumber() },
        { prefer: 'wait=1' },
      )
      expect([status, body.status]).toEqual([202, 'queued'])
      const misconfigured = (await metrics.misconfigured.get()).values.find(
        ({ labels }) => labels['provider'] === provider,
      )
      expect(misconfigured?.value).toBeGreaterThan(0)
      await until('the outage is reported', async () => {
        const rows = await world.sql`
          select from provider_outages where provider = ${provider} and outcome = 'misconfigured'`
        return rows.length > 0 || undefined
      })
      const credentials = {
        SMTP_URL: world.provider('smtp').addresses['smtp_url']!,
        TWILIO_ACCOUNT_SID: MESSAGE_SENDERS.TWILIO_ACCOUNT_SID,
        TWILIO_AUTH_TOKEN: world.provider('twilio').api_key,
      }
      const worker = await startInThisProcess(
        'worker',
        { ...world.env, ...credentials },
        createLog('silent', 'test'),
      )
      onTestFinished(() => worker.close())
      await eventually(async () => {
        await world.sql`update jobs set run_at = now() where resource_id = ${body.id} and state = 'ready'`
        expect((await client.get(`/v1/messages/${body.id}`)).body.status).toMatch(/^(sent|delivered)$/)
      })
    },
  )

  test('the log of a worker names the missing variables at the start, except those of disabled areas', async ({
    world,
  }) => {
    const lines: unknown[][] = []
    const log = createLog('silent', 'test')
    Object.assign(log, { warn: (...line: unknown[]) => void lines.push(line) })
    const env = {
      ...world.env,
      QUEUES: 'messages,ai',
      AI_BASE_URL: '',
      AI_API_KEY: '',
      TWILIO_AUTH_TOKEN: '',
    }
    await (await startInThisProcess('worker', { ...env, DISABLED_AREAS: 'ai' }, log)).close()
    expect(lines).toEqual([
      [{ provider: 'smtp' }, expect.stringContaining('SMTP_URL is not set')],
      [
        { provider: 'twilio' },
        expect.stringContaining('TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN are not set'),
      ],
    ])
  })

  test('an asynchronous message is retried', async ({ world }) => {
    const { id } = (await send({ to: freshNumber() }, { prefer: 'respond-async' })).body
    await eventually(async () => {
      const [job] = await world.sql`
        select a.outcome, j.state, round(extract(epoch from j.run_at - a.ended_at)) as retry_delay_s, m.status
        from jobs j join job_attempts a on a.job_id = j.id join messages m on m.id = j.resource_id
        where j.resource_id = ${id}`
      expect({ ...job }).toEqual({
        outcome: 'misconfigured',
        state: 'ready',
        retry_delay_s: '30',
        status: 'queued',
      })
    })
  })

  test('the job of a canceled message ends and sends nothing', async ({ world }) => {
    const id = await scheduleMessage({ to: freshNumber() })
    await client.post(`/v1/messages/${id}/cancel`)
    await world.sql`update jobs set run_at = now() where resource_id = ${id}`
    await awaitState(world, id, { status: 'canceled', job: 'succeeded' })
    const [job] = await world.sql`select first_sent_at from jobs where resource_id = ${id}`
    expect({ ...job }).toEqual({ first_sent_at: null })
  })

  test('an email whose worker died becomes unknown, is parked after an hour, and is resolved as failed by an operator', async ({
    world,
  }) => {
    const id = await createUncertainMessage(world, { to: [freshAddress()] })
    await world.sql`update jobs set run_at = now() where resource_id = ${id}`
    await awaitState(world, id, {
      status: 'unknown',
      job: 'unknown',
      parked: false,
      events: ['created', 'unknown'],
    })
    await world.sql`
      update jobs set run_at = now(), unknown_since = now() - interval '61 minutes' where resource_id = ${id}`
    await awaitState(world, id, { status: 'unknown', failure: 'not_resolved', parked: true })
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${id}`
    await world.sql.begin((tx) =>
      resolveAsFailed(tx, { job_id: job!.id, actor: 'ada', reason: 'the log of the relay' }),
    )
    expect(await readMessageState(world, id)).toMatchObject({
      status: 'failed',
      job: 'failed',
      error: { code: 'email_send_failed' },
      events: ['created', 'unknown', 'failed'],
    })
  })
})

test('a lookup by text does not settle a message with the reference of another message', async ({
  world,
}) => {
  const to = freshNumber()
  const other = await createSentMessage(world, { to })
  const id = await createUncertainMessage(world, { to })
  const update: MessageUpdate = {
    ...emptyMessageUpdate,
    tenant_id: world.tenant_id,
    message_id: id,
    reported: 'sent',
    provider_reference: (await readMessageState(world, other)).reference,
    found: true,
  }
  await expect(settle(world, update, { state: 'succeeded', outcome: 'done' })).rejects.toThrow(
    'the SMS that was found is that of another message',
  )
  expect(await readMessageState(world, id)).toMatchObject({ status: 'sending', reference: null })
})

test('a message whose attempts are exhausted after a send has an unknown outcome, which the API shows', async ({
  world,
}) => {
  const ada = freshAddress()
  const id = await createUncertainMessage(world, { to: [ada] })
  await world.sql`
    update jobs set run_at = now(), attempt = max_attempts, state = 'running', worker = 'lost', started_at = now(),
      lease_token = gen_random_uuid(), lease_until = now(), first_sent_at = now(), last_sent_at = now()
    where resource_id = ${id}`
  await awaitState(world, id, { status: 'unknown', job: 'unknown', events: ['created', 'unknown'] })
  await world.sql`
    update jobs set run_at = now(), unknown_since = now(), attempt = max_attempts + 1 where resource_id = ${id}`
  await awaitState(world, id, { status: 'unknown', parked: true })
  await postEmailEvent(world, 'email.delivered', id, ada)
  const { events } = await awaitState(world, id, { status: 'delivered', job: 'succeeded' })
  expect(events).toEqual(['created', 'unknown', 'delivered'])
})

describe('a callback of Twilio', () => {
  test('is answered with TwiML and stored once, without phone numbers', async ({ world }) => {
    const [id, sid] = [await createUncertainMessage(world, { to: freshNumber() }), freshSid()]
    for (const _delivery of [1, 2])
      expect(await postStatus(world, id, sid, 'delivered')).toMatchObject({
        status: 200,
        text: '<Response/>',
        type: expect.stringContaining('text/xml'),
      })
    const stored = await world.sql`select kind, state from notifications where object_id = ${sid}`
    expect(stored).toHaveLength(1)
    await awaitState(world, id, {
      status: 'delivered',
      reference: sid,
      job: 'succeeded',
      events: ['created', 'delivered'],
    })
  })

  test('is refused without a valid signature, and accepted with a signature by the current or the previous token', async ({
    world,
  }) => {
    const parameters = { MessageSid: freshSid(), MessageStatus: 'sent' }
    const statusOf = async (signed: { token: string; url: string }) =>
      (await postTwilio(world, `/twilio?m=${newId()}`, parameters, signed)).status
    expect(await statusOf({ token: 'another', url: PUBLIC_WEBHOOKS_URL })).toBe(400)
    // A client controls the Host header, so the signature must cover the configured URL.
    expect(await statusOf({ token: TOKEN, url: world.config.WEBHOOKS_URL! })).toBe(400)
    expect(await statusOf({ token: PREVIOUS_TOKEN, url: PUBLIC_WEBHOOKS_URL })).toBe(200)
    expect((await postTwilio(world, '/twilio', { a: 'b' }, SIGNED)).status).toBe(400)
    // The body is parsed before the signature is checked, so its size is limited.
    expect((await postTwilio(world, '/twilio', { a: 'b'.repeat(64 * 1024) }, SIGNED)).status).toBe(413)
    const padded = (names: number) => ({
      ...parameters,
      ...Object.fromEntries(Array.from({ length: names - 2 }, (_, nth) => [`x${nth}`, ''])),
    })
    expect((await postTwilio(world, '/twilio', padded(300), SIGNED)).status).toBe(200)
    expect((await postTwilio(world, '/twilio', padded(301), SIGNED)).status).toBe(413)
  })

  test.for<Record<string, string>>([{}, { 'x-twilio-signature': 'nonsense' }])(
    'is refused before its body arrives, with the headers %j',
    async (header, { world }) => {
      const headers = { ...header, 'content-length': '1000' }
      const unfinished = openUnfinished(
        world.config.WEBHOOKS_URL!,
        1,
        requestBytes('POST', '/twilio', headers, 'a'),
      )
      onTestFinished(() => unfinished.reset())
      await until('the request is refused', () => unfinished.statuses.length === 1)
      expect(unfinished.statuses).toEqual([400])
    },
  )

  test.for([
    ['sent', ['sent']],
    ['delivered', ['sent', 'delivered']],
    ['delivered', ['delivered', 'sent', 'queued']],
    ['undelivered', ['undelivered', 'sent']],
    ['delivered', ['undelivered', 'delivered', 'failed']],
    ['failed', ['failed', 'sent', 'queued']],
    ['delivered', ['delivered', 'read', 'failed']],
  ] as const)(
    'leads to the status %s of the message after the callbacks %j',
    async ([status, reported_statuses], { world }) => {
      const [id, sid] = [await createUncertainMessage(world, { to: freshNumber() }), freshSid()]
      for (const each of reported_statuses) {
        await postStatus(world, id, sid, each, { ErrorCode: '30003' })
        await awaitNotifications(world)
      }
      await awaitState(world, id, {
        status,
        reference: sid,
        job: status === 'failed' ? 'failed' : 'succeeded',
      })
      const failed = status === 'undelivered' || status === 'failed'
      expect((await readMessageState(world, id)).failure).toBe(failed ? 'unreachable' : null)
    },
  )

  test('replaces a failure that Sluice has recorded, and a reported failure is final and fails the job', async ({
    world,
  }) => {
    const id = await createUncertainMessage(world, { to: freshNumber() })
    const failure = { code: 'provider_error', message: 'Not sent.', provider_code: null } as const
    await settle(
      world,
      {
        ...emptyMessageUpdate,
        tenant_id: world.tenant_id,
        message_id: id,
        reported: 'refused',
        failure,
      },
      { state: 'failed', outcome: 'declined' },
    )
    const sid = freshSid()
    await postStatus(world, id, sid, 'sent')
    await awaitState(world, id, { status: 'sent', failure: null })
    await postStatus(world, id, sid, 'delivered')
    expect((await awaitState(world, id, { status: 'delivered' })).events).toEqual([
      'created',
      'failed',
      'sent',
      'delivered',
    ])

    const [other, other_sid] = [await createUncertainMessage(world, { to: freshNumber() }), freshSid()]
    await postStatus(world, other, other_sid, 'failed', { ErrorCode: '21614' })
    await awaitState(world, other, {
      status: 'failed',
      failure: 'invalid_number',
      job: 'failed',
      error: { code: 'sms_send_failed', provider_code: '21614' },
    })
  })

  test('leads to the final status of its message, even with a hundred concurrent callbacks in any order', async ({
    world,
  }) => {
    const messages = await Promise.all(
      Array.from(
        { length: 20 },
        async () => [await createUncertainMessage(world, { to: freshNumber() }), freshSid()] as const,
      ),
    )
    const reported_statuses = ['queued', 'sent', 'undelivered', 'delivered', 'sent']
    await Promise.all(
      messages.flatMap(([id, sid], nth) =>
        reported_statuses.map((_status, step) =>
          postStatus(world, id, sid, reported_statuses[(nth + step * 2) % 5]!),
        ),
      ),
    )
    await awaitNotifications(world)
    for (const [id, sid] of messages)
      expect((await awaitState(world, id, { status: 'delivered', job: 'succeeded' })).reference).toBe(sid)
  })

  test('for an unknown message or an email changes nothing', async ({ world }) => {
    const sid = freshSid()
    await postStatus(world, newId(), sid, 'delivered')
    const other = await createUncertainMessage(world, { to: [freshAddress()] })
    await postStatus(world, other, freshSid(), 'delivered')
    await awaitNotifications(world)
    const states = await world.sql`select state from notifications where object_id = ${sid}`
    expect([...states]).toEqual([{ state: 'ignored' }])
    expect(await readMessageState(world, other)).toMatchObject({ status: 'sending' })
    await world.sql`update jobs set run_at = now() where resource_id = ${other}`
    await awaitState(world, other, { status: 'unknown' })
  })
})

describe('incoming SMS and suppressions', () => {
  test('STOP suppresses the number for every tenant that uses the sender number, and START lifts the suppression', async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    const service = `MG${'0'.repeat(32)}`
    const our_message = await createSentMessage(world, { to: number })
    const their_message = await createSentMessage(world, { to: number, from: service }, clientOf(other))
    const unrelated = await world.clientOf()
    await createSentMessage(world, { to: number, from: '+15557654321' }, clientOf(unrelated))

    for (const reported of ['help', 'what?', 'stop please'])
      expect((await receiveSms(world, number, reported, { MessagingServiceSid: service })).status).toBe(200)
    await awaitNotifications(world)
    expect(await suppressionsOf(world, 'sms', number)).toEqual([])

    await Promise.all(
      [1, 2, 3].map(() => receiveSms(world, number, ' stop\n', { MessagingServiceSid: service })),
    )
    await awaitNotifications(world)
    const found = await suppressionsOf(world, 'sms', number)
    expect(
      found.map(({ tenant_id, reason, lifted }) => `${tenant_id} ${reason} ${lifted}`).toSorted(),
    ).toEqual([world.tenant_id, other.tenant_id].map((each) => `${each} opt_out false`).toSorted())
    for (const { tenant_id, id, sealed } of found)
      expect(createVault(world.env['ENCRYPTION_KEY']!).open(sealed!, suppressionContext(tenant_id, id))).toBe(
        number,
      )
    const message_ids = await world.sql<{ message_id: string }[]>`
      select data ->> 'message_id' as message_id from events
      where type = 'suppression.created' and subject_id = any(${found.map(({ id }) => id)}::uuid[])`
    expect(message_ids.map(({ message_id }) => message_id).toSorted()).toEqual(
      [our_message, their_message].toSorted(),
    )

    const next = await send({ to: number })
    expect([next.status, next.body.status]).toEqual([201, 'suppressed'])
    // Twilio's OptOutType takes precedence over the text.
    await receiveSms(world, number, 'I changed my mind', {
      MessagingServiceSid: service,
      OptOutType: 'START',
    })
    await awaitNotifications(world)
    const remaining = await suppressionsOf(world, 'sms', number)
    expect(remaining.map(({ lifted }) => lifted)).toEqual([true, true])
    const lifted = await world.sql`
      select from events where type = 'suppression.deleted' and subject_id = any(${found.map(({ id }) => id)}::uuid[])`
    expect(lifted.count).toBe(2)
  })

  test('STOP suppresses the number even for a tenant whose encrypted message is damaged', async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    await createSentMessage(world, { to: number })
    const their_message = await createSentMessage(world, { to: number }, clientOf(other))
    const [{ envelope }] = await world.sql<[{ envelope: string }]>`
      select envelope from messages where id = ${their_message}`
    await world.sql`update messages set envelope = 'spoilt' where id = ${their_message}`
    await receiveSms(world, number, 'STOP')
    await awaitNotifications(world)
    expect(await suppressionsOf(world, 'sms', number)).toHaveLength(2)
    await world.sql`update messages set envelope = ${envelope} where id = ${their_message}`
  })

  test.for([
    'Stop.',
    'opt out',
    'STOP ALL!',
    '“Stop”',
    '\u00a0ＳＴＯＰ\u00a0',
    'Opt-Out',
    'un-subscribe…',
    's.t.o.p',
    'STOP 🙏',
    '\u200bquit\ufeff',
  ])('%j counts as STOP', async (body, { world }) => {
    const number = freshNumber()
    await createSentMessage(world, { to: number })
    await receiveSms(world, number, body)
    await awaitNotifications(world)
    expect(await suppressionsOf(world, 'sms', number)).toMatchObject([{ reason: 'opt_out', lifted: false }])
    await receiveSms(world, number, '(yes!)')
    await awaitNotifications(world)
    expect(await suppressionsOf(world, 'sms', number)).toMatchObject([{ lifted: true }])
  })

  test.for(['stop it now', 'Do not stop', 'end of story', 'yesterday', 'canceled', '?', ''])(
    '%j is not a keyword',
    async (body, { world }) => {
      const number = freshNumber()
      await createSentMessage(world, { to: number })
      await receiveSms(world, number, body)
      await awaitNotifications(world)
      expect(await suppressionsOf(world, 'sms', number)).toEqual([])
    },
  )

  /** Posts all notifications while notifications are paused, then applies them in the given order. */
  async function applyInOrder(
    world: World,
    posts: (() => Promise<unknown>)[],
    order: number[],
    between = async () => {},
  ) {
    await pauseJobs(world.sql, { queue: 'notifications' })
    const ids: string[] = []
    for (const post of posts) {
      await post()
      const [job] = await world.sql<{ id: string }[]>`
        update jobs set run_at = 'infinity'
        where name = 'notification.apply' and finished_at is null and run_at < 'infinity' returning id`
      ids.push(job!.id)
    }
    await between()
    await resumeJobs(world.sql, { queue: 'notifications' })
    for (const nth of order) {
      await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id = ${ids[nth]!}`
      await until('the notification is applied', async () => {
        const [row] = await world.sql`select state from notifications where id = ${ids[nth]!}`
        return row?.['state'] === 'applied'
      })
    }
  }
  const activeReasons = async (world: World, number: string, tenant_id = world.tenant_id) =>
    (await suppressionsOf(world, 'sms', number))
      .filter((each) => !each.lifted && each.tenant_id === tenant_id)
      .map(({ reason }) => reason)

  test('the keyword that is received last counts, in any order of processing', async ({ world }) => {
    for (const [keywords, expected_reasons] of [
      [['STOP', 'START'], []],
      [['START', 'STOP'], ['opt_out']],
      [['STOP', 'START', 'STOP'], ['opt_out']],
      [['START', 'STOP', 'START'], []],
    ] as const)
      for (const order of [keywords.map((_, nth) => nth), keywords.map((_, nth) => nth).toReversed()]) {
        const number = freshNumber()
        await createSentMessage(world, { to: number })
        await applyInOrder(
          world,
          keywords.map((each) => () => receiveSms(world, number, each)),
          order,
        )
        expect([keywords, order, await activeReasons(world, number)]).toEqual([
          keywords,
          order,
          expected_reasons,
        ])
      }
  })

  test('the last keyword counts separately for each tenant, even across sender numbers', async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    const other_sender = '+15557654321'
    await createSentMessage(world, { to: number })
    await createSentMessage(world, { to: number, from: other_sender })
    await createSentMessage(world, { to: number }, clientOf(other))
    await applyInOrder(
      world,
      [
        () => receiveSms(world, number, 'STOP'),
        () => receiveSms(world, number, 'START', { To: other_sender }),
      ],
      [1, 0],
    )
    expect([await activeReasons(world, number), await activeReasons(world, number, other.tenant_id)]).toEqual(
      [[], ['opt_out']],
    )
  })

  test('an opt-out keyword that was received before the opt-out was lifted does not restore the opt-out; a keyword that is received later does', async ({
    world,
  }) => {
    const number = freshNumber()
    await createSentMessage(world, { to: number })
    await receiveSms(world, number, 'STOP')
    await awaitNotifications(world)
    const { id } = (await suppressionsOf(world, 'sms', number))[0]!
    await applyInOrder(world, [() => receiveSms(world, number, 'QUIT')], [0], async () => {
      expect((await client.delete(`/v1/messages/suppressions/${id}`)).status).toBe(200)
    })
    expect(await activeReasons(world, number)).toEqual([])
    await receiveSms(world, number, 'QUIT')
    await awaitNotifications(world)
    expect(await activeReasons(world, number)).toEqual(['opt_out'])
  })

  test('a bounce that is reported before its suppression is lifted does not restore the suppression, and a later bounce does', async ({
    world,
  }) => {
    const ada = freshAddress()
    const bounces: (() => Promise<unknown>)[] = []
    for (const id of [
      await createSentMessage(world, { to: [ada] }),
      await createSentMessage(world, { to: [ada] }),
      await createSentMessage(world, { to: [ada] }),
    ])
      bounces.push(() => postEmailEvent(world, 'email.bounced', id, ada, { bounce: 'hard' }))
    const activeSuppressions = async () =>
      (await suppressionsOf(world, 'email', ada)).filter((each) => !each.lifted)
    await bounces[0]!()
    await awaitNotifications(world)
    const [first] = await activeSuppressions()
    await applyInOrder(world, [bounces[1]!], [0], async () => {
      expect((await client.delete(`/v1/messages/suppressions/${first!.id}`)).status).toBe(200)
    })
    expect(await activeSuppressions()).toEqual([])
    await bounces[2]!()
    await awaitNotifications(world)
    expect(await activeSuppressions()).toMatchObject([{ reason: 'hard_bounce' }])
  })

  test('a keyword waits until an earlier keyword is settled', async ({ world }) => {
    const number = freshNumber()
    await createSentMessage(world, { to: number })
    let settled: Promise<unknown> = Promise.resolve()
    const countLockWaits = async () => {
      const [row] = await world.sql<{ count: number }[]>`
        select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      return row!.count
    }
    await world.sql.begin(async (tx) => {
      // This row blocks the suppression of the first keyword.
      await tx`
        insert into suppressions (tenant_id, id, channel, address, sealed, reason)
        values (${world.tenant_id}, ${newId()}, 'sms', ${hashOf(world)('sms', number)}, 'x', 'opt_out')`
      await receiveSms(world, number, 'STOP')
      await until('the first keyword waits', async () => (await countLockWaits()) === 1)
      settled = receiveSms(world, number, 'START').then(() => awaitNotifications(world))
      await until('the later keyword waits', async () => (await countLockWaits()) === 2)
      await tx`delete from suppressions where address = ${hashOf(world)('sms', number)}`
    })
    await settled
    expect(await activeReasons(world, number)).toEqual([])
  })

  test('a manual suppression exists in addition to any other suppression of the address', async ({
    world,
  }) => {
    const [number, ada, grace] = [freshNumber(), freshAddress(), freshAddress()]
    await createSentMessage(world, { to: number })
    const id = await createSentMessage(world, { to: [ada, grace] })
    const path = '/v1/messages/suppressions'
    const listSuppressions = async (address: string) =>
      (await client.get(`${path}?address=${encodeURIComponent(address)}`)).body as {
        id: string
        reason: string
      }[]
    for (const [address, channel, report, reason] of [
      [number, 'sms', () => receiveSms(world, number, 'STOP'), 'opt_out'],
      [
        ada,
        'email',
        () => postEmailEvent(world, 'email.bounced', id, ada, { bounce: 'hard' }),
        'hard_bounce',
      ],
      [grace, 'email', () => postEmailEvent(world, 'email.complained', id, grace), 'complaint'],
    ] as const) {
      const manual = await client.post(path, { channel, address })
      await report()
      await awaitNotifications(world)
      expect((await listSuppressions(address)).map((each) => each.reason)).toEqual([reason, 'manual'])
      expect((await client.delete(`${path}/${manual.body.id}`)).status).toBe(200)
      expect((await listSuppressions(address)).map((each) => each.reason)).toEqual([reason])
      const next = await send({ to: channel === 'sms' ? address : [address] })
      expect([next.status, next.body.status]).toEqual([201, 'suppressed'])
      // A second manual suppression, and its duplicate.
      const manual_again = await client.post(path, { channel, address })
      expect([manual_again.status, manual_again.body.reason]).toEqual([201, 'manual'])
      const duplicate = await client.post(path, { channel, address })
      expect([duplicate.status, duplicate.body]).toEqual([200, manual_again.body])
    }
    await receiveSms(world, number, 'START')
    await awaitNotifications(world)
    expect((await listSuppressions(number)).map((each) => each.reason)).toEqual(['manual'])
  })

  test('a message goes once to its other recipients if one recipient has several suppressions', async ({
    world,
  }) => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    await postEmailEvent(world, 'email.bounced', await createSentMessage(world, { to: [ada] }), ada, {
      bounce: 'hard',
    })
    await awaitNotifications(world)
    const id = await scheduleMessage({ to: [grace, freshAddress()] })
    await postEmailEvent(world, 'email.bounced', await createSentMessage(world, { to: [grace] }), grace, {
      bounce: 'hard',
    })
    await client.post('/v1/messages/suppressions', { channel: 'email', address: grace })
    await awaitNotifications(world)
    await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where resource_id = ${id}`
    const { recipients } = await eventually(async () => {
      const state = await readMessageState(world, id)
      expect(state.recipients).toContain('suppressed')
      return state
    })
    expect(recipients).toEqual(['suppressed', null])
  })

  test("an incoming SMS belongs to the tenant that last sent to the sender's number, creates an event, is stored encrypted, and is erased later", async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    await createSentMessage(world, { to: number }, clientOf(other))
    await createSentMessage(world, { to: number })
    // A scheduled message is not sent yet, so the SMS is no reply to it.
    await scheduleMessage({ to: number }, clientOf(other))
    const stranger = await world.clientOf()
    const sid = freshSid()
    const body = 'I changed my mind: red, please 🙂'
    await receiveSms(world, number, body, { MessageSid: sid })
    await awaitNotifications(world)
    const [ours_received, theirs_received] = await Promise.all(
      [client, clientOf(other)].map(
        async (reader) => (await reader.get('/v1/messages?status=received')).body,
      ),
    )
    const our_message = ours_received.find((each: any) => each.provider_reference === sid)
    expect(our_message).toMatchObject({
      status: 'received',
      channel: 'sms',
      from: number,
      to: SENDER,
      body: null,
    })
    expect(our_message.idempotency_key).toBeNull()
    expect(theirs_received).toEqual([])
    const [update] = await world.sql`
      select count(*)::int as count from events where type = 'message.received' and tenant_id = ${other.tenant_id}`
    expect(update!['count']).toBe(0)
    const { body: to_sender } = await client.get(
      `/v1/messages?to=${encodeURIComponent(SENDER)}&status=received`,
    )
    expect(to_sender.map((each: any) => each.id)).toContain(our_message.id)
    const from_number = `/v1/messages?from=${encodeURIComponent(number)}`
    expect((await client.get(from_number)).body.map((each: any) => each.id)).toEqual([our_message.id])
    expect((await clientOf(other).get(from_number)).body).toEqual([])
    // The filter `from` does not find outgoing messages.
    expect((await client.get(`/v1/messages?from=${encodeURIComponent(SENDER)}`)).body).toEqual([])
    expect(await readMessageState(world, our_message.id)).toMatchObject({ events: ['received'], job: null })
    const [event] = await world.sql<{ data: object }[]>`
      select data from events where type = 'message.received' and subject_id = ${our_message.id}`
    expect(event!.data).toMatchObject({ id: our_message.id, status: 'received', channel: 'sms' })
    expect(
      (await client.post(`/v1/messages/${our_message.id}/cancel`, { idempotency_key: freshKey() })).status,
    ).toBe(409)
    const [notification] = await world.sql`select payload from notifications where object_id = ${sid}`
    expect(notification!['payload']).not.toHaveProperty('text')
    // A keyword suppresses the number for both tenants, and only one tenant can read the keyword.
    await receiveSms(world, number, 'STOP')
    await awaitNotifications(world)
    expect((await clientOf(other).get('/v1/messages?status=received')).body).toEqual([])
    for (const reader of [client, clientOf(other)]) {
      const { body: stopped } = await reader.get(
        `/v1/messages/suppressions?address=${encodeURIComponent(number)}`,
      )
      expect(stopped).toMatchObject([{ reason: 'opt_out' }])
    }
    expect((await clientOf(stranger).get('/v1/messages?status=received')).body).toEqual([])
    const retrieved = (await client.get(`/v1/messages/${our_message.id}`)).body
    expect(retrieved).toMatchObject({ body, encoding: 'UCS-2', segments: 1, provider: 'twilio' })
    await world.sql`
      update messages set created_at = created_at - interval '91 days', updated_at = updated_at - interval '3 days'
      where id = ${our_message.id}`
    await eventually(async () => {
      const erased = (await client.get(`/v1/messages/${our_message.id}`)).body
      expect([erased.body, erased.redacted_at === null, erased.from]).toEqual([null, false, number])
      // The newer message is the keyword.
      expect((await client.get(from_number)).body).toMatchObject([{}, { id: our_message.id, body: null }])
    })
  })

  test('an SMS from an unknown number is parked, then ignored, and its text is deleted', async ({
    world,
  }) => {
    const [number, sid] = [freshNumber(), freshSid()]
    await receiveSms(world, number, 'STOP', { MessageSid: sid })
    const readNotification = async () => {
      const [row] = await world.sql`
        select state, reason, payload ? 'text' as has_text from notifications where object_id = ${sid}`
      return { ...row }
    }
    await eventually(async () =>
      expect(await readNotification()).toEqual({ state: 'parked', reason: 'not_ours', has_text: true }),
    )
    await world.sql`
      update jobs set run_at = now(), wakeup_sent_at = null
      where id = (select id from notifications where object_id = ${sid})`
    await awaitNotifications(world)
    expect(await readNotification()).toEqual({ state: 'ignored', reason: 'not_ours', has_text: false })
  })

  test('an SMS does not go to a tenant whose first message to the number is sent after the SMS was received', async ({
    world,
  }) => {
    const [number, sid] = [freshNumber(), freshSid()]
    await receiveSms(world, number, 'Is anybody there?', { MessageSid: sid })
    await eventually(async () => {
      const [row] = await world.sql`select state from notifications where object_id = ${sid}`
      expect(row!['state']).toBe('parked')
    })
    await createSentMessage(world, { to: number })
    await world.sql`
      update jobs set run_at = now(), wakeup_sent_at = null
      where id = (select id from notifications where object_id = ${sid})`
    await awaitNotifications(world)
    const { body: received } = await client.get('/v1/messages?status=received&limit=100')
    expect(received.filter((each: any) => each.provider_reference === sid)).toEqual([])
  })

  const hasReceived = async (reader: Client, sid: string) =>
    (await reader.get('/v1/messages?status=received&limit=100')).body.some(
      (each: any) => each.provider_reference === sid,
    )
  /** Posts an SMS from the number. Returns whether the first tenant receives the SMS, and whether `other` does. */
  async function receiversOf(world: World, number: string, other: Client): Promise<boolean[]> {
    const sid = freshSid()
    await receiveSms(world, number, 'Yes, my code is 4711', { MessageSid: sid })
    await awaitNotifications(world)
    return [await hasReceived(client, sid), await hasReceived(other, sid)]
  }
  const setTimes = async (world: World, id: string, ages: { accepted: string; sent: string }) =>
    await world.sql`
      update messages set send_at = null, created_at = now() - ${ages.accepted}::interval,
        sent_at = now() - ${ages.sent}::interval where id = ${id}`

  test('an incoming SMS belongs to the tenant whose message was sent last, not to the tenant whose message was accepted last', async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), clientOf(await world.clientOf())]
    const our_message = await createSentMessage(world, { to: number })
    const their_message = await createSentMessage(world, { to: number }, other)
    await setTimes(world, our_message, { accepted: '30 minutes', sent: '1 minute' })
    await setTimes(world, their_message, { accepted: '15 minutes', sent: '15 minutes' })
    expect(await receiversOf(world, number, other)).toEqual([true, false])
    await setTimes(world, our_message, { accepted: '10 minutes', sent: '16 minutes' })
    expect(await receiversOf(world, number, other)).toEqual([false, true])
  })

  test('an SMS is a reply to a message in progress, and not to a message that is sent after the SMS was received', async ({
    world,
  }) => {
    const [number, other] = [freshNumber(), clientOf(await world.clientOf())]
    const our_message = await scheduleMessage({ to: number })
    await createSentMessage(world, { to: number }, other)
    await world.sql`update messages set send_at = null, status = 'queued' where id = ${our_message}`
    expect(await receiversOf(world, number, other)).toEqual([false, true])
    const sid = freshSid()
    const startSending = async () =>
      expect(await begin(world, our_message, await claimJob(world, our_message))).toMatchObject({
        may_send: true,
        status: 'sending',
      })
    await applyInOrder(
      world,
      [() => receiveSms(world, number, 'Who?', { MessageSid: sid })],
      [0],
      startSending,
    )
    expect([await hasReceived(client, sid), await hasReceived(other, sid)]).toEqual([false, true])
    // The first tenant's message has no outcome yet, and its recorded send time is later than the SMS.
    await world.sql`update messages set sent_at = now() + interval '1 minute' where id = ${our_message}`
    expect(await receiversOf(world, number, other)).toEqual([true, false])
  })

  test("the provider's id of an incoming SMS does not occupy an idempotency key, and a callback for this id changes nothing", async ({
    world,
  }) => {
    const [number, sid] = [freshNumber(), freshSid()]
    await createSentMessage(world, { to: number })
    await receiveSms(world, number, 'Is it blue?', { MessageSid: sid })
    await awaitNotifications(world)
    const reply = await send(
      { to: number, body: 'It is.', idempotency_key: sid },
      { prefer: 'respond-async' },
    )
    expect(reply).toMatchObject({ status: 202, body: { status: 'queued', idempotency_key: sid } })
    const { body: messages } = await client.get('/v1/messages?status=received&limit=100')
    const received = messages.find((each: any) => each.provider_reference === sid)
    await postStatus(world, '', sid, 'delivered')
    await postStatus(world, received.id, sid, 'delivered')
    await awaitNotifications(world)
    expect((await client.get(`/v1/messages/${received.id}`)).body).toMatchObject({
      status: 'received',
      body: 'Is it blue?',
    })
  })
})

describe('an event of an email', () => {
  test('suppresses an address that bounced hard, and gives the email the status undelivered when all recipients have bounced', async ({
    world,
  }) => {
    const [ada, grace] = [`Ada <${freshAddress()}>`, freshAddress()]
    const id = await createSentMessage(world, { to: [ada, grace] })
    const diagnostic = `550 5.1.1 <${bareAddress(ada)}>: no such mailbox`
    const bounce = { bounce: 'hard', diagnostic }
    expect((await postEmailEvent(world, 'email.bounced', id, toUpperCaseAddress(ada), bounce)).status).toBe(
      200,
    )
    await awaitState(world, id, {
      status: 'sent',
      recipients: ['bounced', 'accepted'],
      events: ['created', 'sent', 'bounced'],
    })
    // Repeats the bounce with another event id.
    await postEmailEvent(world, 'email.bounced', id, bareAddress(ada), bounce)
    await awaitNotifications(world)
    expect(await suppressionsOf(world, 'email', ada)).toMatchObject([
      { reason: 'hard_bounce', lifted: false },
    ])
    const query = `address=${encodeURIComponent(bareAddress(ada))}`
    const { body: suppressions } = await client.get(`/v1/messages/suppressions?${query}`)
    expect(suppressions).toMatchObject([{ address: bareAddress(ada), message_id: id }])
    const [stored_recipient] =
      await world.sql`select recipients -> 0 ->> 'code' as code from messages where id = ${id}`
    expect({ ...stored_recipient }).toEqual({ code: '550 5.1.1' })
    await postEmailEvent(world, 'email.bounced', id, grace, { bounce: 'hard' })
    await awaitState(world, id, {
      status: 'undelivered',
      failure: 'recipient_refused',
      recipients: ['bounced', 'bounced'],
      events: ['created', 'sent', 'bounced', 'undelivered', 'bounced'],
    })
  })

  test('suppresses an address after a complaint, and not after a soft bounce', async ({ world }) => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    const id = await createSentMessage(world, { to: [ada], bcc: [grace] })
    await postEmailEvent(world, 'email.bounced', id, ada, { bounce: 'soft', diagnostic: '452 4.2.2 full' })
    await postEmailEvent(world, 'email.delivered', id, ada)
    await awaitState(world, id, { status: 'sent', recipients: ['delivered', 'accepted'] })
    await postEmailEvent(world, 'email.delivered', id, grace)
    await awaitState(world, id, { status: 'delivered', recipients: ['delivered', 'delivered'] })
    await postEmailEvent(world, 'email.complained', id, grace)
    await awaitState(world, id, {
      status: 'delivered',
      recipients: ['delivered', 'bounced'],
      events: ['created', 'sent', 'delivered', 'complained'],
    })
    await postEmailEvent(world, 'email.delivered', id, grace)
    await awaitNotifications(world)
    expect(await readMessageState(world, id)).toMatchObject({ recipients: ['delivered', 'bounced'] })
    expect(await suppressionsOf(world, 'email', grace)).toMatchObject([{ reason: 'complaint' }])
    expect(await suppressionsOf(world, 'email', ada)).toEqual([])
    const applied = await world.sql`select from notifications where resource_id = ${id} and state = 'applied'`
    expect(applied.count).toBe(5)
  })

  test.for([
    ['email.delivered', 'delivered'],
    ['email.bounced', 'undelivered'],
    ['email.complained', 'undelivered'],
  ] as const)('of type %s settles an email whose outcome is unknown', async ([type, status], { world }) => {
    const ada = freshAddress()
    const id = await createUncertainMessage(world, { to: [ada] })
    await postEmailEvent(world, type, id, ada, type === 'email.bounced' ? { bounce: 'hard' } : {})
    expect((await awaitState(world, id, { status, job: 'succeeded' })).reference).toBe(`<${id}@shop.example>`)
  })

  test('for another recipient or an unknown message changes nothing', async ({ world }) => {
    const id = await createSentMessage(world, { to: [freshAddress()] })
    const stranger = freshAddress()
    await postEmailEvent(world, 'email.complained', id, stranger)
    await postEmailEvent(world, 'email.complained', newId(), stranger)
    expect((await postEmailEvent(world, 'email.opened', id, stranger)).status).toBe(200)
    await awaitNotifications(world)
    expect(await readMessageState(world, id)).toMatchObject({ status: 'sent', recipients: ['accepted'] })
    expect(await suppressionsOf(world, 'email', stranger)).toEqual([])
  })

  test('is refused with another secret or an old time, accepted with each of both secrets, and stored once per id', async ({
    world,
  }) => {
    const event = { type: 'email.delivered', data: { message_id: newId(), address: freshAddress() } }
    const other = `whsec_${randomBytes(32).toString('base64')}`
    const timeAfter = (seconds: number) => new Date(Date.now() + seconds * 1000)
    for (const refused of [
      { secret: other },
      { secret: SECRET, at: timeAfter(-310) },
      { secret: SECRET, at: timeAfter(310) },
    ])
      expect(await postEmail(world, event, refused)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_signature' } },
      })
    const accepted = { secret: PREVIOUS_SECRET, id: 'msg_once', at: timeAfter(-290) }
    expect(await postEmail(world, event, accepted)).toEqual({ status: 200, body: { received: true } })
    expect(await postEmail(world, event, accepted)).toEqual({
      status: 200,
      body: { received: true, duplicate: true },
    })
    // The error names the invalid field, because engineers who connect a relay need the name.
    for (const [invalid_event, problem] of [
      [{}, 'type is required'],
      [{ type: 'email.bounced', data: { ...event.data } }, 'data.bounce is required'],
      [
        { type: 'email.bounced', data: { ...event.data, bounce: 'high' } },
        'data.bounce must be one of hard, soft',
      ],
      [
        { type: 'email.delivered', data: { ...event.data, message_id: '17' } },
        'data.message_id must be a UUID, such as 0198f6f0-1234-7000-8000-123456789abc; it is the `id` in our answers, not a name, a slug or an id of a provider',
      ],
      [{ type: 'email.delivered' }, 'data is required'],
      [[], 'the body must be an object'],
    ] as const)
      expect(await postEmail(world, invalid_event, { secret: SECRET })).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request', message: `The body is not an event: ${problem}.` } },
      })
  })
})

test('old texts and attachments of final messages are erased, and old counts are deleted', async ({
  world,
}) => {
  const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'YQ==' }]
  const final = await createSentMessage(world, { to: [freshAddress()], attachments })
  const unknown = await createUncertainMessage(world, { to: [freshAddress()], attachments })
  await world.sql`
    with m as (update messages set status = 'unknown' where id = ${unknown} returning tenant_id, id)
    insert into events (tenant_id, id, type, subject_id, data) select tenant_id, ${newId()}, 'message.unknown', id, '{}' from m`
  const recent = await createSentMessage(world, { to: [freshAddress()], attachments })
  const open = await scheduleMessage({ to: freshNumber() })
  const all = [final, unknown, recent, open]
  await world.sql`
    insert into message_limits (tenant_id, scope, window_start, used) values
    (${world.tenant_id}, 'old', now() - interval '3 hours', 1), (${world.tenant_id}, 'new', now(), 1)`
  await world.sql`
    update messages set created_at = created_at - interval '91 days',
      updated_at = case when id = ${recent} then now() else updated_at - interval '2 days' end
    where id = any(${all}::uuid[])`
  await eventually(async () => {
    const rows = await world.sql`
      select id, content is null as erased, redacted_at is not null as reported,
        (select count(*) from message_attachments a where a.message_id = m.id) as files
      from messages m where id = any(${all}::uuid[]) order by array_position(${all}::uuid[], id)`
    expect(rows.map((row) => ({ ...row }))).toEqual([
      { id: final, erased: true, reported: true, files: 0 },
      { id: unknown, erased: true, reported: true, files: 0 },
      { id: recent, erased: false, reported: false, files: 1 },
      { id: open, erased: false, reported: false, files: 0 },
    ])
    const limits = await world.sql`select scope from message_limits where scope in ('old', 'new')`
    expect(limits.map(({ scope }) => scope)).toEqual(['new'])
  })
  await world.sql`update messages set created_at = created_at + interval '91 days' where id = any(${all}::uuid[])`
})

test('no table contains an address or a text, and the audit finds no problem', async ({ world }) => {
  await awaitNotifications(world)
  const rows = await readAllRows(world.sql)
  expect(rows).toContain('sms.delivered')
  // The addresses of the test suite's own accounts do not match.
  expect(rows.match(/\+1415555\d{4}|ada\d+@example|on its way|no such mailbox|changed my mind/i)).toBe(null)
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems).toEqual([])
})
