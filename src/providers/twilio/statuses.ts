// Twilio's words for how far an SMS has come, in ours.
import type { SmsStatus } from '../sms.ts'

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

/** How any word of Twilio's looks, also one that we do not know. */
export const STATUS_PATTERN = /^[a-z_-]{1,32}$/

/** Of a fetched message or a callback; null for a word that is not of an outgoing SMS, or that we do not know. */
export function smsStatusOf(word: string): SmsStatus | null {
  return Object.hasOwn(STATUSES, word) ? STATUSES[word]! : null
}
