// A PgBouncer in front of a PostgreSQL server, with the configuration of the guide Databases and a few connections for
// many clients.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { createPrivateFile } from '#start/files.ts'
import { createServerFolder } from '#start/folders.ts'
import { freePort } from '#start/ports.ts'
import { findProgram, spawnServer, waitUntilReady } from '#start/processes.ts'
import { installPackage } from './packages.ts'

export type PgBouncer = {
  /** The URL of the same database and user through PgBouncer. */
  through: (database_url: string) => string
  kill(): Promise<void>
  /** Restarts a killed PgBouncer on the same port. */
  start(): Promise<void>
  close(): Promise<void>
}

const GUIDE = new URL('../../docs/guides/databases.md', import.meta.url)
const HOST = '127.0.0.1'
const START_TIMEOUT_MS = 20_000
const STOP_TIMEOUT_MS = 10_000
/** So few that clients wait for each other, and a session serves many clients. */
const SERVER_CONNECTIONS = 6

/**
 * Starts a PgBouncer for these users of the server. If none is installed, it is installed, or the error says that it is
 * needed.
 */
export async function startPgBouncer(
  server_url: string,
  users: Record<string, string>,
  settings: Record<string, string> = {},
): Promise<PgBouncer> {
  const command = findPgBouncer()
  const temporary = await mkdtemp(join(tmpdir(), 'sluice-pgbouncer-'))
  const { folder, account } = await createServerFolder(temporary)
  const port = await freePort(HOST)
  const { hostname, port: server_port } = new URL(server_url)
  const [users_file, ini] = ['users.txt', 'pgbouncer.ini'].map((name) => join(folder, name))
  const lines = Object.entries(users).map(([name, password]) => `"${name}" "${password}"\n`)
  await createPrivateFile(users_file!, lines.join(''), account)
  const guide = await readFile(GUIDE, 'utf8')
  const own = {
    ...settings,
    listen_addr: HOST,
    listen_port: String(port),
    unix_socket_dir: '',
    auth_file: users_file!,
  }
  const configuration = /```ini\n(.*?)```/s
    .exec(guide)![1]!
    .replace('host=10.0.0.5 port=5432', `host=${hostname} port=${server_port}`)
  const changes = Object.entries({ default_pool_size: SERVER_CONNECTIONS, ...own }).map(
    ([name, value]) => `${name} = ${value}\n`,
  )
  await createPrivateFile(ini!, `${configuration}${changes.join('')}`, account)
  const through = (database_url: string) => {
    const url = new URL(database_url)
    url.port = String(port)
    url.searchParams.set('pgbouncer', 'true')
    return url.href
  }
  const launch = async () => {
    const server = await spawnServer({ command, args: ['-q', ini!], folder, account, end_signal: 'SIGTERM' })
    const state = await waitUntilReady(server, () => answers(port), START_TIMEOUT_MS)
    if (state !== 'ready') throw new Error(`PgBouncer does not start: ${server.log()}`)
    return server
  }
  let server = await launch()
  const kill = () => server.end(['SIGKILL'], STOP_TIMEOUT_MS)
  return {
    through,
    kill,
    async start() {
      server = await launch()
    },
    async close() {
      await kill()
      for (const path of [folder, temporary]) await rm(path, { recursive: true, force: true })
    },
  }
}

function findPgBouncer(): string {
  const find = () => findProgram(['pgbouncer'])
  const missing = 'No pgbouncer is on the PATH'
  const found = find() ?? (installPackage('pgbouncer', missing) ? find() : null)
  if (found === null)
    throw new Error(`${missing}, and this test needs it. Install it: apt-get install pgbouncer`)
  return found
}

/** Whether PgBouncer answers: an unknown user is refused. */
async function answers(port: number): Promise<boolean> {
  const sql = postgres({
    host: HOST,
    port,
    user: 'nobody',
    database: 'none',
    max: 1,
    connect_timeout: 2,
    fetch_types: false,
  })
  const error: unknown = await sql`select 1`.catch((cause: unknown) => cause)
  await sql.end({ timeout: 1 })
  return error instanceof postgres.PostgresError
}
