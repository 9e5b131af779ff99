// Startup errors are one plain line that names the cause and the remedy.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { execFileSync, spawn } from 'node:child_process'
import { chmod, chown, link, mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished } from 'vitest'
import { startApi } from '#api/main.ts'
import { keysCommand } from '#commands/keys.ts'
import { loadConfig } from '#core/config.ts'
import { connectDatabase } from '#core/pool.ts'
import { createLog } from '#core/log.ts'
import { serveOperations } from '#core/service.ts'
import { errorText, listenAddresses } from '#core/startup.ts'
import { openQueue } from '#queue/queue.ts'
import { lockFolder } from '#start/data-dir.ts'
import { startAll } from '#start/main.ts'
import { processStarted } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { loadSecrets } from '#start/secrets.ts'
import { runCommand, runHere } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startErrorOf, type PartName } from '#test/parts.ts'
import { startProcess, until, urlIn } from '#test/process.ts'
import { startProxy } from '#test/proxy.ts'
import { OPERATIONS_READY } from '#test/served-metrics.ts'
import { PORTS } from '#test/start.ts'
import { postgresUrl } from '#test/suite.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

const START = 'src/start/main.ts'

let env: Record<string, string>
const test = testIn({ parts: [] })
test.beforeAll(async ({ world }) => {
  env = { ...world.env, ...PORTS, LOG_LEVEL: 'info' }
})

/** The error of a start that fails in this process. */
async function startError(variables: Record<string, string>): Promise<string> {
  const start = startAll(loadConfig(variables))
  return errorText(
    await start.then(
      async (started) => await started.close(),
      (error: unknown) => error,
    ),
  )
}

test('an unusable database is refused, and the error names the command to run', async ({ world }) => {
  const [empty, old, newer] = [
    await createEmptyDatabase(world),
    await createMigratedDatabase(),
    await createMigratedDatabase(),
  ]
  await old.sql`delete from schema_migrations where name like '0002%' or name like '0003%'`
  await newer.sql`insert into schema_migrations (name, checksum) values ('9999_later.sql', '')`
  const changeUrl = (change: (url: URL) => void) => {
    const url = new URL(env['DATABASE_URL']!)
    change(url)
    return url.href
  }
  await world.sql`create role login_without_role login password 'secret'`
  onTestFinished(async () => {
    await world.sql`drop role login_without_role`
  })
  const cases: [PartName, string, RegExp][] = [
    [
      'api',
      changeUrl((url) => (url.pathname = '/nowhere')),
      /^DATABASE_URL: there is no database "nowhere" at .+\. Create it: createdb /,
    ],
    [
      'api',
      changeUrl((url) => (url.password = 'guessed')),
      /^DATABASE_URL: the PostgreSQL at .+ refuses the user "postgres" or the password/,
    ],
    [
      'api',
      changeUrl((url) => Object.assign(url, { username: 'login_without_role', password: 'secret' })),
      /^The user login_without_role may not read schema_migrations\. Grant it the role of its process, such as sluice_api/,
    ],
    [
      'api',
      urlAs('worker', env['DATABASE_URL']!),
      /^DATABASE_URL: the user sluice_test_worker is not in the role sluice_api, which this process needs\. Each process has a user of its own\.$/,
    ],
    ['api', empty, /^The database has no tables yet\. Run: npm run migrate$/],
    ['api', old.url, /^The database is not migrated: 0002_\S+ and 1 more missing\. Run: npm run migrate$/],
    ['webhooks', old.url, /Run: npm run migrate$/],
    ['worker', old.url, /Run: npm run migrate$/],
    ['api', newer.url, /^The database was migrated by a newer version: 9999_later\.sql is not known here\./],
  ]
  for (const [name, DATABASE_URL, message] of cases) {
    const error = await startErrorOf(name, { ...env, DATABASE_URL })
    expect([name, error]).toEqual([name, expect.stringMatching(message)])
    expect(error.split('\n')).toHaveLength(1)
  }
  const refused = await runCommand('src/api/main.ts', [], { ...env, DATABASE_URL: empty })
  expect(refused).toMatchObject({
    code: 1,
    stderr: 'The database has no tables yet. Run: npm run migrate\n',
  })
  const listKeys = (DATABASE_URL: string) =>
    runHere(keysCommand, ['list', '--tenant', 'acme'], { ...env, DATABASE_URL })
  expect(await listKeys(changeUrl((url) => (url.port = '1')))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^DATABASE_URL: no PostgreSQL answers at 127\.0\.0\.1:1 \(ECONNREFUSED\)\..*\n$/,
    ),
  })
  expect(await listKeys(urlAs('api', env['DATABASE_URL']!))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^DATABASE_URL: the user "sluice_test_api" may not do this: permission denied for .+\. Use the URL of the owner of the tables\.\n$/,
    ),
  })
  expect(await listKeys(empty)).toMatchObject({
    code: 1,
    stderr: 'The database has no tables yet. Run: npm run migrate\n',
  })
  // ALLOW_NEWER_DATABASE permits a rollback to an older version.
  const rollback_env = { ...env, DATABASE_URL: newer.url, ALLOW_NEWER_DATABASE: 'true' }
  const rolled_back = await startProcess('src/api/main.ts', { env: rollback_env, ready: OPERATIONS_READY })
  expect(await rolled_back.end('SIGTERM')).toEqual({ code: 0, signal: null })
})

test('the error of a refused database connection contains the text of the database server', async ({
  world,
}) => {
  const refusals: [code: string, message: string, reported: string][] = [
    [
      '08P01',
      'unsupported startup parameter: jit',
      'refuses the connection: unsupported startup parameter: jit (08P01). This is PgBouncer: add pgbouncer=true to the address.',
    ],
    [
      '53300',
      'sorry, too many clients already',
      'refuses the connection: sorry, too many clients already (53300). Raise max_connections',
    ],
    [
      '53300',
      'too many connections for role "acme_api"',
      'refuses the connection: too many connections for role "acme_api" (53300). Raise the limit of this user there (alter role ... connection limit)',
    ],
    [
      '57P03',
      'the database system is starting up',
      'refuses the connection: the database system is starting up (57P03).',
    ],
    [
      '28000',
      'no pg_hba.conf entry for host "::1", no encryption',
      'no pg_hba.conf entry for host "::1", no encryption. Add sslmode=require to the address.',
    ],
    [
      '26000',
      'prepared statement "x" does not exist',
      '(26000). A pooler such as PgBouncer shares its sessions: add pgbouncer=true to the address.',
    ],
    ['28P01', 'password authentication failed', 'or the password: password authentication failed.'],
  ]
  // Each API waits for its database for seconds.
  const expectRefused = async ([code, message, reported]: (typeof refusals)[number]) => {
    const proxy = await startProxy(env['DATABASE_URL']!)
    onTestFinished(() => proxy.close())
    proxy.answerWith(() => refusalOf(code, message))
    const command_env = { ...env, DATABASE_URL: proxy.url }
    const command = await runHere(keysCommand, ['list', '--tenant', 'acme'], command_env)
    expect([code, command.code, command.stderr]).toEqual([code, 1, expect.stringContaining(reported)])
    expect(command.stderr).not.toContain('no PostgreSQL answers')
    const api = await startApi({ ...world.config, DATABASE_URL: proxy.url }, createLog('silent', 'test'))
    onTestFinished(() => api.close())
    const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, api.ready)
    onTestFinished(() => operations.close())
    const answer = await fetch(`${operations.url}/readyz`)
    expect([answer.status, await answer.json()]).toEqual([
      503,
      { status: 'not ready', reason: expect.stringContaining(`the database refuses: ${message} (${code})`) },
    ])
  }
  await Promise.all(refusals.map(expectRefused))
})

test('the error of a database server without TLS names TLS if the address requires TLS', async () => {
  const secure = new URL(env['DATABASE_URL']!)
  secure.searchParams.set('sslmode', 'require')
  const { code, stderr } = await runHere(keysCommand, ['list', '--tenant', 'acme'], {
    ...env,
    DATABASE_URL: secure.href,
  })
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^DATABASE_URL: the PostgreSQL at .+ refuses the connection: server does not support SSL, but SSL was required\. .+\n$/,
    ),
  ])
})

test('a migration needs no Redis', async () => {
  const { REDIS_URL: _redis, ...without_redis } = env
  const { code, stdout } = await runCommand('src/commands/migrate.ts', [], {
    ...without_redis,
    NODE_ENV: 'production',
    ENCRYPTION_KEY: env['ENCRYPTION_KEY'] ?? '',
  })
  expect([code, stdout]).toEqual([0, 'The database is up to date.\n'])
})

test('an unreachable database causes a warning, and the process is not ready', async () => {
  const unreachable_env = { ...env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/sluice' }
  const api = await startProcess('src/api/main.ts', {
    env: unreachable_env,
    ready: OPERATIONS_READY,
  })
  expect(
    await api.waitForLine('DATABASE_URL: no PostgreSQL answers at 127.0.0.1:1 (ECONNREFUSED).'),
  ).toContain('The connection is retried until PostgreSQL answers.')
  const answer = await fetch(`${urlIn(api.ready)}/readyz`)
  expect([answer.status, await answer.json()]).toEqual([
    503,
    { status: 'not ready', reason: 'the database does not answer' },
  ])
  expect(await api.end('SIGTERM')).toEqual({ code: 0, signal: null })
})

test('/readyz reports not ready if the database lacks a migration', async ({ world }) => {
  const database = await createMigratedDatabase()
  const api = await startApi({ ...world.config, DATABASE_URL: database.url }, createLog('silent', 'test'))
  const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, api.ready)
  try {
    const readiness = async () => {
      const answer = await fetch(`${operations.url}/readyz`)
      return [answer.status, await answer.json()]
    }
    expect(await readiness()).toMatchObject([200, { status: 'ready' }])
    await database.sql`delete from schema_migrations where name like '0005%'`
    expect(await readiness()).toEqual([
      503,
      { status: 'not ready', reason: expect.stringMatching(/0005_\S+ missing\. Run: npm run migrate$/) },
    ])
  } finally {
    await operations.close()
    await api.close()
  }
})

test('each start, a migration and /readyz refuse a PostgreSQL server that is too old, with one line', async ({
  world,
}) => {
  const [server] = await world.sql<
    { version: string }[]
  >`select current_setting('server_version_num') as version`
  const proxy = await startProxy(env['DATABASE_URL']!)
  onTestFinished(() => proxy.close())
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const api = await startApi({ ...world.config, DATABASE_URL: proxy.url }, createLog('silent', 'test'))
  onTestFinished(() => api.close())
  const operations = await serveOperations({ ...listenAddresses(world.config).metrics, port: 0 }, api.ready)
  onTestFinished(() => operations.close())
  const readiness = async () => {
    const answer = await fetch(`${operations.url}/readyz`)
    return [answer.status, await answer.json()]
  }
  expect(await readiness()).toMatchObject([200, { status: 'ready' }])

  // The proxy changes the version that the server reports.
  proxy.replaceInAnswers(server!.version, '170010')
  const refusal = 'DATABASE_URL: PostgreSQL 18 or newer is needed, and the server is 17.10.'
  expect(await readiness()).toEqual([503, { status: 'not ready', reason: refusal }])
  const command_env = { ...env, DATABASE_URL: proxy.url, DATA_DIR: join(path, 'data') }
  expect(await startErrorOf('api', command_env)).toBe(refusal)
  await Promise.all(
    [START, 'src/commands/migrate.ts'].map(async (file) => {
      const { code, stderr } = await runCommand(file, [], command_env)
      expect([file, code, stderr]).toEqual([file, 1, `${refusal}\n`])
    }),
  )
  proxy.replaceInAnswers(server!.version, '180000')
  expect(await readiness()).toMatchObject([200, { status: 'ready' }])
})

test('the error names all ports in use, and a HOST that is not an address of this machine is refused', async () => {
  const used_ports = await Promise.all(
    Object.keys(PORTS).map(async (variable) => [variable, await occupyPort()] as const),
  )
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const command_env = { ...Object.fromEntries(used_ports), DATA_DIR: join(path, 'data') }
  const { code, stderr } = await runCommand(START, [], command_env)
  expect([code, stderr.trimEnd().split('\n').toSorted()]).toEqual([
    1,
    used_ports
      .map(
        ([name, port]) => `${name}: port ${port} is in use. Choose another, or 0 for a free one: ${name}=0`,
      )
      .toSorted(),
  ])
  expect(await startErrorOf('api', { ...env, API_PORT: '45678', METRICS_PORT: '45678' })).toContain(
    'METRICS_PORT: port 45678 is also used by API_PORT.',
  )
  expect(await startErrorOf('api', { ...env, HOST: '192.0.2.1' })).toMatch(
    /^HOST: 192\.0\.2\.1 is not an address of this machine\. .+ HOST=127\.0\.0\.1$/,
  )
})

test('an unusable folder, a full disk and unreadable files are each reported in one line', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  await writeFile(join(path, 'file'), '')
  await mkdir(join(path, 'full', 'postgres'), { recursive: true })
  await symlink('/dev/full', join(path, 'full', 'postgres', 'password'))
  await mkdir(join(path, '.env'))
  await mkdir(join(path, 'cut'))
  await writeFile(join(path, 'cut', 'secrets.json'), '{"api_key":', { mode: 0o600 })
  const errors: [string, RegExp][] = [
    [join(path, 'file'), /^DATA_DIR: \S+file is a file, or lies in one\..+$/],
    [join(path, 'file', 'below'), /^DATA_DIR: \S+below is a file, or lies in one\..+$/],
    ['/proc/nowhere', /^DATA_DIR: \/proc\/nowhere is not writable \(\w+\)\..+$/],
    ['/proc/nowhere/below', /^DATA_DIR: \S+ is not writable \(\w+\)\..+$/],
    ['/sys/nowhere', /^DATA_DIR: \/sys\/nowhere is not writable \(\w+\)\..+$/],
    [join(path, 'cut'), /^DATA_DIR: \S+secrets\.json cannot be read\. Restore it.+$/],
  ]
  for (const [DATA_DIR, message] of errors)
    expect([DATA_DIR, await startError({ ...PORTS, DATA_DIR })]).toEqual([
      DATA_DIR,
      expect.stringMatching(message),
    ])
  const cases: [string, RegExp, string?][] = [
    [join(path, 'full'), /^DATA_DIR: the disk of \S+ is full\. Make room, or choose another folder.+\n$/],
    ['data', /^\.env cannot be read \(EISDIR\)\..+\n$/, path],
  ]
  await Promise.all(
    cases.map(async ([DATA_DIR, message, cwd]) => {
      const { code, stderr } = await runCommand(START, [], { ...PORTS, DATA_DIR }, cwd)
      expect([DATA_DIR, code, stderr]).toEqual([DATA_DIR, 1, expect.stringMatching(message)])
    }),
  )
  // A new key would make all sealed data unreadable, so the file stays unchanged.
  expect(await readFile(join(path, 'cut', 'secrets.json'), 'utf8')).toBe('{"api_key":')
})

test('a failed write of the secrets keeps the previous file', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const secrets = loadSecrets(path, null)
  const save = `import { saveSecrets } from '#start/secrets.ts'
    saveSecrets(${JSON.stringify(path)}, ${JSON.stringify({ ...secrets, api_key: 'another' })})`
  // With this limit no file can grow, as on a full disk.
  const limited = 'ulimit -f 0; exec "$0" --input-type=module -e "$1"'
  expect(() => execFileSync('sh', ['-c', limited, process.execPath, save], { stdio: 'ignore' })).toThrow(
    'Command failed',
  )
  expect(loadSecrets(path, null)).toEqual(secrets)
})

describe('a data folder prepared by another user', () => {
  /** Creates a folder in which the record of running processes names a process of another program. */
  async function createPreparedFolder() {
    const { path, remove } = await createTemporaryFolder()
    onTestFinished(remove)
    const bystander = spawn('sleep', ['600'], { stdio: 'ignore' })
    onTestFinished(() => void bystander.kill('SIGKILL'))
    const pid = bystander.pid!
    const part = { pid, started: processStarted(pid) }
    const record = { pid: 1, started: 'never', parts: { worker: part } }
    await writeFile(join(path, 'running.json'), JSON.stringify(record), { mode: 0o600 })
    return { path, isAlive: () => processStarted(pid) === part.started }
  }

  test('is refused in one line while other users can write to it, before any file in it is read', async () => {
    const { path, isAlive } = await createPreparedFolder()
    const target = join(path, 'target')
    await writeFile(target, 'kept')
    for (const name of ['running.json.new', 'sluice.log', 'dev.json']) await symlink(target, join(path, name))
    const refusal = `${path} is writable by other users. Run chmod go-w ${path}, or choose another folder with DATA_DIR.`
    await chmod(path, 0o777)
    const { code, stdout, stderr } = await runCommand(START, [], { ...env, DATA_DIR: path })
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: `${refusal}\n` })
    await chmod(path, 0o770)
    expect(await startError({ ...env, DATA_DIR: path })).toBe(refusal)
    expect([isAlive(), await readFile(target, 'utf8')]).toEqual([true, 'kept'])
  })

  test('is refused if it belongs to another user, even behind a symbolic link', async () => {
    const { path, remove } = await createTemporaryFolder()
    onTestFinished(remove)
    const foreign_folder = process.getuid!() === 0 ? join(path, 'theirs') : '/'
    if (foreign_folder !== '/') {
      await mkdir(foreign_folder)
      await chown(foreign_folder, 65_534, 65_534)
    }
    const link = join(path, 'link')
    await symlink(foreign_folder, link)
    for (const folder of [foreign_folder, link])
      await expect(lockFolder(folder)).rejects.toThrow(`${folder} belongs to another user (uid `)
  })

  test('does not lead to the end of a process of another program', async () => {
    const { path, isAlive } = await createPreparedFolder()
    const { release } = await lockFolder(path)
    await release()
    expect(isAlive()).toBe(true)
  })

  test.concurrent.for(['running.json.new', 'secrets.json', 'sluice.log', 'dev.json'])(
    'is not read or written through a symbolic link: %s',
    async (name, { onTestFinished }) => {
      const { path, remove } = await createTemporaryFolder()
      onTestFinished(remove)
      const target = join(path, 'target')
      const secrets = {
        api_key: '',
        encryption_key: env['ENCRYPTION_KEY'],
        stripe_webhook_secret: 'whsec_known',
      }
      await writeFile(target, JSON.stringify(secrets))
      await symlink(target, join(path, name))
      expect(await startError({ ...env, DATA_DIR: path })).toBe(
        `DATA_DIR: ${join(path, name)} is a symbolic link. Remove it, or choose another folder, e.g. DATA_DIR=/var/lib/sluice`,
      )
      expect(JSON.parse(await readFile(target, 'utf8'))).toEqual(secrets)
    },
  )

  const giveToOtherUser = async (file: string) => {
    await chmod(file, 0o666)
    await chown(file, 65_534, 65_534)
  }
  const prepared_files: [string, string, (file: string) => Promise<void>][] = [
    [
      'secrets.json',
      'is a hard link: the file has a second name. Remove it',
      (file) => link(file, `${file}.2`),
    ],
    [
      'secrets.json',
      'is writable by other users. If its content is unchanged, run chmod go-w FILE, else remove it',
      (file) => chmod(file, 0o660),
    ],
    [
      'secrets.json',
      'is not a regular file. Remove it',
      async (file) => {
        await rm(file)
        execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', file])
      },
    ],
    // Only root can change the owner of a file.
    ...['running.json', 'running.json.new', 'secrets.json', 'sluice.log', 'dev.json']
      .filter(() => process.getuid!() === 0)
      .map((name): (typeof prepared_files)[number] => [
        name,
        'belongs to another user (uid 65534). Remove it',
        giveToOtherUser,
      ]),
  ]
  test.concurrent.for(prepared_files)(
    'with an unsafe file is not read or written: %s %s',
    async ([name, fault, prepare], { onTestFinished }) => {
      const { path, remove } = await createTemporaryFolder()
      onTestFinished(remove)
      const file = join(path, name)
      const secrets = {
        api_key: '',
        encryption_key: env['ENCRYPTION_KEY'],
        stripe_webhook_secret: 'whsec_known',
      }
      await writeFile(file, JSON.stringify(secrets), { mode: 0o600 })
      await prepare(file)
      const readState = async () => {
        const { uid, mode, size, mtimeMs } = await stat(file)
        return { uid, mode, size, mtimeMs }
      }
      const before = await readState()
      const error = await startError({ ...env, DATA_DIR: path })
      expect(error).toBe(`${file} ${fault.replace('FILE', file)}, or choose another folder with DATA_DIR.`)
      expect(await readState()).toEqual(before)
    },
  )
})

test('a Redis that evicts or cannot be reached and a missing webhook secret cause warnings, and the output does not name disabled areas', async () => {
  const evicting = await startRedis({ data_dir: null, settings: { 'maxmemory-policy': 'allkeys-lru' } })
  onTestFinished(async () => await evicting?.stop())
  const warnings: string[] = []
  const queue = openQueue(
    { redis_url: evicting!.url, database_url: env['DATABASE_URL']! },
    { process_id: 'test', log: (level, _fields, message) => warnings.push(`${level}: ${message}`) },
  )
  onTestFinished(() => queue.close())
  await until('the warning is logged', () =>
    warnings.some((line) => line.startsWith('warn: REDIS_URL: this Redis has maxmemory-policy allkeys-lru')),
  )

  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const { STRIPE_WEBHOOK_SECRET: _, ...without_secret } = env
  const started = await startProcess(START, {
    env: {
      ...without_secret,
      DATA_DIR: path,
      REDIS_URL: 'redis://:guessed@127.0.0.1:1',
      DISABLED_AREAS: 'customers',
    },
    ready: 'Ctrl-C stops everything.',
  })
  await started.end('SIGTERM')
  expect(started.output()).toContain('Create and capture a payment:')
  expect(started.output()).not.toContain('Create a customer:')
  expect(started.output()).toContain('STRIPE_WEBHOOK_SECRET is not set: webhooks of Stripe are refused')
  // All processes together log one line about an unreachable Redis.
  const redis_lines = started
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && /redis/i.test(line))
  expect(redis_lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({
      level: 40,
      msg: 'REDIS_URL: no Redis answers at 127.0.0.1:1; jobs are claimed from PostgreSQL',
    }),
  ])
})

async function occupyPort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return String((server.address() as AddressInfo).port)
}

/** Creates a fully migrated database and a connection to it. */
async function createMigratedDatabase() {
  const { url, drop } = await createDatabase()
  const sql = connectDatabase(url, { max: 1, application_name: 'test' })
  onTestFinished(async () => {
    await sql.end()
    await drop()
  })
  return { url, sql }
}

async function createEmptyDatabase(world: World): Promise<string> {
  const name = `sluice_empty_${randomBytes(6).toString('hex')}`
  await world.sql.unsafe(`create database ${name}`)
  onTestFinished(async () => void (await world.sql.unsafe(`drop database ${name} with (force)`)))
  return Object.assign(new URL(await postgresUrl()), { pathname: `/${name}` }).href
}

test('an unexpected error is logged with a text, even if its stack is empty', () => {
  const error = new Error('the table is missing')
  expect(errorText(error)).toMatch(/^Error: the table is missing\n +at /)
  error.stack = ''
  expect(errorText(error)).toBe('Error: the table is missing')
})

/** An ErrorResponse message of the PostgreSQL protocol. */
function refusalOf(code: string, message: string): string {
  const fields = `SFATAL\0VFATAL\0C${code}\0M${message}\0\0`
  const length = Buffer.alloc(4)
  length.writeInt32BE(fields.length + 4)
  return `E${length.toString('latin1')}${fields}`
}
