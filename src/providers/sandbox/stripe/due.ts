// Performs scheduled changes when they are due, and moves the clock.
import { openScheduledDispute, resumeDisputes } from './disputes.ts'
import { earliestChange, type ChangeKind } from './due-changes.ts'
import type { Engine } from './engine.ts'
import { redactScheduled, resumeRedactions } from './identity.ts'
import { expireScheduled, resumeHolds } from './payment-intents.ts'
import { movePayout, resumePayouts } from './payouts.ts'
import { nextDueMs, scheduleAt, unschedule } from './schedule.ts'
import { finishTopup, resumeTopups } from './topups.ts'

/** Each does nothing if the object has changed so that the change no longer applies. */
const PERFORM: Record<ChangeKind, (engine: Engine, id: string) => void> = {
  hold: expireScheduled,
  dispute: openScheduledDispute,
  payout: movePayout,
  topup: finishTopup,
  redaction: redactScheduled,
}

/** Performs the changes that are due at this time of the engine's clock or earlier, in order of their time. */
export function runDue(engine: Engine, until_ms: number): void {
  for (;;) {
    const change = earliestChange(engine.schedule)
    if (change === null || change.due_ms > until_ms) return
    unschedule(engine, change.kind, change.id)
    PERFORM[change.kind](engine, change.id)
  }
}

/**
 * Moves the engine's clock. Forward, it performs each change that becomes due at the change's own time. Backward, the
 * delays of changes stay the same, except for holds, which expire at the time that the charge names.
 */
export function moveClock(engine: Engine, by_ms: number): void {
  const { clock, schedule } = engine
  const offset_ms = clock.offset_ms + by_ms
  for (let due_ms = nextDueMs(engine); due_ms !== null; due_ms = nextDueMs(engine)) {
    const step_ms = due_ms - clock.hostMs()
    if (step_ms > offset_ms) break
    clock.offset_ms = Math.max(clock.offset_ms, step_ms)
    runDue(engine, due_ms)
  }
  clock.offset_ms = offset_ms
  engine.journal?.append({ clock: { offset_ms } })
  if (by_ms >= 0) return
  const delayed = [...schedule.byKey.values()].filter(({ kind }) => kind !== 'hold')
  for (const { kind, id, due_ms } of delayed) scheduleAt(engine, { kind, id, due_ms: due_ms + by_ms })
}

/**
 * Schedules what the journal does not: an earlier version wrote no scheduled changes, and a crash may have cut off the
 * last lines. Nothing is due later than if its delay began now.
 */
export function resumeChanges(engine: Engine): void {
  resumeHolds(engine)
  resumeDisputes(engine)
  resumePayouts(engine)
  resumeTopups(engine)
  resumeRedactions(engine)
}
