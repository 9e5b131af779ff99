// Validates Twilio's message resource and converts it.
import type { MessageInstance } from 'twilio/lib/rest/api/v2010/account/message.js'
import { SMS } from '#core/config/providers.ts'
import { NoAnswer } from '../http.ts'
import type { ProviderSms } from '../sms.ts'
import { twilioFailure } from './failures.ts'
import { smsStatusOf, STATUS_PATTERN } from './statuses.ts'

type Field = 'sid' | 'status' | 'errorCode' | 'errorMessage' | 'price' | 'priceUnit'

/**
 * Converts a message. Throws NoAnswer if it has no valid id, because the SDK's types do not prove what an answer
 * contains.
 */
export function readSms(message: MessageInstance): ProviderSms {
  const {
    sid,
    status: reported_status,
    errorCode,
    errorMessage,
    price,
    priceUnit,
  } = message as { [Each in Field]: unknown }
  if (typeof sid !== 'string' || !SMS.reference.test(sid))
    throw new NoAnswer('unreadable answer: no message SID', { sent: true })
  const provider_status =
    typeof reported_status === 'string' && STATUS_PATTERN.test(reported_status) ? reported_status : ''
  const status = smsStatusOf(provider_status) ?? 'sending'
  const amount = typeof price === 'string' ? /^-?(\d{1,12}(?:\.\d{1,12})?)$/.exec(price)?.[1] : undefined
  return {
    reference: sid,
    status,
    provider_status,
    failure:
      status === 'failed' || status === 'undelivered'
        ? twilioFailure(
            typeof errorCode === 'number' ? errorCode : null,
            typeof errorMessage === 'string' ? errorMessage : '',
          )
        : null,
    price:
      amount !== undefined && typeof priceUnit === 'string' && /^[a-z]{3}$/i.test(priceUnit)
        ? { amount, currency: priceUnit.toUpperCase() }
        : null,
  }
}
