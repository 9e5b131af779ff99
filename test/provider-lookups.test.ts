// Tests calls to which a provider returns stored errors: each call takes effect once, and lists show which calls took
// no effect.
import { describe, expect, onTestFinished, vi } from 'vitest'
import { createLog } from '#core/log.ts'
import { freshKey, type Client } from '#test/client.ts'
import { findRemainingProblems } from '#test/invariants.ts'
import {
  ASYNC,
  authorizedPayment,
  capturedPayment,
  createPayment,
  eventually,
  fault,
  paymentIn,
  refund,
} from '#test/payments.ts'
import { startInThisProcess } from '#test/parts.ts'
import { accountOf, payOut, payoutIn, recipient, clientWithBalance } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'
import { party, startVerification, verificationIn, verificationOf } from '#test/verifications.ts'
import { createWorld, testIn, type World } from '#test/world.ts'

// The providers send no notifications, so only lookups can find the result.
const test = testIn({ notifications: false })

type Job = {
  id: string
  state: string
  generation: number
  attempt: number
  unknown: boolean
  reason: string | null
  next_after_s: number | null
}

async function jobOf(world: World, resource_id: string, name: string): Promise<Job> {
  const [job] = await world.sql<Job[]>`
    select id, state, generation, attempt, unknown_since is not null as unknown, last_error ->> 'message' as reason,
      case when state = 'unknown' then extract(epoch from run_at - last_sent_at)::float8 end as next_after_s
    from jobs where resource_id = ${resource_id} and name = ${name} order by created_at desc limit 1`
  return job!
}

async function unknownJob(world: World, resource_id: string, name: string): Promise<Job> {
  return await eventually(async () => {
    const job = await jobOf(world, resource_id, name)
    expect(job).toMatchObject({ state: 'unknown' })
    return job
  })
}

/** Moves the times of an unknown job into the past by `interval` and makes its lookup due. */
async function advanceJob(world: World, job_id: string, interval: string): Promise<void> {
  await eventually(async () => {
    const moved = await world.sql`
      update jobs set first_sent_at = first_sent_at - ${interval}::interval, created_at = created_at - ${interval}::interval,
        last_sent_at = last_sent_at - ${interval}::interval, absent_since = absent_since - ${interval}::interval,
        run_at = now(), wakeup_sent_at = null
      where id = ${job_id} and state = 'unknown' returning id`
    expect(moved).toHaveLength(1)
    await world.sql`
      update job_attempts set last_sent_at = last_sent_at - ${interval}::interval where job_id = ${job_id}`
  })
}

/** Waits until a lookup after the given attempt has ended. */
async function awaitLookup(world: World, { id, attempt }: Job): Promise<Job> {
  return await eventually(async () => {
    const [job] = await world.sql<{ resource_id: string; name: string; attempt: number; state: string }[]>`
      select resource_id, name, attempt, state from jobs where id = ${id}`
    expect(job!.attempt).toBeGreaterThan(attempt)
    expect(job!.state).not.toBe('running')
    return await jobOf(world, job!.resource_id, job!.name)
  })
}

const stripe = (world: World) => world.provider('stripe')
const hasSluiceId =
  (name: string, id: string) =>
  ({ metadata }: any) =>
    metadata[name] === id

/** Sends a request to the processor as another program of the same account. */
async function requestStripe(
  world: World,
  method: string,
  path: string,
  fields?: Record<string, string>,
): Promise<any> {
  const { url, api_key } = stripe(world)
  const answer = await fetch(`${url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${api_key}` },
    ...(fields !== undefined && { body: new URLSearchParams(fields) }),
  })
  return await answer.json()
}

/** The number of requests for the list at this path. */
const countLists = async (world: World, path: string): Promise<number> =>
  (await stripe(world).requests({})).filter((sent) => sent.method === 'GET' && sent.path === path).length

const advance = async (world: World, advance_ms: number) =>
  await stripe(world).control('POST', '/clock', { advance_ms })

const effectsWithId = async (world: World, name: string, id: string): Promise<string[]> =>
  (await stripe(world).effects({ [`metadata[sluice_${name}_id]`]: id })).map(({ effect }) => effect)

/** A fault, or several faults in order. */
type Script = string | object | (string | object)[]

async function injectFaults(world: World, match: object, script: Script, times: number): Promise<void> {
  for (const each of [script].flat()) await fault(world, { match, times, fault: each })
}

type Kind = {
  name: string
  job: string
  resource: string
  /**
   * Requests the resource while the provider stores an error. `resource_id`: the id of the resource of the job, for
   * example the payment of a refund. `owner`: a client of the tenant.
   */
  request: (
    world: World,
    script: Script,
    times?: number,
  ) => Promise<{ id: string; resource_id: string; owner: Client }>
  awaitResult: (owner: Client, id: string) => Promise<unknown>
  effect: string
}

async function requestPayment(world: World, script: Script, times = 1) {
  const description = freshKey()
  await injectFaults(world, { method: 'POST', contains: description }, script, times)
  const { body } = await createPayment(world.client, { description }, ASYNC)
  return { id: body.id as string, resource_id: body.id as string, owner: world.client }
}

async function requestRefund(world: World, script: Script, times = 1) {
  const { id, processor_reference } = await capturedPayment(world.client)
  await injectFaults(
    world,
    { method: 'POST', contains: `payment_intent=${processor_reference}` },
    script,
    times,
  )
  const { body } = await refund(world.client, id, { amount_minor: 300 }, ASYNC)
  return { id: body.id as string, resource_id: id as string, owner: world.client }
}

async function requestTopUp(world: World, script: Script, times = 1) {
  const description = freshKey()
  await injectFaults(world, { contains: description, method: 'POST' }, script, times)
  const { body } = await topUp(world.client, { description, source: 'src_manual' })
  return { id: body.id as string, resource_id: body.id as string, owner: world.client }
}

const requestPayout =
  (destination: string) =>
  async (world: World, script: Script, times = 1) => {
    const owner = await clientWithBalance(world, 1000)
    const description = freshKey()
    await injectFaults(world, { contains: description, method: 'POST' }, script, times)
    const { body } = await payOut(owner, await recipient(owner, destination), { description })
    return { id: body.id as string, resource_id: body.id as string, owner }
  }

const HOLD: Kind = {
  name: 'a hold',
  job: 'payment.authorize',
  resource: 'payment',
  request: requestPayment,
  awaitResult: (owner, id) => paymentIn(owner, id, 'authorized'),
  effect: 'authorize',
}
const MONEY: Kind[] = [
  {
    name: 'a refund',
    job: 'refund.create',
    resource: 'refund',
    request: requestRefund,
    awaitResult: async (owner, id) =>
      await eventually(async () =>
        expect((await owner.get(`/v1/refunds/${id}`)).body).toMatchObject({ status: 'succeeded' }),
      ),
    effect: 'refund',
  },
  {
    name: 'a top-up',
    job: 'top_up.create',
    resource: 'top_up',
    request: requestTopUp,
    awaitResult: async (owner, id) =>
      await eventually(async () =>
        expect((await owner.get(`/v1/wallet/top_ups/${id}`)).body).toMatchObject({
          processor_reference: expect.any(String),
        }),
      ),
    effect: 'top_up',
  },
  {
    name: 'a payout',
    job: 'payout.create',
    resource: 'payout',
    request: requestPayout('ba_manual'),
    awaitResult: (owner, id) => payoutIn(owner, id, 'processing'),
    effect: 'payout',
  },
  {
    name: 'a transfer',
    job: 'payout.create',
    resource: 'payout',
    request: requestPayout('acct_success'),
    awaitResult: (owner, id) => payoutIn(owner, id, 'paid'),
    effect: 'transfer',
  },
]

const findEffectCount = async (world: World, { resource, effect }: Kind, id: string): Promise<number> =>
  resource === 'top_up'
    ? (await requestStripe(world, 'GET', '/topups?limit=100')).data.filter(
        hasSluiceId('sluice_top_up_id', id),
      ).length
    : (await effectsWithId(world, resource, id)).filter((each) => each === effect).length
/** A change: its resource is a hold, which exists at the provider. */
const CAPTURE: Kind = {
  name: 'a capture',
  job: 'payment.capture',
  resource: 'payment',
  request: async (world, script, times = 1) => {
    const { id, processor_reference } = await authorizedPayment(world.client)
    const path = `/payment_intents/${processor_reference}/capture$`
    await injectFaults(world, { method: 'POST', path }, script, times)
    await world.client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    return { id, resource_id: id, owner: world.client }
  },
  awaitResult: (owner, id) => paymentIn(owner, id, 'captured'),
  effect: 'capture',
}
/** Waits for the first effect. Returns the count of effects. */
const awaitEffects = async (world: World, kind: Kind, id: string): Promise<number> =>
  await eventually(async () => {
    const count = await findEffectCount(world, kind, id)
    expect(count).toBeGreaterThan(0)
    return count
  })

describe('a stored error before the effect', () => {
  test('of a hold leads to a retry with a new key two minutes after the last sending', async ({
    world,
    client,
  }) => {
    const { id } = await requestPayment(world, 'error_500_before')
    const first = await unknownJob(world, id, HOLD.job)
    await advanceJob(world, first.id, '110 seconds')
    const early = await awaitLookup(world, first)
    expect(early).toMatchObject({ state: 'unknown', generation: 1 })
    // The next lookup is due at the end of the two minutes, not after the usual delay between lookups.
    expect(early.next_after_s).toBeLessThan(125)
    expect(await findEffectCount(world, HOLD, id)).toBe(0)
    await advanceJob(world, first.id, '15 seconds')
    await paymentIn(client, id, 'authorized')
    expect(await jobOf(world, id, HOLD.job)).toMatchObject({
      state: 'succeeded',
      generation: 2,
      unknown: false,
    })
    expect(await awaitEffects(world, HOLD, id)).toBe(1)
  })

  // These tests run concurrently, because they mostly wait for the next lookup.
  test.concurrent.for(MONEY)(
    'of $name leads to a retry after ten minutes and two lookups that find nothing',
    async (kind, { world }) => {
      const { id, resource_id, owner } = await kind.request(world, 'error_500_before')
      const first = await unknownJob(world, resource_id, kind.job)
      await advanceJob(world, first.id, '9 minutes')
      const early = await awaitLookup(world, first)
      expect(early).toMatchObject({ state: 'unknown', generation: 1 })
      expect(early.next_after_s).toBeLessThan(605)
      await advanceJob(world, first.id, '70 seconds')
      const absent_once = await awaitLookup(world, early)
      expect(absent_once).toMatchObject({ state: 'unknown', generation: 1 })
      expect(absent_once.next_after_s).toBeLessThan(700)
      expect(await findEffectCount(world, kind, id)).toBe(0)
      await advanceJob(world, first.id, '1 minute')
      await kind.awaitResult(owner, id)
      expect(await jobOf(world, resource_id, kind.job)).toMatchObject({ generation: 2, unknown: false })
      expect(await awaitEffects(world, kind, id)).toBe(1)
    },
  )

  test.concurrent.for(MONEY)(
    'of $name whose key has expired leads to a retry after two lookups that find nothing',
    async (kind, { world }) => {
      const { id, resource_id, owner } = await kind.request(world, 'error_500_before')
      const job = await unknownJob(world, resource_id, kind.job)
      await advanceJob(world, job.id, '26 hours')
      const absent_once = await awaitLookup(world, job)
      expect(absent_once).toMatchObject({ state: 'unknown', generation: 1 })
      // An earlier lookup by an operator does not count as the second lookup that finds nothing.
      await advanceJob(world, job.id, '0 seconds')
      expect(await awaitLookup(world, absent_once)).toMatchObject({ state: 'unknown', generation: 1 })
      await advanceJob(world, job.id, '1 minute')
      await kind.awaitResult(owner, id)
      expect(await awaitEffects(world, kind, id)).toBe(1)
    },
  )

  test.concurrent.for([HOLD, ...MONEY])(
    'of $name that was sent with other credentials leaves the outcome unknown',
    async (kind, { world }) => {
      const { id, resource_id } = await kind.request(world, 'error_500_before')
      let job = await unknownJob(world, resource_id, kind.job)
      await world.sql`update jobs set sent_with = 'another ' || sent_with where id = ${job.id}`
      for (const _lookup of [1, 2, 3]) {
        await advanceJob(world, job.id, '1 hour')
        job = await awaitLookup(world, job)
        expect(job).toMatchObject({ state: 'unknown', generation: 1 })
      }
      expect(job.reason).toContain('another account')
      expect(await findEffectCount(world, kind, id)).toBe(0)
    },
  )

  test.concurrent.for([HOLD, ...MONEY])(
    'of $name with each of three keys leads to success with the fourth key',
    async (kind, { world }) => {
      // A key is sent twice before its response is recognized as stored, and each sending uses the fault once.
      const { id, resource_id, owner } = await kind.request(world, 'error_500_before', 5)
      for (const generation of [1, 2, 3]) {
        const job = await eventually(async () => {
          const current = await unknownJob(world, resource_id, kind.job)
          expect(current.generation).toBe(generation)
          return current
        })
        await advanceJob(world, job.id, '11 minutes')
        const next = await awaitLookup(world, job)
        if (next.state === 'unknown' && next.generation === generation)
          await advanceJob(world, job.id, '1 minute')
      }
      await kind.awaitResult(owner, id)
      expect((await jobOf(world, resource_id, kind.job)).generation).toBe(4)
      expect(await awaitEffects(world, kind, id)).toBe(1)
    },
  )

  test('of a hold whose key has expired leads to a retry at once', async ({ world }) => {
    const { id, resource_id, owner } = await HOLD.request(world, 'error_500_before')
    const job = await unknownJob(world, resource_id, HOLD.job)
    await advanceJob(world, job.id, '26 hours')
    await HOLD.awaitResult(owner, id)
    expect(await awaitEffects(world, HOLD, id)).toBe(1)
  })

  test('of a hold with its second key leads to a list that begins at the last sending of the first key', async ({
    world,
    client,
  }) => {
    const { id } = await requestPayment(world, 'error_500_before', 3)
    const { id: job_id } = await unknownJob(world, id, HOLD.job)
    await advanceJob(world, job_id, '11 minutes')
    await eventually(async () =>
      expect(await unknownJob(world, id, HOLD.job)).toMatchObject({ state: 'unknown', generation: 2 }),
    )
    const [before] = await world.sql<{ from_s: number }[]>`
      select (floor(extract(epoch from last_sent_at) / 60) * 60)::integer - 660 as from_s from job_attempts
      where job_id = ${job_id} and generation = 1`
    const list_request = await fault(world, {
      match: { method: 'GET', path: '/payment_intents$', contains: `=${before!.from_s}` },
      fault: { delay_ms: 1 },
    })
    await advanceJob(world, job_id, '11 minutes')
    await list_request.hit(1, 10_000)
    await paymentIn(client, id, 'authorized')
    expect(await awaitEffects(world, HOLD, id)).toBe(1)
  })

  test('of a payout that is canceled in the meantime leads to no retry, and the reserved amount is freed', async ({
    world,
  }) => {
    const { id, owner } = await requestPayout('ba_manual')(world, 'error_500_before')
    const { tenant_id } = owner
    const job = await unknownJob(world, id, 'payout.create')
    expect((await owner.post(`/v1/payouts/${id}/cancel`)).status).toBe(202)
    await advanceJob(world, job.id, '11 minutes')
    await advanceJob(world, (await awaitLookup(world, job)).id, '1 minute')
    await payoutIn(owner, id, 'canceled')
    expect(await accountOf(world, tenant_id)).toEqual({ balance: 1000, reserved: 0 })
    expect(await effectsWithId(world, 'payout', id)).toEqual([])
  })
})

describe('a stored error after the effect', () => {
  test.for([HOLD, ...MONEY])("of $name is resolved by the provider's list", async (kind, { world }) => {
    const { id, resource_id, owner } = await kind.request(world, 'error_500_after')
    await kind.awaitResult(owner, id)
    expect(await jobOf(world, resource_id, kind.job)).toMatchObject({ generation: 1, unknown: false })
    expect(await awaitEffects(world, kind, id)).toBe(1)
  })

  test('of a hold is resolved by the list after a hundred other holds of the same minutes, even without the search', async ({
    world,
    client,
  }) => {
    const search = await fault(world, {
      match: { method: 'GET', path: '/payment_intents/search$' },
      times: 1000,
      fault: 'html_503',
    })
    const MINUTES_MS = 180_000
    await advance(world, -MINUTES_MS)
    const { id } = await requestPayment(world, 'error_500_after')
    const job = await unknownJob(world, id, HOLD.job)
    for (let nth = 0; nth < 120; nth++)
      await requestStripe(world, 'POST', '/payment_intents', { amount: '100', currency: 'usd' })
    await advance(world, MINUTES_MS)
    await advanceJob(world, job.id, '3 minutes')
    await paymentIn(client, id, 'authorized')
    await search.remove()
    expect(await awaitEffects(world, HOLD, id)).toBe(1)
  })
})

describe('a refusal after an attempt that may have reached the provider', () => {
  /** Requests the resource: the first attempt may have reached the provider, and the second attempt is refused. */
  async function refuseInDoubt(world: World, kind: Kind, credentials: string | null = null) {
    const refusal = { refuse_400: true, code: 'parameter_invalid_integer' }
    const requested = await kind.request(world, [{ rate_limited_429: true, retry_after_s: 4 }, refusal])
    const job_id = await eventually(async () => {
      const [job] = await world.sql<{ id: string }[]>`
        update jobs set in_doubt = true, first_sent_at = now(), last_sent_at = now(), run_at = now(), wakeup_sent_at = null,
          sent_with = ${credentials}::text
        where resource_id = ${requested.resource_id} and name = ${kind.job} and failures = 1 and state = 'ready' returning id`
      expect(job).toBeDefined()
      return job!.id
    })
    await eventually(async () => {
      const [job] = await world.sql`select attempt, state from jobs where id = ${job_id}`
      expect(job).toMatchObject({ attempt: 2 })
      expect(job!['state']).not.toBe('running')
    })
    return { ...requested, job_id }
  }

  test.for([HOLD, ...MONEY, CAPTURE])(
    'of $name is final after five minutes of lookups',
    async (kind, { world }) => {
      const { job_id } = await refuseInDoubt(world, kind)
      for (const refused_s of [6, 61]) {
        await eventually(async () => {
          const moved = await world.sql`
          update jobs set refused_since = now() - ${refused_s} * interval '1 second', run_at = now(), wakeup_sent_at = null
          where id = ${job_id} and state = 'ready' and refused_since > now() - ${refused_s} * interval '1 second'
          returning id`
          expect(moved).toHaveLength(1)
        })
      }
      await eventually(async () =>
        expect([
          ...(await world.sql`
          select state, refused_since < now() - interval '1 minute' as refused, run_at > now() + interval '1 minute' as waits
          from jobs where id = ${job_id}`),
        ]).toEqual([{ state: 'ready', refused: true, waits: true }]),
      )
      await world.sql`
      update jobs set refused_since = now() - interval '301 seconds', run_at = now(), wakeup_sent_at = null where id = ${job_id}`
      await eventually(async () =>
        expect(await world.sql`select state from jobs where id = ${job_id}`).toMatchObject([
          { state: 'failed' },
        ]),
      )
    },
  )

  test('of a capture is not final if the earlier attempt takes effect later', async ({ world, client }) => {
    const { id, job_id } = await refuseInDoubt(world, CAPTURE)
    await paymentIn(client, id, 'capturing')
    const { processor_reference } = (await client.get(`/v1/payments/${id}`)).body
    expect(
      await requestStripe(world, 'POST', `/payment_intents/${processor_reference}/capture`, {}),
    ).toMatchObject({ status: 'succeeded' })
    await world.sql`update jobs set run_at = now(), wakeup_sent_at = null where id = ${job_id}`
    await paymentIn(client, id, 'captured')
    expect(
      await world.sql`select from events where subject_id = ${id} and type = 'payment.capture_failed'`,
    ).toEqual([])
  })

  test.for([HOLD, ...MONEY])(
    'of $name with other credentials proves nothing, and the outcome stays unknown',
    async (kind, { world }) => {
      const { job_id } = await refuseInDoubt(world, kind, 'another')
      const [job] =
        await world.sql`select state, last_error ->> 'message' as reason from jobs where id = ${job_id}`
      expect(job).toMatchObject({ state: 'unknown', reason: expect.stringContaining('another account') })
    },
  )
})

describe('an object whose reference is known from a notification', () => {
  /** The request of another program for a similar object, without Sluice's ids. */
  const OBJECTS: Record<
    string,
    (client: Client, resource_id: string) => Promise<{ path: string; fields: Record<string, string> }>
  > = {
    payment: async () => ({
      path: '/payment_intents',
      fields: { amount: '1000', currency: 'usd', ...BY_CARD },
    }),
    refund: async (client, resource_id) => {
      const { body } = await client.get(`/v1/payments/${resource_id}`)
      return { path: '/refunds', fields: { payment_intent: body.processor_reference, amount: '300' } }
    },
    top_up: async () => ({
      path: '/topups',
      fields: { amount: '500', currency: 'usd', source: 'src_manual' },
    }),
  }
  const BY_CARD = {
    capture_method: 'manual',
    confirm: 'true',
    payment_method: 'pm_card_visa',
    'automatic_payment_methods[enabled]': 'true',
    'automatic_payment_methods[allow_redirects]': 'never',
  }
  const TABLES: Record<string, string> = {
    payment: 'payments',
    refund: 'refunds',
    top_up: 'top_ups',
  }

  test.for([HOLD, ...MONEY.filter(({ resource }) => resource in OBJECTS)])(
    "is looked up by its reference, even without Sluice's ids: $name",
    async (kind, { world }) => {
      const { id, resource_id } = await kind.request(world, 'error_500_before')
      const job = await unknownJob(world, resource_id, kind.job)
      const { path, fields } = await OBJECTS[kind.resource]!(world.client, resource_id)
      const { id: reference } = await requestStripe(world, 'POST', path, fields)
      expect(reference).toEqual(expect.any(String))
      await world.sql`
        update ${world.sql(TABLES[kind.resource]!)} set processor_reference = ${reference} where id = ${id}`
      await advanceJob(world, job.id, '11 minutes')
      await eventually(async () =>
        expect(await jobOf(world, resource_id, kind.job)).toMatchObject({
          state: 'succeeded',
          generation: 1,
        }),
      )
      expect(await findEffectCount(world, kind, id)).toBe(0)
    },
  )
})

describe('a session of a verification', () => {
  const SESSIONS = '/identity/verification_sessions'

  test('that is created with the second key is kept, and the session of the first key is canceled', async ({
    world,
    client,
  }) => {
    const mark = freshKey()
    const match = { method: 'POST', path: '/verification_sessions$', contains: mark }
    await fault(world, { match, times: 2, fault: 'error_500_before' })
    const lost = await fault(world, { match, fault: { delay_ms: 2_000, error_500_after: true } })
    const return_url = `https://shop.example/${mark}`
    const { body } = await startVerification(
      client,
      { ...(await party(client, 'customer')), return_url },
      ASYNC,
    )
    await eventually(async () =>
      expect(await jobOf(world, body.id, 'kyc.create')).toMatchObject({ generation: 2, state: 'running' }),
    )
    await requestStripe(world, 'POST', SESSIONS, {
      type: 'document',
      client_reference_id: body.id,
      'metadata[sluice_kyc_id]': body.id,
      'metadata[sluice_tenant_id]': world.tenant_id,
    })
    await lost.hit()
    const { provider_reference } = await verificationIn(client, body.id, 'requires_input')
    await eventually(async () => {
      const { data } = await requestStripe(
        world,
        'GET',
        `${SESSIONS}?client_reference_id=${body.id}&limit=10`,
      )
      expect(data).toHaveLength(2)
      for (const { id, status } of data)
        expect(status).toBe(id === provider_reference ? 'requires_input' : 'canceled')
    })
  })

  test('is looked up if the response to its cancellation shows another status than canceled', async ({
    world,
    client,
  }) => {
    const { id, subject_id, provider_reference } = await verificationOf(client)
    await fault(world, {
      match: { method: 'POST', path: `/${provider_reference}/cancel$` },
      fault: { still_processing: true, status: 'requires_input' },
    })
    expect((await client.delete(`/v1/customers/${subject_id}`)).status).toBe(200)
    expect(await verificationIn(client, id, 'rejected')).toMatchObject({ failure: { code: 'subject_gone' } })
  })
})

test("the provider's list is read only if it can decide the outcome, and once for many unknown calls", async ({
  world,
  client,
}) => {
  const countPaymentLists = async () => await countLists(world, '/v1/payment_intents')
  const before = await countPaymentLists()
  const description = freshKey()
  const match = { method: 'POST', contains: description }
  await fault(world, { match, times: 40, fault: 'error_500_before' })
  const payment_ids = await Promise.all(
    Array.from(
      { length: 20 },
      async () => (await createPayment(client, { description }, ASYNC)).body.id as string,
    ),
  )
  const jobs = await Promise.all(payment_ids.map(async (id) => await unknownJob(world, id, HOLD.job)))
  expect(await countPaymentLists()).toBe(before)
  const minute = await world.sql<
    { at: Date }[]
  >`select date_trunc('minute', now() - interval '4 minutes') as at`
  const ids = jobs.map(({ id }) => id)
  const { at } = minute[0]!
  await world.sql`
    update jobs set first_sent_at = ${at}, last_sent_at = ${at}, created_at = ${at}, run_at = now(), wakeup_sent_at = null
    where id = any(${ids}::uuid[])`
  for (const id of payment_ids) await paymentIn(client, id, 'authorized')
  expect((await countPaymentLists()) - before).toBeLessThan(10)
})

test('a list request that fails does not prove that the object is missing', async ({ world }) => {
  const list = await fault(world, {
    match: { method: 'GET', path: '/payment_intents$' },
    times: 1000,
    fault: 'html_503',
  })
  const { id } = await requestPayment(world, 'error_500_before')
  await advanceJob(world, (await unknownJob(world, id, HOLD.job)).id, '1 hour')
  await list.hit(3)
  expect(await jobOf(world, id, HOLD.job)).toMatchObject({ generation: 1 })
  await list.remove()
  expect(await findEffectCount(world, HOLD, id)).toBe(0)
})

describe('after the secret key was replaced', () => {
  const STAYS_UNKNOWN = {
    state: 'unknown',
    generation: 1,
    reason: expect.stringContaining('another account'),
  }
  test.each([
    ['of the same account: a call without an effect is retried', {}, { state: 'succeeded', generation: 2 }],
    ['of another account: the call stays unknown', { id: 'acct_1Another' }, STAYS_UNKNOWN],
    [
      'of the other mode of the account: the call stays unknown',
      { api_key: 'sk_live_replaced' },
      STAYS_UNKNOWN,
    ],
  ])('by a key %s', async (_, account: { id?: string; api_key?: string }, expected) => {
    const key_world = await createWorld({ parts: ['api'], notifications: false })
    onTestFinished(() => key_world.close())
    const log = createLog('silent', 'test')
    const first = await startInThisProcess('worker', key_world.env, log)
    const description = freshKey()
    await fault(key_world, { match: { method: 'POST', contains: description }, fault: 'error_500_before' })
    const { body } = await createPayment(key_world.client, { description }, ASYNC)
    const job = async () => {
      const [row] = await key_world.sql<Job[]>`
        select id, state, generation, last_error ->> 'message' as reason from jobs where resource_id = ${body.id}`
      return row!
    }
    await eventually(async () => expect(await job()).toMatchObject({ state: 'unknown' }))
    const accounts = async () =>
      (await key_world.sql<{ account: string }[]>`select account from provider_accounts`).map(
        (each) => each.account,
      )
    await eventually(async () => expect(await accounts()).toHaveLength(1))
    await first.close()

    const { api_key = 'rk_test_replaced' } = account
    await key_world.provider('stripe').control('POST', '/account', { ...account, api_key })
    const second = await startInThisProcess('worker', { ...key_world.env, STRIPE_SECRET_KEY: api_key }, log)
    onTestFinished(() => second.close())
    await eventually(async () => expect(await accounts()).toHaveLength(2))
    await key_world.sql`
      update jobs set first_sent_at = first_sent_at - interval '3 minutes', run_at = now(), wakeup_sent_at = null,
        created_at = created_at - interval '3 minutes', last_sent_at = last_sent_at - interval '3 minutes'`
    await eventually(async () => expect(await job()).toMatchObject(expected))
  })
})

describe('clocks that differ', () => {
  const HOURS_MS = 2 * 3_600_000
  test.for(MONEY.slice(1))(
    "a worker's clock that is ahead causes no duplicate: $name",
    async (kind, { world }) => {
      const real = Date.now
      // The emulator runs in this process, so its clock is set back to the real time.
      const clock = vi.spyOn(Date, 'now').mockImplementation(() => real() + HOURS_MS)
      await advance(world, -HOURS_MS)
      try {
        const { id, owner } = await kind.request(world, 'error_500_after')
        await kind.awaitResult(owner, id)
        expect(await awaitEffects(world, kind, id)).toBe(1)
      } finally {
        clock.mockRestore()
        await advance(world, HOURS_MS)
      }
    },
  )

  test.for(MONEY.slice(1))(
    "a database's clock that was ahead when the call was sent causes no duplicate: $name",
    async (kind, { world }) => {
      // The object was created sixteen minutes ago by the provider's clock, and eleven minutes ago by the database's
      // clock.
      await advance(world, -16 * 60_000)
      const path = { transfer: '/transfers$', payout: '/payouts$', top_up: '/topups$' }[kind.effect]!
      const list = await fault(world, { match: { method: 'GET', path }, times: 1000, fault: 'html_503' })
      const { id, resource_id, owner } = await kind.request(world, 'error_500_after')
      await list.hit()
      await advance(world, 16 * 60_000)
      await world.sql`
      update jobs set created_at = created_at - interval '11 minutes' where resource_id = ${resource_id}`
      await list.remove()
      await eventually(async () => {
        await world.sql`
        update jobs set first_sent_at = first_sent_at - interval '11 minutes', run_at = now(), wakeup_sent_at = null,
          last_sent_at = last_sent_at - interval '11 minutes'
        where resource_id = ${resource_id} and state in ('ready', 'unknown')`
        expect(await jobOf(world, resource_id, kind.job)).toMatchObject({ state: 'succeeded', generation: 1 })
      })
      await kind.awaitResult(owner, id)
      expect(await awaitEffects(world, kind, id)).toBe(1)
    },
  )

  test("a list without the object proves nothing if the provider's clock differs from the database's", async ({
    world,
  }) => {
    // The difference exceeds a day, because lists begin a day before the job.
    const DAY_MS = 26 * 3_600_000
    await advance(world, -DAY_MS)
    try {
      const { id, owner } = await requestPayout('ba_manual')(world, 'error_500_after')
      const countPayoutLists = async () => await countLists(world, '/v1/payouts')
      await eventually(async () => expect(await countPayoutLists()).toBeGreaterThan(0))
      for (const interval of ['11 minutes', '1 minute']) {
        const before = await countPayoutLists()
        await world.sql`
          update jobs set first_sent_at = first_sent_at - ${interval}::interval, run_at = now(), wakeup_sent_at = null,
            last_sent_at = last_sent_at - ${interval}::interval where resource_id = ${id} and state <> 'running'`
        await eventually(async () => expect(await countPayoutLists()).toBeGreaterThan(before))
      }
      const { data } = await requestStripe(world, 'GET', '/payouts?limit=100')
      const payouts = data.filter(hasSluiceId('sluice_payout_id', id))
      expect(payouts).toHaveLength(1)
      const job = await jobOf(world, id, 'payout.create')
      expect(job.generation).toBe(1)
      expect(job.reason).toContain('the clocks of the provider and of the database differ by 9')
      await world.sql`
        update jobs set provider_reference = ${payouts[0].id}, run_at = now(), wakeup_sent_at = null where id = ${job.id}`
      await payoutIn(owner, id, 'processing')
    } finally {
      await advance(world, DAY_MS)
    }
  })
})

test('after all scenarios the books balance and agree with the processor', async ({ world }) => {
  expect(await findRemainingProblems(world)).toEqual([])
})
