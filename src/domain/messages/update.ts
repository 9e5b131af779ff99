// What is told of messages: by the calls that send them, and by the notifications of their providers, which are stored
// without a number, an address or a text.
import { z } from 'zod'
import { MESSAGE_FAILURES, type MessageFailure } from '#core/outcome.ts'
import type { NewSuppression } from '../suppressions/settle.ts'
import type { Message, StoredRecipient } from './message.ts'

/**
 * What became known of a message.
 * - `queued`: this attempt certainly did not send it, and another follows;
 * - `refused`: the provider did not take it, or nobody could be asked;
 * - `unknown`: it may have been sent; `unresolved`: and this cannot be found out;
 * - `sent`: the provider has taken it;
 * - `delivered`, `undelivered`, `failed`: what became of an SMS that it had taken;
 * - `recipient_update`: an email has reached somebody, or has come back.
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
  /** The reference comes from a search by text: it may be that of another message of the same text. */
  found: boolean
  /** The provider's own word for the state of an SMS. */
  provider_status: string | null
  failure: MessageFailure | null
  price: Message['price']
  /** What became of single recipients of an email. */
  recipients: StoredRecipient[]
  /** The event that says what became of one of them, when that is new. */
  event: 'message.bounced' | 'message.complained' | 'message.recipients_settled' | null
  suppresses: NewSuppression[]
}

/** A report that says nothing of the message but how it stands. */
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

/** What an SMS that a person sent us means, by a word that has a meaning. */
const SMS_WORDS = ['opt_out', 'opt_in', 'help', 'other'] as const

const hash = z.string().max(64)

/** What is stored of a notification about messages: addresses and numbers as hashes. */
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
    about: z.literal('word'),
    word: z.enum(SMS_WORDS),
    from: hash,
    /** The number that received it, and the messaging service that this belongs to, if any. */
    received_by: z.array(hash),
    /** What was sent, an `InboundText`, sealed; gone once it is applied. Before that was kept there was none. */
    text: z.string().optional(),
  }),
  z.object({
    about: z.literal('email'),
    message_id: z.uuid(),
    address: hash,
    reported: z.enum(['delivered', 'hard_bounce', 'soft_bounce', 'complaint']),
    /** Of a bounce, e.g. `550 5.1.1`. */
    code: z.string().max(64).nullable(),
  }),
])
export type MessageProviderEvent = z.output<typeof messageEvent>
