// The addresses of databases: several hosts, TLS, and addresses that are refused.
import { join } from 'node:path'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '#core/config.ts'
import { databaseError, isUnavailable, type Sql } from '#core/db.ts'
import { connectDatabase } from '#core/pool.ts'
import { clientOptions } from '#queue/postgres-stream.ts'
import { createPrivateFile } from '#start/files.ts'
import { createServerFolder } from '#start/folders.ts'
import { startPostgres, type EmbeddedPostgres } from '#start/postgres.ts'
import { certificate, certificateKey, loopbackCertificate } from '#test/certificate.ts'
import { runCommand } from '#test/commands.ts'
import { createDatabase } from '#test/databases.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { until } from '#test/process.ts'

const FORM_PROBLEM = 'must be postgres://user:password@host:port/database'
const HOSTS = 'must have hosts of the form host:port, separated by commas'

test.each([
  ['mysql://localhost/sluice', FORM_PROBLEM],
  ['postgres://user:pass/word@localhost/sluice', FORM_PROBLEM],
  ['postgres://user:100%@localhost/sluice', 'must be percent-encoded: % is written %25'],
  ['postgres://h1:0,h2/sluice', HOSTS],
  ['postgres://h1,,h2/sluice', HOSTS],
  ['postgres://h1,h2/sluice?port=1,2,3', 'must have one port, or one for each host'],
  [
    'postgres://localhost/sluice?target_session_attrs=master',
    'must have target_session_attrs that are one of any, read-write, read-only, primary, standby, prefer-standby',
  ],
  [
    'postgres://localhost/sluice?sslmode=no-verify',
    'must have an sslmode that is one of disable, prefer, require, verify-ca, verify-full',
  ],
  [
    'postgres://localhost/sluice?sslmode=verify-full&sslrootcert=/none.pem',
    'names a file that cannot be read: sslrootcert=/none.pem (ENOENT)',
  ],
  [
    'postgres://localhost/sluice?ssl=no-verify',
    'must have an sslmode that is one of disable, prefer, require, verify-ca, verify-full',
  ],
  ['postgres://localhost/sluice?ssl=true&sslmode=prefer', 'must have sslmode or ssl, not both'],
  [
    'postgres://localhost/sluice?sslMode=verify-full',
    'must not have the parameter sslMode, which is not supported',
  ],
  [
    'postgres://localhost/sluice?password=secret',
    'must not have the parameter password, which is not supported',
  ],
  ['postgres://localhost/sluice?sslmode=verify-full&sslmode=prefer', 'must not have a parameter twice'],
  ['postgres://localhost/sluice?sslmode=verify-ca', 'must have sslrootcert with sslmode=verify-ca'],
  ['postgres://localhost/sluice?sslcert=/dev/null', 'must have both sslcert and sslkey, or neither'],
  ['postgres://localhost/sluice?connect_timeout=0', 'must have a connect_timeout from 1 to 60 seconds'],
  ['postgres://localhost/sluice?pgbouncer=yes', 'must have pgbouncer=true or pgbouncer=false'],
  [
    'postgres://localhost/sluice?channel_binding=require',
    'must not have channel_binding=require, which is not supported: sslmode=verify-full protects as well',
  ],
])('the address %s is refused', (DATABASE_URL, problem) => {
  expect(() => loadConfig({ DATABASE_URL }, () => {})).toThrow(
    `  DATABASE_URL: ${problem}. Example: DATABASE_URL=postgres://sluice:secret@127.0.0.1:5432/sluice`,
  )
})

describe('a server with TLS', () => {
  let server: EmbeddedPostgres
  const files: Record<'loopback' | 'other', string> = { loopback: '', other: '' }

  test.beforeAll(async () => {
    const { path, remove } = await createTemporaryFolder()
    const { folder, account } = await createServerFolder(join(path, 'postgres'))
    const write = async (name: string, text: string) => {
      await createPrivateFile(join(folder, name), text, account)
      return join(folder, name)
    }
    files.loopback = await write('loopback.pem', loopbackCertificate)
    files.other = await write('other.pem', certificate)
    const ssl_key_file = await write('key.pem', certificateKey)
    const settings = { ssl: 'on', ssl_cert_file: files.loopback, ssl_key_file }
    server = await startPostgres({ data_dir: join(path, 'postgres'), settings })
    return async () => {
      await server.stop()
      await remove()
    }
  })

  const urlWith = (host: string, parameters: Record<string, string>) => {
    const url = Object.assign(new URL(server.url), { hostname: host })
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return url.href
  }

  test('is used with TLS unless sslmode is disable, by both drivers', async () => {
    const statement = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
    const cases: [host: string, parameters: Record<string, string>, ssl: boolean][] = [
      ['127.0.0.1', {}, true],
      ['127.0.0.1', { sslmode: 'disable' }, false],
      ['127.0.0.1', { sslmode: 'prefer' }, true],
      ['localhost', { sslmode: 'require' }, true],
      ['localhost', { ssl: 'true' }, true],
      ['127.0.0.1', { ssl: 'verify-full', sslrootcert: files.loopback }, true],
      ['localhost', { sslmode: 'verify-ca', sslrootcert: files.loopback }, true],
      ['127.0.0.1', { sslmode: 'verify-full', sslrootcert: files.loopback }, true],
    ]
    for (const [host, parameters, ssl] of cases) {
      const url = urlWith(host, parameters)
      const sql = open(url)
      const client = new Client(clientOptions(url))
      await client.connect()
      const rows = [
        ...(await sql.unsafe<{ ssl: boolean }[]>(statement)),
        ...(await client.query(statement)).rows,
      ]
      await client.end()
      expect([parameters, ...rows]).toEqual([parameters, { ssl }, { ssl }])
    }
  })

  test('is refused if its certificate is not trusted, or is for another name', async () => {
    const localhost = `localhost:${server.port}`
    const cases: [host: string, parameters: Record<string, string>, refusal: string][] = [
      [
        'localhost',
        { sslmode: 'verify-full', sslrootcert: files.loopback },
        `the PostgreSQL at ${localhost} cannot be used: its certificate is for IP Address:127.0.0.1, not for localhost.`,
      ],
      [
        'localhost',
        { sslmode: 'verify-ca', sslrootcert: files.other },
        `the PostgreSQL at ${localhost} cannot be used: its certificate is not trusted by ${files.other}: `,
      ],
      [
        'localhost',
        { sslmode: 'require', sslrootcert: files.other },
        `the PostgreSQL at ${localhost} cannot be used: its certificate is not trusted by ${files.other}: `,
      ],
      [
        '127.0.0.1',
        { sslmode: 'verify-full' },
        `the PostgreSQL at 127.0.0.1:${server.port} cannot be used: its certificate is not trusted by Node's CAs, because sslrootcert is not set: `,
      ],
    ]
    await Promise.all(
      cases.map(async ([host, parameters, refusal]) => {
        const url = urlWith(host, parameters)
        const error = await errorOf(open(url))
        expect([isUnavailable(error), String(databaseError(error, url))]).toEqual([
          true,
          expect.stringContaining(`DATABASE_URL: ${refusal}`),
        ])
        await expect(new Client(clientOptions(url)).connect()).rejects.toThrow(/^its certificate is /)
      }),
    )
  })

  test('makes a process exit at its start if its certificate is for another name, and `migrate` fail', async () => {
    const DATABASE_URL = urlWith('localhost', { sslmode: 'verify-full', sslrootcert: files.loopback })
    const env = {
      DATABASE_URL,
      QUEUE: 'postgres',
      METRICS_PORT: '0',
      API_PORT: '0',
      ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'),
      ADDRESS_KEY: Buffer.alloc(32).toString('base64'),
    }
    await Promise.all(
      ['src/api/main.ts', 'src/commands/migrate.ts'].map(async (file) => {
        const { code, stderr } = await runCommand(file, [], env)
        expect([file, code, stderr]).toEqual([
          file,
          1,
          `DATABASE_URL: the PostgreSQL at localhost:${server.port} cannot be used: its certificate is for IP Address:127.0.0.1, not for localhost.\n`,
        ])
      }),
    )
  })

  test('is migrated through TLS, with the tables of the queue', async () => {
    const DATABASE_URL = urlWith('127.0.0.1', { sslmode: 'verify-full', sslrootcert: files.loopback })
    const { code, stdout } = await runCommand('src/commands/migrate.ts', [], {
      DATABASE_URL,
      QUEUE: 'postgres',
    })
    expect([code, stdout]).toEqual([0, expect.stringContaining('Applied 0001_tenants.sql')])
    expect(await open(DATABASE_URL)`select from bullmq.job`).toHaveLength(0)
  })
})

test('an address with two hosts follows the server that accepts writes', async () => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const password = 'secret'
  const start = async (name: string) => {
    const server = await startPostgres({ data_dir: join(path, name) })
    onTestFinished(() => server.stop())
    const admin = open(server.url)
    await admin.unsafe(`alter user postgres password '${password}'; create table writes (server text)`)
    return {
      ...server,
      async setReadOnly(value: 'on' | 'off') {
        await admin.unsafe(`set default_transaction_read_only = off`)
        await admin.unsafe(`alter system set default_transaction_read_only = ${value}`)
        await admin`select pg_reload_conf()`
      },
    }
  }
  const [first, second] = await Promise.all([start('first'), start('second')])
  const url = `postgres://postgres:${password}@127.0.0.1:${first.port},127.0.0.1:${second.port}/sluice`
  const sql = open(url)
  const write = async (from: Sql) => {
    const [row] = await from<{ port: number }[]>`
      insert into writes values ('') returning current_setting('port')::integer as port`
    return row!.port
  }
  const untilWritesReach = async (port: number) => {
    await until(`writes reach ${port}`, async () => (await write(sql).catch(() => null)) === port)
    const client = new Client(clientOptions(url))
    await client.connect()
    const { rows } = await client.query(`select current_setting('port')::integer as port`)
    await client.end()
    expect(rows).toEqual([{ port }])
  }
  expect(await write(sql)).toBe(first.port)

  // The connections to the first server stay open.
  await first.setReadOnly('on')
  await untilWritesReach(second.port)
  // A new process tries the first server first.
  expect(await write(open(url))).toBe(second.port)
  const read_only = open(`${url}?target_session_attrs=read-only`)
  expect(await read_only`select current_setting('port')::integer as port`).toEqual([{ port: first.port }])

  await first.setReadOnly('off')
  await second.kill()
  await untilWritesReach(first.port)

  await first.setReadOnly('on')
  const error = await until('no server accepts writes', async () => {
    const found = await errorOf(open(url))
    return found instanceof Error && found.message.includes('is a primary that is read-only') && found
  })
  expect(isUnavailable(error)).toBe(true)
  expect(String(databaseError(error, url))).toMatch(
    /DATABASE_URL: no PostgreSQL can be used: 127\.0\.0\.1:\d+ is a primary that is read-only; 127\.0\.0\.1:\d+: connect ECONNREFUSED 127\.0\.0\.1:\d+ \(target_session_attrs=read-write needs one that accepts writes\)\./,
  )
  await first.kill()
  const refused = await runCommand('src/commands/keys.ts', ['list', '--tenant', 'acme'], {
    DATABASE_URL: url,
  })
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/^DATABASE_URL: no PostgreSQL can be used: .+ECONNREFUSED.+ECONNREFUSED.+\n$/),
  ])
})

test('a connection that accepts no writes is replaced, also if the address has one host', async () => {
  const database = await createDatabase()
  onTestFinished(database.drop)
  const admin = open(database.url)
  const [{ name }] = (await admin`select current_database() as name`) as [{ name: string }]
  await admin.unsafe(`create table writes (); alter database ${name} set default_transaction_read_only = on`)
  const sql = open(database.url)
  const write = async () => await sql`insert into writes default values`
  await expect(write()).rejects.toThrow('read-only transaction')
  // As if the name had moved to a new primary: sessions that are already open stay read-only.
  await admin.unsafe(`alter database ${name} reset default_transaction_read_only`)
  await until('a write succeeds', async () => await write().catch(() => undefined))
})

test("`migrate` names QUEUE_DATABASE_URL if the queue's database cannot be used", async () => {
  const database = await createDatabase()
  onTestFinished(database.drop)
  const cases: [changes: Partial<URL>, refusal: string][] = [
    [{ port: '1' }, 'no PostgreSQL answers at '],
    [{ pathname: '/missing' }, 'there is no database "missing" at '],
    [{ username: 'nobody' }, 'refuses the user "nobody" or the password'],
  ]
  for (const [changes, refusal] of cases) {
    const { code, stderr } = await runCommand('src/commands/migrate.ts', [], {
      DATABASE_URL: database.url,
      QUEUE: 'postgres',
      QUEUE_DATABASE_URL: Object.assign(new URL(database.url), changes).href,
    })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(`^QUEUE_DATABASE_URL: [^\n]*${refusal}[^\n]+\n$`),
    ])
  }
})

function open(url: string): Sql {
  const sql = connectDatabase(url, { max: 2, application_name: 'test' })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}

async function errorOf(sql: Sql): Promise<unknown> {
  return await sql`select 1`.then(
    () => undefined,
    (error: unknown) => error,
  )
}
