// Verification sessions of the Stripe emulator, tested with Stripe's own SDK and a browser's requests.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startStripeEmulator, type StripeEmulator } from '#emulators/stripe/main.ts'
import { eventually } from '#test/payments.ts'
import {
  clientsOf,
  EMULATOR_KEY,
  eventsAbout,
  postForm,
  pressButton,
  refusal,
} from '#test/stripe-emulator.ts'

type Session = Stripe.Identity.VerificationSession

let emulator: StripeEmulator
let stripe: Stripe
let control: ReturnType<typeof clientsOf>['control']
let sessions: Stripe['identity']['verificationSessions']
beforeAll(async () => {
  emulator = await startStripeEmulator({ port: 0, api_key: EMULATOR_KEY })
  ;({ stripe, control } = clientsOf(emulator.url))
  sessions = stripe.identity.verificationSessions
})
afterAll(async () => await emulator.close())

const CREATED: Stripe.Identity.VerificationSessionCreateParams = { type: 'document', metadata: { kyc: '7' } }
const settle = (id: string, status: string, reason?: string) =>
  control('POST', `identity/${id}/settle`, { status, reason })
const KIND = 'identity.verification_session'

async function eventsOf(id: string): Promise<string[]> {
  return (await eventsAbout(stripe, id)).map((type) => type.replace(`${KIND}.`, ''))
}

describe('a session', () => {
  test('waits for input, with a URL and a secret that are shown only to its creator', async () => {
    const created = await sessions.create({
      ...CREATED,
      client_reference_id: 'ada',
      options: { document: { allowed_types: ['passport'], require_matching_selfie: true } },
      provided_details: { email: 'ada@example.com' },
    })
    expect(created).toMatchObject({
      object: KIND,
      client_reference_id: 'ada',
      last_error: null,
      last_verification_report: null,
      livemode: false,
      metadata: { kyc: '7' },
      options: { document: { allowed_types: ['passport'], require_matching_selfie: true } },
      provided_details: { email: 'ada@example.com' },
      redaction: null,
      status: 'requires_input',
      type: 'document',
    })
    const { id, url, client_secret } = created
    expect(id).toMatch(/^vs_/)
    expect(client_secret).toMatch(new RegExp(`^${id}_secret_`))
    expect(url).toMatch(new RegExp(`^${emulator.url}/`))
    const { data } = await stripe.events.list({ type: `${KIND}.created`, limit: 1 })
    const listed = (await sessions.list({ client_reference_id: 'ada' })).data
    for (const shown of [data[0]!.data.object, listed[0]])
      expect(shown).toMatchObject({ id, url: null, client_secret: null })
    const retrieved = await sessions.retrieve(id)
    expect([retrieved.url, retrieved.client_secret]).not.toContain(url)
    expect(new Set([url, retrieved.url, client_secret, retrieved.client_secret]).size).toBe(4)
  })

  test.each(['verified', 'canceled'])('that is %s accepts no other status', async (status) => {
    const { id } = await sessions.create(CREATED)
    expect(await settle(id, status)).toMatchObject({ id, status, url: null, client_secret: null })
    for (const other of ['verified', 'requires_input', 'processing', 'canceled'])
      expect(await settle(id, other)).toMatchObject({ error: { param: 'status' } })
    expect(await sessions.retrieve(id)).toMatchObject({ status, url: null, client_secret: null })
    expect(await eventsOf(id)).toEqual(['created', status])
    expect(await refusal(sessions.cancel(id))).toMatchObject({ statusCode: 400 })
  })

  test('returns from processing to requires_input with a reason and a new URL', async () => {
    const { id, url } = await sessions.create(CREATED)
    expect(await settle(id, 'processing')).toMatchObject({ status: 'processing' })
    expect(await sessions.retrieve(id)).toMatchObject({ url: null, client_secret: null })
    expect(await settle(id, 'processing')).toMatchObject({ error: { param: 'status' } })
    expect(await refusal(sessions.cancel(id))).toMatchObject({
      message: expect.stringContaining('status of processing'),
    })
    expect(await settle(id, 'requires_input', 'document_expired')).toMatchObject({
      last_error: { code: 'document_expired', reason: 'The document is expired.' },
      last_verification_report: expect.stringMatching(/^vr_/),
    })
    expect((await fetch(url!)).status).toBe(410)
    const { url: fresh } = await sessions.retrieve(id)
    expect((await fetch(fresh!)).status).toBe(200)
    expect(await settle(id, 'requires_input', 'constructor')).toMatchObject({
      last_error: { code: 'document_unverified_other', reason: 'constructor' },
    })
    await settle(id, 'verified')
    expect(await sessions.retrieve(id)).toMatchObject({ status: 'verified', last_error: null })
    expect(await eventsOf(id)).toEqual([
      'created',
      'processing',
      'requires_input',
      'requires_input',
      'verified',
    ])
  })

  test('can be canceled while it requires input', async () => {
    const { id } = await sessions.create({ ...CREATED, type: 'id_number' })
    expect(await sessions.cancel(id)).toMatchObject({ status: 'canceled', options: { id_number: {} } })
    expect(await eventsOf(id)).toEqual(['created', 'canceled'])
  })

  test.each([
    ['requires_input', 'canceled', ['created', 'canceled', 'redacted']],
    ['verified', 'verified', ['created', 'verified', 'redacted']],
  ])('that is %s is redacted asynchronously', async (before, after, events) => {
    const { id } = await sessions.create({ ...CREATED, provided_details: { email: 'ada@example.com' } })
    if (before === 'verified') await settle(id, before)
    expect(await sessions.redact(id)).toMatchObject({ status: after, redaction: { status: 'processing' } })
    expect(await refusal(sessions.redact(id))).toMatchObject({ statusCode: 400 })
    await eventually(async () => expect((await sessions.retrieve(id)).redaction!.status).toBe('redacted'))
    const redacted = await sessions.retrieve(id)
    expect(redacted).toMatchObject({ status: after, metadata: {}, url: null })
    expect(redacted.provided_details).toBeUndefined()
    expect(await eventsOf(id)).toEqual(events)
    const { data } = await stripe.events.list({ type: `${KIND}.redacted`, limit: 1 })
    expect(data[0]!.data.object).toMatchObject({ id, metadata: {} })
    expect(await refusal(sessions.update(id, { metadata: { a: '1' } }))).toMatchObject({ statusCode: 400 })
  })

  test('is refused without a type, with an invalid URL or options, and with an unknown id', async () => {
    for (const [params, param] of [
      [{}, 'type'],
      [{ type: 'face' }, 'type'],
      [{ type: 'document', return_url: 'javascript:alert(1)' }, 'return_url'],
      [{ type: 'document', options: 'x' }, 'options'],
    ] as const)
      expect(
        await refusal(sessions.create(params as Stripe.Identity.VerificationSessionCreateParams)),
      ).toMatchObject({ statusCode: 400, param })
    expect(await refusal(sessions.retrieve('vs_nobody'))).toMatchObject({ statusCode: 404 })
    expect(await control('POST', 'identity/vs_nobody/settle', { status: 'verified' })).toMatchObject({
      error: { code: 'resource_missing' },
    })
  })

  test('keeps metadata, and is listed by status and time', async () => {
    const { id, created } = await sessions.create({ ...CREATED, related_customer: 'cus_1' })
    expect((await sessions.update(id, { metadata: { a: '1' } })).metadata).toEqual({ kyc: '7', a: '1' })
    const found = async (params: Stripe.Identity.VerificationSessionListParams) =>
      (await sessions.list({ related_customer: 'cus_1', ...params })).data.map((each) => each.id)
    expect(await found({ status: 'requires_input', created: { gte: created } })).toEqual([id])
    expect(await found({ status: 'verified' })).toEqual([])
  })
})

describe('the hosted page', () => {
  /** Presses the page's button for this outcome. */
  async function submit(page: string, status: string, fields: Record<string, string> = {}) {
    const [, path] =
      new RegExp(
        `action="(/_emulator/identity/\\w+/submit)"><input type="hidden" name="status" value="${status}"`,
      ).exec(page) ?? []
    return await fetch(`${emulator.url}${path}`, {
      method: 'POST',
      body: new URLSearchParams({ status, ...fields }),
      redirect: 'manual',
    })
  }

  test.each([
    ['verified', {}, { status: 'verified' }],
    ['processing', {}, { status: 'processing' }],
    [
      'requires_input',
      { reason: 'selfie_face_mismatch' },
      { status: 'requires_input', last_error: { code: 'selfie_face_mismatch' } },
    ],
    ['canceled', {}, { status: 'canceled' }],
  ])('has a button for %s, and redirects to the shop', async (status, fields, outcome) => {
    const return_url = 'https://shop.example/verified?of=ada'
    const { id, url } = await sessions.create({ ...CREATED, return_url })
    const page = await fetch(url!)
    expect(page.headers.get('content-security-policy')).toContain("form-action 'self' https://shop.example;")
    const answer = await submit(await page.text(), status, fields)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, return_url])
    expect(await sessions.retrieve(id)).toMatchObject(outcome)
  })

  test('thanks the person if there is no return URL', async () => {
    const { url } = await sessions.create(CREATED)
    const answer = await submit(await (await fetch(url!)).text(), 'verified')
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('Thank you.')])
  })

  test('opens once for each URL, for at most two days', async () => {
    const { id, url } = await sessions.create(CREATED)
    const second = (await sessions.retrieve(id)).url!
    const third = (await sessions.retrieve(id)).url!
    const statuses: number[] = []
    for (const each of [url!, url!, second, `${second}x`, second.replace(/link=.*/, '')])
      statuses.push((await fetch(each)).status)
    expect(statuses).toEqual([200, 410, 200, 410, 410])
    await control('POST', 'clock', { advance_ms: 49 * 3_600_000 })
    expect((await fetch(third)).status).toBe(410)
  })
})

test('a repeated key returns the same session and URL, even after a lost response', async () => {
  const match = { path: '/verification_sessions$', contains: 'lost' }
  await control('POST', 'faults', { match, fault: 'drop_after' })
  const createSession = () =>
    postForm(emulator.url, '/v1/identity/verification_sessions', 'type=document&metadata[a]=lost', 'lost')
  expect(await createSession().catch(() => 'lost')).toBe('lost')
  const answers: Session[] = []
  for (let i = 0; i < 2; i++) answers.push((await (await createSession()).json()) as Session)
  expect(answers[0]).toEqual(answers[1])
  expect(answers[0]).toMatchObject({ status: 'requires_input', url: expect.any(String) })
  expect(await eventsOf(answers[0]!.id)).toEqual(['created'])
  expect((await fetch(answers[0]!.url!)).status).toBe(200)
})

test('the overview of the emulator has a button for each outcome of a session', async () => {
  const { id } = await sessions.create(CREATED)
  for (const value of ['processing', 'requires_input', 'verified'])
    expect(await pressButton(emulator.url, 'settle_session', id, { value })).toContain(`<code>${id}</code>`)
  expect((await sessions.retrieve(id)).status).toBe('verified')
})

test('a restarted emulator restores its sessions and their URLs, and finishes a pending redaction', async () => {
  const data_dir = await mkdtemp(join(tmpdir(), 'stripe-emulator-'))
  const first = await startStripeEmulator({ port: 0, data_dir })
  const before = clientsOf(first.url).stripe.identity.verificationSessions
  const { id, url } = await before.create(CREATED)
  const redacted = await before.create(CREATED)
  await before.redact(redacted.id)
  await first.close()
  const second = await startStripeEmulator({ port: 0, data_dir })
  const after = clientsOf(second.url).stripe.identity.verificationSessions
  const { pathname, search } = new URL(url!)
  expect((await fetch(`${second.url}${pathname}${search}`)).status).toBe(200)
  expect(await after.retrieve(id)).toMatchObject({ status: 'requires_input', metadata: { kyc: '7' } })
  await eventually(async () => expect((await after.retrieve(redacted.id)).redaction!.status).toBe('redacted'))
  await second.close()
  await rm(data_dir, { recursive: true })
})
