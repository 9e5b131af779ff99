// Tests the checks of the server of the database without processes: what shows that the database went back in time, and
// who may record a switch.
import { randomBytes } from 'node:crypto'
import { mkdir, rename, rmdir, stat } from 'node:fs/promises'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { createLog } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { connectDatabase } from '#core/pool.ts'
import { openWitnessPlace } from '#core/witness-place.ts'
import type { Witness } from '#core/witness.ts'
import { findReadSwitch, recordListed } from '#domain/reconciliation/unread-switches.ts'
import { createServerChecks } from '#domain/switches/checks.ts'
import { findWitnessName, keepFacts } from '#domain/switches/kept-facts.ts'
import { isBehind } from '#domain/switches/newest.ts'
import { checkServer, type CheckedServer, type Reading, type ServerFacts } from '#domain/switches/server.ts'
import { watchDatabase } from '#domain/switches/watch.ts'
import { queuesCommand } from '#commands/queues.ts'
import { recoverCommand } from '#commands/recover.ts'
import { runHere } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { eventually } from '#test/payments.ts'
import { urlAs } from '#test/users.ts'

let url: string
let sql: Sql

beforeEach(async () => {
  const database = await createDatabase()
  url = database.url
  sql = open(url)
  onTestFinished(async () => {
    await sql.end()
    await database.drop()
  })
  await sql`update lineage set (system_identifier, timeline, server_started_at) = (
    select system_identifier::text, current_timeline(), pg_postmaster_start_time() from pg_control_system())`
})

const open = (address: string) => connectDatabase(address, { max: 1, application_name: 'test' })

/** The server counts as started after it was last checked. */
const startServer = async () => {
  await sql`update lineage set server_started_at = server_started_at - interval '1 minute'`
}
const check = async (
  witness: Partial<ServerFacts> | null,
  { as = sql, ...reading }: Partial<Reading> & { as?: Sql } = {},
): Promise<CheckedServer> =>
  await checkServer(as, witness && { ...(await facts()), ...witness }, {
    is_synchronous: false,
    all_answered: true,
    waited_for: null,
    is_repeated: false,
    ...reading,
  })

async function facts(): Promise<ServerFacts> {
  const [row] = await sql<{ facts: ServerFacts }[]>`
    select server_facts() || jsonb_build_object('switch', last_switch, 'seal', seal) as facts from lineage`
  return row!.facts
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

async function lastSwitch(): Promise<Record<string, unknown> | undefined> {
  const [row] = await sql`select * from database_switches order by number desc limit 1`
  return row
}

test('each second one check raises the heartbeat', async () => {
  const { heartbeat } = await facts()
  const passSecond = () => sql`update database_heartbeat set at = at - interval '1 second'`
  await passSecond()
  const checks = [await check(null), await check(null)]
  expect(checks.map(({ raised_heartbeat }) => raised_heartbeat)).toEqual([true, false])
  await passSecond()
  expect(await check(null)).toMatchObject({
    raised_heartbeat: true,
    heartbeat: { number: heartbeat.number + 1 },
  })
  expect((await facts()).heartbeat).toMatchObject({ number: heartbeat.number + 2 })
})

test.each([
  ['the heartbeat', async () => ({ heartbeat: { number: 1000, at: new Date().toISOString() } })],
  ['the audit log', async () => ({ audit: { seq: 1_000_000, hash: 'f'.repeat(64) } })],
] as const)('a copy of the files that was written to since is known by %s', async (_name, ahead) => {
  const witness = { ...(await ahead()), lsn: '0000000000000001' }
  await startServer()
  expect(await check(witness)).toMatchObject({ state: 'current', recorded: true, switch: 1 })
  expect(await lastSwitch()).toMatchObject({ sign: 'witness', kind: 'restore' })
})

test('a restart of the server is no switch', async () => {
  await check(null)
  const witness = await facts()
  await startServer()
  expect(await check(witness)).toMatchObject({ state: 'current', recorded: false, switch: 0 })
})

test('after each start of the server, the check waits for the witnesses, and changes nothing before', async () => {
  await startServer()
  const { started_at, ...waiting } = await check(null, { all_answered: false })
  expect(waiting).toMatchObject({ state: 'unchecked', raised_heartbeat: false })
  // The server has started again meanwhile.
  const waited_for = new Date(Date.parse(started_at) - 60_000).toISOString()
  expect(await check(null, { all_answered: false, waited_for })).toMatchObject({ state: 'unchecked' })
  expect(await check(null, { all_answered: false, waited_for: started_at })).toMatchObject({
    state: 'current',
  })
  await startServer()
  expect(await check(null)).toMatchObject({ state: 'current' })
  expect(await check(null, { all_answered: false })).toMatchObject({ state: 'current' })
})

test('without a start of the server, only a repeated check records that it is behind a witness', async () => {
  const { heartbeat } = await facts()
  const ahead = { heartbeat: { ...heartbeat, number: 1000 } }
  expect(await check(ahead)).toMatchObject({ state: 'unconfirmed', raised_heartbeat: false })
  expect(await lastSwitch()).toBeUndefined()
  expect(await check({}, { is_repeated: true })).toMatchObject({ state: 'current', recorded: false })
  expect(await check(ahead, { is_repeated: true })).toMatchObject({ state: 'current', recorded: true })
})

test('the command compares the database with a witness by the rule of the processes', async () => {
  await sql`update lineage set last_switch = 1`
  const later = { ...(await facts()), lsn: 'FFFFFFFFFFFFFFFF' }
  const behind = [later, { ...later, timeline: 9 }, { ...later, switch: 0 }].map(
    async (witness) => await isBehind(sql, witness),
  )
  expect(await Promise.all(behind)).toEqual([true, false, false])
  // During recovery, a server has no position.
  const [row] = await sql<{ is_behind: boolean }[]>`
    select is_behind(database_facts(), ${sql.json(later)}) as is_behind`
  expect(row).toEqual({ is_behind: false })
})

test('a clock that is ahead discards no facts of a witness, and decides nothing about a failover', async () => {
  const witness = async (at: string) => {
    await startServer()
    return { heartbeat: { number: (await facts()).heartbeat.number + 1000, at }, clock: inDays(2) }
  }
  await sql.unsafe(
    'create or replace function newest_change(until timestamptz) returns timestamptz stable return now()',
  )
  expect(await check(await witness(inDays(2)))).toMatchObject({ recorded: true })
  expect(await lastSwitch()).toMatchObject({ number: 1, sign: 'witness', kind: 'restore' })
  expect(await check(await witness(inDays(0)))).toMatchObject({ recorded: true })
  expect(await lastSwitch()).toMatchObject({ number: 2, sign: 'witness', kind: 'failover' })
})

/** A witness in this process. */
type TestWitness = Witness & { stored: string | null; asked: number; is_silent: boolean; hangs: boolean }

function createWitness(): TestWitness {
  const witness: TestWitness = {
    stored: null,
    asked: 0,
    is_silent: false,
    hangs: false,
    async keepNewest(_name, text, invalid) {
      witness.asked += 1
      if (witness.hangs) await new Promise(() => {})
      if (witness.is_silent) throw new Error('silent')
      const { stored } = witness
      if (text !== null && (stored === null || text > stored || stored === invalid)) witness.stored = text
      return witness.stored
    },
  }
  return witness
}

const newKey = () => randomBytes(32).toString('base64')
const [NEW_KEY, OLD_KEY] = [newKey(), newKey()]
const ENCRYPTION_KEY = `${NEW_KEY},${OLD_KEY}`

/** What the witness keeps of this database, signed with a key that is derived from the first one. */
const entryAt = async (witness: Witness, encryption_keys = ENCRYPTION_KEY) => ({
  witness,
  name: await findWitnessName(sql),
  encryption_keys,
})

const watchEnv = () => ({ DATABASE_URL: url, REDIS_URL: 'redis://127.0.0.1:1', ENCRYPTION_KEY })

const startWatch = async (queue: Witness, log = createLog('silent', 'test')) => {
  const config = loadConfig(watchEnv())
  const watch = await watchDatabase(config, { sql, log, queue })
  onTestFinished(() => watch.close())
  return watch
}

test('a process without facts of its own works only after a silent witness has answered', async () => {
  const witness = createWitness()
  const { clock, ...newest } = await facts()
  const ahead = { ...newest, clock, heartbeat: { number: 1000, at: clock } }
  // The key was rotated since.
  await keepFacts(await entryAt(witness, OLD_KEY), ahead)
  witness.is_silent = true
  await startServer()
  const watching = startWatch(witness)
  await eventually(async () => expect(witness.asked).toBeGreaterThan(3))
  expect(await lastSwitch()).toBeUndefined()
  witness.is_silent = false
  const watch = await watching
  await eventually(async () => expect(watch.isCurrent()).toBe(true))
  expect(await lastSwitch()).toMatchObject({ sign: 'witness', kind: 'restore' })
})

test('each process reports which witness it cannot use, also one that only reads', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const place = `${path}/witness`
  const witness = createWitness()
  const config = loadConfig({ ...watchEnv(), WITNESS_URL: `file://${place}` })
  const checks = createServerChecks(config, { sql, log: createLog('silent', 'test'), queue: witness })
  const check = async () => {
    await checks.exchange((await checks.check(new AbortController().signal))!)
    const { values } = await metrics.witnessUsable.get()
    return Object.fromEntries(values.map(({ labels, value }) => [labels.witness, value]))
  }
  // Other processes raise the heartbeat, and write to the place.
  await sql.unsafe(
    'create or replace function raise_heartbeat() returns boolean language sql volatile as $$ select false $$',
  )
  expect(await check()).toEqual({ Redis: 1, WITNESS_URL: 1 })
  expect(checks.witnessProblems()).toEqual([])
  await mkdir(place)
  witness.is_silent = true
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  const now = performance.now()
  for (let seconds = 4; seconds < 32; seconds += 4) {
    clock.mockReturnValue(now + seconds * 1000)
    expect(await check()).toEqual({ Redis: 0, WITNESS_URL: 1 })
  }
  clock.mockReturnValue(now + 32_000)
  expect(await check()).toEqual({ Redis: 0, WITNESS_URL: 0 })
  expect(checks.witnessProblems()).toEqual(['Redis: silent', 'WITNESS_URL: it is not a regular file'])
})

test('WITNESS_URL keeps the seal, so that the next server is that of a planned move', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const config = loadConfig({ ...watchEnv(), WITNESS_URL: `file://${path}/witness` })
  const check = async (is_silent = true) => {
    const witness = createWitness()
    witness.is_silent = is_silent
    const checks = createServerChecks(config, { sql, log: createLog('silent', 'test'), queue: witness })
    return await checks.exchange((await checks.check(new AbortController().signal))!)
  }
  // A check stores facts there once a second.
  await eventually(async () => {
    await check()
    await stat(`${path}/witness`)
  })
  await sql`update lineage set seal = gen_random_uuid(), sealed_at = now()`
  // While no witness keeps the seal, the process does not report that it writes no more.
  await rename(`${path}/witness`, `${path}/before`)
  await mkdir(`${path}/witness`)
  expect(await check()).toBe(false)
  await rmdir(`${path}/witness`)
  await rename(`${path}/before`, `${path}/witness`)
  expect(await check()).toBe(true)
  await sql`update lineage set system_identifier = '2'`
  await check(false)
  expect(await lastSwitch()).toMatchObject({ kind: 'planned' })
})

test('the server is checked while a witness hangs, and a check does not count for long', async () => {
  const witness = createWitness()
  const watch = await startWatch(witness)
  expect(watch.isCurrent()).toBe(true)
  const frozen = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 10_000)
  const states = [watch.isCurrent(), watch.isHeld()]
  frozen.mockRestore()
  expect(states).toEqual([false, true])
  expect(watch.isCurrent()).toBe(true)
  witness.hangs = true
  const { asked } = witness
  await eventually(async () => expect(witness.asked).toBeGreaterThan(asked + 1))
  await sql`update lineage set seal = gen_random_uuid(), sealed_at = now()`
  await eventually(async () => expect(() => watch.assertCurrent()).toThrow('is sealed'))
})

test('a text without a valid signature counts as silence, and is replaced', async () => {
  const now = await facts()
  const other = { ...now, system_identifier: '1' }
  const signed = createWitness()
  await keepFacts(await entryAt(signed, newKey()), other)
  // As the previous version has written it: that is no reason for an alarm.
  const { system_identifier, ...more } = other
  const previous = `${'7'.padStart(16, '0')}:${now.lsn} ${JSON.stringify({ system_identifier, ...more, xid: '7' })}`
  for (const [invalid, is_logged] of [
    ['zzz', true],
    [signed.stored, true],
    [previous, false],
  ] as const) {
    const witness = createWitness()
    witness.stored = invalid
    const log = createLog('silent', 'test')
    const logError = vi.spyOn(log, 'error')
    const watch = await startWatch(witness, log)
    await eventually(async () => expect(witness.stored).not.toBe(invalid))
    expect(await keepFacts(await entryAt(witness), null)).toMatchObject({ facts: { switch: 0 } })
    expect(watch.isCurrent()).toBe(true)
    expect(logError.mock.calls.length > 0).toBe(is_logged)
  }
})

test('texts without a valid signature that name a later switch are replaced after an hour, and stop nothing', async () => {
  const witness = createWitness()
  await keepFacts(await entryAt(witness, newKey()), { ...(await facts()), switch: 7 })
  const later = witness.stored
  const log = createLog('silent', 'test')
  const logError = vi.spyOn(log, 'error')
  const watch = await startWatch(witness, log)
  await eventually(async () => expect(witness.asked).toBeGreaterThan(3))
  expect(watch.isCurrent()).toBe(true)
  expect(witness.stored).toBe(later)
  expect(logError).toHaveBeenCalledWith(expect.anything(), expect.stringContaining('a later switch'))
  // Neither another such text nor an answer that fails begins the hour again.
  const now = performance.now.bind(performance)
  let passed_ms = 3_000_000
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passed_ms)
  onTestFinished(() => clock.mockRestore())
  const asked = async () => {
    const before = witness.asked
    await eventually(async () => expect(witness.asked).toBeGreaterThan(before + 1))
  }
  witness.is_silent = true
  await asked()
  witness.is_silent = false
  witness.stored = null
  await keepFacts(await entryAt(witness, newKey()), { ...(await facts()), switch: 8 })
  const other = witness.stored
  await asked()
  expect(witness.stored).toBe(other)
  passed_ms = 3_600_000
  await eventually(async () => expect(witness.stored).not.toBe(other))
  expect(await keepFacts(await entryAt(witness), null)).toMatchObject({ facts: { switch: 0 } })
})

test('a process that is behind what it has read once asks again, and works if that was wrong', async () => {
  const witness = createWitness()
  const now = await facts()
  await keepFacts(await entryAt(witness), { ...now, heartbeat: { ...now.heartbeat, number: 1000 } })
  const watching = startWatch(witness)
  await eventually(async () => expect(witness.asked).toBe(2))
  witness.stored = null
  const watch = await watching
  await eventually(async () => expect(watch.isCurrent()).toBe(true))
  expect(await lastSwitch()).toBeUndefined()
})

test('a process whose clock is a day behind neither discards nor replaces what a witness remembers', async () => {
  const witness = createWitness()
  const entry = await entryAt(witness)
  const ahead = { ...(await facts()), clock: inDays(2) }
  await keepFacts(entry, ahead)
  expect(await keepFacts(entry, { ...ahead, lsn: '0000000000000001' })).toMatchObject({
    facts: { lsn: ahead.lsn },
  })
  await startWatch(witness)
  await eventually(async () => expect(witness.asked).toBeGreaterThan(2))
  const { facts: kept } = await keepFacts(entry, null)
  expect(Date.parse(kept!.clock)).toBe(Date.parse(ahead.clock))
})

test('a server that another one has replaced stays out of use when it starts again', async () => {
  await startServer()
  const after = { ...(await facts()), switch: 1, lsn: '0000000000000001' }
  expect(await check(after)).toMatchObject({ state: 'superseded', recorded: false })
  expect(await check(after)).toMatchObject({ state: 'superseded', recorded: false })
})

test('the process that receives webhooks records no switch, and waits for another one', async () => {
  const webhooks = open(urlAs('webhooks', url))
  const api = open(urlAs('api', url))
  onTestFinished(async () => void (await Promise.all([webhooks.end(), api.end()])))
  const ahead = { heartbeat: { number: 1000, at: new Date().toISOString() } }
  await startServer()
  expect(await check(ahead, { as: webhooks })).toMatchObject({ state: 'unchecked', recorded: false })
  expect(await check(null, { as: webhooks })).toMatchObject({ state: 'unchecked', recorded: false })
  expect(await lastSwitch()).toBeUndefined()
  expect(await check(ahead, { as: api })).toMatchObject({ state: 'current', recorded: true })
  const current = { state: 'current', recorded: false, raised_heartbeat: false }
  await sql`update database_heartbeat set at = at - interval '1 minute'`
  expect(await check(null, { as: webhooks })).toMatchObject(current)
  // It learns from the other processes that another server is in use.
  expect(await check({ switch: 7 }, { as: api })).toMatchObject({ state: 'superseded' })
  expect(await check(null, { as: webhooks })).toMatchObject({ state: 'superseded' })
  expect(await check(null, { as: api })).toMatchObject({ state: 'current' })
  expect(await check(null, { as: webhooks })).toMatchObject(current)
  await sql`update lineage set seal = gen_random_uuid(), sealed_at = now()`
  expect(await check(null, { as: webhooks })).toMatchObject({ state: 'sealed', seal: null })
})

test('a promotion is complete only if the server that was lost had a synchronous standby', async () => {
  const promote = () => sql`update lineage set timeline = timeline - 1`
  await promote()
  expect(await check({}, { is_synchronous: true })).toMatchObject({ recorded: true })
  expect(await lastSwitch()).toMatchObject({ lists_read_at: null })
  const hadStandby = () => sql`update database_heartbeat set is_synchronous = true`
  await hadStandby()
  await promote()
  const { heartbeat } = await facts()
  const ahead = { heartbeat: { ...heartbeat, number: heartbeat.number + 1 } }
  expect(await check(ahead, { is_synchronous: true })).toMatchObject({ recorded: true })
  expect(await lastSwitch()).toMatchObject({ number: 2, lists_read_at: null })
  await hadStandby()
  await promote()
  expect(await check({}, { is_synchronous: true })).toMatchObject({ recorded: true })
  expect(await lastSwitch()).toMatchObject({ number: 3, kind: 'failover', released_by: 'system' })
})

test('without a witness, a seal is valid for a day', async () => {
  const move = async (age: string) => {
    await sql`
      update lineage set system_identifier = '2', seal = gen_random_uuid(), sealed_at = now() - ${age}::interval`
    return await check(null)
  }
  expect(await move('23 hours')).toMatchObject({ state: 'current', hold: null })
  expect(await lastSwitch()).toMatchObject({ kind: 'planned' })
  expect(await move('25 hours')).toMatchObject({ state: 'current', hold: 'all' })
  expect(await lastSwitch()).toMatchObject({ kind: 'restore' })
})

test('an operator can name an earlier time while a switch is recorded', async () => {
  await sql`
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, switched_at, visited_at)
    values (1, 'failover', 'lineage', '1', 1, '1', 2, '2026-11-28T10:00:00Z', now(), now())`
  const declare = (time: string) => sql.begin((tx) => tx`select declare_switch(${time})`)
  await declare('2026-11-28T09:00:00Z')
  expect(await lastSwitch()).toMatchObject({
    number: 1,
    kind: 'restore',
    sign: 'operator',
    newest_at: '2026-11-28T09:00:00.000000Z',
    recorded_at: expect.any(String),
  })
})

test('while a switch is being recorded all jobs wait, and operators read what is left and what to run', async () => {
  await check(null)
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts)
    select gen_random_uuid(), gen_random_uuid(), 'ai', 'ai_task.run', '{}', 1 from generate_series(1, 5001)`
  // Besides the feed of the owner of test notifications.
  await sql`insert into tenants (id, slug, name) values (gen_random_uuid(), 'shop', 'shop')`
  const to = new Date(Date.now() - 3_600_000).toISOString()
  const declare = ['switched', '--to', to, '--reason', 'restored', '--yes']
  // The command was stopped after its first batch.
  await sql.begin((tx) => tx`select declare_switch(${to})`)
  expect(await check(null)).toMatchObject({
    state: 'current',
    hold: 'all',
    switch: 0,
    recording_since: expect.any(String),
  })
  const recover = async (...args: string[]) =>
    (await runHere(recoverCommand, args, { DATABASE_URL: url })).stdout
  expect(JSON.parse(await recover('--json'))).toMatchObject({
    hold: 'all',
    recording: { number: 1, sign: 'operator', jobs_left: 1, feeds_left: 2 },
  })
  expect(await recover()).toMatch(
    /^RECORDING {3}switch 1 is not recorded completely, since 20.+: 1 open job and 2 feeds are left\n.+ npm run recover -- switched --to 20/m,
  )
  expect(await recover(...declare)).toContain('Recorded.')
  expect(JSON.parse(await recover('--json'))).toMatchObject({ hold: 'all', recording: null, unreleased: [1] })
  expect(await check(null)).toMatchObject({ state: 'current', switch: 1, recording_since: null })
})

test('a sealed database on another server says how its seal ends, and its seal is not ended by hand', async () => {
  await check(null)
  const recover = (...args: string[]) => runHere(recoverCommand, args, { DATABASE_URL: url })
  expect(await recover('seal', '--yes')).toMatchObject({ code: 0 })
  expect((await recover()).stdout).toContain('To end that: npm run recover -- seal --undo')
  const queues = await runHere(queuesCommand, [], { DATABASE_URL: url })
  expect(queues.stdout).toContain('SEALED  the database is being moved')
  await sql`update lineage set system_identifier = '2'`
  const moved = await recover()
  expect(moved.stdout).toContain(
    'SEALED      on another server. If the database has moved here, start a process',
  )
  expect(moved.stdout).toContain('If it was restored, run npm run recover -- switched')
  expect(moved.stdout).not.toMatch(/--undo|may be moved/)
  const undone = await recover('seal', '--undo')
  expect(undone).toMatchObject({ code: 1, stderr: expect.stringContaining('sealed on another server') })
  expect(await check(null)).toMatchObject({ state: 'current', recorded: true })
  expect(JSON.parse((await recover('--json')).stdout)).toMatchObject({ is_sealed: false, hold: null })
})

test('jobs that wait since a restore and jobs that are unknown are counted for operators', async () => {
  await check(null)
  await sql`
    insert into jobs (id, tenant_id, queue, name, payload, max_attempts, state, unknown_since)
    select gen_random_uuid(), gen_random_uuid(), 'ai', 'ai_task.run', '{}', 1, state, since
    from (values ('ready', null::timestamptz), ('ready', now()), ('unknown', now())) job(state, since)`
  await sql`update lineage set hold = 'all'`
  const run = async (command: typeof recoverCommand, ...args: string[]) =>
    (await runHere(command, args, { DATABASE_URL: url })).stdout
  expect(JSON.parse(await run(recoverCommand, '--json'))).toMatchObject({
    unknown: 2,
    held: [{ queue: 'ai', jobs: 3 }],
  })
  expect(await run(recoverCommand)).toContain('unknown     2 jobs: npm run jobs -- list --state unknown')
  expect(await run(queuesCommand)).toContain('HELD    3 jobs since a switch of the database: npm run recover')
})

test('an operator names a time that can be true, and the switch gets a number after those that a witness knows', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const WITNESS_URL = `file://${path}/witness`
  const newer = { ...(await facts()), switch: 4, timeline: 9 }
  const place = openWitnessPlace(WITNESS_URL, createLog('silent', 'test'))
  const entry = await entryAt(place)
  await keepFacts(entry, newer)
  await sql`update database_heartbeat set at = now() - interval '1 hour'`
  const newest_at = (await facts()).heartbeat.at
  const declare = async (to: string, key: { ENCRYPTION_KEY?: string } = { ENCRYPTION_KEY }) => {
    const args = ['switched', '--to', to, '--reason', 'restored', '--yes']
    return await runHere(recoverCommand, args, { DATABASE_URL: url, WITNESS_URL, ...key })
  }
  const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
  const [future, later] = [inMinutes(10), inMinutes(-30)]
  expect((await declare(future)).stderr).toContain(`--to ${future} is in the future: it is 20`)
  expect((await declare(later)).stderr).toMatch(
    RegExp(`^--to ${later} is later than the newest change in the database, 20.+ Give --to 20`),
  )
  expect((await declare(newest_at, {})).stderr).toContain('ENCRYPTION_KEY is not set')
  expect(await lastSwitch()).toBeUndefined()
  expect(await declare(newest_at)).toMatchObject({ code: 0 })
  expect(await lastSwitch()).toMatchObject({ number: 5, sign: 'operator', witnessed_at: expect.any(String) })
  expect(await check(newer)).toMatchObject({ state: 'current', switch: 5 })

  // The database was restored to a time at which the command was recording a switch.
  await sql`update database_switches set number = 6, recorded_at = null`
  await keepFacts(entry, { ...newer, switch: 6 })
  expect(await declare(newest_at)).toMatchObject({ code: 0 })
  expect(await lastSwitch()).toMatchObject({ number: 7, recorded_at: expect.any(String) })
  expect(await check({ ...newer, switch: 6 })).toMatchObject({ state: 'current', switch: 7 })
})

test('operators read which witness cannot be used, and that it does not protect the database', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const env = { DATABASE_URL: url, WITNESS_URL: `file://${path}`, ENCRYPTION_KEY }
  const { stdout } = await runHere(recoverCommand, [], env)
  expect(stdout).toContain('not compared with a witness: WITNESS_URL: it is not a regular file')
  expect(stdout).toMatch(/^unprotected a witness cannot be used: WITNESS_URL: it is not a regular file$/m)
  // Processes write to the place at once: with their first check.
  await sql`update database_heartbeat set number = number + 1`
  const misspelt = await runHere(recoverCommand, [], { ...env, WITNESS_URL: `file://${path}/misspelt` })
  expect(misspelt.stdout).toMatch(
    /^unprotected a witness cannot be used: WITNESS_URL: it remembers nothing of this database/m,
  )
  const keyless = await runHere(recoverCommand, [], { ...env, ENCRYPTION_KEY: undefined })
  expect(keyless.stdout).not.toContain('a witness cannot be used')
})

test('operators read which lookups and lists keep jobs waiting, and texts of providers in one short line', async () => {
  await sql.begin((tx) => tx`select declare_switch(now() - interval '1 hour')`)
  const error = `\u001b[2J${'x'.repeat(480)}`
  await sql`insert into failing_lists (provider, list, error) values ('stripe', 'transfers', ${error})`
  await sql`
    insert into notifications (id, provider, account, event_id, kind, payload, state, reason, parked_at)
    select gen_random_uuid(), 'stripe', 'acct_1', n::text, 'reconciliation.lookup', '{}', 'parked', 'no_answer',
      now() - n * interval '1 hour' from generate_series(1, 2) n`
  const { stdout } = await runHere(recoverCommand, [], { DATABASE_URL: url })
  expect(stdout).toMatch(/^failing .* cannot be read since 20.+: {2}?\[2Jx+$/m)
  expect(stdout).not.toContain('\u001b')
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(400)
  const [oldest] = await sql<{ at: string }[]>`select min(parked_at) as at from notifications`
  expect(stdout).toContain(`2 lookups without an answer of the provider, the oldest since ${oldest!.at}`)
  expect(stdout).toContain('npm run jobs -- list --state retrying --queue notifications')
})

test('a switch waits for what was stored until the lists had been read, and not for what arrives later', async () => {
  const readers = ['events of stripe', 'objects of stripe']
  await sql`
    insert into recurring_work (name, due_at, ended_at, position)
    select name, now(), now() - interval '1 minute', '{"read_for": 1}' from unnest(${readers}::text[]) name`
  await sql`
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, switched_at, recorded_at)
    values (1, 'restore', 'operator', '1', 1, '1', 2, now(), now(), now())`
  await sql`
    insert into notifications (id, provider, event_id, kind, payload, received_at)
    select gen_random_uuid(), 'stripe', name, 'any', '{}', now() - ago::interval
    from (values ('before', '2 minutes'), ('later', '30 seconds')) stored(name, ago)`
  const findRead = async () => {
    await recordListed(sql, readers)
    return await findReadSwitch(sql, 'stripe')
  }
  expect(await findRead()).toBe(0)
  await sql`update recurring_work set ended_at = now()`
  await sql`update notifications set state = 'applied', applied_at = now() where event_id = 'before'`
  expect(await findRead()).toBe(1)
})

test('feeds are restarted in batches before the server is in use', async () => {
  await sql`insert into tenants (id, slug, name) select gen_random_uuid(), 'shop-' || n, 'shop' from generate_series(1, 5001) n`
  await sql`update lineage set timeline = timeline - 1`
  const count = async () => {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::integer as count from feed_restarts where switch_number = 1`
    return row!.count
  }
  expect(await check(null)).toMatchObject({ state: 'recording', recorded: false })
  expect(await count()).toBe(5000)
  // However long the recording takes, it does not begin anew while it goes on.
  await sql`update database_switches set switched_at = switched_at - interval '1 hour'`
  expect(await check(null)).toMatchObject({ state: 'current', recorded: true })
  // One more is the owner of test notifications.
  expect(await count()).toBe(5002)
  expect(
    await sql`select recorded_at - switched_at >= interval '1 hour' as went_on from database_switches`,
  ).toEqual([{ went_on: true }])
  const again = await sql`
    select from events where type = 'feed.restarted' group by tenant_id having count(*) > 1`
  expect(again).toHaveLength(0)
})

test('a release waits for a switch that is recorded meanwhile, and leaves its hold', async () => {
  await sql`
    insert into database_switches (number, kind, sign, from_system_identifier, from_timeline, to_system_identifier,
      to_timeline, newest_at, switched_at, recorded_at, lists_read_at)
    values (1, 'restore', 'operator', '1', 1, '1', 1, now() - interval '1 hour', now(), now(), now())`
  await sql`update lineage set last_switch = 1, timeline = timeline - 1`
  const recording = open(url)
  onTestFinished(() => recording.end())
  const recorded = Promise.withResolvers<void>()
  const commit = Promise.withResolvers<void>()
  const transaction = recording.begin(async (tx) => {
    await tx`select check_server(null, false, true, null, false)`
    recorded.resolve()
    await commit.promise
  })
  await recorded.promise
  const other = open(url)
  onTestFinished(() => other.end())
  const release = other`
    update database_switches set released_at = now(), released_by = 'ada', messages = 'send' where number = 1`.execute()
  await eventually(async () => {
    const waiting = await sql`select from pg_locks where not granted`
    expect(waiting.length).toBeGreaterThan(0)
  })
  commit.resolve()
  await transaction
  await release
  const [kept] = await sql`select hold, last_switch from lineage`
  expect(kept).toEqual({ hold: 'all', last_switch: 2 })
})

test.for(['the same', 'a new'])(
  'what a process that records nothing wrote since the start does not make a restore a failover, on %s timeline',
  async (timeline) => {
    await startServer()
    if (timeline === 'a new') await sql`update lineage set timeline = timeline - 1`
    await sql`update database_heartbeat set at = now() - interval '3 hours'`
    await sql`
      insert into processes (id, name, version, host, pid, queues, started_at, seen_at)
      values (gen_random_uuid(), 'sluice-webhooks', '1', 'h', 1, '{}', now(), pg_postmaster_start_time() - interval '1 s')`
    const { number } = (await facts()).heartbeat
    const ahead = { heartbeat: { number: number + 1000, at: (await facts()).clock } }
    expect(await check(ahead)).toMatchObject({ state: 'current', recorded: true, hold: 'all' })
    expect(await lastSwitch()).toMatchObject({ kind: 'restore' })
  },
)

test('a process without witnesses does not mark a restarted server as checked, even as the owner', async () => {
  await startServer()
  expect(await check(null, { all_answered: null })).toMatchObject({ state: 'unchecked' })
  expect(await check(null, { all_answered: false })).toMatchObject({ state: 'unchecked' })
  expect(await check(null)).toMatchObject({ state: 'current' })
  expect(await check(null, { all_answered: null })).toMatchObject({
    state: 'current',
    raised_heartbeat: false,
  })
})

test('the dashboard and the webhooks host record nothing, whatever they say that a witness remembers', async () => {
  const ahead = { lsn: 'FFFFFFFFFFFFFFFF', heartbeat: { number: 9e15, at: inDays(-1) } }
  for (const role of ['dashboard', 'webhooks'] as const) {
    const as = open(urlAs(role, url))
    onTestFinished(() => as.end())
    const reading = { as, all_answered: true, is_repeated: true }
    expect(await check(ahead, reading)).toMatchObject({ state: 'unchecked', recorded: false, seal: null })
    expect(await check({ ...ahead, switch: 900 }, reading)).toMatchObject({ recorded: false })
    await check('x' as never, reading)
  }
  expect(await lastSwitch()).toBeUndefined()
  expect(await sql`select is_superseded, witnessed_switch, hold from lineage`).toEqual([
    { is_superseded: false, witnessed_switch: 0, hold: null },
  ])
})

test('a failover whose recording was interrupted is a restore if the database was restored since', async () => {
  await sql`insert into tenants (id, name, slug) select gen_random_uuid(), 't' || n, 't' || n from generate_series(1, 5001) n`
  const before = await facts()
  await sql`update lineage set timeline = timeline - 1, server_started_at = server_started_at - interval '1 minute'`
  await sql`select record_switch(server_facts(), ${sql.json(before)}, 'lineage', clock_timestamp())`
  expect(await lastSwitch()).toMatchObject({ number: 1, kind: 'failover', recorded_at: null })
  const heartbeat = { number: before.heartbeat.number + 3600, at: inDays(1 / 24) }
  const later = { switch: 1, heartbeat, clock: heartbeat.at, audit: { seq: 500, hash: 'a'.repeat(64) } }
  let checked: CheckedServer
  do checked = await check(later)
  while (checked.state === 'recording')
  expect(checked).toMatchObject({ switch: 2, hold: 'all' })
  expect(await lastSwitch()).toMatchObject({ number: 2, kind: 'restore', witness: { audit: { seq: 500 } } })
})

test('a sealed database may move to a server that has written less than the old one', async () => {
  await check(null)
  await sql`update lineage set seal = gen_random_uuid(), sealed_at = now()`
  const sealed = await facts()
  await sql`update lineage set system_identifier = '1', server_started_at = server_started_at - interval '1 minute'`
  expect(await check({ ...sealed, system_identifier: '1', lsn: 'FFFFFFFFFFFFFFFF' })).toMatchObject({
    state: 'current',
    hold: null,
  })
  expect(await lastSwitch()).toMatchObject({ kind: 'planned' })
})
