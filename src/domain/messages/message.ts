// The message: an email or SMS, its schema in rows, answers and events.
import { z } from 'zod'
import { CHANNELS } from '#core/addresses.ts'
import { EMAIL, SMS } from '#core/config/providers.ts'
import { MESSAGE_FAILURES } from '#core/outcome.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, trailingFields } from '../fields.ts'

/** The channel of a message, as a field and as a filter. */
export const messageChannel = z
  .enum(CHANNELS)
  .meta({ id: 'Channel', description: 'How the message is sent.', example: 'email' })

/** Statuses in which no outcome of a message is settled yet. */
export const OPEN_MESSAGE_STATUSES = ['scheduled', 'queued', 'sending', 'unknown'] as const
export const MESSAGE_STATUSES = [
  ...OPEN_MESSAGE_STATUSES,
  'sent',
  'delivered',
  'undelivered',
  'failed',
  'canceled',
  'suppressed',
  'received',
] as const

/** The status of a message, as a field and as a filter. */
export const messageStatus = z.enum(MESSAGE_STATUSES).meta({
  id: 'MessageStatus',
  description:
    '`scheduled`: it will be sent at `send_at`. `queued`: it waits to be sent. `sending`: a call to the provider is in progress. `sent`: the provider has accepted it. `delivered`: it has arrived. `undelivered`: the provider accepted it, but it did not arrive. `failed`: the provider did not accept it. `unknown`: the provider may or may not have accepted it; it is never sent again automatically. `suppressed`: all its recipients are suppressed, so nothing was sent. `canceled`: you canceled it before it was sent. `received`: an SMS that somebody sent to you.',
  example: 'sent',
})
export type MessageStatus = z.output<typeof messageStatus>

/** Whether no outcome of a message in this status is settled yet. */
export const isOpenMessageStatus = (status: MessageStatus): boolean =>
  (OPEN_MESSAGE_STATUSES as readonly MessageStatus[]).includes(status)

const recipientStatus = z.enum(['accepted', 'refused', 'bounced', 'suppressed', 'delivered']).meta({
  id: 'MessageRecipientStatus',
  description:
    '`accepted`: the server accepted the email for this recipient. `refused`: the server refused it. `bounced`: it bounced later, or the recipient complained. `suppressed`: nothing was sent. `delivered`: it arrived.',
  example: 'accepted',
})

/** A recipient of an email in answers. */
const recipientSchema = z
  .object({
    address: z.string().meta({ description: 'The address.', example: 'ada@example.com' }),
    status: recipientStatus.nullable().meta({
      description:
        'The outcome for this recipient; null while it is unknown. A recipient that the server deferred has a `code`, and another attempt follows.',
    }),
    code: z.string().nullable().meta({ description: "The server's code, if it refused.", example: null }),
    message: z.string().nullable().meta({ description: 'A description for people.', example: null }),
  })
  .meta({ id: 'MessageRecipient', description: 'A recipient of an email.' })

/** The unsealed columns of a message's row. Addresses and texts are sealed. */
export const messageRowSchema = z.object({
  ...idFields('message', '0198f6f6-2b1d-7000-8000-123456789abc'),
  idempotency_key: keyField('order-17-shipped')
    .nullable()
    .meta({ description: 'The idempotency key that it was sent with; null for an SMS that you received.' }),
  channel: messageChannel,
  status: messageStatus,
  tags: z.array(z.string()).meta({ description: 'Your tags, to filter emails by.', example: ['shipping'] }),
  provider: z.string().meta({ description: 'The provider that sends it.', example: EMAIL.provider }),
  provider_reference: z.string().nullable().meta({
    description: "The provider's id of an SMS, or the Message-ID of an email; null until it is sent.",
    example: EMAIL.examples.email,
  }),
  failure: z
    .object({
      code: z.enum(MESSAGE_FAILURES).meta({
        id: 'MessageFailureCode',
        description:
          '`recipient_refused`, `sender_refused`, `content_refused`: the part that the server did not accept. `connection_failed`: the server was unreachable or refused the connection. `invalid_number`, `opted_out`, `unreachable`: a problem with the number. `provider_error`: anything else. `not_resolved`: whether the message was sent remains unknown.',
        example: 'recipient_refused',
      }),
      message: z.string().meta({ description: 'A description for people.', example: 'No such mailbox.' }),
      provider_code: z
        .string()
        .nullable()
        .meta({ description: "The provider's own code.", example: '550 5.1.1' }),
    })
    .meta({ id: 'MessageFailure', description: 'Why a message was not sent or did not arrive.' })
    .nullable()
    .meta({ description: 'Why it was not sent or did not arrive; null otherwise.', example: null }),
  segments: z.int().nullable().meta({
    description: 'For an SMS: the number of segments. Each is charged.',
    example: null,
  }),
  encoding: z
    .enum(['GSM-7', 'UCS-2'])
    .nullable()
    .meta({ description: 'For an SMS: the encoding of its text.', example: null }),
  price: z
    .object({
      amount: z.string().meta({ description: 'A decimal number.', example: '0.0075' }),
      currency: z.string().meta({ description: 'In upper case.', example: 'USD' }),
    })
    .meta({ id: 'MessagePrice', description: 'What the provider charges.' })
    .nullable()
    .meta({ description: 'For an SMS: its price; null until the provider reports it.', example: null }),
  send_at: timestamp
    .nullable()
    .meta({ description: 'When it will be sent; null means at once.', example: null }),
  sent_at: timestamp.nullable().meta({ description: 'When the provider accepted it.' }),
  delivered_at: timestamp
    .nullable()
    .meta({ description: 'When the provider reported that it arrived.', example: null }),
  redacted_at: timestamp
    .nullable()
    .meta({ description: 'When its text and attachments were erased.', example: null }),
  ...trailingFields('messages'),
})

const text = (description: string, example: string | null) =>
  z.string().nullable().meta({ description, example })

/** The content of the sealed column `envelope`. Addresses are as the caller sent them. */
export const messageEnvelope = z.object({
  from: z.string().meta({ description: 'The sender.', example: 'Shop <mail@shop.example>' }),
  to: z
    .array(z.string())
    .meta({ description: 'The recipients; for an SMS, the number.', example: ['ada@example.com'] }),
  cc: z.array(z.string()).nullable().meta({ description: 'The cc recipients of an email.', example: null }),
  bcc: z
    .array(z.string())
    .nullable()
    .meta({ description: 'The bcc recipients of an email, hidden from the others.', example: null }),
  reply_to: text('The addresses for replies to an email.', null),
  subject: text('The subject of an email.', 'Your order has shipped'),
  list_unsubscribe_url: text('The one-click unsubscribe URL (RFC 8058).', null),
})
export type MessageEnvelope = z.output<typeof messageEnvelope>

/** The content of the sealed column `content`. */
export const messageContent = z.object({
  text: text('The text of an email.', 'It is on its way.'),
  html: text('The HTML of an email.', null),
  body: text('The text of an SMS.', null),
  headers: z
    .record(z.string(), z.string())
    .nullable()
    .meta({ description: 'Additional headers of an email.', example: null }),
  attachments: z
    .array(
      z
        .object({
          filename: z.string().meta({ description: 'Its name.', example: 'invoice.pdf' }),
          content_type: z.string().meta({ description: 'Its media type.', example: 'application/pdf' }),
          size: z.int().meta({ description: 'In bytes.', example: 48_213 }),
        })
        .meta({ id: 'MessageAttachment', description: 'A file attached to an email.' }),
    )
    .nullable()
    .meta({ description: 'The files attached to an email.', example: null }),
  validity_s: z.int().nullable().meta({
    description: 'The time for delivery attempts of an SMS by the provider, in seconds.',
    example: null,
  }),
})
export type MessageContent = z.output<typeof messageContent>

const TO = {
  description: 'The recipients: addresses for an email, the number for an SMS.',
  example: ['ada@example.com'],
}
const to = z.union([z.string(), z.array(z.string())]).meta(TO)

/** A message in events. */
export const messageEventSchema = messageRowSchema
  .extend({
    ...messageEnvelope.shape,
    to: to.nullable().meta(TO),
    from: messageEnvelope.shape.from.nullable(),
    recipients: z.array(recipientSchema).nullable().meta({
      description:
        'For an email: each recipient with its outcome as it was then. In `message.bounced`, `message.complained` and `message.recipients_settled` only those that the event is about.',
    }),
    body: text('The text of an SMS that you received, until it is erased; null in other events.', null),
  })
  .meta({
    id: 'MessageEventData',
    description: 'The message as it was then, without texts except that of an SMS that you received.',
  })

/** A message in answers. */
export const messageSchema = messageRowSchema
  .extend({
    ...messageEnvelope.shape,
    to,
    from: messageEnvelope.shape.from,
    ...messageContent.shape,
    recipients: z
      .array(recipientSchema)
      .nullable()
      .meta({ description: 'For an email: each recipient with its outcome.' }),
  })
  .meta({
    id: 'Message',
    description: 'An email or SMS. Texts and attachments are null in lists, and once they are erased.',
  })
export type Message = z.output<typeof messageSchema>

/** A recipient as its message's row stores it, in the order of to, cc and bcc; `address` is a hash. */
export const storedRecipient = recipientSchema.extend({
  /**
   * The server accepted or refused the email for other recipients, and deferred this one. `waiting`: another attempt
   * follows. `trying`: an attempt is in progress. `unknown`: an attempt whose answer was lost may have been accepted.
   */
  deferred: z.enum(['waiting', 'trying', 'unknown']).optional(),
  /** The number of deferrals since the server accepted the email for other recipients. */
  deferrals: z.int().optional(),
})
export type StoredRecipient = z.output<typeof storedRecipient>

/** A message's row, with sealed columns. */
export type MessageRow = z.output<typeof messageRowSchema> & {
  envelope: string
  content: string | null
  recipients: StoredRecipient[]
}

/** The addresses of an email, in the order of the hashes in its row. */
export function recipientAddresses({ to, cc, bcc }: MessageEnvelope): string[] {
  return [...to, ...(cc ?? []), ...(bcc ?? [])]
}

/** The provider of each channel. */
export const CHANNEL_PROVIDERS = { email: EMAIL.provider, sms: SMS.provider } as const

/** The events of messages: the name after `message.`, and the description. */
export const MESSAGE_EVENTS = {
  created: 'A message was accepted; `status` shows whether it is queued, scheduled or suppressed.',
  sent: 'The provider accepted it.',
  delivered: 'The provider reported that it arrived.',
  undelivered: 'The provider accepted it, but it did not arrive.',
  failed: 'The provider did not accept it.',
  unknown: 'It is not known whether the provider accepted it.',
  suppressed: 'All of its recipients were suppressed before it could be sent.',
  canceled: 'It was canceled before it was sent.',
  bounced: 'It bounced for a recipient.',
  complained: 'A recipient complained about it.',
  recipients_settled:
    'The server accepted or refused deferred recipients, or they were suppressed meanwhile.',
  received: 'You received an SMS from a number to which you sent an SMS.',
} as const
