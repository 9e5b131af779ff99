// An act in the dashboard whose answer was lost: what is sent again, under which key, and what is said of it.
import { expect, test, vi } from 'vitest'
import { SluiceErrorOf, type SluiceErrorCode } from '#sdk/errors.ts'
import { Sluice } from '#sdk/index.ts'
import {
  runWithStoredKey,
  findOutcome,
  isOutcomeUnknown,
  keyOptions,
  storedKeyOf,
  outcomeText,
} from '../src/dashboard/web/outcomes.ts'

const KEY = 'dashboard-1'

/** Asks as the pages do, over a connection on which no answer comes back; what it was asked, and how that failed. */
async function lost(path: string): Promise<{ keys: (string | null)[]; error: Error }> {
  const keys: (string | null)[] = []
  const sluice = new Sluice({
    base_url: '/api',
    fetch: async (_url, { headers }) => {
      keys.push(new Headers(headers).get('idempotency-key'))
      throw new TypeError('reset')
    },
  })
  const { content, options } = keyOptions(path, KEY)
  const error = await sluice
    .request('POST', path, { body: {}, ...content }, { ...options, max_retries: 1 })
    .then(
      () => expect.unreachable(),
      (reason: Error) => reason,
    )
  return { keys, error }
}

test('what has no keys is sent once, what has is sent again with its own', async () => {
  for (const path of ['/keys', '/keys/1/rotate', '/members/invitations'])
    expect([path, (await lost(path)).keys]).toEqual([path, [null]])
  expect((await lost('/v1/payments/1/capture')).keys).toEqual([KEY, KEY])
})

const refused = (
  code: SluiceErrorCode,
  status: number,
  facts: { param?: string; maybe_done?: boolean } = {},
) => new SluiceErrorOf({ code, message: 'No.', status, ...facts })

/** An act that ends so; the key that is kept after it. */
async function keptAfter(
  subject: string,
  error?: Error,
  title = 'Refund $4.00',
): Promise<string | undefined> {
  let meanwhile: string | undefined
  const asked = runWithStoredKey({ subject, key: KEY, title }, async () => {
    meanwhile = storedKeyOf(subject)
    if (error !== undefined) throw error
  })
  const [{ status }] = await Promise.allSettled([asked])
  // Also the page that is left while it is asked finds the key again.
  expect([status, meanwhile]).toEqual([error === undefined ? 'fulfilled' : 'rejected', KEY])
  return storedKeyOf(subject)
}

const OF_OTHER_TENANT = { param: 'x-sluice-tenant' }
const NOT_LOOKED_UP: Parameters<typeof refused>[] = [
  ['conflict', 409, OF_OTHER_TENANT],
  ['invalid_request', 400, OF_OTHER_TENANT],
  ['unauthorized', 401],
  ['forbidden', 403],
  ['request_timeout', 408],
  ['rate_limited', 429],
  ['misconfigured_gateway', 500],
  ['route_not_found', 404],
  ['unreadable_answer', 409],
]
const LOOKED_UP: Parameters<typeof refused>[] = [
  ['payment_not_capturable', 409],
  ['refund_exceeds_captured', 422],
  ['payment_declined', 402],
  ['payment_not_found', 404],
  ['processor_error', 502],
]

test('an act keeps its key until it is known what became of it', async () => {
  const { error } = await lost('/v1/payments/1/capture')
  for (const doubt of [
    error,
    refused('internal_error', 500, { maybe_done: true }),
    refused('idempotency_key_reused', 422),
    refused('unreadable_answer', 200, { maybe_done: true }),
    ...NOT_LOOKED_UP.map(([code, status, facts]) => refused(code, status, { ...facts, maybe_done: true })),
  ]) {
    const subject = `capture ${doubt.message}`
    expect([subject, isOutcomeUnknown(doubt)]).toEqual([subject, true])
    expect([subject, await keptAfter(subject, doubt)]).toEqual([subject, KEY])
    // A second press that is refused before its key is looked up says nothing of the first.
    for (const facts of NOT_LOOKED_UP) {
      const refusal = refused(...facts)
      expect([refusal.message, isOutcomeUnknown(refusal)]).toEqual([refusal.message, false])
      expect([refusal.message, await keptAfter(subject, refusal)]).toEqual([refusal.message, KEY])
    }
    expect(await keptAfter(subject)).toBeUndefined()
  }
  for (const [code, status] of LOOKED_UP) {
    const subject = `refund ${code}`
    const refusal = refused(code, status, { maybe_done: true })
    expect([code, isOutcomeUnknown(refusal)]).toEqual([code, false])
    expect([code, await keptAfter(subject, error), await keptAfter(subject, refusal)]).toEqual([
      code,
      KEY,
      undefined,
    ])
  }
  for (const facts of NOT_LOOKED_UP) expect(await keptAfter('refund 9', refused(...facts))).toBeUndefined()
})

test('a key is found again after the page was loaded again, with what was asked under it', async () => {
  const { error } = await lost('/v1/payouts')
  await keptAfter('payout 1', error, 'Pay $40.00 to Ada')
  await keptAfter('payout 1', refused('idempotency_key_reused', 422), 'Pay $50.00 to Ada')
  await keptAfter('payout 1', error, 'Pay $60.00 to Ada')
  vi.resetModules()
  const loaded = await import('../src/dashboard/web/outcomes.ts')
  expect([loaded.storedKeyOf('payout 1'), loaded.storedKeyOf('payout 2')]).toEqual([KEY, undefined])
  const found = { state: 'finished', request: { ...DONE, resource: 'payout' } } as const
  expect(loaded.outcomeText(found, loaded.storedTitlesOf('payout 1'))).toBe(
    'It was done: payout 17 (Pay $40.00 to Ada, or Pay $60.00 to Ada).',
  )
  loaded.deleteStoredKey('payout 1', 'another')
  expect(loaded.storedKeyOf('payout 1')).toBe(KEY)
  loaded.deleteStoredKey('payout 1', KEY)
  expect(loaded.storedKeyOf('payout 1')).toBeUndefined()
})

const DONE = {
  key: KEY,
  route: 'r',
  resource: 'top_up',
  resource_id: '17',
  status: 'finished' as const,
  created_at: '',
}

test('what became of an act is looked up by its key', async () => {
  const { error } = await lost('/v1/wallet/top_ups')
  const missing = async () => {
    throw refused('idempotency_key_not_found', 404)
  }
  expect(outcomeText(await findOutcome(missing, KEY))).toBe('It was never received. Try again.')
  await expect(findOutcome(() => Promise.reject(error), KEY)).rejects.toBe(error)
  expect(outcomeText(await findOutcome(async () => [DONE], KEY))).toBe('It was done: top up 17.')
})
