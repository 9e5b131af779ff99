// The connection to the database is lost while a permit is renewed, right before a call: nothing was sent, so nothing
// is unknown, the provider has no outage, and the attempt does not count.
import { expect, onTestFinished } from 'vitest'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { connectDatabase } from '#core/pool.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { currentPermit } from '#providers/permit.ts'
import { createCallPermits } from '#workers/call-permits.ts'
import { handlerOf } from '#workers/handlers/index.ts'
import { watchProviders } from '#workers/provider-watch.ts'
import { freshKey } from '#test/client.ts'
import { lockTable } from '#test/locks.ts'
import { ASYNC, authorizedPayment, eventually } from '#test/payments.ts'
import { clientWithBalance, payOut, recipient } from '#test/payouts.ts'
import { until } from '#test/process.ts'
import { postgresUrl } from '#test/suite.ts'
import { party, startVerification } from '#test/verifications.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn()

/** Prepares a request; the returned function sends it, and returns the id of the resource. */
type Prepare = (world: World) => Promise<() => Promise<string>>

const MESSAGE = { body: 'Your code is 1234.', to: '+14155552671' }
const EMAIL = { to: ['ada@permits.example'], subject: 'Your code', text: 'It is 1234.' }

function posting(path: string, body: object): Prepare {
  return async ({ client }) =>
    async () =>
      (await client.post(path, { idempotency_key: freshKey(), ...body }, ASYNC)).body.id
}

const CALLS: [job: string, provider: string, prepare: Prepare][] = [
  [
    'payment.capture',
    'stripe',
    async ({ client }) => {
      const { id } = await authorizedPayment(client)
      return async () => (await client.post(`/v1/payments/${id}/capture`, undefined, ASYNC)).body.id
    },
  ],
  [
    'payout.create',
    'stripe',
    async (world) => {
      const client = await clientWithBalance(world, 1000)
      const recipient_id = await recipient(client)
      return async () => (await payOut(client, recipient_id, {}, ASYNC)).body.id
    },
  ],
  [
    'kyc.create',
    'stripe',
    async ({ client }) => {
      const subject = await party(client, 'customer')
      return async () => (await startVerification(client, subject, ASYNC)).body.id
    },
  ],
  ['message.send_sms', 'twilio', posting('/v1/messages/sms', MESSAGE)],
  ['message.send_email', 'smtp', posting('/v1/messages/email', EMAIL)],
  ['ai_task.run', 'ai', posting('/v1/ai/tasks', { kind: 'generate', input: { prompt: 'Hello' } })],
]

/** Whether sessions wait for a lock with this statement, and all of them have waited for `for_ms`. */
async function areWaiting(sql: Sql, statement: string, for_ms = 0): Promise<boolean> {
  const [row] = await sql<{ are_waiting: boolean | null }[]>`
    select bool_and(query_start < now() - ${for_ms} * interval '1 millisecond') as are_waiting
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like ${statement}`
  return row?.are_waiting === true
}

/**
 * Makes a request whose job is claimed with a permit that has expired, and ends the connection that renews it. Nothing
 * is claimed until `release` is called.
 */
async function loseConnectionBeforeCall(world: World, prepare: Prepare) {
  for (;;) {
    const made = await tryToLoseConnection(world, prepare)
    if (made !== undefined) return made
  }
}

/** Undefined if a claim came too late for the job, or so late that its permit was valid, as on a busy machine. */
async function tryToLoseConnection(world: World, prepare: Prepare) {
  const { sql } = world
  const request = await prepare(world)
  await world.drain()
  // Claims and permits read the pauses.
  const claim_lock = lockTable(sql, 'pauses')
  await claim_lock.locked
  const id = await request()
  // The permit's time begins with the claim.
  await until('a claim has waited for longer than a permit is valid', async () =>
    areWaiting(sql, '%row_number() over (partition by j.queue, j.tenant_id%', 1000),
  )
  // The second lock is granted right after the claim.
  const permit_lock = lockTable(sql, 'pauses')
  await until('the second lock waits', async () => areWaiting(sql, 'lock table "pauses"%'))
  await claim_lock.unlock()
  await permit_lock.locked
  const connection = await until('the connection of the permit is ended, or is not used', async () => {
    const ended = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-worker-leases' and wait_event_type = 'Lock'`
    if (ended.count > 0) return 'ended'
    const running = await sql`select from jobs where resource_id = ${id} and state = 'running'`
    return running.count === 0 && 'unused'
  })
  if (connection === 'ended') return { id, release: permit_lock.unlock }
  await permit_lock.unlock()
  return undefined
}

async function readJob({ sql }: World, resource_id: string, name: string) {
  const [job] = await sql`
    select state, outcome, in_doubt, first_sent_at, max_attempts - attempt as attempts_left, failing_since,
      last_error ->> 'code' as code, (select status from messages where id = resource_id) as message_status, array(
        select outcome || ' ' || coalesce(error ->> 'code', '') from job_attempts a where a.job_id = j.id) as attempts
    from jobs j where resource_id = ${resource_id} and name = ${name}`
  return job
}

/** The number of calls to a provider with each outcome. */
async function countCalls(provider: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { metricName, labels, value } of (await metrics.providerCall.get()).values)
    if (metricName?.endsWith('_count') === true && labels.provider === provider)
      counts[String(labels.outcome)] = (counts[String(labels.outcome)] ?? 0) + value
  return counts
}

test.for(CALLS)(
  'nothing is sent by %s if the connection is lost before the call to %s, and the attempt does not count',
  async ([job, provider, prepare], { world }) => {
    const [failed_before, before] = [await findFailures(world), await countCalls(provider)]
    const { id, release } = await loseConnectionBeforeCall(world, prepare)
    await eventually(async () =>
      expect(await readJob(world, id, job)).toMatchObject({
        state: 'ready',
        in_doubt: false,
        first_sent_at: null,
        message_status: job.startsWith('message.') ? 'queued' : null,
        code: 'database_unavailable',
        attempts: ['returned database_unavailable'],
        // A single lost connection is no failure of the job.
        failing_since: null,
      }),
    )
    await release()
    await world.drain()
    const { max_attempts } = handlerOf(job).definition
    expect(await readJob(world, id, job)).toMatchObject({ outcome: 'done', attempts_left: max_attempts })
    const { done = 0, ...others } = await countCalls(provider)
    const { done: done_before = 0, ...others_before } = before
    expect(others).toEqual(others_before)
    expect(done).toBeGreaterThan(done_before)
    expect(await findFailures(world)).toEqual(failed_before)
  },
)

async function findFailures({ sql }: World) {
  return [...(await sql`select provider, outcome, count from provider_failures order by 1, 2, 3`)]
}

test('an attempt that waits for the database keeps no call of a provider open', async ({ world }) => {
  const sql = connectDatabase(await postgresUrl(), { max: 1, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const watch = watchProviders({ log: createLog('silent', 'test'), config: world.config })
  const order: string[] = []
  const sent: typeof watch.sent = (...call) => {
    const end = watch.sent(...call)
    return () => {
      order.push('the call has ended')
      end()
    }
  }
  const permits = createCallPermits(
    world.sql,
    () => ({ ...watch, sent }),
    () => false,
  )
  const now = performance.now()
  const job = { name: 'payment.capture', queue: 'payments' } as ClaimedJob
  await permits.run(
    { job, requested_at: now, claimed_at: now },
    { signal: new AbortController().signal, lostFor: () => 0, callSent: () => {}, release: () => {} },
    async () => {
      currentPermit().used()
      await sql`select pg_terminate_backend(pg_backend_pid())`
    },
    async (_error, unsent) => void order.push(`the attempt is given back, unsent: ${unsent}`),
  )
  expect(order.slice(0, 2)).toEqual(['the call has ended', 'the attempt is given back, unsent: false'])
})
