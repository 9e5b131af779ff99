// Checks deploy/postgres: creates the users of an installation in an embedded PostgreSQL that logs every statement.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { connectDatabase } from '#core/pool.ts'
import { migrate } from '#core/migrate.ts'
import { startPostgres } from '#start/postgres.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { CREATE_USERS, writeLogins } from './logins.ts'

const run = promisify(execFile)

await using cleanup = new AsyncDisposableStack()
const { path, remove } = await createTemporaryFolder('users')
cleanup.defer(remove)
const server = await startPostgres({
  data_dir: join(path, 'postgres'),
  settings: { log_statement: 'all', log_min_duration_statement: '0', log_min_error_statement: 'error' },
})
cleanup.defer(() => server.stop())

const passwords: string[] = []
const urls = await writeLogins(path, server.url, () => {
  const unquoted = randomBytes(12).toString('hex')
  passwords.push(unquoted)
  return `${unquoted}'@ %$\\n\\t`
})
const createUsers = async (...options: string[]) => await run(CREATE_USERS, [...options, path, server.url])
// With --as, the files are read by root only.
const is_root = process.getuid?.() === 0
if (is_root) await chmod(path, 0o711)
if (is_root)
  await Promise.all([...urls.keys()].map((login) => chmod(join(path, `database_url_${login}`), 0o600)))

await createUsers(...(is_root ? ['--as', 'nobody'] : []))
await assert.rejects(
  createUsers,
  /ERROR: {2}The users exist already: acme_api, .*; another installation needs a server/,
)
const log = await readFile(join(server.folder, 'server.log'), 'utf8')
assert.match(log, /statement: .*log_statement/)
assert.deepEqual(
  passwords.filter((password) => log.includes(password)),
  [],
  'the log of the server contains passwords',
)
console.log(
  `the users were created once${is_root ? ', with --as' : ''}; their passwords are not in the log of the server`,
)

assert((await migrate(urls.get('owner')!)).length > 0)
for (const [login, url] of urls) {
  const sql = connectDatabase(url, { max: 1, application_name: 'check' })
  cleanup.defer(() => sql.end())
  const [row] = await sql<{ owns: boolean }[]>`
    select pg_has_role(relowner, 'member') as owns from pg_class where oid = 'jobs'::regclass`
  assert.equal(
    row!.owns,
    login === 'owner',
    `acme_${login} must ${login === 'owner' ? '' : 'not '}own the tables`,
  )
}
console.log('the owner migrated, and each login works')

await writeFile(join(path, 'database_url_api'), 'postgres://acme_api@127.0.0.1/sluice\n')
await assert.rejects(createUsers, /database_url_api: must be postgres:\/\/acme_api:<password>@/)
await rm(join(path, 'database_url_api'))
await assert.rejects(createUsers, /database_url_api is missing: create it with .*postgres:\/\/acme_api:/)
