// Whatever the processor answers first, or does not answer: each operation ends right, with one effect.
import { describe, expect } from 'vitest'
import { requireVariable } from '#core/config.ts'
import { metrics } from '#core/metrics.ts'
import { createVault } from '#core/secrets.ts'
import { paymentMethodContext } from '#domain/payments/sealed.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import { freshKey } from '#test/client.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import {
  ASYNC,
  capturedPayment,
  createPayment,
  effectsOf,
  eventually,
  fault,
  heldPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

// No news from outside: each job has to find out by itself.
const test = testIn({ notifications: false })

/** What the processor may do to a request that then takes effect once, all the same. */
const TRAPS: [name: string, script: unknown][] = [
  ['an empty object with 200, after the effect', 'empty_200'],
  ['an empty object with 200, without the effect', { empty_200: 'before' }],
  ['a string with 200, after the effect', 'string_ok'],
  ['a string with 200, without the effect', { string_ok: 'before' }],
  ['a page with 503, without the effect', 'html_503'],
  ['a page with 503, after the effect', { html_503: 'after' }],
  ['a body cut in the middle, after the effect', 'cut_body'],
  ['a body cut in the middle, without the effect', { cut_body: 'before' }],
  ['a connection lost after the effect', 'drop_after'],
  ['a connection lost before it', 'drop_before'],
  ['409, the key is in use', 'conflict_409'],
  ['429', 'rate_limited_429'],
  ['429 with Retry-After', { rate_limited_429: true, retry_after_s: 1 }],
  ['an error 500 that is not stored', 'error_500_unstored'],
]

/** The provider calls of what a payment asked for, and the requests that were made under their keys. */
async function callsOf(world: World, payment_id: string, operation: string) {
  const calls = await world.sql<{ generation: number; key: string; outcome: string | null; state: string }[]>`
    select c.generation, c.key, c.outcome, j.state from jobs j join all_provider_calls c on c.job_id = j.id
    where j.subject_id = ${payment_id} and c.operation = ${operation} order by j.created_at, c.generation`
  const requests = await Promise.all(
    calls.map(
      async ({ key }) =>
        (await world.provider('stripe').requests({ idempotency_key: key })) as {
          status: number
          replayed: boolean
        }[],
    ),
  )
  return calls.map((call, index) => ({ ...call, requests: requests[index]! }))
}

/** Asserts one call, under one key, that was made several times and took effect once. */
async function expectOneKey(world: World, payment_id: string, operation: string): Promise<void> {
  const [call, ...more] = await callsOf(world, payment_id, operation)
  expect(more).toEqual([])
  expect(call).toMatchObject({ generation: 1, outcome: 'done', state: 'succeeded' })
  expect(call!.requests.length).toBeGreaterThan(1)
}

async function effectNames(world: World, processor_reference: string): Promise<string[]> {
  return (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
}

describe.concurrent.for(TRAPS)('%s', ([, script]) => {
  test('on an authorization', async ({ world, client }) => {
    const description = freshKey()
    const trap = await fault(world, { match: { contains: description }, fault: script })
    const { status, body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    await trap.hit()
    expect([status, body.status]).toEqual([201, 'authorized'])
    await expectOneKey(world, body.id, 'authorize')
    expect(await effectNames(world, body.processor_reference)).toEqual(['authorize'])
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    expect(effects).toHaveLength(1)
  })

  test.for([
    ['a capture', 'capture', 'captured'],
    ['a cancellation', 'cancel', 'canceled'],
  ])('on %s', async ([, operation, state], { world, client }) => {
    const { id, processor_reference } = await heldPayment(client)
    const trap = await fault(world, {
      match: { method: 'POST', path: `${processor_reference}/${operation}` },
      fault: script,
    })
    const { status, body } = await client.post(`/v1/payments/${id}/${operation}`, undefined, {
      prefer: 'wait=30',
    })
    await trap.hit()
    expect([status, body.status]).toEqual([200, state])
    await expectOneKey(world, id, operation!)
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', operation])
  })

  test('on a refund', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const trap = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: script,
    })
    const { status, body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    await trap.hit()
    expect([status, body.status]).toEqual([201, 'succeeded'])
    await expectOneKey(world, id, 'refund')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture', 'refund'])
  })
})

describe.concurrent('a stored error 500, which its key repeats for ever', () => {
  test.for([
    ['capture', 'captured'],
    ['cancel', 'canceled'],
  ])(
    'before a %s: the payment is unchanged, so a new key is used',
    async ([operation, state], { world, client }) => {
      const { id, processor_reference } = await heldPayment(client)
      await fault(world, {
        match: { path: `${processor_reference}/${operation}` },
        fault: 'error_500_before',
      })
      const { body } = await client.post(`/v1/payments/${id}/${operation}`, undefined, { prefer: 'wait=30' })
      expect(body).toMatchObject({ status: state })
      const calls = await callsOf(world, id, operation!)
      expect(calls.map(({ generation, outcome }) => [generation, outcome])).toEqual([
        [1, 'rotated'],
        [2, 'done'],
      ])
      expect(new Set(calls.map(({ key }) => key)).size).toBe(2)
      expect(calls[0]!.requests.map(({ status, replayed }) => [status, replayed])).toEqual([
        [500, false],
        [500, true],
      ])
      expect(calls[1]!.requests).toMatchObject([{ status: 200 }])
      expect(await effectNames(world, processor_reference)).toEqual(['authorize', operation])
    },
  )

  test.for([
    ['capture', 'captured'],
    ['cancel', 'canceled'],
  ])(
    'after a %s: it is found to be done, and no new key is used',
    async ([operation, state], { world, client }) => {
      const { id, processor_reference } = await heldPayment(client)
      await fault(world, { match: { path: `${processor_reference}/${operation}` }, fault: 'error_500_after' })
      const { body } = await client.post(`/v1/payments/${id}/${operation}`, undefined, { prefer: 'wait=30' })
      expect(body).toMatchObject({ status: state })
      await expectOneKey(world, id, operation!)
      expect(await effectNames(world, processor_reference)).toEqual(['authorize', operation])
    },
  )

  test('after an authorization: it is found by our own id', async ({ world, client }) => {
    const description = freshKey()
    await fault(world, { match: { contains: description, method: 'POST' }, fault: 'error_500_after' })
    const { body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    expect(body).toMatchObject({ status: 'authorized', processor_reference: expect.any(String) })
    await expectOneKey(world, body.id, 'authorize')
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    expect(effects.map(({ effect }: any) => effect)).toEqual(['authorize'])
  })

  test('after a refund: it is found among the refunds of the payment, and not sent again', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'error_500_after',
    })
    const { body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    expect(body).toMatchObject({ status: 'succeeded', processor_reference: expect.stringMatching(/^re_/) })
    await expectOneKey(world, id, 'refund')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture', 'refund'])
  })

  test('before a refund: its effect is unknown for ten minutes, in which it is looked up and not sent again', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'error_500_before',
    })
    const { status, body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    expect([status, body.status]).toEqual([202, 'pending'])
    await expectNeverSentAgain(world, id, 'refund')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
    expect((await client.get(`/v1/refunds/${body.id}`)).body).toMatchObject({ status: 'pending' })
    // What may still exist stays reserved.
    expect((await refund(client, id, { amount_minor: 701 })).status).toBe(422)
  })

  test('before an authorization: its effect is unknown for two minutes, in which it is looked up and not sent again', async ({
    world,
    client,
  }) => {
    const description = freshKey()
    await fault(world, { match: { contains: description }, fault: 'error_500_before' })
    const { status, body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    expect([status, body.status]).toEqual([202, 'pending'])
    await expectNeverSentAgain(world, body.id, 'authorize')
    expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  })

  test.for<[name: string, script: unknown, least_s: number, most_s: number]>([
    ['brings no answer', 'html_503', 0, 600],
    ['is turned away for a while', { rate_limited_429: true, retry_after_s: 700 }, 700, 701],
    ['is refused our credentials', 'refuse_401', 30, 31],
  ])('and a look that %s is soon tried again', async ([, script, least_s, most_s], { world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'error_500_before',
    })
    await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    const misconfigured = async () => (await metrics.misconfigured.get()).values[0]?.value ?? 0
    const before = await misconfigured()
    const failing = await fault(world, {
      match: { path: '^/v1/refunds', method: 'GET', contains: processor_reference },
      times: 1000,
      fault: script,
    })
    const [due] = await world.sql`
      update jobs set unknown_since = now() - interval '121 minutes', run_at = now()
      where subject_id = ${id} and state = 'unknown' returning attempt`
    const job = await eventually(async () => {
      const [now] = await world.sql<{ attempt: number; after_s: number; outcome: string }[]>`
        select j.state, j.attempt, extract(epoch from j.run_at - a.ended_at)::float8 as after_s, a.outcome
        from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt
        where j.subject_id = ${id} and j.name = 'refund.create'`
      expect(now).toMatchObject({ state: 'unknown' })
      expect(now!.attempt).toBeGreaterThan(due!.attempt)
      return now!
    })
    expect(job.after_s).toBeGreaterThan(least_s - 1)
    expect(job.after_s).toBeLessThan(most_s)
    expect(job.outcome).toBe(script === 'refuse_401' ? 'misconfigured' : 'retry')
    const counted = script === 'refuse_401' ? 1 : 0
    await eventually(async () => expect((await misconfigured()) - before).toBeGreaterThanOrEqual(counted))
    await failing.remove()
  })

  /** Makes the next look due at once, twice, and asserts that looking is all that is done. */
  async function expectNeverSentAgain(world: World, payment_id: string, operation: string): Promise<void> {
    const sent = (await callsOf(world, payment_id, operation)).map(({ key, requests }) => [
      key,
      requests.length,
    ])
    expect(sent).toHaveLength(1)
    expect(sent[0]![1]).toBe(2)
    for (const _ of [1, 2]) {
      const [job] = await world.sql`
        update jobs set run_at = now() where subject_id = ${payment_id} and state = 'unknown' returning id, attempt`
      expect(job).toBeDefined()
      await eventually(async () => {
        const [now] = await world.sql`select state, attempt from jobs where id = ${job!.id}`
        expect(now).toEqual({ state: 'unknown', attempt: job!.attempt + 1 })
      })
    }
    const calls = await callsOf(world, payment_id, operation)
    expect(calls.map(({ key, requests }) => [key, requests.length])).toEqual(sent)
    expect(calls).toMatchObject([{ outcome: null, state: 'unknown' }])
  }
})

test('an unknown authorization that appears later is found and settled', async ({ world, client }) => {
  const description = freshKey()
  // Neither the search nor the list shows it while they fail; our key repeats the error.
  const looks = await fault(world, {
    match: { method: 'GET', path: '/payment_intents(/search)?$' },
    times: 1000,
    fault: 'html_503',
  })
  await fault(world, { match: { contains: description, method: 'POST' }, fault: 'error_500_after' })
  const { body } = await createPayment(client, { description }, { prefer: 'wait=1' })
  expect(body).toMatchObject({ status: 'pending' })
  await looks.hit(2)
  expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  await looks.remove()
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where subject_id = ${body.id}`
  await paymentIn(client, body.id, 'authorized')
})

test('sending other parameters under a used key does not fail a payment that exists', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const held = await fault(world, { match: { contains: description }, fault: { hold: 'after' } })
  const { body } = await createPayment(client, { description }, ASYNC)
  await held.hit()
  // As if the worker had died with the answer, and the next one were of a version that writes another request.
  await world.sql`
    update jobs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute' where subject_id = ${body.id}`
  await world.sql`
    update jobs set request = request || '{"description":"other words"}' where subject_id = ${body.id}`
  await held.remove()
  await world.sql`update jobs set lease_until = now() where subject_id = ${body.id}`
  const { processor_reference } = await paymentIn(client, body.id, 'authorized')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
})

test('a refund whose key was used otherwise is unknown, and keeps what it reserved: what that made may be ours', async ({
  world,
}) => {
  const shop = await world.clientOf()
  const { id } = await capturedPayment(shop)
  const pause = { queue: 'payments', tenant_id: shop.tenant_id }
  await pauseJobs(world.sql, pause)
  const { body } = await refund(shop, id, {}, ASYNC)
  const [call] = await callsOf(world, id, 'refund')
  const { url, api_key } = world.provider('stripe')
  const other = await fetch(`${url}/v1/payment_intents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api_key}`, 'idempotency-key': call!.key },
    body: new URLSearchParams({ amount: '500', currency: 'usd' }),
  })
  expect(other.status).toBe(200)
  await resumeJobs(world.sql, pause)
  await eventually(async () =>
    expect(await callsOf(world, id, 'refund')).toMatchObject([{ state: 'unknown' }]),
  )
  expect((await shop.get(`/v1/refunds/${body.id}`)).body).toMatchObject({ status: 'pending' })
  expect((await refund(shop, id, { amount_minor: 1 })).status).toBe(422)
})

describe('after 23 hours a key is never sent again', () => {
  /** Asks while the tenant's jobs are paused, ages the call, and lets it go. */
  async function aged(world: World, ask: () => Promise<string>, operation: string): Promise<string> {
    await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
    const payment_id = await ask()
    await world.sql`
      update jobs set first_sent_at = now() - interval '24 hours'
      where subject_id = ${payment_id} and operation = ${operation}`
    await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
    return payment_id
  }

  test('a refund is only looked for, and stays unknown while it is not found', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await aged(
      world,
      async () => {
        await refund(client, id, { amount_minor: 300 }, ASYNC)
        return id
      },
      'refund',
    )
    await eventually(async () =>
      expect(await callsOf(world, id, 'refund')).toMatchObject([{ state: 'unknown', outcome: null }]),
    )
    expect(await callsOf(world, id, 'refund')).toMatchObject([{ requests: [] }])
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
  })

  test('an authorization is only looked for, and stays unknown while it is not found', async ({
    world,
    client,
  }) => {
    const id = await aged(world, async () => (await createPayment(client, {}, ASYNC)).body.id, 'authorize')
    await eventually(async () =>
      expect(await callsOf(world, id, 'authorize')).toMatchObject([{ state: 'unknown' }]),
    )
    expect(await callsOf(world, id, 'authorize')).toMatchObject([{ requests: [] }])
  })

  test('a capture is looked up, and if the hold is unchanged it is sent with a new key', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await heldPayment(client)
    await aged(
      world,
      async () => {
        await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
        return id
      },
      'capture',
    )
    await paymentIn(client, id, 'captured')
    expect(await callsOf(world, id, 'capture')).toMatchObject([
      { generation: 1, outcome: 'rotated', requests: [] },
      { generation: 2, outcome: 'done', requests: [{ status: 200 }] },
    ])
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
  })

  test('a capture that took effect meanwhile without our call is found', async ({ world, client }) => {
    const { id, processor_reference } = await heldPayment(client)
    await aged(
      world,
      async () => {
        await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
        await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/capture`)
        return id
      },
      'capture',
    )
    await paymentIn(client, id, 'captured')
    expect(await callsOf(world, id, 'capture')).toMatchObject([
      { generation: 1, outcome: 'done', requests: [] },
    ])
  })
})

test('with refused credentials the job waits, loses nothing, and goes on when they are corrected', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const wrong = await fault(world, { match: { contains: description }, times: 1000, fault: 'refuse_401' })
  const { body } = await createPayment(client, { description }, ASYNC)
  await wrong.hit()
  const job = async () =>
    (
      await world.sql`
      select j.state, j.attempt, j.max_attempts, j.run_at > now() + interval '10 seconds' as parked, a.outcome
      from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt where j.subject_id = ${body.id}`
    )[0]
  await eventually(async () =>
    expect(await job()).toEqual({
      state: 'ready',
      attempt: 1,
      max_attempts: 26,
      parked: true,
      outcome: 'misconfigured',
    }),
  )
  expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  await wrong.remove()
  await world.sql`update jobs set run_at = now() where subject_id = ${body.id}`
  await paymentIn(client, body.id, 'authorized')
})

describe('however often it was tried', () => {
  /** Asks while the tenant's jobs are paused, changes what was asked for, and lets it go. */
  async function changed(
    world: World,
    ask: () => Promise<string>,
    change: (payment_id: string) => Promise<unknown>,
  ) {
    await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
    const payment_id = await ask()
    await change(payment_id)
    await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
    return payment_id
  }
  /** As if it had been turned away for as long, or for a day. */
  const refusedFor = (world: World, ask: () => Promise<string>, hours = 25) =>
    changed(
      world,
      ask,
      (payment_id) => world.sql`
        update jobs set refused_since = now() - ${hours} * interval '1 hour'
        where subject_id = ${payment_id} and finished_at is null`,
    )
  const atItsLastAttempt = (world: World, ask: () => Promise<string>) =>
    changed(
      world,
      ask,
      (payment_id) => world.sql`
        update jobs set attempt = max_attempts - 1 where subject_id = ${payment_id} and finished_at is null`,
    )
  const dueNow = (world: World, payment_id: string) => world.sql`
    update jobs set run_at = now(), wakeup_sent_at = null where subject_id = ${payment_id} and state = 'ready'`

  test.for(['rate_limited_429', 'refuse_401', 'drop_after', 'error_500_unstored'])(
    'a call whose key is still valid is sent again under it, whatever happened to earlier attempts: %s',
    async (script, { world, client }) => {
      const description = freshKey()
      const trap = await fault(world, { match: { contains: description }, times: 3, fault: script })
      const id = await atItsLastAttempt(
        world,
        async () => (await createPayment(client, { description }, ASYNC)).body.id,
      )
      for (const times of [1, 2, 3]) {
        await trap.hit(times)
        await eventually(async () => {
          const [job] = await world.sql`select state from jobs where subject_id = ${id}`
          expect(job!.state).toBe('ready')
        })
        await dueNow(world, id)
      }
      const { processor_reference } = await paymentIn(client, id, 'authorized')
      expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
      await expectOneKey(world, id, 'authorize')
    },
  )

  test('a call that was certainly never sent is sent at any age', async ({ world, client }) => {
    const description = freshKey()
    const wrong = await fault(world, { match: { contains: description }, fault: 'refuse_401' })
    const { body } = await createPayment(client, { description }, ASYNC)
    await wrong.hit()
    await eventually(async () => {
      const [call] = await world.sql`
        select first_sent_at from jobs where subject_id = ${body.id} and state = 'ready'`
      expect(call).toEqual({ first_sent_at: null })
    })
    // Eight days later the credentials are mended, and the first answer is 429.
    await fault(world, { match: { contains: description }, fault: 'rate_limited_429' })
    await world.sql`
      update jobs set created_at = now() - interval '8 days', run_at = now() where subject_id = ${body.id}`
    await paymentIn(client, body.id, 'authorized')
    await expectOneKey(world, body.id, 'authorize')
  })

  test('a call that an attempt may have sent stays in doubt, even if the next attempt certainly sent nothing', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const lost = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'drop_before',
    })
    await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
    await refund(client, id, { amount_minor: 300 }, ASYNC)
    const refused = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: 'refuse_401',
    })
    await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
    await lost.hit()
    await dueNow(world, id)
    await refused.hit()
    const call = await eventually(async () => {
      const [row] = await world.sql`
        select first_sent_at, last_sent_at from jobs
        where subject_id = ${id} and name = 'refund.create' and state = 'ready' and last_error ->> 'message' like '401%'`
      expect(row).toBeDefined()
      return row!
    })
    expect(call.first_sent_at).not.toBeNull()
    expect(call.first_sent_at < call.last_sent_at).toBe(true)
    // A day later it may only be looked for.
    await world.sql`
      update jobs set first_sent_at = now() - interval '25 hours' where subject_id = ${id} and operation = 'refund'`
    await dueNow(world, id)
    await eventually(async () =>
      expect(await callsOf(world, id, 'refund')).toMatchObject([{ state: 'unknown' }]),
    )
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
  })

  test('an authorization that was refused for a whole day fails', async ({ world, client }) => {
    const idempotency_key = freshKey()
    const description = freshKey()
    const busy = await fault(world, {
      match: { contains: description },
      times: 1000,
      fault: 'rate_limited_429',
    })
    const ask = () => createPayment(client, { description, idempotency_key }, ASYNC)
    const id = await refusedFor(world, async () => (await ask()).body.id)
    expect(await paymentIn(client, id, 'failed')).toMatchObject({ failure: { code: 'processor_error' } })
    await busy.remove()
    const again = await createPayment(client, { description, idempotency_key })
    expect([again.status, again.body.error.code]).toEqual([502, 'processor_error'])
    expect((await callsOf(world, id, 'authorize'))[0]!.requests).toHaveLength(1)
  })

  test('an authorization that may have been sent is unknown after a day, and found when the processor answers again', async ({
    world,
    client,
  }) => {
    const description = freshKey()
    const lost = await fault(world, { match: { contains: description }, times: 1000, fault: 'drop_after' })
    const { body } = await createPayment(client, { description }, ASYNC)
    const { id } = body
    await lost.hit()
    const search = await fault(world, { match: { path: 'payment_intents/search' }, fault: 'html_503' })
    await world.sql`
      update jobs set first_sent_at = first_sent_at - interval '23 hours' where subject_id = ${id}`
    await eventually(async () => {
      await dueNow(world, id)
      expect(await callsOf(world, id, 'authorize')).toMatchObject([{ state: 'unknown' }])
    })
    await search.hit()
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'pending' })
    await lost.remove()
    await world.sql`update jobs set run_at = now() where subject_id = ${id}`
    const { processor_reference } = await paymentIn(client, id, 'authorized')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
  })

  test('a capture that was refused for a whole day leaves the hold, and can be asked for again', async ({
    world,
    client,
  }) => {
    const { id, processor_reference, capture_before } = await heldPayment(client)
    const busy = await fault(world, {
      match: { path: `${processor_reference}/capture` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await refusedFor(world, async () => {
      await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
      return id
    })
    expect(await paymentIn(client, id, 'authorized')).toMatchObject({
      amount_capturable_minor: 1000,
      capture_before,
      failure: { code: 'processor_error' },
    })
    expect(await eventTypes(world, id)).toContain('payment.capture_failed')
    await busy.remove()
    expect((await client.post(`/v1/payments/${id}/capture`)).body).toMatchObject({
      status: 'captured',
      failure: null,
    })
  })

  test('a cancellation that was refused for a whole day leaves no reason on the payment', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await heldPayment(client)
    const busy = await fault(world, {
      match: { path: `${processor_reference}/cancel` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await refusedFor(world, async () => {
      await client.post(`/v1/payments/${id}/cancel`, { reason: 'fraudulent' }, ASYNC)
      return id
    })
    expect(await paymentIn(client, id, 'authorized')).toMatchObject({
      cancellation_reason: null,
      failure: { code: 'processor_error' },
    })
    expect(await eventTypes(world, id)).toEqual(expect.arrayContaining(['payment.cancel_failed']))
    expect(await eventTypes(world, id)).not.toContain('payment.capture_failed')
    await busy.remove()
    expect((await client.post(`/v1/payments/${id}/capture`)).body).toMatchObject({ status: 'captured' })
  })

  test('a refund that was refused for a whole day fails and frees what it reserved', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const busy = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await refusedFor(world, async () => {
      await refund(client, id, {}, ASYNC)
      return id
    })
    await eventually(async () =>
      expect((await client.get(`/v1/payments/${id}/refunds`)).body).toMatchObject([
        { status: 'failed', failure: { code: 'processor_error' } },
      ]),
    )
    await busy.remove()
    expect((await refund(client, id)).status).toBe(201)
  })

  test('a cancellation that comes too late for a buyer who paid meanwhile leaves a hold that can be captured', async ({
    world,
    client,
  }) => {
    const { body } = await createPayment(client, { payment_method: undefined })
    const { id, processor_reference } = body
    const busy = await fault(world, {
      match: { path: `${processor_reference}/cancel` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await refusedFor(world, async () => {
      await client.post(`/v1/payments/${id}/cancel`, undefined, ASYNC)
      await world.provider('stripe').control('POST', `/payment_intents/${processor_reference}/confirm`, {
        payment_method: 'pm_card_visa',
        return_url: 'https://shop.example.com/back',
      })
      return id
    })
    expect(await paymentIn(client, id, 'authorized')).toMatchObject({
      amount_capturable_minor: 1000,
      capture_before: expect.any(String),
      client_secret: null,
      failure: { code: 'processor_error' },
    })
    expect((await eventTypes(world, id)).at(-1)).toBe('payment.cancel_failed')
    await busy.remove()
    expect((await client.post(`/v1/payments/${id}/capture`)).body).toMatchObject({
      status: 'captured',
      amount_captured_minor: 1000,
    })
  })

  async function eventTypes(world: World, payment_id: string): Promise<string[]> {
    const rows = await world.sql`select type from events where subject_id = ${payment_id} order by created_at`
    return rows.map(({ type }) => type)
  }
})

test('a refused authorization proves nothing when an earlier attempt may have authorized', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const held = await fault(world, { match: { contains: description }, fault: { hold: 'after' } })
  const { body } = await createPayment(client, { description }, ASYNC)
  await held.hit()
  const vault = createVault(requireVariable(world.config, 'ENCRYPTION_KEY'))
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where subject_id = ${body.id}`
  const declined = vault.seal('pm_card_chargeDeclined', paymentMethodContext(world.tenant_id, job!.id))
  // As if the worker had died with the answer, and the processor had forgotten the key and its bank the buyer.
  await world.sql`
    update jobs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute' where subject_id = ${body.id}`
  await world.sql`
    update jobs set key = key || ':forgotten', request = jsonb_set(request, '{sealed,payment_method}', to_jsonb(${declined}::text))
    where subject_id = ${body.id}`
  await held.remove()
  await world.sql`update jobs set lease_until = now() where subject_id = ${body.id}`
  const { processor_reference } = await paymentIn(client, body.id, 'authorized')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
})

test('an authorization whose decline was lost on the way is found to be declined', async ({
  world,
  client,
}) => {
  const description = freshKey()
  await fault(world, { match: { contains: description }, fault: 'drop_after' })
  const declined = await createPayment(
    client,
    { description, payment_method: 'pm_card_chargeDeclinedInsufficientFunds' },
    { prefer: 'wait=30' },
  )
  expect([declined.status, declined.body.error.code]).toEqual([402, 'payment_declined'])
  const { body } = await client.get(`/v1/payments/${declined.body.error.context.payment_id}`)
  expect(body).toMatchObject({
    status: 'failed',
    processor_reference: expect.stringMatching(/^pi_/),
    failure: { code: 'payment_declined', decline_code: 'insufficient_funds' },
  })
})

test('a capture that the processor is still working on is looked up until it has ended', async ({
  world,
  client,
}) => {
  const { id, processor_reference } = await heldPayment(client)
  const working = await fault(world, {
    match: { path: processor_reference },
    times: 1000,
    fault: 'still_processing',
  })
  const { status, body } = await client.post(`/v1/payments/${id}/capture`, undefined, { prefer: 'wait=1' })
  expect([status, body.status]).toEqual([202, 'capturing'])
  await working.hit(4)
  expect(await callsOf(world, id, 'capture')).toMatchObject([{ generation: 1, outcome: null }])
  await working.remove()
  await paymentIn(client, id, 'captured')
  await expectOneKey(world, id, 'capture')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
})

test('an authorization that the processor is still working on is looked up until it has ended', async ({
  world,
  client,
}) => {
  const description = freshKey()
  // Its key answers the same for ever.
  const working = await fault(world, {
    match: { contains: description },
    times: 1000,
    fault: 'still_processing',
  })
  const looked = await fault(world, {
    match: { method: 'GET', path: 'payment_intents/pi_' },
    times: 1000,
    fault: 'still_processing',
  })
  const { status, body } = await createPayment(
    client,
    {
      description,
      payment_method: 'pm_card_authenticationRequired',
      return_url: 'https://shop.example.com/back',
    },
    { prefer: 'wait=1' },
  )
  expect([status, body.status]).toEqual([202, 'pending'])
  await working.hit()
  await looked.hit(2)
  expect(await callsOf(world, body.id, 'authorize')).toMatchObject([{ generation: 1, outcome: null }])
  const canceled = await client.post(`/v1/payments/${body.id}/cancel`, undefined, ASYNC)
  expect([canceled.status, canceled.body.status]).toEqual([202, 'pending'])
  await looked.remove()
  await paymentIn(client, body.id, 'canceled')
  await expectOneKey(world, body.id, 'authorize')
})

test('a refusal of an authorization that may exist is final once the search must have caught up', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const idempotency_key = freshKey()
  const ask = () =>
    createPayment(client, { description, idempotency_key, payment_method: 'pm_nonsense' }, ASYNC)
  const lost = await fault(world, { match: { contains: description }, fault: 'drop_before' })
  const { body } = await ask()
  await lost.hit()
  const looking = async (refused_at_least_s: number) =>
    await eventually(async () => {
      const [job] = await world.sql`
        select state, unknown_since, refused_since <= now() - ${refused_at_least_s} * interval '1 second' as refused,
          run_at > now() + interval '30 seconds' as patient
        from jobs where subject_id = ${body.id}`
      expect(job).toMatchObject({ state: 'ready', unknown_since: null, refused: true })
      return job!.patient as boolean
    })
  /** As if the looks until then had been made. */
  const refusedFor = (seconds: number) =>
    world.sql`
      update jobs set refused_since = now() - ${seconds} * interval '1 second', run_at = now(), wakeup_sent_at = null
      where subject_id = ${body.id} and state = 'ready'`
  expect(await looking(0)).toBe(false)
  await refusedFor(6)
  await eventually(async () => expect(await looking(6)).toBe(true))
  expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  await refusedFor(301)
  expect(await paymentIn(client, body.id, 'failed')).toMatchObject({ failure: { code: 'payment_invalid' } })
  const again = await ask()
  expect([again.status, again.body.error.code]).toEqual([422, 'payment_invalid'])
})

test('attempts that were given back untouched do not make the next failure wait longer', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const wrong = await fault(world, { match: { contains: description }, fault: 'refuse_401' })
  const { body } = await createPayment(client, { description }, ASYNC)
  await wrong.hit()
  const failing = await fault(world, { match: { contains: description }, fault: 'error_500_unstored' })
  // As after an hour of refused credentials.
  await eventually(async () => {
    const aged = await world.sql`
      update jobs set attempt = 120, max_attempts = 145, run_at = now(), wakeup_sent_at = null
      where subject_id = ${body.id} and state = 'ready' returning id`
    expect(aged).toHaveLength(1)
  })
  await failing.hit()
  const payment = await paymentIn(client, body.id, 'authorized')
  expect(await effectNames(world, payment.processor_reference)).toEqual(['authorize'])
})

test('Retry-After: 0 does not shorten the usual delay', async ({ world, client }) => {
  const description = freshKey()
  const busy = await fault(world, {
    match: { contains: description },
    times: 1000,
    fault: { rate_limited_429: true, retry_after_s: 0 },
  })
  const { body } = await createPayment(client, { description }, ASYNC)
  await busy.hit(4)
  await eventually(async () => {
    const [job] = await world.sql<{ state: string; gap_ms: number }[]>`
      select j.state, extract(epoch from j.run_at - a.ended_at)::float8 * 1000 as gap_ms
      from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt
      where j.subject_id = ${body.id} and j.attempt >= 4`
    expect(job).toMatchObject({ state: 'ready' })
    // A tenth of 250 ms, doubled four times, at least.
    expect(job!.gap_ms).toBeGreaterThan(350)
  })
  await busy.remove()
  await paymentIn(client, body.id, 'authorized')
})

test('after all of these traps the books balance and agree with the processor', async ({ world }) => {
  expect(await findRemainingProblems(world)).toEqual([])
})
