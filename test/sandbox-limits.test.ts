// The limits of sandboxes: their size, the time of a call, and what one sandbox may take from others.
import { describe, expect, onTestFinished } from 'vitest'
import type { Config } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import { createLog } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { endAct, findActEnd, findOpenActs, requestSandboxAct } from '#domain/sandboxes/acts.ts'
import { pruneNextSandbox } from '#domain/sandboxes/retention.ts'
import { NoAnswer } from '#providers/http.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import { nowMs } from '#providers/sandbox/stripe/engine.ts'
import { scheduleAt } from '#providers/sandbox/stripe/schedule.ts'
import { ASYNC, authorizedPayment, createPayment, eventually, paymentIn } from '#test/payments.ts'
import { call, hold, idsAt, newTenant, openHost, pay } from '#test/sandbox-hosts.ts'
import { testIn, type World } from '#test/world.ts'
import type { WorkerContext } from '#workers/context.ts'
import { carryOutAct } from '#workers/sandbox/acts.ts'
import { createTestContexts } from '#workers/test-context.ts'

const test = testIn({ notifications: false, env: { RECONCILE_EVERY_S: '3600' } })

async function stateOf({ sql }: World, tenant_id: string) {
  const [state] = await sql<{ format: number; bytes: number; due_at: string | null; generation: number }[]>`
    select format, bytes, due_at, generation from sandboxes where tenant_id = ${tenant_id}`
  return state!
}

/** Locks the sandbox in another transaction. Call the returned function to end it. */
async function lock({ sql }: World, tenant_id: string): Promise<() => Promise<void>> {
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const transaction = sql.begin(async (tx) => {
    await tx`select from sandboxes where tenant_id = ${tenant_id} for update`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  const end = async () => {
    release.resolve()
    await transaction
  }
  onTestFinished(end)
  return end
}

/** A record that no version can replay. */
async function storeUnreadableRecord({ sql }: World, tenant_id: string): Promise<void> {
  await sql`
    insert into sandbox_records (tenant_id, position, kind, key, line, bytes)
    select tenant_id, last_position + 1, 'version', 'unreadable',
      '{"version":{"id":"xx_1","revision":1000000,"object":"unheard_of"}}', 100
    from sandboxes where tenant_id = ${tenant_id}`
  await sql`update sandboxes set last_position = last_position + 1 where tenant_id = ${tenant_id}`
}

describe('a full sandbox', () => {
  const limits = { max_bytes: 60_000 }

  test('keeps all open payments, and refuses new ones until some have ended', async ({ world }) => {
    const tenant_id = await newTenant(world)
    const host = openHost(world, limits)
    const holds: string[] = []
    let refused = await hold(host, tenant_id)
    for (; refused.status === 200; refused = await hold(host, tenant_id)) holds.push(refused.body.id)
    expect([refused.status, refused.body.error]).toMatchObject([
      400,
      { code: 'sandbox_full', message: expect.stringContaining('The sandbox is full') },
    ])
    expect((await idsAt(host, tenant_id)).toSorted()).toEqual(holds.toSorted())
    const update = await call(host, tenant_id, 'POST', `/v1/payment_intents/${holds[0]}`, {
      params: { description: 'A change' },
    })
    expect(update.status).toBe(200)
    const { generation } = await stateOf(world, tenant_id)
    for (const id of holds) {
      const captured = await call(host, tenant_id, 'POST', `/v1/payment_intents/${id}/capture`)
      expect([id, captured.body.status]).toEqual([id, 'succeeded'])
    }
    expect((await hold(host, tenant_id)).status).toBe(200)
    const state = await stateOf(world, tenant_id)
    expect(state.bytes).toBeLessThanOrEqual(limits.max_bytes)
    // Each deletion begins another generation, which costs a replay.
    expect(state.generation - generation).toBeLessThan(holds.length / 2)
  })

  test('refuses changes that end nothing when it has twice the size', async ({ world }) => {
    const tenant_id = await newTenant(world)
    const host = openHost(world, limits)
    const path = `/v1/payment_intents/${(await hold(host, tenant_id)).body.id}`
    await world.sql`update sandboxes set bytes = 130_000 where tenant_id = ${tenant_id}`
    const update = await call(host, tenant_id, 'POST', path, { params: { description: 'A change' } })
    expect(update.body.error).toMatchObject({ code: 'sandbox_full' })
    expect((await call(host, tenant_id, 'POST', `${path}/cancel`)).body).toMatchObject({ status: 'canceled' })
  })

  test('deletes first what has not changed for the longest time', async ({ world }) => {
    const tenant_id = await newTenant(world)
    const host = openHost(world, limits)
    const first = await hold(host, tenant_id)
    const second = await pay(host, tenant_id)
    while ((await stateOf(world, tenant_id)).bytes < 50_000) await pay(host, tenant_id)
    await call(host, tenant_id, 'POST', `/v1/payment_intents/${first.body.id}/capture`)
    const { generation } = await stateOf(world, tenant_id)
    while ((await stateOf(world, tenant_id)).generation === generation) await pay(host, tenant_id)
    expect(await idsAt(host, tenant_id)).toContain(first.body.id)
    const missing = await call(host, tenant_id, 'GET', `/v1/payment_intents/${second.body.id}`)
    expect(missing.status).toBe(404)
  })

  test('fails a new payment, and its message says why', async ({ world }) => {
    const client = await world.clientOf({ mode: 'test' })
    const held = await authorizedPayment(client)
    await world.sql`update sandboxes set bytes = ${20 * 1024 * 1024} where tenant_id = ${client.tenant_id}`
    const { body } = await createPayment(client)
    const failed = await eventually(async () => {
      const { body: found } = await client.get(`/v1/payments?status=failed`)
      expect(found).toHaveLength(1)
      return found[0]
    })
    expect(JSON.stringify([body, failed])).toContain('The sandbox is full')
    await client.post(`/v1/payments/${held.id}/capture`)
    await paymentIn(client, held.id, 'captured')
  })
})

describe('scheduled changes', () => {
  test('that were deleted cost one attempt', async ({ world }) => {
    const { sql } = world
    const tenant_id = await newTenant(world)
    const host = openHost(world)
    await pay(host, tenant_id)
    await sql`update sandboxes set due_at = now() - interval '1 day' where tenant_id = ${tenant_id}`
    await host.performDue(tenant_id)
    expect(await stateOf(world, tenant_id)).toMatchObject({ due_at: null })
  })

  test('that fail are tried again a day later, and fail no call of their tenant', async ({ world }) => {
    const { sql } = world
    const tenant_id = await newTenant(world)
    const host = openHost(world)
    await host.perform(tenant_id, (engine) =>
      scheduleAt(engine, { kind: 'dispute', id: 'missing', due_ms: nowMs(engine) }),
    )
    expect((await pay(host, tenant_id)).status).toBe(200)
    expect(
      await sql`select from sandboxes where tenant_id = ${tenant_id} and due_at > now() + interval '23 hours'`,
    ).toHaveLength(1)
  })

  test('read no record unless one is due', async ({ world }) => {
    const tenant_id = await newTenant(world)
    await pay(openHost(world), tenant_id)
    await storeUnreadableRecord(world, tenant_id)
    await openHost(world).performDue(tenant_id)
  })

  test('do not wait for a call that has locked the sandbox', async ({ world }) => {
    const { sql } = world
    const tenant_id = await newTenant(world)
    const host = openHost(world)
    await pay(host, tenant_id)
    await sql`update sandboxes set due_at = now() - interval '1 day' where tenant_id = ${tenant_id}`
    await lock(world, tenant_id)
    await host.performDue(tenant_id)
    expect((await stateOf(world, tenant_id)).due_at).not.toBeNull()
  })
})

test('an act that was carried out, or that another worker carries out, reads no record', async ({
  world,
}) => {
  const { sql, config } = world
  const tenant_id = await newTenant(world)
  await pay(openHost(world), tenant_id)
  await storeUnreadableRecord(world, tenant_id)
  const vault = createVault(world.env['ENCRYPTION_KEY']!)
  const host = openHost(world)
  const carryOut = (id: string) =>
    carryOutAct({ host, vault, hashOf: () => '', address_key: config.ADDRESS_KEY! }, { tenant_id, id })
  const [done, locked] = [newId(), newId()]
  for (const id of [done, locked])
    await requestSandboxAct(sql, vault, tenant_id, { id, act: 'pay', reference: 'pi_1', text: null })
  await endAct(sql, tenant_id, done, null)
  await carryOut(done)
  await sql.begin(async (tx) => {
    await tx`select from sandbox_acts where tenant_id = ${tenant_id} and id = ${locked} for update`
    await carryOut(locked)
  })
  expect(await findActEnd(sql, tenant_id, locked)).toBeUndefined()
})

describe('a call', () => {
  /** A permit that is valid until `revoke` is called. */
  function revocablePermit() {
    const stop = new AbortController()
    const state = { valid: true, used: 0 }
    const permit: Permit = {
      lane: 'payments',
      deadline_ms: null,
      signal: stop.signal,
      valid: () => state.valid,
      renew: () => Promise.resolve(state.valid),
      used: () => void (state.used += 1),
    }
    return { permit, state, stop }
  }

  test('checks its permit when it has the lock', async ({ world }) => {
    const tenant_id = await newTenant(world)
    const host = openHost(world)
    await pay(host, tenant_id)
    const unlock = await lock(world, tenant_id)
    const { permit, state } = revocablePermit()
    const late = permits.run(permit, () => hold(host, tenant_id)).catch((error: unknown) => error)
    // The call has been admitted, and now waits for the lock.
    state.valid = false
    await unlock()
    expect(await late).toBeInstanceOf(NotStarted)
    expect(state.used).toBe(0)
    expect(await idsAt(host, tenant_id)).toHaveLength(1)
  })

  test('ends at its deadline, and when its lease is lost, and has no effect later', async ({ world }) => {
    const tenant_id = await newTenant(world)
    const host = openHost(world)
    const { body } = await pay(host, tenant_id)
    const unlock = await lock(world, tenant_id)
    await expect(hold(host, tenant_id, { deadline_ms: 50 })).rejects.toBeInstanceOf(NotStarted)
    const { permit, stop } = revocablePermit()
    const aborted = permits.run(permit, () => hold(host, tenant_id))
    stop.abort()
    await expect(aborted).rejects.toBeInstanceOf(NotStarted)
    await unlock()
    expect(await idsAt(host, tenant_id)).toEqual([body.id])
  })

  test('to a locked sandbox takes no connection from others for long', async ({ world }) => {
    const host = openHost(world)
    const [a, b, c] = [await newTenant(world), await newTenant(world), await newTenant(world)] as const
    for (const each of [a, b]) await pay(host, each)
    const unlock = [await lock(world, a), await lock(world, b)]
    const ended: string[] = []
    const calls = [a, b].map((each) => pay(host, each).finally(() => ended.push(each)))
    expect((await pay(host, c)).status).toBe(200)
    expect(ended).toEqual([])
    for (const each of unlock) await each()
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200])
  })
})

describe('records', () => {
  test('of a newer format are left to newer workers: the job is given back', async ({ world }) => {
    const { sql } = world
    const client = await world.clientOf({ mode: 'test' })
    const { id } = await authorizedPayment(client)
    await sql`update sandboxes set format = 2 where tenant_id = ${client.tenant_id}`
    await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)
    await expect(pay(openHost(world), client.tenant_id)).rejects.toBeInstanceOf(NotStarted)
    await eventually(async () => {
      const [job] = await sql<{ state: string; last_error: unknown }[]>`
        select state, last_error from jobs where tenant_id = ${client.tenant_id} and name = 'payment.capture'`
      expect(job!.state).toMatch(/^(ready|running)$/)
      expect(JSON.stringify(job!.last_error)).toContain('a newer version has written the sandbox')
    })
    // Changes that cannot be performed here do not keep those of other sandboxes waiting.
    await sql`update sandboxes set due_at = now() - interval '1 hour' where tenant_id = ${client.tenant_id}`
    await eventually(async () => {
      const [due] = await sql<{ is_postponed: boolean }[]>`
        select due_at > now() - interval '1 minute' as is_postponed from sandboxes where tenant_id = ${client.tenant_id}`
      expect(due!.is_postponed).toBe(true)
    })
    await sql`update sandboxes set format = 1 where tenant_id = ${client.tenant_id}`
    await paymentIn(client, id, 'captured')
  })

  test('that cannot be replayed fail the call, without an effect', async ({ world }) => {
    const tenant_id = await newTenant(world)
    await pay(openHost(world), tenant_id)
    await storeUnreadableRecord(world, tenant_id)
    const failure = await pay(openHost(world), tenant_id).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(NoAnswer)
    expect(failure).toMatchObject({ sent: false, message: expect.stringContaining('unheard_of') })
  })
})

test('acts are carried out one of each tenant at a time, the oldest first', async ({ world }) => {
  const tenants = [await newTenant(world), await newTenant(world)]
  const found = world.sql.begin(async (tx) => {
    await tx`
      insert into sandbox_acts (tenant_id, id, act, reference, created_at)
      select tenant_id, uuidv7(), 'pay', nth, now() - nth * interval '1 minute'
      from unnest(${tenants}::uuid[]) tenant_id, generate_series(1, 3) nth`
    const acts = await findOpenActs(tx, 10)
    const [oldest] = await tx<{ ids: string[] }[]>`
      select array_agg(id) as ids from sandbox_acts where reference = '3' and tenant_id = any(${tenants}::uuid[])`
    expect(new Set(acts.map(({ id }) => id))).toEqual(new Set(oldest!.ids))
    throw new Error('undo')
  })
  await expect(found).rejects.toThrow('undo')
})

test('a sandbox that cannot be pruned keeps no other waiting', async ({ world }) => {
  const { sql } = world
  const [broken, other] = [await newTenant(world), await newTenant(world)] as const
  const host = openHost(world)
  for (const each of [broken, other]) await pay(host, each)
  await sql.unsafe(`
    create or replace function fail_delete() returns trigger language plpgsql as $$
    begin
      raise exception 'the delete fails';
    end $$;
    create trigger fail_delete before delete on sandbox_records
      for each row when (old.tenant_id = '${broken}') execute function fail_delete();`)
  onTestFinished(async () => void (await sql.unsafe('drop trigger fail_delete on sandbox_records')))
  await sql`update sandbox_records set created_at = now() - interval '91 days' where tenant_id in ${sql([broken, other])}`
  await sql`update sandboxes set pruned_at = now() - interval '3 days' where tenant_id = ${broken}`
  await sql`update sandboxes set pruned_at = now() - interval '2 days' where tenant_id = ${other}`
  await expect(pruneNextSandbox(sql, 30)).rejects.toThrow('the delete fails')
  expect(await pruneNextSandbox(sql, 30)).toBe(other)
  expect(await pruneNextSandbox(sql, 30)).toBeNull()
})

test('sandboxes that could not be loaded are loaded again', async ({ world }) => {
  const { DATABASE_URL, ...incomplete } = world.config
  const config = { ...incomplete } as Config
  const log = createLog('silent', 'test')
  const contexts = createTestContexts({ config, log } as WorkerContext, [])
  onTestFinished(() => contexts.close())
  await expect(contexts.sandboxes()).rejects.toThrow('DATABASE_URL')
  Object.assign(config, { DATABASE_URL })
  const { host } = await contexts.sandboxes()
  expect((await pay(host, await newTenant(world))).status).toBe(200)
})
