// The data of message events. Sender and recipients are opened from the message's row, which alone stores them, sealed.
import { z } from 'zod'
import { bareAddress } from '#core/addresses.ts'
import type { Vault } from '#core/secrets.ts'
import type { Resource } from '../resource.ts'
import {
  messageContent,
  messageEnvelope,
  messageEventSchema,
  messageRowSchema,
  recipientAddresses,
  storedRecipient,
  type MessageEnvelope,
} from './message.ts'
import { messageContext } from './sealed.ts'

/** The stored data of an event: recipients as hashes, each with its outcome. */
export const storedMessageSchema = messageRowSchema.extend({ recipients: z.array(storedRecipient) })

const completingRow = z.object({
  tenant_id: z.string(),
  id: z.string(),
  channel: messageRowSchema.shape.channel,
  envelope: z.string(),
  content: z.string().nullable(),
  recipients: z.array(storedRecipient.pick({ address: true })),
})
type EventRecipients = z.output<typeof messageEventSchema>['recipients']

export const messageCompletion = {
  data: messageEventSchema,
  fields: [...Object.keys(messageEnvelope.shape), 'recipients', 'body'],
  // The content of an email is not read, because it may be long and events do not show it.
  columns: (sql) => sql`
    p.channel, p.envelope, p.recipients, case when p.status = 'received' then p.content end as content,
    false as omits`,
  open(columns, stored, vault) {
    const { content, channel, ...row } = completingRow.parse(columns)
    const envelope = decryptPart(vault, row, 'envelope', row.envelope, messageEnvelope)
    const body = content === null ? null : decryptPart(vault, row, 'content', content, messageContent).body
    if (channel === 'sms') return { ...envelope, to: envelope.to[0]!, recipients: null, body }
    return { ...envelope, recipients: recipientsOf(row.recipients, envelope, stored), body }
  },
} as const satisfies Resource['completion']

function decryptPart<Part>(
  vault: Vault,
  { tenant_id, id }: { tenant_id: string; id: string },
  column: 'envelope' | 'content',
  sealed: string,
  schema: z.ZodType<Part>,
): Part {
  return schema.parse(JSON.parse(vault.open(sealed, messageContext(tenant_id, id, column))))
}

/** The stored recipients of an event, with addresses instead of hashes. */
function recipientsOf(
  row_recipients: { address: string }[],
  envelope: MessageEnvelope,
  stored: unknown,
): EventRecipients {
  const { recipients } = storedMessageSchema.pick({ recipients: true }).parse(stored)
  const addresses = recipientAddresses(envelope)
  const indexes = new Map(row_recipients.map(({ address }, nth) => [address, nth]))
  return recipients.map(({ address: hash, status, code, message }) => {
    const address = bareAddress(addresses[indexes.get(hash)!]!)
    return { address, status, code, message }
  })
}
