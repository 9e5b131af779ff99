// Accepts a message, or refuses it as Twilio does.
import { scheduleSmsProgress } from './progress.ts'
import {
  storeSms,
  storeSmsEffect,
  acceptedSmsCount,
  newSid,
  type SentSms,
  type TwilioEmulator,
} from './emulator.ts'
import { smsInvalid, twilioFailed } from './errors.ts'
import { checkMessage } from './parameters.ts'

const NUMBER = /^\+[1-9]\d{6,14}$/
const SENDER = /^(?:\+[1-9]\d{6,14}|\d{3,6}|(?=.*[A-Za-z])[A-Za-z0-9 &_+-]{1,11})$/
/** Maximum length of a body in UTF-16 units (error 21617). */
const MAX_BODY_LENGTH = 1600
const MAX_URL_LENGTH = 4000
/** Maximum validity period in seconds. */
const MAX_VALIDITY_S = 36_000

/** Recipients that trigger a refusal: Twilio's test numbers, and one that triggers a 500. */
const REFUSED_RECIPIENTS: Readonly<Record<string, (from: string) => Error>> = {
  '+15005550001': () => invalidNumber('+15005550001'),
  '+15005550002': (from) =>
    smsInvalid(
      21612,
      `The 'To' phone number: +15005550002, is not currently reachable using the 'From' phone number: ${from} via SMS.`,
    ),
  '+15005550003': () =>
    smsInvalid(
      21408,
      "Permission to send an SMS has not been enabled for the region indicated by the 'To' number: +15005550003",
    ),
  '+15005550004': unsubscribed,
  '+15005550009': () => smsInvalid(21614, "'To' number: +15005550009, is not a mobile number"),
  '+15005550500': twilioFailed,
}
/** A message to this number is accepted, and the answer is lost. */
export const LOST_NUMBER = '+15005550599'

/** Senders that trigger a refusal. */
const REFUSED_SENDERS: Readonly<Record<string, () => Error>> = {
  '+15005550001': () => smsInvalid(21212, "Invalid 'From' Phone Number: +15005550001"),
  '+15005550007': () =>
    smsInvalid(
      21606,
      "The 'From' phone number provided (+15005550007) is not a valid message-capable number",
    ),
  '+15005550008': () =>
    smsInvalid(21611, "This 'From' number has exceeded the maximum number of queued messages"),
}

/** Creates a message from the form of a request. Throws SmsRefusal with Twilio's error code if it is refused. */
export function createMessage(emulator: TwilioEmulator, form: URLSearchParams): SentSms {
  checkMessage(form)
  const to = form.get('To') ?? ''
  const from = form.get('From') || null
  const service = form.get('MessagingServiceSid') || null
  const body = form.get('Body') ?? ''
  const callback_url = form.get('StatusCallback') || null
  if (to === '') throw smsInvalid(21604, "A 'To' phone number is required.")
  if (!NUMBER.test(to)) throw invalidNumber(to)
  const sender = checkSender(from, service)
  if (sender === to) throw smsInvalid(21266, "'To' and 'From' number cannot be the same")
  if (body === '') throw smsInvalid(21602, 'Message body is required.')
  if (body.length > MAX_BODY_LENGTH)
    throw smsInvalid(21617, 'The concatenated message body exceeds the 1600 character limit')
  if (callback_url !== null && !isWebAddress(callback_url))
    throw smsInvalid(21609, `The 'StatusCallback' URL ${callback_url} is not a valid URL.`)
  const validity = form.get('ValidityPeriod') ?? '1'
  if (!/^\d+$/.test(validity) || Number(validity) < 1 || Number(validity) > MAX_VALIDITY_S)
    throw smsInvalid(20001, `The 'ValidityPeriod' ${validity} is not between 1 and ${MAX_VALIDITY_S}.`)
  const refusal = REFUSED_RECIPIENTS[to]?.(sender)
  if (refusal !== undefined) throw refusal
  if (emulator.opted_out.has(optOutKeyOf(to, sender))) throw unsubscribed()
  return acceptSms(emulator, { to, from, messaging_service_sid: service, body, callback_url })
}

/** Returns the sender or the messaging service; throws SmsRefusal if it is invalid. */
function checkSender(from: string | null, service: string | null): string {
  if (service !== null) {
    if (!/^MG[0-9a-fA-F]{32}$/.test(service))
      throw smsInvalid(21701, `The Messaging Service ${service} does not exist`)
    return service
  }
  if (from === null) throw smsInvalid(21603, "A 'From' phone number is required.")
  const refusal = REFUSED_SENDERS[from]?.()
  if (refusal !== undefined) throw refusal
  if (!SENDER.test(from))
    throw smsInvalid(
      21212,
      `The 'From' number ${from} is not a valid phone number, shortcode, or alphanumeric sender ID.`,
    )
  return from
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

function invalidNumber(to: string): Error {
  return smsInvalid(21211, `The 'To' number ${to} is not a valid phone number.`)
}

function unsubscribed(): Error {
  return smsInvalid(21610, 'Attempt to send to unsubscribed recipient')
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
