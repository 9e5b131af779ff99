// Messages as callers send them: once each, by real servers, whatever those answer.
import { describe, expect, onTestFinished } from 'vitest'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsDone } from '#domain/interventions/act.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { findSchedules } from '#domain/operations/schedules.ts'
import { setEmailDomains } from '#domain/tenants.ts'
import { createClient, freshKey, type Answer } from '#test/client.ts'
import { runCommand } from '#test/commands.ts'
import { testActor } from '#test/environment.ts'
import { readAllRows } from '#test/databases.ts'
import { hashOf, toUpperCaseAddress, readMessageState, suppressionsOf } from '#test/messages.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { capturedPayment, eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const CONNECTIONS = 5
const test = testIn({ env: { SMTP_CONNECTIONS: String(CONNECTIONS) } })

const ASYNC = { prefer: 'respond-async' }
const sms = async (world: World, to: string, headers?: Record<string, string>): Promise<Answer> =>
  await world.client.post(
    '/v1/messages/sms',
    { to, body: 'The parcel is secret.', idempotency_key: freshKey() },
    headers,
  )
const email = async (
  world: World,
  to: string[],
  headers?: Record<string, string>,
  body: Record<string, unknown> = {},
): Promise<Answer> =>
  await world.client.post(
    '/v1/messages/email',
    { to, subject: 'A secret', text: 'The parcel is secret.', idempotency_key: freshKey(), ...body },
    headers,
  )

async function becomes(world: World, id: string, stands: object) {
  return await eventually(async () => {
    const now = await readMessageState(world, id)
    expect(now).toMatchObject(stands)
    return now
  })
}

/** How often Twilio really sent one to this number. */
const smsTo = async (world: World, to: string): Promise<any[]> => {
  const query = `/messages?to=${encodeURIComponent(to)}`
  const found: any[] = await world.provider('twilio').control('GET', query)
  return found
}
/** What the server has got for this address. */
const emailsTo = async (world: World, to: string): Promise<any[]> =>
  await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to)}`)

/** As if each attempt of a waiting job had been lost with its worker, and it is due now. */
const useUp = async (world: World, id: string) =>
  await world.sql`
    update jobs set attempt = max_attempts + 1, in_doubt = true, run_at = now() where subject_id = ${id}`

/** Makes the job of a message due now. */
const hurry = async (world: World, id: string) =>
  await world.sql`update jobs set run_at = now() where subject_id = ${id} and finished_at is null`

let numbers = 0
const freshNumber = () => `+1415555${String(2000 + (numbers += 1))}`

describe('an SMS', () => {
  test('is sent while its caller waits, and delivered as its callbacks say', async ({ world }) => {
    const to = freshNumber()
    const { status, body } = await sms(world, to)
    expect([status, body.provider_reference]).toEqual([201, expect.stringMatching(/^SM/)])
    const { events } = await becomes(world, body.id, { status: 'delivered', job: 'succeeded' })
    expect([events[0], events.at(-1)]).toEqual(['created', 'delivered'])
    expect(await smsTo(world, to)).toHaveLength(1)
  })

  test.for([
    ['+15005550001', 'invalid_number', '21211'],
    ['+15005550002', 'unreachable', '21612'],
    ['+15005550003', 'provider_error', '21408'],
    ['+15005550009', 'invalid_number', '21614'],
  ] as const)(
    'that Twilio refuses has failed at once, to %s',
    async ([to, code, provider_code], { world }) => {
      const { status, body } = await sms(world, to)
      expect([status, body.error.code, body.error.context.provider_code]).toEqual([
        502,
        'sms_send_failed',
        provider_code,
      ])
      await becomes(world, body.error.context.message_id, {
        status: 'failed',
        failure: code,
        events: ['created', 'failed'],
      })
      expect(JSON.stringify(body)).not.toContain(to)
    },
  )

  test('to somebody who has opted out suppresses the number', async ({ world }) => {
    expect((await sms(world, '+15005550004')).status).toBe(502)
    expect(await suppressionsOf(world, 'sms', '+15005550004')).toMatchObject([{ reason: 'opt_out' }])
    expect((await sms(world, '+15005550004')).body).toMatchObject({ status: 'suppressed' })
  })

  test('whose answer is lost is unknown, is never sent again, and is found by its callback', async ({
    world,
  }) => {
    const { status, body } = await sms(world, '+15005550599')
    // Its callbacks may come while the caller still waits.
    expect([201, 202]).toContain(status)
    await becomes(world, body.id, { status: 'delivered', job: 'succeeded' })
    expect(await smsTo(world, '+15005550599')).toHaveLength(1)
  })

  test('of which no callback comes is found in the list', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { body } = await sms(world, to, ASYNC)
    await becomes(world, body.id, { status: 'unknown', job: 'unknown' })
    await hurry(world, body.id)
    await becomes(world, body.id, { job: 'succeeded', reference: expect.stringMatching(/^SM/) })
    expect(await smsTo(world, to)).toHaveLength(1)
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(world, body.id, { status: 'delivered' })
  })

  test('is asked about until it has arrived, also where its callback came before anybody knew whose it was', async ({
    world,
  }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const { body } = await sms(world, freshNumber())
    const sid = body.provider_reference
    await world.sql`
      insert into notifications (id, provider, account, event_id, kind, object_id, payload, state, applied_at)
      select id, provider, account, event_id, kind, object_id, '{}', 'ignored', now()
      from jsonb_to_record(${world.sql.json(
        notificationOf('twilio', {
          account: world.env['TWILIO_ACCOUNT_SID']!,
          event_id: `${sid}:delivered`,
          kind: 'sms.delivered',
          object_id: sid,
          payload: {},
          is_relevant: true,
          reported: null,
        }),
      )}) as n(id uuid, provider text, account text, event_id text, kind text, object_id text)`
    void twilio.control('POST', `/messages/${sid}/settle`, { status: 'delivered' })
    await eventually(async () => expect((await smsTo(world, body.to))[0].status).toBe('delivered'))
    await world.sql`update messages set lookup_at = now() where id = ${body.id}`
    await becomes(world, body.id, { status: 'delivered' })
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is not taken for another of its text, be that on its way or lost too', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    const looked = async (id: string) => {
      const attempts = async () =>
        (
          await world.sql`select from jobs j join job_attempts a on a.job_id = j.id where j.subject_id = ${id}`
        ).count
      const before = await attempts()
      await hurry(world, id)
      await eventually(async () => expect(await attempts()).toBeGreaterThan(before))
    }
    // Twilio never got the first; the second is there, and its answer is due.
    await twilio.fault({ match, fault: 'drop_before' })
    const first = (await sms(world, to, ASYNC)).body.id
    await becomes(world, first, { status: 'unknown' })
    const held = await twilio.fault({ match, fault: { hold: 'after' } })
    const second = (await sms(world, to, ASYNC)).body.id
    await eventually(async () => expect(await smsTo(world, to)).toHaveLength(1))
    await looked(first)
    expect(await readMessageState(world, first)).toMatchObject({ status: 'unknown', reference: null })
    await held.remove()
    const [{ sid }] = await smsTo(world, to)
    await becomes(world, second, { status: 'sent', reference: sid, job: 'succeeded' })
    await looked(first)
    expect(await readMessageState(world, first)).toMatchObject({ status: 'unknown', reference: null })

    // One that has failed without ever being sent is known as well.
    await world.sql`update messages set status = 'failed', sent_at = null, failure = '{}' where id = ${second}`
    await looked(first)
    expect(await readMessageState(world, first)).toMatchObject({ job: 'unknown', reference: null })
    const [job] =
      await world.sql`select last_error ->> 'message' as reported from jobs where subject_id = ${first}`
    expect(job!['reported']).toContain('does not list')
    await world.sql`
      update messages set status = 'sent', sent_at = updated_at, failure = null where id = ${second}`
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(world, second, { status: 'delivered' })
  })

  test('is not taken for one that Twilio took although it answered 500', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_after' })
    const refused = await sms(world, to)
    expect(refused.status).toBe(502)
    await twilio.fault({ match, times: 1, fault: 'drop_before' })
    const { id } = (await sms(world, to, ASYNC)).body
    await becomes(world, id, { status: 'unknown' })
    await world.sql`update jobs set last_error = null where subject_id = ${id}`
    await hurry(world, id)
    await becomes(world, id, {
      error: { message: expect.stringContaining('does not list') },
      reference: null,
    })
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(world, refused.body.error.context.message_id, { status: 'delivered' })
    expect(await readMessageState(world, id)).toMatchObject({ status: 'unknown' })
  })

  test('is found beside another whose text was erased', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_before' })
    const { message_id } = (await sms(world, to)).body.error.context
    await world.sql`
      update messages set content = null, redacted_at = now(), updated_at = now() where id = ${message_id}`
    await twilio.fault({ match, times: 1, fault: 'drop_after' })
    const { id } = (await sms(world, to, ASYNC)).body
    await becomes(world, id, { status: 'unknown' })
    await hurry(world, id)
    const { reference } = await becomes(world, id, { job: 'succeeded' })
    expect(reference).toBe((await smsTo(world, to))[0].sid)
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is asked about later while Twilio does not answer', async ({ world }) => {
    const twilio = world.provider('twilio')
    const schedule = async () =>
      (await findSchedules(world.sql)).find(({ name }) => name === 'SMS lookups') ?? null
    // While no SMS is due the next run is still ahead.
    await world.sql`
      insert into recurring_work as w (name, due_at) values ('SMS lookups', now() - interval '1 hour')
      on conflict (name) do update set due_at = excluded.due_at`
    await eventually(async () =>
      expect(Date.parse((await schedule())!.next_run_at!)).toBeGreaterThan(Date.now() - 60_000),
    )
    const [first, second] = [(await sms(world, freshNumber())).body, (await sms(world, freshNumber())).body]
    for (const { id } of [first, second]) await becomes(world, id, { status: 'delivered' })
    const busy = await twilio.fault({
      match: { method: 'GET', path: `/Messages/${first.provider_reference}.json$` },
      times: 100,
      fault: 'rate_limited_429',
    })
    await world.sql`
      update messages set lookup_at = now(), price = null, sent_at = sent_at - interval '2 hours' where id = ${first.id}`
    await busy.hit()
    await eventually(async () => {
      const [row] = await world.sql`
        select lookup_at < now() + interval '5 minutes' as soon from messages where id = ${first.id} and lookup_at > now()`
      expect(row).toEqual({ soon: true })
    })
    // The lookup is a failed run on the page of schedules.
    await eventually(async () =>
      expect(await schedule()).toMatchObject({
        state: 'failed',
        failed_runs: 1,
        failure: expect.any(String),
      }),
    )
    await busy.remove()
  })

  test('whose last attempt is lost after it was delivered is over', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { id } = (await sms(world, to, ASYNC)).body
    await becomes(world, id, { status: 'unknown' })
    // Its worker has died, and the lease is about to lapse.
    await world.sql`
      update jobs set state = 'running', lease_token = gen_random_uuid(), lease_until = now() + interval '2 seconds',
        worker = 'gone', started_at = now(), attempt = max_attempts + 1, in_doubt = true, run_at = now()
      where subject_id = ${id}`
    await twilio.control('POST', '/callbacks', { paused: false })
    const { parked } = await becomes(world, id, { status: 'delivered', job: 'succeeded' })
    expect(parked).toBe(false)
  })
})

describe('an email', () => {
  test('is sent once, with our ids', async ({ world }) => {
    const { status, body } = await email(
      world,
      ['Ada <ada@example.com>'],
      {},
      { headers: { 'X-Order': '17' } },
    )
    expect([status, body.status]).toEqual([201, 'sent'])
    const [got] = await emailsTo(world, 'ada@example.com')
    expect(got.raw).toContain(`X-Sluice-Message-ID: ${body.id}`)
    expect(got.raw).toContain(body.provider_reference)
    expect(body.provider_reference).toBe(`<${body.id}@sluice.example>`)
  })

  test('that some recipients refuse is sent to the others; that all refuse has failed', async ({ world }) => {
    const { status, body } = await email(world, ['grace@example.com', 'no@bounce.example'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    const refused = await email(world, ['nobody@bounce.example'])
    expect([refused.status, refused.body.error.code]).toEqual([500, 'email_send_failed'])
    await becomes(world, refused.body.error.context.message_id, { status: 'failed', recipients: ['refused'] })
  })

  /** Recipients as their sender sees them. */
  const recipientsOf = async (world: World, id: string) =>
    (await world.client.get(`/v1/messages/${id}`)).body.recipients.map(({ status, code }: any) => [
      status,
      code,
    ])

  test('that the server defers for some is sent to those alone again, and says what became of them', async ({
    world,
  }) => {
    const smtp = world.provider('smtp')
    const defers = await smtp.fault({
      match: { method: 'RCPT', contains: 'later@' },
      times: 2,
      fault: { refuse_400: true, code: '450 4.2.0 Greylisted' },
    })
    const { status, body } = await email(world, [
      'now@example.com',
      'later@example.com',
      'never@bounce.example',
    ])
    expect([status, body.status]).toEqual([201, 'sent'])
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      [null, '450 4.2.0'],
      ['refused', '550 5.1.1'],
    ])
    await hurry(world, body.id)
    await eventually(async () => {
      const [job] = await world.sql`select state, failures from jobs where subject_id = ${body.id}`
      expect({ ...job }).toEqual({ state: 'ready', failures: 2 })
    })
    const listed = await runCommand('src/commands/jobs.ts', ['list', '--subject', body.id], {
      DATABASE_URL: world.config.DATABASE_URL,
    })
    expect(listed.stdout).toMatch(/retrying since .*The email could not be sent\. \(450 4\.2\.0 .*Greylisted/)
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      [null, '450 4.2.0'],
      ['refused', '550 5.1.1'],
    ])
    await defers.remove()
    await hurry(world, body.id)
    const { events } = await becomes(world, body.id, { status: 'sent', job: 'succeeded' })
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    const [settled] = await eventually(async () => {
      const feed = (
        await world.client.get(`/v1/events?type=message.recipients_settled&subject_id=${body.id}`)
      ).body
      expect(feed).toHaveLength(1)
      return feed
    })
    expect(settled.data.recipients).toEqual([
      { address: 'later@example.com', status: 'accepted', code: null, message: null },
    ])
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      ['accepted', null],
      ['refused', '550 5.1.1'],
    ])
    expect(await emailsTo(world, 'now@example.com')).toHaveLength(1)
    const [late] = await emailsTo(world, 'later@example.com')
    expect(late.to).toEqual(['later@example.com'])
    expect(late.raw).toContain(body.provider_reference)
  })

  test('that the server defers for some for ever is tried five times, and refused for these', async ({
    world,
  }) => {
    const { body } = await email(world, ['here@example.com', 'alan@defer.example'], ASYNC)
    for (let attempt = 1; attempt <= 4; attempt++) {
      await eventually(async () => {
        const [job] = await world.sql`select state, failures from jobs where subject_id = ${body.id}`
        expect({ ...job }).toEqual({ state: 'ready', failures: attempt })
      })
      await hurry(world, body.id)
    }
    const { events } = await becomes(world, body.id, { status: 'sent', job: 'succeeded' })
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      ['refused', '451 4.3.0'],
    ])
    expect(await emailsTo(world, 'here@example.com')).toHaveLength(1)
  })

  test('that the server takes for some at the last attempt is still tried again for those whom it defers', async ({
    world,
  }) => {
    await pauseJobs(world.sql, { queue: 'messages' })
    const { body } = await email(world, ['soon@example.com', 'grey@defer.example'], ASYNC)
    await world.sql`update jobs set failures = 4 where subject_id = ${body.id}`
    await resumeJobs(world.sql, { queue: 'messages' })
    await becomes(world, body.id, { status: 'sent', job: 'ready', recipients: ['accepted', null] })
    await hurry(world, body.id)
    await eventually(async () => {
      const [job] = await world.sql`select state, failures from jobs where subject_id = ${body.id}`
      expect({ ...job }).toEqual({ state: 'ready', failures: 6 })
    })
    await world.client.post('/v1/messages/suppressions', { channel: 'email', address: 'grey@defer.example' })
    await hurry(world, body.id)
    await becomes(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', 'suppressed'],
    })
  })

  test('that some refuse and the server defers for the rest waits for these where nobody waits', async ({
    world,
  }) => {
    const smtp = world.provider('smtp')
    const fault = { refuse_400: true, code: '450 4.2.0 Greylisted' }
    const defers = await smtp.fault({ match: { method: 'RCPT', contains: 'rest@' }, fault })
    const { body } = await email(world, ['gone@bounce.example', 'rest@example.com'], ASYNC)
    await becomes(world, body.id, { status: 'queued', recipients: ['refused', null] })
    await defers.remove()
    await hurry(world, body.id)
    const { events } = await becomes(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['refused', 'accepted'],
    })
    expect(events).toEqual(['created', 'sent'])
    expect((await emailsTo(world, 'rest@example.com'))[0].to).toEqual(['rest@example.com'])
    // Who waits may send it again, so it is not.
    const both = await email(world, ['gone2@bounce.example', 'rest@defer.example'])
    expect([both.status, both.body.error.code]).toEqual([500, 'email_send_failed'])
    await becomes(world, both.body.error.context.message_id, {
      status: 'failed',
      recipients: ['refused', 'refused'],
      job: 'failed',
    })
  })

  test('that is tried again goes to nobody who is suppressed by then, and fails where nobody is left', async ({
    world,
  }) => {
    const suppress = async (address: string) =>
      await world.client.post('/v1/messages/suppressions', { channel: 'email', address })
    const partly = (await email(world, ['in@example.com', 'out@defer.example'])).body
    const none = (await email(world, ['not@bounce.example', 'out@defer.example'], ASYNC)).body
    await becomes(world, none.id, { status: 'queued', recipients: ['refused', null] })
    await suppress('out@defer.example')
    for (const { id } of [partly, none]) await hurry(world, id)
    const { events } = await becomes(world, partly.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', 'suppressed'],
    })
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    await becomes(world, none.id, { status: 'failed', job: 'failed', recipients: ['refused', 'suppressed'] })
    const settled = await eventually(async () => {
      const feed = `/v1/events?type=message.recipients_settled&subject_id=${partly.id}`
      const { body: events } = await world.client.get(feed)
      expect(events).toHaveLength(1)
      return events[0].data.recipients
    })
    expect(settled).toEqual([
      { address: 'out@defer.example', status: 'suppressed', code: null, message: null },
    ])
    expect(await emailsTo(world, 'out@defer.example')).toEqual([])
  })

  test('that is tried again and whose answer is lost then goes to nobody twice', async ({ world }) => {
    const smtp = world.provider('smtp')
    const defers = await smtp.fault({
      match: { method: 'RCPT', contains: 'doubt@' },
      fault: { refuse_400: true, code: '450 4.2.0 Greylisted' },
    })
    const { body } = await email(world, ['sure@example.com', 'doubt@example.com'])
    await defers.remove()
    const drops = await smtp.fault({
      match: { method: 'DOT', contains: 'doubt@' },
      fault: 'drop_after',
    })
    await hurry(world, body.id)
    const { events } = await becomes(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', null],
    })
    await drops.remove()
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    expect((await emailsTo(world, 'doubt@example.com')).length).toBeLessThanOrEqual(1)
    const message = /accepted the email is unknown/
    expect((await world.client.get(`/v1/messages/${body.id}`)).body.recipients[1].message).toMatch(message)
    // So is one whose worker was lost while it was tried.
    const lost = (await email(world, ['safe@example.com', 'away@defer.example'])).body
    await world.sql`
      with m as (
        update messages set recipients = jsonb_set(recipients, '{1,deferred}', '"trying"') where id = ${lost.id})
      update jobs set in_doubt = true, run_at = now(), wakeup_sent_at = null where subject_id = ${lost.id}`
    await becomes(world, lost.id, { status: 'sent', job: 'succeeded', recipients: ['accepted', null] })
    expect((await world.client.get(`/v1/messages/${lost.id}`)).body.recipients[1].message).toMatch(message)
  })

  test('whose tenant may not write from its domain any more is not sent', async ({ world }) => {
    const other = await world.clientOf()
    const by = testActor(other.tenant_id)
    await setEmailDomains(world.sql, other.tenant_id, ['own.example'], by)
    const send = async (from: string) =>
      await other.post('/v1/messages/email', {
        idempotency_key: freshKey(),
        from,
        to: ['taken@example.com'],
        subject: 'Hello',
        text: 'Hello',
        send_at: new Date(Date.now() + 3_600_000).toISOString(),
      })
    const { body } = await send('Shop <shop@OWN.example>')
    expect(body.status).toBe('scheduled')
    await setEmailDomains(world.sql, other.tenant_id, ['else.example'], by)
    await hurry(world, body.id)
    await becomes(world, body.id, { status: 'failed', job: 'failed', failure: 'sender_refused' })
    expect(await emailsTo(world, 'taken@example.com')).toEqual([])
    await setEmailDomains(world.sql, other.tenant_id, ['own.example', 'else.example'], by)
    await eventually(async () => expect((await send('shop@else.example')).status).toBe(201))
  })

  test('that was accepted in the name of the system, by an API that did not know it, is not sent', async ({
    world,
  }) => {
    const lenient = await startApi(
      { ...world.config, SYSTEM_EMAIL_FROM: undefined },
      createLog('silent', 'test'),
    )
    onTestFinished(() => lenient.close())
    const by = createClient(lenient.url, world.client.key)
    const to = 'named@example.com'
    for (const names of [
      { from: 'System+news@sluice.example' },
      { from: '"system@sluice.example" <shop@shop.example>' },
      { reply_to: 'Help <system@sluice.example>' },
    ]) {
      const asked = { to: [to], subject: 'Hello', text: 'Hello', idempotency_key: freshKey(), ...names }
      const { status, body } = await by.post('/v1/messages/email', asked, ASYNC)
      expect([names, status]).toEqual([names, 202])
      await becomes(world, body.id, { status: 'failed', job: 'failed', failure: 'sender_refused' })
    }
    expect(await emailsTo(world, to)).toEqual([])
  })

  test('goes out once the last suppression of its address is lifted, also if it was accepted before', async ({
    world,
  }) => {
    const to = 'back@example.com'
    const path = '/v1/messages/suppressions'
    const send_at = new Date(Date.now() + 3_600_000).toISOString()
    const [first, second] = [
      (await email(world, [to], {}, { send_at })).body,
      (await email(world, [to], {}, { send_at })).body,
    ]
    expect([first.status, second.status]).toEqual(['scheduled', 'scheduled'])
    const fault = { refuse_400: true, code: '550 5.1.1 No such mailbox' }
    await world.provider('smtp').fault({ match: { method: 'RCPT', contains: to }, fault })
    await email(world, [to])
    const [bounced] = (await world.client.get(`${path}?address=${to}`)).body
    const manual = (await world.client.post(path, { channel: 'email', address: to })).body
    expect([bounced.reason, manual.reason]).toEqual(['hard_bounce', 'manual'])
    // The bounce still counts.
    expect((await world.client.delete(`${path}/${manual.id}`)).status).toBe(200)
    expect((await email(world, [to])).body.status).toBe('suppressed')
    await hurry(world, first.id)
    await becomes(world, first.id, { status: 'suppressed' })
    expect((await world.client.delete(`${path}/${bounced.id}`)).status).toBe(200)
    expect((await email(world, [to])).body.status).toBe('sent')
    await hurry(world, second.id)
    await becomes(world, second.id, { status: 'sent' })
    expect(await emailsTo(world, to)).toHaveLength(2)
  })

  test('that is refused because there is no such mailbox suppresses the address', async ({ world }) => {
    const gone = 'moved@bounce.example'
    await email(world, [gone, 'stays@example.com'])
    expect(await suppressionsOf(world, 'email', gone)).toMatchObject([{ reason: 'hard_bounce' }])
    expect((await email(world, [gone])).body.status).toBe('suppressed')
    // Alone, and in other words.
    await email(world, ['alone@bounce.example'])
    expect(await suppressionsOf(world, 'email', 'alone@bounce.example')).toHaveLength(1)
    const fault = { refuse_400: true, code: '550 5.7.1 Blocked' }
    await world.provider('smtp').fault({ match: { method: 'RCPT', contains: 'blocked@' }, fault })
    await email(world, ['blocked@example.com'])
    expect(await suppressionsOf(world, 'email', 'blocked@example.com')).toEqual([])
  })

  test('that is refused in words whose cut would halve a character is settled all the same', async ({
    world,
  }) => {
    const fault = { refuse_400: true, code: `550 5.1.1 ${'a'.repeat(499)}😀 no` }
    const smtp = world.provider('smtp')
    await smtp.fault({ match: { method: 'RCPT', contains: 'halved@' }, fault })
    const { status, body } = await email(world, ['whole@example.com', 'halved@example.com'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    await smtp.fault({ match: { method: 'DATA' }, fault })
    expect((await email(world, ['whole@example.com'])).body.error.code).toBe('email_send_failed')
  })

  test('that certainly was not sent is tried five times where nobody waits', async ({ world }) => {
    const { body } = await email(world, ['alan@defer.example'], ASYNC)
    for (const waits_s of [5, 30, 120, 600]) {
      await eventually(async () => {
        const [job] = await world.sql<{ in_s: number; state: string }[]>`
          select extract(epoch from run_at - now())::float8 as in_s, state from jobs where subject_id = ${body.id}`
        expect(job).toMatchObject({ state: 'ready' })
        expect(job!.in_s).toBeGreaterThan(waits_s - 4)
        expect(job!.in_s).toBeLessThanOrEqual(waits_s)
      })
      expect(await readMessageState(world, body.id)).toMatchObject({ status: 'queued', recipients: [null] })
      await hurry(world, body.id)
    }
    const { events } = await becomes(world, body.id, {
      status: 'failed',
      job: 'failed',
      recipients: ['refused'],
    })
    expect(events).toEqual(['created', 'failed'])
    const timeline = (await world.client.get(`/v1/messages/${body.id}/timeline`)).body
    const attempts = timeline.filter(({ kind }: any) => kind === 'attempt')
    expect(attempts.map(({ outcome }: any) => outcome)).toEqual([...Array(4).fill('retry'), 'declined'])
    for (const { details } of attempts)
      expect(details.error).toMatchObject({ code: 'email_send_failed', provider_code: '451 4.3.0' })
    // Who waits hears of it at once.
    expect((await email(world, ['alan@defer.example'])).status).toBe(500)
  })

  test('whose answer is lost is unknown, until an operator has found it', async ({ world }) => {
    const { status, body } = await email(world, ['grace@lost.example'])
    expect([status, body.status]).toEqual([202, 'unknown'])
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${body.id}`
    // It was looked for, not sent again, and is not shown as if it was.
    await hurry(world, body.id)
    const attempts = await eventually(async () => {
      const timeline = (await world.client.get(`/v1/messages/${body.id}/timeline`)).body
      const [call] = timeline.filter(({ kind }: any) => kind === 'provider_call')
      const looked = timeline.filter(({ details }: any) => details.attempt === 2 && details.ended_at)
      expect(looked).toHaveLength(1)
      return { looked, call }
    })
    expect(attempts.call.details.last_sent_at).toBe(attempts.call.at)
    await resolveAsDone(
      world.sql,
      { job_id: job!.id, who: 'ada', reason: 'the log of the relay' },
      `<${body.id}@sluice.example>`,
    )
    await becomes(world, body.id, { status: 'sent', job: 'succeeded', recipients: ['accepted'] })
    expect(await emailsTo(world, 'grace@lost.example')).toHaveLength(1)
  })

  test('that waits for a connection has not begun, and neither SMS nor payments wait for it', async ({
    world,
  }) => {
    const held = await world
      .provider('smtp')
      .fault({ match: { method: 'MAIL' }, times: CONNECTIONS, fault: 'hold' })
    const sent = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => email(world, [`line${nth}@example.com`], ASYNC)),
    )
    const ids = sent.map(({ body }) => body.id)
    await held.hit(CONNECTIONS)
    await eventually(async () => {
      const jobs =
        await world.sql`select from jobs where subject_id = any(${ids}::uuid[]) and state = 'running'`
      expect(jobs.count).toBe(8)
    })
    const begun = await world.sql`select from messages where id = any(${ids}::uuid[]) and status = 'sending'`
    expect(begun.count).toBe(CONNECTIONS)
    // A server of email that stands still keeps nobody else waiting.
    expect((await sms(world, freshNumber())).body).toMatchObject({ status: 'sent' })
    await capturedPayment(world.client)
    await held.remove()
    for (const id of ids) await becomes(world, id, { status: 'sent', job: 'succeeded' })
  })

  test('whose files cannot be read, because the connection is lost, has not begun', async ({ world }) => {
    await pauseJobs(world.sql, { queue: 'messages' })
    const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'AAAA' }]
    const { id } = (await email(world, ['ada@files.example'], ASYNC, { attachments })).body
    await world.sql.begin(async (tx) => {
      await tx`lock table message_attachments in access exclusive mode`
      await resumeJobs(world.sql, { queue: 'messages' })
      await eventually(async () => {
        const ended = await world.sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like '%message_attachments%'`
        expect(ended.count).toBeGreaterThan(0)
      })
    })
    await world.sql`update jobs set lease_until = now() where subject_id = ${id} and state = 'running'`
    await becomes(world, id, { status: 'sent', job: 'succeeded' })
    expect(await emailsTo(world, 'ada@files.example')).toHaveLength(1)
  })

  test('whose attempts are used up before it has begun is named to the operator; one that is canceled is over', async ({
    world,
  }) => {
    const send_at = new Date(Date.now() + 600_000).toISOString()
    const [waits, canceled] = [
      (await email(world, ['ada@example.com'], {}, { send_at })).body.id,
      (await email(world, ['ada@example.com'], {}, { send_at })).body.id,
    ]
    await world.client.post(`/v1/messages/${canceled}/cancel`, {})
    await useUp(world, waits)
    await useUp(world, canceled)
    await becomes(world, waits, { status: 'scheduled', job: 'unknown', parked: true })
    await becomes(world, canceled, { status: 'canceled', job: 'succeeded' })
    expect(await syncUnknownDrifts(world.sql)).toEqual(['message.send_email'])
    await world.client.post(`/v1/messages/${waits}/cancel`, {})
    await hurry(world, waits)
    await becomes(world, waits, { status: 'canceled', job: 'succeeded' })
    expect(await syncUnknownDrifts(world.sql)).toEqual([])
  })

  test('that is held up by a pause is not sent, and goes on as it was', async ({ world }) => {
    const pause = { queue: 'messages' }
    await pauseJobs(world.sql, pause)
    const { body } = await email(world, ['alan@example.com'], ASYNC)
    expect(await readMessageState(world, body.id)).toMatchObject({ status: 'queued' })
    await resumeJobs(world.sql, pause)
    await becomes(world, body.id, { status: 'sent' })
  })
})

test('no table names anybody, and the books are in order', async ({ world }) => {
  const rows = await readAllRows(world.sql)
  expect(rows).toContain(hashOf(world)('email', toUpperCaseAddress('ada@example.com')))
  expect(rows.match(/\+1(?:415|500)5\d{6}|ada@|grace@|nobody@|is secret/i)).toBe(null)
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems).toEqual([])
})
