// Sends events: gives them their sequences, claims due deliveries from the backlogs of their endpoints and performs them.
import type { Sql } from '#core/db.ts'
import { completeRecoveries, continueRecovery } from '#domain/deliveries/continue-recovery.ts'
import type { LinePosition, VisitedLines } from '#domain/deliveries/lines.ts'
import {
  FIRST_LINE,
  isAnythingWaiting,
  takeDeliveries,
  type LookAgain,
  type TakenDeliveries,
} from '#domain/deliveries/take.ts'
import { sendDelivery } from '#jobs/deliveries.ts'
import type { Queue } from '#queue/queue.ts'
import { every, type Loop } from './clock.ts'
import type { WorkerContext } from './context.ts'
import { createPace } from './pace.ts'
import type { Performer } from './perform.ts'
import { createSequencer } from './sequencer.ts'

/** The interval at which backlogs that have changed are visited, while there are none. */
const QUIET_MS = 50
/** The interval while there is more to do than one pass does. */
const BUSY_MS = 1
/** Between two scans of all backlogs. */
const BETWEEN_SCANS_MS = 200
const RECOVERY_MS = 1_000
/** An endpoint gets so many attempts at once before it has answered soon, ... */
const UNPROVEN_WINDOW = 10
/** ... and all such endpoints together get this part of the slots; for the second and more at one of them there is less. */
const UNPROVEN_PART = { of_all: 0.5, of_more: 0.25 }

type DeliveryOptions = { queue: Queue; performer: Performer; worker: string; concurrency: number }

/**
 * One worker at a time sequences events; the others find it locked. Every worker claims deliveries, as many as it has
 * room for: soon from backlogs that have changed, and by a scan from all others.
 */
export function deliverEvents(context: WorkerContext, options: DeliveryOptions): Loop[] {
  const { sql, log } = context
  let closing = false
  const wake = () => {
    if (!closing) visiting.hurry()
  }
  const backlogs = createBacklogs(wake)
  const sequencer = createSequencer(context, options, (tenants) => backlogs.changed(tenants))
  const claim = createClaimer(context, options, backlogs)
  const scan = createScan(sql, claim)
  const sequencing = every(
    log,
    'sequencing events',
    () => sequencer.intervalMs(),
    () => sequencer.sequence(),
  )
  const visiting = every(
    log,
    'taking deliveries from lines that moved',
    () => (backlogs.isEmpty() ? QUIET_MS : BUSY_MS),
    async () => await visit(backlogs, claim),
  )
  // However many backlogs there are, it visits no more of them in a second: new events are not left to it.
  const scanning = every(
    log,
    'taking deliveries',
    () => scan.intervalMs(),
    () => scan.next(),
  )
  const recovering = every(
    log,
    'recovering deliveries',
    () => RECOVERY_MS,
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
  ended(line: LinePosition, is_proven: boolean): void
  /** Visits a backlog again at this time. A timer that is set goes on: it comes soon, whatever is found meanwhile. */
  again(line: LinePosition, when: LookAgain): void
  /** Takes all that wait for a visit. */
  claim(): { lines: LinePosition[]; tenants: string[] }
}

function createBacklogs(wake: () => void): Backlogs {
  /** By endpoint. */
  const lines = new Map<string, LinePosition>()
  const tenants = new Set<string>()
  /** Endpoints whose backlog is visited again: when an attempt there ends, or by a timer. */
  const planned = new Map<string, 'after_attempt' | 'timer'>()

  function visitSoon(line: LinePosition): void {
    lines.set(line.endpoint_id, line)
    wake()
  }

  return {
    isEmpty: () => lines.size === 0 && tenants.size === 0,
    changed(ids) {
      for (const id of ids) tenants.add(id)
      wake()
    },
    ended(line, is_proven) {
      if (planned.get(line.endpoint_id) === 'after_attempt' && is_proven) visitSoon(line)
    },
    again(line, when) {
      const { endpoint_id } = line
      if (planned.get(endpoint_id) === 'timer') return
      if (when === null) planned.delete(endpoint_id)
      else if (when === 'after_attempt') planned.set(endpoint_id, when)
      else {
        planned.set(endpoint_id, 'timer')
        const visitNow = () => {
          planned.delete(endpoint_id)
          visitSoon(line)
        }
        setTimeout(visitNow, Math.max(BUSY_MS, when.in_ms)).unref()
      }
    },
    claim() {
      const claimed = { lines: [...lines.values()], tenants: [...tenants] }
      lines.clear()
      tenants.clear()
      return claimed
    },
  }
}

/** Undefined where there is no room. */
type Claim = (visited: VisitedLines) => Promise<TakenDeliveries | undefined>

/** Claims due deliveries of the visited backlogs and begins to perform them. */
function createClaimer(
  { sql }: WorkerContext,
  { performer, worker, concurrency }: DeliveryOptions,
  backlogs: Backlogs,
): Claim {
  const pace = createPace()

  async function perform(performed: Promise<void>, line: LinePosition, begins_in_ms: number): Promise<void> {
    const end = pace.begin(line.endpoint_id, begins_in_ms)
    await performed
    end()
    backlogs.ended(line, pace.isProven(line.endpoint_id))
  }

  return async (visited) => {
    const room = performer.room(sendDelivery.queue)
    if (room <= 0) return undefined
    const asked_at = performance.now()
    const share = performer.shares.left(sendDelivery.queue, room)
    const left = (part: number) => Math.max(0, Math.floor(concurrency * part) - pace.unproven())
    const unproven = {
      window: UNPROVEN_WINDOW,
      room: left(UNPROVEN_PART.of_all),
      room_for_more: left(UNPROVEN_PART.of_more),
    }
    const taken = await takeDeliveries(sql, visited, {
      worker,
      room,
      share,
      proven: (id) => pace.isProven(id),
      last_at: (id) => pace.lastAt(id),
      unproven,
    })
    for (const { job, line, begins_in_ms } of taken.jobs)
      void perform(performer.performHeld(job, asked_at, begins_in_ms), line, begins_in_ms)
    for (const { line, again } of taken.seen) backlogs.again(line, again)
    return taken
  }
}

async function visit(backlogs: Backlogs, claim: Claim): Promise<void> {
  if (backlogs.isEmpty()) return
  const visited = backlogs.claim()
  const taken = await claim(visited)
  if (taken === undefined) return
  const seen = new Set(taken.seen.map(({ line }) => line.endpoint_id))
  // Nothing is due in the others.
  for (const line of visited.lines) if (!seen.has(line.endpoint_id)) backlogs.again(line, null)
}

/** Scans all backlogs, a part at a time. */
function createScan(sql: Sql, claim: Claim) {
  let after = FIRST_LINE
  let more_dropped = false
  return {
    intervalMs: () => (more_dropped ? BUSY_MS : after === FIRST_LINE ? BETWEEN_SCANS_MS : QUIET_MS),
    async next(): Promise<void> {
      if (after === FIRST_LINE && !(await isAnythingWaiting(sql))) return
      const taken = await claim({ after })
      // Without room it goes on where it was.
      if (taken === undefined) return
      after = taken.after ?? FIRST_LINE
      more_dropped = taken.dropped > 0
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
