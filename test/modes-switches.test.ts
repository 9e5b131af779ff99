// Test mode and switches of the database: a sandbox is part of the database, and has lost the same changes.
import { expect, onTestFinished } from 'vitest'
import { newId } from '#core/ids.ts'
import { isHeld } from '#domain/switches/holds.ts'
import { jobAwaitsOptOuts } from '#domain/switches/opt-outs.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { ASYNC, eventually } from '#test/payments.ts'
import { accountOf, fund, payOut, payoutIn, recipient } from '#test/payouts.ts'
import { promote } from '#test/switches.ts'
import { testIn } from '#test/world.ts'

const test = testIn()

test('without a switch, no tenant of a waiting SMS is looked up', async ({ world }) => {
  const { sql, tenant_id } = world
  const id = newId()
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at, operation, generation, key, request)
    values (${id}, ${tenant_id}, 'messages', 'message.send_sms', '{}', 1, 'infinity', 'send_sms', 1, ${id}, '{}')`
  // As in `findHeldJobs`.
  const plan = await sql<{ 'QUERY PLAN': string }[]>`
    explain (analyze, costs off, timing off, summary off)
    select j.queue from jobs j where j.finished_at is null and (${isHeld(sql)} or ${jobAwaitsOptOuts(sql)})`
  await sql`delete from jobs where id = ${id}`
  const lines = plan.map((row) => row['QUERY PLAN'])
  const lookups = lines.filter((line) => line.includes('on tenants'))
  expect(lookups.length).toBeGreaterThan(0)
  expect(lookups.filter((line) => !line.includes('never executed'))).toEqual([])
})

test('a payout of a twin that was open at a failover is looked up in its sandbox, and is paid', async ({
  world,
}) => {
  const { sql } = world
  const twin = await world.clientOf({ tenant: 'acme', mode: 'test' })
  await fund(twin, 500)
  const recipient_id = await recipient(twin)
  const paused = { queue: 'payouts' }
  await pauseJobs(sql, paused)
  onTestFinished(() => resumeJobs(sql, paused))
  const { id } = (await payOut(twin, recipient_id, {}, ASYNC)).body
  await promote(world)
  const jobOf = async () => {
    const [job] = await sql<{ state: string; sent_with: string | null }[]>`
      select state, sent_with, last_error ->> 'message' as reason from jobs where resource_id = ${id}`
    return job!
  }
  await eventually(async () => expect(await jobOf()).toMatchObject({ sent_with: '*' }))
  await resumeJobs(sql, paused)
  // It is looked up. An hour later, the sandbox still does not list it: it was never sent.
  await eventually(async () => {
    const passed = await sql`
      update jobs set last_sent_at = last_sent_at - interval '1 hour', run_at = now(),
        absent_since = now() - interval '10 minutes'
      where resource_id = ${id} and state = 'unknown'`
    expect([passed.count, await jobOf()]).toMatchObject([1, { state: 'unknown' }])
  })
  await payoutIn(twin, id, 'paid')
  expect(await accountOf(world, twin.tenant_id)).toEqual({ balance: 400, reserved: 0 })
})
