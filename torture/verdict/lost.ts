// Reads which requests the system itself names as lost after the database went back in time.
import { acceptedKeysOf } from '#domain/switches/kept-facts.ts'
import { openQueue } from '#queue/queue.ts'
import type { System } from '../system.ts'

export type Losses = {
  /** The key and the resource of each request that an event names as lost. */
  named: { key: string; id: string | null }[]
  recorded_since: number
}

type Losable = Pick<System, 'sql' | 'redis' | 'encryption_keys'>

export async function lossesOf(system: Losable): Promise<Losses> {
  const named = await system.sql<Losses['named']>`
    select data ->> 'idempotency_key' as key, data ->> 'resource_id' as id from events where type = 'request.lost'`
  return { named: [...named], recorded_since: await recordedSince(system) }
}

/** A request is answered within this time after it was accepted, also on a busy machine. */
const ANSWERED_WITHIN_MS = 10_000

/**
 * Since when all requests that were answered are on record as accepted, so that the lost ones are named: a batch of
 * requests is not recorded while Redis is down or late. Infinity without Redis, which alone records them. Clock:
 * `performance.now()`.
 */
export async function recordedSince({ sql, redis, encryption_keys }: Losable): Promise<number> {
  if (redis === null) return Infinity
  const findAcceptedKeys = acceptedKeysOf(sql, () => encryption_keys)
  const hooks = { log: () => {}, process_id: 'torture', findAcceptedKeys }
  const queue = openQueue({ redis_url: redis.url, database_url: '', accepted_max: 1 }, hooks)
  try {
    const { since = null } = (await queue.accepted?.completeness()) ?? {}
    return since === null ? Infinity : Date.parse(since) - performance.timeOrigin + ANSWERED_WITHIN_MS
  } finally {
    await queue.close()
  }
}
