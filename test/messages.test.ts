// Messages on their way: begun once, settled by what is heard of them, and kept from whom they must not reach.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { bareAddress } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsFailed } from '#domain/interventions/act.ts'
import { beginMessages } from '#domain/messages/begin.ts'
import { settleMessages } from '#domain/messages/settle.ts'
import { emptyMessageUpdate } from '#domain/messages/update.ts'
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
import { startHere } from '#test/parts.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { eventually } from '#test/payments.ts'
import { until } from '#test/process.ts'
import { openUnfinished, requestBytes } from '#test/raw.ts'
import { createWorld, type World } from '#test/world.ts'

const [TOKEN, OLD_TOKEN] = ['token-of-now', 'token-of-before']
const [SECRET, OLD_SECRET] = [0, 1].map(() => `whsec_${randomBytes(32).toString('base64')}`) as [
  string,
  string,
]
/** Where Twilio reaches the webhooks host, behind a proxy. */
const HOOKS = 'https://hooks.shop.example'
const SIGNED = { token: TOKEN, url: HOOKS }
const SENDER = MESSAGE_SENDERS.TWILIO_FROM

let world: World
/** The API believes that there are senders; the worker has none, so that each message stays as it is put. */
let api: Awaited<ReturnType<typeof startHere>>
let client: Client
beforeAll(async () => {
  world = await createWorld({
    parts: ['webhooks', 'worker'],
    notifications: false,
    env: {
      WEBHOOKS_URL: HOOKS,
      TWILIO_AUTH_TOKEN: `${TOKEN},${OLD_TOKEN}`,
      EMAIL_WEBHOOK_SECRET: `${SECRET},${OLD_SECRET}`,
      SMTP_URL: '',
      TWILIO_ACCOUNT_SID: '',
    },
  })
  api = await startHere('api', { ...world.env, ...MESSAGE_SENDERS }, createLog('silent', 'test'))
  client = clientOf(world.client)
})
afterAll(async () => {
  await api?.close()
  await world?.close()
})

let numbers = 0
const freshNumber = () => `+1415555${String(2000 + (numbers += 1))}`
const freshAddress = () => `ada${(numbers += 1)}@example.com`
const freshSid = () => `SM${randomBytes(16).toString('hex')}`

const clientOf = ({ key }: { key: string }) => createClient(api.url!, key)
/** An email, or an SMS where it is to a number. */
type Wanted = { to: string | string[]; from?: string } & Record<string, unknown>
const send = async (wanted: Wanted, headers?: Record<string, string>, by = client): Promise<Answer> => {
  const is_sms = typeof wanted.to === 'string'
  const reported = is_sms ? { body: 'It is on its way.' } : { subject: 'Shipped', text: 'It is on its way.' }
  const path = `/v1/messages/${is_sms ? 'sms' : 'email'}`
  return await by.post(path, { idempotency_key: freshKey(), ...reported, ...wanted }, headers)
}

/** A message that waits for its time. Answers its id. */
async function scheduled(wanted: Wanted, by?: Client): Promise<string> {
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  const { status, body } = await send({ ...wanted, send_at }, {}, by)
  expect([status, body.status]).toEqual([201, 'scheduled'])
  return body.id
}

/** A message that may have been sent: its worker was lost while the provider was asked. */
async function lost(wanted: Wanted): Promise<string> {
  const id = await scheduled(wanted)
  await world.sql`update messages set status = 'sending', updated_at = now() where id = ${id}`
  return id
}

/** A message that its provider has taken. */
async function sent(wanted: Wanted, by?: Client): Promise<string> {
  const id = await scheduled(wanted, by)
  const taken = typeof wanted.to === 'string' ? null : 'accepted'
  await world.sql`
    with job as (update jobs set state = 'succeeded', outcome = 'done', finished_at = now(), first_sent_at = now()
      where subject_id = ${id})
    update messages m set status = 'sent', sent_at = now(), provider_reference = ${freshSid()},
      recipients = (
        select jsonb_agg(r || jsonb_build_object('status', ${taken}::text)) from jsonb_array_elements(m.recipients) r)
    where id = ${id}`
  await world.sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select tenant_id, ${newId()}, 'message.sent', id, '{}' from messages where id = ${id}`
  return id
}

const callback = async (id: string, sid: string, status: string, more: Record<string, string> = {}) =>
  await postTwilio(
    world,
    `/twilio?m=${id}`,
    { MessageSid: sid, MessageStatus: status, To: '+15553009999', From: SENDER, ...more },
    SIGNED,
  )
const word = async (from: string, body: string, more: Record<string, string> = {}) =>
  await postTwilio(
    world,
    '/twilio',
    { MessageSid: freshSid(), SmsStatus: 'received', From: from, To: SENDER, Body: body, ...more },
    SIGNED,
  )
const update = async (type: string, message_id: string, address: string, more: Record<string, string> = {}) =>
  await postEmail(world, { type, data: { message_id, address, ...more } }, { secret: SECRET })

/** Resolves when all that was told so far is applied. Looks at what is unknown are due for an hour. */
async function applied(): Promise<void> {
  await eventually(async () => {
    const [row] = await world.sql<{ open: number }[]>`
      select count(*) as open from jobs where name = 'notification.apply' and finished_at is null`
    expect(row!.open).toBe(0)
  })
}

async function becomes(id: string, stands: object): Promise<Stands> {
  return await eventually(async () => {
    const now = await readMessageState(world, id)
    expect(now).toMatchObject(stands)
    return now
  })
}

type Stands = Awaited<ReturnType<typeof readMessageState>>

/** The job, held by this test. */
async function held(id: string): Promise<{ job_id: string; lease_token: string }> {
  const [job] = await world.sql<{ job_id: string; lease_token: string }[]>`
    update jobs set state = 'running', attempt = 1, worker = 'test', started_at = now(), lease_token = gen_random_uuid(),
      run_at = now(), lease_until = now() + interval '1 minute'
    where subject_id = ${id} returning id as job_id, lease_token`
  return job!
}
const begin = async (id: string, lease: { job_id: string; lease_token: string }) =>
  (await beginMessages(world.sql, [{ ...lease, tenant_id: world.tenant_id, message_id: id }])).get(
    lease.job_id,
  )

describe('a message begins', () => {
  test('once, for the holder of its lease, and without whom was suppressed meanwhile', async () => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    const id = await scheduled({ to: [ada], cc: [grace] })
    const for_grace = await scheduled({ to: [grace] })
    await client.post('/v1/messages/suppressions', { channel: 'email', address: toUpperCaseAddress(grace) })
    const lease = await held(id)
    expect(await begin(id, { ...lease, lease_token: newId() })).toBeUndefined()
    expect(await begin(id, lease)).toMatchObject({ may_send: true, status: 'sending' })
    expect(await begin(id, lease)).toMatchObject({ may_send: false, status: 'sending' })
    expect(await readMessageState(world, id)).toMatchObject({
      status: 'sending',
      recipients: [null, 'suppressed'],
    })

    expect(await begin(for_grace, await held(for_grace))).toMatchObject({
      may_send: false,
      status: 'suppressed',
    })
    expect(await readMessageState(world, for_grace)).toMatchObject({
      status: 'suppressed',
      events: ['created', 'suppressed'],
    })
    await world.sql`update jobs set lease_until = now() where subject_id in (${id}, ${for_grace})`
    await becomes(for_grace, { job: 'succeeded' })
    await becomes(id, { status: 'unknown', job: 'unknown' })
  })

  test('or was canceled: of twenty of each, every one is either', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => scheduled({ to: [freshAddress()] })))
    const raced = await Promise.all(
      ids.map(async (id) => {
        const lease = await held(id)
        const [may_send, canceled] = await Promise.all([
          begin(id, lease),
          client.post(`/v1/messages/${id}/cancel`),
        ])
        return [may_send?.may_send === true, canceled.status === 200]
      }),
    )
    expect(raced.filter(([may_send, canceled]) => may_send === canceled)).toEqual([])
    await world.sql`update jobs set lease_until = now() where subject_id = any(${ids}::uuid[])`
    for (const [nth, id] of ids.entries())
      await becomes(id, raced[nth]![0] ? { status: 'unknown' } : { status: 'canceled', job: 'succeeded' })
  })
})

describe('where nothing can be sent', () => {
  test.each(['email', 'sms'] as const)('an %s for which somebody waits has failed', async (channel) => {
    const { status, body } = await send({ to: channel === 'email' ? [freshAddress()] : freshNumber() })
    expect([status, body.error.code]).toEqual([channel === 'email' ? 500 : 502, `${channel}_send_failed`])
    await becomes(body.error.context.message_id, {
      status: 'failed',
      job: 'failed',
      outcome: 'declined',
      error: { code: `${channel}_send_failed`, provider_message: expect.stringContaining('configured') },
      events: ['created', 'failed'],
    })
  })

  test('another waits until it can', async () => {
    const { id } = (await send({ to: freshNumber() }, { prefer: 'respond-async' })).body
    await eventually(async () => {
      const [job] = await world.sql`
        select a.outcome, j.state, round(extract(epoch from j.run_at - a.ended_at)) as again_s, m.status
        from jobs j join job_attempts a on a.job_id = j.id join messages m on m.id = j.subject_id
        where j.subject_id = ${id}`
      expect({ ...job }).toEqual({
        outcome: 'misconfigured',
        state: 'ready',
        again_s: '30',
        status: 'queued',
      })
    })
  })

  test('one that was canceled ends its job, and sends nothing', async () => {
    const id = await scheduled({ to: freshNumber() })
    await client.post(`/v1/messages/${id}/cancel`)
    await world.sql`update jobs set run_at = now() where subject_id = ${id}`
    await becomes(id, { status: 'canceled', job: 'succeeded' })
    const [job] = await world.sql`select first_sent_at from jobs where subject_id = ${id}`
    expect({ ...job }).toEqual({ first_sent_at: null })
  })

  test('an email whose worker was lost is unknown, is looked for thrice, and then an operator decides', async () => {
    const id = await lost({ to: [freshAddress()] })
    await world.sql`update jobs set run_at = now() where subject_id = ${id}`
    await becomes(id, { status: 'unknown', job: 'unknown', parked: false, events: ['created', 'unknown'] })
    await world.sql`
      update jobs set run_at = now(), unknown_since = now() - interval '61 minutes' where subject_id = ${id}`
    await becomes(id, { status: 'unknown', failure: 'not_resolved', parked: true })
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${id}`
    await world.sql.begin((tx) =>
      resolveAsFailed(tx, { job_id: job!.id, who: 'ada', reason: 'the log of the relay' }),
    )
    expect(await readMessageState(world, id)).toMatchObject({
      status: 'failed',
      job: 'failed',
      error: { code: 'email_send_failed' },
      events: ['created', 'unknown', 'failed'],
    })
  })
})

test('one that was looked for by its text is not settled with what another was found to be meanwhile', async () => {
  const to = freshNumber()
  const other = await sent({ to })
  const id = await lost({ to })
  const update = {
    ...emptyMessageUpdate,
    tenant_id: world.tenant_id,
    message_id: id,
    reported: 'sent' as const,
    provider_reference: (await readMessageState(world, other)).reference,
    found: true,
  }
  const settlement = {
    ...(await held(id)),
    state: 'succeeded' as const,
    outcome: 'done' as const,
    error: null,
    delay_ms: null,
    provider_reference: update.provider_reference,
    rotate: false,
    unsent: false,
    forgive: false,
    failing: false,
  }
  await expect(
    settleMessages(world.sql, [{ ...settlement, update, notification_id: null, happened_at: null }]),
  ).rejects.toThrow('messages_provider_reference')
  expect(await readMessageState(world, id)).toMatchObject({ status: 'sending', reference: null })
})

test('one whose attempts were used up while it was sent is unknown to whoever asks for it, too', async () => {
  const ada = freshAddress()
  const id = await lost({ to: [ada] })
  await world.sql`
    update jobs set run_at = now(), attempt = max_attempts, state = 'running', worker = 'lost', started_at = now(),
      lease_token = gen_random_uuid(), lease_until = now(), first_sent_at = now(), last_sent_at = now()
    where subject_id = ${id}`
  await becomes(id, { status: 'unknown', job: 'unknown', events: ['created', 'unknown'] })
  await world.sql`
    update jobs set run_at = now(), unknown_since = now(), attempt = max_attempts + 1 where subject_id = ${id}`
  await becomes(id, { status: 'unknown', parked: true })
  await update('email.delivered', id, ada)
  const { events } = await becomes(id, { status: 'delivered', job: 'succeeded' })
  expect(events).toEqual(['created', 'unknown', 'delivered'])
})

describe('what Twilio posts', () => {
  test('is answered with TwiML, stored once, and without numbers', async () => {
    const [id, sid] = [await lost({ to: freshNumber() }), freshSid()]
    for (const _again of [1, 2])
      expect(await callback(id, sid, 'delivered')).toMatchObject({
        status: 200,
        text: '<Response/>',
        type: expect.stringContaining('text/xml'),
      })
    const stored = await world.sql`select kind, state from notifications where object_id = ${sid}`
    expect(stored).toHaveLength(1)
    await becomes(id, {
      status: 'delivered',
      reference: sid,
      job: 'succeeded',
      events: ['created', 'delivered'],
    })
  })

  test('is refused when it is not signed, and believed of either token', async () => {
    const parameters = { MessageSid: freshSid(), MessageStatus: 'sent' }
    const posted = async (signed: { token: string; url: string }) =>
      (await postTwilio(world, `/twilio?m=${newId()}`, parameters, signed)).status
    expect(await posted({ token: 'another', url: HOOKS })).toBe(400)
    // The host that a request names is anybody's to say.
    expect(await posted({ token: TOKEN, url: world.config.WEBHOOKS_URL! })).toBe(400)
    expect(await posted({ token: OLD_TOKEN, url: HOOKS })).toBe(200)
    expect((await postTwilio(world, '/twilio', { a: 'b' }, SIGNED)).status).toBe(400)
    // It would be taken apart before it is known to be Twilio's.
    expect((await postTwilio(world, '/twilio', { a: 'b'.repeat(64 * 1024) }, SIGNED)).status).toBe(413)
    const padded = (names: number) => ({
      ...parameters,
      ...Object.fromEntries(Array.from({ length: names - 2 }, (_, nth) => [`x${nth}`, ''])),
    })
    expect((await postTwilio(world, '/twilio', padded(300), SIGNED)).status).toBe(200)
    expect((await postTwilio(world, '/twilio', padded(301), SIGNED)).status).toBe(413)
  })

  test.each<Record<string, string>>([{}, { 'x-twilio-signature': 'nonsense' }])(
    'is refused before it has arrived with the headers %j',
    async (header) => {
      const headers = { ...header, 'content-length': '1000' }
      const half = openUnfinished(
        world.config.WEBHOOKS_URL!,
        1,
        requestBytes('POST', '/twilio', headers, 'a'),
      )
      onTestFinished(() => half.reset())
      await until('it is refused', () => half.statuses.length === 1)
      expect(half.statuses).toEqual([400])
    },
  )

  test.each([
    ['sent', ['sent']],
    ['delivered', ['sent', 'delivered']],
    ['delivered', ['delivered', 'sent', 'queued']],
    ['undelivered', ['undelivered', 'sent']],
    ['delivered', ['undelivered', 'delivered', 'failed']],
    ['failed', ['failed', 'sent', 'queued']],
    ['delivered', ['delivered', 'read', 'failed']],
  ])('makes it %s, told as %j', async (status, words) => {
    const [id, sid] = [await lost({ to: freshNumber() }), freshSid()]
    for (const each of words) {
      await callback(id, sid, each, { ErrorCode: '30003' })
      await applied()
    }
    await becomes(id, { status, reference: sid, job: status === 'failed' ? 'failed' : 'succeeded' })
    const failed = status === 'undelivered' || status === 'failed'
    expect((await readMessageState(world, id)).failure).toBe(failed ? 'unreachable' : null)
  })

  test('corrects what we took for failed; what it said had failed stays so, and its caller is told', async () => {
    const { message_id: id } = (await send({ to: freshNumber() })).body.error.context
    const sid = freshSid()
    await callback(id, sid, 'sent')
    await becomes(id, { status: 'sent', failure: null })
    await callback(id, sid, 'delivered')
    expect((await becomes(id, { status: 'delivered' })).events).toEqual([
      'created',
      'failed',
      'sent',
      'delivered',
    ])

    const [other, other_sid] = [await lost({ to: freshNumber() }), freshSid()]
    await callback(other, other_sid, 'failed', { ErrorCode: '21614' })
    await becomes(other, {
      status: 'failed',
      failure: 'invalid_number',
      job: 'failed',
      error: { code: 'sms_send_failed', provider_code: '21614' },
    })
  })

  test('a hundred callbacks at once, in any order, say what the last would', async () => {
    const each = await Promise.all(
      Array.from({ length: 20 }, async () => [await lost({ to: freshNumber() }), freshSid()] as const),
    )
    const words = ['queued', 'sent', 'undelivered', 'delivered', 'sent']
    await Promise.all(
      each.flatMap(([id, sid], nth) =>
        words.map((_word, step) => callback(id, sid, words[(nth + step * 2) % 5]!)),
      ),
    )
    await applied()
    for (const [id, sid] of each)
      expect((await becomes(id, { status: 'delivered', job: 'succeeded' })).reference).toBe(sid)
  })

  test('of a message that is not ours changes nothing', async () => {
    const sid = freshSid()
    await callback(newId(), sid, 'delivered')
    const other = await lost({ to: [freshAddress()] })
    await callback(other, freshSid(), 'delivered')
    await applied()
    const states = await world.sql`select state from notifications where object_id = ${sid}`
    expect([...states]).toEqual([{ state: 'ignored' }])
    expect(await readMessageState(world, other)).toMatchObject({ status: 'sending' })
    await world.sql`update jobs set run_at = now() where subject_id = ${other}`
    await becomes(other, { status: 'unknown' })
  })
})

describe('a person who answers', () => {
  test('STOP gets no more from anybody who wrote from that number, and START lifts it', async () => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    const service = `MG${'0'.repeat(32)}`
    const ours = await sent({ to: number })
    const theirs = await sent({ to: number, from: service }, clientOf(other))
    const elsewhere = await world.clientOf()
    await sent({ to: number, from: '+15557654321' }, clientOf(elsewhere))

    for (const reported of ['help', 'what?', 'stop please'])
      expect((await word(number, reported, { MessagingServiceSid: service })).status).toBe(200)
    await applied()
    expect(await suppressionsOf(world, 'sms', number)).toEqual([])

    await Promise.all([1, 2, 3].map(() => word(number, ' stop\n', { MessagingServiceSid: service })))
    await applied()
    const found = await suppressionsOf(world, 'sms', number)
    expect(
      found.map(({ tenant_id, reason, lifted }) => `${tenant_id} ${reason} ${lifted}`).toSorted(),
    ).toEqual([world.tenant_id, other.tenant_id].map((each) => `${each} opt_out false`).toSorted())
    for (const { tenant_id, id, sealed } of found)
      expect(createVault(world.env['ENCRYPTION_KEY']!).open(sealed!, suppressionContext(tenant_id, id))).toBe(
        number,
      )
    const named = await world.sql<{ message_id: string }[]>`
      select data ->> 'message_id' as message_id from events
      where type = 'suppression.created' and subject_id = any(${found.map(({ id }) => id)}::uuid[])`
    expect(named.map(({ message_id }) => message_id).toSorted()).toEqual([ours, theirs].toSorted())

    const next = await send({ to: number })
    expect([next.status, next.body.status]).toEqual([201, 'suppressed'])
    // Twilio's own judgement wins over the words.
    await word(number, 'I changed my mind', { MessagingServiceSid: service, OptOutType: 'START' })
    await applied()
    const left = await suppressionsOf(world, 'sms', number)
    expect(left.map(({ lifted }) => lifted)).toEqual([true, true])
    const lifted = await world.sql`
      select from events where type = 'suppression.deleted' and subject_id = any(${found.map(({ id }) => id)}::uuid[])`
    expect(lifted.count).toBe(2)
  })

  test('STOP gets no more, also where what one tenant wrote to it cannot be read', async () => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    await sent({ to: number })
    const theirs = await sent({ to: number }, clientOf(other))
    const [{ envelope }] = await world.sql<[{ envelope: string }]>`
      select envelope from messages where id = ${theirs}`
    await world.sql`update messages set envelope = 'spoilt' where id = ${theirs}`
    await word(number, 'STOP')
    await applied()
    expect(await suppressionsOf(world, 'sms', number)).toHaveLength(2)
    await world.sql`update messages set envelope = ${envelope} where id = ${theirs}`
  })

  test.each([
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
  ])('%j is STOP too', async (body) => {
    const number = freshNumber()
    await sent({ to: number })
    await word(number, body)
    await applied()
    expect(await suppressionsOf(world, 'sms', number)).toMatchObject([{ reason: 'opt_out', lifted: false }])
    await word(number, '(yes!)')
    await applied()
    expect(await suppressionsOf(world, 'sms', number)).toMatchObject([{ lifted: true }])
  })

  test.each(['stop it now', 'Do not stop', 'end of story', 'yesterday', 'canceled', '?', ''])(
    '%j is no word',
    async (body) => {
      const number = freshNumber()
      await sent({ to: number })
      await word(number, body)
      await applied()
      expect(await suppressionsOf(world, 'sms', number)).toEqual([])
    },
  )

  /** Posts while none is applied; then applies each, in the order in which `order` names them. */
  async function processed(posts: (() => Promise<unknown>)[], order: number[], between = async () => {}) {
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
      await until('it is applied', async () => {
        const [row] = await world.sql`select state from notifications where id = ${ids[nth]!}`
        return row?.['state'] === 'applied'
      })
    }
  }
  const standing = async (number: string, tenant_id = world.tenant_id) =>
    (await suppressionsOf(world, 'sms', number))
      .filter((each) => !each.lifted && each.tenant_id === tenant_id)
      .map(({ reason }) => reason)

  test('of several words the one that was received last counts, in whatever order they are processed', async () => {
    for (const [words, left] of [
      [['STOP', 'START'], []],
      [['START', 'STOP'], ['opt_out']],
      [['STOP', 'START', 'STOP'], ['opt_out']],
      [['START', 'STOP', 'START'], []],
    ] as const)
      for (const order of [words.map((_, nth) => nth), words.map((_, nth) => nth).toReversed()]) {
        const number = freshNumber()
        await sent({ to: number })
        await processed(
          words.map((each) => () => word(number, each)),
          order,
        )
        expect([words, order, await standing(number)]).toEqual([words, order, left])
      }
  })

  test('and so it is for each tenant, whichever number received them', async () => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    const elsewhere = '+15557654321'
    await sent({ to: number })
    await sent({ to: number, from: elsewhere })
    await sent({ to: number }, clientOf(other))
    await processed([() => word(number, 'STOP'), () => word(number, 'START', { To: elsewhere })], [1, 0])
    expect([await standing(number), await standing(number, other.tenant_id)]).toEqual([[], ['opt_out']])
  })

  test('a word that was received before its tenant lifted the opt-out does not bring it back; a later one does', async () => {
    const number = freshNumber()
    await sent({ to: number })
    await word(number, 'STOP')
    await applied()
    const { id } = (await suppressionsOf(world, 'sms', number))[0]!
    await processed([() => word(number, 'QUIT')], [0], async () => {
      expect((await client.delete(`/v1/messages/suppressions/${id}`)).status).toBe(200)
    })
    expect(await standing(number)).toEqual([])
    await word(number, 'QUIT')
    await applied()
    expect(await standing(number)).toEqual(['opt_out'])
  })

  test('a bounce that was reported before its suppression was lifted does not bring it back; a later one does', async () => {
    const ada = freshAddress()
    const bounces: (() => Promise<unknown>)[] = []
    for (const id of [await sent({ to: [ada] }), await sent({ to: [ada] }), await sent({ to: [ada] })])
      bounces.push(() => update('email.bounced', id, ada, { bounce: 'hard' }))
    const left = async () => (await suppressionsOf(world, 'email', ada)).filter((each) => !each.lifted)
    await bounces[0]!()
    await applied()
    const [first] = await left()
    await processed([bounces[1]!], [0], async () => {
      expect((await client.delete(`/v1/messages/suppressions/${first!.id}`)).status).toBe(200)
    })
    expect(await left()).toEqual([])
    await bounces[2]!()
    await applied()
    expect(await left()).toMatchObject([{ reason: 'hard_bounce' }])
  })

  test('while a word is being settled a later one waits for it', async () => {
    const number = freshNumber()
    await sent({ to: number })
    let settled: Promise<unknown> = Promise.resolve()
    const waiting = async () => {
      const [row] = await world.sql<{ count: number }[]>`
        select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      return row!.count
    }
    await world.sql.begin(async (tx) => {
      // The first word gets as far as its suppression, which this keeps from being written.
      await tx`
        insert into suppressions (tenant_id, id, channel, address, sealed, reason)
        values (${world.tenant_id}, ${newId()}, 'sms', ${hashOf(world)('sms', number)}, 'x', 'opt_out')`
      await word(number, 'STOP')
      await until('it waits', async () => (await waiting()) === 1)
      settled = word(number, 'START').then(applied)
      await until('the later one waits', async () => (await waiting()) === 2)
      await tx`delete from suppressions where address = ${hashOf(world)('sms', number)}`
    })
    await settled
    expect(await standing(number)).toEqual([])
  })

  test('whatever else suppresses an address stands beside what its tenant has suppressed by hand', async () => {
    const [number, ada, grace] = [freshNumber(), freshAddress(), freshAddress()]
    await sent({ to: number })
    const id = await sent({ to: [ada, grace] })
    const path = '/v1/messages/suppressions'
    const standingOf = async (address: string) =>
      (await client.get(`${path}?address=${encodeURIComponent(address)}`)).body as {
        id: string
        reason: string
      }[]
    for (const [address, channel, tell, reason] of [
      [number, 'sms', () => word(number, 'STOP'), 'opt_out'],
      [ada, 'email', () => update('email.bounced', id, ada, { bounce: 'hard' }), 'hard_bounce'],
      [grace, 'email', () => update('email.complained', id, grace), 'complaint'],
    ] as const) {
      const manual = await client.post(path, { channel, address })
      await tell()
      await applied()
      expect((await standingOf(address)).map((each) => each.reason)).toEqual([reason, 'manual'])
      expect((await client.delete(`${path}/${manual.body.id}`)).status).toBe(200)
      expect((await standingOf(address)).map((each) => each.reason)).toEqual([reason])
      const next = await send({ to: channel === 'sms' ? address : [address] })
      expect([next.status, next.body.status]).toEqual([201, 'suppressed'])
      // Suppressed by hand beside it, and twice.
      const again = await client.post(path, { channel, address })
      expect([again.status, again.body.reason]).toEqual([201, 'manual'])
      const twice = await client.post(path, { channel, address })
      expect([twice.status, twice.body]).toEqual([200, again.body])
    }
    await word(number, 'START')
    await applied()
    expect((await standingOf(number)).map((each) => each.reason)).toEqual(['manual'])
  })

  test('a message that is suppressed for several reasons goes to the others, once', async () => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    await update('email.bounced', await sent({ to: [ada] }), ada, { bounce: 'hard' })
    await applied()
    const id = await scheduled({ to: [grace, freshAddress()] })
    await update('email.bounced', await sent({ to: [grace] }), grace, { bounce: 'hard' })
    await client.post('/v1/messages/suppressions', { channel: 'email', address: grace })
    await applied()
    await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where subject_id = ${id}`
    const { recipients } = await eventually(async () => {
      const now = await readMessageState(world, id)
      expect(now.recipients).toContain('suppressed')
      return now
    })
    expect(recipients).toEqual(['suppressed', null])
  })

  test('an SMS is a message of the tenant that wrote last, with an event, sealed and erased as others are', async () => {
    const [number, other] = [freshNumber(), await world.clientOf()]
    await sent({ to: number }, clientOf(other))
    await sent({ to: number })
    // It has not left yet, so nobody answers it.
    await scheduled({ to: number }, clientOf(other))
    const stranger = await world.clientOf()
    const sid = freshSid()
    const body = 'I changed my mind: red, please 🙂'
    await word(number, body, { MessageSid: sid })
    await applied()
    const [one, another] = await Promise.all(
      [client, clientOf(other)].map(async (by) => (await by.get('/v1/messages?status=received')).body),
    )
    const ours = one.find((each: any) => each.provider_reference === sid)
    expect(ours).toMatchObject({ status: 'received', channel: 'sms', from: number, to: SENDER, body: null })
    expect(ours.idempotency_key).toBeNull()
    expect(another).toEqual([])
    const [update] = await world.sql`
      select count(*)::int as count from events where type = 'message.received' and tenant_id = ${other.tenant_id}`
    expect(update!['count']).toBe(0)
    const { body: to_sender } = await client.get(
      `/v1/messages?to=${encodeURIComponent(SENDER)}&status=received`,
    )
    expect(to_sender.map((each: any) => each.id)).toContain(ours.id)
    const from_number = `/v1/messages?from=${encodeURIComponent(number)}`
    expect((await client.get(from_number)).body.map((each: any) => each.id)).toEqual([ours.id])
    expect((await clientOf(other).get(from_number)).body).toEqual([])
    // What we sent is found by its recipient alone.
    expect((await client.get(`/v1/messages?from=${encodeURIComponent(SENDER)}`)).body).toEqual([])
    expect(await readMessageState(world, ours.id)).toMatchObject({ events: ['received'], job: null })
    const [event] = await world.sql<{ data: object }[]>`
      select data from events where type = 'message.received' and subject_id = ${ours.id}`
    expect(event!.data).toMatchObject({ id: ours.id, status: 'received', channel: 'sms' })
    expect(
      (await client.post(`/v1/messages/${ours.id}/cancel`, { idempotency_key: freshKey() })).status,
    ).toBe(409)
    const [kept] = await world.sql`select payload from notifications where object_id = ${sid}`
    expect(kept!['payload']).not.toHaveProperty('text')
    // What it says by a word counts for both, and is for one to read.
    await word(number, 'STOP')
    await applied()
    expect((await clientOf(other).get('/v1/messages?status=received')).body).toEqual([])
    for (const by of [client, clientOf(other)]) {
      const { body: stopped } = await by.get(
        `/v1/messages/suppressions?address=${encodeURIComponent(number)}`,
      )
      expect(stopped).toMatchObject([{ reason: 'opt_out' }])
    }
    expect((await clientOf(stranger).get('/v1/messages?status=received')).body).toEqual([])
    const shown = (await client.get(`/v1/messages/${ours.id}`)).body
    expect(shown).toMatchObject({ body, encoding: 'UCS-2', segments: 1, provider: 'twilio' })
    await world.sql`
      update messages set created_at = created_at - interval '91 days', updated_at = updated_at - interval '3 days'
      where id = ${ours.id}`
    await eventually(async () => {
      const later = (await client.get(`/v1/messages/${ours.id}`)).body
      expect([later.body, later.redacted_at === null, later.from]).toEqual([null, false, number])
      // The newer one is the word.
      expect((await client.get(from_number)).body).toMatchObject([{}, { id: ours.id, body: null }])
    })
  })

  test('an SMS from somebody whom nobody has written to waits for a while, and then says nothing', async () => {
    const [number, sid] = [freshNumber(), freshSid()]
    await word(number, 'STOP', { MessageSid: sid })
    const stands = async () => {
      const [row] = await world.sql`
        select state, reason, payload ? 'text' as has_text from notifications where object_id = ${sid}`
      return { ...row }
    }
    await eventually(async () =>
      expect(await stands()).toEqual({ state: 'parked', reason: 'not_ours', has_text: true }),
    )
    await world.sql`
      update jobs set run_at = now(), wakeup_sent_at = null
      where id = (select id from notifications where object_id = ${sid})`
    await applied()
    expect(await stands()).toEqual({ state: 'ignored', reason: 'not_ours', has_text: false })
  })

  test('an SMS is not for a tenant that wrote to the person only after it was received', async () => {
    const [number, sid] = [freshNumber(), freshSid()]
    await word(number, 'Is anybody there?', { MessageSid: sid })
    await eventually(async () => {
      const [row] = await world.sql`select state from notifications where object_id = ${sid}`
      expect(row!['state']).toBe('parked')
    })
    await sent({ to: number })
    await world.sql`
      update jobs set run_at = now(), wakeup_sent_at = null
      where id = (select id from notifications where object_id = ${sid})`
    await applied()
    const { body: received } = await client.get('/v1/messages?status=received&limit=100')
    expect(received.filter((each: any) => each.provider_reference === sid)).toEqual([])
  })

  const gets = async (by: Client, sid: string) =>
    (await by.get('/v1/messages?status=received&limit=100')).body.some(
      (each: any) => each.provider_reference === sid,
    )
  /** Whether we and the other tenant get what a person answers now. */
  async function answered(number: string, other: Client): Promise<boolean[]> {
    const sid = freshSid()
    await word(number, 'Yes, my code is 4711', { MessageSid: sid })
    await applied()
    return [await gets(client, sid), await gets(other, sid)]
  }
  const leftAt = async (id: string, ages: { accepted: string; sent: string }) =>
    await world.sql`
      update messages set send_at = null, created_at = now() - ${ages.accepted}::interval,
        sent_at = now() - ${ages.sent}::interval where id = ${id}`

  test('an SMS is for the tenant whose message left last, not for the one whose was accepted last', async () => {
    const [number, other] = [freshNumber(), clientOf(await world.clientOf())]
    const ours = await sent({ to: number })
    const theirs = await sent({ to: number }, other)
    await leftAt(ours, { accepted: '30 minutes', sent: '1 minute' })
    await leftAt(theirs, { accepted: '15 minutes', sent: '15 minutes' })
    expect(await answered(number, other)).toEqual([true, false])
    await leftAt(ours, { accepted: '10 minutes', sent: '16 minutes' })
    expect(await answered(number, other)).toEqual([false, true])
  })

  test('an SMS answers what is on its way, and nothing that leaves only after it was received', async () => {
    const [number, other] = [freshNumber(), clientOf(await world.clientOf())]
    const ours = await scheduled({ to: number })
    await sent({ to: number }, other)
    await world.sql`update messages set send_at = null, status = 'queued' where id = ${ours}`
    expect(await answered(number, other)).toEqual([false, true])
    const sid = freshSid()
    const leave = async () =>
      expect(await begin(ours, await held(ours))).toMatchObject({ may_send: true, status: 'sending' })
    await processed([() => word(number, 'Who?', { MessageSid: sid })], [0], leave)
    expect([await gets(client, sid), await gets(other, sid)]).toEqual([false, true])
    // What became of ours is not known yet, and it is said to be sent later than the answer came.
    await world.sql`update messages set sent_at = now() + interval '1 minute' where id = ${ours}`
    expect(await answered(number, other)).toEqual([true, false])
  })

  test("the provider's id of an SMS that was received is no key, and a callback about it changes nothing", async () => {
    const [number, sid] = [freshNumber(), freshSid()]
    await sent({ to: number })
    await word(number, 'Is it blue?', { MessageSid: sid })
    await applied()
    const reply = await send(
      { to: number, body: 'It is.', idempotency_key: sid },
      { prefer: 'respond-async' },
    )
    expect(reply).toMatchObject({ status: 202, body: { status: 'queued', idempotency_key: sid } })
    const { body: all } = await client.get('/v1/messages?status=received&limit=100')
    const received = all.find((each: any) => each.provider_reference === sid)
    await callback('', sid, 'delivered')
    await callback(received.id, sid, 'delivered')
    await applied()
    expect((await client.get(`/v1/messages/${received.id}`)).body).toMatchObject({
      status: 'received',
      body: 'Is it blue?',
    })
  })
})

describe('what is told of an email', () => {
  test('a hard bounce suppresses the address; when all have bounced it is undelivered', async () => {
    const [ada, grace] = [`Ada <${freshAddress()}>`, freshAddress()]
    const id = await sent({ to: [ada, grace] })
    const diagnostic = `550 5.1.1 <${bareAddress(ada)}>: no such mailbox`
    const bounce = { bounce: 'hard', diagnostic }
    expect((await update('email.bounced', id, toUpperCaseAddress(ada), bounce)).status).toBe(200)
    await becomes(id, {
      status: 'sent',
      recipients: ['bounced', 'accepted'],
      events: ['created', 'sent', 'bounced'],
    })
    // Told again, under another id.
    await update('email.bounced', id, bareAddress(ada), bounce)
    await applied()
    expect(await suppressionsOf(world, 'email', ada)).toMatchObject([
      { reason: 'hard_bounce', lifted: false },
    ])
    const query = `address=${encodeURIComponent(bareAddress(ada))}`
    const { body: shown } = await client.get(`/v1/messages/suppressions?${query}`)
    expect(shown).toMatchObject([{ address: bareAddress(ada), message_id: id }])
    const [kept] = await world.sql`select recipients -> 0 ->> 'code' as code from messages where id = ${id}`
    expect({ ...kept }).toEqual({ code: '550 5.1.1' })
    await update('email.bounced', id, grace, { bounce: 'hard' })
    await becomes(id, {
      status: 'undelivered',
      failure: 'recipient_refused',
      recipients: ['bounced', 'bounced'],
      events: ['created', 'sent', 'bounced', 'undelivered', 'bounced'],
    })
  })

  test('a complaint suppresses too, also after it was delivered; a soft bounce is only noted', async () => {
    const [ada, grace] = [freshAddress(), freshAddress()]
    const id = await sent({ to: [ada], bcc: [grace] })
    await update('email.bounced', id, ada, { bounce: 'soft', diagnostic: '452 4.2.2 full' })
    await update('email.delivered', id, ada)
    await becomes(id, { status: 'sent', recipients: ['delivered', 'accepted'] })
    await update('email.delivered', id, grace)
    await becomes(id, { status: 'delivered', recipients: ['delivered', 'delivered'] })
    await update('email.complained', id, grace)
    await becomes(id, {
      status: 'delivered',
      recipients: ['delivered', 'bounced'],
      events: ['created', 'sent', 'delivered', 'complained'],
    })
    await update('email.delivered', id, grace)
    await applied()
    expect(await readMessageState(world, id)).toMatchObject({ recipients: ['delivered', 'bounced'] })
    expect(await suppressionsOf(world, 'email', grace)).toMatchObject([{ reason: 'complaint' }])
    expect(await suppressionsOf(world, 'email', ada)).toEqual([])
    const filed = await world.sql`select from notifications where subject_id = ${id} and state = 'applied'`
    expect(filed.count).toBe(5)
  })

  test.each([
    ['email.delivered', 'delivered'],
    ['email.bounced', 'undelivered'],
    ['email.complained', 'undelivered'],
  ])('%s settles one of which nobody knows whether it was sent', async (type, status) => {
    const ada = freshAddress()
    const id = await lost({ to: [ada] })
    await update(type, id, ada, type === 'email.bounced' ? { bounce: 'hard' } : {})
    expect((await becomes(id, { status, job: 'succeeded' })).reference).toBe(`<${id}@shop.example>`)
  })

  test('of somebody whom it did not go to, or of no message of ours, changes nothing', async () => {
    const id = await sent({ to: [freshAddress()] })
    const stranger = freshAddress()
    await update('email.complained', id, stranger)
    await update('email.complained', newId(), stranger)
    expect((await update('email.opened', id, stranger)).status).toBe(200)
    await applied()
    expect(await readMessageState(world, id)).toMatchObject({ status: 'sent', recipients: ['accepted'] })
    expect(await suppressionsOf(world, 'email', stranger)).toEqual([])
  })

  test('is refused with another secret, or five minutes off; either secret counts, and each id once', async () => {
    const event = { type: 'email.delivered', data: { message_id: newId(), address: freshAddress() } }
    const other = `whsec_${randomBytes(32).toString('base64')}`
    const aged = (seconds: number) => new Date(Date.now() + seconds * 1000)
    for (const refused of [
      { secret: other },
      { secret: SECRET, at: aged(-310) },
      { secret: SECRET, at: aged(310) },
    ])
      expect(await postEmail(world, event, refused)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_signature' } },
      })
    const taken = { secret: OLD_SECRET, id: 'msg_once', at: aged(-290) }
    expect(await postEmail(world, event, taken)).toEqual({ status: 200, body: { received: true } })
    expect(await postEmail(world, event, taken)).toEqual({
      status: 200,
      body: { received: true, duplicate: true },
    })
    // Relays are adapted by people, who are told what to mend.
    for (const [wrong, what] of [
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
      expect(await postEmail(world, wrong, { secret: SECRET })).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request', message: `The body is not an event: ${what}.` } },
      })
  })
})

test('old texts and attachments are erased once nobody needs them, and old counts forgotten', async () => {
  const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'YQ==' }]
  const old = await sent({ to: [freshAddress()], attachments })
  const unknown = await lost({ to: [freshAddress()], attachments })
  await world.sql`
    with m as (update messages set status = 'unknown' where id = ${unknown} returning tenant_id, id)
    insert into events (tenant_id, id, type, subject_id, data) select tenant_id, ${newId()}, 'message.unknown', id, '{}' from m`
  const lately = await sent({ to: [freshAddress()], attachments })
  const open = await scheduled({ to: freshNumber() })
  const all = [old, unknown, lately, open]
  await world.sql`
    insert into message_limits (tenant_id, scope, window_start, used) values
    (${world.tenant_id}, 'old', now() - interval '3 hours', 1), (${world.tenant_id}, 'new', now(), 1)`
  await world.sql`
    update messages set created_at = created_at - interval '91 days',
      updated_at = case when id = ${lately} then now() else updated_at - interval '2 days' end
    where id = any(${all}::uuid[])`
  await eventually(async () => {
    const rows = await world.sql`
      select id, content is null as erased, redacted_at is not null as reported,
        (select count(*) from message_attachments a where a.message_id = m.id) as files
      from messages m where id = any(${all}::uuid[]) order by id`
    expect(rows.map((row) => ({ ...row }))).toEqual([
      { id: old, erased: true, reported: true, files: 0 },
      { id: unknown, erased: true, reported: true, files: 0 },
      { id: lately, erased: false, reported: false, files: 1 },
      { id: open, erased: false, reported: false, files: 0 },
    ])
    const limits = await world.sql`select scope from message_limits where scope in ('old', 'new')`
    expect(limits.map(({ scope }) => scope)).toEqual(['new'])
  })
  await world.sql`update messages set created_at = created_at + interval '91 days' where id = any(${all}::uuid[])`
})

test('no table names anybody, and the books are in order', async () => {
  await applied()
  const rows = await readAllRows(world.sql)
  expect(rows).toContain('sms.delivered')
  // Accounts of the suite have no addresses like these.
  expect(rows.match(/\+1415555\d{4}|ada\d+@example|on its way|no such mailbox|changed my mind/i)).toBe(null)
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems).toEqual([])
})
