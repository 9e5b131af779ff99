// The previous release, as its own folder, and the next one: these sources with migrations made for the test.
import { execFile } from 'node:child_process'
import { cp, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import postgres from 'postgres'
import type { Sql } from '#core/db.ts'
import { patchedCopy } from '../../torture/copy.ts'
import { createTemporaryFolder } from './folders.ts'
import { postgresUrl } from './suite.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Its first line is the commit of the previous release. */
const PREVIOUS_RELEASE = join(ROOT, 'test/previous-release')
/** Migrations that change, fill and index the largest tables, as the rules for authors demand. */
const TEST_MIGRATIONS = fileURLToPath(new URL('upgrade/', import.meta.url))

export type Release = { path: string; remove: () => Promise<void> }

/** Thrown if this checkout is shallow or is not a git repository. */
export class NoHistoryError extends Error {
  override name = 'NoHistoryError'
}

/**
 * Writes the sources of the previous release into a new folder, with this folder's packages. Throws NoHistoryError if
 * the checkout has no history, because nothing else has those sources.
 */
export async function previousRelease(): Promise<Release> {
  const [commit] = (await readFile(PREVIOUS_RELEASE, 'utf8')).split('\n')
  const { path, remove } = await createTemporaryFolder('previous')
  const run = promisify(execFile)
  const archive = join(path, 'release.tar')
  try {
    await run('git', ['archive', '--format=tar', '-o', archive, commit!], { cwd: ROOT })
  } catch (cause) {
    await remove()
    const has_history = await run('git', ['rev-parse', '--is-shallow-repository'], { cwd: ROOT }).then(
      ({ stdout }) => stdout.trim() === 'false',
      () => false,
    )
    if (has_history) throw new Error(`git has no commit ${commit} of test/previous-release`, { cause })
    throw new NoHistoryError(
      'upgrades can be tested only in a clone with history, which has the sources of the previous release: git fetch --unshallow',
      { cause },
    )
  }
  await run('tar', ['-xf', archive, '-C', path])
  await symlink(join(ROOT, 'node_modules'), join(path, 'node_modules'))
  return { path, remove }
}

/** A copy of these sources with further migrations. */
export async function nextRelease(): Promise<Release> {
  const copy = await patchedCopy(ROOT, [])
  await cp(TEST_MIGRATIONS, join(copy.path, 'migrations'), { recursive: true })
  return copy
}

/**
 * `exclude` removes the statements of a database from the statement audit, once its processes have ended: the previous
 * release's were audited by its own rules, and this release's are audited in other tests.
 */
export async function excludeFromStatementAudit(sql: Sql): Promise<{ exclude: () => Promise<void> }> {
  const [database] = await sql<{ oid: number }[]>`
    select oid::integer from pg_database where datname = current_database()`
  return {
    async exclude() {
      const server = postgres(await postgresUrl(), { max: 1 })
      await server`select pg_stat_statements_reset(0, ${database!.oid}, 0)`
      await server.end()
    },
  }
}
