// Tests verifications through the API: their start, links, decisions by provider or operator, and the status of the
// persons and companies that they verify.
import postgres from 'postgres'
import { describe, expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { auditChanges, auditEverything } from '#domain/audit/audit.ts'
import type { Sql } from '#core/db.ts'
import { eraseNextEvents } from '#domain/customers/change.ts'
import { discardJob, resolveAsFailed } from '#domain/job-acts/act.ts'
import { requestVerification } from '#domain/verifications/request.ts'
import { checkInvariants } from '#test/books.ts'
import { freshKey, type Client } from '#test/client.ts'
import { readAllRows } from '#test/databases.ts'
import {
  callProvider,
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
import { createWorld, testIn, type World } from '#test/world.ts'

const MISSING_ID = '0198f6f0-1234-7000-8000-123456789abc'
const PARTIES: Party[] = ['customer', 'merchant', 'recipient']

const test = testIn()

async function statusOf(
  client: Client,
  { subject_type, subject_id }: { subject_type: string; subject_id: string },
) {
  return (await client.get(`/v1/${subject_type}s/${subject_id}`)).body.kyc_status
}

async function eventsOf(world: World, id: string): Promise<any[]> {
  return await world.sql`select type, data from events where subject_id = ${id} order by created_at, id`
}

async function timelineOf(client: Client, id: string): Promise<any[]> {
  return (await client.get(`/v1/compliance/kyc/${id}/timeline`)).body
}

describe('the start of a verification', () => {
  test.for(PARTIES)(
    "returns all fields of the verification of a %s, and the URL of the provider's page",
    async (type, { world, client }) => {
      const subject = await party(client, type)
      const idempotency_key = freshKey()
      const metadata = { case: 17 }
      const answer = await startVerification(client, {
        ...subject,
        idempotency_key,
        metadata,
        return_url: 'https://shop.example/back',
      })
      expect(answer.status).toBe(201)
      expect(answer.body).toEqual({
        id: expect.any(String),
        tenant_id: world.tenant_id,
        livemode: true,
        idempotency_key,
        status: 'requires_input',
        ...subject,
        return_url: 'https://shop.example/back',
        url: expect.stringMatching(/^http/),
        provider: 'stripe',
        provider_reference: expect.stringMatching(/^vs_/),
        failure: null,
        outdated: false,
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
      expect(await callProvider(world, 'GET', `/${provider_reference}`)).toMatchObject({
        type: 'document',
        client_reference_id: id,
        metadata: { sluice_kyc_id: id, sluice_tenant_id: world.tenant_id },
      })
      expect((await fetch(url)).status).toBe(200)
      expect((await fetch(url)).status).toBe(410)
      expect(await statusOf(client, subject)).toBe('requires_input')
      expect(await getVerification(client, id)).toEqual({ ...answer.body, url: null })
      expect((await eventsOf(world, id)).map((event) => event.type)).toEqual([
        'kyc.created',
        'kyc.requires_input',
      ])
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
    },
  )

  test.for(PARTIES)('is refused for an id that is no %s of the tenant', async (type, { world, client }) => {
    const stranger = await world.clientOf()
    const { subject_id } = await party(stranger, type)
    for (const id of [MISSING_ID, subject_id]) {
      const { status, body } = await startVerification(client, { subject_type: type, subject_id: id })
      expect([status, body.error.code, body.error.param]).toEqual([404, `${type}_not_found`, 'subject_id'])
    }
    expect((await stranger.get(`/v1/${type}s/${subject_id}`)).body.kyc_status).toBe('none')
  })

  test.for(PARTIES)('is refused for a deleted or archived %s', async (type, { client }) => {
    const subject = await party(client, type)
    await client.delete(`/v1/${type}s/${subject.subject_id}`)
    const { status, body } = await startVerification(client, subject)
    expect([status, body.error.code, body.error.param]).toEqual([422, 'kyc_invalid', 'subject_id'])
    expect(await statusOf(client, subject)).toBe('none')
  })

  test.for([
    [{ subject_type: 'payout' }, 'subject_type'],
    [{ subject_type: undefined }, 'subject_type'],
    [{ subject_id: 'ada' }, 'subject_id'],
    [{ return_url: 'javascript:alert(1)' }, 'return_url'],
    [{ return_url: 'nowhere' }, 'return_url'],
    [{ url: 'https://shop.example' }, 'url'],
    [{ idempotency_key: undefined }, 'idempotency_key'],
  ] as const)('is refused with %j', async ([body, param], { client }) => {
    const answer = await startVerification(client, { subject_id: MISSING_ID, ...body })
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
      400,
      'invalid_request',
      param,
    ])
  })

  test('is refused while the subject has an open verification, and the error names that verification', async ({
    world,
    client,
  }) => {
    const subject = await party(client, 'recipient')
    const [first, ...others] = (
      await Promise.all(Array.from({ length: 50 }, () => startVerification(client, subject)))
    ).toSorted((a, b) => a.status - b.status)
    expect(first!.status).toBe(201)
    for (const { status, body } of others) {
      expect([status, body.error.code]).toEqual([409, 'kyc_open'])
      expect(body.error.context).toEqual({ kyc_id: first!.body.id })
    }
    await settleSession(world, first!.body.provider_reference, 'canceled')
    await verificationIn(client, first!.body.id, 'rejected')
    expect((await startVerification(client, subject)).status).toBe(201)
    expect(await statusOf(client, subject)).toBe('requires_input')
  })

  test('is refused if the subject has an open verification that the subject does not show, and the audit reports that verification', async ({
    world,
    client,
  }) => {
    const { id, subject_type, subject_id } = await verificationOf(client, 'recipient')
    const setShown = async (kyc_id: string | null, kyc_status: string) =>
      await world.sql`
        update recipients set kyc_id = ${kyc_id}, kyc_status = ${kyc_status} where id = ${subject_id}`
    await setShown(null, 'none')
    const { status, body } = await startVerification(client, { subject_type, subject_id })
    expect([status, body.error.code, body.error.context]).toEqual([409, 'kyc_open', { kyc_id: id }])
    const { problems } = await auditEverything(world.sql)
    await setShown(id, 'requires_input')
    expect(problems).toMatchObject([{ problem: 'a verified party does not show the verification', id }])
  })

  test.for(PARTIES)(
    'is needed for an approval: each audit finds a %s that is approved without a verification',
    async (type, { world, client }) => {
      const { subject_id } = await party(client, type)
      const table = world.sql(`${type}s`)
      await world.sql`update ${table} set kyc_status = 'approved' where id = ${subject_id}`
      const reports = [
        await auditEverything(world.sql),
        // An audit of changes checks all customers, recipients and merchants for this, not only the changed ones.
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
    },
  )

  test('creates one verification for several requests with one key, and the key with other content is refused', async ({
    client,
  }) => {
    const subject = await party(client, 'customer')
    const idempotency_key = freshKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => startVerification(client, { ...subject, idempotency_key })),
    )
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect(answers.filter(({ body }) => body.url !== null)).toHaveLength(1)
    const other = await startVerification(client, { ...subject, idempotency_key, metadata: 1 })
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })

  test('leads to a rejected verification without a decision if the provider refuses the session, and a second verification can follow', async ({
    world,
    client,
  }) => {
    const subject = await party(client, 'merchant')
    await fault(world, { match: { path: '/verification_sessions$' }, fault: 'refuse_400' })
    const idempotency_key = freshKey()
    for (const replayed of [null, 'true']) {
      const { status, body, headers } = await startVerification(client, { ...subject, idempotency_key })
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
    expect(await statusOf(client, subject)).toBe('rejected')
    expect((await startVerification(client, subject)).status).toBe(201)
  })

  test.concurrent.for([
    'drop_before',
    'drop_after',
    'error_500_before',
    'error_500_after',
    'cut_body',
    'empty_200',
    'html_503',
  ])('leads to one session despite the fault %s', async (kind, { world, client }) => {
    const mark = freshKey()
    await fault(world, { match: { path: '/verification_sessions$', contains: mark }, fault: kind })
    const subject = { ...(await party(client, 'customer')), return_url: `https://shop.example/${mark}` }
    const { body } = await startVerification(client, subject, { prefer: 'wait=30' })
    const verification = body.error === undefined ? body : undefined
    expect(verification).toMatchObject({ status: 'requires_input', url: expect.any(String) })
    const { data } = await callProvider(world, 'GET', `?client_reference_id=${verification.id}`)
    expect(data.map((each: any) => each.id)).toEqual([verification.provider_reference])
    expect((await fetch(verification.url)).status).toBe(200)
  })
})

describe('the page of the provider', () => {
  test('has its URL in exactly one of 50 concurrent replays of the request', async ({ client }) => {
    const subject = await party(client, 'customer')
    const idempotency_key = freshKey()
    const first = await startVerification(client, { ...subject, idempotency_key }, ASYNC)
    expect([first.status, first.body.url]).toEqual([202, null])
    await verificationIn(client, first.body.id, 'requires_input')
    const answers = await Promise.all([
      ...Array.from({ length: 50 }, () => startVerification(client, { ...subject, idempotency_key })),
      ...Array.from({ length: 20 }, () => client.get(`/v1/compliance/kyc/${first.body.id}`)),
      ...Array.from({ length: 20 }, () => client.get(`/v1/compliance/kyc?subject_id=${subject.subject_id}`)),
    ])
    const urls = answers.flatMap(({ body }) => (Array.isArray(body) ? body : [body])).map(({ url }) => url)
    expect(urls.filter((url) => url !== null)).toHaveLength(1)
    expect(
      answers
        .slice(50)
        .flatMap(({ body }) => body)
        .every(({ url }) => url === null),
    ).toBe(true)
    expect((await startVerification(client, { ...subject, idempotency_key })).body.url).toBeNull()
  })

  test('has a new URL in the response to each request for a link, once per key', async ({
    world,
    client,
  }) => {
    const { id, url, provider_reference } = await verificationOf(client)
    const keys = [freshKey(), freshKey(), freshKey()]
    const requestLink = (idempotency_key: string) =>
      client.post(`/v1/compliance/kyc/${id}/link`, { idempotency_key })
    const answers = await Promise.all(
      keys.flatMap((key) => Array.from({ length: 5 }, () => requestLink(key))),
    )
    for (const { status, body } of answers) expect([status, body.id]).toEqual([200, id])
    const urls = answers.flatMap(({ body }) => (body.url === null ? [] : [body.url]))
    expect(new Set([url, ...urls]).size).toBe(4)
    for (const page of urls) expect((await fetch(page)).status).toBe(200)
    const bare = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([bare.status, (await fetch(bare.body.url)).status]).toEqual([200, 200])
    await settleSession(world, provider_reference, 'verified')
    await verificationIn(client, id, 'approved')
    const refused = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'kyc_already_decided'])
    expect((await client.post(`/v1/compliance/kyc/${MISSING_ID}/link`)).status).toBe(404)
  })

  test('is limited to ten open requests for a link; a replay of an accepted request is answered', async ({
    world,
    client,
  }) => {
    const { id, provider_reference } = await verificationOf(client)
    const blocked = await fault(world, {
      match: { path: `/verification_sessions/${provider_reference}` },
      fault: 'hold',
      times: 1_000,
    })
    const requestLink = (idempotency_key: string, headers?: Record<string, string>) =>
      client.post(`/v1/compliance/kyc/${id}/link`, { idempotency_key }, headers)
    const keys = Array.from({ length: 40 }, () => freshKey())
    const answers = await Promise.all(keys.map((key) => requestLink(key, ASYNC)))
    const accepted = keys.filter((_key, nth) => answers[nth]!.status === 202)
    expect(accepted).toHaveLength(10)
    const refused = answers.find(({ status }) => status !== 202)!
    expect([refused.status, refused.body.error]).toMatchObject([
      429,
      { code: 'rate_limited', context: { limit: 10 } },
    ])
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await requestLink(accepted[0]!, ASYNC)).status).toBe(202)
    await blocked.remove()
    const urls = await Promise.all(accepted.map(async (key) => (await requestLink(key)).body.url))
    expect(new Set(urls.filter((url) => url !== null)).size).toBe(10)
    expect((await requestLink(freshKey())).status).toBe(200)
  })

  test('is not available before the session exists, or while the provider processes the session', async ({
    world,
    client,
  }) => {
    const { id, provider_reference } = await verificationOf(client)
    await settleSession(world, provider_reference, 'processing')
    // The request for a link is refused both before and after the notification of the status processing.
    const refused = await client.post(`/v1/compliance/kyc/${id}/link`)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'kyc_not_linkable'])
    await verificationIn(client, id, 'processing')
    const blocked = await fault(world, { match: { path: '/verification_sessions$' }, fault: 'hold' })
    const pending = await startVerification(client, await party(client, 'customer'), ASYNC)
    expect(pending.body.status).toBe('pending')
    await blocked.hit()
    const early = await client.post(`/v1/compliance/kyc/${pending.body.id}/link`)
    expect([early.status, early.body.error.code]).toEqual([409, 'kyc_not_linkable'])
    await blocked.release()
    await verificationIn(client, pending.body.id, 'requires_input')
  })

  test('has a URL that is deleted if it was not fetched before it expired', async ({ world, client }) => {
    const subject = await party(client, 'customer')
    const idempotency_key = freshKey()
    const { body } = await startVerification(client, { ...subject, idempotency_key }, ASYNC)
    await verificationIn(client, body.id, 'requires_input')
    const hasLinks = async () =>
      (await world.sql`select links <> '{}' as kept from verifications where id = ${body.id}`)[0]!.kept
    // The notification of the session may arrive before the response to the call.
    await eventually(async () => expect(await hasLinks()).toBe(true))
    await world.sql`update verifications set links_until = now() - interval '1 second' where id = ${body.id}`
    await eventually(async () => expect(await hasLinks()).toBe(false))
    expect((await startVerification(client, { ...subject, idempotency_key })).body.url).toBeNull()
  })

  test('has a URL that is only in responses: no table, event or timeline has the URL in plaintext', async ({
    world,
    client,
  }) => {
    const verification = await verificationOf(client)
    const link = await client.post(`/v1/compliance/kyc/${verification.id}/link`)
    const { provider_reference } = verification
    await settleSession(world, provider_reference, 'requires_input', 'document_expired')
    await eventually(async () =>
      expect((await getVerification(client, verification.id)).failure?.code).toBe('document_expired'),
    )
    const { url, client_secret } = await callProvider(world, 'GET', `/${provider_reference}`)
    const secrets = [verification.url, link.body.url, url].map((each) =>
      new URL(each).searchParams.get('link')!,
    )
    const texts = [await readAllRows(world.sql), JSON.stringify(await timelineOf(client, verification.id))]
    for (const text of texts)
      for (const secret of [...secrets, client_secret]) {
        expect(secret.length).toBeGreaterThan(20)
        expect(text.includes(secret)).toBe(false)
      }
  })
})

describe('a decision of the provider', () => {
  test.for([
    ['verified', 'approved', null],
    ['canceled', 'rejected', { code: 'canceled', message: 'The session was canceled at the provider.' }],
  ] as const)(
    'of %s sets the verification and its subject to %s',
    async ([reported, status, failure], { world, client }) => {
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
      expect(await statusOf(client, verification)).toBe(status)
      expect((await eventsOf(world, verification.id)).at(-1)).toMatchObject({
        type: `kyc.${status}`,
        data: { decided_by: 'provider' },
      })
    },
  )

  test('can follow after several rounds of processing and requests for input', async ({ world, client }) => {
    const verification = await verificationOf(client, 'recipient')
    await settleSession(world, verification.provider_reference, 'processing')
    await verificationIn(client, verification.id, 'processing')
    expect(await statusOf(client, verification)).toBe('processing')
    await settleSession(world, verification.provider_reference, 'requires_input', 'selfie_face_mismatch')
    const requires_input = await verificationIn(client, verification.id, 'requires_input')
    expect(requires_input).toMatchObject({
      failure: { code: 'selfie_face_mismatch', message: expect.any(String) },
      decision: null,
    })
    expect(await statusOf(client, verification)).toBe('requires_input')
    await settleSession(world, verification.provider_reference, 'processing')
    expect(await verificationIn(client, verification.id, 'processing')).toMatchObject({ failure: null })
    await settleSession(world, verification.provider_reference, 'verified')
    await verificationIn(client, verification.id, 'approved')
    expect((await eventsOf(world, verification.id)).map(({ type }) => type)).toEqual(
      ['created', 'requires_input', 'processing', 'requires_input', 'processing', 'approved'].map(
        (word) => `kyc.${word}`,
      ),
    )
  })

  test('that rejects a recipient blocks payouts to the recipient', async ({ world, client }) => {
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

describe('a manual decision', () => {
  test.for(['approved', 'rejected'] as const)(
    'of %s is final, and has the id of the API key that sent it',
    async (decision, { world, client }) => {
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
      expect(await statusOf(client, verification)).toBe(decision)
      const replayed = await decide(client, verification.id, decision, { idempotency_key })
      expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
      for (const other of ['approved', 'rejected'] as const) {
        const refused = await decide(client, verification.id, other)
        expect([refused.status, refused.body.error.code]).toEqual([409, 'kyc_already_decided'])
      }
      const event = (await eventsOf(world, verification.id)).at(-1)
      expect(event).toMatchObject({ type: `kyc.${decision}`, data: { decided_by_key_id: key_id } })
      expect(await timelineOf(client, verification.id)).toContainEqual(
        expect.objectContaining({
          name: `kyc.${decision}`,
          details: expect.objectContaining({ decided_by_key_id: key_id }),
        }),
      )
      // The session is canceled, and the notification of the cancellation changes nothing.
      await eventually(async () =>
        expect(await callProvider(world, 'GET', `/${verification.provider_reference}`)).toMatchObject({
          status: 'canceled',
        }),
      )
      await eventually(async () =>
        expect(await timelineOf(client, verification.id)).toContainEqual(
          expect.objectContaining({ name: 'identity.verification_session.canceled', outcome: 'applied' }),
        ),
      )
      expect(await getVerification(client, verification.id)).toEqual(answer.body)
    },
  )

  test.for(['verified', 'canceled'])(
    'overrides the decision "%s" of the provider once',
    async (reported, { world, client }) => {
      const verification = await verificationOf(client)
      await settleSession(world, verification.provider_reference, reported)
      const status = reported === 'verified' ? 'approved' : 'rejected'
      const other = reported === 'verified' ? 'rejected' : 'approved'
      await verificationIn(client, verification.id, status)
      expect((await decide(client, verification.id, other)).body).toMatchObject({
        status: other,
        decided_by: 'manual',
      })
      expect(await statusOf(client, verification)).toBe(other)
      expect((await decide(client, verification.id, status as 'approved')).status).toBe(409)
    },
  )

  test("during processing leaves the session open, and the session's result changes nothing", async ({
    world,
    client,
  }) => {
    const verification = await verificationOf(client)
    await settleSession(world, verification.provider_reference, 'processing')
    await verificationIn(client, verification.id, 'processing')
    const { body } = await decide(client, verification.id, 'rejected')
    await settleSession(world, verification.provider_reference, 'verified')
    await eventually(async () =>
      expect(await timelineOf(client, verification.id)).toContainEqual(
        expect.objectContaining({ name: 'identity.verification_session.verified', outcome: 'applied' }),
      ),
    )
    expect(await getVerification(client, verification.id)).toEqual(body)
    expect(await statusOf(client, verification)).toBe('rejected')
  })

  test('before the session exists cancels the session as soon as it exists', async ({ world, client }) => {
    const blocked = await fault(world, {
      match: { path: '/verification_sessions$' },
      fault: { hold: 'after' },
    })
    const subject = await party(client, 'customer')
    const { body } = await startVerification(client, subject, ASYNC)
    await blocked.hit()
    expect((await decide(client, body.id, 'approved')).body.status).toBe('approved')
    await blocked.release()
    const { provider_reference } = await eventually(async () => {
      const verification = await getVerification(client, body.id)
      expect(verification.provider_reference).toMatch(/^vs_/)
      return verification
    })
    await eventually(async () =>
      expect(await callProvider(world, 'GET', `/${provider_reference}`)).toMatchObject({
        status: 'canceled',
      }),
    )
    expect(await getVerification(client, body.id)).toMatchObject({ status: 'approved', decided_by: 'manual' })
  })

  test('cancels the session even after the cancellation was resolved as failed', async ({
    world,
    client,
  }) => {
    const verification = await verificationOf(client)
    const path = `/${verification.provider_reference}/cancel$`
    const outage = await fault(world, { match: { path }, times: 1000, fault: 'html_503' })
    await decide(client, verification.id, 'approved')
    await outage.hit()
    const [job] = await world.sql<{ id: string }[]>`
      select id from jobs where resource_id = ${verification.id} and name = 'kyc.cancel'`
    const action = { job_id: job!.id, actor: 'ada', reason: 'the provider is away' }
    await eventually(async () => {
      // The discard is refused, because the session would stay open. The resolution is refused while an attempt is in
      // progress.
      expect(await discardJob(world.sql, action)).toBeUndefined()
      expect(await world.sql.begin((tx) => resolveAsFailed(tx, action))).toMatchObject({ after: 'failed' })
    })
    await outage.remove()
    await eventually(async () =>
      expect(await callProvider(world, 'GET', `/${verification.provider_reference}`)).toMatchObject({
        status: 'canceled',
      }),
    )
    expect(await getVerification(client, verification.id)).toMatchObject({
      status: 'approved',
      decided_by: 'manual',
    })
  })

  test('is accepted once among 20 concurrent decisions', async ({ client }) => {
    const verification = await verificationOf(client)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, nth) =>
        decide(client, verification.id, nth % 2 === 0 ? 'approved' : 'rejected'),
      ),
    )
    const accepted = answers.filter(({ status }) => status === 200)
    expect(accepted).toHaveLength(1)
    expect(await getVerification(client, verification.id)).toEqual(accepted[0]!.body)
    expect(await statusOf(client, verification)).toBe(accepted[0]!.body.status)
  })

  test('on an earlier verification does not change the status of the subject, which follows the latest verification', async ({
    world,
    client,
  }) => {
    const first = await verificationOf(client)
    await settleSession(world, first.provider_reference, 'canceled')
    await verificationIn(client, first.id, 'rejected')
    const { subject_type, subject_id } = first
    const second = await startVerification(client, { subject_type, subject_id })
    expect(second.status).toBe(201)
    expect((await decide(client, first.id, 'approved')).status).toBe(200)
    expect(await statusOf(client, first)).toBe('requires_input')
    await settleSession(world, second.body.provider_reference, 'verified')
    await verificationIn(client, second.body.id, 'approved')
    expect(await statusOf(client, first)).toBe('approved')
  })

  test.for([
    { decision: 'maybe' },
    { reason: '' },
    { reason: undefined },
    { decision: undefined },
    { by: 'me' },
  ])('with %j is refused', async (body, { client }) => {
    const { id } = await verificationOf(client)
    const answer = await decide(client, id, 'approved', body)
    expect([answer.status, answer.body.error.code]).toEqual([400, 'invalid_request'])
    expect(await getVerification(client, id)).toMatchObject({ decision: null })
  })

  test('on a missing verification is refused', async ({ client }) => {
    const { status, body } = await decide(client, MISSING_ID, 'approved')
    expect([status, body.error.code]).toEqual([404, 'kyc_not_found'])
  })
})

describe('a verification is canceled', () => {
  /** Checks that the session is canceled at the provider, and that the verification is rejected with this code. */
  async function checkCanceled(world: World, { id, ...subject }: any, code: string): Promise<void> {
    const verification = await verificationIn(world.client, id, 'rejected')
    expect(verification).toMatchObject({ failure: { code }, decided_by: 'provider', decision_reason: null })
    const session = await callProvider(world, 'GET', `/${verification.provider_reference}`)
    expect(session).toMatchObject({ status: 'canceled' })
    expect(await statusOf(world.client, subject)).toBe('rejected')
    const timeline = await timelineOf(world.client, id)
    for (const entry of [
      { kind: 'provider_call', name: 'cancel_verification', outcome: 'done' },
      { kind: 'event', name: 'kyc.rejected', details: expect.objectContaining({ failure: code }) },
    ])
      expect(timeline).toContainEqual(expect.objectContaining(entry))
  }

  test('after a month without a change, and another verification can follow', async ({ world, client }) => {
    const [fresh, abandoned] = [
      await verificationOf(client, 'merchant'),
      await verificationOf(client, 'merchant'),
    ]
    await world.sql`
      update verifications set updated_at = updated_at - interval '31 days' where id = ${abandoned.id}`
    await checkCanceled(world, abandoned, 'abandoned')
    const { subject_type, subject_id } = abandoned
    expect((await startVerification(client, { subject_type, subject_id })).status).toBe(201)
    expect(await getVerification(client, fresh.id)).toMatchObject({ status: 'requires_input' })
  })

  test('a month after the provider has refused a first cancellation', async ({ world, client }) => {
    const verification = await verificationOf(client)
    const path = `/${verification.provider_reference}/cancel$`
    const refused = await fault(world, { match: { path }, fault: 'refuse_400' })
    const makeOld = () =>
      world.sql`update verifications set updated_at = updated_at - interval '31 days' where id = ${verification.id}`
    await makeOld()
    await refused.hit()
    await eventually(async () =>
      expect(await timelineOf(client, verification.id)).toContainEqual(
        expect.objectContaining({ name: 'cancel_verification', outcome: 'declined' }),
      ),
    )
    expect(await getVerification(client, verification.id)).toMatchObject({
      status: 'requires_input',
      failure: null,
    })
    await makeOld()
    await checkCanceled(world, verification, 'abandoned')
  })

  test.for(PARTIES)('after its %s is deleted or archived', async (type, { world, client }) => {
    const verification = await verificationOf(client, type)
    expect((await client.delete(`/v1/${type}s/${verification.subject_id}`)).status).toBe(200)
    await checkCanceled(world, verification, 'subject_gone')
  })

  test('in attempts with growing delays if the provider refuses the cancellation after the customer is deleted', async ({
    world,
    client,
  }) => {
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

  test('if it is requested while its customer is being deleted', async ({ world }) => {
    const { tenant_id, ...own } = await world.clientOf()
    const subject = await party(own, 'customer')
    const ids = { kyc_id: newId(), job_id: newId(), event_id: newId(), idempotency_key: freshKey() }
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
        ...subject,
        ...ids,
        ...request,
        provider: 'stripe',
      })
      const answer = own.delete(`/v1/customers/${subject.subject_id}`)
      await waitingForLocks(world.sql, 1)
      return { answer }
    })
    expect((await deleting.answer).status).toBe(200)
    expect(await verificationIn(own, ids.kyc_id, 'rejected')).toMatchObject({
      failure: { code: 'subject_gone' },
    })
  })

  test('if its customer is deleted before the session exists', async ({ world, client }) => {
    const blocked = await fault(world, {
      match: { path: '/verification_sessions$' },
      fault: { hold: 'after' },
    })
    const { body } = await startVerification(client, await party(client, 'customer'), ASYNC)
    await blocked.hit()
    expect((await client.delete(`/v1/customers/${body.subject_id}`)).status).toBe(200)
    await blocked.release()
    await checkCanceled(world, body, 'subject_gone')
  })
})

describe('lists of verifications', () => {
  test('can be filtered by status and subject', async ({ world }) => {
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

test('after all scenarios the books and the provider agree', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
  expect(await world.sql`select subject, detail from drifts where subject = 'kyc'`).toEqual([])
})

test('the data of verifications is erased with their customer', async ({ world, client }) => {
  const mark = `secret-${freshKey()}`
  const subject = await party(client, 'customer')
  const { body } = await startVerification(client, {
    ...subject,
    metadata: { mark },
    return_url: `https://shop.example/${mark}`,
  })
  await decide(client, body.id, 'rejected', { reason: `Ada's passport ${mark}` })
  await world.drain()
  const findMarkedRows = async () =>
    (await readAllRows(world.sql)).split('\n').filter((row) => row.includes(mark))
  expect(await findMarkedRows()).not.toEqual([])
  await client.delete(`/v1/customers/${subject.subject_id}`)
  await eventually(async () => expect(await findMarkedRows()).toEqual([]))
  expect(await getVerification(client, body.id)).toMatchObject({
    status: 'rejected',
    metadata: {},
    decision_reason: null,
  })
  expect((await eventsOf(world, body.id)).map(({ type }) => type)).toContain('kyc.rejected')
  const { body: erased } = await client.get(`/v1/events?subject_id=${body.id}`)
  for (const { data } of erased)
    expect(data).toMatchObject({ metadata: {}, return_url: null, decision_reason: null })
  expect(erased.length).toBeGreaterThan(0)
  // Only the request of a call in progress is kept, until the call ends.
  const blocked = await fault(world, { match: { path: '/verification_sessions$' }, fault: { hold: 'after' } })
  const details = { metadata: { mark }, return_url: `https://shop.example/${mark}` }
  const { body: pending } = await startVerification(
    client,
    { ...(await party(client, 'customer')), ...details },
    ASYNC,
  )
  await blocked.hit()
  await client.delete(`/v1/customers/${pending.subject_id}`)
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await world.sql`select from erasures where due_at > clock_timestamp()`).toHaveLength(1)
  })
  expect(await findMarkedRows()).toEqual([expect.stringMatching(/^public\.jobs /)])
  await blocked.release()
  await verificationIn(client, pending.id, 'rejected')
  await world.sql`update erasures set due_at = clock_timestamp()`
  await eventually(async () => {
    await eraseNextEvents(world.sql, 1_000)
    expect(await findMarkedRows()).toEqual([])
  })
})

test('a job that moves to the history during the erasure of its customer is erased there, too', async () => {
  // Without a worker, only this test moves jobs to the history and erases data.
  const world = await createWorld({ parts: ['api'] })
  onTestFinished(() => world.close())
  const { client, sql, env } = world
  const mark = `secret-${newId()}`
  const subject = await party(client, 'customer')
  const details = { ...subject, return_url: `https://shop.example/${mark}` }
  const { body } = await startVerification(client, details, ASYNC)
  await sql`
    update verifications set status = 'rejected', decision = 'rejected', decided_by = 'provider', decided_at = now()
    where id = ${body.id}`
  await sql`
    update jobs set state = 'succeeded', outcome = 'done', attempt = 1, worker = 'w', started_at = now() - interval '2 hours',
      finished_at = now() - interval '2 hours' where resource_id = ${body.id}`
  await client.delete(`/v1/customers/${subject.subject_id}`)
  const other = postgres(env['DATABASE_URL']!, { max: 1 })
  onTestFinished(() => other.end())
  const moved = Promise.withResolvers<void>()
  const committed = Promise.withResolvers<void>()
  const move = other.begin(async (tx) => {
    await tx`select from move_finished_jobs('-infinity', '00000000-0000-0000-0000-000000000000', 1000)`
    moved.resolve()
    await committed.promise
  })
  await moved.promise
  const first = eraseNextEvents(sql, 1_000)
  await waitingForLocks(sql, 1)
  committed.resolve()
  await move
  await first
  await eventually(async () => {
    await eraseNextEvents(sql, 1_000)
    expect(await sql`select from erasures`).toEqual([])
  })
  expect(await sql`select from job_history where resource_id = ${body.id}`).toHaveLength(1)
  expect((await readAllRows(sql)).split('\n').filter((row) => row.includes(mark))).toEqual([])
})
