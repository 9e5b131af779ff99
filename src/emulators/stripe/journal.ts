// The journal: versions, events, stored answers and the clock, appended on change and replayed at start.
import { appendEvent, type EventLog, type StoredEvent } from './event-log.ts'
import type { Idempotency, StoredAnswer } from './idempotency.ts'
import { putVersion, type Store } from './store.ts'
import type { Version } from './versions.ts'

type JournalLine = {
  version?: Version
  event?: Omit<StoredEvent, 'object' | 'previous'> & { object: number; previous: number | null }
  delivered?: string
  answer?: Omit<StoredAnswer, 'content'> & {
    key: string
    text?: string
    object: number
    related: number[]
    expand: string[]
  }
  clock?: { offset_ms: number }
}

/** Returns a function that replays the lines of a journal, oldest first, into an empty state. */
export function replayInto(state: {
  store: Store
  events: EventLog
  idempotency: Idempotency
  clock: { offset_ms: number }
}): (line: unknown) => void {
  const versions = new Map<number, Version>()
  return (value) => {
    const line = value as JournalLine
    if (line.version) {
      versions.set(line.version.revision, line.version)
      putVersion(state.store, line.version)
    } else if (line.event) {
      const { object, previous } = line.event
      appendEvent(state.events, {
        ...line.event,
        object: versions.get(object)!,
        previous: previous === null ? null : versions.get(previous)!,
      })
    } else if (line.delivered !== undefined) {
      state.events.list[state.events.indexOf.get(line.delivered)!]!.pending = false
    } else if (line.answer) {
      const { key, text, object, related, expand, ...rest } = line.answer
      const snapshot = () => ({
        object: versions.get(object)!,
        related: related.map((each) => versions.get(each)!),
        expand,
      })
      state.idempotency.answers.set(key, { ...rest, content: text ?? snapshot() })
    } else if (line.clock) {
      state.clock.offset_ms = line.clock.offset_ms
    }
  }
}
