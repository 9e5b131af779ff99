// Permits for the provider calls of attempts. No call starts more than one second after a pause was committed.
import { createBatcher } from '#core/batch.ts'
import { isDatabaseFailure, type Sql } from '#core/db.ts'
import type { ClaimedJob } from '#domain/jobs/claim.ts'
import { findStartable } from '#domain/jobs/claimable.ts'
import { NotStarted, permits, type Permit } from '#providers/permit.ts'
import type { JobClaim } from './claims.ts'
import { handlerOf } from './handlers/index.ts'
import type { Lease } from './leases.ts'
import type { ProviderWatch } from './provider-watch.ts'

/**
 * How long a permit is valid after the database was queried for pauses. Then it must be renewed, so that no call starts
 * more than one second after a pause was committed.
 */
const PERMIT_LIFETIME_MS = 900
/**
 * How long a permit is valid after the answer to its renewal, even if the renewal took longer than
 * `PERMIT_LIFETIME_MS`: another renewal would not be faster.
 */
const ANSWER_GRACE_MS = 50

export type CallPermits = {
  /**
   * Runs an attempt with a permit for its calls. If the permit does not allow a call, or if the database fails, the
   * attempt ends with the result of `undecided`. `unsent`: whether the attempt has sent no call.
   */
  run<T>(
    claimed: JobClaim,
    lease: Lease,
    attempt: () => Promise<T>,
    undecided: (error: Error, unsent: boolean) => Promise<T>,
  ): Promise<T>
}

/**
 * `watchOf`: the watch of the providers for a tenant whose attempt has begun. `startsNoCalls`: whether the worker is
 * stopping, or its database is not the one in use.
 */
export function createCallPermits(
  urgent_sql: Sql,
  watchOf: (tenant_id: string) => ProviderWatch,
  startsNoCalls: () => boolean,
): CallPermits {
  /** Queries the database for pauses. Returns the time of the query, or undefined if the job's calls may not start. */
  const checkQueue = createBatcher<ClaimedJob, number | undefined>('permit', async (jobs) => {
    const requested_at = performance.now()
    const startable = await findStartable(urgent_sql, jobs)
    return jobs.map(({ id }) => (startable.has(id) ? requested_at : undefined))
  })

  // Connects and prepares the statement now. That takes several round trips: too long for a permit when the database is
  // slow.
  void findStartable(urgent_sql, []).catch(() => {})

  return {
    async run({ job, requested_at }, lease, attempt, undecided) {
      const calls = { requested_at, answered_at: -Infinity, sent: false }
      const { call } = handlerOf(job.name).definition
      let callEnded = () => {}
      const permit: Permit = {
        lane: job.queue,
        deadline_ms: call?.deadline_ms ?? null,
        signal: lease.signal,
        valid: () =>
          performance.now() - calls.requested_at < PERMIT_LIFETIME_MS ||
          performance.now() - calls.answered_at < ANSWER_GRACE_MS,
        async renew() {
          const checked_at = startsNoCalls() ? undefined : await checkQueue(job)
          if (checked_at === undefined) return false
          Object.assign(calls, { requested_at: checked_at, answered_at: performance.now() })
          return true
        },
        used() {
          if (!calls.sent && call !== null)
            callEnded = watchOf(job.tenant_id).sent(call.provider, call.deadline_ms, call.operation)
          calls.sent = true
          lease.callSent()
        },
      }
      try {
        return await permits.run(permit, attempt)
      } catch (error) {
        // The provider has answered, or never will; `undecided` may wait long for the database.
        callEnded()
        if (error instanceof NotStarted || (error instanceof Error && isDatabaseFailure(error)))
          return await undecided(error, !calls.sent)
        throw error
      } finally {
        callEnded()
      }
    },
  }
}
