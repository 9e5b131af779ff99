// The servers that `npm start` runs keep committed data however they end, and leave no process running.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { link, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '#start/ports.ts'
import { type PostgresOptions, startPostgres } from '#start/postgres.ts'
import { processStarted } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { until } from '#test/process.ts'

test('freePort never returns a port twice, even before a server listens on the port', async () => {
  const ports = new Set<number>()
  for (let calls = 0; calls < 1000; calls += 1) ports.add(await freePort('127.0.0.1'))
  expect(ports.size).toBe(1000)
})

test('Postgres keeps committed rows through an immediate restart', async () => {
  const server = await startPostgresForTest({ data_dir: await createFolder() })
  await query(server.url, 'create table kept (value int)')
  await query(server.url, 'insert into kept values (42)')
  const old_pid = server.pid
  await server.restart('immediate')
  expect(server.pid).not.toBe(old_pid)
  expect(await query(server.url, 'select value from kept')).toEqual([{ value: 42 }])
})

test('Postgres restarts on the data of a postmaster that was killed', async () => {
  const data_dir = await createFolder()
  const first = await startPostgresForTest({ data_dir })
  await query(first.url, 'create table kept as select 42 as value')
  const session = postgres(first.url, { max: 1, onclose: () => {} })
  await session`select 1`
  process.kill(first.pid, 'SIGKILL')
  const second = await startPostgresForTest({ data_dir })
  expect(await query(second.url, 'select value from kept')).toEqual([{ value: 42 }])
  await session.end({ timeout: 0 })
})

test('Postgres has the settings of production and requires a password', async () => {
  const server = await startPostgresForTest({ data_dir: await createFolder(), settings: { work_mem: '7MB' } })
  const settings = await query(
    server.url,
    `select name, setting from pg_settings
      where name in ('fsync', 'synchronous_commit', 'listen_addresses', 'work_mem', 'max_notify_queue_pages')`,
  )
  expect(Object.fromEntries(settings.map((row) => [row.name, row.setting]))).toEqual({
    fsync: 'on',
    synchronous_commit: 'on',
    listen_addresses: '127.0.0.1',
    work_mem: '7168',
    max_notify_queue_pages: '16384',
  })
  const wrong_url = new URL(server.url)
  wrong_url.password = 'postgres'
  await expect(query(wrong_url.href, 'select 1')).rejects.toThrow('password authentication failed')
})

test('Postgres leads its own process group and stops all its processes', async () => {
  const server = await startPostgresForTest({ data_dir: await createFolder() })
  expect(leadsGroup(server.pid)).toBe(true)
  const [session] = await query(server.url, 'select pg_backend_pid() as pid')
  await server.stop()
  expect(processStarted(server.pid)).toBeNull()
  expect(processStarted(Number(session?.pid))).toBeNull()
  await server.stop()
})

test('the error of a port in use names the port and the variable to set', async () => {
  const server = await startPostgresForTest({ data_dir: await createFolder() })
  const { port } = server
  await expect(startPostgres({ data_dir: await createFolder(), port })).rejects.toThrow(
    new RegExp(`Port ${port} on 127.0.0.1 is in use.*POSTGRES_PORT`),
  )
  await expect(startRedis({ data_dir: await createFolder(), port })).rejects.toThrow(
    new RegExp(`Port ${port} on 127.0.0.1 is in use.*REDIS_PORT`),
  )
})

test('the start of a server in the folder of a running server is refused', async () => {
  const data_dir = await createFolder()
  const server = await startPostgresForTest({ data_dir })
  await expect(startPostgres({ data_dir })).rejects.toThrow(`in use by the server ${server.pid}`)
})

test("the error of a failed start contains the end of the server's log", async () => {
  const start = startPostgres({ data_dir: await createFolder(), settings: { work_mem: 'plenty' } })
  await expect(start).rejects.toThrow('invalid value for parameter "work_mem": "plenty"')
})

test('Redis keeps written data when it is killed, and its settings forbid evictions', async () => {
  const data_dir = await createFolder()
  const first = await startRedisForTest(data_dir)
  expect(leadsGroup(first.pid)).toBe(true)
  await withRedis(first.url, (redis) => redis.set('kept', '42'))
  await first.kill()
  expect(processStarted(first.pid)).toBeNull()
  const second = await startRedisForTest(data_dir, first.port)
  expect(second.port).toBe(first.port)
  expect(await withRedis(second.url, (redis) => redis.get('kept'))).toBe('42')
  expect(await withRedis(second.url, (redis) => redis.config('GET', 'maxmemory-policy'))).toContain(
    'noeviction',
  )
  await second.stop()
  expect(processStarted(second.pid)).toBeNull()
})

test('Redis requires a password that appears on no command line, and never runs as root', async () => {
  const server = await startRedisForTest(await createFolder())
  const url = new URL(server.url)
  expect(url.password).not.toBe('')
  const command = await readFile(`/proc/${server.pid}/cmdline`, 'utf8').catch(() => '')
  expect(command).not.toContain(url.password)
  expect((await stat(`/proc/${server.pid}`)).uid).not.toBe(0)
  url.password = ''
  await expect(withRedis(url.href, (redis) => redis.get('any'))).rejects.toThrow('NOAUTH')
})

test('Redis without a folder loses all data when it ends', async () => {
  const first = await startRedisForTest(null)
  await withRedis(first.url, (redis) => redis.set('gone', '42'))
  await first.kill()
  const second = await startRedisForTest(null, first.port)
  expect(await withRedis(second.url, (redis) => redis.get('gone'))).toBeNull()
})

describe('a symbolic link in the folder of a server', () => {
  /** A file outside the folder of the server: its path, its present state and its first state. */
  async function createOutsideFile() {
    const file = join(await createFolder(), 'victim')
    await writeFile(file, 'kept', { mode: 0o600 })
    const readState = async () => {
      const { uid, gid, mode } = await stat(file)
      return { uid, gid, mode, text: await readFile(file, 'utf8') }
    }
    return { file, readState, before: await readState() }
  }

  test('does not make PostgreSQL write its configuration into another file', async () => {
    const { file, readState, before } = await createOutsideFile()
    const data_dir = await createFolder()
    const starting = startPostgresForTest({ data_dir })
    const unfinished = join(data_dir, 'unfinished')
    // initdb writes the configuration before it creates the tables.
    await until('initdb creates tables', () =>
      stat(join(unfinished, 'global', 'pg_control')).catch(() => false),
    )
    await rm(join(unfinished, 'pg_hba.conf'))
    await symlink(file, join(unfinished, 'pg_hba.conf'))
    await Promise.allSettled([starting])
    expect(await readState()).toEqual(before)
    const { url } = await starting
    expect(await query(url, 'select auth_method from pg_hba_file_rules')).toEqual([
      { auth_method: 'scram-sha-256' },
    ])
  })

  test('does not make Redis write its password into another file', async () => {
    const { file, readState, before } = await createOutsideFile()
    const data_dir = await createFolder()
    await (await startRedisForTest(data_dir)).stop()
    const paths = [file, join(data_dir, 'data', 'redis.conf')]
    const relink_code = `for (;;) try { require('node:fs').symlinkSync(...${JSON.stringify(paths)}) } catch {}`
    const relinker = new Worker(relink_code, { eval: true })
    onTestFinished(async () => void (await relinker.terminate()))
    for (let starts = 0; starts < 5; starts++) await (await startRedisForTest(data_dir)).stop()
    expect(await readState()).toEqual(before)
  })
})

test('a server record with a second hard link is refused, and the process that it names is not ended', async () => {
  const data_dir = await createFolder()
  const bystander = spawn('sleep', ['600'], { stdio: 'ignore' })
  onTestFinished(() => void bystander.kill('SIGKILL'))
  const pid = bystander.pid!
  const started = processStarted(pid)
  const record = join(data_dir, 'server.json')
  const text = JSON.stringify({ pid, started, owner_pid: 1, owner_started: 'never' })
  await writeFile(record, text, { mode: 0o600 })
  await link(record, `${record}.2`)
  for (const start of [startPostgres, startRedis])
    await expect(start({ data_dir })).rejects.toThrow(`${record} is a hard link`)
  expect(processStarted(pid)).toBe(started)
})

test('servers end when the process that started them is killed', async () => {
  const script = `
    const { startPostgres } = await import('#start/postgres.ts')
    const { startRedis } = await import('#start/redis.ts')
    const postgres = await startPostgres({ data_dir: ${JSON.stringify(await createFolder())} })
    const redis = await startRedis({ data_dir: ${JSON.stringify(await createFolder())} })
    console.log(postgres.pid + ' ' + redis.pid)
    setInterval(() => {}, 1000)`
  const owner = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void owner.kill('SIGKILL'))
  const [line] = await once(owner.stdout, 'data')
  const pids = String(line).trim().split(' ').map(Number)
  expect(pids.map((pid) => processStarted(pid))).not.toContain(null)
  owner.kill('SIGKILL')
  while (pids.some((pid) => processStarted(pid) !== null)) await sleep(20)
})

test('each test file has its own database with all migrations applied', async () => {
  const [first, second] = await Promise.all([createDatabase(), createDatabase()])
  await query(first.url, 'create table mine (value int)')
  const tables = `select table_name as name from information_schema.tables where table_schema = 'public'`
  expect(await query(first.url, tables)).toContainEqual({ name: 'mine' })
  expect(await query(second.url, tables)).not.toContainEqual({ name: 'mine' })
  expect(await query(second.url, tables)).toContainEqual({ name: 'schema_migrations' })
  await Promise.all([first.drop(), second.drop()])
  await expect(query(first.url, 'select 1')).rejects.toThrow('does not exist')
})

async function createFolder(): Promise<string> {
  const created = await createTemporaryFolder()
  onTestFinished(created.remove)
  return created.path
}

async function startPostgresForTest(options: PostgresOptions) {
  const server = await startPostgres(options)
  onTestFinished(server.stop)
  return server
}

async function startRedisForTest(data_dir: string | null, port = 0) {
  const server = await startRedis({ data_dir, port })
  if (!server) throw new Error('this test needs redis-server or valkey-server on the PATH')
  onTestFinished(server.stop)
  return server
}

async function query(url: string, statement: string) {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return [...(await sql.unsafe(statement))]
  } finally {
    await sql.end()
  }
}

async function withRedis<T>(url: string, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url)
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

/** True if the process leads a process group: the id of a group is the id of its leader. */
function leadsGroup(pid: number): boolean {
  try {
    return process.kill(-pid, 0)
  } catch {
    return false
  }
}
