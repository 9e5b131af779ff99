// Reads which requests the system itself names as lost after the database went back in time.
import { openQueue } from '#queue/queue.ts'
import type { System } from '../system.ts'

export type Losses = {
  /** The key and the resource of each request that an event names as lost. */
  named: { key: string; id: string | null }[]
  /**
   * Since when all accepted requests are on record, so that the lost ones are named. Infinity without Redis, which
   * alone records them. Clock: `performance.now()`.
   */
  recorded_since: number
}

export async function lossesOf({ sql, redis }: Pick<System, 'sql' | 'redis'>): Promise<Losses> {
  const named = await sql<Losses['named']>`
    select data ->> 'idempotency_key' as key, data ->> 'resource_id' as id from events where type = 'request.lost'`
  return { named: [...named], recorded_since: redis === null ? Infinity : await recordedSince(redis.url) }
}

/** A batch of requests is not recorded while Redis is down or late. */
async function recordedSince(redis_url: string): Promise<number> {
  const hooks = { log: () => {}, process_id: 'torture' }
  const queue = openQueue({ redis_url, database_url: '', accepted_max: 1 }, hooks)
  try {
    const since = await queue.accepted?.completeSince()
    return since == null ? Infinity : Date.parse(since) - performance.timeOrigin
  } finally {
    await queue.close()
  }
}
