// The answer of a call is settled after an outage of the database that was longer than the lease of its job.
import { expect, onTestFinished } from 'vitest'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { claimJobs } from '#domain/jobs/claim.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import { freshKey } from '#test/client.ts'
import { readMessageState } from '#test/messages.ts'
import { startInThisProcess } from '#test/parts.ts'
import { ASYNC, eventually } from '#test/payments.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ parts: ['api', 'webhooks'], notifications: false })
const TIMEOUT_MS = 90_000

/** Starts workers that reach the database through a proxy. */
async function startWorkers(world: World, count: number): Promise<Proxy> {
  const wire = await startProxy(world.env.DATABASE_URL!)
  onTestFinished(() => wire.close())
  for (let nth = 0; nth < count; nth++) {
    const env = { ...world.env, DATABASE_URL: wire.url }
    const worker = await startInThisProcess('worker', env, createLog('silent', 'test'))
    onTestFinished(() => worker.close())
  }
  return wire
}

/** Sends an email that its server accepts after the outage began. Returns the ids of the message and its job. */
async function acceptDuringOutage(world: World, to: string, beginOutage: () => void) {
  const hold = await world
    .provider('smtp')
    .fault({ match: { method: 'DOT' }, times: 1, fault: { hold: 'after' } })
  const content = { subject: 'Order', text: 'It is on its way.', idempotency_key: freshKey() }
  const { body } = await world.client.post('/v1/messages/email', { to: [to], ...content }, ASYNC)
  await hold.hit()
  const [job] = await world.sql<{ id: string }[]>`
    select id from jobs where resource_id = ${body.id} and state = 'running'`
  beginOutage()
  await hold.remove()
  return { message_id: body.id as string, job_id: job!.id }
}

/** Waits until the lease of the job has been expired for 4 s, so that the database has been away for 8 s or so. */
async function awaitExpiry({ sql }: World, job_id: string): Promise<void> {
  await eventually(async () => {
    const [job] = await sql`
      select state, lease_until < now() - interval '4 seconds' as is_old from jobs where id = ${job_id}`
    expect(job).toEqual({ state: 'running', is_old: true })
  }, 30_000)
}

const emailsTo = async (world: World, to: string): Promise<unknown[]> =>
  await world.provider('smtp').control('GET', `/messages?to=${encodeURIComponent(to)}`)

async function countFenced(): Promise<number> {
  return (await metrics.fenced.get()).values.reduce((sum, { value }) => sum + value, 0)
}

const setAway = {
  'refuses connections': (wire: Proxy, is_away: boolean) => wire.refuse(is_away),
  'does not answer': (wire: Proxy, is_away: boolean) => wire.pause(is_away),
}

test.for([
  [1, 'refuses connections'],
  [6, 'refuses connections'],
  [6, 'does not answer'],
] as const)(
  'with workers: %i, an email that was accepted while the database %s for 8 s is sent once',
  { timeout: TIMEOUT_MS },
  async ([count, how], { world }) => {
    const to = `accepted-${count}-${how.split(' ')[0]}@example.com`
    const wire = await startWorkers(world, count)
    const { message_id, job_id } = await acceptDuringOutage(world, to, () => setAway[how](wire, true))
    await awaitExpiry(world, job_id)
    setAway[how](wire, false)
    await eventually(async () =>
      expect(await readMessageState(world, message_id)).toMatchObject({
        status: 'sent',
        job: 'succeeded',
        recipients: ['accepted'],
      }),
    )
    const [job] = await world.sql`
      select j.attempt, j.in_doubt, (select count(*) from job_attempts a where a.job_id = j.id) as unfinished
      from jobs j where j.id = ${job_id}`
    expect(job).toEqual({ attempt: 1, in_doubt: false, unfinished: 0 })
    expect(await emailsTo(world, to)).toHaveLength(1)
  },
)

test(
  'if another worker has claimed the job during the outage, the late answer changes nothing, and the email is unknown',
  { timeout: TIMEOUT_MS },
  async ({ world }) => {
    const { sql } = world
    const to = 'claimed@example.com'
    const wire = await startWorkers(world, 1)
    const { message_id, job_id } = await acceptDuringOutage(world, to, () => wire.refuse(true))
    await awaitExpiry(world, job_id)
    const [claimed] = await claimJobs(sql, [job_id], { worker: 'other', names: JOB_NAMES })
    expect(claimed!.call).toMatchObject({ in_doubt: true })
    await sql`update jobs set lease_until = now() + interval '1 minute' where id = ${job_id}`
    const before = await countFenced()
    wire.refuse(false)
    await eventually(async () => expect(await countFenced()).toBe(before + 1))
    const [job] = await sql`select state, attempt, lease_token, in_doubt from jobs where id = ${job_id}`
    expect(job).toEqual({ state: 'running', attempt: 2, lease_token: claimed!.lease_token, in_doubt: true })
    expect(await readMessageState(world, message_id)).toMatchObject({ status: 'sending' })
    // The other worker dies.
    await sql`update jobs set lease_until = now() where id = ${job_id}`
    await eventually(async () =>
      expect(await readMessageState(world, message_id)).toMatchObject({ status: 'unknown', job: 'unknown' }),
    )
    expect(await emailsTo(world, to)).toHaveLength(1)
  },
)
