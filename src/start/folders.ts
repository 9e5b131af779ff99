// The folders of embedded servers, and the accounts that the servers run as.
import { createHash } from 'node:crypto'
import { type Stats, existsSync } from 'node:fs'
import { ConfigError } from '#core/config.ts'
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
} from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

export type Account = { name: string; uid: number; gid: number }

export type ServerFolder = {
  /**
   * The folder of the server, owned by this user: it contains the password, the log and the record of the running
   * server.
   */
  folder: string
  /** The data folder of the server, inside `folder`; it does not exist before the first start. */
  data: string
  /** The account that the server runs as; null: this user. */
  account: Account | null
}

const COMMON_FOLDER = '/var/tmp'

/**
 * Creates the folder of a server. No server runs as root: under root the server runs as the owner of its existing
 * data, else as `postgres`, else as `nobody`. If that account cannot reach the requested folder (a checkout under a
 * home of mode 0700), the folder is `/var/tmp/sluice-data-<hash of the requested path>`.
 */
export async function createServerFolder(requested: string): Promise<ServerFolder> {
  const asRoot = process.getuid?.() === 0
  await mkdir(resolve(requested), { recursive: true, mode: asRoot ? 0o711 : 0o700 })
  const folder = await realpath(resolve(requested))
  await assertOwnFolder(folder)
  const data = join(folder, 'data')
  if (!asRoot) {
    if (existsSync(data)) await assertOwnFolder(data)
    return { folder, data, account: null }
  }

  const account = (await ownerOf(data)) ?? (await unprivilegedAccount())
  if (await reaches(account, dirname(folder))) {
    // Others can enter but not list the folder; the files of this user in it have mode 0600.
    await chmod(folder, 0o711)
    return { folder, data, account }
  }
  const shared_folder = join(COMMON_FOLDER, `sluice-data-${hash(folder)}`)
  await mkdir(shared_folder, { recursive: true, mode: 0o711 })
  await assertOwnFolder(shared_folder)
  await chmod(shared_folder, 0o711)
  return {
    folder: shared_folder,
    data: join(shared_folder, 'data'),
    account: (await ownerOf(join(shared_folder, 'data'))) ?? account,
  }
}

/** Creates an empty folder that only the account can enter (null: this user). */
export async function createPrivateFolder(path: string, account: Account | null): Promise<void> {
  await mkdir(path, { mode: 0o700 })
  if (account) await chown(path, account.uid, account.gid)
}

/**
 * A folder with the content of `source` that the account can read: `source` itself, or a copy that is made once per
 * `version` (which must identify the content). `sample` is a file in the folder, used to test whether the account can
 * read it.
 */
export async function readableCopy(
  source: string,
  sample: string,
  version: string,
  account: Account | null,
): Promise<string> {
  if (!account || (await reaches(account, join(source, sample)))) return source
  const copy = join(COMMON_FOLDER, `sluice-${hash(version)}`)
  if (!existsSync(copy)) {
    // Copied under a temporary name and renamed, so that the copy appears complete.
    const temporary = await mkdtemp(`${copy}-`)
    await cp(source, temporary, { recursive: true, verbatimSymlinks: true })
    await allowReading(temporary)
    await rename(temporary, copy).catch(() => rm(temporary, { recursive: true, force: true }))
  }
  await assertOwnFolder(copy)
  return copy
}

/**
 * Whether the account can read this file or enter this folder, by the modes of the path and of all its parents.
 */
export async function reaches(account: Account, path: string): Promise<boolean> {
  const found = await realpath(path).catch(() => null)
  if (found === null) return false
  const target = await stat(found)
  if (!target.isDirectory() && !allows(target, account, 4)) return false
  let folder = target.isDirectory() ? found : dirname(found)
  for (;;) {
    if (!allows(await stat(folder), account, 1)) return false
    if (folder === dirname(folder)) return true
    folder = dirname(folder)
  }
}

/** `permission`: 4 to read, 1 to execute or enter. */
function allows(file: Stats, account: Account, permission: 4 | 1): boolean {
  if (file.uid === account.uid) return (file.mode & (permission << 6)) !== 0
  if (file.gid === account.gid) return (file.mode & (permission << 3)) !== 0
  return (file.mode & permission) !== 0
}

async function ownerOf(path: string): Promise<Account | null> {
  const found = await stat(path).catch(() => null)
  return found && found.uid !== 0 ? { name: `uid ${found.uid}`, uid: found.uid, gid: found.gid } : null
}

async function unprivilegedAccount(): Promise<Account> {
  const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const requested of ['postgres', 'nobody']) {
    const [name, , uid, gid] = accounts.find((account) => account[0] === requested) ?? []
    if (name && Number(uid) > 0) return { name, uid: Number(uid), gid: Number(gid) }
  }
  throw new ConfigError(
    'PostgreSQL does not run as root, and neither `postgres` nor `nobody` is an account on this machine. ' +
      'Start as another user, or set DATABASE_URL to your own PostgreSQL, e.g. postgres://user:password@localhost:5432/sluice.',
  )
}

/**
 * Throws ConfigError unless this user owns the folder and no other user can write to it: its content is trusted.
 * Links are refused too: in a world-writable parent, another user could have created the folder or a link with its
 * name first.
 */
export async function assertOwnFolder(path: string): Promise<void> {
  const folder = await stat(path)
  const foreign = [await lstat(path), folder].find(({ uid }) => uid !== process.getuid?.())
  if (foreign)
    throw new ConfigError(
      `${path} belongs to another user (uid ${foreign.uid}). Remove it, or choose another folder with DATA_DIR.`,
    )
  if ((folder.mode & 0o022) !== 0)
    throw new ConfigError(
      `${path} is writable by other users. Run chmod go-w ${path}, or choose another folder with DATA_DIR.`,
    )
}

async function allowReading(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const name of await readdir(folder, { recursive: true })) {
    const path = join(folder, name)
    const found = await lstat(path)
    if (found.isSymbolicLink()) continue
    const executable = found.isDirectory() || (found.mode & 0o100) !== 0
    await chmod(path, executable ? 0o755 : 0o644)
  }
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}
