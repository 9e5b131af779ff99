// The servers of the whole test suite: one PostgreSQL and one Redis, started before the first test and gone after the last.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '#start/postgres.ts'
import { type EmbeddedRedis, startRedis } from '#start/redis.ts'
import { makeFolder } from './folders.ts'
import { installPackage } from './packages.ts'
import { auditStatements } from './statements.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the superuser, in a database that holds nothing; a test file takes one of its own with `createDatabase`. */
    postgres_url: string
    /** Null where no Redis could be had: see `redisUrl`. */
    redis_url: string | null
  }
}

/** The database that those of the tests are copied from: made by whoever needs the first. */
export const TEMPLATE = 'sluice_template'

/**
 * Vitest's global set-up; what it returns is the tear-down. Both servers also end by themselves when this process is killed.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await makeFolder()
  const [database, redis] = await Promise.all([
    givenPostgres() ?? startPostgres({ data_dir: join(folder.path, 'postgres'), settings: SETTINGS }),
    startSuiteRedis(join(folder.path, 'redis')),
  ])
  await countStatements(database.url)
  project.provide('postgres_url', database.url)
  project.provide('redis_url', redis?.url ?? null)
  // When it is interrupted, Vitest leaves at once and without the tear-down: what is left can only be synchronous.
  const leave = () => {
    for (const server of [database, redis])
      if (server && server.pid !== 0) process.kill(server.pid, 'SIGKILL')
    rmSync(folder.path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
  process.once('exit', leave)
  const stop = () => process.exit(143)
  process.once('SIGTERM', stop)
  return async () => {
    process.off('exit', leave)
    process.off('SIGTERM', stop)
    try {
      await audit(database.url)
    } finally {
      await Promise.all([database.stop(), redis?.stop()])
      await folder.remove()
    }
  }
}

/** A server of another version, to see that all works there too: an empty one with the settings below, and its superuser. */
function givenPostgres(): { url: string; pid: number; stop: () => Promise<void> } | undefined {
  const url = process.env.TEST_DATABASE_URL
  return url === undefined ? undefined : { url, pid: 0, stop: () => Promise.resolve() }
}

const SETTINGS = {
  // Several files at once have several worlds each, and every part of a world has its pools.
  max_connections: '400',
  // Each database counts apart, and none may be forgotten.
  'pg_stat_statements.max': '50000',
  'pg_stat_statements.track': 'all',
  // Every three seconds, as in production, it would visit dozens of databases that are gone in a moment.
  autovacuum_naptime: '60s',
  // Only a crash of the machine would lose what was committed. Tests that crash PostgreSQL have servers of their own.
  fsync: 'off',
  full_page_writes: 'off',
}

async function countStatements(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    await sql`create extension pg_stat_statements`
  } catch (cause) {
    throw new Error('The tests audit all statements and need a PostgreSQL with pg_stat_statements.', {
      cause,
    })
  } finally {
    await sql.end()
  }
}

/** The last test of a run, after all files: what it throws makes the run fail. */
async function audit(url: string): Promise<void> {
  const violations = await auditStatements(url, TEMPLATE)
  if (violations.length > 0) throw new Error(`The statement audit failed.\n\n${violations.join('\n')}`)
}

const NO_REDIS = 'No redis-server or valkey-server is on the PATH'

async function startSuiteRedis(data_dir: string): Promise<EmbeddedRedis | null> {
  const redis =
    (await startRedis({ data_dir })) ??
    (installPackage('redis-server', NO_REDIS) ? await startRedis({ data_dir }) : null)
  if (!redis) {
    console.error(`${NO_REDIS}. Install one; until then the tests that need it fail.`)
  }
  return redis
}
