// The files of `migrations/`, each with its kind, its locks and the index that it builds.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { ConfigError } from '../config.ts'
import { ROOT } from '../root.ts'

const FOLDER = new URL('migrations/', ROOT)
const NUMBERED = /^\d{4}_.+\.sql$/
const ROLES = 'roles.sql'

/** The lock modes that a migration may name, each with its effect on other sessions. */
export const LOCK_MODES = {
  'access share': 'reads rows; reads and writes of others go on',
  'row exclusive': 'changes rows; reads and writes of others go on',
  'share update exclusive': 'reads and writes go on',
  share: 'writes wait',
  'share row exclusive': 'writes wait',
  'access exclusive': 'reads and writes wait',
} as const
export type LockMode = keyof typeof LOCK_MODES

/** `table`: also a view, whose tables are locked with it. */
export type TableLock = { table: string; mode: LockMode }

/** `unique`: empty, or the word before `index`. `definition`: columns and condition. */
export type NewIndex = { unique: string; name: string; table: string; definition: string }

export type Migration = {
  name: string
  text: string
  /** SHA-256 of the text, in hex. */
  checksum: string
  /** The locks on existing tables, in the order of the file. */
  locks: TableLock[]
  /** The index that a step outside a transaction builds; otherwise null. */
  index: NewIndex | null
  /** The index, or the table whose indexes, a step outside a transaction builds again; otherwise null. */
  rebuilds: string | null
  /**
   * `transaction`: the file is one transaction. The others have one statement outside a transaction, which is either a
   * `do` block that commits batches of rows, or a command during which PostgreSQL allows reads and writes.
   */
  kind: 'transaction' | 'batches' | 'concurrent'
}

const LOCKS = /^-- locks: (.+)$/m
const COMMENTS = /--.*$/gm
const INDEX = /^create (unique )?index concurrently (\w+) on (\w+) (.+?);?$/i
const REBUILD = /^reindex(?: \([^)]*\))? (?:index|table) concurrently (\w+)/i

/** All numbered migrations in order. Errors: ConfigError if the locks of a file cannot be read. */
export async function readMigrations(): Promise<Migration[]> {
  return await Promise.all(
    (await migrationNames()).map(async (name) =>
      parseMigration(name, await readFile(new URL(name, FOLDER), 'utf8')),
    ),
  )
}

export async function migrationNames(): Promise<string[]> {
  return (await readdir(FOLDER)).filter((name) => NUMBERED.test(name)).sort()
}

/** The statements that grant all rights. */
export async function readRoles(): Promise<string> {
  return await readFile(new URL(ROLES, FOLDER), 'utf8')
}

/** Reads the kind, the locks and the index of a migration. Errors: ConfigError if its locks cannot be read. */
export function parseMigration(name: string, text: string): Migration {
  const statement = text.replace(COMMENTS, '').replace(/\s+/g, ' ').trim()
  const [, unique = '', index, table, definition] = INDEX.exec(statement) ?? []
  return {
    name,
    text,
    checksum: createHash('sha256').update(text).digest('hex'),
    locks:
      LOCKS.exec(text)?.[1]!
        .split(', ')
        .map((lock) => parseLock(name, lock)) ?? [],
    index: index === undefined ? null : { unique, name: index, table: table!, definition: definition! },
    rebuilds: REBUILD.exec(statement)?.[1] ?? null,
    kind: !name.endsWith('.concurrently.sql')
      ? 'transaction'
      : /^do\b/i.test(statement)
        ? 'batches'
        : 'concurrent',
  }
}

function parseLock(name: string, text: string): TableLock {
  const [, table, mode = 'access exclusive'] = /^([a-z_][a-z0-9_]*)(?: ([a-z ]+))?$/.exec(text.trim()) ?? []
  if (table === undefined || !Object.hasOwn(LOCK_MODES, mode))
    throw new ConfigError(
      `The migration ${name} has an unknown lock "${text}". Example: -- locks: jobs, payments share row exclusive`,
    )
  return { table, mode: mode as LockMode }
}
