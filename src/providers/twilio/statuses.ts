// Twilio's words for how far an SMS has come, and the SMS that it shows, in ours.
import type { MessageInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS } from '#core/config/providers.ts'
import { NoAnswer } from '../http.ts'
import type { ProviderSms, SmsStatus } from '../sms.ts'
import { failureOf } from './failures.ts'

/** `sending`: Twilio has taken it and not passed it on yet. */
const STATUSES: Readonly<Record<string, SmsStatus>> = {
  accepted: 'sending',
  scheduled: 'sending',
  queued: 'sending',
  sending: 'sending',
  sent: 'sent',
  canceled: 'failed',
  failed: 'failed',
  undelivered: 'undelivered',
  partially_delivered: 'delivered',
  delivered: 'delivered',
  read: 'delivered',
}

/** Of a fetched message or a callback; null for a word that is not of an outgoing SMS, or that we do not know. */
export function smsStatusOf(word: string): SmsStatus | null {
  return Object.hasOwn(STATUSES, word) ? STATUSES[word]! : null
}

/** What Twilio shows, checked before it is believed. */
export function readSms(shown: MessageInstance): ProviderSms {
  // Nothing of an answer is certain to be there.
  const { sid, status: word, errorCode, errorMessage, price, priceUnit }: Partial<MessageInstance> = shown
  if (typeof sid !== 'string' || !SMS.reference.test(sid))
    throw new NoAnswer('unreadable answer: no id of a message', { sent: true })
  const status = smsStatusOf(String(word)) ?? 'sending'
  const amount = /^-?(\d+(?:\.\d+)?)$/.exec(String(price))?.[1]
  return {
    reference: sid,
    status,
    provider_status: String(word ?? ''),
    failure:
      status === 'failed' || status === 'undelivered'
        ? failureOf(Number.isInteger(errorCode) ? errorCode! : null, errorMessage ?? '')
        : null,
    price:
      amount === undefined || !/^[a-z]{3}$/i.test(String(priceUnit))
        ? null
        : { amount, currency: String(priceUnit).toUpperCase() },
  }
}
