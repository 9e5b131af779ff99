// The places to which parts of a message are sealed: sealing and opening must name the same place.
import type { SealedPlace } from '#core/secrets.ts'

/** The place of the envelope or the content of a message. */
export function messagePlace(tenant_id: string, id: string, column: 'envelope' | 'content'): SealedPlace {
  return { tenant_id, table: 'messages', row: id, column }
}

/** The place of an attachment, by its place in the list. */
export function attachmentPlace(tenant_id: string, message_id: string, nth: number): SealedPlace {
  return { tenant_id, table: 'message_attachments', row: `${message_id} ${nth}`, column: 'content' }
}
