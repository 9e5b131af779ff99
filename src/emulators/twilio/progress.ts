// Status changes of accepted messages: automatic, or by a control.
import type { SentSms, SentSmsStatus, TwilioEmulator } from './emulator.ts'

/** The number that a messaging service chooses. */
const OWN_NUMBER = '+15005550006'

/** Schedules `sent` and `delivered` if `automatic` is on. */
export function scheduleSmsProgress(emulator: TwilioEmulator, sms: SentSms): void {
  const { callbacks, pace_ms } = emulator
  if (!callbacks.settings.automatic) return
  const next = (from: SentSmsStatus[], status: SentSmsStatus, then: () => void) =>
    callbacks.schedule(async () => {
      if (!from.includes(sms.status)) return
      await setSmsStatus(emulator, sms, status)
      then()
    }, pace_ms)
  next(['queued', 'accepted'], 'sent', () => next(['sent'], 'delivered', () => {}))
}

/** Sets any status and sends the status callback. Resolves when the callback is posted, dropped or postponed. */
export async function setSmsStatus(
  { callbacks, account_sid }: TwilioEmulator,
  sms: SentSms,
  status: SentSmsStatus,
  error_code: number | null = null,
): Promise<void> {
  sms.status = status
  sms.error_code = error_code
  sms.updated_ms = Date.now()
  if (status !== 'accepted' && status !== 'queued') sms.from ??= OWN_NUMBER
  if (status === 'sent' || status === 'delivered' || status === 'undelivered') sms.sent_ms ??= sms.updated_ms
  if (status === 'delivered' || status === 'undelivered') sms.is_priced = true
  const { sid, to, from, messaging_service_sid, callback_url } = sms
  if (callback_url === null) return
  await callbacks.send(callback_url, {
    MessageSid: sid,
    MessageStatus: status,
    SmsSid: sid,
    SmsStatus: status,
    AccountSid: account_sid,
    ApiVersion: '2010-04-01',
    To: to,
    ...(from !== null && { From: from }),
    ...(messaging_service_sid !== null && { MessagingServiceSid: messaging_service_sid }),
    ...(error_code !== null && { ErrorCode: String(error_code) }),
  })
}
