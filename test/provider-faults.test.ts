// Faults of the processor: each operation ends with the right status and one effect.
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
  authorizedPayment,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { testIn, type World } from '#test/world.ts'

// Without notifications, each job finds the outcome by its own lookups.
const test = testIn({ notifications: false })

/** Faults of a request after which the operation still takes effect once. */
const FAULTS: [name: string, script: unknown][] = [
  ['an empty object with 200, after the effect', 'empty_200'],
  ['an empty object with 200, without the effect', { empty_200: 'before' }],
  ['a string with 200, after the effect', 'string_ok'],
  ['a string with 200, without the effect', { string_ok: 'before' }],
  ['an HTML page with 503, without the effect', 'html_503'],
  ['an HTML page with 503, after the effect', { html_503: 'after' }],
  ['a body cut in the middle, after the effect', 'cut_body'],
  ['a body cut in the middle, without the effect', { cut_body: 'before' }],
  ['a connection lost after the effect', 'drop_after'],
  ['a connection lost before the effect', 'drop_before'],
  ['409 for a key in use', 'conflict_409'],
  ['429', 'rate_limited_429'],
  ['429 with Retry-After', { rate_limited_429: true, retry_after_s: 1 }],
  ['an error 500 that is not stored', 'error_500_unstored'],
]

/** The provider calls of an operation of the payment, each with the requests under its key. */
async function callsOf(world: World, payment_id: string, operation: string) {
  const calls = await world.sql<{ generation: number; key: string; outcome: string | null; state: string }[]>`
    select c.generation, c.key, c.outcome, j.state from jobs j join all_provider_calls c on c.job_id = j.id
    where j.resource_id = ${payment_id} and c.operation = ${operation} order by j.created_at, c.generation`
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

/** Checks that one call with one key was sent several times and took effect once. */
async function expectOneKey(world: World, payment_id: string, operation: string): Promise<void> {
  const [call, ...others] = await callsOf(world, payment_id, operation)
  expect(others).toEqual([])
  expect(call).toMatchObject({ generation: 1, outcome: 'done', state: 'succeeded' })
  expect(call!.requests.length).toBeGreaterThan(1)
}

async function effectNames(world: World, processor_reference: string): Promise<string[]> {
  return (await effectsOf(world, processor_reference)).map(({ effect }) => effect)
}

describe.concurrent.for(FAULTS)('%s', ([, script]) => {
  test('on an authorization leads to one effect under one key', async ({ world, client }) => {
    const description = freshKey()
    const scripted_fault = await fault(world, { match: { contains: description }, fault: script })
    const { status, body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    await scripted_fault.hit()
    expect([status, body.status]).toEqual([201, 'authorized'])
    await expectOneKey(world, body.id, 'authorize')
    expect(await effectNames(world, body.processor_reference)).toEqual(['authorize'])
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    expect(effects).toHaveLength(1)
  })

  test.for([
    ['a capture', 'capture', 'captured'],
    ['a cancellation', 'cancel', 'canceled'],
  ])('on %s leads to one effect under one key', async ([, operation, state], { world, client }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const scripted_fault = await fault(world, {
      match: { method: 'POST', path: `${processor_reference}/${operation}` },
      fault: script,
    })
    const { status, body } = await client.post(`/v1/payments/${id}/${operation}`, undefined, {
      prefer: 'wait=30',
    })
    await scripted_fault.hit()
    expect([status, body.status]).toEqual([200, state])
    await expectOneKey(world, id, operation!)
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', operation])
  })

  test('on a refund leads to one effect under one key', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const scripted_fault = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      fault: script,
    })
    const { status, body } = await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
    await scripted_fault.hit()
    expect([status, body.status]).toEqual([201, 'succeeded'])
    await expectOneKey(world, id, 'refund')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture', 'refund'])
  })
})

describe.concurrent('a stored error 500 that the processor replays for the key', () => {
  test('leads to a new key, under which no attempt is in doubt, as the timeline shows', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const match = { path: `${processor_reference}/capture` }
    await fault(world, { match, fault: 'drop_before' })
    await fault(world, { match, fault: 'rate_limited_429' })
    await fault(world, { match, fault: 'error_500_before' })
    await client.post(`/v1/payments/${id}/capture`, undefined, { prefer: 'wait=30' })
    await paymentIn(client, id, 'captured')
    const { body: entries } = await client.get(`/v1/payments/${id}/timeline`)
    const attempts = entries.filter(
      (entry: any) => entry.kind === 'attempt' && entry.name === 'payment.capture',
    )
    expect(attempts.map(({ outcome, details }: any) => [outcome, details.in_doubt, details.rotated])).toEqual(
      [
        ['ambiguous', false, false],
        ['retry', true, false],
        ['ambiguous', true, false],
        ['retry', true, true],
        ['done', false, false],
      ],
    )
  })

  test.for([
    ['capture', 'captured'],
    ['cancel', 'canceled'],
  ])(
    'before a %s leads to a retry with a new key, because the payment is unchanged',
    async ([operation, state], { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client)
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
    'after a %s leads to no new key, because a lookup finds the effect',
    async ([operation, state], { world, client }) => {
      const { id, processor_reference } = await authorizedPayment(client)
      await fault(world, { match: { path: `${processor_reference}/${operation}` }, fault: 'error_500_after' })
      const { body } = await client.post(`/v1/payments/${id}/${operation}`, undefined, { prefer: 'wait=30' })
      expect(body).toMatchObject({ status: state })
      await expectOneKey(world, id, operation!)
      expect(await effectNames(world, processor_reference)).toEqual(['authorize', operation])
    },
  )

  test("after an authorization is resolved by a search for Sluice's own id", async ({ world, client }) => {
    const description = freshKey()
    await fault(world, { match: { contains: description, method: 'POST' }, fault: 'error_500_after' })
    const { body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    expect(body).toMatchObject({ status: 'authorized', processor_reference: expect.any(String) })
    await expectOneKey(world, body.id, 'authorize')
    const effects = await world.provider('stripe').effects({ 'metadata[sluice_payment_id]': body.id })
    expect(effects.map(({ effect }: any) => effect)).toEqual(['authorize'])
  })

  test('is resolved from the list of refunds if the call was a refund, without a second request', async ({
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

  test('before a refund leaves the refund unknown for ten minutes, with lookups and without a second request', async ({
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
    await expectLookupsOnly(world, id, 'refund')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
    expect((await client.get(`/v1/refunds/${body.id}`)).body).toMatchObject({ status: 'pending' })
    // The amount stays reserved while the refund may exist.
    expect((await refund(client, id, { amount_minor: 701 })).status).toBe(422)
  })

  test('before an authorization leaves the authorization unknown for two minutes, with lookups and without a second request', async ({
    world,
    client,
  }) => {
    const description = freshKey()
    await fault(world, { match: { contains: description }, fault: 'error_500_before' })
    const { status, body } = await createPayment(client, { description }, { prefer: 'wait=30' })
    expect([status, body.status]).toEqual([202, 'pending'])
    await expectLookupsOnly(world, body.id, 'authorize')
    expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  })

  test.for<[name: string, script: unknown, min_delay_s: number, max_delay_s: number]>([
    ['gets no valid response', 'html_503', 0, 600],
    ['is rate limited', { rate_limited_429: true, retry_after_s: 700 }, 700, 701],
    ['has refused credentials', 'refuse_401', 30, 31],
  ])(
    'leads to a lookup, which is retried soon if the lookup %s',
    async ([, script, min_delay_s, max_delay_s], { world, client }) => {
      const { id, processor_reference } = await capturedPayment(client)
      await fault(world, {
        match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
        fault: 'error_500_before',
      })
      await refund(client, id, { amount_minor: 300 }, { prefer: 'wait=30' })
      const misconfigured = async () =>
        (await metrics.misconfigured.get()).values.reduce((sum, { value }) => sum + value, 0)
      const count_before = await misconfigured()
      const failing = await fault(world, {
        match: { path: '^/v1/refunds', method: 'GET', contains: processor_reference },
        times: 1000,
        fault: script,
      })
      const [due_job] = await world.sql`
      update jobs set unknown_since = now() - interval '121 minutes', run_at = now()
      where resource_id = ${id} and state = 'unknown' returning attempt`
      const job = await eventually(async () => {
        const [current] = await world.sql<{ attempt: number; after_s: number; outcome: string }[]>`
        select j.state, j.attempt, extract(epoch from j.run_at - a.ended_at)::float8 as after_s, a.outcome
        from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt
        where j.resource_id = ${id} and j.name = 'refund.create'`
        expect(current).toMatchObject({ state: 'unknown' })
        expect(current!.attempt).toBeGreaterThan(due_job!.attempt)
        return current!
      })
      expect(job.after_s).toBeGreaterThan(min_delay_s - 1)
      expect(job.after_s).toBeLessThan(max_delay_s)
      expect(job.outcome).toBe(script === 'refuse_401' ? 'misconfigured' : 'retry')
      const min_increase = script === 'refuse_401' ? 1 : 0
      await eventually(async () =>
        expect((await misconfigured()) - count_before).toBeGreaterThanOrEqual(min_increase),
      )
      await failing.remove()
    },
  )

  /** Makes a lookup due, two times, and checks that the call itself is not sent again. */
  async function expectLookupsOnly(world: World, payment_id: string, operation: string): Promise<void> {
    const sent = (await callsOf(world, payment_id, operation)).map(({ key, requests }) => [
      key,
      requests.length,
    ])
    expect(sent).toHaveLength(1)
    expect(sent[0]![1]).toBe(2)
    for (const _ of [1, 2]) {
      const [job] = await world.sql`
        update jobs set run_at = now() where resource_id = ${payment_id} and state = 'unknown' returning id, attempt`
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

test('an unknown authorization is settled when the processor shows it later', async ({ world, client }) => {
  const description = freshKey()
  // The search and the list fail, and the key returns its stored error.
  const failing_lookups = await fault(world, {
    match: { method: 'GET', path: '/payment_intents(/search)?$' },
    times: 1000,
    fault: 'html_503',
  })
  await fault(world, { match: { contains: description, method: 'POST' }, fault: 'error_500_after' })
  const { body } = await createPayment(client, { description }, { prefer: 'wait=1' })
  expect(body).toMatchObject({ status: 'pending' })
  await failing_lookups.hit(2)
  expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  await failing_lookups.remove()
  await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where resource_id = ${body.id}`
  await paymentIn(client, body.id, 'authorized')
})

test('a request with other parameters under a used key does not fail an existing payment', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const hold = await fault(world, { match: { contains: description }, fault: { hold: 'after' } })
  const { body } = await createPayment(client, { description }, ASYNC)
  await hold.hit()
  // Simulates a worker that died after the response, and a later worker of a version with another request format.
  await world.sql`
    update jobs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute' where resource_id = ${body.id}`
  await world.sql`
    update jobs set request = request || '{"description":"other words"}' where resource_id = ${body.id}`
  await hold.remove()
  await world.sql`update jobs set lease_until = now() where resource_id = ${body.id}`
  const { processor_reference } = await paymentIn(client, body.id, 'authorized')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
})

test('a refund with a key that was used for another request is unknown, and its amount stays reserved', async ({
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
  /** Sends the request while the tenant's jobs are paused, moves its call into the past, and resumes the jobs. */
  async function requestAndAge(
    world: World,
    request: () => Promise<string>,
    operation: string,
  ): Promise<string> {
    await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
    const payment_id = await request()
    await world.sql`
      update jobs set first_sent_at = now() - interval '24 hours'
      where resource_id = ${payment_id} and operation = ${operation}`
    await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
    return payment_id
  }

  test('a refund is only looked up and stays unknown until a lookup finds it', async ({ world, client }) => {
    const { id, processor_reference } = await capturedPayment(client)
    await requestAndAge(
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

  test('an authorization is only looked up and stays unknown until a lookup finds it', async ({
    world,
    client,
  }) => {
    const id = await requestAndAge(
      world,
      async () => (await createPayment(client, {}, ASYNC)).body.id,
      'authorize',
    )
    await eventually(async () =>
      expect(await callsOf(world, id, 'authorize')).toMatchObject([{ state: 'unknown' }]),
    )
    expect(await callsOf(world, id, 'authorize')).toMatchObject([{ requests: [] }])
  })

  test('a capture with an unchanged hold is sent with a new key after a lookup', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    await requestAndAge(
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

  test('a capture that took effect without a call of Sluice is found by a lookup', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    await requestAndAge(
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

test('a job whose credentials are refused waits without losing an attempt, and continues when the credentials are corrected', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const refused_credentials = await fault(world, {
    match: { contains: description },
    times: 1000,
    fault: 'refuse_401',
  })
  const { body } = await createPayment(client, { description }, ASYNC)
  await refused_credentials.hit()
  const job = async () =>
    (
      await world.sql`
      select j.state, j.attempt, j.max_attempts, j.run_at > now() + interval '10 seconds' as parked, a.outcome
      from jobs j join job_attempts a on a.job_id = j.id and a.attempt = j.attempt where j.resource_id = ${body.id}`
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
  await refused_credentials.remove()
  await world.sql`update jobs set run_at = now() where resource_id = ${body.id}`
  await paymentIn(client, body.id, 'authorized')
})

describe('after many attempts', () => {
  /** Sends the request while the tenant's jobs are paused, changes its job, and resumes the jobs. */
  async function requestAndChange(
    world: World,
    request: () => Promise<string>,
    change: (payment_id: string) => Promise<unknown>,
  ) {
    await world.sql`insert into pauses (tenant_id) values (${world.tenant_id})`
    const payment_id = await request()
    await change(payment_id)
    await world.sql`delete from pauses where tenant_id = ${world.tenant_id}`
    return payment_id
  }
  /** Sends a request, and changes its job as if the processor had refused the call for this many hours. Default: 25. */
  const requestWithRefusals = (world: World, request: () => Promise<string>, hours = 25) =>
    requestAndChange(
      world,
      request,
      (payment_id) => world.sql`
        update jobs set refused_since = now() - ${hours} * interval '1 hour'
        where resource_id = ${payment_id} and finished_at is null`,
    )
  const requestAtLastAttempt = (world: World, request: () => Promise<string>) =>
    requestAndChange(
      world,
      request,
      (payment_id) => world.sql`
        update jobs set attempt = max_attempts - 1 where resource_id = ${payment_id} and finished_at is null`,
    )
  const makeDue = (world: World, payment_id: string) => world.sql`
    update jobs set run_at = now(), wakeup_sent_at = null where resource_id = ${payment_id} and state = 'ready'`

  test.for(['rate_limited_429', 'refuse_401', 'drop_after', 'error_500_unstored'])(
    'a call with a valid key is sent again with the same key, even after failed attempts: %s',
    async (script, { world, client }) => {
      const description = freshKey()
      const scripted_fault = await fault(world, { match: { contains: description }, times: 3, fault: script })
      const id = await requestAtLastAttempt(
        world,
        async () => (await createPayment(client, { description }, ASYNC)).body.id,
      )
      for (const times of [1, 2, 3]) {
        await scripted_fault.hit(times)
        await eventually(async () => {
          const [job] = await world.sql`select state from jobs where resource_id = ${id}`
          expect(job!.state).toBe('ready')
        })
        await makeDue(world, id)
      }
      const { processor_reference } = await paymentIn(client, id, 'authorized')
      expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
      await expectOneKey(world, id, 'authorize')
    },
  )

  test('a call that was never sent is sent at any age of its job', async ({ world, client }) => {
    const description = freshKey()
    const refused_credentials = await fault(world, { match: { contains: description }, fault: 'refuse_401' })
    const { body } = await createPayment(client, { description }, ASYNC)
    await refused_credentials.hit()
    await eventually(async () => {
      const [call] = await world.sql`
        select first_sent_at from jobs where resource_id = ${body.id} and state = 'ready'`
      expect(call).toEqual({ first_sent_at: null })
    })
    // Eight days later the credentials are corrected, and the first response is 429.
    await fault(world, { match: { contains: description }, fault: 'rate_limited_429' })
    await world.sql`
      update jobs set created_at = now() - interval '8 days', run_at = now() where resource_id = ${body.id}`
    await paymentIn(client, body.id, 'authorized')
    await expectOneKey(world, body.id, 'authorize')
  })

  test('a call that an attempt may have sent still counts as possibly sent, even if the next attempt sends nothing', async ({
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
    await makeDue(world, id)
    await refused.hit()
    const call = await eventually(async () => {
      const [row] = await world.sql`
        select first_sent_at, last_sent_at from jobs
        where resource_id = ${id} and name = 'refund.create' and state = 'ready' and last_error ->> 'message' like '401%'`
      expect(row).toBeDefined()
      return row!
    })
    expect(call.first_sent_at).not.toBeNull()
    expect(call.first_sent_at < call.last_sent_at).toBe(true)
    // After a day Sluice may only look the call up.
    await world.sql`
      update jobs set first_sent_at = now() - interval '25 hours' where resource_id = ${id} and operation = 'refund'`
    await makeDue(world, id)
    await eventually(async () =>
      expect(await callsOf(world, id, 'refund')).toMatchObject([{ state: 'unknown' }]),
    )
    expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
  })

  test('an authorization that is refused for a day fails', async ({ world, client }) => {
    const idempotency_key = freshKey()
    const description = freshKey()
    const busy = await fault(world, {
      match: { contains: description },
      times: 1000,
      fault: 'rate_limited_429',
    })
    const request = () => createPayment(client, { description, idempotency_key }, ASYNC)
    const id = await requestWithRefusals(world, async () => (await request()).body.id)
    expect(await paymentIn(client, id, 'failed')).toMatchObject({ failure: { code: 'processor_error' } })
    await busy.remove()
    const replayed = await createPayment(client, { description, idempotency_key })
    expect([replayed.status, replayed.body.error.code]).toEqual([502, 'processor_error'])
    expect((await callsOf(world, id, 'authorize'))[0]!.requests).toHaveLength(1)
  })

  test('an authorization that may have been sent is unknown after a day, and is found when the processor recovers', async ({
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
      update jobs set first_sent_at = first_sent_at - interval '23 hours' where resource_id = ${id}`
    await eventually(async () => {
      await makeDue(world, id)
      expect(await callsOf(world, id, 'authorize')).toMatchObject([{ state: 'unknown' }])
    })
    await search.hit()
    expect((await client.get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'pending' })
    await lost.remove()
    await world.sql`update jobs set run_at = now() where resource_id = ${id}`
    const { processor_reference } = await paymentIn(client, id, 'authorized')
    expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
  })

  test('a capture that is refused for a day leaves the hold unchanged, and can be requested again', async ({
    world,
    client,
  }) => {
    const { id, processor_reference, capture_before } = await authorizedPayment(client)
    const busy = await fault(world, {
      match: { path: `${processor_reference}/capture` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await requestWithRefusals(world, async () => {
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

  test('a cancellation that is refused for a day leaves no cancellation reason on the payment', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await authorizedPayment(client)
    const busy = await fault(world, {
      match: { path: `${processor_reference}/cancel` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await requestWithRefusals(world, async () => {
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

  test('a refund that is refused for a day fails and frees its reserved amount', async ({
    world,
    client,
  }) => {
    const { id, processor_reference } = await capturedPayment(client)
    const busy = await fault(world, {
      match: { method: 'POST', contains: `payment_intent=${processor_reference}` },
      times: 1000,
      fault: 'rate_limited_429',
    })
    await requestWithRefusals(world, async () => {
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

  test('a failed cancellation of a payment whose buyer has paid leaves a hold that can be captured', async ({
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
    await requestWithRefusals(world, async () => {
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

test('a refused authorization is not final if an earlier attempt may have authorized the payment', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const hold = await fault(world, { match: { contains: description }, fault: { hold: 'after' } })
  const { body } = await createPayment(client, { description }, ASYNC)
  await hold.hit()
  const vault = createVault(requireVariable(world.config, 'ENCRYPTION_KEY'))
  const [job] = await world.sql<{ id: string }[]>`select id from jobs where resource_id = ${body.id}`
  const declined = vault.seal('pm_card_chargeDeclined', paymentMethodContext(world.tenant_id, job!.id))
  // Simulates a worker that died after the response, a processor that has lost the key, and a bank that now declines
  // the card.
  await world.sql`
    update jobs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute' where resource_id = ${body.id}`
  await world.sql`
    update jobs set key = key || ':forgotten', request = jsonb_set(request, '{sealed,payment_method}', to_jsonb(${declined}::text))
    where resource_id = ${body.id}`
  await hold.remove()
  await world.sql`update jobs set lease_until = now() where resource_id = ${body.id}`
  const { processor_reference } = await paymentIn(client, body.id, 'authorized')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize'])
})

test('an authorization whose decline was lost is found to be declined', async ({ world, client }) => {
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

test('a capture in progress at the processor is looked up until it is final', async ({ world, client }) => {
  const { id, processor_reference } = await authorizedPayment(client)
  const still_processing = await fault(world, {
    match: { path: processor_reference },
    times: 1000,
    fault: 'still_processing',
  })
  const { status, body } = await client.post(`/v1/payments/${id}/capture`, undefined, { prefer: 'wait=1' })
  expect([status, body.status]).toEqual([202, 'capturing'])
  // Each attempt sends the call and then looks it up: the seventh request belongs to the fourth attempt.
  await still_processing.hit(7)
  expect(await callsOf(world, id, 'capture')).toMatchObject([{ generation: 1, outcome: null }])
  await still_processing.remove()
  await paymentIn(client, id, 'captured')
  await expectOneKey(world, id, 'capture')
  expect(await effectNames(world, processor_reference)).toEqual(['authorize', 'capture'])
  // The attempts after the first attempt had no effect of their own, but none of them may report that nothing happened.
  const { body: entries } = await client.get(`/v1/payments/${id}/timeline`)
  const captures = entries.filter(
    (entry: any) => entry.kind === 'attempt' && entry.name === 'payment.capture',
  )
  expect(captures.length).toBeGreaterThan(3)
  expect(captures.map((entry: any) => entry.outcome)).not.toContain('retry')
})

test('an authorization in progress at the processor is looked up until it is final', async ({
  world,
  client,
}) => {
  const description = freshKey()
  // All responses to the call report that the authorization is in progress.
  const still_processing = await fault(world, {
    match: { contains: description },
    times: 1000,
    fault: 'still_processing',
  })
  const lookup_processing = await fault(world, {
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
  await still_processing.hit()
  await lookup_processing.hit(2)
  expect(await callsOf(world, body.id, 'authorize')).toMatchObject([{ generation: 1, outcome: null }])
  const canceled = await client.post(`/v1/payments/${body.id}/cancel`, undefined, ASYNC)
  expect([canceled.status, canceled.body.status]).toEqual([202, 'pending'])
  await lookup_processing.remove()
  await paymentIn(client, body.id, 'canceled')
  await expectOneKey(world, body.id, 'authorize')
})

test('the refusal of an authorization that may exist is final after the delay of the search index', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const idempotency_key = freshKey()
  const request = () =>
    createPayment(client, { description, idempotency_key, payment_method: 'pm_nonsense' }, ASYNC)
  const lost = await fault(world, { match: { contains: description }, fault: 'drop_before' })
  const { body } = await request()
  await lost.hit()
  const readLookupState = async (refused_at_least_s: number) =>
    await eventually(async () => {
      const [job] = await world.sql`
        select state, unknown_since, refused_since <= now() - ${refused_at_least_s} * interval '1 second' as refused,
          run_at > now() + interval '30 seconds' as is_delayed
        from jobs where resource_id = ${body.id}`
      expect(job).toMatchObject({ state: 'ready', unknown_since: null, refused: true })
      return job!.is_delayed as boolean
    })
  /** Moves the time of the first refusal back, instead of waiting. */
  const setRefusedFor = (seconds: number) =>
    world.sql`
      update jobs set refused_since = now() - ${seconds} * interval '1 second', run_at = now(), wakeup_sent_at = null
      where resource_id = ${body.id} and state = 'ready'`
  expect(await readLookupState(0)).toBe(false)
  await setRefusedFor(6)
  await eventually(async () => expect(await readLookupState(6)).toBe(true))
  expect((await client.get(`/v1/payments/${body.id}`)).body).toMatchObject({ status: 'pending' })
  await setRefusedFor(301)
  expect(await paymentIn(client, body.id, 'failed')).toMatchObject({ failure: { code: 'payment_invalid' } })
  const replayed = await request()
  expect([replayed.status, replayed.body.error.code]).toEqual([422, 'payment_invalid'])
})

test('attempts with the outcome `returned` do not lengthen the delay after the next failure', async ({
  world,
  client,
}) => {
  const description = freshKey()
  const refused_credentials = await fault(world, { match: { contains: description }, fault: 'refuse_401' })
  const { body } = await createPayment(client, { description }, ASYNC)
  await refused_credentials.hit()
  const failing = await fault(world, { match: { contains: description }, fault: 'error_500_unstored' })
  // Simulates an hour with refused credentials.
  await eventually(async () => {
    const updated = await world.sql`
      update jobs set attempt = 120, max_attempts = 145, run_at = now(), wakeup_sent_at = null
      where resource_id = ${body.id} and state = 'ready' returning id`
    expect(updated).toHaveLength(1)
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
      where j.resource_id = ${body.id} and j.attempt >= 4`
    expect(job).toMatchObject({ state: 'ready' })
    // The delay is at least a tenth of 4 s: 250 ms, doubled after each of four failures.
    expect(job!.gap_ms).toBeGreaterThan(350)
  })
  await busy.remove()
  await paymentIn(client, body.id, 'authorized')
})

test('the books balance and agree with the processor after all faults', async ({ world }) => {
  expect(await findRemainingProblems(world)).toEqual([])
})
