// The places to which parts of a message are sealed: sealing and opening must name the same place.
import type { SealingContext } from '#core/secrets.ts'

/** The place of the envelope or the content of a message. */
export function messageContext(
  tenant_id: string,
  id: string,
  column: 'envelope' | 'content',
): SealingContext {
  return { tenant_id, table: 'messages', row: id, column }
}

/** The place of an attachment, by its place in the list. */
export function attachmentContext(tenant_id: string, message_id: string, nth: number): SealingContext {
  return { tenant_id, table: 'message_attachments', row: `${message_id} ${nth}`, column: 'content' }
}
