// Updates of messages, from the calls that send them and from notifications of their providers. Notifications are
// stored without numbers, addresses or texts in clear.
import { z } from 'zod'
import { MESSAGE_FAILURES, type MessageFailure } from '#core/outcome.ts'
import type { NewSuppression } from '../suppressions/settle.ts'
import type { Message, StoredRecipient } from './message.ts'

/**
 * A reported update of a message.
 * - `queued`: this attempt certainly did not send it, and another attempt follows;
 * - `refused`: the provider did not accept it, or could not be reached;
 * - `unknown`: it may have been sent;
 * - `unresolved`: it may have been sent, and lookups have ended;
 * - `sent`: the provider accepted it;
 * - `delivered`, `undelivered`, `failed`: the outcome of an accepted SMS;
 * - `recipient_update`: an email was delivered to a recipient, bounced, or caused a complaint.
 */
export type MessageUpdate = {
  tenant_id: string
  message_id: string
  reported:
    | 'queued'
    | 'refused'
    | 'unknown'
    | 'unresolved'
    | 'sent'
    | 'delivered'
    | 'undelivered'
    | 'failed'
    | 'recipient_update'
  provider_reference: string | null
  /** The reference comes from a search by text, and may belong to another message with the same text. */
  found: boolean
  /** The provider's own status of an SMS. */
  provider_status: string | null
  failure: MessageFailure | null
  price: Message['price']
  /** Outcomes of single recipients of an email. */
  recipients: StoredRecipient[]
  /** The event about changed recipients, if they changed. */
  event: 'message.bounced' | 'message.complained' | 'message.recipients_settled' | null
  suppresses: NewSuppression[]
}

/** The optional fields of an update, all empty. */
export const emptyMessageUpdate: Omit<MessageUpdate, 'tenant_id' | 'message_id' | 'reported'> = {
  provider_reference: null,
  found: false,
  provider_status: null,
  failure: null,
  price: null,
  recipients: [],
  event: null,
  suppresses: [],
}

/** The meanings that a keyword can give an inbound SMS; `other`: the SMS has no keyword. */
const SMS_KEYWORDS = ['opt_out', 'opt_in', 'help', 'other'] as const

const hash = z.string().max(64)

/** The stored payload of a notification about messages: addresses and numbers are hashes. */
export const messageEvent = z.discriminatedUnion('about', [
  z.object({
    about: z.literal('sms'),
    message_id: z.uuid().nullable(),
    reference: z.string(),
    status: z.enum(['sending', 'sent', 'delivered', 'undelivered', 'failed']),
    provider_status: z.string(),
    failure: z
      .object({
        code: z.enum(MESSAGE_FAILURES),
        message: z.string(),
        provider_code: z.string().nullable(),
      })
      .nullable(),
  }),
  z.object({
    about: z.literal('inbound_sms'),
    keyword: z.enum(SMS_KEYWORDS),
    from: hash,
    /** The receiving number, and its messaging service, if any. */
    received_by: z.array(hash),
    /** When the provider received it, if it was read from the provider's list. */
    received_at: z.iso.datetime({ offset: true }).optional(),
    /** The sealed `InboundText`; removed when the notification is applied. */
    text: z.string().optional(),
  }),
  z.object({
    about: z.literal('email'),
    message_id: z.uuid(),
    address: hash,
    reported: z.enum(['delivered', 'hard_bounce', 'soft_bounce', 'complaint']),
    /** The code of a bounce, e.g. `550 5.1.1`. */
    code: z.string().max(64).nullable(),
  }),
])
export type MessageProviderEvent = z.output<typeof messageEvent>
