// The lines of the journal: all changes of the engine's state, in their order. `replay.ts` restores the state.
import type { DueChange } from './due-changes.ts'
import type { StoredEvent } from './event-log.ts'
import type { StoredAnswer } from './idempotency.ts'
import type { Version } from './versions.ts'

/**
 * Where the host keeps the lines. The engine does not change a line that it has appended.
 *
 * - Only one engine writes to a journal. After the lines of another engine, the host replays the whole journal into a
 *   new one: `replay.ts` knows only versions that it has replayed.
 * - The engine calls `append` within a change, so `append` must not throw: state and journal would differ. If a line
 *   cannot be kept, the host remembers that until the call of the engine returns.
 * - If a line or a commit fails, the host discards the engine, and replays the journal into a new one.
 * - The host sends responses, events and effects only after the lines are committed.
 *
 * The emulator does neither of the last two: a crash may cost it the last lines, and a full disk all lines that follow.
 */
export type Journal = { append(line: JournalLine): void }

/** Lines of events and answers refer to versions by their revisions, and follow the lines of these versions. */
export type JournalLine = VersionLine | EventLine | DeliveredLine | AnswerLine | ScheduledLine | ClockLine

/**
 * An object was created or changed. Its id is unique, and the line with the highest revision is its current version.
 * `revision` is unique over all objects and increases from line to line.
 */
type VersionLine = { version: Version }

/**
 * An event was made. Its id is unique. Lists of events have the order of these lines. `object`, `previous`: revisions
 * of the same object; the event shows them as they were.
 */
type EventLine = {
  event: Omit<StoredEvent, 'object' | 'previous'> & { object: number; previous: number | null }
}

/** The host has delivered the event with this id: it is no longer `pending`. */
type DeliveredLine = { delivered: string }

/**
 * The answer of an idempotency key. It replaces the key's earlier answer, if there is one, and is valid until 24 hours
 * after `at_ms` (unix milliseconds, by the clock of records).
 */
type AnswerLine = {
  answer: Omit<StoredAnswer, 'content'> & { key: string } & (TextContent | SnapshotContent)
}

/** The body of an error. */
type TextContent = { text: string }

/** The revisions of the object and of the objects that `expand` includes: each rendering gives the same bytes. */
type SnapshotContent = { object: number; related: number[]; expand: string[] }

/**
 * A change was scheduled. It replaces the earlier line with the same `kind` and `id`. `due_ms` null: nothing is
 * scheduled any more, because the change is about to happen or no longer applies.
 */
type ScheduledLine = { scheduled: Omit<DueChange, 'due_ms'> & { due_ms: number | null } }

/** The clock was moved. The last line applies. `offset_ms`: how far the engine's clock is ahead of the host's. */
type ClockLine = { clock: { offset_ms: number } }
