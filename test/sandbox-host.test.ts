// The host of sandboxes: one transaction for each call, several hosts, limits, and what happens when a commit fails.
import { expect, onTestFinished } from 'vitest'
import { lockSandbox } from '#domain/sandboxes/records.ts'
import { pruneNextSandbox } from '#domain/sandboxes/retention.ts'
import { NoAnswer } from '#providers/http.ts'
import { freshKey } from '#test/client.ts'
import { capturedPayment, eventually } from '#test/payments.ts'
import { call, hold, idsAt, newTenant, openHost, pay } from '#test/sandbox-hosts.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ notifications: false, env: { RECONCILE_EVERY_S: '3600' } })

async function recordsOf({ sql }: World, tenant_id: string, kind: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::integer as count from sandbox_records where tenant_id = ${tenant_id} and kind = ${kind}`
  return row!.count
}

test('two hosts take turns, see the objects of each other, and replay answers of each other byte for byte', async ({
  world,
}) => {
  const tenant_id = await newTenant(world)
  const hosts = [openHost(world), openHost(world)] as const
  const key = freshKey()
  const first = await pay(hosts[0], tenant_id, key)
  const replay = await pay(hosts[1], tenant_id, key)
  expect([first.status, replay.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(JSON.stringify(replay.body)).toBe(JSON.stringify(first.body))
  const created = await Promise.all(
    Array.from({ length: 40 }, (_, nth) => pay(hosts[nth % 2 === 0 ? 0 : 1], tenant_id)),
  )
  const ids = [first, ...created].map(({ body }) => body.id as string).toSorted()
  for (const host of hosts) expect((await idsAt(host, tenant_id)).toSorted()).toEqual(ids)
  expect((await idsAt(openHost(world), tenant_id)).toSorted()).toEqual(ids)
})

test('a call whose commit fails has no effect, and the next one under its key moves the money once', async ({
  world,
}) => {
  const { sql } = world
  const tenant_id = await newTenant(world)
  const host = openHost(world)
  const kept = await pay(host, tenant_id)
  await failNextCommit(world, tenant_id)
  const key = freshKey()
  const failure = await pay(host, tenant_id, key).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(NoAnswer)
  expect(failure).toMatchObject({ sent: true })
  expect(await idsAt(host, tenant_id)).toEqual([kept.body.id])
  const paid = await pay(host, tenant_id, key)
  expect(paid.headers['idempotent-replayed']).toBeUndefined()
  expect(await idsAt(host, tenant_id)).toEqual([paid.body.id, kept.body.id])
  const notified = await sql`
    select object_id from notifications where account like 'acct_sandbox_%' and object_id = ${paid.body.id}`
  expect(notified.length).toBeGreaterThan(0)
  expect(await recordsOf(world, tenant_id, 'answer')).toBe(2)
})

test('a payment whose sandbox loses a commit is captured once', async ({ world }) => {
  const client = await world.clientOf({ mode: 'test' })
  await failNextCommit(world, client.tenant_id)
  const payment = await capturedPayment(client)
  expect(payment).toMatchObject({ status: 'captured' })
  const [row] = await world.sql<{ charges: number; crashes: boolean }[]>`
    select count(distinct object)::integer as charges,
      (select is_called from sandbox_crashes) as crashes
    from sandbox_records
    where tenant_id = ${client.tenant_id} and kind = 'version' and line -> 'version' ->> 'object' = 'charge'`
  expect(row).toEqual({ charges: 1, crashes: true })
})

/** The next commit that writes to the sandbox of this tenant fails. */
async function failNextCommit({ sql }: World, tenant_id: string): Promise<void> {
  await sql.unsafe(`
    drop sequence if exists sandbox_crashes cascade;
    create sequence sandbox_crashes;
    grant usage on sequence sandbox_crashes to public;
    create or replace function crash_once() returns trigger language plpgsql security definer as $$
    begin
      if nextval('sandbox_crashes') = 1 then raise exception 'the commit fails'; end if;
      return null;
    end $$;
    drop trigger if exists crash on sandbox_records;
    create constraint trigger crash after insert on sandbox_records deferrable initially deferred
      for each row when (new.tenant_id = '${tenant_id}' and new.kind = 'answer') execute function crash_once();`)
}

test('a live tenant has no sandbox', async ({ world }) => {
  const host = openHost(world)
  await expect(pay(host, world.tenant_id)).rejects.toThrow('is not in test mode')
  await expect(world.sql.begin((tx) => lockSandbox(tx, world.tenant_id))).rejects.toThrow('not in test mode')
})

test('a full sandbox drops its oldest objects for which nothing is expected any more', async ({ world }) => {
  const tenant_id = await newTenant(world)
  const host = openHost(world, { max_bytes: 60_000 })
  const held = await hold(host, tenant_id)
  const created: string[] = []
  for (let nth = 0; nth < 30; nth++) created.push((await pay(host, tenant_id)).body.id)
  const left = await idsAt(host, tenant_id)
  expect(left).toContain(held.body.id)
  expect(left).toContain(created.at(-1))
  expect(left).not.toContain(created[0])
  const [state] = await world.sql<{ bytes: number; sum: number }[]>`
    select bytes, (select sum(r.bytes)::bigint from sandbox_records r where r.tenant_id = s.tenant_id) as sum
    from sandboxes s where tenant_id = ${tenant_id}`
  expect(state!.bytes).toBe(state!.sum)
  expect(state!.bytes).toBeLessThanOrEqual(60_000)
  const captured = await call(host, tenant_id, 'POST', `/v1/payment_intents/${held.body.id}/capture`)
  expect(captured.body).toMatchObject({ status: 'succeeded' })
  expect((await idsAt(openHost(world), tenant_id)).toSorted()).toEqual(
    (await idsAt(host, tenant_id)).toSorted(),
  )
})

test('old records are deleted, and an engine in memory forgets them', async ({ world }) => {
  const { sql } = world
  const tenant_id = await newTenant(world)
  const host = openHost(world)
  const old = await pay(host, tenant_id)
  await sql`update sandbox_records set created_at = now() - interval '91 days' where tenant_id = ${tenant_id}`
  const recent = await pay(host, tenant_id)
  await sql`update sandboxes set pruned_at = now() - interval '2 days' where tenant_id = ${tenant_id}`
  expect(await pruneNextSandbox(sql, 30)).toBe(tenant_id)
  expect(await idsAt(host, tenant_id)).toEqual([recent.body.id])
  const missing = await call(host, tenant_id, 'GET', `/v1/payment_intents/${old.body.id}`)
  expect(missing.status).toBe(404)
})

test('a database that went back in time takes its sandboxes with it', async ({ world }) => {
  const { sql } = world
  const tenant_id = await newTenant(world)
  const host = openHost(world)
  const kept = await pay(host, tenant_id)
  const [before] = await sql<{ last_position: number; bytes: number }[]>`
    select last_position, bytes from sandboxes where tenant_id = ${tenant_id}`
  const lost = await pay(host, tenant_id)
  // As a restore does: the later rows are gone, and a switch is recorded.
  await sql`delete from sandbox_records where tenant_id = ${tenant_id} and position > ${before!.last_position}`
  await sql`update sandboxes set ${sql(before!)} where tenant_id = ${tenant_id}`
  const other = await pay(openHost(world), tenant_id)
  await sql`update lineage set last_switch = last_switch + 1`
  onTestFinished(async () => void (await sql`update lineage set last_switch = last_switch - 1`))
  expect(await idsAt(host, tenant_id)).toEqual([other.body.id, kept.body.id])
  expect((await call(host, tenant_id, 'GET', `/v1/payment_intents/${lost.body.id}`)).status).toBe(404)
})

test('a scheduled change is performed once by whichever host comes first', async ({ world }) => {
  const tenant_id = await newTenant(world)
  const hosts = [openHost(world), openHost(world)]
  const payout = await call(hosts[0]!, tenant_id, 'POST', '/v1/payouts', {
    params: { amount: '100', currency: 'usd' },
    key: freshKey(),
  })
  await eventually(async () => {
    await Promise.all(hosts.map((host) => host.performDue(tenant_id)))
    const { body } = await call(hosts[1]!, tenant_id, 'GET', `/v1/payouts/${payout.body.id}`)
    expect(body).toMatchObject({ status: 'paid' })
  })
  const events = await call(hosts[0]!, tenant_id, 'GET', '/v1/events?type=payout.paid')
  expect(events.body.data).toHaveLength(1)
})

test('the sandbox of a deleted tenant is deleted with it, and no tenant with open jobs is deleted', async ({
  world,
}) => {
  const { sql } = world
  const [tenant] = await sql<{ id: string }[]>`
    insert into tenants (id, slug, name, mode, twin_id)
    select uuidv7(), slug, name, 'test', id from tenants where id = ${world.tenant_id} returning id`
  const host = openHost(world)
  await pay(host, tenant!.id)
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    values (uuidv7(), ${tenant!.id}, 'payments', 'payment.capture', '{}', 25, 'infinity')`
  const remove = () => sql`delete from tenants where id = ${tenant!.id}`
  await expect(remove()).rejects.toThrow('has open jobs')
  await sql`delete from jobs where tenant_id = ${tenant!.id}`
  await remove()
  expect(await recordsOf(world, tenant!.id, 'version')).toBe(0)
  await expect(pay(host, tenant!.id)).rejects.toThrow('is not in test mode')
})
