// The PostgreSQL of the whole test suite. It starts when a test file first asks for it and ends after the last one.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import postgres from 'postgres'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '#start/postgres.ts'
import { findProgram } from '#start/processes.ts'
import { makeFolder } from './folders.ts'
import { installPackage } from './packages.ts'
import { auditStatements } from './statements.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The socket on which this process answers with the URL of PostgreSQL: see `postgresUrl`. */
    servers_socket: string
  }
}

/** The database that those of the tests are copied from: made by whoever needs the first. */
export const TEMPLATE = 'sluice_template'

type Server = { url: string; pid: number; stop: () => Promise<void> }

/** Vitest's global set-up; what it returns is the tear-down. The server also ends when this process is killed. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  findRedis()
  const folder = await makeFolder()
  let starting: Promise<Server> | undefined
  let running: Server | undefined
  const begin = async () => {
    running =
      providedPostgres() ??
      (await startPostgres({ data_dir: join(folder.path, 'postgres'), settings: SETTINGS }))
    await countStatements(running.url)
    return running
  }
  const servers = createServer((connection) => {
    connection.on('error', () => {})
    starting ??= begin()
    void starting
      .then(
        ({ url }) => ({ url }),
        (error: Error) => ({ error: error.message }),
      )
      .then((response) => connection.end(JSON.stringify(response)))
  })
  const socket = join(folder.path, 'servers.sock')
  servers.listen(socket)
  await once(servers, 'listening')
  project.provide('servers_socket', socket)

  // When it is interrupted, Vitest leaves at once and without the tear-down: what is left can only be synchronous.
  const leave = () => {
    if (running && running.pid !== 0) process.kill(running.pid, 'SIGKILL')
    rmSync(folder.path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
  process.once('exit', leave)
  const stop = () => process.exit(143)
  process.once('SIGTERM', stop)
  return async () => {
    process.off('exit', leave)
    process.off('SIGTERM', stop)
    servers.close()
    try {
      if (running) await audit(running.url)
    } finally {
      await running?.stop()
      await folder.remove()
    }
  }
}

/** A server of another version, to see that all works there too: an empty one with the settings below, and its superuser. */
function providedPostgres(): Server | undefined {
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

/** Test files start a Redis of their own. It is installed here, once, if it is missing and that is possible. */
function findRedis(): void {
  const missing = 'No redis-server or valkey-server is on the PATH'
  if (findProgram(['redis-server', 'valkey-server']) === null && !installPackage('redis-server', missing))
    console.error(`${missing}. Install one; until then the tests that need it fail.`)
}
