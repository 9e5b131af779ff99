// The PostgreSQL of the test suite. It starts when a test file first needs it and ends after the last one.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import postgres from 'postgres'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '#start/postgres.ts'
import { findProgram } from '#start/processes.ts'
import { createTemporaryFolder, removeAbandonedFolders } from './folders.ts'
import { installPackage } from './packages.ts'
import { auditStatements } from './statements.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The socket on which this process returns the URL of PostgreSQL: see `postgresUrl`. */
    servers_socket: string
  }
}

/** The template of the test databases. The first caller creates it. */
export const TEMPLATE = 'sluice_template'

type Server = { url: string; pid: number; stop: () => Promise<void> }

/** The global setup of Vitest. Returns the teardown. PostgreSQL also ends if this process is killed. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  findRedis()
  await removeAbandonedFolders()
  const folder = await createTemporaryFolder()
  let starting: Promise<Server> | undefined
  let running: Server | undefined
  const startServer = async () => {
    running =
      providedPostgres() ??
      (await startPostgres({ data_dir: join(folder.path, 'postgres'), settings: SETTINGS }))
    await countStatements(running.url)
    return running
  }
  const servers = createServer((connection) => {
    connection.on('error', () => {})
    starting ??= startServer()
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

  // After an interruption Vitest exits without the teardown, and only synchronous code still runs.
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

/**
 * A PostgreSQL server that the user provides to test another version: empty, with the settings below, with a superuser.
 */
function providedPostgres(): Server | undefined {
  const url = process.env.TEST_DATABASE_URL
  return url === undefined ? undefined : { url, pid: 0, stop: () => Promise.resolve() }
}

const SETTINGS = {
  // Test files run several worlds in parallel, and every part of a world has its own connection pools.
  max_connections: '600',
  // Statements are counted per database, and no statement may be dropped from the statistics.
  'pg_stat_statements.max': '100000',
  'pg_stat_statements.track': 'all',
  // With production's three seconds autovacuum would visit dozens of short-lived databases.
  autovacuum_naptime: '600s',
  // With 4096 iterations, each connection of a process would cost milliseconds on both sides.
  scram_iterations: '1',
  // Without fsync only a crash of the machine loses commits. Tests that crash PostgreSQL have their own servers.
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

/** Runs after all test files. An error fails the run. */
async function audit(url: string): Promise<void> {
  const violations = await auditStatements(url, TEMPLATE)
  if (violations.length > 0) throw new Error(`The statement audit failed.\n\n${violations.join('\n')}`)
}

/** Each test file starts its own Redis. If no Redis server is installed, it is installed here once, if possible. */
function findRedis(): void {
  const missing = 'No redis-server or valkey-server is on the PATH'
  if (findProgram(['redis-server', 'valkey-server']) === null && !installPackage('redis-server', missing))
    console.error(`${missing}. Install one; until then the tests that need it fail.`)
}
