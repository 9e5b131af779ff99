// Emails that the system writes: a text to one address, sealed like the messages of callers.
import type { AddressHash } from '#core/addresses.ts'
import type { Vault } from '#core/secrets.ts'
import type { MessageContent, MessageEnvelope } from './message.ts'
import type { MessageRequest } from './request.ts'
import { messageContext } from './sealed.ts'
import { messageTerm } from './terms.ts'

/** `subject`: one line of at most 998 characters (`isOneLine`). */
export type TextEmail = { from: string; to: string; subject: string; text: string }

/** The fields of a `MessageRequest` for this email. `Auto-Submitted` prevents automatic replies. */
export function sealTextEmail(
  { vault, hashOf }: { vault: Vault; hashOf: AddressHash },
  { tenant_id, message_id }: Pick<MessageRequest, 'tenant_id' | 'message_id'>,
  { from, to, subject, text }: TextEmail,
) {
  const envelope: MessageEnvelope = {
    from,
    to: [to],
    cc: null,
    bcc: null,
    reply_to: null,
    subject,
    list_unsubscribe_url: null,
  }
  const content: MessageContent = {
    text,
    html: null,
    body: null,
    headers: { 'Auto-Submitted': 'auto-generated' },
    attachments: null,
    validity_s: null,
  }
  const address = hashOf('email', to)
  const sealed = (column: 'envelope' | 'content', part: object) =>
    vault.seal(JSON.stringify(part), messageContext(tenant_id, message_id, column))
  return {
    envelope: sealed('envelope', envelope),
    content: sealed('content', content),
    attachments: [],
    addresses: [address],
    sender: null,
    terms: [messageTerm(tenant_id, 'to', address)],
    tags: [],
    segments: null,
    encoding: null,
  } satisfies Partial<MessageRequest>
}
