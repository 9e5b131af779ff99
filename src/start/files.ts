// Files that `npm start` trusts or writes: each is checked to be owned and writable by this user only.
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  type Stats,
} from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { ConfigError } from '#core/config.ts'
import type { Account } from './folders.ts'

const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
const FLAGS = { read: O_RDONLY, write: O_WRONLY | O_CREAT, append: O_WRONLY | O_CREAT | O_APPEND } as const

/**
 * Opens a file and makes it readable by this user only. `write` and `append` create it, `write` truncates it. Throws
 * ConfigError, before anything is read or written, if another user may have created it or can change it.
 */
export function openOwnFile(path: string, mode: keyof typeof FLAGS): number {
  const file = openWithoutFollowing(path, mode)
  try {
    const problem = ownershipProblemOf(fstatSync(file), path)
    if (problem !== undefined) throw refusal(path, problem)
    fchmodSync(file, 0o600)
    if (mode === 'write') ftruncateSync(file)
    return file
  } catch (error) {
    closeSync(file)
    throw error
  }
}

/** The content of a file; undefined if it does not exist. Throws like `openOwnFile`. */
export function readOwnFile(path: string): string | undefined {
  let file
  try {
    file = openOwnFile(path, 'read')
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Replaces a file atomically, even if the process is killed or the disk is full. Throws like `openOwnFile`. */
export function replaceOwnFile(path: string, text: string): void {
  const complete = `${path}.new`
  const file = openOwnFile(complete, 'write')
  try {
    writeFileSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(complete, path)
}

/** Creates or overwrites a file. Throws like `openOwnFile`. */
export function writeOwnFile(path: string, text: string): void {
  const file = openOwnFile(path, 'write')
  try {
    writeFileSync(file, text)
  } finally {
    closeSync(file)
  }
}

/**
 * Creates or replaces a file that only the account can read (null: this user). Does not follow a link, which the owner
 * of the folder could create at any moment.
 */
export async function createPrivateFile(path: string, text: string, account: Account | null): Promise<void> {
  await rm(path, { force: true })
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(text)
    if (account) await file.chown(account.uid, account.gid)
  } finally {
    await file.close()
  }
}

/** Does not follow links, and does not block on a pipe. */
function openWithoutFollowing(path: string, mode: keyof typeof FLAGS): number {
  try {
    return openSync(path, FLAGS[mode] | O_NOFOLLOW | O_NONBLOCK, 0o600)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw ['EISDIR', 'ENXIO'].includes(code) ? refusal(path, NOT_A_FILE) : error
  }
}

const NOT_A_FILE = 'is not a regular file. Remove it'

/** The problem and its remedy; undefined if only this user owns and can write the file. */
function ownershipProblemOf(found: Stats, path: string): string | undefined {
  if (!found.isFile()) return NOT_A_FILE
  if (found.uid !== process.getuid?.()) return `belongs to another user (uid ${found.uid}). Remove it`
  if (found.nlink > 1) return 'is a hard link: the file has a second name. Remove it'
  if ((found.mode & 0o022) !== 0)
    return `is writable by other users. If its content is unchanged, run chmod go-w ${path}, else remove it`
  return undefined
}

function refusal(path: string, problem: string): ConfigError {
  return new ConfigError(`${path} ${problem}, or choose another folder with DATA_DIR.`)
}
