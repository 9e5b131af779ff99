// Restores the state of an engine from its journal.
import { putChange, removeChange } from './due-changes.ts'
import type { Engine } from './engine.ts'
import { appendEvent } from './event-log.ts'
import { storeAnswer } from './idempotency.ts'
import type { JournalLine } from './journal.ts'
import { putVersion } from './store.ts'
import type { Version } from './versions.ts'

/**
 * Returns a function that replays the lines of a journal, oldest first, into an engine without objects. After the last
 * line, `resumeChanges` schedules what the journal lacks.
 */
export function replayInto({
  store,
  events,
  idempotency,
  schedule,
  clock,
}: Engine): (line: JournalLine) => void {
  const versions = new Map<number, Version>()
  return (line) => {
    if ('version' in line) {
      versions.set(line.version.revision, line.version)
      putVersion(store, line.version)
    } else if ('event' in line) {
      const { object, previous } = line.event
      appendEvent(events, {
        ...line.event,
        object: versions.get(object)!,
        previous: previous === null ? null : versions.get(previous)!,
      })
    } else if ('delivered' in line) {
      events.list[events.indexOf.get(line.delivered)!]!.pending = false
    } else if ('answer' in line) {
      const { key, status, fingerprint, at_ms, request_id } = line.answer
      const content =
        'text' in line.answer
          ? line.answer.text
          : {
              object: versions.get(line.answer.object)!,
              related: line.answer.related.map((each) => versions.get(each)!),
              expand: line.answer.expand,
            }
      storeAnswer(idempotency, key, { status, content, fingerprint, at_ms, request_id })
    } else if ('scheduled' in line) {
      const { kind, id, due_ms } = line.scheduled
      if (due_ms === null) removeChange(schedule, kind, id)
      else putChange(schedule, { kind, id, due_ms })
    } else if ('clock' in line) {
      clock.offset_ms = line.clock.offset_ms
    }
  }
}
