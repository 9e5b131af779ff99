// A Redis server of one test. After each restart it is empty, and has the same port.
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { freePort } from '#start/ports.ts'
import { startRedis, type EmbeddedRedis, type RedisOptions } from '#start/redis.ts'

export type OwnRedis = {
  url: string
  kill(): Promise<void>
  /** Restarts a killed Redis on the same port, empty. */
  start(): Promise<void>
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  flush(): Promise<void>
}

/** `up`: whether Redis runs at first. Default: true. */
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

/** Like `startRedis`, but throws if no server is installed. */
export async function needRedis(options: RedisOptions): Promise<EmbeddedRedis> {
  const redis = await startRedis(options)
  if (redis === null) throw new Error('redis-server or valkey-server is needed on the PATH and was not found')
  return redis
}
