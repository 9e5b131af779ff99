// Accepts a message, or refuses it as Twilio does.
import { smsInvalid, smsUnsubscribed } from '#providers/sandbox/sms/refusal.ts'
import { checkRecipient, checkSms } from '#providers/sandbox/sms/rules.ts'
import { scheduleSmsProgress } from './progress.ts'
import {
  storeSms,
  storeSmsEffect,
  acceptedSmsCount,
  newSid,
  type SentSms,
  type TwilioEmulator,
} from './emulator.ts'
import { checkMessage } from './parameters.ts'

const MAX_URL_LENGTH = 4000
/** Maximum validity period in seconds. */
const MAX_VALIDITY_S = 36_000

/** A message to this number is accepted, and the answer is lost. */
export const LOST_NUMBER = '+15005550599'

/** Creates a message from the form of a request. Throws SmsRefusal with Twilio's error code if it is refused. */
export function createMessage(emulator: TwilioEmulator, form: URLSearchParams): SentSms {
  checkMessage(form)
  const to = form.get('To') ?? ''
  const from = form.get('From') || null
  const service = form.get('MessagingServiceSid') || null
  const body = form.get('Body') ?? ''
  const callback_url = form.get('StatusCallback') || null
  const sender = checkSms({ to, from, service, body })
  if (callback_url !== null && !isWebAddress(callback_url))
    throw smsInvalid(21609, `The 'StatusCallback' URL ${callback_url} is not a valid URL.`)
  const validity = form.get('ValidityPeriod') ?? '1'
  if (!/^\d+$/.test(validity) || Number(validity) < 1 || Number(validity) > MAX_VALIDITY_S)
    throw smsInvalid(20001, `The 'ValidityPeriod' ${validity} is not between 1 and ${MAX_VALIDITY_S}.`)
  checkRecipient(to, sender)
  if (emulator.opted_out.has(optOutKeyOf(to, sender))) throw smsUnsubscribed()
  return acceptSms(emulator, { to, from, messaging_service_sid: service, body, callback_url })
}

function acceptSms(
  emulator: TwilioEmulator,
  message: Pick<SentSms, 'to' | 'from' | 'messaging_service_sid' | 'body' | 'callback_url'>,
): SentSms {
  const now_ms = Date.now()
  const sms: SentSms = {
    ...message,
    sid: newSid('SM'),
    direction: 'outbound-api',
    segments: segmentsOf(message.body),
    status: message.messaging_service_sid === null ? 'queued' : 'accepted',
    error_code: null,
    created_ms: now_ms,
    updated_ms: now_ms,
    sent_ms: null,
    is_priced: false,
  }
  storeSms(emulator, sms)
  const message_id = sms.callback_url === null ? null : new URL(sms.callback_url).searchParams.get('m')
  const effect = {
    seq: acceptedSmsCount(emulator) + 1,
    at: new Date(now_ms).toISOString(),
    effect: 'message' as const,
    sid: sms.sid,
    messaging_service_sid: sms.messaging_service_sid,
    segments: sms.segments,
    metadata: message_id === null ? ({} as Record<string, string>) : { message_id },
  }
  storeSmsEffect(emulator, effect)
  emulator.file?.append(effect)
  scheduleSmsProgress(emulator, sms)
  return sms
}

/** The key of an opt-out. `sender`: a number or a messaging service. */
export function optOutKeyOf(recipient: string, sender: string): string {
  return `${recipient} ${sender}`
}

/**
 * Whether Twilio accepts the text as a URL: "URL must contain a valid hostname and underscores are not allowed"
 * (`StatusCallback` in the types of twilio).
 */
function isWebAddress(text: string): boolean {
  const url = text.length <= MAX_URL_LENGTH && /^https?:\/\//.test(text) ? URL.parse(text) : null
  return url !== null && !url.hostname.includes('_')
}

/** The number of segments of a body. It is approximate: GSM characters outside of ASCII count as Unicode. */
function segmentsOf(body: string): number {
  const [single, part] = /^[\n\r\x20-\x7e]*$/.test(body) ? [160, 153] : [70, 67]
  return body.length <= single ? 1 : Math.ceil(body.length / part)
}
