// Stories of email and SMS: canceled while they wait, and told of by who delivers them, in any order and more than once.
import { boolean, constantFrom, record } from 'fast-check'
import type { Channel } from '#core/addresses.ts'
import { SMS } from '#core/config/providers.ts'
import { freshKey } from '#test/client.ts'
import { emailNotifier } from '../notifications/email.ts'
import { twilioNotifier } from '../notifications/twilio.ts'
import { inAnHour } from '../things.ts'
import { statusOf, whenIn, type Move, type Noun } from './noun.ts'

/** At the emulators: kept, refused, refused after it was read, and lost after it was taken. */
const DOMAINS = ['example.com', 'example.com', 'bounce.example', 'reject.example', 'lost.example']
const NUMBERS = ['+14155550123', '+14155550123', '+15005550001', '+15005550500', '+15005550599']

/** An email of which we hear so; of an SMS nothing that anybody knows. */
function emailTold(type: string, bounce?: 'hard' | 'soft'): Move {
  return {
    by: 'notifier',
    notifier: emailNotifier,
    notice: ({ id: message_id, to: [address] }) => ({
      target: '/email',
      type: 'application/json',
      body: JSON.stringify({
        type: `email.${type}`,
        data: { message_id, address, ...(bounce && { bounce, diagnostic: '550 5.1.1' }) },
      }),
    }),
  }
}

/** An SMS of which we hear so. */
function smsTold(MessageStatus: string): Move {
  return {
    by: 'notifier',
    notifier: twilioNotifier,
    notice: ({ id, to, provider_reference }) => ({
      target: `/twilio?m=${id}`,
      type: 'application/x-www-form-urlencoded',
      body: new URLSearchParams({
        // An email has no such id; then it is told of a message that is no SMS.
        MessageSid: SMS.reference.test(provider_reference)
          ? provider_reference
          : `SM${id.replaceAll('-', '')}`,
        MessageStatus,
        To: String(to),
      }).toString(),
    }),
  }
}

export const messages: Noun = {
  name: 'messages',
  drawn: record({
    channel: constantFrom('email', 'sms'),
    domain: constantFrom(...DOMAINS),
    number: constantFrom(...NUMBERS),
    scheduled: boolean(),
  }),
  async begin(ask, { channel, domain, number, scheduled }: Drawn) {
    const content =
      channel === 'email'
        ? { to: [`${freshKey()}@${domain}`], subject: 'Hello', text: 'Hello' }
        : { to: number, body: 'Hello' }
    const { body } = await ask('POST', `/v1/messages/${channel}`, {
      idempotency_key: freshKey(),
      ...content,
      ...(scheduled && { send_at: inAnHour() }),
    })
    const id: unknown = body.id ?? body.error?.context?.message_id
    if (typeof id !== 'string') throw new Error(`there is no message: ${JSON.stringify(body)}`)
    return `/v1/messages/${id}`
  },
  moves: {
    cancel: {
      by: 'tenant',
      path: ({ id }) => `/v1/messages/${id}/cancel`,
      may: whenIn(['scheduled', 'queued'], [200, 409]),
    },
    'hard bounce': emailTold('bounced', 'hard'),
    'soft bounce': emailTold('bounced', 'soft'),
    complaint: emailTold('complained'),
    'email delivered': emailTold('delivered'),
    'sms sent': smsTold('sent'),
    'sms delivered': smsTold('delivered'),
    'sms undelivered': smsTold('undelivered'),
    'sms failed': smsTold('failed'),
  },
  stateOf: statusOf,
  next: {
    scheduled: ['queued', 'canceled'],
    queued: ['sending', 'suppressed', 'canceled'],
    sending: ['sent', 'failed', 'unknown'],
    unknown: ['sent', 'delivered', 'undelivered', 'failed'],
    sent: ['delivered', 'undelivered'],
    // What came back was not delivered after all.
    delivered: ['undelivered'],
    // Who said that it was not taken may have been wrong.
    failed: ['sent'],
    undelivered: ['delivered'],
    suppressed: [],
    canceled: [],
  },
}

type Drawn = { channel: Channel; domain: string; number: string; scheduled: boolean }
