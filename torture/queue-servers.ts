// The servers of the queue under torture, in each place where bells can ring.
import { createRedis, type OwnRedis } from '#test/redis.ts'
import { startRedisCluster, startRedisSentinels } from '#test/redis-places.ts'

/** What the keys of the payments' queue have in common, and in a Cluster their server. */
const KEYS = '{sluice:payments}'

/** Where bells ring: one Redis, a Cluster of three and their replicas, one and its replica under Sentinels, or PostgreSQL. */
export const QUEUE_SERVERS = ['redis', 'cluster', 'sentinels', 'postgres'] as const
export type QueueServer = (typeof QUEUE_SERVERS)[number]

/** The servers of the queue; of several, `kill` means those that take writes to what belongs to the payments. */
export type RunningQueueServers = Omit<OwnRedis, 'signal'>

/** Starts them; null with the queue on PostgreSQL. `onStop` hears what ends them. */
export async function startQueueServers(
  queue: QueueServer,
  onStop: (stop: () => Promise<void>) => void,
): Promise<RunningQueueServers | null> {
  if (queue === 'postgres') return null
  if (queue === 'redis') {
    // Without its protection nobody could set its folder, which is how its disk is made to fail.
    const redis = await createRedis({ settings: { 'enable-protected-configs': 'yes' } })
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
