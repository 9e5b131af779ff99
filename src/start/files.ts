// Files that `npm start` believes or writes to: no other user may have a hand in them, whatever they could do earlier.
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
 * Opens a file that nobody but us can read from now on; `write` and `append` make it, `write` empties it. Throws
 * ConfigError when somebody else may have put it there or can change it, before anything is read or written.
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

/** What is in a file of ours; undefined when there is none. Throws as `openOwnFile`. */
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

/** Replaces a file of ours, whole or not at all, also when we are killed or the disk is full. Throws as `openOwnFile`. */
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

/** Makes or replaces what is in a file of ours. Throws as `openOwnFile`. */
export function writeOwnFile(path: string, text: string): void {
  const file = openOwnFile(path, 'write')
  try {
    writeFileSync(file, text)
  } finally {
    closeSync(file)
  }
}

/**
 * Makes a file that only the account (null: only we) can read, in the place of the one with that name. Whoever owns the
 * folder can put a link there at any moment: it is not followed.
 */
export async function makePrivateFile(path: string, text: string, account: Account | null): Promise<void> {
  await rm(path, { force: true })
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(text)
    if (account) await file.chown(account.uid, account.gid)
  } finally {
    await file.close()
  }
}

/** Follows no link, and does not wait for the other end of a pipe. */
function openWithoutFollowing(path: string, mode: keyof typeof FLAGS): number {
  try {
    return openSync(path, FLAGS[mode] | O_NOFOLLOW | O_NONBLOCK, 0o600)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw ['EISDIR', 'ENXIO'].includes(code) ? refusal(path, NOT_A_FILE) : error
  }
}

const NOT_A_FILE = 'is no plain file. Remove it'

/** What is wrong with a file, and what to do; undefined when it is ours alone. */
function ownershipProblemOf(found: Stats, path: string): string | undefined {
  if (!found.isFile()) return NOT_A_FILE
  if (found.uid !== process.getuid?.()) return `belongs to another user (uid ${found.uid}). Remove it`
  if (found.nlink > 1) return 'is a hard link: the file has another name too. Remove it'
  if ((found.mode & 0o022) !== 0)
    return `can be written to by other users. End that (chmod go-w ${path}) if nobody has changed it, else remove it`
  return undefined
}

function refusal(path: string, problem: string): ConfigError {
  return new ConfigError(`${path} ${problem}, or choose another folder with DATA_DIR.`)
}
