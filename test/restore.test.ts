// Tests restores of the database: what the outside world did since stays done, and is done once.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { expect, onTestFinished, test as anyTest } from 'vitest'
import { printReport } from '#commands/audit.ts'
import { print, printError, terminalLines } from '#commands/print.ts'
import { recoverCommand } from '#commands/recover.ts'
import { printNewest } from '#commands/recover/newest.ts'
import { connectDatabase } from '#core/pool.ts'
import { createApiKey, revokeApiKey } from '#domain/api-keys.ts'
import { reportLostRequests, type ComparedRequest } from '#domain/lost-requests/report.ts'
import { readRequests } from '#domain/old-primary/rows.ts'
import { checkServer } from '#domain/switches/server.ts'
import { startRestored } from '#start/restored.ts'
import { freshKey, type Answer } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { createDeployment, type Deployment } from '#test/deployment.ts'
import { isAlive } from '#test/file-lock.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { ASYNC, capturedPayment, createPayment, eventually, paymentIn } from '#test/payments.ts'
import { recipient } from '#test/payouts.ts'
import { until } from '#test/process.ts'
import { startProxy, type Proxy } from '#test/proxy.ts'
import { shiftWork, startRestorablePostgres, type RestorablePostgres } from '#test/restorable.ts'

const HOUR_MS = 3_600_000

const PAYMENT = { amount_minor: 1000, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }
const TOP_UPS = '/v1/wallet/top_ups'
const TOP_UP = { amount_minor: 900, currency: 'usd' }

/** `wire`: the connections of all processes to the server. */
type Restorable = Deployment & { server: RestorablePostgres; wire: Proxy }

const test = anyTest
  // Vitest requires a destructuring pattern as the first parameter, even if the pattern is empty.
  // oxlint-disable-next-line no-empty-pattern
  .extend('deployment', { scope: 'file' }, async ({}, { onCleanup }): Promise<Restorable> => {
    const cleanup = new AsyncDisposableStack()
    onCleanup(() => cleanup.disposeAsync())
    const folder = await createTemporaryFolder()
    cleanup.defer(() => folder.remove())
    const server = await startRestorablePostgres(join(folder.path, 'postgres'), { shared_buffers: '64MB' })
    cleanup.defer(() => server.stop())
    const wire = await startProxy(server.postgres.url)
    cleanup.defer(() => wire.close())
    const deployment = await createDeployment({
      queue: 'redis',
      server_url: wire.url,
      webhooks: true,
      env: { RECONCILE_EVERY_S: '1', RECONCILE_AFTER_S: '1' },
    })
    cleanup.defer(() => deployment.close())
    await Promise.all([deployment.startApi(), deployment.startWorker()])
    return { ...deployment, server, wire }
  })

/** A request with its key, and the answer that its client got first. */
type Sent = { path: string; body: { idempotency_key: string }; answer: Answer }

async function send({ client }: Deployment, path: string, fields: object): Promise<Sent> {
  const body = { ...fields, idempotency_key: freshKey() }
  const answer = await client.post(path, body, { prefer: 'wait=20' })
  expect([200, 201]).toContain(answer.status)
  return { path, body, answer }
}

/** Repeats a request with its key until it is answered. */
async function repeat({ client }: Deployment, { path, body }: Sent): Promise<Answer> {
  return await until(`POST ${path} is answered`, async () => {
    const answer = await client.post(path, body, { prefer: 'wait=5' }).catch(() => null)
    return answer !== null && ![202, 503].includes(answer.status) && answer
  })
}

async function clockOf({ sql }: Deployment): Promise<string> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`
  return row!.now
}

function toIso(time: string): string {
  return time.replace(' ', 'T').replace(/\+00$/, 'Z')
}

/** The effects in the providers' own records that carry this id in their metadata. */
async function effectsWith({ provider }: Deployment, id: string): Promise<string[]> {
  const records = {
    stripe: (effect: { effect: string }) => effect.effect,
    smtp: () => 'email',
    twilio: () => 'sms',
  }
  const found = await Promise.all(
    Object.entries(records).map(async ([name, nameOf]) => {
      const all: any[] = await provider(name as keyof typeof records).effects()
      return all.filter(({ metadata }) => Object.values(metadata).includes(id)).map(nameOf)
    }),
  )
  return found.flat()
}

/** A restored copy keeps the leases of the reading of lists, which last a minute. */
const WAIT_LIMIT_MS = 90_000

/** What has money to move: a balance, recipients and payments. Nothing waits since an earlier switch. */
async function prepare(deployment: Deployment) {
  const { client, sql } = deployment
  await until(
    'nothing waits',
    async () => {
      const [row] = await sql<{ waits: boolean }[]>`
      select hold is not null or holds_messages_before is not null as waits from lineage`
      return !row!.waits
    },
    WAIT_LIMIT_MS,
  )
  await capturedPayment(client, { amount_minor: 50_000 })
  const authorized = (await createPayment(client)).body
  const captured = await capturedPayment(client)
  const [bank, account] = [await recipient(client), await recipient(client, 'acct_success')]
  return { authorized, captured, bank, account }
}

test.for(['run on', 'are restarted'] as const)(
  'requests that were done after the time of a restore have one effect when repeated, if processes %s',
  async (processes, { deployment }) => {
    const { client, sql, tenant_id } = deployment
    const { authorized, captured, bank, account } = await prepare(deployment)
    await deployment.server.backUp()
    const countSwitches = async () => {
      const [row] = await deployment.sql<{ count: number }[]>`select count(*) from database_switches`
      return row!.count
    }
    const switches_before = await countSwitches()
    const time = await clockOf(deployment)
    const payout = { amount_minor: 700, currency: 'usd' }
    const sent = [
      await send(deployment, '/v1/payments', PAYMENT),
      await send(deployment, `/v1/payments/${authorized.id}/capture`, {}),
      await send(deployment, `/v1/payments/${captured.id}/refunds`, { amount_minor: 300 }),
      await send(deployment, '/v1/payouts', { ...payout, recipient_id: bank }),
      await send(deployment, '/v1/payouts', { ...payout, recipient_id: account }),
      await send(deployment, TOP_UPS, TOP_UP),
    ]
    const effectsOfAll = async () =>
      await Promise.all(sent.map(async ({ answer }) => await effectsWith(deployment, answer.body.id)))
    const done = [['authorize'], ['authorize', 'capture'], ['refund'], ['payout'], ['transfer'], ['top_up']]
    await eventually(async () => expect(await effectsOfAll()).toEqual(done))
    await until('all events are in the feed', async () => {
      const waiting = await sql`
        select from jobs where tenant_id = ${tenant_id} and finished_at is null union all select from event_outbox`
      return waiting.length === 0
    })
    const [read] = await sql<{ last_sequence: number }[]>`
      select last_sequence from event_sequences where tenant_id = ${tenant_id}`

    if (processes === 'are restarted') await deployment.killAll()
    await deployment.server.restoreTo(time)
    const keys = sent.map(({ body }) => body.idempotency_key)
    const countKept = async () => {
      const [row] = await deployment.sql`select count(*) from idempotency_keys where key = any(${keys})`
      return row!.count
    }
    expect(await countKept()).toBe(0)
    if (processes === 'are restarted') await Promise.all([deployment.startApi(), deployment.startWorker()])
    for (const each of sent) {
      const { id, processor_reference } = each.answer.body
      const { body } = await repeat(deployment, each)
      expect([each.path, body]).toMatchObject([each.path, { id, processor_reference }])
    }
    expect(await countKept()).toBe(sent.length)
    expect(await countSwitches()).toBe(switches_before + 1)
    const lost = await client.get(`/v1/events?after=${read!.last_sequence}`)
    expect(lost).toMatchObject({ status: 409, body: { error: { code: 'feed_restarted' } } })
    expect(await effectsOfAll()).toEqual(done)
  },
)

/** Accepts work of each kind while no worker runs. Returns the ids of the resources, and the effects of the work. */
async function acceptWork(deployment: Restorable) {
  const { client } = deployment
  const { authorized, captured, bank } = await prepare(deployment)
  await deployment.killWorkers()
  // The lists of the processor are read without waiting for the lease of the killed worker.
  await deployment.sql`update recurring_work set lease_until = now() where lease_until is not null`
  const requests: [path: string, body: object, effects: string[]][] = [
    [`/v1/payments/${authorized.id}/capture`, {}, ['authorize', 'capture']],
    [`/v1/payments/${captured.id}/refunds`, { amount_minor: 300 }, ['refund']],
    ['/v1/payouts', { amount_minor: 700, currency: 'usd', recipient_id: bank }, ['payout']],
    [TOP_UPS, TOP_UP, ['top_up']],
    ['/v1/messages/email', { to: ['ada@example.com'], subject: 'Shipped', text: 'Soon.' }, ['email']],
    ['/v1/messages/sms', { to: '+14155552671', body: 'Shipped' }, ['sms']],
  ]
  const ids: string[] = []
  for (const [path, body] of requests) {
    const answer = await client.post(path, { ...body, idempotency_key: freshKey() }, ASYNC)
    expect([path, answer.status]).toEqual([path, 202])
    ids.push(answer.body.id as string)
  }
  const effectsOfAll = async () => await Promise.all(ids.map((id) => effectsWith(deployment, id)))
  const untilFinished = () =>
    eventually(async () => {
      const open = await deployment.sql`
        select name, state, run_at from jobs
        where resource_id = any(${[...ids, captured.id]}) and finished_at is null
          and not (name = 'message.send_email' and state = 'unknown')`
      expect(open).toEqual([])
    })
  return { ids, done: requests.map(([, , effects]) => effects), effectsOfAll, untilFinished }
}

test('work that was open at the time of a restore and is done is not done twice', async ({ deployment }) => {
  const { done, effectsOfAll, untilFinished } = await acceptWork(deployment)
  await deployment.server.backUp()
  const time = await clockOf(deployment)
  await deployment.startWorker()
  await eventually(async () => expect(await effectsOfAll()).toEqual(done))

  await deployment.server.restoreTo(time)
  await untilFinished()
  expect(await effectsOfAll()).toEqual(done)
})

test('after a day, work waits for an operator, and is not done twice although its provider has forgotten the keys', async ({
  deployment,
}) => {
  const { client, sql, env, provider, server, wire } = deployment
  const { ids, done, effectsOfAll, untilFinished } = await acceptWork(deployment)
  const [bank, other_bank] = [await recipient(client), await recipient(client)]
  await deployment.server.backUp()
  const time = await clockOf(deployment)
  await deployment.startWorker()
  await eventually(async () => expect(await effectsOfAll()).toEqual(done))
  const payout = { amount_minor: 500, currency: 'usd', recipient_id: bank }
  const repeated_with_changes: [Sent, object][] = [
    [await send(deployment, '/v1/payments', PAYMENT), { amount_minor: 2_000 }],
    [await send(deployment, TOP_UPS, TOP_UP), { amount_minor: 800 }],
    [await send(deployment, '/v1/payouts', payout), { amount_minor: 600 }],
    [await send(deployment, '/v1/payouts', payout), { recipient_id: other_bank }],
  ]
  const canceled = await send(deployment, '/v1/payments', PAYMENT)
  await send(deployment, `/v1/payments/${canceled.answer.body.id}/cancel`, {})
  const lost = [
    await send(deployment, '/v1/payments', PAYMENT),
    await send(deployment, TOP_UPS, TOP_UP),
    canceled,
  ]
  const effectsOfLost = () => Promise.all(lost.map(({ answer }) => effectsWith(deployment, answer.body.id)))
  const lost_effects = [['authorize'], ['top_up'], ['authorize', 'cancel']]
  await eventually(async () => expect(await effectsOfLost()).toEqual(lost_effects))

  await deployment.killAll()
  wire.refuse(true)
  await server.restoreTo(time)
  await shiftWork(new URL(new URL(env['DATABASE_URL']!).pathname, server.postgres.url).href, -25 * HOUR_MS)
  wire.refuse(false)
  const { control } = provider('stripe')
  await control('POST', '/clock', { advance_ms: 25 * HOUR_MS })
  try {
    await deployment.startApi()
    await eventually(async () => {
      const [last] = await sql`
        select kind, released_at from database_switches where recorded_at is not null order by number desc limit 1`
      expect(last).toEqual({ kind: 'restore', released_at: null })
    })
    // Without a worker, the provider's objects of the repeated requests are not recovered yet.
    for (const { path, body } of lost) expect((await client.post(path, body, ASYNC)).status).toBe(202)
    for (const [{ path, body }, changes] of repeated_with_changes)
      expect((await client.post(path, { ...body, ...changes }, ASYNC)).status).toBe(202)
    await deployment.startWorker()
    const payment = await createPayment(client, {}, { prefer: 'wait=1' })
    expect([payment.status, await effectsWith(deployment, payment.body.id)]).toEqual([202, []])
    const args = ['release', '--messages', 'send', '--reason', 'tested']
    expect((await runHere(recoverCommand, args, env)).stdout).toContain('Released: switch')
    await untilFinished()
    await paymentIn(client, payment.body.id, 'authorized')
    await eventually(async () => {
      const open = await sql`
        select name, state from jobs
        where resource_id = any(${lost.map(({ answer }) => answer.body.id)}) and finished_at is null`
      expect(open).toEqual([])
    })
    expect(await effectsOfLost()).toEqual(lost_effects)
    const { body } = await client.get(`/v1/payments/${canceled.answer.body.id}`)
    expect(body).toMatchObject({ status: 'canceled', authorized_at: expect.any(String) })
    for (const [{ path, body, answer }, changes] of repeated_with_changes) {
      const { id, amount_minor, recipient_id, processor_reference } = answer.body
      const first = { id, amount_minor, processor_reference, ...(recipient_id && { recipient_id }) }
      await eventually(async () => {
        const refused = await client.post(path, { ...body, ...changes }, ASYNC)
        expect(refused).toMatchObject({
          status: 422,
          body: { error: { code: 'idempotency_key_reused', context: { resource_id: id } } },
        })
      })
      expect((await client.post(path, body, ASYNC)).body).toMatchObject(first)
      expect([path, await effectsWith(deployment, id)]).toEqual([path, [expect.any(String)]])
    }
  } finally {
    await control('POST', '/clock', { advance_ms: -25 * HOUR_MS })
  }
  expect(await effectsOfAll()).toEqual(done)
  const [email, sms] = await Promise.all(
    ids.slice(-2).map(async (id) => (await client.get(`/v1/messages/${id}`)).body.status),
  )
  // Nobody can tell whether the email was sent.
  expect([email, sms]).toEqual(['unknown', expect.stringMatching(/^(sent|delivered)$/)])
})

test('a rehearsal restores the backup beside the running system, and changes nothing but its own folder', async ({
  deployment,
}) => {
  const { client, sql, env, server } = deployment
  await capturedPayment(client)
  // Only a server without an address, as a rehearsal starts it, refuses a login.
  const owner = postgres(new URL(new URL(env['DATABASE_URL']!).pathname, server.postgres.url).href, {
    max: 1,
  })
  const name = new URL(env['DATABASE_URL']!).pathname.slice(1)
  onTestFinished(async () => {
    await owner.unsafe(`drop event trigger at_login; alter database "${name}" reset event_triggers`)
    await owner.end()
  })
  await owner.unsafe(`
    create function refuse_login() returns event_trigger language plpgsql as $$ begin
      if current_setting('listen_addresses') = '' then raise exception 'a trigger of the backup has run'; end if;
    end $$;
    create event trigger at_login on login execute function refuse_login();
    alter database "${name}" set event_triggers = on`)
  const backup = await server.backUp()
  const { id } = await capturedPayment(client)
  const time = await clockOf(deployment)
  const later = await capturedPayment(client)
  const archive = await server.archive()
  const countSwitches = async () => (await sql`select from database_switches`).length
  const switches = await countSwitches()
  const files = async () => (await readdir(archive)).filter((name) => name.endsWith('.history'))
  const timelines = await files()

  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const own_folder = join(folder.path, `a "rehearsal", it's`)
  // As pg_basebackup writes it.
  await writeFile(join(backup, 'tablespace_map'), '')
  const tar = join(folder.path, 'tar')
  await mkdir(tar)
  await promisify(execFile)('tar', ['-cf', join(tar, 'base.tar'), '-C', backup, '.'])
  const rehearse = async (from: string, restore_command: string, more: string[], answers = '') => {
    const args = ['--backup', from, '--restore-command', restore_command, '--folder', own_folder, ...more]
    return await runHere(recoverCommand, ['rehearse', ...args], env, answers)
  }
  const copy = `cp ${archive}/%f %p`
  const if_unchanged = String.raw`test $(printf '%%s' 'a\b' | wc -c) = 3 && ${copy}`
  const { code, stdout, stderr } = await rehearse(tar, if_unchanged, ['--to', toIso(time)], 'y\n')
  expect([code, stderr]).toEqual([0, expect.stringContaining('[y/N]')])
  expect(stderr).toMatch(
    /^recovery: WAL is applied up to .+, the last file from the archive is \w+, the last transaction is of 2/m,
  )
  expect(stdout).toMatch(new RegExp(`^restore: .* s$[^]*^newest payment .* before the witness: ${id}$`, 'm'))
  expect(stdout).toMatch(/^No problem was found\.$[^]*^payments .* [1-9]\d* without a row/m)
  expect(stdout).not.toContain(later.id)
  expect(existsSync(own_folder)).toBe(false)
  expect([await countSwitches(), await files()]).toEqual([switches, timelines])

  const refused = await rehearse(backup, copy, ['--to', '2099-01-01T00:00:00Z', '--yes'])
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^PostgreSQL could not recover[^]*recovery ended before .* target/m),
  })
  expect(existsSync(own_folder)).toBe(false)

  await mkdir(own_folder)
  const stopped = rehearse(backup, 'echo $$ > started; exec sleep 1000', ['--yes'])
  const command_pid = await until('the recovery waits for the archive', async () => {
    const text = await readFile(join(own_folder, 'data/started'), 'utf8').catch(() => '')
    return text.endsWith('\n') && Number(text)
  })
  process.emit('SIGHUP', 'SIGHUP')
  expect(await stopped).toMatchObject({ code: 2, stderr: expect.stringContaining('Stopped.') })
  expect(await readdir(own_folder)).toEqual([])
  await until('the command has ended', () => Promise.resolve(!isAlive(command_pid)))
})

anyTest('texts of a backup reach the terminal without control characters', async () => {
  const text = 'x\u001b]0;owned\u0007\u009b2J\u202ey'
  const row = { id: text, created_at: text, at: text, behind_s: null }
  const problem = {
    check: 'keys',
    problem: 'wrong',
    what: text,
    tenant_id: text,
    resource: null,
    resource_id: null,
    id: text,
  }
  const amounts = { currency: null, expected: null, found: null, off_by: null }
  const printAll = async () => {
    printNewest({
      event: { ...row, type: text },
      payment: row,
      audit: { ...row, seq: 1, hash: text, entries_behind: null },
      witness: null,
      is_behind: false,
      witness_problems: [],
    })
    printReport(
      { checks: [], problems: [{ ...problem, ...amounts }] },
      {
        seq: 1,
        hash: text,
      },
    )
    printError(terminalLines(`${text}\nand more`))
    print(JSON.stringify({ text: text.replace('\u202e', '') }))
  }
  const { stdout, stderr } = await runHere(printAll, [], {})
  expect(stdout).toContain('newest event    x ]0;owned 2J y: x ]0;owned 2J y')
  expect(JSON.parse(stdout.split('\n').at(-2)!)).toEqual({ text: text.replace('\u202e', '') })
  expect(stdout + stderr).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u)
})

anyTest('a rehearsal does not follow links of a backup, and refuses what it cannot restore', async () => {
  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const outside = join(folder.path, 'outside')
  await mkdir(outside)
  await writeFile(join(outside, 'file'), '')
  const run = promisify(execFile)
  const wal = join(folder.path, 'pg_wal.tar')
  await run('tar', ['-cf', wal, '-C', outside, 'file'])
  await rm(join(outside, 'file'))
  const backup = join(folder.path, 'backup')
  const writeBackup = async () => {
    await rm(backup, { recursive: true, force: true })
    await mkdir(join(backup, 'pg_wal'), { recursive: true })
    await mkdir(join(backup, 'pg_tblspc'))
    await writeFile(join(backup, 'PG_VERSION'), '18\n')
    await writeFile(join(backup, 'backup_label'), 'START WAL LOCATION: 0/2000028\n')
    await writeFile(join(backup, 'pg_wal/000000010000000000000002'), '')
  }
  const replace = async (name: string, text: string | null, target?: string) => {
    await rm(join(backup, name), { recursive: true, force: true })
    if (target !== undefined) await symlink(target, join(backup, name))
    else if (text !== null) await writeFile(join(backup, name), text)
  }
  const packed = async () => {
    await replace('pg_wal', null, outside)
    await run('tar', ['-cf', join(folder.path, 'base.tar'), '-C', backup, '.'])
    await rm(backup, { recursive: true })
    await mkdir(backup)
    await run('cp', [join(folder.path, 'base.tar'), wal, backup])
  }
  const cases: [text: string, change: () => Promise<void>][] = [
    ['contains a link or a special file, "pg_wal"', packed],
    ['contains a link or a special file, "pg_wal"', () => replace('pg_wal', null, outside)],
    ['contains a link or a special file, "base"', () => replace('base', null, outside)],
    ['has tablespaces', () => replace('pg_tblspc/16400', null, outside)],
    ['has tablespaces', () => replace('tablespace_map', '16400 /mnt/other\n')],
    ['has no backup_label', () => replace('backup_label', null)],
    ['is incremental', () => replace('backup_label', 'INCREMENTAL FROM LSN: 0/2000028\n')],
    ['has no WAL', () => replace('pg_wal/000000010000000000000002', null)],
    ['has no PG_VERSION', () => replace('PG_VERSION', `../../../../..${outside}`)],
    // Under root, no file is read that PostgreSQL's own account cannot read.
    ['Permission denied', () => chmod(join(backup, 'backup_label'), 0)],
    ['Permission denied', async () => (await packed(), await chmod(join(backup, 'base.tar'), 0))],
    ['a password', () => Promise.resolve()],
  ]
  for (const [text, change] of cases) {
    await writeBackup()
    await change()
    const of =
      text === 'a password' ? ['--restored', 'postgres://sluice:secret@h/sluice'] : ['--backup', backup]
    const refused = await runHere(recoverCommand, ['rehearse', ...of], {
      DATABASE_URL: 'postgres://sluice@h/sluice',
    })
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(text)])
    expect(refused.stderr).not.toContain('secret')
    expect(await readdir(outside)).toEqual([])
  }
})

test('a rehearsal does not write into a tablespace that was created after the backup', async () => {
  const folder = await createTemporaryFolder()
  const server = await startRestorablePostgres(join(folder.path, 'postgres'), { autovacuum: 'off' })
  const sql = postgres(server.postgres.url, { max: 1, onnotice: () => {} })
  onTestFinished(async () => {
    await sql.end()
    await server.stop()
    await folder.remove()
  })
  const backup = await server.backUp()
  // PostgreSQL's user owns this folder.
  const location = join(await server.archive(), 'fast')
  await sql.unsafe(`copy (select 1) to program 'mkdir ${location}'`)
  await sql.unsafe(`create tablespace fast location '${location}'`)
  await sql`create table books (id integer) tablespace fast`
  await sql`insert into books select generate_series(1, 10000)`
  const archive = await server.archive()
  const restored = startRestored({
    backup,
    restore_command: `cp ${archive}/%f %p`,
    to: undefined,
    bin: undefined,
    folder: undefined,
    signal: new AbortController().signal,
  })
  await expect(restored).rejects.toThrow('The backup has tablespaces')
})

test('what only the old primary has is listed by id, looked up at its provider, and reported to its tenant', async ({
  deployment,
}) => {
  const { client, sql, env, server, tenant_id } = deployment
  const { authorized } = await prepare(deployment)
  const by = { tenant_id, actor: 'me', request_id: null, address: null }
  const key = await createApiKey(
    sql,
    { id: tenant_id, slug: 'shop', mode: 'live' },
    { name: 'to revoke\u001b[2J', scopes: [], expires_at: null },
    by,
  )
  const backup = await server.backUp()
  const archive = await server.archive()
  const captured = await send(deployment, `/v1/payments/${authorized.id}/capture`, {})
  const customer = (await client.post('/v1/customers', { name: 'Ada', idempotency_key: freshKey() })).body
  const payment = await capturedPayment(client)
  await revokeApiKey(sql, tenant_id, key.id, by)

  // A joined request has the job of an earlier one.
  const [own] = await sql`select job_id from idempotency_keys where resource_id = ${payment.id} limit 1`
  await sql`
    insert into idempotency_keys (tenant_id, key, scope, fingerprint, resource, resource_id, job_id)
    values (${tenant_id}, 'joined', ${`POST /v1/payments/:id/cancel ${payment.id}`}, 'x', 'payment', ${payment.id},
      ${own!['job_id']})`
  const kept = []
  for await (const batch of readRequests(sql, new Date(0).toISOString())) kept.push(...batch)
  expect(kept.find(({ key }) => key === 'joined')).toMatchObject({ job_id: null })
  expect(kept.find(({ id }) => id === captured.body.idempotency_key)?.job_id).toMatch(/^[\da-f-]{36}$/)
  await sql`delete from idempotency_keys where key = 'joined'`

  const restored = await startRestored({
    backup,
    restore_command: `cp ${archive}/%f %p`,
    to: undefined,
    bin: undefined,
    folder: undefined,
    signal: new AbortController().signal,
  })
  onTestFinished(async () => {
    await restored.stop()
    await restored.remove()
  })
  const { pathname, username } = new URL(env['DATABASE_URL']!)
  const DATABASE_URL = `postgres://${username}@${pathname}?host=${restored.host}&default_transaction_read_only=off`
  const used = connectDatabase(DATABASE_URL, { max: 1, application_name: 'test' })
  onTestFinished(() => used.end())
  await checkServer(used, null, {
    is_synchronous: false,
    all_answered: true,
    waited_for: null,
    is_repeated: false,
  })
  const compare = async (...more: string[]) => {
    const variables = { ...env, DATABASE_URL, OLD_DATABASE_URL: env['DATABASE_URL'] }
    return await runHere(recoverCommand, ['compare', ...more], variables)
  }
  const listed = await compare('--json')
  const rows = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const idsOf = (kind: string) => rows.filter((row) => row.kind === kind).map(({ id }) => id)
  expect([listed.code, idsOf('customer'), idsOf('payment'), idsOf('revoked_api_key')]).toEqual([
    0,
    [customer.id],
    [payment.id],
    [key.id],
  ])
  expect(idsOf('request')).toHaveLength(3)
  expect(idsOf('request')).toContain(captured.body.idempotency_key)
  expect(idsOf('audit_entry').length).toBeGreaterThan(0)
  expect(rows.at(-1)).toMatchObject({ summary: { lacking: expect.any(Number) }, recovered: null })

  const first = await compare('--yes')
  const [tenant] = await used`select slug from tenants where id = ${tenant_id}`
  expect(first.stdout).toContain(`to revoke [2J, of tenant ${tenant!['slug']}\n`)
  expect(first.stdout).toContain('2 objects of the providers will be looked up')
  expect(first.stdout).toContain(
    '3 requests not reported yet, because the lists of the providers are being read',
  )
  await used`update database_switches set lists_read_at = now() where lists_read_at is null`
  for (const text of ['1 lost request reported', '0 lost requests reported'])
    expect((await compare('--yes')).stdout).toContain(text)
  const reports = await used`
    select e.type from lost_requests l join events e on e.tenant_id = l.tenant_id and e.subject_id = l.id
    where l.resource_id = ${customer.id}`
  expect(reports).toEqual([{ type: 'request.lost' }])
  // The record of the same request in Redis is not reported again.
  const [recorded] = await used`
    select '1-0 0' as entry, accepted_at, tenant_id, path, 'POST /v1/customers' as route, idempotency_key as key,
      resource_id, true as is_created, null as job_id from lost_requests where resource_id = ${customer.id}`
  const [last] = await used`select last_switch as number from lineage`
  const again = await used.begin(
    async (tx) => await reportLostRequests(tx, last!.number, [recorded as ComparedRequest]),
  )
  expect(again).toBe(0)

  expect((await compare()).stderr).toContain('[y/N] The answer was not yes')
  expect(
    (await runHere(recoverCommand, ['compare', '--with', DATABASE_URL], { ...env, DATABASE_URL })).stderr,
  ).toContain('the database in use itself')
  expect((await compare('--with', 'postgres://sluice@127.0.0.1:1/sluice')).stderr).toMatch(
    /^--with: no PostgreSQL answers at 127\.0\.0\.1:1 /,
  )
})
