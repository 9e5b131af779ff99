// One Redis of a test's own: it forgets everything when it ends, and comes back where it was.
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { freePort } from '#start/ports.ts'
import { startRedis, type EmbeddedRedis, type RedisOptions } from '#start/redis.ts'

export type OwnRedis = {
  url: string
  kill(): Promise<void>
  /** Once it was killed, it comes back on the same port, and empty. */
  start(): Promise<void>
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  flush(): Promise<void>
}

/** It runs from the beginning unless told. */
export async function createRedis({
  up = true,
  settings = {},
}: { up?: boolean; settings?: Record<string, string> } = {}): Promise<OwnRedis> {
  const password = randomBytes(12).toString('hex')
  const launch = (port: number) => needRedis({ data_dir: null, port, password, settings })
  let running = up ? await launch(0) : null
  const port = running?.port ?? (await freePort('127.0.0.1'))
  const url = `redis://:${password}@127.0.0.1:${port}`
  return {
    url,
    async start() {
      running = await launch(port)
    },
    async kill() {
      await running?.kill()
      running = null
    },
    signal: (signal) => void process.kill(running!.pid, signal),
    async flush() {
      const client = new Redis(url, { enableReadyCheck: false })
      client.on('error', () => {})
      await client.flushall().finally(() => client.disconnect())
    },
  }
}

/** As `startRedis`, and throws where no server is found. */
export async function needRedis(options: RedisOptions): Promise<EmbeddedRedis> {
  const redis = await startRedis(options)
  if (redis === null)
    throw new Error('this needs redis-server or valkey-server on the PATH, and none was found')
  return redis
}
