// Restores a base backup of PostgreSQL into a folder and runs a server on it, apart from all others: it has no port,
// archives nothing, follows no primary, and its sessions are read-only.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, readdir, realpath, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve, sep } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { fileVariableOf, SECRET_NAMES } from '#core/config/secret-files.ts'
import { VARIABLE_NAMES } from '#core/config/variables.ts'
import { parseTime } from '#core/time.ts'
import { copyBaseBackup, readAs, removeFiles, tablespaceError } from './base-backup.ts'
import { createPrivateFile } from './files.ts'
import { createServerFolder, type ServerFolder } from './folders.ts'
import { embeddedBinaries } from './postgres.ts'
import { isInState } from './postmaster.ts'
import { spawnServer, waitUntilReady, type ServerProcess } from './processes.ts'

export type RestoreOptions = {
  /** A folder of `pg_basebackup`, plain or tar. It is only read. */
  backup: string
  /** Fetches WAL from the archive, as in PostgreSQL. Without it, only the WAL in the backup is applied. */
  restore_command: string | undefined
  /** The time up to which WAL is applied. Default: all that there is. */
  to: string | undefined
  /** The folder of PostgreSQL's programs. Default: they are searched. */
  bin: string | undefined
  /** The folder of the restored server, which must be new or empty. Default: a temporary one. */
  folder: string | undefined
  signal: AbortSignal
  /** Receives a line about the progress of the recovery every few seconds. */
  report?: (line: string) => void
}

export type RestoredServer = {
  /** The host of the server for connections: the folder of its socket, which only this user can enter. */
  host: string
  folder: string
  stop(): Promise<void>
  /** Removes the folder of the stopped server. */
  remove(): Promise<void>
}

const STOP_SIGNALS: NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGKILL']
const STOP_TIMEOUT_MS = 30_000
const REPORT_INTERVAL_MS = 3_000
/** The socket is in a folder of its own here: the length of its path is limited, and a comma ends a host in a URL. */
const SOCKET_PARENT = '/tmp'
const run = promisify(execFile)

/**
 * Copies the backup and recovers it. Resolves when the server accepts connections. If the signal aborts, stops the
 * server and removes what was created. Errors: the reason of the signal; ConfigError, with the end of the server's log
 * if it could not recover.
 */
export async function startRestored(options: RestoreOptions): Promise<RestoredServer> {
  const { signal, to, restore_command, report = () => {} } = options
  if (to !== undefined && restore_command === undefined)
    throw new ConfigError('--to needs --restore-command: the backup itself only reaches to its own end.')
  if (to !== undefined && parseTime(to) === undefined)
    throw new ConfigError('--to must be a time with its zone, such as 2026-11-28T09:30:00Z. See --help.')
  const backup = resolve(options.backup)
  const { home, remove } = await createHome(options.folder, backup)
  let server: ServerProcess | undefined
  let socket: string | undefined
  const stop = async () => {
    await server?.end(STOP_SIGNALS, STOP_TIMEOUT_MS)
    if (socket !== undefined) await removeFiles([socket])
  }
  const onAbort = () => void server?.end(STOP_SIGNALS, STOP_TIMEOUT_MS)
  signal.addEventListener('abort', onAbort)
  try {
    signal.throwIfAborted()
    const { account } = home
    await copyBaseBackup(backup, home.data, { has_archive: restore_command !== undefined, account, signal })
    socket = await mkdtemp(join(SOCKET_PARENT, 'sluice-socket-'))
    if (account !== null) await chown(socket, account.uid, account.gid)
    const version = await versionOf(home, signal)
    await configure(home, settingsOf(options, socket, version))
    await chmod(home.data, 0o700)
    const postgres = await findPostgres(home, options.bin, version)
    signal.throwIfAborted()
    server = await spawnServer({
      command: postgres,
      args: ['-D', home.data],
      folder: home.folder,
      account,
      end_signal: 'SIGINT',
      env: environmentOfCommand(),
    })
    await recover(server, home, { signal, report })
    return { host: socket, folder: home.folder, stop, remove }
  } catch (error) {
    await stop()
    await remove()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Waits until the server accepts connections, and reports its progress meanwhile. */
async function recover(
  server: ServerProcess,
  { data }: ServerFolder,
  { signal, report }: { signal: AbortSignal; report: (line: string) => void },
): Promise<void> {
  let [next_at, last] = [performance.now() + REPORT_INTERVAL_MS, '']
  const isReady = async () => {
    if (performance.now() > next_at) {
      next_at = performance.now() + REPORT_INTERVAL_MS
      const text = describeRecovery(server.log())
      if (text !== last) report(text)
      last = text
    }
    return await isInState(data, server.pid, ['ready'])
  }
  const state = await waitUntilReady(server, isReady, Infinity)
  signal.throwIfAborted()
  if (state !== 'ready' && server.log().includes('could not create symbolic link "pg_tblspc/'))
    throw tablespaceError()
  if (state !== 'ready') throw new ConfigError(`PostgreSQL could not recover the backup:\n${server.log()}`)
  const text = describeRecovery(server.log())
  if (text !== last) report(text)
}

/** The progress of a recovery, by the log of its server. */
function describeRecovery(log: string): string {
  const last = (pattern: RegExp) => [...log.matchAll(pattern)].at(-1)?.[1]
  const position = last(
    /(?:redo in progress, .* current LSN:|redo starts at|recovery state reached at|redo done at) (\S+)/g,
  )
  const file = last(/restored log file "(\w+)" from archive/g)
  const time = last(/last completed transaction was at log time (.+)/g)
  const texts = [
    position && `WAL is applied up to ${position}`,
    file && `the last file from the archive is ${file}`,
    time && `the last transaction is of ${time}`,
  ].filter((text) => text !== undefined)
  return `recovery: ${texts.length === 0 ? 'waits for WAL' : texts.join(', ')}`
}

/** Creates the folder of the server. `remove`: removes the folder, or its content if it existed before. */
async function createHome(
  folder: string | undefined,
  backup: string,
): Promise<{ home: ServerFolder; remove: () => Promise<void> }> {
  const existed = folder !== undefined && existsSync(folder)
  if (existed) await assertEmpty(folder)
  const requested = folder ?? (await mkdtemp(join(tmpdir(), 'sluice-rehearsal-')))
  try {
    const home = await createServerFolder(requested)
    const source = await realpath(backup).catch(() => backup)
    if (`${home.folder}${sep}`.startsWith(`${source}${sep}`))
      throw new ConfigError(`--folder: ${requested} is in the backup, which is only read.`)
    // It is another folder if PostgreSQL's user cannot enter the requested one.
    await assertEmpty(home.folder)
    const remove = async () => {
      const inner = existed ? (await readdir(home.folder)).map((name) => join(home.folder, name)) : []
      const is_requested = existed && (await realpath(requested)) === home.folder
      await removeFiles(is_requested ? inner : [home.folder, ...(existed ? [] : [resolve(requested)])])
    }
    return { home, remove }
  } catch (error) {
    if (!existed) await rmdir(requested).catch(() => {})
    if (!(error instanceof ConfigError) && error instanceof Error && 'code' in error)
      throw new ConfigError(`--folder: ${requested} cannot be used (${String(error.code)}).`)
    throw error
  }
}

async function assertEmpty(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(`--folder: ${folder} cannot be used (${error.code}).`)
  })
  if (names.length > 0) throw new ConfigError(`${folder} is not empty: name a new folder.`)
}

function settingsOf(
  { restore_command, to }: RestoreOptions,
  socket: string,
  version: number,
): Record<string, string> {
  return {
    listen_addresses: '',
    unix_socket_directories: socket,
    // A write to the archive would be part of the next restore.
    archive_mode: 'off',
    max_logical_replication_workers: '0',
    default_transaction_read_only: 'on',
    autovacuum: 'off',
    // A trigger at login would run a function of the backup. Earlier versions have neither.
    ...(version >= 17 && { event_triggers: 'off' }),
    // Nothing can connect before the recovery has ended.
    hot_standby: 'off',
    max_connections: '20',
    // The files are thrown away.
    fsync: 'off',
    max_wal_size: '4GB',
    log_startup_progress_interval: `${REPORT_INTERVAL_MS}ms`,
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(restore_command !== undefined && { restore_command, recovery_target_action: 'promote' }),
    // PostgreSQL does not know the zone Z yet when it reads this setting.
    ...(to !== undefined && { recovery_target_time: to.replace(/z$/i, '+00') }),
  }
}

async function configure({ data, account }: ServerFolder, settings: Record<string, string>): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${escapeSetting(value)}'\n`)
  await createPrivateFile(join(data, 'postgresql.conf'), lines.join(''), account)
  await createPrivateFile(join(data, 'pg_hba.conf'), 'local all all trust\n', account)
  await createPrivateFile(join(data, 'pg_ident.conf'), '', account)
  if ('restore_command' in settings) await createPrivateFile(join(data, 'recovery.signal'), '', account)
}

/** A value between quotes in postgresql.conf: a backslash escapes, and a line cannot end inside of quotes. */
function escapeSetting(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll("'", "''").replaceAll('\n', '\\n').replaceAll('\r', '\\r')
}

/** The version of PostgreSQL that has written the backup. */
async function versionOf({ data, account }: ServerFolder, signal: AbortSignal): Promise<number> {
  const version = (await readAs(account, join(data, 'PG_VERSION'), signal)).trim()
  // It becomes part of a path.
  if (!/^\d{1,3}$/.test(version))
    throw new ConfigError('The backup has no PG_VERSION with the version of PostgreSQL: it is not complete.')
  return Number(version)
}

/** The program of the version of the backup: the one in `bin`, on the PATH, in a usual folder, or the embedded one. */
async function findPostgres(
  { account }: ServerFolder,
  bin: string | undefined,
  version: number,
): Promise<string> {
  const usual = [`/usr/lib/postgresql/${version}/bin`, `/usr/pgsql-${version}/bin`]
  const folders =
    bin === undefined ? [...(process.env.PATH ?? '').split(':').filter(Boolean), ...usual] : [resolve(bin)]
  const as_account = { env: environmentOfCommand(), ...(account && { uid: account.uid, gid: account.gid }) }
  const isOfVersion = async (program: string) => {
    const { stdout } = await run(program, ['--version'], as_account).catch(() => ({ stdout: '' }))
    return stdout.includes(`(PostgreSQL) ${version}.`)
  }
  for (const folder of folders) {
    const program = join(folder, 'postgres')
    if (await isOfVersion(program)) return program
  }
  if (bin !== undefined)
    throw new ConfigError(`--bin: ${bin} has no PostgreSQL ${version}, the version of the backup.`)
  const embedded = await embeddedBinaries(account).catch(() => undefined)
  const program = embedded && join(embedded, 'bin/postgres')
  if (program !== undefined && (await isOfVersion(program))) return program
  throw new ConfigError(
    `No PostgreSQL ${version}, the version of the backup, is on the PATH. Name the folder of its programs with --bin.`,
  )
}

/** The variables of this process for the restore command, without those of PostgreSQL and our own. */
function environmentOfCommand(): NodeJS.ProcessEnv {
  const own = new Set<string>([...VARIABLE_NAMES, ...SECRET_NAMES.map(fileVariableOf)])
  const others = Object.entries(process.env).filter(([name]) => !own.has(name) && !name.startsWith('PG'))
  return { ...Object.fromEntries(others), LC_ALL: 'C', TZ: 'UTC' }
}
