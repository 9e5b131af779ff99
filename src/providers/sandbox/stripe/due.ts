// Performs scheduled changes when they are due, and moves the clock.
import {
  loseUnansweredDispute,
  openScheduledDispute,
  resumeDisputeDeadlines,
  resumeDisputes,
} from './disputes.ts'
import { earliestChange, type ChangeKind } from './due-changes.ts'
import { nowMs, type Engine } from './engine.ts'
import { redactScheduled, resumeRedactions } from './identity.ts'
import { expireScheduled, resumeHolds } from './payment-intents.ts'
import { movePayout, resumePayouts } from './payouts.ts'
import { nextDueMs, scheduleAt, unschedule } from './schedule.ts'
import { finishTopup, resumeTopups } from './topups.ts'

type KindOfChange = {
  /** Performs the change of an object, or does nothing if the change no longer applies to the object. */
  perform: (engine: Engine, id: string) => void
  /** Schedules the changes of this kind that the journal lacks. */
  resume: (engine: Engine) => void
}

const KINDS: Record<ChangeKind, KindOfChange> = {
  hold: { perform: expireScheduled, resume: resumeHolds },
  dispute: { perform: openScheduledDispute, resume: resumeDisputes },
  dispute_deadline: { perform: loseUnansweredDispute, resume: resumeDisputeDeadlines },
  payout: { perform: movePayout, resume: resumePayouts },
  topup: { perform: finishTopup, resume: resumeTopups },
  redaction: { perform: redactScheduled, resume: resumeRedactions },
}

/** Delay of the next attempt to perform a change that has thrown an exception. */
export const RETRY_DELAY_MS = 24 * 60 * 60 * 1000

/**
 * Performs the changes that are due at this time of the engine's clock or earlier, in order of their time. If a change
 * throws an exception, the change is scheduled again a day later, the host gets the exception, and the others happen.
 * The next attempt does not repeat what was saved before the exception.
 */
export function runDue(engine: Engine, until_ms: number): void {
  for (;;) {
    const change = earliestChange(engine.schedule)
    if (change === null || change.due_ms > until_ms) return
    const { kind, id } = change
    unschedule(engine, kind, id)
    try {
      KINDS[kind].perform(engine, id)
    } catch (error) {
      scheduleAt(engine, { kind, id, due_ms: until_ms + RETRY_DELAY_MS })
      engine.hooks.onFailure(error, change)
    }
  }
}

/**
 * Moves the engine's clock. If it goes forward, each change that becomes due happens at its own time. If it goes back,
 * changes keep their delays, except for those at a time that an object names: the end of a hold, and the deadline of a
 * dispute.
 */
export function moveClock(engine: Engine, by_ms: number): void {
  const { clock } = engine
  const offset_ms = clock.offset_ms + by_ms
  for (let due_ms = nextDueMs(engine); due_ms !== null; due_ms = nextDueMs(engine)) {
    const step_ms = due_ms - clock.hostMs()
    if (step_ms > offset_ms) break
    clock.offset_ms = Math.max(clock.offset_ms, step_ms)
    runDue(engine, due_ms)
  }
  clock.offset_ms = offset_ms
  engine.journal?.append({ clock: { offset_ms } })
  if (by_ms < 0) keepDelays(engine, -by_ms)
}

/** Changes at a time that an object names. */
export const DEADLINES: readonly ChangeKind[] = ['hold', 'dispute_deadline']

/** Keeps the delays of changes after the clock went back: all without a named time are due as much earlier. */
export function keepDelays(engine: Engine, back_ms: number): void {
  const delayed = [...engine.schedule.byKey.values()].filter(({ kind }) => !DEADLINES.includes(kind))
  for (const { kind, id, due_ms } of delayed) scheduleAt(engine, { kind, id, due_ms: due_ms - back_ms })
}

/**
 * Moves the clock until it is this far ahead of the host's, and performs what is due by then. The clock never goes
 * back: a smaller offset changes nothing. For a host whose tenants move their clocks.
 */
export function followClock(engine: Engine, offset_ms: number): void {
  const by_ms = offset_ms - engine.clock.offset_ms
  if (by_ms > 0) moveClock(engine, by_ms)
  runDue(engine, nowMs(engine))
}

/**
 * Schedules the changes that are missing in the journal, because an earlier version wrote it or a crash cut off its
 * last lines. A bank decides at the latest as if its decision was scheduled now, also if an attempt has failed.
 */
export function resumeChanges(engine: Engine): void {
  for (const { resume } of Object.values(KINDS)) resume(engine)
}
