// Renews the leases of the jobs that this process performs, and aborts the signal of a job whose lease is lost.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import { LEASE_MS, renewLeases, type ClaimedJob } from '#domain/jobs/claim.ts'

const RENEW_INTERVAL_MS = 1000
/** The maximum number of concurrent renewals, for a slow database. */
const MAX_CONCURRENT_RENEWALS = 4
const WARNING_INTERVAL_MS = 10_000
/** A statement that took longer shows that the database did not answer for a while. */
export const SLOW_STATEMENT_MS = 2_000

export type Leases = {
  /** Starts to renew the lease of a job that was just claimed. */
  track(job: ClaimedJob): Lease
  /**
   * Stops the worker: jobs whose call was not sent yet are aborted at once, and the others after `call_timeout_ms`. The
   * worker that claims an aborted job sends its call again.
   */
  stop(call_timeout_ms: number): void
  /** When the last renewal failed or was slow, on the clock of `performance.now()`. */
  failedAt(): number
  close(): void
}

export type Lease = {
  /** Aborts when the lease has expired or the worker stops. */
  signal: AbortSignal
  /** For how many milliseconds the lease has been lost; 0 while it is held. */
  lostFor: () => number
  /** Records that a call of the job was sent. */
  callSent: () => void
  release: () => void
}

/** `sql` is a separate connection, so that renewals do not wait for the statements of jobs. */
export function createLeases(sql: Sql, log: Log): Leases {
  type TrackedLease = {
    lease_token: string
    confirmed_at: number
    sent: boolean
    controller: AbortController
  }
  const leases = new Map<string, TrackedLease>()
  let renewals = 0
  let failed_at = -Infinity
  let stop: NodeJS.Timeout | undefined
  const warn = throttle(
    (suppressed, error: unknown) => log.warn({ err: error, suppressed }, 'leases could not be renewed'),
    WARNING_INTERVAL_MS,
  )

  // Connects and prepares the statement now. That takes several round trips: too long for a lease when the database is
  // slow.
  void renewLeases(sql, []).catch(() => {})
  const renewal = setInterval(() => {
    for (const lease of leases.values())
      if (lostFor(lease) > 0) lease.controller.abort(new Error('the lease was lost'))
    if (leases.size > 0 && renewals < MAX_CONCURRENT_RENEWALS) void renew()
  }, RENEW_INTERVAL_MS)

  function lostFor({ confirmed_at }: TrackedLease): number {
    return Math.max(0, performance.now() - confirmed_at - LEASE_MS)
  }

  async function renew(): Promise<void> {
    renewals += 1
    const began_at = performance.now()
    try {
      const requested = Array.from(leases, ([id, { lease_token }]) => ({ id, lease_token }))
      const renewed = await renewLeases(sql, requested)
      for (const { id, lease_token } of requested) {
        const lease = leases.get(id)
        if (renewed.has(id) && lease?.lease_token === lease_token) lease.confirmed_at = performance.now()
      }
      if (performance.now() - began_at > SLOW_STATEMENT_MS) failed_at = performance.now()
    } catch (error) {
      failed_at = performance.now()
      warn(error)
    } finally {
      renewals -= 1
    }
  }

  return {
    track({ id, lease_token }) {
      const controller = new AbortController()
      const lease = { lease_token, confirmed_at: performance.now(), sent: false, controller }
      leases.set(id, lease)
      return {
        signal: controller.signal,
        lostFor: () => lostFor(lease),
        callSent: () => void (lease.sent = true),
        release: () => void leases.delete(id),
      }
    },
    stop(call_timeout_ms) {
      if (stop !== undefined) return
      const abort = (stopped: TrackedLease[]) => {
        for (const { controller } of stopped) controller.abort(new Error('the worker is stopping'))
      }
      abort(Array.from(leases.values()).filter(({ sent }) => !sent))
      stop = setTimeout(() => abort([...leases.values()]), call_timeout_ms)
    },
    failedAt: () => failed_at,
    close() {
      clearInterval(renewal)
      clearTimeout(stop)
    },
  }
}
