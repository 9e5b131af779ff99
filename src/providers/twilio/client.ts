// Twilio's official SDK over our guarded HTTP client.
import assert from 'node:assert/strict'
import type { EndedCall } from '../http.ts'
import type { SmsProvider } from '../sms.ts'

export type TwilioOptions = {
  account_sid: string
  auth_token: string
  /** Null: Twilio's own. */
  api_base: string | null
  onCall?: (call: EndedCall) => void
}

/** The SDK for one account. */
export function openTwilio(_options: TwilioOptions): SmsProvider {
  const fail = () => assert.fail('not built')
  return { sendSms: fail, findSms: fail, searchSms: fail, close: async () => {} }
}
