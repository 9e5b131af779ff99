// Maps Twilio's message statuses to Sluice's.
import type { SmsStatus } from '../sms.ts'

/** `sending`: Twilio has accepted the message and not passed it on yet. */
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

/** The form of any status, including unknown ones. */
export const STATUS_PATTERN = /^[a-z_-]{1,32}$/

/** The status of an outgoing SMS; null for an unknown status. */
export function smsStatusOf(provider_status: string): SmsStatus | null {
  return Object.hasOwn(STATUSES, provider_status) ? STATUSES[provider_status]! : null
}
