// Example messages: only the fields in which they differ from the examples of the schema.
import { SMS } from '#core/config/providers.ts'

/** A recipient with this outcome. */
export function recipientsOf(status: string | null, { code = null, message = null }: OutcomeReason = {}) {
  return { recipients: [{ address: 'ada@example.com', status, code, message }] }
}
type OutcomeReason = { code?: string | null; message?: string | null }

const NOT_SENT = { provider_reference: null, sent_at: null, ...recipientsOf(null) }
export const MESSAGE_QUEUED = { status: 'queued', ...NOT_SENT }
export const MESSAGE_CANCELED = { status: 'canceled', ...NOT_SENT }
/** A message in a list. */
export const LISTED_MESSAGE = { text: null }

/** An SMS. */
export const SMS_MESSAGE = {
  channel: 'sms',
  from: '+15005550006',
  to: '+4915112345678',
  subject: null,
  text: null,
  body: 'Your order has shipped.',
  tags: [],
  recipients: null,
  segments: 1,
  encoding: 'GSM-7',
  provider: SMS.provider,
  provider_reference: SMS.examples.sms,
}

/** A received SMS in an event. */
export const SMS_RECEIVED = {
  idempotency_key: null,
  channel: 'sms',
  status: 'received',
  from: '+4915112345678',
  to: '+15005550006',
  subject: null,
  body: 'Is it blue?',
  recipients: null,
  tags: [],
  segments: 1,
  encoding: 'GSM-7',
  sent_at: null,
  provider: SMS.provider,
  provider_reference: SMS.examples.sms,
}

export const EMAIL_REQUESTS = {
  email: {
    summary: 'An email',
    value: {
      idempotency_key: 'order-17-shipped',
      to: ['Ada <ada@example.com>'],
      subject: 'Your order has shipped',
      text: 'It is on its way.',
      tags: ['shipping'],
    },
  },
  attached: {
    summary: 'With a file, a header and a link to unsubscribe',
    value: {
      idempotency_key: 'invoice-17',
      to: ['ada@example.com'],
      cc: ['books@example.com'],
      subject: 'Your invoice',
      html: '<p>Thank you.</p>',
      headers: { 'X-Order': 'A-17' },
      attachments: [{ filename: 'invoice.pdf', content_type: 'application/pdf', content: 'JVBERi0xLjQK' }],
      list_unsubscribe_url: 'https://shop.example/unsubscribe/17',
    },
  },
}

export const SMS_REQUESTS = {
  sms: {
    summary: 'An SMS',
    value: {
      idempotency_key: 'order-17-shipped-sms',
      to: '+4915112345678',
      body: 'Your order has shipped.',
    },
  },
}
