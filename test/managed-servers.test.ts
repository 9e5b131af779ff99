// Migrations on a server whose superuser belongs to the provider.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { startPostgres } from '#start/postgres.ts'
import { runCommand, type CommandResult } from '#test/commands.ts'
import { createTemporaryFolder } from '#test/folders.ts'

const GUIDE = new URL('../docs/guides/databases.md', import.meta.url)
const OWNER = 'app_owner'
const SERVICES = ['sluice_api', 'sluice_dashboard', 'sluice_webhooks', 'sluice_worker']

test('an owner with CREATEROLE migrates without a warning', async () => {
  const { migrate, owner, admin } = await startManaged('createrole')
  const first = await migrate()
  expect([first.code, first.stdout, first.stderr]).toEqual([
    0,
    expect.stringMatching(/^Applied [^\n]+\n$/),
    '',
  ])
  const roles = await admin<{ rolname: string }[]>`
    select rolname from pg_roles where rolname = any(${SERVICES}) order by rolname`
  expect(roles.map(({ rolname }) => rolname)).toEqual(SERVICES)

  // The next migration does not change the provider's tables, even one that the owner may not read, and writes the
  // settings of a new user.
  await admin.unsafe(
    'create table provider_settings (tenant_id uuid); create table spatial_ref_sys (srid integer)',
  )
  await admin`grant select on spatial_ref_sys to public`
  await owner`create role acme_api login password 'secret' in role sluice_api`
  expect(await migrate()).toEqual({ code: 0, stdout: 'The database is up to date.\n', stderr: '' })
  const settings = await admin<{ role: string }[]>`
    select setrole::regrole::text as role from pg_db_role_setting where 'enable_seqscan=off' = any(setconfig)`
  expect([...settings]).toEqual([{ role: 'acme_api' }])
})

test('an owner without CREATEROLE gets one line that leads to the guide, whose statements work', async () => {
  const { migrate, admin } = await startManaged('nocreaterole')
  const first = await migrate()
  const [warning = '', applied, ...more] = first.stdout.split('\n')
  expect([first.code, warning, applied, more, first.stderr]).toEqual([
    0,
    'The roles of the processes are not set up: app_owner may not create roles. Missing: sluice_api, sluice_webhooks, sluice_worker, sluice_dashboard, sluice_service, sluice_reader. See docs/guides/databases.md#managed-servers',
    expect.stringContaining('Applied 0001_tenants.sql'),
    [''],
    '',
  ])
  const statements = /```sql\n(create role sluice_service.*?)```/s.exec(await readFile(GUIDE, 'utf8'))![1]!
  await admin.unsafe(statements)
  await admin`create role acme_api login password 'secret' in role sluice_api`
  // The owner may not alter the user. Only processes behind PgBouncer need that, and they report it at their start.
  expect(await migrate()).toEqual({ code: 0, stdout: 'The database is up to date.\n', stderr: '' })
  const [rights] = await admin`
    select has_table_privilege('acme_api', 'payments', 'select') as may_read, has_table_privilege('acme_api', 'payments', 'delete') as may_delete`
  expect(rights).toEqual({ may_read: true, may_delete: false })
})

/**
 * A server with a database of a user that is no superuser. As on managed servers, the schema also has views of an
 * extension of the provider.
 */
async function startManaged(attribute: 'createrole' | 'nocreaterole') {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const server = await startPostgres({ data_dir: join(path, 'postgres') })
  onTestFinished(() => server.stop())
  const open = (url: string) => {
    const sql = postgres(url, { max: 1, onnotice: () => {} })
    onTestFinished(() => sql.end())
    return sql
  }
  const setup = open(server.url)
  await setup.unsafe(`create role ${OWNER} login password 'secret' nosuperuser ${attribute}`)
  await setup.unsafe(`create database app owner ${OWNER}`)
  const url = Object.assign(new URL(server.url), { pathname: '/app' })
  const admin = open(url.href)
  await admin`create extension pg_stat_statements`
  const DATABASE_URL = Object.assign(new URL(url), { username: OWNER, password: 'secret' }).href
  return {
    admin,
    owner: open(DATABASE_URL),
    migrate: async (): Promise<CommandResult> =>
      await runCommand('src/commands/migrate.ts', [], { DATABASE_URL, QUEUE: 'redis' }),
  }
}
