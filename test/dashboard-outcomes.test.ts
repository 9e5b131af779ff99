// An act in the dashboard whose answer was lost: what is sent again, under which key, and what is said of it.
import { expect, test } from 'vitest'
import { SluiceErrorOf, type SluiceErrorCode } from '#sdk/errors.ts'
import { Sluice } from '#sdk/index.ts'
import {
  findOutcome,
  isUnknown,
  keepKey,
  keyOf,
  openKeyOf,
  outcomeWords,
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
  const { content, options } = keyOf(path, KEY)
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

test('an act keeps its key until it is known what became of it', async () => {
  const { error } = await lost('/v1/payments/1/capture')
  const refused = (code: SluiceErrorCode, status: number) =>
    new SluiceErrorOf({ code, message: 'No.', status })
  expect(
    [error, refused('internal_error', 500), refused('idempotency_key_reused', 422)].map(isUnknown),
  ).toEqual([true, true, true])
  expect([refused('processor_error', 502), refused('payment_not_capturable', 409)].map(isUnknown)).toEqual([
    false,
    false,
  ])
  keepKey('capture 1', KEY, error)
  expect([openKeyOf('capture 1'), openKeyOf('capture 2')]).toEqual([KEY, undefined])
  keepKey('capture 1', KEY, null)
  expect(openKeyOf('capture 1')).toBeUndefined()

  const missing = async () => {
    throw refused('idempotency_key_not_found', 404)
  }
  expect(outcomeWords(await findOutcome(missing, KEY))).toBe('It never arrived: try again.')
  await expect(findOutcome(() => Promise.reject(error), KEY)).rejects.toBe(error)
  const done = {
    key: KEY,
    route: 'r',
    resource: 'top_up',
    resource_id: '17',
    status: 'finished' as const,
    created_at: '',
  }
  expect(outcomeWords(await findOutcome(async () => [done], KEY))).toBe('It was done: top up 17.')
})
