// The payload of a delivery: the same bytes in every attempt, until the personal data of the event is erased.
import type { Json } from '#core/db.ts'
import { eventDataView } from '../events.ts'

/** If the payload is larger, its `data` has only the id of the object, and `truncated`. */
const MAX_PAYLOAD_BYTES = 20_000

/**
 * The fields of a payload. `sequence`: null in a test. `created_at`: as in responses. `omits`: the data lacks a
 * value that is too long to be sent.
 */
export type SentEvent = {
  id: string
  type: string
  created_at: string
  sequence: number | null
  tenant_id: string
  livemode: boolean
  data: Json
  omits?: boolean | undefined
}

/** The request body, as JSON of at most 20,000 bytes. */
export function payloadOf({
  id,
  type,
  created_at,
  sequence,
  tenant_id,
  livemode,
  data,
  omits = false,
}: SentEvent): string {
  const about = { id, type, timestamp: created_at, sequence, tenant_id, livemode }
  const full_payload = JSON.stringify({ ...about, data: eventDataView(type, data, livemode) })
  if (!omits && Buffer.byteLength(full_payload) <= MAX_PAYLOAD_BYTES) return full_payload
  return JSON.stringify({ ...about, data: { id: (data as { id: string }).id, truncated: true } })
}
