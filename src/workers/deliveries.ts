// Sends events: sequences them, claims due deliveries from the backlogs of endpoints and performs them.
import type { Sql } from '#core/db.ts'
import { completeRecoveries, continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import type { BacklogPosition, ScannedBacklogs } from '#domain/deliveries/backlogs.ts'
import {
  FIRST_BACKLOG,
  claimDeliveries,
  type NextScan,
  type ClaimedDeliveries,
} from '#domain/deliveries/claim.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import type { Queue } from '#queue/queue.ts'
import { repeatWhileCurrent, type Loop, type MustEnd } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPace } from './pace.ts'
import type { Performer } from './perform.ts'
import { POLL_INTERVAL_MS, type HasWork } from './polled-work.ts'
import { createSequencer } from './sequencer.ts'

/** The interval between two pages of a scan. */
const PAGE_INTERVAL_MS = 50
/** The interval between two claims while there is more work than one statement does. */
const BUSY_INTERVAL_MS = 1
/** The pause between two scans of all backlogs, unless they are empty. */
const SCAN_INTERVAL_MS = 200
/**
 * The pause after two claims that took longer than usual, in times of the lesser excess: beside an old snapshot, a
 * claim reads each delivery that was due since. The limit is short, because a claim takes only as many deliveries of
 * an endpoint as it may receive at once: one if the endpoint is ordered or fails.
 */
const PAUSE_OF_CLAIM = { times: 9, max_ms: 2_000 }
const USUAL_CLAIM_MS = { in_all: 50, of_delivery: 2 }
/** The interval of the loop for changed backlogs while none has changed: each change shortens it. */
const UNCHANGED_INTERVAL_MS = 60_000
/** The maximum number of concurrent attempts at an unproven endpoint: one that has not answered fast yet. */
const UNPROVEN_WINDOW = 10
/**
 * The share of the slots that all unproven endpoints together may use. `of_more`: the share for second and further
 * attempts at one endpoint.
 */
const UNPROVEN_SHARE = { of_all: 0.5, of_more: 0.25 }

type DeliveryOptions = {
  queue: Queue
  performer: Performer
  worker: string
  concurrency: number
  hasWork: HasWork
}

/**
 * One worker at a time sequences events; a lock excludes the others. Each worker claims as many deliveries as it has
 * room for: at once from changed backlogs, and by a regular scan of all backlogs.
 */
export function deliverEvents(context: WorkerContext, options: DeliveryOptions): Loop[] {
  const { sql } = context
  const { hasWork } = options
  const backlogs = createBacklogs(() => scanning_changed.runNow())
  const sequencer = createSequencer(context, options, (tenants) => {
    context.idleness.recordWork()
    backlogs.changed(tenants)
    if (tenants.length === 0) return
    scan.expectWork()
    scanning_all.runNow()
  })
  const claimer = createClaimer(context, options, backlogs)
  const scan = createScan(hasWork, claimer.claim)
  const sequencing = repeatWhileCurrent(
    context,
    'sequencing events',
    () => sequencer.intervalMs(),
    () => sequencer.sequence(),
  )
  const scanning_changed = repeatWhileCurrent(
    context,
    'claiming deliveries of changed backlogs',
    () => (backlogs.isEmpty() ? UNCHANGED_INTERVAL_MS : Math.max(BUSY_INTERVAL_MS, claimer.pauseMs())),
    async () => await scanChanged(backlogs, claimer.claim),
  )
  // The regular scan has a loop of its own, so that new events do not wait for it.
  const scanning_all = repeatWhileCurrent(
    context,
    'claiming deliveries',
    () => Math.max(scan.intervalMs(), claimer.pauseMs()),
    () => scan.next(),
  )
  const recovering = repeatWhileCurrent(
    context,
    'recovering deliveries',
    () => POLL_INTERVAL_MS,
    async (mustEnd) => {
      if (await hasWork('recoveries')) await recover(sql, mustEnd)
    },
  )
  return [sequencing, scanning_changed, scanning_all, recovering]
}

/** The backlogs to scan before the regular scan reaches them. */
type Backlogs = {
  isEmpty(): boolean
  /** Adds the backlogs of tenants whose events have new deliveries. */
  changed(tenants: string[]): void
  /**
   * Schedules the next scan of a backlog that waited for the end of an attempt. The backlog of an unproven endpoint
   * waits for the regular scan instead.
   */
  attemptEnded(backlog: BacklogPosition, is_proven: boolean): void
  /**
   * Schedules the next scan of a backlog; null: the regular scan suffices. A timer that is already set stays, because
   * it fires soon.
   */
  scheduleScan(backlog: BacklogPosition, when: NextScan): void
  /** Returns and clears the backlogs to scan. */
  drain(): { backlogs: BacklogPosition[]; tenants: string[] }
}

function createBacklogs(wake: () => void): Backlogs {
  /** The backlogs to scan, by endpoint id. */
  const backlogs = new Map<string, BacklogPosition>()
  const tenants = new Set<string>()
  /** The endpoints whose backlog has a scheduled scan: after the end of an attempt, or by a timer. */
  const planned = new Map<string, 'after_attempt' | 'timer'>()

  function scanSoon(backlog: BacklogPosition): void {
    backlogs.set(backlog.endpoint_id, backlog)
    wake()
  }

  return {
    isEmpty: () => backlogs.size === 0 && tenants.size === 0,
    changed(ids) {
      for (const id of ids) tenants.add(id)
      wake()
    },
    attemptEnded(backlog, is_proven) {
      if (planned.get(backlog.endpoint_id) === 'after_attempt' && is_proven) scanSoon(backlog)
    },
    scheduleScan(backlog, when) {
      const { endpoint_id } = backlog
      if (planned.get(endpoint_id) === 'timer') return
      if (when === null) planned.delete(endpoint_id)
      else if (when === 'after_attempt') planned.set(endpoint_id, when)
      else {
        planned.set(endpoint_id, 'timer')
        const scanNow = () => {
          planned.delete(endpoint_id)
          scanSoon(backlog)
        }
        setTimeout(scanNow, Math.max(BUSY_INTERVAL_MS, when.in_ms)).unref()
      }
    },
    drain() {
      const drained = { backlogs: [...backlogs.values()], tenants: [...tenants] }
      backlogs.clear()
      tenants.clear()
      return drained
    },
  }
}

/** Claims due deliveries of these backlogs and begins to perform them. Undefined if the worker has no room. */
type Claim = (scanned: ScannedBacklogs) => Promise<ClaimedDeliveries | undefined>

function createClaimer(
  { sql, database }: WorkerContext,
  { performer, worker, concurrency }: DeliveryOptions,
  backlogs: Backlogs,
): { claim: Claim; pauseMs(): number } {
  const pace = createPace()
  let paused_until = -Infinity
  let last_excess_ms = 0

  async function perform(
    performed: Promise<void>,
    backlog: BacklogPosition,
    begins_in_ms: number,
  ): Promise<void> {
    const end = pace.begin(backlog.endpoint_id, begins_in_ms)
    await performed
    end()
    backlogs.attemptEnded(backlog, pace.isProven(backlog.endpoint_id))
  }

  async function claim(scanned: ScannedBacklogs): Promise<ClaimedDeliveries | undefined> {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0 || !database.isCurrent()) return undefined
    const requested_at = performance.now()
    const share = performer.shares.remainingQuota(sendDelivery.queue, room)
    const freeSlots = (share_of_slots: number) =>
      Math.max(0, Math.floor(concurrency * share_of_slots) - pace.unproven())
    const unproven = {
      window: UNPROVEN_WINDOW,
      room: freeSlots(UNPROVEN_SHARE.of_all),
      room_for_more: freeSlots(UNPROVEN_SHARE.of_more),
    }
    const claimed = await claimDeliveries(sql, scanned, {
      worker,
      room,
      share,
      proven: (id) => pace.isProven(id),
      last_at: (id) => pace.lastAt(id),
      unproven,
    })
    const usual_ms =
      USUAL_CLAIM_MS.in_all + USUAL_CLAIM_MS.of_delivery * (claimed.jobs.length + claimed.dropped)
    const excess_ms = performance.now() - requested_at - usual_ms
    const pause_ms = PAUSE_OF_CLAIM.times * Math.min(last_excess_ms, excess_ms)
    paused_until = performance.now() + Math.min(pause_ms, PAUSE_OF_CLAIM.max_ms)
    last_excess_ms = excess_ms
    for (const { job, backlog, begins_in_ms } of claimed.jobs)
      void perform(performer.performClaimed(job, requested_at, begins_in_ms), backlog, begins_in_ms)
    for (const { backlog, next_scan } of claimed.scanned) backlogs.scheduleScan(backlog, next_scan)
    return claimed
  }

  return { claim, pauseMs: () => Math.max(0, paused_until - performance.now()) }
}

async function scanChanged(backlogs: Backlogs, claim: Claim): Promise<void> {
  if (backlogs.isEmpty()) return
  const drained = backlogs.drain()
  const claimed = await claim(drained)
  if (claimed === undefined) return
  const scanned = new Set(claimed.scanned.map(({ backlog }) => backlog.endpoint_id))
  // Nothing is due in the backlogs that are not in the result.
  for (const backlog of drained.backlogs)
    if (!scanned.has(backlog.endpoint_id)) backlogs.scheduleScan(backlog, null)
}

/** The regular scan of all backlogs, a page at a time. */
function createScan(hasWork: HasWork, claim: Claim) {
  let after = FIRST_BACKLOG
  let more_dropped = false
  let is_empty = false
  let is_expected = false
  return {
    /** Records that the backlogs have new deliveries: the next scan does not ask. */
    expectWork() {
      is_empty = false
      is_expected = true
    },
    intervalMs() {
      if (more_dropped) return BUSY_INTERVAL_MS
      if (after !== FIRST_BACKLOG) return PAGE_INTERVAL_MS
      return is_empty ? POLL_INTERVAL_MS : SCAN_INTERVAL_MS
    },
    async next(): Promise<void> {
      if (after === FIRST_BACKLOG && !is_expected) {
        // A scan of empty backlogs would run three statements for nothing.
        is_empty = !(await hasWork('deliveries'))
        if (is_empty) return
      }
      is_expected = false
      const claimed = await claim({ after })
      // Without room the next run scans the same page.
      if (claimed === undefined) return
      after = claimed.after ?? FIRST_BACKLOG
      more_dropped = claimed.dropped > 0
    },
  }
}

async function recover(sql: Sql, mustEnd: MustEnd): Promise<void> {
  for (let more = true; more && !mustEnd();) {
    try {
      more = await continueRecovery(sql)
    } finally {
      // A recovery completes even if other recoveries fail or have steps left.
      await completeRecoveries(sql)
    }
  }
}
