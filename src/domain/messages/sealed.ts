// The sealing contexts of the parts of a message. Sealing and opening need the same context.
import type { SealingContext } from '#core/secrets.ts'

/** The context of the envelope or the content of a message. */
export function messageContext(
  tenant_id: string,
  id: string,
  column: 'envelope' | 'content',
): SealingContext {
  return { tenant_id, table: 'messages', row: id, column }
}

/** The context of an attachment; `nth`: its index in the list. */
export function attachmentContext(tenant_id: string, message_id: string, nth: number): SealingContext {
  return { tenant_id, table: 'message_attachments', row: `${message_id} ${nth}`, column: 'content' }
}
