// Renews the leases of the jobs that this process performs, and aborts the signal of a job whose lease is lost.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { LEASE_MS, renewLeases, type ClaimedJob } from '#domain/jobs/claim.ts'

const RENEW_INTERVAL_MS = 1000
/** The maximum number of concurrent renewals, for a slow database. */
const MAX_CONCURRENT_RENEWALS = 4
/**
 * How long provider calls may run after the worker was stopped. Then they are aborted, and the worker that claims the
 * job sends them again.
 */
const STOP_TIMEOUT_MS = 10_000

export type Leases = {
  /** Starts to renew the lease of a job that was just claimed. */
  track(job: ClaimedJob): Lease
  /** Stops the worker: running jobs are aborted after `STOP_TIMEOUT_MS`. */
  stop(): void
  close(): void
}

type Lease = {
  /** Aborts when the lease has expired or the stop timeout has passed. */
  signal: AbortSignal
  release(): void
}

/** `sql` is a separate connection, so that renewals do not wait for the statements of jobs. */
export function createLeases(sql: Sql, log: Log): Leases {
  type TrackedLease = { lease_token: string; confirmed_at: number; controller: AbortController }
  const leases = new Map<string, TrackedLease>()
  let renewals = 0
  let stop: NodeJS.Timeout | undefined

  // Connects and prepares the statement now. That takes several round trips: too long for a lease when the database is
  // slow.
  void renewLeases(sql, []).catch(() => {})
  const renewal = setInterval(() => {
    const now = performance.now()
    for (const { confirmed_at, controller } of leases.values())
      if (now - confirmed_at > LEASE_MS) controller.abort(new Error('the lease was lost'))
    if (leases.size > 0 && renewals < MAX_CONCURRENT_RENEWALS) void renew()
  }, RENEW_INTERVAL_MS)

  async function renew(): Promise<void> {
    renewals += 1
    try {
      const requested = Array.from(leases, ([id, { lease_token }]) => ({ id, lease_token }))
      const renewed = await renewLeases(sql, requested)
      for (const { id, lease_token } of requested) {
        const lease = leases.get(id)
        if (renewed.has(id) && lease?.lease_token === lease_token) lease.confirmed_at = performance.now()
      }
    } catch (error) {
      log.warn({ err: error }, 'leases could not be renewed')
    } finally {
      renewals -= 1
    }
  }

  return {
    track({ id, lease_token }) {
      const controller = new AbortController()
      leases.set(id, { lease_token, confirmed_at: performance.now(), controller })
      return { signal: controller.signal, release: () => void leases.delete(id) }
    },
    stop() {
      stop ??= setTimeout(() => {
        for (const { controller } of leases.values()) controller.abort(new Error('the worker is stopping'))
      }, STOP_TIMEOUT_MS)
    },
    close() {
      clearInterval(renewal)
      clearTimeout(stop)
    },
  }
}
