// What an earlier version left is told by this one as it was: a database with jobs in every state, before and after.
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { connectDatabase } from '#core/pool.ts'
import type { Sql } from '#core/db.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import { claimJobs } from '#domain/jobs/claim.ts'

const FOLDER = new URL('../migrations/', import.meta.url)
const CALLS_IN_JOBS = '0016_calls_in_jobs.sql'

type Attempt = [worker: string, outcome: string | null]
type Call = [outcome: string | null, sent_attempt: number | null]
/** Attempts and calls in order, from the first on. */
type Left = { state: string; attempts?: Attempt[]; calls?: Call[]; unknown?: boolean }

const LEFT = {
  fresh: { state: 'ready', calls: [[null, null]] },
  'tried again': {
    state: 'ready',
    attempts: [
      ['a', 'retry'],
      ['b', 'ambiguous'],
      ['a', 'returned'],
    ],
    calls: [[null, 2]],
  },
  'turned away': { state: 'ready', attempts: [['a', 'retry']], calls: [[null, null]] },
  'under way': {
    state: 'running',
    attempts: [
      ['a', null],
      ['b', null],
    ],
    calls: [[null, 2]],
  },
  'a look under way': {
    state: 'running',
    attempts: [
      ['a', 'unknown'],
      ['b', null],
    ],
    calls: [[null, 1]],
    unknown: true,
  },
  unknown: { state: 'unknown', attempts: [['a', 'unknown']], calls: [[null, 1]], unknown: true },
  done: { state: 'succeeded', attempts: [['a', 'done']], calls: [['done', 1]] },
  declined: {
    state: 'failed',
    attempts: [
      ['a', null],
      ['b', 'declined'],
    ],
    calls: [['declined', 2]],
  },
  'resolved as failed': {
    state: 'failed',
    attempts: [
      ['a', 'unknown'],
      ['ada', 'resolved'],
    ],
    calls: [['declined', 1]],
  },
  'discarded by a person': { state: 'discarded', attempts: [['a', 'unknown']], calls: [['discarded', 1]] },
  'under its third key': {
    state: 'succeeded',
    attempts: [
      ['a', 'retry'],
      ['a', 'returned'],
      ['b', 'retry'],
      ['a', 'done'],
    ],
    calls: [
      ['rotated', 1],
      ['rotated', 3],
      ['done', 4],
    ],
  },
  'without a call': { state: 'succeeded', attempts: [['a', 'done']] },
  'without a call, discarded': {
    state: 'discarded',
    attempts: [
      ['a', null],
      ['b', 'discarded'],
    ],
  },
  'without a call, waiting': {
    state: 'ready',
    attempts: [
      ['a', 'parked'],
      ['a', 'retry'],
    ],
  },
} satisfies Record<string, Left>

let sql: Sql
let drop: () => Promise<void>
beforeAll(async () => {
  const server = new URL(inject('postgres_url'))
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const owner = connectDatabase(server.href, { max: 1, application_name: 'test' })
  await owner.unsafe(`create database ${name}`)
  server.pathname = `/${name}`
  sql = connectDatabase(server.href, { max: 1, application_name: 'test' })
  drop = async () => {
    await sql.end()
    await owner.unsafe(`drop database ${name} with (force)`)
    await owner.end()
  }
  const names = (await readdir(FOLDER)).filter((file) => /^\d/.test(file)).toSorted()
  for (const file of names.filter((each) => each < CALLS_IN_JOBS)) await apply(file)
})
afterAll(async () => await drop?.())

async function apply(file: string): Promise<void> {
  const text = await readFile(new URL(file, FOLDER), 'utf8')
  await sql.begin(async (tx) => void (await tx.unsafe(text)))
}

/** As the earlier version wrote it. An attempt begins each minute; a call is sent when its attempt begins. */
async function leave({ state, attempts = [], calls = [], unknown = false }: Left): Promise<string> {
  const id = newId()
  const errorOf = (outcome: string | null | undefined) =>
    outcome == null || outcome === 'done' ? null : sql.json({ code: 'processor_error', message: outcome })
  const at = (minute: number) => sql`timestamptz '2026-01-01' + ${minute} * interval '1 minute'`
  const over = ['succeeded', 'failed', 'discarded'].includes(state)
  const running = state === 'running'
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, state, attempt, max_attempts, trace_context, run_at, started_at,
      lease_token, lease_until, unknown_since, finished_at, last_error)
    values (${id}, ${SYSTEM_TENANT_ID}, 'payments', 'payment.capture', '{}', ${state}, ${attempts.length}, 25, ${`of ${id}`}, ${at(0)}, ${at(1)},
      case when ${running} then gen_random_uuid() end, case when ${running} then ${at(9)} end, case when ${unknown} then ${at(1)} end,
      case when ${over} then ${at(attempts.length + 0.5)} end, ${errorOf(attempts.findLast(([, outcome]) => outcome !== null)?.[1])})`
  for (const [index, [worker, outcome]] of attempts.entries())
    await sql`
      insert into job_attempts (tenant_id, job_id, attempt, worker, started_at, ended_at, outcome, error)
      values (${SYSTEM_TENANT_ID}, ${id}, ${index + 1}, ${worker}, ${at(index + 1)},
        case when ${outcome !== null} then ${at(index + 1.5)} end, ${outcome}, ${errorOf(outcome)})`
  for (const [index, [outcome, sent]] of calls.entries())
    await sql`
      insert into provider_calls (tenant_id, job_id, generation, key, operation, request, first_sent_at, last_sent_at, outcome, provider_reference)
      values (${SYSTEM_TENANT_ID}, ${id}, ${index + 1}, ${`${id}:${index + 1}`}, 'capture', '{"reference":"pi_1"}',
        case when ${sent !== null} then ${at(sent ?? 0)} end, case when ${sent !== null} then ${at(sent ?? 0)} end, ${outcome}, ${`re_${index}`})`
  return id
}

test('jobs in every state keep their attempts and calls, and go on', async () => {
  const ids = new Map<string, string>()
  for (const [name, left] of Object.entries(LEFT)) ids.set(name, await leave(left))
  const told = async (attempts: string, calls: string) => [
    await sql`
      select job_id, attempt, worker, started_at, ended_at, outcome, error from ${sql(attempts)} order by job_id, attempt`,
    await sql`
      select job_id, generation, key, operation, first_sent_at, last_sent_at, outcome, provider_reference from ${sql(calls)}
      order by job_id, generation`,
  ]
  const before = await told('job_attempts', 'provider_calls')
  await apply(CALLS_IN_JOBS)
  expect(await told('all_job_attempts', 'all_provider_calls')).toEqual(before)

  const [gone] = await sql`select to_regclass('provider_calls') as name`
  expect(gone).toEqual({ name: null })
  const rows = await sql<{ id: string; in_doubt: boolean; failures: number; request_id: string }[]>`
    select id, in_doubt, failures, request_id from jobs`
  expect(rows.every(({ id, request_id }) => request_id === `of ${id}`)).toBe(true)
  const named = (holds: (row: (typeof rows)[number]) => boolean) =>
    [...ids].filter(([, id]) => rows.some((row) => row.id === id && holds(row))).map(([name]) => name)
  expect(named(({ in_doubt }) => in_doubt)).toEqual([
    'tried again',
    'under way',
    'a look under way',
    'unknown',
  ])
  expect(named(({ failures }) => failures > 0)).toEqual([
    'tried again',
    'turned away',
    'under way',
    'without a call, waiting',
  ])

  const later = (await readdir(FOLDER)).filter((file) => /^\d/.test(file) && file > CALLS_IN_JOBS)
  for (const file of later.toSorted()) await apply(file)
  const claimed = await claimJobs(sql, [...ids.values()], { worker: 'c', names: ['payment.capture'] })
  const calls = new Map(
    claimed.map(({ id, call, attempt, failures }) => [id, { attempt, failures, ...call }]),
  )
  expect([...ids].filter(([, id]) => calls.has(id)).map(([name, id]) => [name, calls.get(id)])).toMatchObject(
    [
      ['fresh', { attempt: 1, failures: 0, look_only: false, in_doubt: false, generation: 1 }],
      ['tried again', { attempt: 4, failures: 2, in_doubt: true, request: { reference: 'pi_1' } }],
      ['turned away', { attempt: 2, failures: 1, in_doubt: false }],
      ['under way', { attempt: 3, failures: 2, in_doubt: true }],
      ['a look under way', { attempt: 3, look_only: true, in_doubt: true }],
      ['unknown', { attempt: 2, look_only: true, in_doubt: true }],
      ['without a call, waiting', { attempt: 3, failures: 1 }],
    ],
  )
})
