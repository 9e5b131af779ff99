// Verifications through HTTP: begun, linked, decided by the provider or by hand, and followed by who is verified.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import type { Sql } from '#core/db.ts'
import { eraseNextEvents } from '#domain/customers/change.ts'
import { discardJob, resolveAsFailed } from '#domain/interventions/act.ts'
import { requestVerification } from '#domain/verifications/request.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import {
  askProvider,
  decide,
  getVerification,
  verificationIn,
  verificationOf,
  party,
  settleSession,
  startVerification,
  type Party,
} from '#test/verifications.ts'
import { waitingForLocks } from '#test/locks.ts'
import { ASYNC, eventually, fault } from '#test/payments.ts'
import { fund, payOut } from '#test/payouts.ts'
import { createWorld, type World } from '#test/world.ts'

const NOBODY = '0198f6f0-1234-7000-8000-123456789abc'
const PARTIES: Party[] = ['customer', 'merchant', 'recipient']

let world: World
let client: Client
beforeAll(async () => {
  world = await createWorld()
  client = world.client
})
afterAll(async () => await world?.close())

async function statusOf({ subject_type, subject_id }: { subject_type: string; subject_id: string }) {
  return (await client.get(`/v1/${subject_type}s/${subject_id}`)).body.kyc_status
}

async function eventsOf(id: string): Promise<any[]> {
  return await world.sql`select type, data from events where subject_id = ${id} order by created_at, id`
}

async function timelineOf(id: string): Promise<any[]> {
  return (await client.get(`/v1/compliance/kyc/${id}/timeline`)).body
}

describe('begun', () => {
  test.each(PARTIES)('a verification of a %s answers all there is to say, and its page', async (type) => {
    const of = await party(client, type)
    const idempotency_key = freshKey()
    const metadata = { case: 17 }
    const answer = await startVerification(client, {
      ...of,
      idempotency_key,
      metadata,
      return_url: 'https://shop.example/back',
    })
    expect(answer.status).toBe(201)
    expect(answer.body).toEqual({
      id: expect.any(String),
      tenant_id: world.tenant_id,
      idempotency_key,
      status: 'requires_input',
      ...of,
      return_url: 'https://shop.example/back',
      url: expect.stringMatching(/^http/),
      provider: 'stripe',
      provider_reference: expect.stringMatching(/^vs_/),
      failure: null,
      decision: null,
      decision_reason: null,
      decided_by: null,
      decided_by_key_id: null,
      decided_at: null,
      metadata,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    })
    const { id, provider_reference, url } = answer.body
    expect(await askProvider(world, 'GET', `/${provider_reference}`)).toMatchObject({
      type: 'document',
      client_reference_id: id,
      metadata: { sluice_kyc_id: id, sluice_tenant_id: world.tenant_id },
    })
    expect((await fetch(url)).status).toBe(200)
    expect((await fetch(url)).status).toBe(410)
    expect(await statusOf(of)).toBe('requires_input')
    expect(await getVerification(client, id)).toEqual({ ...answer.body, url: null })
    expect((await eventsOf(id)).map((event) => event.type)).toEqual(['kyc.created', 'kyc.requires_input'])
    const back = await fetch(
      `${world.provider('stripe').url}/_emulator/identity/${provider_reference}/submit`,
      {
        method: 'POST',
        body: new URLSearchParams({ status: 'verified' }),
        redirect: 'manual',
      },
    )
    expect([back.status, back.headers.get('location')]).toEqual([303, 'https://shop.example/back'])
    await verificationIn(client, id, 'approved')
  })

  test.each(PARTIES)('nobody can be verified who is no %s of the tenant', async (type) => {
    const stranger = await world.clientOf()
    const { subject_id } = await party(stranger, type)
    for (const id of [NOBODY, subject_id]) {
      const { status, body } = await startVerification(client, { subject_type: type, subject_id: id })
      expect([status, body.error.code, body.error.param]).toEqual([404, `${type}_not_found`, 'subject_id'])
    }
    expect((await stranger.get(`/v1/${type}s/${subject_id}`)).body.kyc_status).toBe('none')
  })

  test.each(PARTIES)('a %s who is gone is refused', async (type) => {
    const of = await party(client, type)
    await client.delete(`/v1/${type}s/${of.subject_id}`)
    const { status, body } = await startVerification(client, of)
    expect([status, body.error.code, body.error.param]).toEqual([422, 'kyc_invalid', 'subject_id'])
    expect(await statusOf(of)).toBe('none')
  })

  test.each([
    [{ subject_type: 'payout' }, 'subject_type'],
    [{ subject_type: undefined }, 'subject_type'],
    [{ subject_id: 'ada' }, 'subject_id'],
    [{ return_url: 'javascript:alert(1)' }, 'return_url'],
    [{ return_url: 'nowhere' }, 'return_url'],
    [{ url: 'https://shop.example' }, 'url'],
    [{ idempotency_key: undefined }, 'idempotency_key'],
  ])('%j is refused', async (body, param) => {
    const answer = await startVerification(client, { subject_id: NOBODY, ...body })
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
      400,
      'invalid_request',
      param,
    ])
  })

  test('one of a subject is open at a time, and the refusal names it', async () => {
    const of = await party(client, 'recipient')
    const [first, ...others] = (
      await Promise.all(Array.from({ length: 50 }, () => startVerification(client, of)))
    ).toSorted((a, b) => a.status - b.status)
    expect(first!.status).toBe(201)
    for (const { status, body } of others) {
      expect([status, body.error.code]).toEqual([409, 'kyc_open'])
      expect(body.error.context).toEqual({ kyc_id: first!.body.id })
    }
    await settleSession(world, first!.body.provider_reference, 'canceled')
    await verificationIn(client, first!.body.id, 'rejected')
    expect((await startVerification(client, of)).status).toBe(201)
    expect(await statusOf(of)).toBe('requires_input')
  })

  test('one that its subject does not show is refused all the same, and an audit names it', async () => {
    const { id, subject_type, subject_id } = await verificationOf(client, 'recipient')
    const shows = async (kyc_id: string | null, kyc_status: string) =>
      await world.sql`
        update recipients set kyc_id = ${kyc_id}, kyc_status = ${kyc_status} where id = ${subject_id}`
    await shows(null, 'none')
    const { status, body } = await startVerification(client, { subject_type, subject_id })
    expect([status, body.error.code, body.error.context]).toEqual([409, 'kyc_open', { kyc_id: id }])
    const { problems } = await auditEverything(world.sql)
    await shows(id, 'requires_input')
    expect(problems).toMatchObject([{ problem: 'a verified party does not show the verification', id }])
  })

  test.each(PARTIES)('a %s who is approved without a verification is found by every audit', async (type) => {
    const { subject_id } = await party(client, type)
    const table = world.sql(`${type}s`)
    await world.sql`update ${table} set kyc_status = 'approved' where id = ${subject_id}`
    const reports = [
      await auditEverything(world.sql),
      // However long ago it was written.
      await auditChanges(world.sql, new Date(Date.now() + 86_400_000).toISOString(), []),
    ]
    await world.sql`update ${table} set kyc_status = 'none' where id = ${subject_id}`
    for (const { problems } of reports)
      expect(problems).toMatchObject([
        {
          problem: 'a party shows a status without a verification',
          id: subject_id,
          what: `${type} approved`,
        },
      ])
  })

  test('the same key is the same verification, and other content under it is refused', async () => {
    const of = await party(client, 'customer')
    const idempotency_key = freshKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => startVerification(client, { ...of, idempotency_key })),
    )
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect(answers.filter(({ body }) => body.url !== null)).toHaveLength(1)
    const other = await startVerification(client, { ...of, idempotency_key, metadata: 1 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('one that the provider refuses is rejected without a decision, and another can follow', async () => {
    const of = await party(client, 'merchant')
    await fault(world, { match: { path: '/verification_sessions$' }, fault: 'refuse_400' })
    const idempotency_key = freshKey()
    for (const replayed of [null, 'true']) {
      const { status, body, headers } = await startVerification(client, { ...of, idempotency_key })
      expect([status, body.error.code, headers.get('idempotent-replayed')]).toEqual([
        422,
        'kyc_refused',
        replayed,
      ])
      expect(await getVerification(client, body.error.context.kyc_id)).toMatchObject({
        status: 'rejected',
        failure: { code: 'kyc_refused' },
        decision: null,
        decided_by: null,
      })
    }
    expect(await statusOf(of)).toBe('rejected')
    expect((await startVerification(client, of)).status).toBe(201)
  })

  test.concurrent.each([
    'drop_before',
    'drop_after',
    'error_500_before',
    'error_500_after',
    'cut_body',
    'empty_200',
    'html_503',
  ])(
    'after %s there is one session all the same',
    async (kind) => {
      const mark = freshKey()
      await fault(world, { match: { path: '/verification_sessions$', contains: mark }, fault: kind })
      const of = { ...(await party(client, 'customer')), return_url: `https://shop.example/${mark}` }
      const { body } = await startVerification(client, of, { prefer: 'wait=30' })
      const verification = body.error === undefined ? body : undefined
      expect(verification).toMatchObject({ status: 'requires_input', url: expect.any(String) })
      const { data } = await askProvider(world, 'GET', `?client_reference_id=${verification.id}`)
      expect(data.map((each: any) => each.id)).toEqual([verification.provider_reference])
      expect((await fetch(verification.url)).status).toBe(200)
    },
    60_000,
  )
})

describe('the page of the provider', () => {
  test('is in one answer only, of 50 replays at the same moment', async () => {
    const of = await party(client, 'customer')
    const idempotency_key = freshKey()
    const first = await startVerification(client, { ...of, idempotency_key }, ASYNC)
    expect([first.status, first.body.url]).toEqual([202, null])
    await verificationIn(client, first.body.id, 'requires_input')
    const answers = await Promise.all([
      ...Array.from({ length: 50 }, () => startVerification(client, { ...of, idempotency_key })),
      ...Array.from({ length: 20 }, () => client.get(`/v1/compliance/kyc/${first.body.id}`)),
      ...Array.from({ length: 20 }, () => client.get(`/v1/compliance/kyc?subject_id=${of.subject_id}`)),
    ])
    const urls = answers.flatMap(({ body }) => (Array.isArray(body) ? body : [body])).map(({ url }) => url)
    expect(urls.filter((url) => url !== null)).toHaveLength(1)
    expect(
      answers
        .slice(50)
        .flatMap(({ body }) => body)
        .every(({ url }) => url === null),
    ).toBe(true)
    expect((await startVerification(client, { ...of, idempotency_key })).body.url).toBeNull()
  })

  test('a new one is in the answer to link, once for each that is asked for', async () => {
    const { id, url, provider_reference } = await verificationOf(client)
    const keys = [freshKey(), freshKey(), freshKey()]
    const ask = (idempotency_key: string) => client.post(`/v1/compliance/kyc/${id}/link`, { idempotency_key })
    const answers = await Promise.all(keys.flatMap((key) => Array.from({ length: 5 }, () => ask(key))))
    for (const { status, body } of answers) expect([status, body.id]).toEqual([200, id])
    const urls = answers.flatMap(({ body }) => (body.url === null ? [] : [body.url]))
    expect(new Set([url, ...urls]).size).toBe(4)
    for (const page of urls) expect((await fetch(page)).status).toBe(200)
    const bare = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([bare.status, (await fetch(bare.body.url)).status]).toEqual([200, 200])
    await settleSession(world, provider_reference, 'verified')
    await verificationIn(client, id, 'approved')
    const over = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([over.status, over.body.error.code]).toEqual([409, 'kyc_already_decided'])
    expect((await client.post(`/v1/compliance/kyc/${NOBODY}/link`)).status).toBe(404)
  })

  test('of very many requests for one only some are taken; a replay of these is answered', async () => {
    const { id, provider_reference } = await verificationOf(client)
    const held = await fault(world, {
      match: { path: `/verification_sessions/${provider_reference}` },
      fault: 'hold',
      times: 1_000,
    })
    const ask = (idempotency_key: string, headers?: Record<string, string>) =>
      client.post(`/v1/compliance/kyc/${id}/link`, { idempotency_key }, headers)
    const keys = Array.from({ length: 40 }, () => freshKey())
    const answers = await Promise.all(keys.map((key) => ask(key, ASYNC)))
    const taken = keys.filter((_key, nth) => answers[nth]!.status === 202)
    expect(taken).toHaveLength(10)
    const refused = answers.find(({ status }) => status !== 202)!
    expect([refused.status, refused.body.error]).toMatchObject([
      429,
      { code: 'rate_limited', context: { limit: 10 } },
    ])
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await ask(taken[0]!, ASYNC)).status).toBe(202)
    await held.remove()
    const urls = await Promise.all(taken.map(async (key) => (await ask(key)).body.url))
    expect(new Set(urls.filter((url) => url !== null)).size).toBe(10)
    expect((await ask(freshKey())).status).toBe(200)
  })

  test('there is none while the provider looks or has not begun', async () => {
    const { id, provider_reference } = await verificationOf(client)
    await settleSession(world, provider_reference, 'processing')
    // Whether we have heard of it or not.
    const refused = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'kyc_not_linkable'])
    await verificationIn(client, id, 'processing')
    const held = await fault(world, { match: { path: '/verification_sessions$' }, fault: 'hold' })
    const pending = await startVerification(client, await party(client, 'customer'), ASYNC)
    expect(pending.body.status).toBe('pending')
    await held.hit()
    const early = await client.post(`/v1/compliance/kyc/${pending.body.id}/link`)
    expect([early.status, early.body.error.code]).toEqual([409, 'kyc_not_linkable'])
    await held.release()
    await verificationIn(client, pending.body.id, 'requires_input')
  })

  test('one that nobody took is forgotten when it has expired', async () => {
    const of = await party(client, 'customer')
    const idempotency_key = freshKey()
    const { body } = await startVerification(client, { ...of, idempotency_key }, ASYNC)
    await verificationIn(client, body.id, 'requires_input')
    const kept = async () =>
      (await world.sql`select links <> '{}' as kept from verifications where id = ${body.id}`)[0]!.kept
    // The provider may tell of the session before our own call is answered.
    await eventually(async () => expect(await kept()).toBe(true))
    await world.sql`update verifications set links_until = now() - interval '1 second' where id = ${body.id}`
    await eventually(async () => expect(await kept()).toBe(false))
    expect((await startVerification(client, { ...of, idempotency_key })).body.url).toBeNull()
  })

  test('is nowhere but in that answer: no table, event or timeline has it in the clear', async () => {
    const taken = await verificationOf(client)
    const link = await client.post(`/v1/compliance/kyc/${taken.id}/link`)
    const { provider_reference } = taken
    await settleSession(world, provider_reference, 'requires_input', 'document_expired')
    await eventually(async () =>
      expect((await getVerification(client, taken.id)).failure?.code).toBe('document_expired'),
    )
    const { url, client_secret } = await askProvider(world, 'GET', `/${provider_reference}`)
    const secrets = [taken.url, link.body.url, url].map((each) => new URL(each).searchParams.get('link')!)
    const texts = [await readAllRows(world.sql), JSON.stringify(await timelineOf(taken.id))]
    for (const text of texts)
      for (const secret of [...secrets, client_secret]) {
        expect(secret.length).toBeGreaterThan(20)
        expect(text.includes(secret)).toBe(false)
      }
  })
})

describe('decided by the provider', () => {
  test.each([
    ['verified', 'approved', null],
    ['canceled', 'rejected', { code: 'canceled', message: 'The session was canceled at the provider.' }],
  ])('%s is %s, and who is verified follows', async (reported, status, failure) => {
    const verification = await verificationOf(client, 'merchant')
    await settleSession(world, verification.provider_reference, reported)
    const decided = await verificationIn(client, verification.id, status)
    expect(decided).toMatchObject({
      decision: status,
      decided_by: 'provider',
      decided_by_key_id: null,
      decision_reason: null,
      decided_at: expect.any(String),
      failure,
    })
    expect(await statusOf(verification)).toBe(status)
    expect((await eventsOf(verification.id)).at(-1)).toMatchObject({
      type: `kyc.${status}`,
      data: { decided_by: 'provider' },
    })
  })

  test('it may look, ask for more and look again before it decides', async () => {
    const verification = await verificationOf(client, 'recipient')
    await settleSession(world, verification.provider_reference, 'processing')
    await verificationIn(client, verification.id, 'processing')
    expect(await statusOf(verification)).toBe('processing')
    await settleSession(world, verification.provider_reference, 'requires_input', 'selfie_face_mismatch')
    const asked = await verificationIn(client, verification.id, 'requires_input')
    expect(asked).toMatchObject({
      failure: { code: 'selfie_face_mismatch', message: expect.any(String) },
      decision: null,
    })
    expect(await statusOf(verification)).toBe('requires_input')
    await settleSession(world, verification.provider_reference, 'processing')
    expect(await verificationIn(client, verification.id, 'processing')).toMatchObject({ failure: null })
    await settleSession(world, verification.provider_reference, 'verified')
    await verificationIn(client, verification.id, 'approved')
    expect((await eventsOf(verification.id)).map(({ type }) => type)).toEqual(
      ['created', 'requires_input', 'processing', 'requires_input', 'processing', 'approved'].map(
        (word) => `kyc.${word}`,
      ),
    )
  })

  test('a recipient who was rejected is not paid', async () => {
    const verification = await verificationOf(client, 'recipient')
    await fund(client, 100)
    await settleSession(world, verification.provider_reference, 'canceled')
    await verificationIn(client, verification.id, 'rejected')
    const refused = await payOut(client, verification.subject_id)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'payout_invalid'])
    await decide(client, verification.id, 'approved')
    expect((await payOut(client, verification.subject_id)).status).toBe(201)
  })
})

describe('decided by hand', () => {
  test.each(['approved', 'rejected'] as const)('%s holds, and names the key', async (decision) => {
    const verification = await verificationOf(client, 'recipient')
    const idempotency_key = freshKey()
    const answer = await decide(client, verification.id, decision, { idempotency_key })
    const { key_id } = world.client as Client & { key_id: string }
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        ...verification,
        url: null,
        status: decision,
        decision,
        decision_reason: 'Seen in person.',
        decided_by: 'manual',
        decided_by_key_id: key_id,
        decided_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ])
    expect(await statusOf(verification)).toBe(decision)
    const replayed = await decide(client, verification.id, decision, { idempotency_key })
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    for (const other of ['approved', 'rejected'] as const) {
      const again = await decide(client, verification.id, other)
      expect([again.status, again.body.error.code]).toEqual([409, 'kyc_already_decided'])
    }
    const event = (await eventsOf(verification.id)).at(-1)
    expect(event).toMatchObject({ type: `kyc.${decision}`, data: { decided_by_key_id: key_id } })
    expect(await timelineOf(verification.id)).toContainEqual(
      expect.objectContaining({
        name: `kyc.${decision}`,
        details: expect.objectContaining({ decided_by_key_id: key_id }),
      }),
    )
    // The session is let go, and what that brings changes nothing.
    await eventually(async () =>
      expect(await askProvider(world, 'GET', `/${verification.provider_reference}`)).toMatchObject({
        status: 'canceled',
      }),
    )
    await eventually(async () =>
      expect(await timelineOf(verification.id)).toContainEqual(
        expect.objectContaining({ name: 'identity.verification_session.canceled', outcome: 'applied' }),
      ),
    )
    expect(await getVerification(client, verification.id)).toEqual(answer.body)
  })

  test.each(['verified', 'canceled'])('it holds over %s of the provider, once', async (reported) => {
    const verification = await verificationOf(client)
    await settleSession(world, verification.provider_reference, reported)
    const status = reported === 'verified' ? 'approved' : 'rejected'
    const other = reported === 'verified' ? 'rejected' : 'approved'
    await verificationIn(client, verification.id, status)
    expect((await decide(client, verification.id, other)).body).toMatchObject({
      status: other,
      decided_by: 'manual',
    })
    expect(await statusOf(verification)).toBe(other)
    expect((await decide(client, verification.id, status as 'approved')).status).toBe(409)
  })

  test('while the provider looks, the session is left alone and its end changes nothing', async () => {
    const verification = await verificationOf(client)
    await settleSession(world, verification.provider_reference, 'processing')
    await verificationIn(client, verification.id, 'processing')
    const { body } = await decide(client, verification.id, 'rejected')
    await settleSession(world, verification.provider_reference, 'verified')
    await eventually(async () =>
      expect(await timelineOf(verification.id)).toContainEqual(
        expect.objectContaining({ name: 'identity.verification_session.verified', outcome: 'applied' }),
      ),
    )
    expect(await getVerification(client, verification.id)).toEqual(body)
    expect(await statusOf(verification)).toBe('rejected')
  })

  test('before the provider has begun: the session that comes is let go', async () => {
    const held = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
    const of = await party(client, 'customer')
    const { body } = await startVerification(client, of, ASYNC)
    await held.hit()
    expect((await decide(client, body.id, 'approved')).body.status).toBe('approved')
    await held.release()
    const { provider_reference } = await eventually(async () => {
      const verification = await getVerification(client, body.id)
      expect(verification.provider_reference).toMatch(/^vs_/)
      return verification
    })
    await eventually(async () =>
      expect(await askProvider(world, 'GET', `/${provider_reference}`)).toMatchObject({ status: 'canceled' }),
    )
    expect(await getVerification(client, body.id)).toMatchObject({ status: 'approved', decided_by: 'manual' })
  })

  test('a session whose cancellation is resolved as failed is let go all the same', async () => {
    const verification = await verificationOf(client)
    const path = `/${verification.provider_reference}/cancel$`
    const away = await fault(world, { match: { path }, times: 1000, fault: 'html_503' })
    await decide(client, verification.id, 'approved')
    await away.hit()
    const [job] = await world.sql<{ id: string }[]>`
      select id from jobs where subject_id = ${verification.id} and name = 'kyc.cancel'`
    const act = { job_id: job!.id, who: 'ada', reason: 'the provider is away' }
    await eventually(async () => {
      // The session would wait for ever; while an attempt is under way nothing can be done at all.
      expect(await discardJob(world.sql, act)).toBeUndefined()
      expect(await world.sql.begin((tx) => resolveAsFailed(tx, act))).toMatchObject({ after: 'failed' })
    })
    await away.remove()
    await eventually(async () =>
      expect(await askProvider(world, 'GET', `/${verification.provider_reference}`)).toMatchObject({
        status: 'canceled',
      }),
    )
    expect(await getVerification(client, verification.id)).toMatchObject({
      status: 'approved',
      decided_by: 'manual',
    })
  })

  test('of 20 decisions at the same moment one is made', async () => {
    const verification = await verificationOf(client)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, nth) =>
        decide(client, verification.id, nth % 2 === 0 ? 'approved' : 'rejected'),
      ),
    )
    const made = answers.filter(({ status }) => status === 200)
    expect(made).toHaveLength(1)
    expect(await getVerification(client, verification.id)).toEqual(made[0]!.body)
    expect(await statusOf(verification)).toBe(made[0]!.body.status)
  })

  test('the status of who is verified is that of the latest verification, whatever becomes of earlier ones', async () => {
    const first = await verificationOf(client)
    await settleSession(world, first.provider_reference, 'canceled')
    await verificationIn(client, first.id, 'rejected')
    const { subject_type, subject_id } = first
    const second = await startVerification(client, { subject_type, subject_id })
    expect(second.status).toBe(201)
    expect((await decide(client, first.id, 'approved')).status).toBe(200)
    expect(await statusOf(first)).toBe('requires_input')
    await settleSession(world, second.body.provider_reference, 'verified')
    await verificationIn(client, second.body.id, 'approved')
    expect(await statusOf(first)).toBe('approved')
  })

  test.each([
    { decision: 'maybe' },
    { reason: '' },
    { reason: undefined },
    { decision: undefined },
    { by: 'me' },
  ])('%j is refused', async (body) => {
    const { id } = await verificationOf(client)
    const answer = await decide(client, id, 'approved', body)
    expect([answer.status, answer.body.error.code]).toEqual([400, 'invalid_request'])
    expect(await getVerification(client, id)).toMatchObject({ decision: null })
  })

  test('nothing is decided that is not there', async () => {
    const { status, body } = await decide(client, NOBODY, 'approved')
    expect([status, body.error.code]).toEqual([404, 'kyc_not_found'])
  })
})

describe('given up', () => {
  /** The provider let go of its session, and it is rejected for that reason. */
  async function release({ id, ...of }: any, code: string): Promise<void> {
    const verification = await verificationIn(client, id, 'rejected')
    expect(verification).toMatchObject({ failure: { code }, decided_by: 'provider', decision_reason: null })
    const session = await askProvider(world, 'GET', `/${verification.provider_reference}`)
    expect(session).toMatchObject({ status: 'canceled' })
    expect(await statusOf(of)).toBe('rejected')
    const timeline = await timelineOf(id)
    for (const entry of [
      { kind: 'provider_call', name: 'cancel_verification', outcome: 'done' },
      { kind: 'event', name: 'kyc.rejected', details: expect.objectContaining({ failure: code }) },
    ])
      expect(timeline).toContainEqual(expect.objectContaining(entry))
  }

  test('one that nobody moves on for a month is abandoned, and another can follow', async () => {
    const [fresh, left] = [await verificationOf(client, 'merchant'), await verificationOf(client, 'merchant')]
    await world.sql`
      update verifications set updated_at = updated_at - interval '31 days' where id = ${left.id}`
    await release(left, 'abandoned')
    const { subject_type, subject_id } = left
    expect((await startVerification(client, { subject_type, subject_id })).status).toBe(201)
    expect(await getVerification(client, fresh.id)).toMatchObject({ status: 'requires_input' })
  })

  test('one that the provider keeps is asked for again a month later', async () => {
    const verification = await verificationOf(client)
    const path = `/${verification.provider_reference}/cancel$`
    const refused = await fault(world, { match: { path }, fault: 'refuse_400' })
    const old = () =>
      world.sql`update verifications set updated_at = updated_at - interval '31 days' where id = ${verification.id}`
    await old()
    await refused.hit()
    await eventually(async () =>
      expect(await timelineOf(verification.id)).toContainEqual(
        expect.objectContaining({ name: 'cancel_verification', outcome: 'declined' }),
      ),
    )
    expect(await getVerification(client, verification.id)).toMatchObject({
      status: 'requires_input',
      failure: null,
    })
    await old()
    await release(verification, 'abandoned')
  })

  test.each(PARTIES)('that of a %s who is gone', async (type) => {
    const verification = await verificationOf(client, type)
    expect((await client.delete(`/v1/${type}s/${verification.subject_id}`)).status).toBe(200)
    await release(verification, 'subject_gone')
  })

  test('that of a customer who is gone, and which the provider keeps, is asked about more and more rarely', async () => {
    const kyc = await verificationOf(client)
    const refused = await fault(world, {
      match: { path: `/${kyc.provider_reference}/cancel$` },
      fault: 'refuse_400',
    })
    await world.sql`update verifications set updated_at = updated_at - interval '2 days' where id = ${kyc.id}`
    await client.delete(`/v1/customers/${kyc.subject_id}`)
    await refused.hit()
    await world.drain()
    const [row] = await world.sql`
      select cancel_requested_at, updated_at < now() - interval '1 day' as is_old from verifications where id = ${kyc.id}`
    expect(row).toEqual({ cancel_requested_at: null, is_old: true })
  })

  test('one that is asked for at the moment at which its customer is deleted', async () => {
    const { tenant_id, ...own } = await world.clientOf()
    const of = await party(own, 'customer')
    const asked = { kyc_id: newId(), job_id: newId(), event_id: newId(), idempotency_key: freshKey() }
    const request = {
      route: '',
      fingerprint: '',
      request_id: null,
      will_wake: false,
      return_url: null,
      metadata: null,
    }
    const deleting = await world.sql.begin(async (tx) => {
      await requestVerification(tx as unknown as Sql, {
        tenant_id,
        ...of,
        ...asked,
        ...request,
        provider: 'stripe',
      })
      const answer = own.delete(`/v1/customers/${of.subject_id}`)
      await waitingForLocks(world.sql, 1)
      return { answer }
    })
    expect((await deleting.answer).status).toBe(200)
    expect(await verificationIn(own, asked.kyc_id, 'rejected')).toMatchObject({
      failure: { code: 'subject_gone' },
    })
  })

  test('that of a customer who is deleted before the provider has begun', async () => {
    const held = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
    const { body } = await startVerification(client, await party(client, 'customer'), ASYNC)
    await held.hit()
    expect((await client.delete(`/v1/customers/${body.subject_id}`)).status).toBe(200)
    await held.release()
    await release(body, 'subject_gone')
  })
})

describe('read', () => {
  test('lists filter by status and subject', async () => {
    const own = await world.clientOf()
    const [a, b] = [await verificationOf(own, 'merchant'), await verificationOf(own, 'customer')]
    await decide(own, a.id, 'approved')
    for (const [query, ids] of [
      ['', [b.id, a.id]],
      ['?status=approved', [a.id]],
      ['?status=requires_input', [b.id]],
      ['?subject_type=merchant', [a.id]],
      [`?subject_id=${b.subject_id}`, [b.id]],
      [`?subject_id=${b.subject_id}&subject_type=merchant`, []],
      ['?open=true', [b.id]],
      [`?before=${b.created_at}`, [a.id]],
    ] as const) {
      const { status, body } = await own.get(`/v1/compliance/kyc${query}`)
      expect([query, status, body.map(({ id }: any) => id)]).toEqual([query, 200, ids])
    }
    for (const query of ['?status=none', '?subject=x', '?subject_id=x', '?limit=0'])
      expect((await own.get(`/v1/compliance/kyc${query}`)).status).toBe(400)
  })
})

test('in the end the books and the provider agree', async () => {
  await world.drain()
  await checkInvariants(world)
  expect(await world.sql`select subject, detail from drifts where subject = 'kyc'`).toEqual([])
}, 180_000)

test('with a deleted customer goes what their verifications say of them', async () => {
  const mark = `secret-${freshKey()}`
  const of = await party(client, 'customer')
  const { body } = await startVerification(client, {
    ...of,
    metadata: { mark },
    return_url: `https://shop.example/${mark}`,
  })
  await decide(client, body.id, 'rejected', { reason: `Ada's passport ${mark}` })
  await world.drain()
  const told = async () => (await readAllRows(world.sql)).split('\n').filter((row) => row.includes(mark))
  expect(await told()).not.toEqual([])
  await client.delete(`/v1/customers/${of.subject_id}`)
  await eventually(async () => expect(await told()).toEqual([]))
  expect(await getVerification(client, body.id)).toMatchObject({
    status: 'rejected',
    metadata: {},
    decision_reason: null,
  })
  expect((await eventsOf(body.id)).map(({ type }) => type)).toContain('kyc.rejected')
  const { body: erased } = await client.get(`/v1/events?subject_id=${body.id}`)
  for (const { data } of erased)
    expect(data).toMatchObject({ metadata: {}, return_url: null, decision_reason: null })
  expect(erased.length).toBeGreaterThan(0)
  // A call that is under way has its request until it is over; that alone is kept meanwhile.
  const held = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
  const asked = { metadata: { mark }, return_url: `https://shop.example/${mark}` }
  const { body: begun } = await startVerification(
    client,
    { ...(await party(client, 'customer')), ...asked },
    ASYNC,
  )
  await held.hit()
  await client.delete(`/v1/customers/${begun.subject_id}`)
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await world.sql`select from erasures where turn_at > clock_timestamp()`).toHaveLength(1)
  })
  expect(await told()).toEqual([expect.stringMatching(/^public\.jobs /)])
  await held.release()
  await verificationIn(client, begun.id, 'rejected')
  await world.sql`update erasures set turn_at = clock_timestamp()`
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await told()).toEqual([])
  })
})
