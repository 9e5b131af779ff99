// Bells and outcomes: what travels through the queue. Postgres is the truth about both; either may be lost or doubled.

/**
 * Tells that the job row `id` waits in `queue`; `from` is the process that waits for its outcome, if any. A bell whose id
 * BullMQ still holds is ignored by it, without a word: then that one is heard, or the row is claimed directly.
 */
export type Bell = { id: string; queue: string; from?: string | null }

/** The terminal state that a job row reached. */
export type JobOutcome = { id: string; state: string }

/** What BullMQ keeps of a bell: ids only. */
export type BellData = { id: string; from: string | null }

/** Messages of at most `max_bytes` each. */
export function encodeOutcomes(outcomes: JobOutcome[], max_bytes: number): string[] {
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
export function decodeOutcomes(message: string): JobOutcome[] {
  let values: unknown
  try {
    values = JSON.parse(message)
  } catch {
    return []
  }
  return Array.isArray(values) ? values.filter(isOutcome).map(({ id, state }) => ({ id, state })) : []
}

function isOutcome(value: unknown): value is JobOutcome {
  if (typeof value !== 'object' || value === null || !('id' in value) || !('state' in value)) return false
  return typeof value.id === 'string' && typeof value.state === 'string'
}
