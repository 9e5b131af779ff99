// The message: an email or SMS, its schema in rows, answers and events.
import { z } from 'zod'
import { CHANNELS } from '#core/addresses.ts'
import { EMAIL, SMS } from '#core/config/providers.ts'
import { MESSAGE_FAILURES } from '#core/outcome.ts'
import { timestamp } from '#core/time.ts'
import { idFields, keyField, lastFields } from '../fields.ts'

/** The channel of a message, as a field and as a filter. */
export const messageChannel = z
  .enum(CHANNELS)
  .meta({ id: 'MessageChannel', description: 'How it goes.', example: 'email' })

/** Statuses in which nothing of a message is settled yet. */
export const OPEN_MESSAGE_STATUSES = ['scheduled', 'queued', 'sending', 'unknown'] as const
export const MESSAGE_STATUSES = [
  ...OPEN_MESSAGE_STATUSES,
  'sent',
  'delivered',
  'undelivered',
  'failed',
  'canceled',
  'suppressed',
] as const

/** The status of a message, as a field and as a filter. */
export const messageStatus = z.enum(MESSAGE_STATUSES).meta({
  id: 'MessageStatus',
  description:
    '`scheduled`: it goes at `send_at`. `queued`: it waits for its turn. `sending`: the provider is being asked. `sent`: the provider has taken it. `delivered`: it has arrived. `undelivered`: the provider took it, and it did not arrive. `failed`: the provider did not take it. `unknown`: the provider may or may not have it; it is never sent again by itself. `suppressed`: all of its recipients are suppressed, nothing left. `canceled`: by you, before it left.',
  example: 'sent',
})
export type MessageStatus = z.output<typeof messageStatus>

/** Whether nothing of a message of this status is settled yet. */
export const isOpenStatus = (status: MessageStatus): boolean =>
  (OPEN_MESSAGE_STATUSES as readonly MessageStatus[]).includes(status)

const recipientStatus = z.enum(['accepted', 'refused', 'bounced', 'suppressed', 'delivered']).meta({
  id: 'MessageRecipientStatus',
  description:
    '`accepted`: the server took it for this recipient. `refused`: it did not. `bounced`: it came back later, or was complained about. `suppressed`: nothing was sent. `delivered`: it arrived.',
  example: 'accepted',
})

/** A recipient of an email in answers. */
const recipientSchema = z
  .object({
    address: z.string().meta({ description: 'The address.', example: 'ada@example.com' }),
    status: recipientStatus.nullable().meta({ description: 'What became of it; null while nothing did.' }),
    code: z
      .string()
      .nullable()
      .meta({ description: 'The code of the server, if it refused.', example: null }),
    message: z.string().nullable().meta({ description: 'The same for people.', example: null }),
  })
  .meta({ id: 'MessageRecipient', description: 'One of those whom an email goes to.' })

/** A message in events: without addresses and texts, which are personal and kept in one place only. */
export const messageEventSchema = z
  .object({
    ...idFields('message', '0198f6f6-2b1d-7000-8000-123456789abc'),
    idempotency_key: keyField('order-17-shipped'),
    channel: messageChannel,
    status: messageStatus,
    tags: z.array(z.string()).meta({ description: 'Your words to find it by.', example: ['shipping'] }),
    provider: z.string().meta({ description: 'Who sends it.', example: EMAIL.provider }),
    provider_reference: z.string().nullable().meta({
      description: "The provider's id of an SMS, or the Message-ID of an email; null until it was sent.",
      example: EMAIL.examples.email,
    }),
    failure: z
      .object({
        code: z.enum(MESSAGE_FAILURES).meta({
          id: 'MessageFailureCode',
          description:
            '`recipient_refused`, `sender_refused`, `content_refused`: what the server did not take. `connection_failed`: the server could not be reached, or refused us. `invalid_number`, `opted_out`, `unreachable`: of the number. `provider_error`: anything else. `not_resolved`: whether it was sent could not be found out.',
          example: 'recipient_refused',
        }),
        message: z.string().meta({ description: 'The same for people.', example: 'No such mailbox.' }),
        provider_code: z
          .string()
          .nullable()
          .meta({ description: "The provider's own code.", example: '550 5.1.1' }),
      })
      .meta({ id: 'MessageFailure', description: 'Why a message was not sent or did not arrive.' })
      .nullable()
      .meta({ description: 'Why it was not sent or did not arrive; null otherwise.', example: null }),
    segments: z.int().nullable().meta({
      description: 'Of an SMS: into how many parts it is cut, each of which is charged.',
      example: null,
    }),
    encoding: z
      .enum(['GSM-7', 'UCS-2'])
      .nullable()
      .meta({ description: 'Of an SMS: how its characters are written.', example: null }),
    price: z
      .object({
        amount: z.string().meta({ description: 'A decimal number.', example: '0.0075' }),
        currency: z.string().meta({ description: 'In upper case.', example: 'USD' }),
      })
      .meta({ id: 'MessagePrice', description: 'What the provider charges.' })
      .nullable()
      .meta({ description: 'Of an SMS: what it cost; null until the provider says so.', example: null }),
    send_at: timestamp.nullable().meta({ description: 'When it is to go; null: at once.', example: null }),
    sent_at: timestamp.nullable().meta({ description: 'When the provider took it.' }),
    delivered_at: timestamp
      .nullable()
      .meta({ description: 'When the provider says that it arrived.', example: null }),
    redacted_at: timestamp
      .nullable()
      .meta({ description: 'When its text and attachments were erased.', example: null }),
    ...lastFields('messages'),
  })
  .meta({ id: 'MessageEventData', description: 'The message as it then stood, without addresses and texts.' })

const text = (description: string, example: string | null) =>
  z.string().nullable().meta({ description, example })

/** What is sealed in the column `envelope`. Addresses as they were given. */
export const messageEnvelope = z.object({
  from: z.string().meta({ description: 'Whom it is from.', example: 'Shop <mail@shop.example>' }),
  to: z
    .array(z.string())
    .meta({ description: 'Whom it goes to; of an SMS the number.', example: ['ada@example.com'] }),
  cc: z.array(z.string()).nullable().meta({ description: 'Whom an email also goes to.', example: null }),
  bcc: z
    .array(z.string())
    .nullable()
    .meta({ description: 'Whom an email also goes to, unseen by the others.', example: null }),
  reply_to: text('Where answers to an email go.', null),
  subject: text('Of an email.', 'Your order has shipped'),
  list_unsubscribe_url: text('Where somebody unsubscribes with one click (RFC 8058).', null),
})
export type MessageEnvelope = z.output<typeof messageEnvelope>

/** What is sealed in the column `content`. */
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
        .meta({ id: 'MessageAttachment', description: 'A file that goes with an email.' }),
    )
    .nullable()
    .meta({ description: 'The files that go with an email.', example: null }),
  validity_s: z
    .int()
    .nullable()
    .meta({ description: 'For how many seconds an SMS is worth delivering.', example: null }),
})
export type MessageContent = z.output<typeof messageContent>

/** A message in answers. */
export const messageSchema = messageEventSchema
  .extend({
    ...messageEnvelope.shape,
    to: z.union([z.string(), z.array(z.string())]).meta({
      description: 'Whom it goes to: addresses of an email, the number of an SMS.',
      example: ['ada@example.com'],
    }),
    from: messageEnvelope.shape.from,
    ...messageContent.shape,
    recipients: z.array(recipientSchema).nullable().meta({ description: 'Of an email: each of them.' }),
  })
  .meta({
    id: 'Message',
    description: 'An email or SMS. Texts and attachments are null in lists, and once they are erased.',
  })
export type Message = z.output<typeof messageSchema>

/** What a row says of a recipient; `address` is a hash. In the order of to, cc and bcc. */
export type StoredRecipient = {
  address: string
  status: z.output<typeof recipientStatus> | null
  code: string | null
  message: string | null
}

/** A message as it is read from its row. */
export type MessageRow = z.output<typeof messageEventSchema> & {
  envelope: string
  content: string | null
  recipients: StoredRecipient[]
}

/** The provider of each channel. */
export const PROVIDER_OF = { email: EMAIL.provider, sms: SMS.provider } as const

/** The events of messages, by the word after `message.`, each with its meaning. */
export const MESSAGE_EVENTS = {
  created: 'A message was accepted; `status` says whether it is queued, scheduled or suppressed.',
  sent: 'The provider took it.',
  delivered: 'The provider says that it arrived.',
  undelivered: 'The provider took it, and it did not arrive.',
  failed: 'The provider did not take it.',
  unknown: 'Whether the provider took it is not known.',
  suppressed: 'All of its recipients were suppressed before it could leave.',
  canceled: 'It was canceled before it left.',
  bounced: 'It came back from a recipient.',
  complained: 'A recipient complained about it.',
} as const
