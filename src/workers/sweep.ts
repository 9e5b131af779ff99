// The sweep claims due jobs that no wake-up starts, round robin by tenant. The watchdog restarts a queue's consumer if
// it receives no wake-ups.
import { isDatabaseFailure } from '#core/db.ts'
import { metrics } from '#core/metrics.ts'
import type { TenantShare } from '#domain/jobs/claim.ts'
import { findDue, findOldestDue, type DueJobs, type ScanKind } from '#domain/jobs/claimable.ts'
import { JOB_NAMES } from '#jobs/index.ts'
import type { Queue } from '#queue/queue.ts'
import type { WorkerContext } from './context.ts'
import { SLOW_STATEMENT_MS } from './leases.ts'
import type { Performer } from './perform.ts'
import { createScanPause, createScanReach } from './scan-reach.ts'
import { repeat, type Loop } from './clock.ts'

/** A wake-up counts as lost if its job has not been claimed for this long. */
const OVERDUE_MS = 1000
const SWEEP_INTERVAL_MS = 50
/**
 * The interval of full scans, which also find lost wake-ups and lapsed leases: both are rare, and a full scan reads all
 * open jobs.
 */
const FULL_SWEEP_INTERVAL_MS = 500
/**
 * A worker that has had no jobs for `IDLE_AFTER_MS` scans less often. In return, it treats a wake-up as lost that much
 * sooner, so that the job of a lost wake-up does not wait longer. A late wake-up is not mistaken for a lost one,
 * because an idle worker receives wake-ups at once.
 */
const IDLE_AFTER_MS = 2000
const IDLE_SWEEP_INTERVAL_MS = 500
/**
 * The scan interval while more jobs are due than were claimed. At this interval only queues with `MIN_FREE_SHARE` of
 * their slots free are scanned.
 */
const BUSY_SWEEP_INTERVAL_MS = 5
const MIN_FREE_SHARE = 0.25
/** A scan is slow while many jobs wait since a switch. At most this share of the time is spent in scans. */
const MAX_SCAN_SHARE = 0.2
/** The longest pause after a slow scan. Jobs that an operator releases during a pause wait until its end. */
const MAX_PAUSE_MS = 10_000
/**
 * How long scans leave leases that have just lapsed alone after the database failed: first, the workers that have the
 * answers settle them. That takes them the driver's longest backoff, a second, and the longest delay between two tries.
 */
const AFTER_FAILURE_MS = 3000
/** How long scans are usually slow after a slow one, and how many times as long a scan may take then. */
const USUALLY_SLOW_MS = 60_000
const AS_SLOW = 3
const WATCHDOG_TIMEOUT_MS = 10_000
/** The longest pause after slow checks of the watchdog, which also measure the age of the oldest due job. */
const MAX_WATCHDOG_PAUSE_MS = 30_000
const NONE_DUE = { ids: [], overdue: 0, others: 0, after: null }

type SweepOptions = {
  queue: Queue
  queues: readonly string[]
  performer: Performer
  concurrencyOf: (queue: string) => number
  watchdog: Watchdog
}

/**
 * Claims due jobs from the database: jobs whose wake-up was lost, or all due jobs while the queue is down. One
 * statement serves all queues. The sweep claims from each queue only as many jobs as this worker has free slots for;
 * other due jobs stay in the database.
 */
export function startSweep(
  context: WorkerContext,
  { queue, queues, performer, concurrencyOf, watchdog }: SweepOptions,
): Loop {
  /** What a switch of the database holds is not recent, nor is all that waits while the queue is down. */
  const reach = createScanReach('jobs', () => context.database.isHeld() || queue.isDown())
  const rounds: Record<ScanKind, Rounds> = {
    all: createRounds(queues),
    recent: createRounds(queues),
    without_wakeup: createRounds(queues),
  }
  let busy = false
  /** Whether the last scan found jobs that only full scans find, or was a slow full one: the next one is full too. */
  let repeats_full = false
  let swept_at = 0
  let failed_at = -Infinity
  let scan_ms = 0
  const tookUnusuallyLong = createSlownessCheck()

  // Whether the next scan may begin after the longer idle interval. Set when a scan begins, because a scan before the
  // longer interval must already claim the jobs whose wake-ups would count as lost before the next scan.
  let idle = false

  async function scan(): Promise<void> {
    if (!context.database.isCurrent()) return
    const in_time = performance.now() - swept_at < SWEEP_INTERVAL_MS
    const min_room = (name: string) => (in_time ? Math.ceil(concurrencyOf(name) * MIN_FREE_SHARE) : 1)
    const open_queues = queues.filter((name) => performer.room(name) >= min_room(name))
    if (open_queues.length === 0) return
    const is_full = queue.isDown() || idle || repeats_full || open_queues.some(isFullScanDue)
    const kind: ScanKind = is_full ? reach.next() : 'without_wakeup'
    const round_of = rounds[kind]
    const scans = open_queues.map((name) => {
      const room = performer.room(name)
      const share = performer.shares.remainingQuota(name, room)
      return { queue: name, room, after: round_of.get(name)!.after, share }
    })
    if (!in_time) swept_at = performance.now()
    idle = !queue.isDown() && performer.idleFor() > IDLE_AFTER_MS
    const grace_ms = queue.isDown() ? 0 : idle ? OVERDUE_MS - IDLE_SWEEP_INTERVAL_MS : OVERDUE_MS
    const began_at = performance.now()
    busy = false
    for (const name of open_queues) round_of.get(name)!.began_at = began_at
    const leaves_lapsed = began_at - Math.max(failed_at, performer.databaseFailedAt()) < AFTER_FAILURE_MS
    const options = { names: JOB_NAMES, grace_ms, leaves_lapsed, kind }
    const measure = () => {
      scan_ms = performance.now() - began_at
    }
    const found = await findDue(context.sql, scans, options).catch((error: unknown) => {
      // A scan that the database did not answer has cost the database nothing.
      if (isDatabaseFailure(error)) failed_at = performance.now()
      else measure()
      throw error
    })
    measure()
    if (tookUnusuallyLong(scan_ms)) {
      failed_at = performance.now()
      repeats_full = is_full
      // The next scan leaves lapsed leases alone, so its jobs are claimed however slow it is.
      if (!leaves_lapsed) return
    }
    repeats_full = false
    for (const { queue: name, room, share } of scans) {
      // A paused queue is not in the result.
      const { ids, overdue, others, after } = found.find((result) => result.queue === name) ?? NONE_DUE
      const round = round_of.get(name)!
      repeats_full ||= others > 0
      round.more ||= ids.length > 0 && ids.length >= Math.min(room, minRemainingQuota(share))
      if (after === null) Object.assign(round, { had_more: round.more, more: false })
      round.after = after
      if (overdue > 0) {
        metrics.directClaims.inc({ queue: name }, overdue)
        if (!queue.isDown()) watchdog.missed(name)
      }
      for (const id of ids) void performer.perform({ id, queue: name, by: 'scan' })
    }
    if (kind !== 'without_wakeup' && isIdleRound(found)) reach.measured(kind, scan_ms, countOf(found))
    busy = [...round_of.values()].some(({ more, had_more }) => more || had_more)
  }

  /** A round through many tenants takes several scans. A queue without free slots is due as soon as it has one. */
  function isFullScanDue(name: string): boolean {
    const { after, began_at } = rounds[reach.next()].get(name)!
    return after !== null || performance.now() - began_at >= FULL_SWEEP_INTERVAL_MS
  }

  const interval_ms = () =>
    Math.max(
      busy ? BUSY_SWEEP_INTERVAL_MS : idle ? IDLE_SWEEP_INTERVAL_MS : SWEEP_INTERVAL_MS,
      context.database.isCurrent() && context.database.isHeld() ? pauseWhileHeld(scan_ms) : 0,
    )
  const loop = repeat(context.log, 'direct claims', interval_ms, scan)
  // The jobs that follow the first job after idle time are found without a delay.
  performer.onFirstJob(() => {
    idle = false
    loop.runNow()
  })
  return loop
}

/**
 * Returns whether a scan took so long that the database may have failed. Beside an old snapshot, each full scan may
 * take seconds: a slow scan is repeated, and if the repetition is as slow, that is usual for a while.
 */
function createSlownessCheck(): (took_ms: number) => boolean {
  let usual_ms = 0
  let last_slow = { ms: 0, at: -Infinity }
  let was_slow = false
  return (took_ms) => {
    const repeats_slow = was_slow
    was_slow = took_ms > SLOW_STATEMENT_MS
    if (!was_slow) return false
    const now = performance.now()
    if (now - last_slow.at > USUALLY_SLOW_MS) usual_ms = 0
    const is_unusual = took_ms > AS_SLOW * usual_ms
    // The repetition itself still counts as unusual: the database may have been slow for both.
    if (repeats_slow) usual_ms = Math.max(usual_ms, Math.min(last_slow.ms, took_ms))
    last_slow = { ms: took_ms, at: now }
    return is_unusual
  }
}

/** Whether a scan ends its round through the tenants, and found no job that only full scans find. */
function isIdleRound(found: DueJobs[]): boolean {
  return found.every(({ after, others }) => after === null && others === 0)
}

function countOf(found: DueJobs[]): number {
  return found.reduce((sum, { ids }) => sum + ids.length, 0)
}

/** The pause after a scan that took this long, while a switch of the database holds jobs. */
function pauseWhileHeld(scan_ms: number): number {
  return Math.min((scan_ms * (1 - MAX_SCAN_SHARE)) / MAX_SCAN_SHARE, MAX_PAUSE_MS)
}

/**
 * For each queue: the tenant after which the scan continues, whether more jobs were found than claimed in the current
 * round through the tenants (`more`) and in the previous round (`had_more`), and when its last scan began.
 */
type Rounds = Map<string, { after: string | null; more: boolean; had_more: boolean; began_at: number }>

function createRounds(queues: readonly string[]): Rounds {
  return new Map(
    queues.map((name) => [name, { after: null, more: false, had_more: false, began_at: -Infinity }]),
  )
}

/** The remaining quota of the busiest tenant. If a scan claims this many jobs, more jobs may be due. */
function minRemainingQuota(share: TenantShare | undefined): number {
  return share === undefined ? Infinity : share.left - Math.max(0, ...Object.values(share.claimed))
}

export type Watchdog = Loop & {
  /** Records that a job of this queue was overdue: its wake-up was lost. */
  missed(queue: string): void
}

/**
 * Restarts the consumer of a queue if it receives no wake-ups although some were sent: jobs are repeatedly overdue, or
 * of live tenants wait although every tenant has free slots. Jobs that the sweep claims do not prove that the consumer
 * works.
 */
export function startWatchdog(
  context: WorkerContext,
  {
    queues,
    performer,
    restart,
  }: { queues: readonly string[]; performer: Performer; restart: (queue: string) => Promise<void> },
): Watchdog {
  /** When a wake-up was first and last missed since the last wake-up arrived. */
  const misses = new Map<string, { first: number; last: number }>()
  const pauseAfter = createScanPause(MAX_WATCHDOG_PAUSE_MS)
  let pause_ms = 0

  async function check(): Promise<void> {
    const began_at = performance.now()
    const ages = new Map(
      (await findOldestDue(context.sql, queues, JOB_NAMES)).map(({ queue, age_s }) => [queue, age_s]),
    )
    pause_ms = pauseAfter(performance.now() - began_at)
    for (const name of queues) {
      const age_s = ages.get(name) ?? 0
      metrics.oldestDue.set({ queue: name }, age_s)
      const silent_ms = performance.now() - performer.lastWakeUpAt(name)
      const missed = misses.get(name)
      const missing = missed !== undefined && missed.last - missed.first >= WATCHDOG_TIMEOUT_MS
      const free = performer.room(name) > 0 && !performer.shares.hasUsedUpQuota(name)
      const waiting = age_s * 1000 >= WATCHDOG_TIMEOUT_MS && free
      if (silent_ms < WATCHDOG_TIMEOUT_MS || !(missing || waiting)) continue
      context.log.error(
        { queue: name, age_s, silent_ms },
        'no wake-ups arrive although jobs are due: restarting the consumer',
      )
      metrics.watchdog.inc({ queue: name })
      misses.delete(name)
      await restart(name)
    }
  }

  return {
    ...repeat(context.log, 'watchdog', () => Math.max(WATCHDOG_TIMEOUT_MS / 2, pause_ms), check),
    missed(name) {
      const now = performance.now()
      const missed = misses.get(name)
      if (missed === undefined || missed.first < performer.lastWakeUpAt(name))
        misses.set(name, { first: now, last: now })
      else missed.last = now
    },
  }
}
