// Bells and outcomes: what travels through the queue. Postgres is the truth about both; either may be lost or doubled.
import { bells_a_job } from './settings.ts'

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** Some more than the longest of ours. */
const MAX_BELL_CHARACTERS = 64 * (bells_a_job + 1)
const MAX_MESSAGE_CHARACTERS = 65_536
const MAX_STATE_CHARACTERS = 32

/** Tells that the job row `id` waits in `queue`. */
export type Bell = { id: string; queue: string }

/** The terminal state that a job row reached. */
export type OutcomeHint = { id: string; state: string }

/** What BullMQ keeps: the ids of the rows of one batch of bells. */
export type BellData = { ids: string[] }

/**
 * The BullMQ jobs for some bells, several bells each: the conveyor's cost is by job, and what is rung for together is
 * claimed together. They have no id of ours, because BullMQ ignores a job whose id it still holds, without a word.
 */
export function toJobs(bells: Bell[]): { name: string; data: BellData }[] {
  const ids = bells.map(({ id }) => id)
  const jobs: { name: string; data: BellData }[] = []
  while (ids.length > 0) jobs.push({ name: 'bells', data: { ids: ids.splice(0, bells_a_job) } })
  return jobs
}

/** Of what somebody has put into the backend, the ids of a bell; none where it is none of ours. Never throws. */
export function decodeBell(text: string): string[] {
  const data = text.length > MAX_BELL_CHARACTERS ? undefined : parsed(text)
  if (typeof data !== 'object' || data === null || !('ids' in data)) return []
  const { ids } = data
  return Array.isArray(ids) && ids.length <= bells_a_job && ids.every(isId) ? ids : []
}

/** Messages of at most `max_bytes` each. */
export function encodeOutcomes(outcomes: OutcomeHint[], max_bytes: number): string[] {
  const messages: string[] = []
  let parts: string[] = []
  let bytes = 0
  for (const { id, state } of outcomes) {
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

/** Of what anybody may have published, the outcomes. */
export function decodeOutcomes(message: string): OutcomeHint[] {
  const values = message.length > MAX_MESSAGE_CHARACTERS ? undefined : parsed(message)
  return Array.isArray(values) ? values.filter(isOutcome).map(({ id, state }) => ({ id, state })) : []
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

function isOutcome(value: unknown): value is OutcomeHint {
  if (typeof value !== 'object' || value === null || !('id' in value) || !('state' in value)) return false
  return isId(value.id) && typeof value.state === 'string' && value.state.length <= MAX_STATE_CHARACTERS
}
