// The servers of the whole test suite: one PostgreSQL and one Redis, started before the first test and gone after the last.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { findProgram } from '#start/processes.ts'
import { startPostgres } from '#start/postgres.ts'
import { type EmbeddedRedis, startRedis } from '#start/redis.ts'
import { makeFolder } from './folders.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the superuser, in a database that holds nothing; a test file takes one of its own with `createDatabase`. */
    postgres_url: string
    /** Null where no Redis could be had: see `redisUrl`. */
    redis_url: string | null
  }
}

/**
 * Vitest's global set-up; what it returns is the tear-down. Both servers also end by themselves when this process is killed. They
 * are as durable as in production.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await makeFolder()
  const [postgres, redis] = await Promise.all([
    startPostgres({ data_dir: join(folder.path, 'postgres') }),
    startSuiteRedis(join(folder.path, 'redis')),
  ])
  project.provide('postgres_url', postgres.url)
  project.provide('redis_url', redis?.url ?? null)
  // When it is interrupted, Vitest leaves at once and without the tear-down: what is left can only be synchronous.
  const leave = () => {
    for (const server of [postgres, redis]) if (server) process.kill(server.pid, 'SIGKILL')
    rmSync(folder.path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  }
  process.once('exit', leave)
  return async () => {
    process.off('exit', leave)
    await Promise.all([postgres.stop(), redis?.stop()])
    await folder.remove()
  }
}

async function startSuiteRedis(data_dir: string): Promise<EmbeddedRedis | null> {
  const redis = (await startRedis({ data_dir })) ?? (installRedis() ? await startRedis({ data_dir }) : null)
  if (!redis) {
    console.error(
      'No redis-server or valkey-server is on the PATH. Install one; until then the tests that need it fail.',
    )
  }
  return redis
}

/** Where it is allowed to and can: a fresh container of a build server. Returns whether it did. */
function installRedis(): boolean {
  const installer = findProgram(['apt-get'])
  if (process.getuid?.() !== 0 || installer === null) return false
  console.error('No redis-server or valkey-server is on the PATH: installing redis-server with apt-get.')
  try {
    for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'redis-server']]) {
      execFileSync(installer, args, {
        stdio: ['ignore', 'ignore', 'inherit'],
        timeout: 180_000,
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      })
    }
    return true
  } catch {
    return false
  }
}
