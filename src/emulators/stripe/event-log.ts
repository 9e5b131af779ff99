// The log of events: every one that there was, in the order in which they happened.
import type { Version } from './versions.ts'

export type StoredEvent = {
  id: string
  type: string
  /** Unix seconds. */
  created: number
  object: Version
  /** The version before, where Stripe says what changed. */
  previous: Version | null
  request_id: string | null
  idempotency_key: string | null
  /** Not yet delivered. */
  pending: boolean
}

export type EventLog = { list: StoredEvent[]; indexOf: Map<string, number> }

export function emptyEventLog(): EventLog {
  return { list: [], indexOf: new Map() }
}

export function appendEvent(log: EventLog, event: StoredEvent): void {
  log.indexOf.set(event.id, log.list.push(event) - 1)
}
