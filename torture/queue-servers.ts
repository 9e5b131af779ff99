// The servers of the queue, for each backend.
import { createRedis, type OwnRedis } from '#test/redis.ts'
import { startRedisCluster, startRedisSentinels } from '#test/redis-places.ts'

/** The common prefix of the keys of the payments queue; in a Cluster, the prefix selects their server. */
const KEYS = '{sluice:payments}'

/**
 * Where wake-ups are stored: one Redis, a Cluster of three masters and their replicas, a primary and a replica with
 * Sentinels, or PostgreSQL.
 */
export const QUEUE_SERVERS = ['redis', 'cluster', 'sentinels', 'postgres'] as const
export type QueueServer = (typeof QUEUE_SERVERS)[number]

/** The queue's servers. With several servers, `kill` kills the server that accepts writes for the payments queue. */
export type RunningQueueServers = Omit<OwnRedis, 'signal'>

/** Starts the servers; null with the queue on PostgreSQL. `onStop` receives the function that stops them. */
export async function startQueueServers(
  queue: QueueServer,
  onStop: (stop: () => Promise<void>) => void,
): Promise<RunningQueueServers | null> {
  if (queue === 'postgres') return null
  if (queue === 'redis') {
    // Without this setting Redis refuses to change its folder. A fault changes the folder so that saving fails.
    const redis = await createRedis({ settings: { 'enable-protected-configs': 'yes' } })
    onStop(() => redis.kill())
    return redis
  }
  const servers = await (queue === 'cluster' ? startRedisCluster() : startRedisSentinels())
  onStop(() => servers.stop())
  return {
    url: servers.url,
    kill: () => servers.killPrimaryOf(KEYS),
    start: () => servers.revive(),
    flush: () => servers.flush(),
  }
}
