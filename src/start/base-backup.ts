// Copies a base backup of PostgreSQL, which is only read. Links in it are not followed: under root, a file that is
// written, changed or removed through one could be any file of the machine.
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '#core/config.ts'
import { createPrivateFolder } from './folders.ts'

const RESTORE_YOURSELF = 'restore it yourself, and name that server with --restored.'
const ARCHIVE = /^(?:base|pg_wal|\d+)\.tar(?:\.\w+)?$/
const WAL_FILE = /^[0-9A-F]{24}$/
const TABLESPACES = 'pg_tblspc'

/** What belongs to the server that was backed up: its process, its recovery, its slots and its configuration. */
const NOT_RESTORED = `
  postmaster.pid postmaster.opts standby.signal recovery.signal pg_replslot
  postgresql.conf postgresql.auto.conf pg_hba.conf pg_ident.conf conf.d`
  .trim()
  .split(/\s+/)

/**
 * Copies a backup of `pg_basebackup`, plain or tar, to the new folder `data` of this user. `has_archive`: whether the
 * recovery gets WAL from an archive. No tablespace can be created in the copy: a recovery creates those that the WAL
 * names as links to the folders of the original server, and writes into its files. Errors: ConfigError.
 */
export async function copyBaseBackup(
  backup: string,
  data: string,
  { has_archive, signal }: { has_archive: boolean; signal: AbortSignal },
): Promise<void> {
  const names = await readdir(backup).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(`--backup: ${backup} cannot be read (${error.code}).`)
  })
  const archives = names.filter((name) => ARCHIVE.test(name))
  const base = archives.find((name) => name.startsWith('base.'))
  if (!names.includes('PG_VERSION') && base === undefined)
    throw new ConfigError(
      `${backup} is not a base backup: it has neither PG_VERSION nor base.tar. See --help.`,
    )
  const wal = archives.find((name) => name.startsWith('pg_wal.'))
  if (archives.some((name) => /^\d/.test(name))) throw tablespaceError()
  await createPrivateFolder(data, null)
  if (names.includes('PG_VERSION')) await runTool('cp', ['-RP', '--', `${backup}/.`, data], signal)
  else await unpack(join(backup, base!), data, signal)
  await removeFiles(NOT_RESTORED.map((name) => join(data, name)))
  await assertOwnFiles(data)
  await createPrivateFolder(join(data, 'pg_replslot'), null)
  const found = await readdir(data)
  if (!found.includes('pg_wal')) throw new ConfigError(`The backup has no folder pg_wal: ${RESTORE_YOURSELF}`)
  if (!names.includes('PG_VERSION') && wal !== undefined) {
    await unpack(join(backup, wal), join(data, 'pg_wal'), signal)
    await assertOwnFiles(data)
  }
  await assertRecoverable(data, has_archive)
  await removeFiles([join(data, TABLESPACES)])
  await mkdir(join(data, TABLESPACES), { mode: 0o500 })
}

/** Removes files and folders. Does not follow links, even if another user creates them meanwhile. */
export async function removeFiles(paths: string[]): Promise<void> {
  if (paths.length > 0) await runTool('rm', ['-rf', '--', ...paths])
}

/** Runs a program to its end, also if it is aborted. Errors: ConfigError with the first error that it printed. */
export async function runTool(command: string, args: string[], signal?: AbortSignal): Promise<void> {
  const env = { PATH: process.env.PATH, LC_ALL: 'C' }
  const running = promisify(execFile)(command, args, { env, ...(signal && { signal }) })
  const closed = new Promise((resolve) => running.child.once('close', resolve))
  try {
    await running
  } catch (error) {
    await closed
    signal?.throwIfAborted()
    const { code, stderr = '' } = error as { code?: unknown; stderr?: string }
    if (code === 'ENOENT') throw new ConfigError(`The program ${command} is not on the PATH.`)
    throw new ConfigError(stderr.trim().split('\n')[0] || `${command} failed (${String(code)}).`)
  }
}

async function unpack(archive: string, to: string, signal: AbortSignal): Promise<void> {
  // GNU tar recognizes the other compressions itself.
  const compression = archive.endsWith('.lz4') ? ['-I', 'lz4'] : []
  const as_own = ['--no-same-owner', '--no-same-permissions']
  await runTool('tar', [...compression, ...as_own, '-xf', archive, '-C', to], signal)
}

/** Throws ConfigError if the folder has anything but files and folders. */
async function assertOwnFiles(data: string): Promise<void> {
  const entries = await readdir(data, { recursive: true, withFileTypes: true })
  for (const entry of entries) {
    const name = relative(data, join(entry.parentPath, entry.name))
    if (name.startsWith(`${TABLESPACES}/`)) throw tablespaceError()
    if (!entry.isFile() && !entry.isDirectory())
      throw new ConfigError(
        `The backup contains ${entry.isSymbolicLink() ? 'a link' : 'a special file'}, ${JSON.stringify(name)}, which is not followed: ${RESTORE_YOURSELF}`,
      )
  }
}

/** Throws ConfigError if PostgreSQL would refuse the backup with a wrong advice, or recover it to damaged data. */
async function assertRecoverable(data: string, has_archive: boolean): Promise<void> {
  const read = async (name: string) => await readFile(join(data, name), 'utf8').catch(() => '')
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
  const has_wal = (await readdir(join(data, 'pg_wal'))).some((name) => WAL_FILE.test(name))
  if (!has_wal && !has_archive)
    throw new ConfigError('The backup has no WAL: name the archive of the WAL with --restore-command.')
}

export function tablespaceError(): ConfigError {
  return new ConfigError(`The backup has tablespaces: ${RESTORE_YOURSELF}`)
}
