// Copies a base backup of PostgreSQL, which is only read. Links in it are not followed. Under root, programs of the
// account that runs PostgreSQL open the backup and the copy: its owner can replace a file by a link at any moment, and
// root would read or change any file of the machine through it.
import { execFile } from 'node:child_process'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { createPrivateFolder, type Account } from './folders.ts'

const RESTORE_YOURSELF = 'restore it yourself, and name that server with --restored.'
const ARCHIVE = /^(?:base|pg_wal|\d+)\.tar(?:\.\w+)?$/
const WAL_FILE = '[0-9A-F]'.repeat(24)
const TABLESPACES = 'pg_tblspc'

/** What belongs to the server that was backed up: its process, its recovery, its slots and its configuration. */
const NOT_RESTORED = `
  postmaster.pid postmaster.opts standby.signal recovery.signal pg_replslot
  postgresql.conf postgresql.auto.conf pg_hba.conf pg_ident.conf conf.d`
  .trim()
  .split(/\s+/)

/**
 * Copies a backup of `pg_basebackup`, plain or tar, to the new folder `data` of the account (null: this user), which
 * must be able to read the backup. `has_archive`: whether the recovery gets WAL from an archive. No tablespace can be
 * created in the copy: a recovery creates those that the WAL names as links to the folders of the original server, and
 * writes into its files. Errors: ConfigError.
 */
export async function copyBaseBackup(
  backup: string,
  data: string,
  { has_archive, account, signal }: { has_archive: boolean; account: Account | null; signal: AbortSignal },
): Promise<void> {
  const run: ToolRunner = async (command, ...args) => await runTool(command, args, { account, signal })
  const names = await namesIn(backup, run).catch((error: unknown) => {
    signal.throwIfAborted()
    throw unreadableError(backup, account, error)
  })
  const archives = names.filter((name) => ARCHIVE.test(name))
  const base = archives.find((name) => name.startsWith('base.'))
  if (!names.includes('PG_VERSION') && base === undefined)
    throw new ConfigError(
      `${backup} is not a base backup: it has neither PG_VERSION nor base.tar. See --help.`,
    )
  const wal = archives.find((name) => name.startsWith('pg_wal.'))
  if (archives.some((name) => /^\d/.test(name))) throw tablespaceError()
  await createPrivateFolder(data, account)
  const copying = names.includes('PG_VERSION')
    ? run('cp', '-RP', '--', `${backup}/.`, data)
    : unpack(join(backup, base!), data, run)
  await copying.catch((error: unknown) => {
    signal.throwIfAborted()
    throw unreadableError(backup, account, error)
  })
  await run('rm', '-rf', '--', ...NOT_RESTORED.map((name) => join(data, name)))
  await assertOwnFiles(data, run)
  await run('mkdir', '-m', '700', join(data, 'pg_replslot'))
  const found = await namesIn(data, run)
  if (!found.includes('pg_wal')) throw new ConfigError(`The backup has no folder pg_wal: ${RESTORE_YOURSELF}`)
  if (!names.includes('PG_VERSION') && wal !== undefined) {
    await unpack(join(backup, wal), join(data, 'pg_wal'), run)
    await assertOwnFiles(data, run)
  }
  await assertRecoverable(data, found, { has_archive, run })
  await run('rm', '-rf', '--', join(data, TABLESPACES))
  await run('mkdir', '-m', '500', join(data, TABLESPACES))
}

/** Removes files and folders. Does not follow links, even if another user creates them meanwhile. */
export async function removeFiles(paths: string[]): Promise<void> {
  if (paths.length > 0) await runTool('rm', ['-rf', '--', ...paths])
}

/** Runs a program, and returns what it printed. */
type ToolRunner = (command: string, ...args: string[]) => Promise<string>

/**
 * Runs a program to its end, also if it is aborted, and returns what it printed. Errors: ConfigError with the first
 * error that it printed.
 */
async function runTool(
  command: string,
  args: string[],
  { account, signal }: { account?: Account | null; signal?: AbortSignal } = {},
): Promise<string> {
  const running = promisify(execFile)(command, args, {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    // The account may not be able to enter the folder of this process.
    cwd: '/',
    ...(signal && { signal }),
    ...(account && { uid: account.uid, gid: account.gid }),
  })
  const closed = new Promise((resolve) => running.child.once('close', resolve))
  try {
    return (await running).stdout
  } catch (error) {
    await closed
    signal?.throwIfAborted()
    const { code, stderr = '' } = error as { code?: unknown; stderr?: string }
    if (code === 'ENOENT') throw new ConfigError(`The program ${command} is not on the PATH.`)
    throw new ConfigError(stderr.trim().split('\n')[0] || `${command} failed (${String(code)}).`)
  }
}

/** The text of a file that the account can read; empty if it cannot. */
export async function readAs(account: Account | null, path: string, signal: AbortSignal): Promise<string> {
  return await runTool('cat', ['--', path], { account, signal }).catch(() => {
    signal.throwIfAborted()
    return ''
  })
}

async function namesIn(folder: string, run: ToolRunner): Promise<string[]> {
  return (await run('ls', '-A', '--', `${folder}/`)).split('\n').filter(Boolean)
}

function unreadableError(backup: string, account: Account | null, error: unknown): unknown {
  if (!(error instanceof ConfigError)) return error
  const remedy =
    account !== null && error.message.includes('Permission denied')
      ? `. Under root, the account that runs PostgreSQL reads the backup: let ${account.name} read it`
      : ''
  return new ConfigError(`--backup: ${backup} cannot be read (${error.message})${remedy}.`)
}

async function unpack(archive: string, to: string, run: ToolRunner): Promise<void> {
  // GNU tar recognizes the other compressions itself.
  const compression = archive.endsWith('.lz4') ? ['-I', 'lz4'] : []
  const as_own = ['--no-same-owner', '--no-same-permissions']
  await run('tar', ...compression, ...as_own, '-xf', archive, '-C', to)
}

/** Throws ConfigError if the folder has anything but files and folders. */
async function assertOwnFiles(data: string, run: ToolRunner): Promise<void> {
  const is_other = ['!', '-type', 'f', '!', '-type', 'd']
  const in_tablespaces = ['-path', `*/${TABLESPACES}/*`]
  const printed = await run('find', data, '(', ...is_other, '-o', ...in_tablespaces, ')', '-print', '-quit')
  if (printed === '') return
  const name = relative(data, printed.trimEnd())
  if (name.startsWith(`${TABLESPACES}/`)) throw tablespaceError()
  throw new ConfigError(
    `The backup contains a link or a special file, ${JSON.stringify(name)}, which is not followed: ${RESTORE_YOURSELF}`,
  )
}

/** Throws ConfigError if PostgreSQL would refuse the backup with a wrong advice, or recover it to damaged data. */
async function assertRecoverable(
  data: string,
  found: string[],
  { has_archive, run }: { has_archive: boolean; run: ToolRunner },
): Promise<void> {
  const read = async (name: string) => (found.includes(name) ? await run('cat', '--', join(data, name)) : '')
  if ((await read('tablespace_map')).trim() !== '') throw tablespaceError()
  const label = await read('backup_label')
  if (label === '')
    throw new ConfigError(
      `The backup has no backup_label: without it, PostgreSQL recovers from the wrong point, and data may be damaged. Take another backup. If this is a snapshot of a volume: ${RESTORE_YOURSELF}`,
    )
  if (label.includes('INCREMENTAL FROM'))
    throw new ConfigError(
      'The backup is incremental: combine it with the backups before it (pg_combinebackup), and name the result with --backup.',
    )
  const wal = await run('find', join(data, 'pg_wal'), '-name', WAL_FILE, '-print', '-quit')
  if (wal === '' && !has_archive)
    throw new ConfigError('The backup has no WAL: name the archive of the WAL with --restore-command.')
}

export function tablespaceError(): ConfigError {
  return new ConfigError(`The backup has tablespaces: ${RESTORE_YOURSELF}`)
}
