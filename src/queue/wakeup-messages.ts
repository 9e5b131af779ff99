// Wake-ups and states: the messages of the queue. Both may be lost or repeated, because Postgres is the source of
// truth.
import { wakeups_per_job } from './settings.ts'

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** The maximum length of a wake-up message: a little more than our longest message. */
const MAX_WAKEUP_CHARACTERS = 64 * (wakeups_per_job + 1)
const MAX_MESSAGE_CHARACTERS = 65_536
const MAX_STATE_CHARACTERS = 32

/** A wake-up: the job `id` waits in `queue`. */
export type WakeUp = { id: string; queue: string }

/** The state of a finished or unknown job, as its worker publishes it. */
export type PublishedState = { id: string; state: string }

/** The data of a BullMQ job: the ids of the job rows of one batch of wake-ups. */
export type WakeUpData = { ids: string[] }

/**
 * The BullMQ jobs for some wake-ups, with several wake-ups each: BullMQ's cost is per job, and wake-ups of one BullMQ
 * job are claimed together. BullMQ assigns their ids: it silently ignores a job with an id that it still stores.
 */
export function toJobs(wakeups: WakeUp[]): { name: string; data: WakeUpData }[] {
  const ids = wakeups.map(({ id }) => id)
  const jobs: { name: string; data: WakeUpData }[] = []
  while (ids.length > 0) jobs.push({ name: 'wakeups', data: { ids: ids.splice(0, wakeups_per_job) } })
  return jobs
}

/** The job ids of a wake-up from the backend; empty if another program has sent the wake-up. Never throws. */
export function decodeWakeUp(text: string): string[] {
  const data = text.length > MAX_WAKEUP_CHARACTERS ? undefined : parsed(text)
  if (typeof data !== 'object' || data === null || !('ids' in data)) return []
  const { ids } = data
  return Array.isArray(ids) && ids.length <= wakeups_per_job && ids.every(isId) ? ids : []
}

/** Encodes states as messages of at most `max_bytes` each. */
export function encodeStates(states: PublishedState[], max_bytes: number): string[] {
  const messages: string[] = []
  let parts: string[] = []
  let bytes = 0
  for (const { id, state } of states) {
    const part = JSON.stringify({ id, state })
    const part_bytes = Buffer.byteLength(part) + 1
    if (parts.length > 0 && bytes + part_bytes + 1 > max_bytes) {
      messages.push(`[${parts.join(',')}]`)
      parts = []
      bytes = 0
    }
    parts.push(part)
    bytes += part_bytes
  }
  if (parts.length > 0) messages.push(`[${parts.join(',')}]`)
  return messages
}

/** The states in a published message. Other content is ignored, because any client of the backend may publish. */
export function decodeStates(message: string): PublishedState[] {
  const values = message.length > MAX_MESSAGE_CHARACTERS ? undefined : parsed(message)
  return Array.isArray(values) ? values.filter(isPublishedState).map(({ id, state }) => ({ id, state })) : []
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && ID.test(value)
}

function isPublishedState(value: unknown): value is PublishedState {
  if (typeof value !== 'object' || value === null || !('id' in value) || !('state' in value)) return false
  return isId(value.id) && typeof value.state === 'string' && value.state.length <= MAX_STATE_CHARACTERS
}
