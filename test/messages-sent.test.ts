// Messages are sent once each over the emulated SMTP server and Twilio, even with errors and lost responses.
import { describe, expect, onTestFinished } from 'vitest'
import { jobsCommand } from '#commands/jobs.ts'
import { startApi } from '#api/main.ts'
import { createLog } from '#core/log.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsDone } from '#domain/job-acts/act.ts'
import { syncUnknownDrifts } from '#domain/reconciliation/unknown-jobs.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { findSchedules } from '#domain/operations/schedules.ts'
import { setEmailDomains } from '#domain/tenants.ts'
import { createClient, freshKey, type Answer } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { testActor } from '#test/environment.ts'
import { readAllRows } from '#test/databases.ts'
import { hashOf, toUpperCaseAddress, readMessageState, suppressionsOf } from '#test/messages.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { capturedPayment, eventually } from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

const CONNECTIONS = 5
const test = testIn({ env: { SMTP_CONNECTIONS: String(CONNECTIONS) } })

const ASYNC = { prefer: 'respond-async' }
const sendSms = async (world: World, to: string, headers?: Record<string, string>): Promise<Answer> =>
  await world.client.post(
    '/v1/messages/sms',
    { to, body: 'The parcel is secret.', idempotency_key: freshKey() },
    headers,
  )
const sendEmail = async (
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

async function awaitState(world: World, id: string, expected: object) {
  return await eventually(async () => {
    const state = await readMessageState(world, id)
    expect(state).toMatchObject(expected)
    return state
  })
}

/** The SMS that Twilio has sent to this number. */
const smsTo = async (world: World, to: string): Promise<any[]> => {
  const query = `/messages?to=${encodeURIComponent(to)}`
  const found: any[] = await world.provider('twilio').control('GET', query)
  return found
}
/** The emails that the server has accepted for this address. */
const emailsTo = async (world: World, to: string): Promise<any[]> =>
  await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to)}`)

/**
 * Puts the job of a waiting message into the state after the workers of all its attempts have died. Makes the job due.
 */
const exhaustAttempts = async (world: World, id: string) =>
  await world.sql`
    update jobs set attempt = max_attempts + 1, in_doubt = true, run_at = now() where resource_id = ${id}`

/** Makes the job of a message due now. */
const makeDue = async (world: World, id: string) =>
  await world.sql`update jobs set run_at = now() where resource_id = ${id} and finished_at is null`

let numbers = 0
const freshNumber = () => `+1415555${String(2000 + (numbers += 1))}`

describe('an SMS', () => {
  test('is sent while its caller waits, and delivered by its callbacks', async ({ world }) => {
    const to = freshNumber()
    const { status, body } = await sendSms(world, to)
    expect([status, body.provider_reference]).toEqual([201, expect.stringMatching(/^SM/)])
    const { events } = await awaitState(world, body.id, { status: 'delivered', job: 'succeeded' })
    expect([events[0], events.at(-1)]).toEqual(['created', 'delivered'])
    expect(await smsTo(world, to)).toHaveLength(1)
  })

  test.for([
    ['+15005550001', 'invalid_number', '21211'],
    ['+15005550002', 'unreachable', '21612'],
    ['+15005550003', 'provider_error', '21408'],
    ['+15005550009', 'invalid_number', '21614'],
  ] as const)('that Twilio refuses fails at once, to %s', async ([to, code, provider_code], { world }) => {
    const { status, body } = await sendSms(world, to)
    expect([status, body.error.code, body.error.context.provider_code]).toEqual([
      502,
      'sms_send_failed',
      provider_code,
    ])
    await awaitState(world, body.error.context.message_id, {
      status: 'failed',
      failure: code,
      events: ['created', 'failed'],
    })
    expect(JSON.stringify(body)).not.toContain(to)
  })

  test('to a number that has opted out suppresses the number', async ({ world }) => {
    expect((await sendSms(world, '+15005550004')).status).toBe(502)
    expect(await suppressionsOf(world, 'sms', '+15005550004')).toMatchObject([{ reason: 'opt_out' }])
    expect((await sendSms(world, '+15005550004')).body).toMatchObject({ status: 'suppressed' })
  })

  test('whose response is lost is unknown, is never sent again, and is found by its callback', async ({
    world,
  }) => {
    const { status, body } = await sendSms(world, '+15005550599')
    // The callbacks may arrive while the caller is still waiting.
    expect([201, 202]).toContain(status)
    await awaitState(world, body.id, { status: 'delivered', job: 'succeeded' })
    expect(await smsTo(world, '+15005550599')).toHaveLength(1)
  })

  test("without a callback is found in Twilio's list of messages", async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { body } = await sendSms(world, to, ASYNC)
    await awaitState(world, body.id, { status: 'unknown', job: 'unknown' })
    await makeDue(world, body.id)
    await awaitState(world, body.id, { job: 'succeeded', reference: expect.stringMatching(/^SM/) })
    expect(await smsTo(world, to)).toHaveLength(1)
    await twilio.control('POST', '/callbacks', { paused: false })
    await awaitState(world, body.id, { status: 'delivered' })
  })

  test('is looked up until it is delivered, even after a callback that matches no message', async ({
    world,
  }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const { body } = await sendSms(world, freshNumber())
    const sid = body.provider_reference
    await world.sql`
      insert into notifications (id, provider, account, event_id, kind, object_id, payload, state, applied_at)
      select id, provider, account, event_id, kind, object_id, '{}', 'ignored', now()
      from jsonb_to_record(${world.sql.json(
        notificationOf(
          { provider: 'twilio', livemode: true },
          {
            account: world.env['TWILIO_ACCOUNT_SID']!,
            event_id: `${sid}:delivered`,
            kind: 'sms.delivered',
            object_id: sid,
            payload: {},
            is_relevant: true,
            reported: null,
          },
        ),
      )}) as n(id uuid, provider text, account text, event_id text, kind text, object_id text)`
    void twilio.control('POST', `/messages/${sid}/settle`, { status: 'delivered' })
    await eventually(async () => expect((await smsTo(world, body.to))[0].status).toBe('delivered'))
    await world.sql`update messages set lookup_at = now() where id = ${body.id}`
    await awaitState(world, body.id, { status: 'delivered' })
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is not confused with another SMS of the same text that is in progress or lost', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    const awaitLookup = async (id: string) => {
      const attempts = async () =>
        (
          await world.sql`select from jobs j join job_attempts a on a.job_id = j.id where j.resource_id = ${id}`
        ).count
      const before = await attempts()
      await makeDue(world, id)
      await eventually(async () => expect(await attempts()).toBeGreaterThan(before))
    }
    // Twilio does not receive the first SMS. Twilio receives the second SMS, and delays its response.
    await twilio.fault({ match, fault: 'drop_before' })
    const first = (await sendSms(world, to, ASYNC)).body.id
    await awaitState(world, first, { status: 'unknown' })
    const hold = await twilio.fault({ match, fault: { hold: 'after' } })
    const second = (await sendSms(world, to, ASYNC)).body.id
    await eventually(async () => expect(await smsTo(world, to)).toHaveLength(1))
    await awaitLookup(first)
    expect(await readMessageState(world, first)).toMatchObject({ status: 'unknown', reference: null })
    await hold.remove()
    const [{ sid }] = await smsTo(world, to)
    await awaitState(world, second, { status: 'sent', reference: sid, job: 'succeeded' })
    await awaitLookup(first)
    expect(await readMessageState(world, first)).toMatchObject({ status: 'unknown', reference: null })

    // An SMS at Twilio is matched to its message even if the message has failed and has no send time.
    await world.sql`update messages set status = 'failed', sent_at = null, failure = '{}' where id = ${second}`
    await awaitLookup(first)
    expect(await readMessageState(world, first)).toMatchObject({ job: 'unknown', reference: null })
    const [job] =
      await world.sql`select last_error ->> 'message' as reported from jobs where resource_id = ${first}`
    expect(job!['reported']).toContain('does not list')
    await world.sql`
      update messages set status = 'sent', sent_at = updated_at, failure = null where id = ${second}`
    await twilio.control('POST', '/callbacks', { paused: false })
    await awaitState(world, second, { status: 'delivered' })
  })

  test('and others of the same text that are looked up at the same time are each found', async ({
    world,
  }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 3, fault: 'drop_after' })
    const lost = await Promise.all([1, 2, 3].map(async () => (await sendSms(world, to, ASYNC)).body.id))
    for (const id of lost) await awaitState(world, id, { status: 'unknown', job: 'unknown' })
    const lists = await twilio.fault({
      match: { method: 'GET', path: 'Messages.json' },
      times: 3,
      fault: { hold: 'before' },
    })
    for (const id of lost) await makeDue(world, id)
    await lists.hit(3)
    await lists.remove()
    for (const id of lost) await awaitState(world, id, { status: 'sent', job: 'succeeded' })
    const found = await Promise.all(lost.map(async (id) => (await readMessageState(world, id)).reference))
    expect(new Set(found)).toEqual(new Set((await smsTo(world, to)).map(({ sid }) => sid)))
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is not confused with an SMS that Twilio accepted although Twilio answered 500', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_after' })
    const refused = await sendSms(world, to)
    expect(refused.status).toBe(502)
    await twilio.fault({ match, times: 1, fault: 'drop_before' })
    const { id } = (await sendSms(world, to, ASYNC)).body
    await awaitState(world, id, { status: 'unknown' })
    await world.sql`update jobs set last_error = null where resource_id = ${id}`
    await makeDue(world, id)
    await awaitState(world, id, {
      error: { message: expect.stringContaining('does not list') },
      reference: null,
    })
    await twilio.control('POST', '/callbacks', { paused: false })
    await awaitState(world, refused.body.error.context.message_id, { status: 'delivered' })
    expect(await readMessageState(world, id)).toMatchObject({ status: 'unknown' })
  })

  test('is found even if the text of another SMS to the same number is erased', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_before' })
    const { message_id } = (await sendSms(world, to)).body.error.context
    await world.sql`
      update messages set content = null, redacted_at = now(), updated_at = now() where id = ${message_id}`
    await twilio.fault({ match, times: 1, fault: 'drop_after' })
    const { id } = (await sendSms(world, to, ASYNC)).body
    await awaitState(world, id, { status: 'unknown' })
    await makeDue(world, id)
    const { reference } = await awaitState(world, id, { job: 'succeeded' })
    expect(reference).toBe((await smsTo(world, to))[0].sid)
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is looked up again later if Twilio refuses lookups', async ({ world }) => {
    const twilio = world.provider('twilio')
    const schedule = async () =>
      (await findSchedules(world.sql)).find(({ name }) => name === 'SMS lookups') ?? null
    // If no SMS is due, the next run is scheduled in the future.
    await world.sql`
      insert into recurring_work as w (name, due_at) values ('SMS lookups', now() - interval '1 hour')
      on conflict (name) do update set due_at = excluded.due_at`
    await eventually(async () =>
      expect(Date.parse((await schedule())!.next_run_at!)).toBeGreaterThan(Date.now() - 60_000),
    )
    const [first, second] = [
      (await sendSms(world, freshNumber())).body,
      (await sendSms(world, freshNumber())).body,
    ]
    for (const { id } of [first, second]) await awaitState(world, id, { status: 'delivered' })
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
    // The page of schedules shows the lookup as a failed run.
    await eventually(async () =>
      expect(await schedule()).toMatchObject({
        state: 'failed',
        failed_runs: 1,
        failure: expect.any(String),
      }),
    )
    await busy.remove()
  })

  test('is settled by its delivery when the worker of its last attempt dies', async ({ world }) => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { id } = (await sendSms(world, to, ASYNC)).body
    await awaitState(world, id, { status: 'unknown' })
    // The worker is dead, and its lease is about to expire.
    await world.sql`
      update jobs set state = 'running', lease_token = gen_random_uuid(), lease_until = now() + interval '2 seconds',
        worker = 'gone', started_at = now(), attempt = max_attempts + 1, in_doubt = true, run_at = now()
      where resource_id = ${id}`
    await twilio.control('POST', '/callbacks', { paused: false })
    const { parked } = await awaitState(world, id, { status: 'delivered', job: 'succeeded' })
    expect(parked).toBe(false)
  })
})

describe('an email', () => {
  test('is sent once, and contains the ids of Sluice', async ({ world }) => {
    const { status, body } = await sendEmail(
      world,
      ['Ada <ada@example.com>'],
      {},
      { headers: { 'X-Order': '17' } },
    )
    expect([status, body.status]).toEqual([201, 'sent'])
    const [received] = await emailsTo(world, 'ada@example.com')
    expect(received.raw).toContain(`X-Sluice-Message-ID: ${body.id}`)
    expect(received.raw).toContain(body.provider_reference)
    expect(body.provider_reference).toBe(`<${body.id}@sluice.example>`)
  })

  test('is sent to the recipients that the server accepts, and fails if the server refuses all recipients', async ({
    world,
  }) => {
    const { status, body } = await sendEmail(world, ['grace@example.com', 'no@bounce.example'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    const refused = await sendEmail(world, ['nobody@bounce.example'])
    expect([refused.status, refused.body.error.code]).toEqual([500, 'email_send_failed'])
    await awaitState(world, refused.body.error.context.message_id, {
      status: 'failed',
      recipients: ['refused'],
    })
  })

  /** The status and code of each recipient, as the API returns them. */
  const recipientsOf = async (world: World, id: string) =>
    (await world.client.get(`/v1/messages/${id}`)).body.recipients.map(({ status, code }: any) => [
      status,
      code,
    ])

  test('is sent again to its deferred recipients only, and reports their final status', async ({ world }) => {
    const smtp = world.provider('smtp')
    const defers = await smtp.fault({
      match: { method: 'RCPT', contains: 'later@' },
      times: 2,
      fault: { refuse_400: true, code: '450 4.2.0 Greylisted' },
    })
    const { status, body } = await sendEmail(world, [
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
    await makeDue(world, body.id)
    await eventually(async () => {
      const [job] = await world.sql`select state, failures from jobs where resource_id = ${body.id}`
      expect({ ...job }).toEqual({ state: 'ready', failures: 2 })
    })
    const listed = await runHere(jobsCommand, ['list', '--resource', body.id], {
      DATABASE_URL: world.config.DATABASE_URL,
    })
    expect(listed.stdout).toMatch(/retrying since .*The email could not be sent\. \(450 4\.2\.0 .*Greylisted/)
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      [null, '450 4.2.0'],
      ['refused', '550 5.1.1'],
    ])
    await defers.remove()
    await makeDue(world, body.id)
    const { events } = await awaitState(world, body.id, { status: 'sent', job: 'succeeded' })
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

  test('is attempted five times for recipients that the server always defers, and then these recipients are refused', async ({
    world,
  }) => {
    const { body } = await sendEmail(world, ['here@example.com', 'alan@defer.example'], ASYNC)
    for (let attempt = 1; attempt <= 4; attempt++) {
      await eventually(async () => {
        const [job] = await world.sql`select state, failures from jobs where resource_id = ${body.id}`
        expect({ ...job }).toEqual({ state: 'ready', failures: attempt })
      })
      await makeDue(world, body.id)
    }
    const { events } = await awaitState(world, body.id, { status: 'sent', job: 'succeeded' })
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    expect(await recipientsOf(world, body.id)).toEqual([
      ['accepted', null],
      ['refused', '451 4.3.0'],
    ])
    expect(await emailsTo(world, 'here@example.com')).toHaveLength(1)
  })

  test('that the server accepts for some recipients at the last attempt is still retried for the deferred recipients', async ({
    world,
  }) => {
    await pauseJobs(world.sql, { queue: 'messages' })
    const { body } = await sendEmail(world, ['soon@example.com', 'grey@defer.example'], ASYNC)
    await world.sql`update jobs set failures = 4 where resource_id = ${body.id}`
    await resumeJobs(world.sql, { queue: 'messages' })
    await awaitState(world, body.id, { status: 'sent', job: 'ready', recipients: ['accepted', null] })
    await makeDue(world, body.id)
    await eventually(async () => {
      const [job] = await world.sql`select state, failures from jobs where resource_id = ${body.id}`
      expect({ ...job }).toEqual({ state: 'ready', failures: 6 })
    })
    await world.client.post('/v1/messages/suppressions', { channel: 'email', address: 'grey@defer.example' })
    await makeDue(world, body.id)
    await awaitState(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', 'suppressed'],
    })
  })

  test('with refused and deferred recipients is retried if no caller waits, and otherwise fails', async ({
    world,
  }) => {
    const smtp = world.provider('smtp')
    const fault = { refuse_400: true, code: '450 4.2.0 Greylisted' }
    const defers = await smtp.fault({ match: { method: 'RCPT', contains: 'rest@' }, fault })
    const { body } = await sendEmail(world, ['gone@bounce.example', 'rest@example.com'], ASYNC)
    await awaitState(world, body.id, { status: 'queued', recipients: ['refused', null] })
    await defers.remove()
    await makeDue(world, body.id)
    const { events } = await awaitState(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['refused', 'accepted'],
    })
    expect(events).toEqual(['created', 'sent'])
    expect((await emailsTo(world, 'rest@example.com'))[0].to).toEqual(['rest@example.com'])
    // A caller that waits may send the email again, so the job has no retry.
    const waited = await sendEmail(world, ['gone2@bounce.example', 'rest@defer.example'])
    expect([waited.status, waited.body.error.code]).toEqual([500, 'email_send_failed'])
    await awaitState(world, waited.body.error.context.message_id, {
      status: 'failed',
      recipients: ['refused', 'refused'],
      job: 'failed',
    })
  })

  test('is not retried for recipients that are suppressed in the meantime, and fails if no recipients remain', async ({
    world,
  }) => {
    const suppress = async (address: string) =>
      await world.client.post('/v1/messages/suppressions', { channel: 'email', address })
    const partly = (await sendEmail(world, ['in@example.com', 'out@defer.example'])).body
    const none = (await sendEmail(world, ['not@bounce.example', 'out@defer.example'], ASYNC)).body
    await awaitState(world, none.id, { status: 'queued', recipients: ['refused', null] })
    await suppress('out@defer.example')
    for (const { id } of [partly, none]) await makeDue(world, id)
    const { events } = await awaitState(world, partly.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', 'suppressed'],
    })
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    await awaitState(world, none.id, {
      status: 'failed',
      job: 'failed',
      recipients: ['refused', 'suppressed'],
    })
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

  test('is not sent twice to any recipient if the response to a retry is lost', async ({ world }) => {
    const smtp = world.provider('smtp')
    const defers = await smtp.fault({
      match: { method: 'RCPT', contains: 'doubt@' },
      fault: { refuse_400: true, code: '450 4.2.0 Greylisted' },
    })
    const { body } = await sendEmail(world, ['sure@example.com', 'doubt@example.com'])
    await defers.remove()
    const drops = await smtp.fault({
      match: { method: 'DOT', contains: 'doubt@' },
      fault: 'drop_after',
    })
    await makeDue(world, body.id)
    const { events } = await awaitState(world, body.id, {
      status: 'sent',
      job: 'succeeded',
      recipients: ['accepted', null],
    })
    await drops.remove()
    expect(events).toEqual(['created', 'sent', 'recipients_settled'])
    expect((await emailsTo(world, 'doubt@example.com')).length).toBeLessThanOrEqual(1)
    const message = /accepted the email is unknown/
    expect((await world.client.get(`/v1/messages/${body.id}`)).body.recipients[1].message).toMatch(message)
    // An email is not sent twice either if the worker of a retry dies.
    const lost = (await sendEmail(world, ['safe@example.com', 'away@defer.example'])).body
    await world.sql`
      with m as (
        update messages set recipients = jsonb_set(recipients, '{1,deferred}', '"trying"') where id = ${lost.id})
      update jobs set in_doubt = true, run_at = now(), wakeup_sent_at = null where resource_id = ${lost.id}`
    await awaitState(world, lost.id, { status: 'sent', job: 'succeeded', recipients: ['accepted', null] })
    expect((await world.client.get(`/v1/messages/${lost.id}`)).body.recipients[1].message).toMatch(message)
  })

  test('is not sent after its tenant loses the sender domain', async ({ world }) => {
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
    await makeDue(world, body.id)
    await awaitState(world, body.id, { status: 'failed', job: 'failed', failure: 'sender_refused' })
    expect(await emailsTo(world, 'taken@example.com')).toEqual([])
    await setEmailDomains(world.sql, other.tenant_id, ['own.example', 'else.example'], by)
    await eventually(async () => expect((await send('shop@else.example')).status).toBe(201))
  })

  test("from the system's address, which an API without SYSTEM_EMAIL_FROM accepts, is not sent", async ({
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
      const request = { to: [to], subject: 'Hello', text: 'Hello', idempotency_key: freshKey(), ...names }
      const { status, body } = await by.post('/v1/messages/email', request, ASYNC)
      expect([names, status]).toEqual([names, 202])
      await awaitState(world, body.id, { status: 'failed', job: 'failed', failure: 'sender_refused' })
    }
    expect(await emailsTo(world, to)).toEqual([])
  })

  test('is sent after the removal of the last suppression of its address, even if it was accepted before the removal', async ({
    world,
  }) => {
    const to = 'back@example.com'
    const path = '/v1/messages/suppressions'
    const send_at = new Date(Date.now() + 3_600_000).toISOString()
    const [first, second] = [
      (await sendEmail(world, [to], {}, { send_at })).body,
      (await sendEmail(world, [to], {}, { send_at })).body,
    ]
    expect([first.status, second.status]).toEqual(['scheduled', 'scheduled'])
    const fault = { refuse_400: true, code: '550 5.1.1 No such mailbox' }
    await world.provider('smtp').fault({ match: { method: 'RCPT', contains: to }, fault })
    await sendEmail(world, [to])
    const [bounced] = (await world.client.get(`${path}?address=${to}`)).body
    const manual = (await world.client.post(path, { channel: 'email', address: to })).body
    expect([bounced.reason, manual.reason]).toEqual(['hard_bounce', 'manual'])
    // The suppression after the bounce remains.
    expect((await world.client.delete(`${path}/${manual.id}`)).status).toBe(200)
    expect((await sendEmail(world, [to])).body.status).toBe('suppressed')
    await makeDue(world, first.id)
    await awaitState(world, first.id, { status: 'suppressed' })
    expect((await world.client.delete(`${path}/${bounced.id}`)).status).toBe(200)
    expect((await sendEmail(world, [to])).body.status).toBe('sent')
    await makeDue(world, second.id)
    await awaitState(world, second.id, { status: 'sent' })
    expect(await emailsTo(world, to)).toHaveLength(2)
  })

  test('that is refused because the mailbox does not exist suppresses the address', async ({ world }) => {
    const missing_mailbox = 'moved@bounce.example'
    await sendEmail(world, [missing_mailbox, 'stays@example.com'])
    expect(await suppressionsOf(world, 'email', missing_mailbox)).toMatchObject([{ reason: 'hard_bounce' }])
    expect((await sendEmail(world, [missing_mailbox])).body.status).toBe('suppressed')
    // The address is suppressed even as the only recipient, and not after a refusal for another reason.
    await sendEmail(world, ['alone@bounce.example'])
    expect(await suppressionsOf(world, 'email', 'alone@bounce.example')).toHaveLength(1)
    const fault = { refuse_400: true, code: '550 5.7.1 Blocked' }
    await world.provider('smtp').fault({ match: { method: 'RCPT', contains: 'blocked@' }, fault })
    await sendEmail(world, ['blocked@example.com'])
    expect(await suppressionsOf(world, 'email', 'blocked@example.com')).toEqual([])
  })

  test('is settled even if the length limit of the refusal text falls inside a character', async ({
    world,
  }) => {
    const fault = { refuse_400: true, code: `550 5.1.1 ${'a'.repeat(499)}😀 no` }
    const smtp = world.provider('smtp')
    await smtp.fault({ match: { method: 'RCPT', contains: 'halved@' }, fault })
    const { status, body } = await sendEmail(world, ['whole@example.com', 'halved@example.com'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    await smtp.fault({ match: { method: 'DATA' }, fault })
    expect((await sendEmail(world, ['whole@example.com'])).body.error.code).toBe('email_send_failed')
  })

  test('that was certainly not sent has five attempts if no caller waits', async ({ world }) => {
    const { body } = await sendEmail(world, ['alan@defer.example'], ASYNC)
    for (const waits_s of [5, 30, 120, 600]) {
      await eventually(async () => {
        const [job] = await world.sql<{ in_s: number; state: string }[]>`
          select extract(epoch from run_at - now())::float8 as in_s, state from jobs where resource_id = ${body.id}`
        expect(job).toMatchObject({ state: 'ready' })
        expect(job!.in_s).toBeGreaterThan(waits_s - 4)
        expect(job!.in_s).toBeLessThanOrEqual(waits_s)
      })
      expect(await readMessageState(world, body.id)).toMatchObject({ status: 'queued', recipients: [null] })
      await makeDue(world, body.id)
    }
    const { events } = await awaitState(world, body.id, {
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
    // A caller that waits gets the error at once.
    expect((await sendEmail(world, ['alan@defer.example'])).status).toBe(500)
  })

  test('whose response is lost is unknown until an operator resolves the email', async ({ world }) => {
    const { status, body } = await sendEmail(world, ['grace@lost.example'])
    expect([status, body.status]).toEqual([202, 'unknown'])
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${body.id}`
    // The second attempt is a lookup, and the timeline does not show a second sending.
    await makeDue(world, body.id)
    const attempts = await eventually(async () => {
      const timeline = (await world.client.get(`/v1/messages/${body.id}/timeline`)).body
      const [call] = timeline.filter(({ kind }: any) => kind === 'provider_call')
      const lookups = timeline.filter(({ details }: any) => details.attempt === 2 && details.ended_at)
      expect(lookups).toHaveLength(1)
      return { lookups, call }
    })
    expect(attempts.call.details.last_sent_at).toBe(attempts.call.at)
    await resolveAsDone(
      world.sql,
      { job_id: job!.id, actor: 'ada', reason: 'the log of the relay' },
      `<${body.id}@sluice.example>`,
    )
    await awaitState(world, body.id, { status: 'sent', job: 'succeeded', recipients: ['accepted'] })
    expect(await emailsTo(world, 'grace@lost.example')).toHaveLength(1)
  })

  test('that waits for a connection is not started, and neither SMS nor payments wait for the email', async ({
    world,
  }) => {
    const hold = await world
      .provider('smtp')
      .fault({ match: { method: 'MAIL' }, times: CONNECTIONS, fault: 'hold' })
    const sent = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => sendEmail(world, [`line${nth}@example.com`], ASYNC)),
    )
    const ids = sent.map(({ body }) => body.id)
    await hold.hit(CONNECTIONS)
    await eventually(async () => {
      const jobs =
        await world.sql`select from jobs where resource_id = any(${ids}::uuid[]) and state = 'running'`
      expect(jobs.count).toBe(8)
    })
    const started =
      await world.sql`select from messages where id = any(${ids}::uuid[]) and status = 'sending'`
    expect(started.count).toBe(CONNECTIONS)
    // An email server that does not answer delays no other work.
    expect((await sendSms(world, freshNumber())).body).toMatchObject({ status: 'sent' })
    await capturedPayment(world.client)
    await hold.remove()
    for (const id of ids) await awaitState(world, id, { status: 'sent', job: 'succeeded' })
  })

  test('whose attachments cannot be read because the database connection is lost is not started', async ({
    world,
  }) => {
    await pauseJobs(world.sql, { queue: 'messages' })
    const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'AAAA' }]
    const { id } = (await sendEmail(world, ['ada@files.example'], ASYNC, { attachments })).body
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
    await world.sql`update jobs set lease_until = now() where resource_id = ${id} and state = 'running'`
    await awaitState(world, id, { status: 'sent', job: 'succeeded' })
    expect(await emailsTo(world, 'ada@files.example')).toHaveLength(1)
  })

  test('whose attempts are exhausted before it starts becomes a drift, unless it is canceled', async ({
    world,
  }) => {
    const send_at = new Date(Date.now() + 600_000).toISOString()
    const [waits, canceled] = [
      (await sendEmail(world, ['ada@example.com'], {}, { send_at })).body.id,
      (await sendEmail(world, ['ada@example.com'], {}, { send_at })).body.id,
    ]
    await world.client.post(`/v1/messages/${canceled}/cancel`, {})
    await exhaustAttempts(world, waits)
    await exhaustAttempts(world, canceled)
    await awaitState(world, waits, { status: 'scheduled', job: 'unknown', parked: true })
    await awaitState(world, canceled, { status: 'canceled', job: 'succeeded' })
    expect(await syncUnknownDrifts(world.sql)).toEqual(['message.send_email'])
    await world.client.post(`/v1/messages/${waits}/cancel`, {})
    await makeDue(world, waits)
    await awaitState(world, waits, { status: 'canceled', job: 'succeeded' })
    expect(await syncUnknownDrifts(world.sql)).toEqual([])
  })

  test('is not sent during a pause, and is sent after the resume', async ({ world }) => {
    const pause = { queue: 'messages' }
    await pauseJobs(world.sql, pause)
    const { body } = await sendEmail(world, ['alan@example.com'], ASYNC)
    expect(await readMessageState(world, body.id)).toMatchObject({ status: 'queued' })
    await resumeJobs(world.sql, pause)
    await awaitState(world, body.id, { status: 'sent' })
  })
})

test('no table contains personal data, and the audit finds no problems', async ({ world }) => {
  const rows = await readAllRows(world.sql)
  expect(rows).toContain(hashOf(world)('email', toUpperCaseAddress('ada@example.com')))
  expect(rows.match(/\+1(?:415|500)5\d{6}|ada@|grace@|nobody@|is secret/i)).toBe(null)
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems).toEqual([])
})
