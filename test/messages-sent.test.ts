// Messages as callers send them: once each, by real servers, whatever those answer.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { auditEverything } from '#domain/audit/audit.ts'
import { resolveAsDone } from '#domain/interventions/act.ts'
import { followUnknownJobs } from '#domain/reconciliation/drift.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { freshKey, type Answer } from '#test/client.ts'
import { everyRow } from '#test/databases.ts'
import { hashOf, shouted, standsAs, suppressionsOf } from '#test/messages.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { capturedPayment, eventually } from '#test/payments.ts'
import { createWorld, type World } from '#test/world.ts'

let world: World
const CONNECTIONS = 5
beforeAll(async () => (world = await createWorld({ env: { SMTP_CONNECTIONS: String(CONNECTIONS) } })))
afterAll(async () => await world?.close())

const ASYNC = { prefer: 'respond-async' }
const sms = async (to: string, headers?: Record<string, string>): Promise<Answer> =>
  await world.client.post(
    '/v1/messages/sms',
    { to, body: 'The parcel is secret.', idempotency_key: freshKey() },
    headers,
  )
const email = async (
  to: string[],
  headers?: Record<string, string>,
  body: Record<string, unknown> = {},
): Promise<Answer> =>
  await world.client.post(
    '/v1/messages/email',
    { to, subject: 'A secret', text: 'The parcel is secret.', idempotency_key: freshKey(), ...body },
    headers,
  )

async function becomes(id: string, stands: object) {
  return await eventually(async () => {
    const now = await standsAs(world, id)
    expect(now).toMatchObject(stands)
    return now
  })
}

/** How often Twilio really sent one to this number. */
const smsTo = async (to: string): Promise<any[]> => {
  const query = `/messages?to=${encodeURIComponent(to)}`
  const found: any[] = await world.provider('twilio').control('GET', query)
  return found
}
/** What the server has got for this address. */
const emailsTo = async (to: string): Promise<any[]> =>
  await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to)}`)

/** As if each attempt of a waiting job had been lost with its worker, and it is due now. */
const useUp = async (id: string) =>
  await world.sql`
    update jobs set attempt = max_attempts + 1, in_doubt = true, run_at = now() where subject_id = ${id}`

/** Makes the job of a message due now. */
const hurry = async (id: string) =>
  await world.sql`update jobs set run_at = now() where subject_id = ${id} and finished_at is null`

let numbers = 0
const freshNumber = () => `+1415555${String(2000 + (numbers += 1))}`

describe('an SMS', () => {
  test('is sent while its caller waits, and delivered as its callbacks say', async () => {
    const to = freshNumber()
    const { status, body } = await sms(to)
    expect([status, body.provider_reference]).toEqual([201, expect.stringMatching(/^SM/)])
    const { events } = await becomes(body.id, { status: 'delivered', job: 'succeeded' })
    expect([events[0], events.at(-1)]).toEqual(['created', 'delivered'])
    expect(await smsTo(to)).toHaveLength(1)
  })

  test.each([
    ['+15005550001', 'invalid_number', '21211'],
    ['+15005550002', 'unreachable', '21612'],
    ['+15005550003', 'provider_error', '21408'],
    ['+15005550009', 'invalid_number', '21614'],
  ])('that Twilio refuses has failed at once, to %s', async (to, code, provider_code) => {
    const { status, body } = await sms(to)
    expect([status, body.error.code, body.error.context.provider_code]).toEqual([
      502,
      'sms_send_failed',
      provider_code,
    ])
    await becomes(body.error.context.message_id, {
      status: 'failed',
      failure: code,
      events: ['created', 'failed'],
    })
    expect(JSON.stringify(body)).not.toContain(to)
  })

  test('to somebody who has opted out suppresses the number', async () => {
    expect((await sms('+15005550004')).status).toBe(502)
    expect(await suppressionsOf(world, 'sms', '+15005550004')).toMatchObject([{ reason: 'opt_out' }])
    expect((await sms('+15005550004')).body).toMatchObject({ status: 'suppressed' })
  })

  test('whose answer is lost is unknown, is never sent again, and is found by its callback', async () => {
    const { status, body } = await sms('+15005550599')
    // Its callbacks may come while the caller still waits.
    expect([201, 202]).toContain(status)
    await becomes(body.id, { status: 'delivered', job: 'succeeded' })
    expect(await smsTo('+15005550599')).toHaveLength(1)
  })

  test('of which no callback comes is found in the list', async () => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { body } = await sms(to, ASYNC)
    await becomes(body.id, { status: 'unknown', job: 'unknown' })
    await hurry(body.id)
    await becomes(body.id, { job: 'succeeded', reference: expect.stringMatching(/^SM/) })
    expect(await smsTo(to)).toHaveLength(1)
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(body.id, { status: 'delivered' })
  })

  test('is asked about until it has arrived, also where its callback came before anybody knew whose it was', async () => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const { body } = await sms(freshNumber())
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
          matters: true,
          said: null,
        }),
      )}) as n(id uuid, provider text, account text, event_id text, kind text, object_id text)`
    void twilio.control('POST', `/messages/${sid}/settle`, { status: 'delivered' })
    await eventually(async () => expect((await smsTo(body.to))[0].status).toBe('delivered'))
    await world.sql`update messages set ask_at = now() where id = ${body.id}`
    await becomes(body.id, { status: 'delivered' })
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is not taken for another of its text, be that on its way or lost too', async () => {
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
      await hurry(id)
      await eventually(async () => expect(await attempts()).toBeGreaterThan(before))
    }
    // Twilio never got the first; the second is there, and its answer is due.
    await twilio.fault({ match, fault: 'drop_before' })
    const first = (await sms(to, ASYNC)).body.id
    await becomes(first, { status: 'unknown' })
    const held = await twilio.fault({ match, fault: { hold: 'after' } })
    const second = (await sms(to, ASYNC)).body.id
    await eventually(async () => expect(await smsTo(to)).toHaveLength(1))
    await looked(first)
    expect(await standsAs(world, first)).toMatchObject({ status: 'unknown', reference: null })
    await held.remove()
    const [{ sid }] = await smsTo(to)
    await becomes(second, { status: 'sent', reference: sid, job: 'succeeded' })
    await looked(first)
    expect(await standsAs(world, first)).toMatchObject({ status: 'unknown', reference: null })

    // One that has failed without ever being sent is known as well.
    await world.sql`update messages set status = 'failed', sent_at = null, failure = '{}' where id = ${second}`
    await looked(first)
    expect(await standsAs(world, first)).toMatchObject({ job: 'unknown', reference: null })
    const [job] =
      await world.sql`select last_error ->> 'message' as said from jobs where subject_id = ${first}`
    expect(job!['said']).toContain('has not shown')
    await world.sql`
      update messages set status = 'sent', sent_at = updated_at, failure = null where id = ${second}`
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(second, { status: 'delivered' })
  })

  test('is not taken for one that Twilio took although it answered 500', async () => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_after' })
    const refused = await sms(to)
    expect(refused.status).toBe(502)
    await twilio.fault({ match, times: 1, fault: 'drop_before' })
    const { id } = (await sms(to, ASYNC)).body
    await becomes(id, { status: 'unknown' })
    await world.sql`update jobs set last_error = null where subject_id = ${id}`
    await hurry(id)
    await becomes(id, { error: { message: expect.stringContaining('has not shown') }, reference: null })
    await twilio.control('POST', '/callbacks', { paused: false })
    await becomes(refused.body.error.context.message_id, { status: 'delivered' })
    expect(await standsAs(world, id)).toMatchObject({ status: 'unknown' })
  })

  test('is found beside another whose text was erased', async () => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    const match = { method: 'POST', contains: to.slice(1) }
    await twilio.fault({ match, times: 1, fault: 'error_500_before' })
    const { message_id } = (await sms(to)).body.error.context
    await world.sql`
      update messages set content = null, redacted_at = now(), updated_at = now() where id = ${message_id}`
    await twilio.fault({ match, times: 1, fault: 'drop_after' })
    const { id } = (await sms(to, ASYNC)).body
    await becomes(id, { status: 'unknown' })
    await hurry(id)
    const { reference } = await becomes(id, { job: 'succeeded' })
    expect(reference).toBe((await smsTo(to))[0].sid)
    await twilio.control('POST', '/callbacks', { paused: false })
  })

  test('is asked about later while Twilio does not answer', async () => {
    const twilio = world.provider('twilio')
    const [first, second] = [(await sms(freshNumber())).body, (await sms(freshNumber())).body]
    for (const { id } of [first, second]) await becomes(id, { status: 'delivered' })
    const busy = await twilio.fault({
      match: { method: 'GET', path: `/Messages/${first.provider_reference}.json$` },
      times: 100,
      fault: 'rate_limited_429',
    })
    await world.sql`
      update messages set ask_at = now(), price = null, sent_at = sent_at - interval '2 hours' where id = ${first.id}`
    await busy.hit()
    await eventually(async () => {
      const [row] = await world.sql`
        select ask_at < now() + interval '5 minutes' as soon from messages where id = ${first.id} and ask_at > now()`
      expect(row).toEqual({ soon: true })
    })
    await busy.remove()
  })

  test('whose last attempt is lost after it was delivered is over', async () => {
    const twilio = world.provider('twilio')
    await twilio.control('POST', '/callbacks', { paused: true })
    const to = freshNumber()
    await twilio.fault({ match: { method: 'POST', contains: to.slice(1) }, times: 1, fault: 'drop_after' })
    const { id } = (await sms(to, ASYNC)).body
    await becomes(id, { status: 'unknown' })
    // Its worker has died, and the lease is about to lapse.
    await world.sql`
      update jobs set state = 'running', lease_token = gen_random_uuid(), lease_until = now() + interval '2 seconds',
        worker = 'gone', started_at = now(), attempt = max_attempts + 1, in_doubt = true, run_at = now()
      where subject_id = ${id}`
    await twilio.control('POST', '/callbacks', { paused: false })
    const { parked } = await becomes(id, { status: 'delivered', job: 'succeeded' })
    expect(parked).toBe(false)
  })
})

describe('an email', () => {
  test('is sent once, with our ids', async () => {
    const { status, body } = await email(['Ada <ada@example.com>'], {}, { headers: { 'X-Order': '17' } })
    expect([status, body.status]).toEqual([201, 'sent'])
    const [got] = await emailsTo('ada@example.com')
    expect(got.raw).toContain(`X-Sluice-Message-ID: ${body.id}`)
    expect(got.raw).toContain(body.provider_reference)
    expect(body.provider_reference).toBe(`<${body.id}@sluice.example>`)
  })

  test('that some recipients refuse is sent to the others; that all refuse has failed', async () => {
    const { status, body } = await email(['grace@example.com', 'no@bounce.example'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    const refused = await email(['nobody@bounce.example'])
    expect([refused.status, refused.body.error.code]).toEqual([500, 'email_send_failed'])
    await becomes(refused.body.error.context.message_id, { status: 'failed', recipients: ['refused'] })
  })

  test('that is refused in words whose cut would halve a character is settled all the same', async () => {
    const fault = { refuse_400: true, code: `550 5.1.1 ${'a'.repeat(499)}😀 no` }
    const smtp = world.provider('smtp')
    await smtp.fault({ match: { method: 'RCPT', contains: 'halved@' }, fault })
    const { status, body } = await email(['whole@example.com', 'halved@example.com'])
    expect([status, body.recipients.map((each: any) => each.status)]).toEqual([201, ['accepted', 'refused']])
    await smtp.fault({ match: { method: 'DATA' }, fault })
    expect((await email(['whole@example.com'])).body.error.code).toBe('email_send_failed')
  })

  test('that certainly was not sent is tried five times where nobody waits', async () => {
    const { body } = await email(['alan@defer.example'], ASYNC)
    for (const waits_s of [5, 30, 120, 600]) {
      await eventually(async () => {
        const [job] = await world.sql<{ in_s: number; state: string }[]>`
          select extract(epoch from run_at - now())::float8 as in_s, state from jobs where subject_id = ${body.id}`
        expect(job).toMatchObject({ state: 'ready' })
        expect(job!.in_s).toBeGreaterThan(waits_s - 4)
        expect(job!.in_s).toBeLessThanOrEqual(waits_s)
      })
      expect(await standsAs(world, body.id)).toMatchObject({ status: 'queued', recipients: [null] })
      await hurry(body.id)
    }
    const { events } = await becomes(body.id, { status: 'failed', job: 'failed', recipients: ['refused'] })
    expect(events).toEqual(['created', 'failed'])
    const timeline = (await world.client.get(`/v1/messages/${body.id}/timeline`)).body
    const attempts = timeline.filter(({ kind }: any) => kind === 'attempt')
    expect(attempts.map(({ outcome }: any) => outcome)).toEqual([...Array(4).fill('retry'), 'declined'])
    for (const { details } of attempts)
      expect(details.error).toMatchObject({ code: 'email_send_failed', provider_code: '451 4.3.0' })
    // Who waits hears of it at once.
    expect((await email(['alan@defer.example'])).status).toBe(500)
  })

  test('whose answer is lost is unknown, until an operator has found it', async () => {
    const { status, body } = await email(['grace@lost.example'])
    expect([status, body.status]).toEqual([202, 'unknown'])
    const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${body.id}`
    // It was looked for, not sent again, and is not shown as if it was.
    await hurry(body.id)
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
    await becomes(body.id, { status: 'sent', job: 'succeeded', recipients: ['accepted'] })
    expect(await emailsTo('grace@lost.example')).toHaveLength(1)
  })

  test('that waits for a connection has not begun, and neither SMS nor payments wait for it', async () => {
    const held = await world
      .provider('smtp')
      .fault({ match: { method: 'MAIL' }, times: CONNECTIONS, fault: 'hold' })
    const sent = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => email([`line${nth}@example.com`], ASYNC)),
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
    expect((await sms(freshNumber())).body).toMatchObject({ status: 'sent' })
    await capturedPayment(world.client)
    await held.remove()
    for (const id of ids) await becomes(id, { status: 'sent', job: 'succeeded' })
  })

  test('whose files cannot be read, because the connection is lost, has not begun', async () => {
    await pauseJobs(world.sql, { queue: 'messages' })
    const attachments = [{ filename: 'a.txt', content_type: 'text/plain', content: 'AAAA' }]
    const { id } = (await email(['ada@files.example'], ASYNC, { attachments })).body
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
    await becomes(id, { status: 'sent', job: 'succeeded' })
    expect(await emailsTo('ada@files.example')).toHaveLength(1)
  })

  test('whose attempts are used up before it has begun is named to the operator; one that is canceled is over', async () => {
    const send_at = new Date(Date.now() + 600_000).toISOString()
    const [waits, canceled] = [
      (await email(['ada@example.com'], {}, { send_at })).body.id,
      (await email(['ada@example.com'], {}, { send_at })).body.id,
    ]
    await world.client.post(`/v1/messages/${canceled}/cancel`, {})
    await useUp(waits)
    await useUp(canceled)
    await becomes(waits, { status: 'scheduled', job: 'unknown', parked: true })
    await becomes(canceled, { status: 'canceled', job: 'succeeded' })
    expect(await followUnknownJobs(world.sql)).toEqual(['message.send_email'])
    await world.client.post(`/v1/messages/${waits}/cancel`, {})
    await hurry(waits)
    await becomes(waits, { status: 'canceled', job: 'succeeded' })
    expect(await followUnknownJobs(world.sql)).toEqual([])
  })

  test('that is held up by a pause is not sent, and goes on as it was', async () => {
    const pause = { queue: 'messages' }
    await pauseJobs(world.sql, pause)
    const { body } = await email(['alan@example.com'], ASYNC)
    expect(await standsAs(world, body.id)).toMatchObject({ status: 'queued' })
    await resumeJobs(world.sql, pause)
    await becomes(body.id, { status: 'sent' })
  })
})

test('no table names anybody, and the books are in order', async () => {
  const rows = await everyRow(world.sql)
  expect(rows).toContain(hashOf(world)('email', shouted('ada@example.com')))
  expect(rows.match(/\+1(?:415|500)5\d{6}|ada@|grace@|nobody@|is secret/i)).toBe(null)
  const { problems } = await auditEverything(world.sql, { stuck_after_s: 30 })
  expect(problems).toEqual([])
})
