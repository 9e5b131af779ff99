// Cancels verifications whose person did nothing for too long.
import { cancelAbandonedVerifications } from '#domain/verifications/cancel.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** Safe in several workers at once. A verification whose person does nothing for `ttl_days` days is canceled. */
export function startVerificationExpiry(
  { sql, database, log, idleness }: WorkerContext,
  ttl_days: number,
): Loop {
  return repeatWhileCurrent(
    { log, database },
    'abandoned verifications',
    idleness.interval(5_000),
    async () => {
      if (!database.isHeld()) await cancelAbandonedVerifications(sql, ttl_days, 100)
    },
  )
}
