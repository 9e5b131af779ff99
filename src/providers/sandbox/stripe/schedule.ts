// Schedules changes that follow an answer, such as decisions of a bank. `due.ts` performs them.
import {
  earliestChange,
  findChange,
  putChange,
  removeChange,
  type ChangeKind,
  type DueChange,
} from './due-changes.ts'
import { nowMs, type Engine } from './engine.ts'

/** Delay of automatic changes: long enough to follow the answer, short enough for interactive use. */
export const SETTLE_DELAY_MS = 40

/** Schedules a change after a delay. It replaces the object's change of the same kind. */
export function scheduleAfter(engine: Engine, kind: ChangeKind, id: string, delay_ms: number): void {
  scheduleAt(engine, { kind, id, due_ms: nowMs(engine) + delay_ms })
}

/** Schedules a change. It replaces the object's change of the same kind. */
export function scheduleAt(engine: Engine, change: DueChange): void {
  putChange(engine.schedule, change)
  engine.journal?.append({ scheduled: change })
  engine.hooks.onScheduled()
}

/** Schedules a change, unless the object's change of the same kind is due earlier. */
export function scheduleBy(engine: Engine, change: DueChange): void {
  const existing = findChange(engine.schedule, change.kind, change.id)
  if (existing === undefined || existing.due_ms > change.due_ms) scheduleAt(engine, change)
}

/** Removes the scheduled change, if there is one. */
export function unschedule(engine: Engine, kind: ChangeKind, id: string): void {
  if (removeChange(engine.schedule, kind, id))
    engine.journal?.append({ scheduled: { kind, id, due_ms: null } })
}

/** When the next scheduled change is due, in unix milliseconds of the engine's clock; null if there is none. */
export function nextDueMs({ schedule }: Engine): number | null {
  return earliestChange(schedule)?.due_ms ?? null
}
