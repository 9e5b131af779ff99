// Sends events: gives them their sequences, claims due deliveries from the backlogs of their endpoints and performs them.
import type { Sql } from '#core/db.ts'
import { completeRecoveries, continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import type { BacklogPosition, ScannedBacklogs } from '#domain/deliveries/backlogs.ts'
import {
  FIRST_BACKLOG,
  hasBacklog,
  claimDeliveries,
  type NextScan,
  type ClaimedDeliveries,
} from '#domain/deliveries/claim.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import type { Queue } from '#queue/queue.ts'
import { repeat, type Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPace } from './pace.ts'
import type { Performer } from './perform.ts'
import { createSequencer } from './sequencer.ts'

/** The interval at which backlogs that have changed are visited, while there are none. */
const IDLE_INTERVAL_MS = 50
/** The interval while there is more to do than one pass does. */
const BUSY_INTERVAL_MS = 1
/** Between two scans of all backlogs. */
const SCAN_INTERVAL_MS = 200
const RECOVERY_INTERVAL_MS = 1_000
/** An endpoint gets so many attempts at once before it has answered soon, ... */
const UNPROVEN_WINDOW = 10
/** ... and all such endpoints together get this part of the slots; for the second and more at one of them there is less. */
const UNPROVEN_SHARE = { of_all: 0.5, of_more: 0.25 }

type DeliveryOptions = { queue: Queue; performer: Performer; worker: string; concurrency: number }

/**
 * One worker at a time sequences events; the others find it locked. Every worker claims deliveries, as many as it has
 * room for: soon from backlogs that have changed, and by a scan from all others.
 */
export function deliverEvents(context: WorkerContext, options: DeliveryOptions): Loop[] {
  const { sql, log } = context
  let closing = false
  const wake = () => {
    if (!closing) visiting.runNow()
  }
  const backlogs = createBacklogs(wake)
  const sequencer = createSequencer(context, options, (tenants) => backlogs.changed(tenants))
  const claim = createClaimer(context, options, backlogs)
  const scan = createScan(sql, claim)
  const sequencing = repeat(
    log,
    'sequencing events',
    () => sequencer.intervalMs(),
    () => sequencer.sequence(),
  )
  const visiting = repeat(
    log,
    'taking deliveries from lines that moved',
    () => (backlogs.isEmpty() ? IDLE_INTERVAL_MS : BUSY_INTERVAL_MS),
    async () => await visit(backlogs, claim),
  )
  // However many backlogs there are, it visits no more of them in a second: new events are not left to it.
  const scanning = repeat(
    log,
    'taking deliveries',
    () => scan.intervalMs(),
    () => scan.next(),
  )
  const recovering = repeat(
    log,
    'recovering deliveries',
    () => RECOVERY_INTERVAL_MS,
    async () => await recover(sql, () => closing),
  )
  return [
    {
      async close() {
        closing = true
        await Promise.all([sequencing, visiting, scanning, recovering].map((loop) => loop.close()))
      },
    },
  ]
}

/** The backlogs that are visited soon. */
type Backlogs = {
  isEmpty(): boolean
  /** Events of these tenants have new deliveries. */
  changed(tenants: string[]): void
  /** An attempt has ended, so there is room in the window of its endpoint or, for a slow endpoint, of all such. */
  attemptEnded(backlog: BacklogPosition, is_proven: boolean): void
  /** Visits a backlog again at this time. A timer that is set goes on: it comes soon, whatever is found meanwhile. */
  next_scan(backlog: BacklogPosition, when: NextScan): void
  /** Takes all that wait for a visit. */
  claim(): { backlogs: BacklogPosition[]; tenants: string[] }
}

function createBacklogs(wake: () => void): Backlogs {
  /** By endpoint. */
  const backlogs = new Map<string, BacklogPosition>()
  const tenants = new Set<string>()
  /** Endpoints whose backlog is visited again: when an attempt there ends, or by a timer. */
  const planned = new Map<string, 'after_attempt' | 'timer'>()

  function visitSoon(backlog: BacklogPosition): void {
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
      if (planned.get(backlog.endpoint_id) === 'after_attempt' && is_proven) visitSoon(backlog)
    },
    next_scan(backlog, when) {
      const { endpoint_id } = backlog
      if (planned.get(endpoint_id) === 'timer') return
      if (when === null) planned.delete(endpoint_id)
      else if (when === 'after_attempt') planned.set(endpoint_id, when)
      else {
        planned.set(endpoint_id, 'timer')
        const visitNow = () => {
          planned.delete(endpoint_id)
          visitSoon(backlog)
        }
        setTimeout(visitNow, Math.max(BUSY_INTERVAL_MS, when.in_ms)).unref()
      }
    },
    claim() {
      const claimed = { backlogs: [...backlogs.values()], tenants: [...tenants] }
      backlogs.clear()
      tenants.clear()
      return claimed
    },
  }
}

/** Undefined where there is no room. */
type Claim = (visited: ScannedBacklogs) => Promise<ClaimedDeliveries | undefined>

/** Claims due deliveries of the visited backlogs and begins to perform them. */
function createClaimer(
  { sql }: WorkerContext,
  { performer, worker, concurrency }: DeliveryOptions,
  backlogs: Backlogs,
): Claim {
  const pace = createPace()

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

  return async (visited) => {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0) return undefined
    const requested_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const left = (share_of_slots: number) =>
      Math.max(0, Math.floor(concurrency * share_of_slots) - pace.unproven())
    const unproven = {
      window: UNPROVEN_WINDOW,
      room: left(UNPROVEN_SHARE.of_all),
      room_for_more: left(UNPROVEN_SHARE.of_more),
    }
    const claimed = await claimDeliveries(sql, visited, {
      worker,
      room,
      share,
      proven: (id) => pace.isProven(id),
      last_at: (id) => pace.lastAt(id),
      unproven,
    })
    for (const { job, backlog, begins_in_ms } of claimed.jobs)
      void perform(performer.performClaimed(job, requested_at, begins_in_ms), backlog, begins_in_ms)
    for (const { backlog, next_scan } of claimed.scanned) backlogs.next_scan(backlog, next_scan)
    return claimed
  }
}

async function visit(backlogs: Backlogs, claim: Claim): Promise<void> {
  if (backlogs.isEmpty()) return
  const visited = backlogs.claim()
  const claimed = await claim(visited)
  if (claimed === undefined) return
  const scanned = new Set(claimed.scanned.map(({ backlog }) => backlog.endpoint_id))
  // Nothing is due in the others.
  for (const backlog of visited.backlogs)
    if (!scanned.has(backlog.endpoint_id)) backlogs.next_scan(backlog, null)
}

/** Scans all backlogs, a part at a time. */
function createScan(sql: Sql, claim: Claim) {
  let after = FIRST_BACKLOG
  let more_dropped = false
  return {
    intervalMs: () =>
      more_dropped ? BUSY_INTERVAL_MS : after === FIRST_BACKLOG ? SCAN_INTERVAL_MS : IDLE_INTERVAL_MS,
    async next(): Promise<void> {
      if (after === FIRST_BACKLOG && !(await hasBacklog(sql))) return
      const claimed = await claim({ after })
      // Without room it goes on where it was.
      if (claimed === undefined) return
      after = claimed.after ?? FIRST_BACKLOG
      more_dropped = claimed.dropped > 0
    },
  }
}

async function recover(sql: Sql, closed: () => boolean): Promise<void> {
  for (let more = true; more && !closed();) {
    try {
      more = await continueRecovery(sql)
    } finally {
      // No recovery stays open because others have steps left, or fail.
      await completeRecoveries(sql)
    }
  }
}
