// Tests actions of the dashboard with lost responses: retries, idempotency keys and texts of outcomes.
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

/** Sends a request of the pages over a connection without responses. Returns the sent keys and the error. */
async function sendWithoutResponse(path: string): Promise<{ keys: (string | null)[]; error: Error }> {
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

test('a request without an idempotency key is sent once, and a request with a key is retried with the same key', async () => {
  for (const path of ['/keys', '/keys/1/rotate', '/members/invitations'])
    expect([path, (await sendWithoutResponse(path)).keys]).toEqual([path, [null]])
  expect((await sendWithoutResponse('/v1/payments/1/capture')).keys).toEqual([KEY, KEY])
})

const refused = (
  code: SluiceErrorCode,
  status: number,
  facts: { param?: string; maybe_done?: boolean } = {},
) => new SluiceErrorOf({ code, message: 'No.', status, ...facts })

/** The stored key after an action that succeeds or fails with the error. */
async function storedKeyAfter(
  operation: string,
  error?: Error,
  title = 'Refund $4.00',
): Promise<string | undefined> {
  let key_in_progress: string | undefined
  const action = runWithStoredKey({ operation, key: KEY, title }, async () => {
    key_in_progress = storedKeyOf(operation)
    if (error !== undefined) throw error
  })
  const [{ status }] = await Promise.allSettled([action])
  // The key is stored during the request, because the user may leave the page before the response.
  expect([status, key_in_progress]).toEqual([error === undefined ? 'fulfilled' : 'rejected', KEY])
  return storedKeyOf(operation)
}

const OTHER_TENANT_PARAM = { param: 'x-sluice-tenant' }
const REFUSED_BEFORE_LOOKUP: Parameters<typeof refused>[] = [
  ['conflict', 409, OTHER_TENANT_PARAM],
  ['invalid_request', 400, OTHER_TENANT_PARAM],
  ['unauthorized', 401],
  ['forbidden', 403],
  ['request_timeout', 408],
  ['rate_limited', 429],
  ['misconfigured_gateway', 500],
  ['route_not_found', 404],
  ['unreadable_answer', 409],
]
const REFUSED_AFTER_LOOKUP: Parameters<typeof refused>[] = [
  ['payment_not_capturable', 409],
  ['refund_exceeds_captured', 422],
  ['payment_declined', 402],
  ['payment_not_found', 404],
  ['processor_error', 502],
]

test('an action keeps its idempotency key until the outcome of the action is known', async () => {
  const { error } = await sendWithoutResponse('/v1/payments/1/capture')
  for (const unresolved of [
    error,
    refused('internal_error', 500, { maybe_done: true }),
    refused('idempotency_key_reused', 422),
    refused('unreadable_answer', 200, { maybe_done: true }),
    ...REFUSED_BEFORE_LOOKUP.map(([code, status, facts]) =>
      refused(code, status, { ...facts, maybe_done: true }),
    ),
  ]) {
    const operation = `capture ${unresolved.message}`
    expect([operation, isOutcomeUnknown(unresolved)]).toEqual([operation, true])
    expect([operation, await storedKeyAfter(operation, unresolved)]).toEqual([operation, KEY])
    // A second request that is refused before the lookup of its key does not resolve the first request.
    for (const facts of REFUSED_BEFORE_LOOKUP) {
      const refusal = refused(...facts)
      expect([refusal.message, isOutcomeUnknown(refusal)]).toEqual([refusal.message, false])
      expect([refusal.message, await storedKeyAfter(operation, refusal)]).toEqual([refusal.message, KEY])
    }
    expect(await storedKeyAfter(operation)).toBeUndefined()
  }
  for (const [code, status] of REFUSED_AFTER_LOOKUP) {
    const operation = `refund ${code}`
    const refusal = refused(code, status, { maybe_done: true })
    expect([code, isOutcomeUnknown(refusal)]).toEqual([code, false])
    expect([code, await storedKeyAfter(operation, error), await storedKeyAfter(operation, refusal)]).toEqual([
      code,
      KEY,
      undefined,
    ])
  }
  for (const facts of REFUSED_BEFORE_LOOKUP)
    expect(await storedKeyAfter('refund 9', refused(...facts))).toBeUndefined()
})

test('the stored key of an action and the titles of the action survive a reload of the page', async () => {
  const { error } = await sendWithoutResponse('/v1/payouts')
  await storedKeyAfter('payout 1', error, 'Pay $40.00 to Ada')
  await storedKeyAfter('payout 1', refused('idempotency_key_reused', 422), 'Pay $50.00 to Ada')
  await storedKeyAfter('payout 1', error, 'Pay $60.00 to Ada')
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
  livemode: true,
}

test("the outcome of an action is looked up by the action's idempotency key", async () => {
  const { error } = await sendWithoutResponse('/v1/wallet/top_ups')
  const keyNotFound = async () => {
    throw refused('idempotency_key_not_found', 404)
  }
  expect(outcomeText(await findOutcome(keyNotFound, KEY))).toBe('It was never received. Try again.')
  await expect(findOutcome(() => Promise.reject(error), KEY)).rejects.toBe(error)
  expect(outcomeText(await findOutcome(async () => [DONE], KEY))).toBe('It was done: top up 17.')
})
