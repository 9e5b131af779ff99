// Scenarios of email and SMS: canceled while they wait, and reported by their providers in any order and more than
// once.
import { boolean, constantFrom, record } from 'fast-check'
import type { Channel } from '#core/addresses.ts'
import { freshKey } from '#test/client.ts'
import { emailNotifier } from '../notifications/email.ts'
import { inAnHour } from '../fixtures.ts'
import { statusOf, allowedInStatuses, type Move, type ResourceModel } from './resource.ts'

/**
 * Domains of recipients. The emulator accepts the email, refuses the recipient, refuses the content, or stores the
 * email and cuts the connection.
 */
const DOMAINS = ['example.com', 'example.com', 'bounce.example', 'reject.example', 'lost.example']
const NUMBERS = ['+14155550123', '+14155550123', '+15005550001', '+15005550500', '+15005550599']

/** Statuses of an email that the server may have accepted. */
const REPORTABLE = ['unknown', 'sent', 'delivered', 'undelivered']

function emailUpdate(type: string, bounce?: 'hard' | 'soft'): Move {
  return {
    by: 'notifier',
    notifier: emailNotifier,
    notice({ id: message_id, channel, status, to }) {
      if (channel !== 'email' || !REPORTABLE.includes(status)) return null
      const data = { message_id, address: to[0], ...(bounce && { bounce, diagnostic: '550 5.1.1' }) }
      const body = JSON.stringify({ type: `email.${type}`, data })
      return { target: '/email', type: 'application/json', body }
    },
  }
}

const smsUpdate = (status: string): Move => ({
  by: 'provider',
  path: (reference) => `/messages/${reference}/settle`,
  status,
})

export const messages: ResourceModel = {
  name: 'messages',
  parameters: record({
    channel: constantFrom('email', 'sms'),
    domain: constantFrom(...DOMAINS),
    number: constantFrom(...NUMBERS),
    scheduled: boolean(),
  }),
  async create(sendRequest, { channel, domain, number, scheduled }: MessageParameters) {
    const content =
      channel === 'email'
        ? { to: [`${freshKey()}@${domain}`], subject: 'Hello', text: 'Hello' }
        : { to: number, body: 'Hello' }
    const { body } = await sendRequest('POST', `/v1/messages/${channel}`, {
      idempotency_key: freshKey(),
      ...content,
      ...(scheduled && { send_at: inAnHour() }),
    })
    const id: unknown = body.id ?? body.error?.context?.message_id
    if (typeof id !== 'string') throw new Error(`no message was created: ${JSON.stringify(body)}`)
    return `/v1/messages/${id}`
  },
  moves: {
    cancel: {
      by: 'tenant',
      path: ({ id }) => `/v1/messages/${id}/cancel`,
      allowedStatuses: allowedInStatuses(['scheduled', 'queued'], [200, 409]),
    },
    'hard bounce': emailUpdate('bounced', 'hard'),
    'soft bounce': emailUpdate('bounced', 'soft'),
    complaint: emailUpdate('complained'),
    'email delivered': emailUpdate('delivered'),
    'sms sent': smsUpdate('sent'),
    'sms delivered': smsUpdate('delivered'),
    'sms undelivered': smsUpdate('undelivered'),
    'sms failed': smsUpdate('failed'),
  },
  stateOf: statusOf,
  provider: 'sms',
  referenceOf: ({ channel, provider_reference }) => (channel === 'sms' ? provider_reference : null),
  next: {
    scheduled: ['queued', 'canceled'],
    queued: ['sending', 'suppressed', 'canceled'],
    sending: ['sent', 'failed', 'unknown'],
    unknown: ['sent', 'delivered', 'undelivered', 'failed'],
    sent: ['delivered', 'undelivered', 'failed'],
    // A delivered email may bounce later.
    delivered: ['undelivered'],
    // A failure may be reported although the message was sent.
    failed: ['sent'],
    undelivered: ['delivered'],
    suppressed: [],
    canceled: [],
  },
}

type MessageParameters = { channel: Channel; domain: string; number: string; scheduled: boolean }
