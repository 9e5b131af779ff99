// Restores the state of an engine from its journal.
import { putChange, removeChange } from './due-changes.ts'
import type { Engine } from './engine.ts'
import { appendEvent } from './event-log.ts'
import { storeAnswer, type Answer } from './idempotency.ts'
import type { JournalLine } from './journal.ts'
import { putVersion } from './store.ts'
import type { Version } from './versions.ts'

/**
 * Returns a function that replays the lines of a journal, oldest first, into an engine without objects. After the last
 * line, `resumeChanges` schedules what the journal lacks. `versions`: by revision, those of all replayed lines. A host
 * that also replays the lines of others adds the engine's own. What refers to a version that the host has deleted is
 * left out.
 */
export function replayInto(
  { store, events, idempotency, schedule, clock }: Engine,
  versions = new Map<number, Version>(),
): (line: JournalLine) => void {
  return (line) => {
    if ('version' in line) {
      versions.set(line.version.revision, line.version)
      putVersion(store, line.version)
    } else if ('event' in line) {
      const object = versions.get(line.event.object)
      const previous = versions.get(line.event.previous ?? 0) ?? null
      if (object !== undefined) appendEvent(events, { ...line.event, object, previous })
    } else if ('delivered' in line) {
      events.list[events.indexOf.get(line.delivered)!]!.pending = false
    } else if ('answer' in line) {
      const { key, status, fingerprint, at_ms, request_id } = line.answer
      const content = contentOf(line.answer, versions)
      if (content !== null) storeAnswer(idempotency, key, { status, content, fingerprint, at_ms, request_id })
    } else if ('scheduled' in line) {
      const { kind, id, due_ms } = line.scheduled
      if (due_ms === null) removeChange(schedule, kind, id)
      else putChange(schedule, { kind, id, due_ms })
    } else if ('clock' in line) {
      clock.offset_ms = line.clock.offset_ms
    }
  }
}

/** The content of an answer; null if a version of it was deleted. */
function contentOf(
  answer: Extract<JournalLine, { answer: unknown }>['answer'],
  versions: ReadonlyMap<number, Version>,
): Answer['content'] | null {
  if ('text' in answer) return answer.text
  const object = versions.get(answer.object)
  const related = answer.related.map((each) => versions.get(each)).filter((each) => each !== undefined)
  if (object === undefined || related.length < answer.related.length) return null
  return { object, related, expand: answer.expand }
}
