// The servers of the queue under torture, in each place where bells can ring.
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { freePort } from '#start/processes.ts'
import { startRedis } from '#start/redis.ts'
import { startRedisCluster, startRedisSentinels } from '#test/redis-places.ts'

const HOST = '127.0.0.1'
/** What the keys of the payments' queue have in common, and in a Cluster their server. */
const KEYS = '{sluice:payments}'

/** Where bells ring: one Redis, a Cluster of three and their replicas, one and its replica under Sentinels, or PostgreSQL. */
export const PLACES = ['redis', 'cluster', 'sentinels', 'postgres'] as const
export type Place = (typeof PLACES)[number]

/** The servers of the queue; of several, those that take writes to what belongs to the payments. */
export type QueueServers = {
  url: string
  kill(): Promise<void>
  /** Those that were killed come back empty. */
  start(): Promise<void>
  flush(): Promise<void>
}

/** Starts them; null with the queue on PostgreSQL. `onStop` hears what ends them. */
export async function startQueueServers(
  queue: Place,
  onStop: (stop: () => Promise<void>) => void,
): Promise<QueueServers | null> {
  if (queue === 'postgres') return null
  if (queue === 'redis') {
    const redis = await startOneRedis()
    onStop(() => redis.kill())
    return redis
  }
  const places = await (queue === 'cluster' ? startRedisCluster() : startRedisSentinels())
  onStop(() => places.stop())
  return {
    url: places.url,
    kill: () => places.killPrimaryOf(KEYS),
    start: () => places.revive(),
    flush: () => places.flush(),
  }
}

async function startOneRedis(): Promise<QueueServers> {
  const password = randomBytes(12).toString('hex')
  const start = async (port: number) => {
    const settings = { 'enable-protected-configs': 'yes' }
    const redis = await startRedis({ data_dir: null, port, password, settings })
    if (redis === null) throw new Error('redis-server or valkey-server must be on the PATH')
    return redis
  }
  let running = await start(await freePort(HOST))
  const { url, port } = running
  return {
    url,
    kill: () => running.kill(),
    async start() {
      running = await start(port)
    },
    async flush() {
      const client = new Redis(url, { enableReadyCheck: false })
      client.on('error', () => {})
      await client.flushall().finally(() => client.disconnect())
    },
  }
}
