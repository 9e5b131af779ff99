// Restores a base backup of PostgreSQL into a folder and runs a server on it, apart from all others: it has no port,
// archives nothing, follows no primary, and its sessions are read-only.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { fileVariableOf, SECRET_NAMES } from '#core/config/secret-files.ts'
import { VARIABLE_NAMES } from '#core/config/variables.ts'
import { createPrivateFile } from './files.ts'
import { createPrivateFolder, createServerFolder, type ServerFolder } from './folders.ts'
import { embeddedBinaries, isInState } from './postgres.ts'
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
const run = promisify(execFile)

/**
 * Copies the backup and recovers it. Resolves when the server accepts connections. Errors: ConfigError, with the end of
 * the server's log if it could not recover.
 */
export async function startRestored(options: RestoreOptions): Promise<RestoredServer> {
  const { signal, to, restore_command } = options
  if (to !== undefined && restore_command === undefined)
    throw new ConfigError('--to needs --restore-command: the backup itself only reaches to its own end.')
  const requested = options.folder ?? (await mkdtemp(join(tmpdir(), 'sluice-rehearsal-')))
  await assertEmpty(requested)
  const home = await createServerFolder(requested)
  // It is another folder if PostgreSQL's user cannot enter the requested one.
  await assertEmpty(home.folder)
  const remove = async () => {
    for (const folder of new Set([home.folder, requested])) await rm(folder, { recursive: true, force: true })
  }
  let server: ServerProcess | undefined
  const stop = async () => await server?.end(STOP_SIGNALS, STOP_TIMEOUT_MS)
  signal.addEventListener('abort', () => void stop())
  try {
    await copyBackup(resolve(options.backup), home)
    const socket = join(home.folder, 'socket')
    await createPrivateFolder(socket, home.account)
    await configure(home, settingsOf(options, socket))
    const postgres = await findPostgres(home, options.bin)
    signal.throwIfAborted()
    server = await spawnServer({
      command: postgres,
      args: ['-D', home.data],
      folder: home.folder,
      account: home.account,
      end_signal: 'SIGINT',
      env: environmentOfCommand(),
    })
    const { pid } = server
    const state = await waitUntilReady(server, () => isInState(home.data, pid, ['ready']), Infinity)
    signal.throwIfAborted()
    if (state !== 'ready') throw new ConfigError(`PostgreSQL could not recover the backup:\n${server.log()}`)
    return { host: socket, folder: home.folder, stop, remove }
  } catch (error) {
    await stop()
    await remove()
    throw error
  }
}

async function assertEmpty(folder: string): Promise<void> {
  if ((await readdir(folder).catch(() => [])).length > 0)
    throw new ConfigError(`${folder} is not empty: name a new folder.`)
}

/** Copies the files of the backup. Links are followed, so that the server writes only to its own folder. */
async function copyBackup(backup: string, { data, account }: ServerFolder): Promise<void> {
  const names = await readdir(backup).catch((): string[] => [])
  const archives = names.filter((name) => /^(?:base|pg_wal|\d+)\.tar(?:\.\w+)?$/.test(name))
  const base = archives.find((name) => name.startsWith('base.'))
  if (!names.includes('PG_VERSION') && base === undefined)
    throw new ConfigError(
      `${backup} is not a base backup: it has neither PG_VERSION nor base.tar. See --help.`,
    )
  await createPrivateFolder(data, null)
  if (base === undefined) await run('cp', ['-RL', `${backup}/.`, data])
  else {
    await run('tar', ['-xf', join(backup, base), '-C', data])
    const wal = archives.find((name) => name.startsWith('pg_wal.'))
    if (wal !== undefined) await run('tar', ['-xf', join(backup, wal), '-C', join(data, 'pg_wal')])
  }
  const tablespaces = await readdir(join(data, 'pg_tblspc')).catch(() => [])
  if (
    tablespaces.length > 0 ||
    existsSync(join(data, 'tablespace_map')) ||
    archives.some((name) => /^\d/.test(name))
  )
    throw new ConfigError(
      'The backup has tablespaces: restore it yourself, and name the server with --restored.',
    )
  const wal_folder = await lstat(join(data, 'pg_wal')).catch(() => null)
  if (wal_folder?.isDirectory() !== true)
    throw new ConfigError(
      'The backup has no folder pg_wal: restore it yourself, and name the server with --restored.',
    )
  for (const name of NOT_RESTORED) await rm(join(data, name), { recursive: true, force: true })
  await createPrivateFolder(join(data, 'pg_replslot'), null)
  if (account !== null) await run('chown', ['-R', `${account.uid}:${account.gid}`, data])
  await chmod(data, 0o700)
}

/** What belongs to the server that was backed up: its process, its recovery, its slots and its configuration. */
const NOT_RESTORED = `
  postmaster.pid postmaster.opts standby.signal recovery.signal pg_replslot
  postgresql.conf postgresql.auto.conf pg_hba.conf pg_ident.conf conf.d`
  .trim()
  .split(/\s+/)

function settingsOf({ restore_command, to }: RestoreOptions, socket: string): Record<string, string> {
  return {
    listen_addresses: '',
    unix_socket_directories: socket,
    // A write to the archive would be part of the next restore.
    archive_mode: 'off',
    max_logical_replication_workers: '0',
    default_transaction_read_only: 'on',
    autovacuum: 'off',
    // Nothing can connect before the recovery has ended.
    hot_standby: 'off',
    max_connections: '20',
    // The files are thrown away.
    fsync: 'off',
    max_wal_size: '4GB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(restore_command !== undefined && { restore_command, recovery_target_action: 'promote' }),
    ...(to !== undefined && { recovery_target_time: to }),
  }
}

async function configure({ data, account }: ServerFolder, settings: Record<string, string>): Promise<void> {
  const lines = Object.entries(settings).map(
    ([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`,
  )
  await createPrivateFile(join(data, 'postgresql.conf'), lines.join(''), account)
  await createPrivateFile(join(data, 'pg_hba.conf'), 'local all all trust\n', account)
  await createPrivateFile(join(data, 'pg_ident.conf'), '', account)
  if ('restore_command' in settings) await createPrivateFile(join(data, 'recovery.signal'), '', account)
}

/** The program of the version of the backup: the one in `bin`, on the PATH, in a usual folder, or the embedded one. */
async function findPostgres({ data, account }: ServerFolder, bin: string | undefined): Promise<string> {
  const version = (await readFile(join(data, 'PG_VERSION'), 'utf8')).trim()
  const usual = [`/usr/lib/postgresql/${version}/bin`, `/usr/pgsql-${version}/bin`]
  const folders =
    bin === undefined ? [...(process.env.PATH ?? '').split(':').filter(Boolean), ...usual] : [bin]
  for (const folder of folders) {
    const program = join(folder, 'postgres')
    const answer = await run(program, ['--version']).catch(() => ({ stdout: '' }))
    if (answer.stdout.includes(`(PostgreSQL) ${version}.`)) return program
  }
  if (bin !== undefined)
    throw new ConfigError(`--bin: ${bin} has no PostgreSQL ${version}, the version of the backup.`)
  const embedded = await embeddedBinaries(account).catch(() => undefined)
  const program = embedded && join(embedded, 'bin/postgres')
  const { stdout } = program === undefined ? { stdout: '' } : await run(program, ['--version'])
  if (program !== undefined && stdout.includes(`(PostgreSQL) ${version}.`)) return program
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
