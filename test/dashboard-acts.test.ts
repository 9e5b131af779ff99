// Operator acts of the dashboard: workers carry out each act once for each job, even after a crash.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Sql } from '#core/db.ts'
import { newIdsInOrder } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import { discardJob } from '#domain/job-acts/act.ts'
import { findJob } from '#domain/job-acts/find.ts'
import { findPauses, pauseJobs, resumeJobs } from '#domain/jobs/pauses.ts'
import {
  requestAct,
  cancelAct,
  findAct,
  findActItems,
  deleteOldActs,
  listActs,
  type RequestedAct,
  type OperatorAct,
} from '#domain/operator-acts/act.ts'
import { carryOutNextStep } from '#domain/operator-acts/carry-out.ts'
import { findProcesses, deleteEndedProcesses } from '#domain/operations/processes.ts'
import { findSchedules } from '#domain/operations/schedules.ts'
import { findAuditEntries } from '#domain/people/audit-log.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { until } from '#test/process.ts'
import { urlAs } from '#test/users.ts'

let deployment: Deployment
/** A connection with the database role of the dashboard. */
let dashboard: Sql
beforeAll(async () => {
  deployment = await createDeployment({ queue: 'redis' })
  dashboard = connectDatabase(urlAs('dashboard', deployment.env['DATABASE_URL']!), {
    max: 2,
    application_name: 'test-dashboard',
  })
})
afterAll(async () => {
  await dashboard?.end()
  await deployment?.close()
})

/** Inserts parked jobs that no version performs. Returns their ids in order. */
async function insertParkedJobs(count: number, queue: string, run_at = 'infinity'): Promise<string[]> {
  const ids = newIdsInOrder(count)
  await deployment.sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, run_at)
    select id, ${deployment.tenant_id}, ${queue}, 'nobody.knows', '{}', 1, ${run_at} from unnest(${ids}::uuid[]) id`
  return ids
}

async function request(act: RequestedAct): Promise<string> {
  return await requestAct(dashboard, act, { actor: 'ada@example.com', matched: 1 })
}

async function awaitAct(id: string, expected: Partial<OperatorAct>): Promise<OperatorAct> {
  let act: OperatorAct | undefined
  await until(`the act is ${JSON.stringify(expected)}`, async () => {
    act = await findAct(dashboard, id)
    const now = new Map<string, unknown>(Object.entries(act ?? {}))
    return Object.entries(expected).every(([name, value]) => now.get(name) === value)
  })
  return act!
}

/** Locks the row of a job. `release` releases the lock. */
async function lockJob(id: string): Promise<{ release(): Promise<void> }> {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let confirmLock = () => {}
  const locked = new Promise<void>((resolve) => {
    confirmLock = resolve
  })
  const transaction = deployment.sql.begin(async (tx) => {
    await tx`select from jobs where id = ${id} for update`
    confirmLock()
    await released
  })
  await locked
  return {
    async release() {
      release()
      await transaction
    },
  }
}

test('a step of an act that takes long ends before all its jobs, and the next step continues', async () => {
  await insertParkedJobs(3, 'ai')
  const id = await request({ act: 'retry', filter: { state: 'parked', queue: 'ai' }, reason: 'slowly' })
  const url = urlAs('worker', deployment.env['DATABASE_URL']!)
  const worker = connectDatabase(url, { max: 1, application_name: 'test-worker' })
  onTestFinished(() => worker.end())
  await carryOutNextStep(worker)
  for (const done of [1, 2, 3]) {
    await carryOutNextStep(worker, { limit_ms: 0 })
    expect(await findAct(dashboard, id)).toMatchObject({ done, state: done < 3 ? 'running' : 'done' })
  }
})

test('an act retries each of 300 parked jobs once, even if the worker is killed during the act', async () => {
  const ids = await insertParkedJobs(300, 'compliance')
  const lock = await lockJob(ids[150]!)
  const worker = await deployment.startWorker()
  const id = await request({
    act: 'retry',
    filter: { state: 'parked', queue: 'compliance' },
    reason: 'the provider is back',
  })
  expect(await awaitAct(id, { done: 100 })).toMatchObject({ state: 'running', found: 300, more: false })

  // A second act continues while the first act is blocked.
  const [other] = await insertParkedJobs(1, 'ai')
  await awaitAct(await request({ act: 'retry', job_id: other!, reason: 'alone' }), { state: 'done', done: 1 })

  await worker.end()
  await lock.release()
  await deployment.startWorker()
  expect(await awaitAct(id, { state: 'done' })).toMatchObject({
    done: 300,
    refused: 0,
    actor: 'ada@example.com',
  })
  const [counts] = await deployment.sql`
    select count(*)::integer as acts, count(distinct job_id)::integer as jobs from job_acts
    where job_id = any(${ids}::uuid[]) and act = 'retry' and actor = 'ada@example.com' and reason = 'the provider is back'`
  expect(counts).toEqual({ acts: 300, jobs: 300 })
  const first = await findActItems(dashboard, id, { limit: 200 })
  const second = await findActItems(dashboard, id, { limit: 200, after: first.at(-1)!.job_id })
  expect([...first, ...second].map(({ job_id }) => job_id)).toEqual(ids)
  expect(second.at(-1)).toMatchObject({ before: 'ready', after: 'ready', refused: null })
  expect((await listActs(dashboard, { limit: 1 })).map((act) => act.act)).toEqual(['retry'])
  expect((await listActs(dashboard, { limit: 5, before: id })).map((act) => act.id)).not.toContain(id)
})

test('a canceled act stops, and its completed items stay completed', async () => {
  const ids = await insertParkedJobs(300, 'messages')
  const lock = await lockJob(ids[150]!)
  const id = await request({
    act: 'discard',
    filter: { state: 'open', queue: 'messages' },
    reason: 'by mistake',
  })
  await awaitAct(id, { done: 100 })
  expect(await cancelAct(dashboard, id, 'grace@example.com')).toBe(true)
  await lock.release()
  const act = await awaitAct(id, { state: 'canceled' })
  expect(act).toMatchObject({ found: 300, canceled_by: 'grace@example.com' })
  expect(act.done).toBeLessThan(300)
  expect(await findActItems(dashboard, id, { outcome: 'waiting', limit: 300 })).toHaveLength(300 - act.done)
  expect((await findJob(dashboard, ids[299]!))!.state).toBe('ready')
  expect(await cancelAct(dashboard, id, 'grace@example.com')).toBe(false)
})

test('an act refuses jobs that no longer match the filter of the act', async () => {
  const ids = await insertParkedJobs(150, 'deliveries')
  const lock = await lockJob(ids[100]!)
  const id = await request({
    act: 'discard',
    filter: { state: 'parked', queue: 'deliveries' },
    reason: 'old',
  })
  await awaitAct(id, { done: 100 })
  // Another operator reschedules the last job before the act reaches it.
  await deployment.sql`update jobs set run_at = '2100-01-01' where id = ${ids[149]!}`
  await lock.release()
  expect(await awaitAct(id, { state: 'done' })).toMatchObject({ done: 149, refused: 1 })
  const refused = await findActItems(dashboard, id, { outcome: 'refused', limit: 2 })
  expect(refused).toMatchObject([{ job_id: ids[149]!, refused: 'The job no longer matches the filter.' }])
  expect((await findJob(dashboard, ids[149]!))!.state).toBe('ready')
})

test('a retry does not reopen jobs that were discarded after its request', async () => {
  const ids = await insertParkedJobs(120, 'notifications')
  const lock = await lockJob(ids[100]!)
  const id = await request({
    act: 'retry',
    filter: { state: 'open', queue: 'notifications' },
    reason: 'they wait',
  })
  await awaitAct(id, { done: 100 })
  await discardJob(deployment.sql, { job_id: ids[119]!, actor: 'bob@example.com', reason: 'must never run' })
  await lock.release()
  expect(await awaitAct(id, { state: 'done' })).toMatchObject({ done: 119, refused: 1 })
  expect((await findJob(dashboard, ids[119]!))!.state).toBe('discarded')
})

test('the act "run now" makes a scheduled job due, and refuses other jobs with a reason', async () => {
  const [later] = await insertParkedJobs(1, 'payouts', '2100-01-01')
  const [is_parked] = await insertParkedJobs(1, 'payouts')
  const [due] = await insertParkedJobs(1, 'payouts', '2020-01-01')
  const [running] = await insertParkedJobs(1, 'payouts')
  await deployment.sql`
    update jobs set state = 'running', lease_token = gen_random_uuid(), lease_until = now() + interval '1 hour', worker = 'w',
      started_at = now() where id = ${running!}`
  const id = await request({
    act: 'run_now',
    filter: { state: 'open', queue: 'payouts' },
    reason: 'they wait',
  })
  expect(await awaitAct(id, { state: 'done' })).toMatchObject({ found: 4, done: 1, refused: 3 })
  const refused = await findActItems(dashboard, id, { outcome: 'refused', limit: 10 })
  expect(Object.fromEntries(refused.map((item) => [item.job_id, item.refused]))).toEqual({
    [is_parked!]: 'The job is parked: retry the job instead.',
    [due!]: 'The job is already due.',
    [running!]: 'The job is running: try again later.',
  })
  const job = (await findJob(dashboard, later!))!
  expect(job).toMatchObject({ attempt: 0, acts: [{ act: 'run_now', actor: 'ada@example.com' }] })
  expect(Date.parse(job.run_at!)).toBeLessThanOrEqual(Date.now() + 1_000)

  const unknown_job_act = await request({ act: 'retry', job_id: newIdsInOrder(1)[0]!, reason: 'mistyped' })
  await awaitAct(unknown_job_act, { state: 'done', refused: 1 })
  expect(await findActItems(dashboard, unknown_job_act, { limit: 1 })).toMatchObject([
    { refused: 'There is no such job.' },
  ])
})

test('a retry refuses scheduled jobs and the jobs of canceled deliveries', async () => {
  const { sql, tenant_id } = deployment
  const [later] = await insertParkedJobs(1, 'ai', '2100-01-01')
  const [is_parked] = await insertParkedJobs(1, 'ai')
  const [retrying] = await insertParkedJobs(1, 'ai', '2100-01-01')
  const [unknown] = await insertParkedJobs(1, 'ai', '2100-01-01')
  await sql`update jobs set attempt = 1 where id = ${retrying!}`
  await sql`update jobs set state = 'unknown', unknown_since = now() where id = ${unknown!}`
  const id = await request({ act: 'retry', filter: { state: 'open', queue: 'ai' }, reason: 'they are back' })
  await awaitAct(id, { state: 'done' })
  const items = await findActItems(dashboard, id, { limit: 200 })
  const refusals = new Map(items.map(({ job_id, refused }) => [job_id, refused]))
  expect([later, is_parked, retrying, unknown].map((job_id) => refusals.get(job_id!))).toEqual([
    'The job is scheduled for later: Run now makes it due.',
    null,
    null,
    null,
  ])
  expect((await findJob(dashboard, later!))!.run_at).toMatch(/^2100/)

  const [ended] = newIdsInOrder(1)
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, finished_at)
    values (${ended!}, ${tenant_id}, 'deliveries', 'webhook_endpoint.deliver', '{}', 1, 'discarded', now())`
  const act_id = await request({ act: 'retry', job_id: ended!, reason: 'it was wanted' })
  await awaitAct(act_id, { state: 'done', refused: 1 })
  expect(await findActItems(dashboard, act_id, { limit: 1 })).toMatchObject([
    { before: 'discarded', refused: 'The delivery failed when its job was discarded: replay the delivery.' },
  ])
})

test('the number of acts that wait is limited', async () => {
  await deployment.killWorkers()
  const requestRetry = () => request({ act: 'retry', job_id: newIdsInOrder(1)[0]!, reason: 'again' })
  const acts = await Promise.all(Array.from({ length: 20 }, requestRetry))
  expect(new Set(acts).size).toBe(20)
  await expect(requestRetry()).rejects.toMatchObject({ code: 'rate_limited' })
})

test('the dashboard lists processes and schedules, and the audit log contains pauses from the dashboard', async () => {
  await deployment.startWorker()
  await until('a scheduled run is finished', async () =>
    (await findSchedules(dashboard)).some((each) => each.worker !== null && each.duration_ms !== null),
  )
  const processes = await findProcesses(dashboard)
  expect(processes.at(-1)).toMatchObject({
    name: 'worker',
    state: 'up',
    queues: expect.arrayContaining(['ai']),
  })
  // A killed worker sends no heartbeats: the dashboard shows the worker as late, then as gone.
  await deployment.sql`update processes set seen_at = now() - interval '31 seconds'`
  expect((await findProcesses(dashboard))[0]!.state).toBe('late')
  await deployment.sql`update processes set seen_at = now() - interval '2 minutes'`
  expect((await findProcesses(dashboard))[0]!.state).toBe('gone')
  const pause = { queue: 'ai', actor: 'ada@example.com', reason: 'too dear' }
  const [ada] = await deployment.sql`
    insert into users (id, name, email, email_verified) values (gen_random_uuid(), 'Ada', ${pause.actor}, true) returning id`
  const by = { tenant_id: null, actor_id: ada!['id'], request_id: null, address: null }
  const paused = await pauseJobs(dashboard, pause, by)
  expect(await pauseJobs(dashboard, pause, by)).toBeUndefined()
  expect(await findPauses(dashboard)).toMatchObject([{ ...pause, tenant: null }])
  const resumed = await resumeJobs(dashboard, { queue: 'ai' }, by)
  expect(await resumeJobs(dashboard, { queue: 'ai' }, by)).toBeUndefined()
  const of_queue = { actor: pause.actor, subject: 'queue', subject_id: 'ai', expects_outcome: false }
  const { entries } = await findAuditEntries(dashboard, { tenant_id: null, limit: 2 })
  expect(entries).toMatchObject([
    { ...of_queue, seq: resumed, action: 'jobs.resume' },
    { ...of_queue, seq: paused, action: 'jobs.pause', details: { queue: 'ai', reason: 'too dear' } },
  ])
})

test('a process that shuts down gracefully disappears from the list', async () => {
  const worker = await deployment.startWorker()
  const isListed = async () => (await findProcesses(dashboard)).some(({ pid }) => pid === worker.pid)
  await until('the process is listed', isListed)
  await worker.end('SIGTERM')
  expect(await isListed()).toBe(false)
})

test('acts and their items are deleted 90 days after the end of the act, and processes after a day without a heartbeat', async () => {
  const { sql, env } = deployment
  const worker = connectDatabase(urlAs('worker', env['DATABASE_URL']!), {
    max: 1,
    application_name: 'test-worker',
  })
  onTestFinished(() => worker.end())
  const [old, recent, open] = newIdsInOrder(3)
  await sql`
    insert into operator_acts (id, act, job_id, actor, reason, matched, created_at, state, finished_at)
    select id::uuid, 'retry', id::uuid, 'ada@example.com', 'long ago', 1, now() - interval '100 days', state, now() - ended::interval
    from (values (${old!}, 'done', '91 days'), (${recent!}, 'canceled', '89 days'), (${open!}, 'running', null))
      a(id, state, ended)`
  await sql`insert into operator_act_items (act_id, job_id) select id, job_id from operator_acts where reason = 'long ago'`
  expect(await deleteOldActs(worker, 10)).toBe(1)
  const left = await sql<{ act_id: string }[]>`
    select act_id from operator_acts a join operator_act_items i on i.act_id = a.id where reason = 'long ago' order by 1`
  expect(left.map(({ act_id }) => act_id)).toEqual([recent, open])
  expect(await sql`select from operator_act_items where act_id = ${old!}`).toHaveLength(0)

  await sql`
    insert into processes (id, name, version, host, pid, seen_at)
    select gen_random_uuid(), 'old', '1', 'host', hours, now() - hours * interval '1 hour' from unnest(array[23, 25]) hours`
  await deleteEndedProcesses(worker)
  expect(await sql`select pid from processes where name = 'old'`).toEqual([{ pid: 23 }])
})
