// What survives a restart: versions, events, stored answers and the clock, appended as they happen and read back at start.
import { appendEvent, type EventLog, type StoredEvent } from './events.ts'
import type { Idempotency, StoredAnswer } from './idempotency.ts'
import { remember, type Store, type Version } from './store.ts'

type Line = {
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

/** Replays `lines` into what is empty yet. */
export function replay(
  lines: unknown[],
  into: { store: Store; events: EventLog; idempotency: Idempotency; clock: { offset_ms: number } },
): void {
  const versions = new Map<number, Version>()
  for (const line of lines as Line[]) {
    if (line.version) {
      versions.set(line.version.revision, line.version)
      remember(into.store, line.version)
    } else if (line.event) {
      const { object, previous } = line.event
      appendEvent(into.events, {
        ...line.event,
        object: versions.get(object)!,
        previous: previous === null ? null : versions.get(previous)!,
      })
    } else if (line.delivered !== undefined) {
      into.events.list[into.events.indexOf.get(line.delivered)!]!.pending = false
    } else if (line.answer) {
      const { key, text, object, related, expand, ...rest } = line.answer
      const content = text ?? {
        object: versions.get(object)!,
        related: related.map((each) => versions.get(each)!),
        expand,
      }
      into.idempotency.answers.set(key, { ...rest, content })
    } else if (line.clock) {
      into.clock.offset_ms = line.clock.offset_ms
    }
  }
}
