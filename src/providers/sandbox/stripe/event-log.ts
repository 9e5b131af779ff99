// The log of all events, in order.
import type { Version } from './versions.ts'

export type StoredEvent = {
  id: string
  type: string
  /** Creation time in unix seconds. */
  created: number
  object: Version
  /** The previous version, if Stripe reports `previous_attributes`. */
  previous: Version | null
  request_id: string | null
  idempotency_key: string | null
  /** Whether the host has yet to deliver the event. */
  pending: boolean
}

export type EventLog = { list: StoredEvent[]; indexOf: Map<string, number> }

export function emptyEventLog(): EventLog {
  return { list: [], indexOf: new Map() }
}

export function appendEvent(log: EventLog, event: StoredEvent): void {
  log.indexOf.set(event.id, log.list.push(event) - 1)
}
