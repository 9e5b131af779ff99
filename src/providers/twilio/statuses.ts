// Maps Twilio's message statuses to Sluice's.
import type { SmsStatus } from '../sms.ts'

/** Sluice's status for each status of Twilio. `sending`: Twilio has accepted the message, but not yet passed it on. */
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

/** The form of every status, also of statuses that Sluice does not recognize. */
export const STATUS_PATTERN = /^[a-z_-]{1,32}$/

/** The status of an outgoing SMS; null for a status that Sluice does not recognize. */
export function smsStatusOf(provider_status: string): SmsStatus | null {
  return Object.hasOwn(STATUSES, provider_status) ? STATUSES[provider_status]! : null
}
