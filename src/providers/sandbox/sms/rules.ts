// Which messages Twilio refuses. Its test numbers trigger refusals.
import { smsInvalid, smsUnsubscribed, twilioFailed } from './refusal.ts'

const NUMBER = /^\+[1-9]\d{6,14}$/
const SENDER = /^(?:\+[1-9]\d{6,14}|\d{3,6}|(?=.*[A-Za-z])[A-Za-z0-9 &_+-]{1,11})$/
/** Maximum length of a body in UTF-16 units (error 21617). */
const MAX_BODY_LENGTH = 1600

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
  '+15005550004': smsUnsubscribed,
  '+15005550009': () => smsInvalid(21614, "'To' number: +15005550009, is not a mobile number"),
  '+15005550500': twilioFailed,
}

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

/** `service`: a messaging service instead of a sender. */
type CheckedSms = { to: string; from: string | null; service: string | null; body: string }

/** Checks recipient, sender and body. Returns the sender or the messaging service; throws SmsRefusal. */
export function checkSms({ to, from, service, body }: CheckedSms): string {
  if (to === '') throw smsInvalid(21604, "A 'To' phone number is required.")
  if (!NUMBER.test(to)) throw invalidNumber(to)
  const sender = checkSender(from, service)
  if (sender === to) throw smsInvalid(21266, "'To' and 'From' number cannot be the same")
  if (body === '') throw smsInvalid(21602, 'Message body is required.')
  if (body.length > MAX_BODY_LENGTH)
    throw smsInvalid(21617, 'The concatenated message body exceeds the 1600 character limit')
  return sender
}

/** Throws SmsRefusal if Twilio refuses messages to this recipient. */
export function checkRecipient(to: string, sender: string): void {
  const refusal = Object.hasOwn(REFUSED_RECIPIENTS, to) ? REFUSED_RECIPIENTS[to]!(sender) : undefined
  if (refusal !== undefined) throw refusal
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

function invalidNumber(to: string): Error {
  return smsInvalid(21211, `The 'To' number ${to} is not a valid phone number.`)
}
